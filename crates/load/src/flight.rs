//! One request in flight: what is noted of it while its reply comes in.
//!
//! Nothing here parses JSON or, once its buffers have grown, allocates.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use http::response::Parts;
use memchr::memmem::Finder;
use plimsoll_run::request::{FailureClass, RequestRecord};

use crate::sse::{self, Splitter};

/// The largest reply kept. No workload asks for one a tenth as large.
const LARGEST: usize = 256 << 20;

/// Where an event ends in the body, and when that end was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Offset just behind the event.
    pub end: usize,
    /// Nanoseconds since the rung's start.
    pub at_ns: u64,
}

/// How a reply ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its body came to a well-formed end.
    Complete,
    /// It said that it was done, but the connection was held open: we closed it.
    HeldOpen,
    /// It failed on the way.
    Failed(FailureClass, String),
}

/// How near its end a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tail {
    /// More is to come.
    Open,
    /// A finish reason was seen; usage may follow.
    Finished,
    /// A finish reason and usage were seen; `[DONE]` may follow.
    Counted,
    /// `[DONE]` was seen; only the end of the body may follow.
    Done,
}

/// Recycled storage of a reply.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// Its events, where it is a stream.
    pub marks: Vec<Mark>,
}

impl Buffers {
    /// Empties it for the next request; what an unusually long reply made it grow to is given back.
    pub(crate) fn recycled(mut self) -> Self {
        self.body.clear();
        self.marks.clear();
        self.body.shrink_to(1 << 20);
        self.marks.shrink_to(1 << 14);
        self
    }
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    /// What is known so far.
    pub record: RequestRecord,
    /// The reply so far.
    pub buffers: Buffers,
    /// Status line and headers.
    pub head: Option<Parts>,
    /// How near its end the stream is.
    pub tail: Tail,
    /// Data events seen, `[DONE]` aside.
    pub events: u64,
    origin: Instant,
    splitter: Splitter,
    split: bool,
}

impl Flight {
    /// A request about to be sent. `origin` is the rung's start.
    pub(crate) fn new(record: RequestRecord, buffers: Buffers, origin: Instant) -> Self {
        Flight {
            record,
            buffers,
            head: None,
            tail: Tail::Open,
            events: 0,
            origin,
            splitter: Splitter::default(),
            split: false,
        }
    }

    /// Time since the rung's start.
    pub(crate) fn since(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.origin)
    }

    /// The headers came.
    pub(crate) fn headers(&mut self, head: Parts, at: Instant) {
        self.record.status = Some(head.status.as_u16());
        self.record.headers = Some(self.since(at));
        let kind = head.headers.get(http::header::CONTENT_TYPE);
        // What a server does not name may be a stream; looking for events in anything else only costs time.
        self.split = head.status.is_success()
            && kind.is_none_or(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        self.head = Some(head);
    }

    /// More of the body came. `Err` when it is larger than any reply should be.
    pub(crate) fn body(&mut self, data: &[u8], at: Instant) -> Result<(), Ending> {
        let after = at.saturating_duration_since(self.origin);
        self.record.first_byte.get_or_insert(after);
        self.record.bytes += data.len() as u64;
        let Buffers { body, marks } = &mut self.buffers;
        let base = body.len();
        if base + data.len() > LARGEST {
            return Err(Ending::Failed(
                FailureClass::Malformed,
                format!("the reply is larger than {} MiB", LARGEST >> 20),
            ));
        }
        body.extend_from_slice(data);
        if !self.split {
            return Ok(());
        }
        let at_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let mut start = marks.last().map_or(0, |mark| mark.end);
        let (tail, events) = (&mut self.tail, &mut self.events);
        self.splitter.push(data, |end| {
            let end = base + end;
            let event = &body[start..end];
            start = end;
            marks.push(Mark { end, at_ns });
            if let Some(seen) = look(event, *tail) {
                *tail = seen;
                *events += u64::from(seen != Tail::Done);
            }
        });
        Ok(())
    }
}

static FINISH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"finish_reason\""));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"usage\""));

/// How near its end the stream is after this event, by its bytes alone; `None` for one without data.
///
/// Text inside a JSON string cannot be mistaken for a key: its quotation marks are escaped.
fn look(event: &[u8], tail: Tail) -> Option<Tail> {
    let at = memchr::memchr(b':', event)?;
    if !event[..at].ends_with(b"data") {
        return None;
    }
    let data = &event[at + 1..];
    if data.len() < 16 && sse::is_done(data) {
        return Some(Tail::Done);
    }
    let mut tail = tail;
    if tail < Tail::Finished && value_begins(data, &FINISH, b'"') {
        tail = Tail::Finished;
    }
    if tail == Tail::Finished && value_begins(data, &USAGE, b'{') {
        tail = Tail::Counted;
    }
    Some(tail)
}

/// Whether the value of a key found in `data` begins with `first`.
fn value_begins(data: &[u8], key: &Finder<'_>, first: u8) -> bool {
    key.find(data).is_some_and(|at| {
        data[at + key.needle().len()..]
            .iter()
            .find(|&&b| b != b':' && b != b' ')
            .is_some_and(|&b| b == first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stream_is_seen_from_its_bytes() {
        let finish = br#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        assert_eq!(look(b"data: [DONE]\n\n", Tail::Open), Some(Tail::Done));
        assert_eq!(look(b"data:[DONE]\r\n\r\n", Tail::Open), Some(Tail::Done));
        assert_eq!(look(b": ping\n\n", Tail::Open), None);
        assert_eq!(look(b":\n\n", Tail::Open), None);
        assert_eq!(look(b"\n", Tail::Open), None);
        assert_eq!(look(finish, Tail::Open), Some(Tail::Finished));
        assert_eq!(
            look(br#"data:{"finish_reason" : "length"}"#, Tail::Open),
            Some(Tail::Finished)
        );
        assert_eq!(
            look(br#"data: {"finish_reason":null,"usage":{}}"#, Tail::Open),
            Some(Tail::Open)
        );
        assert_eq!(
            look(br#"data: {"choices":[],"usage":{"a":1}}"#, Tail::Finished),
            Some(Tail::Counted)
        );
        assert_eq!(
            look(br#"data: {"choices":[],"usage":null}"#, Tail::Finished),
            Some(Tail::Finished)
        );
        assert_eq!(
            look(
                br#"data: {"delta":{"content":"\"finish_reason\":\"x\""}}"#,
                Tail::Open
            ),
            Some(Tail::Open)
        );
    }
}
