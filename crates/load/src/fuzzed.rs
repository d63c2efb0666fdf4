//! The way of a reply from its bytes to its verdict, for the fuzzer: no connection, no clock.

use std::time::{Duration, Instant};

use plimsoll_run::request::{FailureClass, RequestRecord};
use plimsoll_run::target::{CustomDialect, Dialect};

use crate::dialect::Speaker;
use crate::flight::{Buffers, Ending, Flight};
use crate::reply::read;
use crate::secret::Redactor;

/// What a reply turned out to be, as far as it may not depend on how its bytes were cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Its class and message where it failed.
    pub failure: Option<(FailureClass, String)>,
    /// Token-bearing chunks.
    pub chunks: usize,
    /// Prompt tokens by the server.
    pub input_tokens: Option<u32>,
    /// Reply tokens by the server.
    pub output_tokens: Option<u32>,
    /// Why it ended.
    pub finish: Option<String>,
}

/// Reads a reply with this status and content type whose body comes in these pieces. `None` where the content type
/// cannot stand in a header.
pub fn hear<'a>(
    dialect: Dialect,
    status: u16,
    content_type: &[u8],
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Option<Heard> {
    let origin = Instant::now();
    let own = (dialect == Dialect::Custom).then(|| CustomDialect {
        text: "/content".to_owned(),
        output_tokens: Some("/tokens".to_owned()),
        finish: Some("/stop".to_owned()),
        ..CustomDialect::default()
    });
    let speaker = Speaker::new(dialect, own.as_ref());
    let record = RequestRecord::begun(0, 0, Duration::ZERO, Duration::ZERO);
    let mut flight = Flight::new(record, Buffers::default(), origin, &speaker);
    let (head, ()) = http::Response::builder()
        .status(status)
        .header("content-type", content_type)
        .body(())
        .ok()?
        .into_parts();
    flight.headers(head, origin);
    let mut at = Duration::ZERO;
    let mut ending = Ending::Complete;
    for piece in pieces {
        at += Duration::from_millis(1);
        if let Err(broken) = flight.body(piece, origin + at) {
            ending = broken;
            break;
        }
    }
    flight.record.ended = at;
    let chunks = read(&mut flight, &ending, &Redactor::default());
    let record = flight.record;
    Some(Heard {
        failure: record.failure.map(|failure| (failure.class, failure.message)),
        chunks: chunks.len(),
        input_tokens: record.input_tokens,
        output_tokens: record.output_tokens,
        finish: record.finish_reason,
    })
}
