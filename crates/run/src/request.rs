//! What is known of one request.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a request failed. The names are those on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// The host name did not resolve.
    Dns,
    /// No connection.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The request could not be written.
    Write,
    /// The connection ended, or nonsense came, before the response headers did.
    Headers,
    /// A status other than 2xx, 429 and 503.
    HttpStatus,
    /// 429 or 503.
    Throttled,
    /// The connection broke in the body.
    Body,
    /// Nothing came for longer than the idle limit.
    Idle,
    /// The whole request took longer than its deadline, or was still running at the end of the drain.
    Deadline,
    /// An error object inside a 2xx reply.
    InStreamError,
    /// A well-formed end of body with neither a finish reason nor `[DONE]`.
    TruncatedStream,
    /// A complete reply with no token.
    EmptyResponse,
    /// A body that is not what the dialect speaks.
    Malformed,
}

impl FailureClass {
    /// Every class, in the order of a request's life.
    pub const ALL: [FailureClass; 14] = [
        FailureClass::Dns,
        FailureClass::Connect,
        FailureClass::Tls,
        FailureClass::Write,
        FailureClass::Headers,
        FailureClass::HttpStatus,
        FailureClass::Throttled,
        FailureClass::Body,
        FailureClass::Idle,
        FailureClass::Deadline,
        FailureClass::InStreamError,
        FailureClass::TruncatedStream,
        FailureClass::EmptyResponse,
        FailureClass::Malformed,
    ];

    /// Its name on disk and on screen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FailureClass::Dns => "dns",
            FailureClass::Connect => "connect",
            FailureClass::Tls => "tls",
            FailureClass::Write => "write",
            FailureClass::Headers => "headers",
            FailureClass::HttpStatus => "http-status",
            FailureClass::Throttled => "throttled",
            FailureClass::Body => "body",
            FailureClass::Idle => "idle",
            FailureClass::Deadline => "deadline",
            FailureClass::InStreamError => "in-stream-error",
            FailureClass::TruncatedStream => "truncated-stream",
            FailureClass::EmptyResponse => "empty-response",
            FailureClass::Malformed => "malformed",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A failure and what was seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which kind.
    pub class: FailureClass,
    /// One line that names the cause; never a credential.
    pub message: String,
}

/// One request. Times are since the rung's start, by a monotonic clock.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestRecord {
    /// Counts requests of the rung from 0 in the order in which they were sent.
    pub index: u64,
    /// The slot that sent it, from 0 up to the level.
    pub slot: u32,
    /// When it was due. In a closed loop this is when its slot became free.
    pub scheduled: Duration,
    /// When its first byte was handed to the system. Latencies run from here.
    pub sent: Duration,
    /// When the response headers were complete.
    pub headers: Option<Duration>,
    /// When the first byte of the body came.
    pub first_byte: Option<Duration>,
    /// When the first generated token came, in any channel. `None` when not streamed.
    pub first_token: Option<Duration>,
    /// When the first answer token came. `None` when not streamed or there was none.
    pub first_answer: Option<Duration>,
    /// When the last generated token came; for a reply that is not streamed, when its body ended.
    pub last_token: Option<Duration>,
    /// When the slot was done with it.
    pub ended: Duration,
    /// Prompt tokens asked for.
    pub input_asked: u32,
    /// Prompt tokens by the server's count.
    pub input_tokens: Option<u32>,
    /// Of those, found in a prefix cache, where the server says.
    pub cached_tokens: Option<u32>,
    /// Reply tokens asked for.
    pub output_asked: u32,
    /// Reply tokens by the server's count, or the number of token-bearing chunks where it has none.
    pub output_tokens: Option<u32>,
    /// Whether `output_tokens` was counted from chunks for want of the server's count.
    pub output_estimated: bool,
    /// Why the reply ended, in the server's word.
    pub finish_reason: Option<String>,
    /// HTTP status, once headers came.
    pub status: Option<u16>,
    /// Body bytes received.
    pub bytes: u64,
    /// How often it was sent again because an idle connection had died before any byte of it.
    pub retries: u32,
    /// `None` for a success.
    pub failure: Option<Failure>,
}

impl RequestRecord {
    /// A record of which only the beginning is known.
    #[must_use]
    pub fn begun(index: u64, slot: u32, scheduled: Duration, sent: Duration) -> Self {
        RequestRecord {
            index,
            slot,
            scheduled,
            sent,
            headers: None,
            first_byte: None,
            first_token: None,
            first_answer: None,
            last_token: None,
            ended: sent,
            input_asked: 0,
            input_tokens: None,
            cached_tokens: None,
            output_asked: 0,
            output_tokens: None,
            output_estimated: false,
            finish_reason: None,
            status: None,
            bytes: 0,
            retries: 0,
            failure: None,
        }
    }

    /// Whether it succeeded.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.failure.is_none()
    }

    /// TTFT: send to first generated token in any channel.
    #[must_use]
    pub fn ttft(&self) -> Option<Duration> {
        self.first_token.map(|at| at.saturating_sub(self.sent))
    }

    /// TTFAT: send to first answer token.
    #[must_use]
    pub fn ttfat(&self) -> Option<Duration> {
        self.first_answer.map(|at| at.saturating_sub(self.sent))
    }

    /// TPOT: (last token - first token) / (output tokens - 1). Undefined for a reply of one token, for one that
    /// came in a single chunk, and for one that was not streamed.
    #[must_use]
    pub fn tpot(&self) -> Option<Duration> {
        let (first, last) = (self.first_token?, self.last_token?);
        let gaps = self.output_tokens?.checked_sub(1)?;
        if gaps == 0 || last <= first {
            return None;
        }
        Some((last - first) / gaps)
    }

    /// E2E: send to last token, or to the end of a body that was not streamed.
    #[must_use]
    pub fn e2e(&self) -> Option<Duration> {
        self.last_token.map(|at| at.saturating_sub(self.sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_follow_the_vocabulary() {
        let at = Duration::from_millis;
        let mut record = RequestRecord::begun(0, 0, at(90), at(100));
        assert_eq!((record.ttft(), record.tpot(), record.e2e()), (None, None, None));
        record.first_token = Some(at(160));
        record.last_token = Some(at(200));
        record.output_tokens = Some(3);
        assert_eq!(record.ttft(), Some(at(60)));
        assert_eq!(record.tpot(), Some(at(20)));
        assert_eq!(record.e2e(), Some(at(100)));
        record.output_tokens = Some(1);
        assert_eq!(record.tpot(), None, "one token has no gap");
        record.output_tokens = Some(3);
        record.last_token = record.first_token;
        assert_eq!(record.tpot(), None, "all tokens in one chunk have no gap");
    }

    #[test]
    fn class_names_are_those_serde_writes() {
        for class in FailureClass::ALL {
            let json = serde_json::to_string(&class).unwrap();
            assert_eq!(json, format!("\"{}\"", class.name()));
        }
    }
}
