//! The event-stream framing (`application/vnd.amazon.eventstream`) of a streamed reply.
//!
//! A message is its length, the length of its headers, a CRC of these eight bytes, headers, payload, and a CRC of all
//! before. [`Frames`] takes bytes however they are cut and hands payloads on as they come: it keeps none, so that the
//! time of receipt of each byte stays known, and allocates nothing for a message that is an event.

use crc32fast::Hasher;

/// The longest message and the longest headers that Amazon's own decoders take.
const LONGEST_MESSAGE: u32 = 24 << 20;
const LONGEST_HEADERS: u32 = 128 << 10;
/// Lengths and their CRC.
const PRELUDE: usize = 12;
/// The longest text kept of a failure.
const LONGEST_TEXT: usize = 4096;

/// Why a stream of frames ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes are no event stream.
    #[error("the event stream is broken: {0}")]
    Corrupt(&'static str),
    /// The service says that the reply failed.
    #[error("{kind}: {message}")]
    Exception {
        /// Such as `ModelStreamError`.
        kind: String,
        /// Its payload: JSON as a rule.
        message: String,
    },
}

/// What stands in a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    /// Bytes of the reply.
    #[default]
    Payload,
    /// Another event, of no interest.
    Other,
    /// A failure.
    Failure,
}

/// Which part of a message comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Prelude,
    Headers,
    Payload,
    Checksum,
}

/// Takes an event stream apart, byte by byte if need be.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    part: Part,
    /// What has come of prelude, headers or checksum, or of the payload of a failure.
    held: Vec<u8>,
    /// Bytes of the current part that are still to come.
    missing: usize,
    payload: usize,
    kind: Kind,
    failure: String,
    checksum: Hasher,
}

impl Frames {
    /// Takes the next bytes and calls `payload` with each piece of the reply among them.
    ///
    /// # Errors
    /// When the stream is broken or says that the reply failed; nothing may be pushed after that.
    pub fn push(&mut self, mut bytes: &[u8], mut payload: impl FnMut(&[u8])) -> Result<(), FrameError> {
        while !bytes.is_empty() {
            if self.part == Part::Prelude && self.held.is_empty() {
                self.missing = PRELUDE;
            }
            let (now, rest) = bytes.split_at(self.missing.min(bytes.len()));
            bytes = rest;
            self.missing -= now.len();
            if self.part == Part::Payload {
                self.checksum.update(now);
                match self.kind {
                    Kind::Payload => payload(now),
                    Kind::Failure if self.held.len() < LONGEST_TEXT => self.held.extend_from_slice(now),
                    Kind::Failure | Kind::Other => {}
                }
            } else {
                self.held.extend_from_slice(now);
            }
            // Parts may be empty.
            while self.missing == 0 && !(self.part == Part::Prelude && self.held.is_empty()) {
                self.end_of_part()?;
            }
        }
        Ok(())
    }

    /// Whether a message has begun and not ended.
    #[must_use]
    pub fn partial(&self) -> bool {
        self.part != Part::Prelude || !self.held.is_empty()
    }

    fn end_of_part(&mut self) -> Result<(), FrameError> {
        match self.part {
            Part::Prelude => {
                let (total, headers) = self.prelude()?;
                self.checksum = Hasher::new();
                self.checksum.update(&self.held);
                self.held.clear();
                // In range by the check of the prelude.
                self.payload = total as usize - headers as usize - PRELUDE - 4;
                self.missing = headers as usize;
                self.part = Part::Headers;
            }
            Part::Headers => {
                self.checksum.update(&self.held);
                self.read_headers()?;
                self.held.clear();
                self.missing = self.payload;
                self.part = Part::Payload;
            }
            Part::Payload => {
                if self.kind == Kind::Failure {
                    let text = String::from_utf8_lossy(&self.held);
                    self.failure.push('\n');
                    self.failure.push_str(&text);
                }
                self.held.clear();
                self.missing = 4;
                self.part = Part::Checksum;
            }
            Part::Checksum => {
                if number(&self.held, 0) != Some(self.checksum.clone().finalize()) {
                    return Err(FrameError::Corrupt("a message's checksum is wrong"));
                }
                self.held.clear();
                self.part = Part::Prelude;
                if self.kind == Kind::Failure {
                    let (kind, message) = self.failure.split_once('\n').unwrap_or_default();
                    return Err(FrameError::Exception {
                        kind: kind.to_owned(),
                        message: message.trim().to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The lengths of the message and of its headers.
    fn prelude(&self) -> Result<(u32, u32), FrameError> {
        let corrupt = FrameError::Corrupt;
        let lengths = (
            number(&self.held, 0),
            number(&self.held, 4),
            number(&self.held, 8),
        );
        let (Some(total), Some(headers), Some(checksum)) = lengths else {
            return Err(corrupt("a message has no beginning"));
        };
        if crc32fast::hash(&self.held[..8]) != checksum {
            return Err(corrupt("the checksum of a message's lengths is wrong"));
        }
        if total > LONGEST_MESSAGE || headers > LONGEST_HEADERS || u64::from(total) < u64::from(headers) + 16
        {
            return Err(corrupt("a message's lengths are impossible"));
        }
        Ok((total, headers))
    }

    fn read_headers(&mut self) -> Result<(), FrameError> {
        let (mut message, mut event, mut exception, mut code, mut text) =
            (&b""[..], &b""[..], &b""[..], &b""[..], &b""[..]);
        let mut rest = &self.held[..];
        while !rest.is_empty() {
            let (name, value, after) = header(rest).ok_or(FrameError::Corrupt("a header is cut short"))?;
            match name {
                b":message-type" => message = value,
                b":event-type" => event = value,
                b":exception-type" => exception = value,
                b":error-code" => code = value,
                b":error-message" => text = value,
                _ => {}
            }
            rest = after;
        }
        self.kind = match (message, event) {
            (b"event", b"PayloadPart") => Kind::Payload,
            (b"event", _) => Kind::Other,
            (b"exception" | b"error", _) => {
                let kind = if exception.is_empty() { code } else { exception };
                // One line: the payload comes behind it.
                self.failure = String::from_utf8_lossy(kind).replace('\n', " ");
                self.failure.push('\n');
                self.failure.push_str(&String::from_utf8_lossy(text));
                Kind::Failure
            }
            _ => return Err(FrameError::Corrupt("a message is neither event nor exception")),
        };
        Ok(())
    }
}

/// The big-endian number at `at`.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

/// The first header: name, value where it is a string or bytes, and what comes behind it.
fn header(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (kind, rest) = rest.split_first()?;
    let fixed = match kind {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        9 => 16,
        6 | 7 => {
            let (length, rest) = rest.split_at_checked(2)?;
            let length = usize::from(u16::from_be_bytes(length.try_into().ok()?));
            let (value, rest) = rest.split_at_checked(length)?;
            return Some((name, value, rest));
        }
        _ => return None,
    };
    let (_, rest) = rest.split_at_checked(fixed)?;
    Some((name, b"", rest))
}

#[cfg(test)]
mod tests {
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
    use proptest::prelude::*;

    use super::*;

    /// Frames as Amazon's own library writes them.
    fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
        let mut message = Message::new(bytes::Bytes::copy_from_slice(payload));
        for (name, value) in headers {
            message = message.add_header(Header::new(
                (*name).to_owned(),
                HeaderValue::String((*value).to_owned().into()),
            ));
        }
        let mut bytes = Vec::new();
        write_message_to(&message, &mut bytes).unwrap();
        bytes
    }

    fn part(payload: &[u8]) -> Vec<u8> {
        frame(
            &[
                (":event-type", "PayloadPart"),
                (":content-type", "application/octet-stream"),
                (":message-type", "event"),
            ],
            payload,
        )
    }

    fn read(pieces: &[&[u8]]) -> (Vec<u8>, Result<bool, FrameError>) {
        let mut frames = Frames::default();
        let mut text = Vec::new();
        for piece in pieces {
            if let Err(error) = frames.push(piece, |payload| text.extend_from_slice(payload)) {
                return (text, Err(error));
            }
        }
        (text, Ok(frames.partial()))
    }

    /// A frame that both boto3 and aws-smithy-eventstream read.
    const GOLDEN: &str = "0000008e00000059794338ca0b3a6576656e742d7479706507000b5061796c6f6164506172740d3a636f6e74656e742d747970650700186170706c69636174696f6e2f6f637465742d73747265616d0d3a6d6573736167652d747970650700056576656e74646174613a207b226964223a226331222c226f626a656374223a22636861742e636f6d706cd0a6b6f7";

    #[test]
    fn the_golden_frame_is_read_and_is_the_one_that_the_library_writes() {
        let golden: Vec<u8> = (0..GOLDEN.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&GOLDEN[at..at + 2], 16).unwrap())
            .collect();
        let payload = br#"data: {"id":"c1","object":"chat.compl"#;
        assert_eq!(part(payload), golden);
        assert_eq!(read(&[&golden]), (payload.to_vec(), Ok(false)));
        for cut in 1..golden.len() {
            let (first, second) = golden.split_at(cut);
            assert_eq!(
                read(&[first, second]),
                (payload.to_vec(), Ok(false)),
                "cut at {cut}"
            );
            assert_eq!(read(&[first]).1, Ok(true));
        }
    }

    #[test]
    fn a_failure_in_the_stream_is_named_with_what_it_says() {
        let failure = frame(
            &[
                (":exception-type", "ModelStreamError"),
                (":content-type", "application/json"),
                (":message-type", "exception"),
            ],
            br#"{"Message":"gone","ErrorCode":"StreamBroken"}"#,
        );
        let bytes = [part(b"one"), failure].concat();
        let (text, end) = read(&[&bytes]);
        assert_eq!(text, b"one");
        let error = end.unwrap_err();
        assert_eq!(
            error,
            FrameError::Exception {
                kind: "ModelStreamError".to_owned(),
                message: r#"{"Message":"gone","ErrorCode":"StreamBroken"}"#.to_owned(),
            }
        );
        let error = frame(
            &[
                (":message-type", "error"),
                (":error-code", "InternalError"),
                (":error-message", "oh"),
            ],
            b"",
        );
        assert_eq!(read(&[&error]).1.unwrap_err().to_string(), "InternalError: oh");
    }

    #[test]
    fn what_is_not_an_event_stream_is_said_to_be_broken() {
        let corrupt = |bytes: &[u8]| matches!(read(&[bytes]).1, Err(FrameError::Corrupt(_)));
        assert!(corrupt(b"data: {\"a\":1}\n\n"));
        let mut flipped = part(b"text");
        let last = flipped.len() - 6;
        flipped[last] ^= 1;
        assert!(corrupt(&flipped));
        let mut huge = Vec::from(u32::MAX.to_be_bytes());
        huge.extend(0_u32.to_be_bytes());
        huge.extend(crc32fast::hash(&huge).to_be_bytes());
        assert!(corrupt(&huge));
        assert_eq!(
            read(&[&frame(
                &[(":event-type", "x"), (":message-type", "event")],
                b"none"
            )]),
            (vec![], Ok(false))
        );
    }

    proptest! {
        #[test]
        fn no_partition_changes_what_is_read(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            cuts in prop::collection::vec(0_usize..800, 0..12),
        ) {
            let bytes: Vec<u8> = payloads.iter().flat_map(|payload| part(payload)).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut start = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                pieces.push(&bytes[start..cut]);
                start = cut;
            }
            prop_assert_eq!(read(&pieces), (payloads.concat(), Ok(false)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&[&bytes]);
        }
    }
}
