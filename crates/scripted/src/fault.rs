//! How a request may fail, and which requests do.

/// A ready-made response: any status, any content type, any body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// HTTP status code.
    pub status: u16,
    /// Value of the `content-type` header.
    pub content_type: String,
    /// Further header lines, names and values.
    pub headers: Vec<(String, String)>,
    /// The body, sent with its `content-length`.
    pub body: Vec<u8>,
}

impl Page {
    /// A page with this status, content type and body.
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            content_type: content_type.to_owned(),
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// A JSON page.
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, "application/json", body)
    }

    /// An HTML page, as a gateway or a login wall would send.
    pub fn html(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, "text/html; charset=utf-8", body)
    }

    /// The page with one more header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// What goes wrong with one request. Tokens that come first keep the schedule, and the fault strikes one ITL after the
/// last of them (at the TTFT where there are none). A request without streaming fails at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// This HTTP status with an OpenAI-shaped error body, at once.
    Status(u16),
    /// This page, at once.
    Page(Page),
    /// After so many tokens an error event inside the 200 stream, then `[DONE]`. Without streaming: a 200 whose
    /// body is the error object.
    StreamError {
        /// Tokens sent before the error.
        after_tokens: u32,
    },
    /// After so many tokens the body ends in good HTTP order, with neither `finish_reason` nor `[DONE]`.
    /// Without streaming: the connection closes halfway through the body.
    Truncated {
        /// Tokens sent before the end.
        after_tokens: u32,
    },
    /// After so many tokens the connection is closed (FIN) without the end of the body.
    Closed {
        /// Tokens sent before the end.
        after_tokens: u32,
    },
    /// After so many tokens the connection is reset (RST).
    Reset {
        /// Tokens sent before the reset.
        after_tokens: u32,
    },
    /// After so many tokens nothing more, with the connection open.
    Stalled {
        /// Tokens sent before the silence.
        after_tokens: u32,
    },
    /// A complete reply without any token, at once: role, `stop`, usage of 0 output tokens.
    Empty,
    /// Not even a status line, with the connection open.
    NeverAnswers,
}

/// Which requests a fault strikes. Requests count from 1 in the order they arrive; only generation requests that
/// passed routing, key, parameters and model count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Every n-th request; 0 is none.
    Every(u64),
    /// The first n requests.
    First(u64),
    /// All requests after the first n.
    After(u64),
    /// Only the n-th.
    Only(u64),
}

impl When {
    /// Whether the n-th request is struck.
    pub fn strikes(self, n: u64) -> bool {
        match self {
            When::Every(every) => every > 0 && n.is_multiple_of(every),
            When::First(first) => n <= first,
            When::After(first) => n > first,
            When::Only(only) => n == only,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(when: When) -> Vec<u64> {
        (1..=6).filter(|&n| when.strikes(n)).collect()
    }

    #[test]
    fn a_fault_strikes_the_requests_it_names() {
        assert_eq!(struck(When::Every(2)), [2, 4, 6]);
        assert_eq!(struck(When::Every(0)), [0; 0]);
        assert_eq!(struck(When::First(2)), [1, 2]);
        assert_eq!(struck(When::After(4)), [5, 6]);
        assert_eq!(struck(When::Only(3)), [3]);
    }
}
