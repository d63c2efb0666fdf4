//! Framing: where the events of a streamed reply end, in bytes that come piece by piece.
//!
//! Decided once a reply, by its content type and first byte; from then on the hot path only looks for ends.

use std::borrow::Cow;

use crate::sse::{self, Said, Splitter};

/// How events are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON document a line.
    Lines,
}

/// Finds the ends of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framer {
    /// Nothing but white space has come: the first byte after it decides.
    Undecided {
        /// What the content type says.
        named: Option<Framing>,
        /// What the dialect streams in.
        usual: Framing,
    },
    Sse(Splitter),
    Lines,
    /// The reply is one document.
    Whole,
}

impl Framer {
    /// For a reply of this content type in a dialect that usually streams so.
    pub(crate) fn new(content_type: Option<&[u8]>, usual: Framing) -> Self {
        let kind = content_type.unwrap_or_default().to_ascii_lowercase();
        let is = |name: &[u8]| kind.trim_ascii_start().starts_with(name);
        let lines: [&[u8]; 5] = [
            b"application/x-ndjson",
            b"application/ndjson",
            b"application/jsonl",
            b"application/x-jsonl",
            b"application/stream+json",
        ];
        if is(b"application/json") && !is(b"application/jsonl") {
            // A gateway may call a stream so all the same: lines of JSON cannot be told from one document then.
            return Framer::Undecided {
                named: None,
                usual: Framing::Sse,
            };
        }
        let named = if is(b"text/event-stream") {
            Some(Framing::Sse)
        } else if lines.iter().any(|name| is(name)) {
            Some(Framing::Lines)
        } else {
            None
        };
        Framer::Undecided { named, usual }
    }

    /// How the events of the reply are told apart; `None` where it is one document.
    pub(crate) fn framing(&self) -> Option<Framing> {
        match self {
            Framer::Sse(_) => Some(Framing::Sse),
            Framer::Lines => Some(Framing::Lines),
            Framer::Undecided { .. } | Framer::Whole => None,
        }
    }

    /// Whether these bytes decide how the reply is framed: what came before them, white space, then has to be looked
    /// through with them, or blank lines would count by how the reads were cut.
    pub(crate) fn decided_by(&mut self, bytes: &[u8]) -> bool {
        let Framer::Undecided { named, usual } = *self else {
            return false;
        };
        let Some(first) = first_byte(bytes) else {
            return false;
        };
        *self = decide(named, usual, first);
        true
    }

    /// Looks through the next `bytes` and calls `ended` with the framing and the offset in them just behind each event's
    /// end. Finds nothing before [`decided_by`](Self::decided_by) has said yes.
    pub(crate) fn push(&mut self, bytes: &[u8], mut ended: impl FnMut(Framing, usize)) {
        match self {
            Framer::Sse(splitter) => splitter.push(bytes, |end| ended(Framing::Sse, end)),
            Framer::Lines => memchr::memchr_iter(b'\n', bytes).for_each(|at| ended(Framing::Lines, at + 1)),
            Framer::Undecided { .. } | Framer::Whole => {}
        }
    }
}

/// The first byte that is neither white space nor part of a byte order mark.
fn first_byte(bytes: &[u8]) -> Option<u8> {
    bytes
        .iter()
        .copied()
        .find(|byte| !byte.is_ascii_whitespace() && !b"\xEF\xBB\xBF".contains(byte))
}

fn decide(named: Option<Framing>, usual: Framing, first: u8) -> Framer {
    let sse = Framer::Sse(Splitter::default());
    match (named, usual, first) {
        (Some(Framing::Lines), ..) | (None | Some(Framing::Sse), Framing::Lines, b'{') => Framer::Lines,
        // Refusals and replies that were asked to stream and did not may keep the stream's content type.
        (_, Framing::Sse, b'{' | b'[') => Framer::Whole,
        (Some(Framing::Sse), ..) => sse,
        // `data`, `event`, `id`, `retry`, `error` and comments begin so.
        (None, _, b'd' | b'e' | b'i' | b'r' | b':') => sse,
        (None, ..) => Framer::Whole,
    }
}

/// What an event says.
pub(crate) fn said(framing: Framing, event: &[u8]) -> Said<'_> {
    match framing {
        Framing::Sse => sse::said(event),
        Framing::Lines => match line(event) {
            b"" => Said::Nothing,
            data => Said::Data(Cow::Borrowed(data)),
        },
    }
}

/// The data of an event as far as its first line has it: enough to see how near its end a stream is.
pub(crate) fn glance(framing: Framing, event: &[u8]) -> Option<&[u8]> {
    match framing {
        Framing::Sse => sse::first_data(event),
        Framing::Lines => Some(line(event)).filter(|data| !data.is_empty()),
    }
}

/// A line of JSON; some servers write `data:` before it though they do not say that they send events.
fn line(event: &[u8]) -> &[u8] {
    let line = event.trim_ascii();
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    line.strip_prefix(b"data:").unwrap_or(line).trim_ascii()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn framing(kind: Option<&str>, usual: Framing, body: &str) -> Option<Framing> {
        let mut framer = Framer::new(kind.map(str::as_bytes), usual);
        for byte in body.as_bytes() {
            framer.decided_by(&[*byte]);
        }
        framer.framing()
    }

    #[test]
    fn content_type_and_first_byte_decide() {
        use Framing::{Lines, Sse};
        for (kind, usual, body, wanted) in [
            (
                Some("text/event-stream; charset=utf-8"),
                Sse,
                "data: {}",
                Some(Sse),
            ),
            (Some("Text/Event-Stream"), Sse, "\u{FEFF}\n\ndata: {}", Some(Sse)),
            (Some("text/event-stream"), Sse, " {\"error\":1}", None),
            (Some("text/plain"), Sse, ": ping\n\ndata: {}", Some(Sse)),
            (Some("application/json"), Sse, "data: {}", Some(Sse)),
            (Some("application/json"), Sse, "{\"a\":1}", None),
            (None, Sse, "event: x\n", Some(Sse)),
            (None, Sse, "<html>", None),
            (Some("application/x-ndjson"), Sse, "{}\n", Some(Lines)),
            (Some("application/jsonlines"), Sse, "{}\n", Some(Lines)),
            (Some("application/x-ndjson"), Lines, "{}\n", Some(Lines)),
            (Some("text/plain"), Lines, "{}\n", Some(Lines)),
            (Some("application/json; charset=utf-8"), Lines, "{}\n", None),
            (None, Lines, "{}\n", Some(Lines)),
            (None, Lines, "data: {}\n\n", Some(Sse)),
            (None, Sse, " \n", None),
        ] {
            assert_eq!(framing(kind, usual, body), wanted, "{kind:?} {body}");
        }
    }

    #[test]
    fn a_line_is_an_event_and_may_call_itself_data() {
        for event in ["{\"a\":1}\n", "data: {\"a\":1}\r\n", "  {\"a\":1}  "] {
            let wanted = Said::Data(Cow::Borrowed(&b"{\"a\":1}"[..]));
            assert_eq!(said(Framing::Lines, event.as_bytes()), wanted);
        }
        assert_eq!(said(Framing::Lines, b" \r\n"), Said::Nothing);
        assert_eq!(glance(Framing::Lines, b"\n"), None);
    }

    proptest! {
        #[test]
        fn no_partition_into_reads_changes_the_lines(
            text in "[{}a\\r\\n :\u{2028}\u{1F600}]{0,60}",
            cut in 0_usize..200,
        ) {
            let ends = |pieces: &[&[u8]]| {
                let mut framer = Framer::new(None, Framing::Lines);
                let (mut ends, mut body) = (Vec::new(), Vec::new());
                for piece in pieces {
                    let from = if framer.decided_by(piece) { 0 } else { body.len() };
                    body.extend_from_slice(piece);
                    framer.push(&body[from..], |_, end| ends.push(from + end));
                }
                (ends, framer.framing())
            };
            let bytes = text.as_bytes();
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(ends(&[first, second]), ends(&[bytes]));
        }
    }
}
