//! One request in flight: what is noted of it while its reply comes in.
//!
//! Nothing here parses JSON or, once its buffers have grown, allocates.

use std::time::{Duration, Instant};

use http::response::Parts;
use plimsoll_aws::event_stream::{FrameError, Frames};
use plimsoll_run::request::{FailureClass, RequestRecord};

use crate::dialect::{Look, Speaker};
use crate::framing::{Framer, Framing, glance};

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
    /// The body, byte for byte; of an event stream its payloads.
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
    speaker: Speaker,
    look: Look,
    framer: Framer,
    /// For a reply that comes in the frames of an event stream.
    frames: Option<Frames>,
}

impl Flight {
    /// A request about to be sent. `origin` is the rung's start.
    pub(crate) fn new(record: RequestRecord, buffers: Buffers, origin: Instant, speaker: &Speaker) -> Self {
        Flight {
            record,
            buffers,
            head: None,
            tail: Tail::Open,
            events: 0,
            origin,
            look: speaker.look(),
            speaker: speaker.clone(),
            framer: Framer::Whole,
            frames: None,
        }
    }

    /// How its reply is read.
    pub(crate) fn speaker(&self) -> &Speaker {
        &self.speaker
    }

    /// How the events of its reply are told apart; `None` for one that is a single document.
    pub(crate) fn framing(&self) -> Option<Framing> {
        self.framer.framing()
    }

    /// Whether it is a stream that should have said that it ended and did not, as far as its bytes tell.
    pub(crate) fn unfinished(&self) -> bool {
        self.tail == Tail::Open && !self.buffers.marks.is_empty() && self.speaker.bytes_tell_the_end()
    }

    /// Time since the rung's start.
    pub(crate) fn since(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.origin)
    }

    /// The headers came.
    pub(crate) fn headers(&mut self, head: Parts, at: Instant) {
        self.record.status = Some(head.status.as_u16());
        self.record.headers = Some(self.since(at));
        if head.status.is_success() {
            let mut kind = head.headers.get(http::header::CONTENT_TYPE);
            if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/vnd.amazon.eventstream")) {
                self.frames = Some(Frames::default());
                kind = head.headers.get("x-amzn-sagemaker-content-type");
            }
            self.framer = Framer::new(kind.map(|kind| kind.as_bytes()), self.speaker.framing());
        }
        self.head = Some(head);
    }

    /// More of the body came. `Err` when it is larger than any reply should be, or its frames are broken or say that
    /// it failed.
    pub(crate) fn body(&mut self, data: &[u8], at: Instant) -> Result<(), Ending> {
        let after = at.saturating_duration_since(self.origin);
        self.record.first_byte.get_or_insert(after);
        self.record.bytes += data.len() as u64;
        if self.buffers.body.len() + data.len() > LARGEST {
            return Err(Ending::Failed(
                FailureClass::Malformed,
                format!("the reply is larger than {} MiB", LARGEST >> 20),
            ));
        }
        let at_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        match self.frames.take() {
            None => {
                self.text(data, at_ns);
                Ok(())
            }
            Some(mut frames) => {
                let taken = frames.push(data, |payload| self.text(payload, at_ns));
                self.frames = Some(frames);
                taken.map_err(|error| broken(&error))
            }
        }
    }

    /// More of the text of the reply came.
    fn text(&mut self, data: &[u8], at_ns: u64) {
        let Buffers { body, marks } = &mut self.buffers;
        let base = body.len();
        body.extend_from_slice(data);
        let framer = &mut self.framer;
        if *framer == Framer::Whole {
            return;
        }
        let from = if framer.decided_by(data) { 0 } else { base };
        let mut start = marks.last().map_or(0, |mark| mark.end);
        let (tail, events, look) = (&mut self.tail, &mut self.events, self.look);
        let body = &*body;
        let ended = |framing: Framing, end: usize| {
            let end = from + end;
            let event = &body[start..end];
            start = end;
            marks.push(Mark { end, at_ns });
            if let Some(seen) = glance(framing, event)
                .filter(|data| !data.trim_ascii_start().is_empty())
                .and_then(|data| look(data, *tail))
            {
                *tail = seen;
                *events += u64::from(seen != Tail::Done);
            }
        };
        framer.push(&body[from..], ended);
    }
}

fn broken(error: &FrameError) -> Ending {
    match error {
        FrameError::Corrupt(_) => Ending::Failed(FailureClass::Malformed, error.to_string()),
        FrameError::Exception { kind, message } => {
            let said = crate::reply::body_message(message.as_bytes());
            let said = if message.is_empty() { "no message" } else { &said };
            Ending::Failed(FailureClass::InStreamError, format!("{kind}: {said}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::target::Dialect;

    use super::*;

    fn flight(dialect: Dialect, kind: &'static str) -> Flight {
        let origin = Instant::now();
        let record = RequestRecord::begun(0, 0, Duration::ZERO, Duration::ZERO);
        let speaker = Speaker::new(dialect, None);
        let mut flight = Flight::new(record, Buffers::default(), origin, &speaker);
        let (head, ()) = http::Response::builder()
            .header("content-type", kind)
            .body(())
            .unwrap()
            .into_parts();
        flight.headers(head, origin);
        flight
    }

    /// The tail after each of these pieces.
    fn tails(dialect: Dialect, kind: &'static str, pieces: &[&str]) -> (Vec<Tail>, u64) {
        let mut flight = flight(dialect, kind);
        let at = Instant::now();
        let tails = pieces
            .iter()
            .map(|piece| {
                flight.body(piece.as_bytes(), at).unwrap();
                flight.tail
            })
            .collect();
        (tails, flight.events)
    }

    #[test]
    fn the_end_of_a_stream_is_seen_from_its_bytes_in_every_dialect() {
        use Tail::{Counted, Done, Finished, Open};
        let sse = "text/event-stream";
        let chat = [
            ": ping\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n",
            "id: 7\ndata:{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\n",
            "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\n",
            "data:[DONE]\n\n",
        ];
        assert_eq!(
            tails(Dialect::OpenaiChat, sse, &chat),
            (vec![Open, Open, Finished, Counted, Done], 3)
        );
        let messages = [
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"x\"}}\n\n",
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ];
        assert_eq!(
            tails(Dialect::AnthropicMessages, sse, &messages),
            (vec![Open, Counted, Done], 2)
        );
        let ollama = ["{\"done\":false}\n", "\n", "{\"done\":", "true}\n"];
        assert_eq!(
            tails(Dialect::Ollama, "application/x-ndjson", &ollama),
            (vec![Open, Open, Open, Done], 1)
        );
    }

    #[test]
    fn a_stream_that_should_say_that_it_ends_and_does_not_is_unfinished() {
        let mut chat = flight(Dialect::OpenaiChat, "text/event-stream");
        assert!(!chat.unfinished());
        chat.body(b"data: {}\n\n", Instant::now()).unwrap();
        assert!(chat.unfinished());
        let mut custom = flight(Dialect::Custom, "text/event-stream");
        custom.body(b"data: {}\n\n", Instant::now()).unwrap();
        assert!(!custom.unfinished());
    }
}
