//! What the server is told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::case::Cases;
use crate::fault::{Fault, Page, When};
use crate::shapes::Shape;

/// A duration that may depend on the number of requests in flight.
pub(crate) type Pace = Arc<dyn Fn(usize) -> Duration + Send + Sync>;
/// Output tokens by request number and `max_tokens`.
type Length = Arc<dyn Fn(u64, Option<u32>) -> u32 + Send + Sync>;

/// How token counts are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Usage {
    /// A last chunk with empty `choices`, where the request asks for it by `stream_options.include_usage`.
    #[default]
    WhenAsked,
    /// A last chunk with empty `choices`, asked for or not.
    Always,
    /// On the chunk that carries `finish_reason`, asked for or not.
    OnFinish,
    /// On every token chunk, counting up, and on the finish chunk.
    Cumulative,
    /// Nowhere, without streaming neither.
    Never,
}

/// How a request above the capacity is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overload {
    /// 503 Service Unavailable.
    Unavailable,
    /// 429 Too Many Requests.
    TooManyRequests {
        /// Value of the `retry-after` header, in seconds; none without.
        retry_after_s: Option<u32>,
    },
}

/// What the server does. Behaviours compose; each method replaces what an earlier call of it said, except
/// [`fault`](Script::fault), [`route`](Script::route), [`without_route`](Script::without_route) and
/// [`refuses`](Script::refuses), which add.
///
/// The default is one model `m` that answers at once with as many tokens as `max_tokens` asks for (16 where it does not).
#[derive(Clone)]
pub struct Script {
    pub(crate) models: Vec<String>,
    pub(crate) shape: Shape,
    pub(crate) prefix: String,
    pub(crate) missing_routes: Vec<String>,
    pub(crate) routes: Vec<(String, Page)>,
    pub(crate) page: Option<Page>,
    pub(crate) ttft: Pace,
    pub(crate) itl: Pace,
    length: Option<Length>,
    pub(crate) tokens_per_chunk: u32,
    pub(crate) reasoning_tokens: u32,
    pub(crate) role_first: bool,
    pub(crate) usage: Usage,
    pub(crate) tokens_per_word: f64,
    pub(crate) overhead: u32,
    pub(crate) slots: Option<usize>,
    pub(crate) capacity: Option<(usize, Overload)>,
    pub(crate) faults: Vec<(When, Fault)>,
    pub(crate) refused: Vec<String>,
    pub(crate) api_key: Option<String>,
    pub(crate) tls: bool,
    pub(crate) silent: bool,
    pub(crate) idle_close: Option<Duration>,
    pub(crate) max_connections: Option<usize>,
    pub(crate) requests_per_connection: Option<u64>,
    pub(crate) cases: Cases,
    pub(crate) keep_requests: usize,
}

impl Default for Script {
    fn default() -> Self {
        let at_once: Pace = Arc::new(|_| Duration::ZERO);
        Self {
            models: vec!["m".to_owned()],
            shape: Shape::default(),
            prefix: String::new(),
            missing_routes: Vec::new(),
            routes: Vec::new(),
            page: None,
            ttft: Arc::clone(&at_once),
            itl: at_once,
            length: None,
            tokens_per_chunk: 1,
            reasoning_tokens: 0,
            role_first: true,
            usage: Usage::default(),
            tokens_per_word: 1.0,
            overhead: 0,
            slots: None,
            capacity: None,
            faults: Vec::new(),
            refused: Vec::new(),
            api_key: None,
            tls: false,
            silent: false,
            idle_close: None,
            max_connections: None,
            requests_per_connection: None,
            cases: Cases::default(),
            keep_requests: 16,
        }
    }
}

impl Script {
    /// The models listed by `/v1/models`. A request for another one gets 404. One that names none gets the only
    /// model, or 400 where there are several; with no models at all, any name is served.
    #[must_use]
    pub fn models<S: Into<String>>(mut self, models: impl IntoIterator<Item = S>) -> Self {
        self.models = models.into_iter().map(Into::into).collect();
        self
    }

    /// All routes live under this path, `/inference` for instance; others are 404.
    #[must_use]
    pub fn path_prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.trim_end_matches('/').to_owned();
        self
    }

    /// This route is 404: `/v1/models` for a server that cannot list its models.
    #[must_use]
    pub fn without_route(mut self, path: &str) -> Self {
        self.missing_routes.push(path.to_owned());
        self
    }

    /// One more route, or another answer for a known one: `/metrics`, `/tokenize`, `/v1/models`, ...
    #[must_use]
    pub fn route(mut self, path: &str, page: Page) -> Self {
        self.routes.push((path.to_owned(), page));
        self
    }

    /// Every request of whatever path gets this page.
    #[must_use]
    pub fn page(mut self, page: Page) -> Self {
        self.page = Some(page);
        self
    }

    /// First token this long after the request was read (or its slot was free).
    #[must_use]
    pub fn ttft(self, ttft: Duration) -> Self {
        self.ttft_by_load(move |_| ttft)
    }

    /// TTFT as a function of the requests in flight (this one included) when its time starts to run.
    #[must_use]
    pub fn ttft_by_load(mut self, ttft: impl Fn(usize) -> Duration + Send + Sync + 'static) -> Self {
        self.ttft = Arc::new(ttft);
        self
    }

    /// Gap between token chunks.
    #[must_use]
    pub fn itl(self, itl: Duration) -> Self {
        self.itl_by_load(move |_| itl)
    }

    /// Gap to the next token chunk as a function of the requests in flight when a chunk is due.
    #[must_use]
    pub fn itl_by_load(mut self, itl: impl Fn(usize) -> Duration + Send + Sync + 'static) -> Self {
        self.itl = Arc::new(itl);
        self
    }

    /// The model's own length: it stops there, or at `max_tokens` if that comes first. `ignore_eos` makes it go on
    /// to `max_tokens`; `min_tokens` at least so far.
    #[must_use]
    pub fn tokens(self, tokens: u32) -> Self {
        self.tokens_by(move |_, _| tokens)
    }

    /// The model's own length by request number (from 1, counted as for [`When`]) and `max_tokens`.
    #[must_use]
    pub fn tokens_by(mut self, length: impl Fn(u64, Option<u32>) -> u32 + Send + Sync + 'static) -> Self {
        self.length = Some(Arc::new(length));
        self
    }

    /// So many tokens in each chunk (speculative decoding); the ITL stays the gap between chunks. At least 1.
    #[must_use]
    pub fn tokens_per_chunk(mut self, tokens: u32) -> Self {
        self.tokens_per_chunk = tokens.max(1);
        self
    }

    /// The first so many tokens of a chat reply are reasoning (`reasoning_content`).
    #[must_use]
    pub fn reasoning_tokens(mut self, tokens: u32) -> Self {
        self.reasoning_tokens = tokens;
        self
    }

    /// Whether the head and, for chat, an empty role chunk are sent at once (the default), or with the first token.
    #[must_use]
    pub fn role_first(mut self, at_once: bool) -> Self {
        self.role_first = at_once;
        self
    }

    /// Whose API the server has, in place of OpenAI's. In that of Text Generation Inference a reply's end has no text.
    #[must_use]
    pub fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// How token counts are reported.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// `prompt_tokens` = words x `tokens_per_word`, rounded, + `overhead` (chat only: the chat template). Default 1 and 0.
    /// A prompt of token ids counts as it is.
    #[must_use]
    pub fn prompt_tokens(mut self, tokens_per_word: f64, overhead: u32) -> Self {
        self.tokens_per_word = tokens_per_word;
        self.overhead = overhead;
        self
    }

    /// At most so many requests are served at once; the rest wait in order of arrival, and their TTFT runs from
    /// their turn. At least 1.
    #[must_use]
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = Some(slots.max(1));
        self
    }

    /// With so many in flight, one more is refused within 2 ms.
    #[must_use]
    pub fn capacity(mut self, in_flight: usize, overload: Overload) -> Self {
        self.capacity = Some((in_flight, overload));
        self
    }

    /// These requests fail so. The first fault that strikes a request counts.
    #[must_use]
    pub fn fault(mut self, when: When, fault: Fault) -> Self {
        self.faults.push((when, fault));
        self
    }

    /// A body that holds one of these top-level fields gets 400 with a message naming it.
    #[must_use]
    pub fn refuses<S: Into<String>>(mut self, fields: impl IntoIterator<Item = S>) -> Self {
        self.refused.extend(fields.into_iter().map(Into::into));
        self
    }

    /// Requests without `Authorization: Bearer KEY` get 401 (`/health` excepted).
    #[must_use]
    pub fn api_key(mut self, key: &str) -> Self {
        self.api_key = Some(key.to_owned());
        self
    }

    /// HTTPS with a certificate for `localhost` and `127.0.0.1` signed by a fresh authority (see `Scripted::ca_pem`).
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Accepts connections, reads, and never writes a byte.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    /// Closes a kept-alive connection that has been idle for so long after an answer.
    #[must_use]
    pub fn idle_close(mut self, after: Duration) -> Self {
        self.idle_close = Some(after);
        self
    }

    /// Accepts only so many connections at a time; the rest stay in the backlog.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = Some(connections);
        self
    }

    /// Closes each connection after so many answers, without announcing it in a header (as llama.cpp does after
    /// every streamed answer). At least 1.
    #[must_use]
    pub fn requests_per_connection(mut self, requests: u64) -> Self {
        self.requests_per_connection = Some(requests.max(1));
        self
    }

    /// Serves `/NAME/v1/chat/completions` (and `/NAME/v1/models`) byte by byte from these cases.
    #[must_use]
    pub fn cases(mut self, cases: Cases) -> Self {
        self.cases = cases;
        self
    }

    /// How many of the last requests are kept whole in [`Seen::last`](crate::Seen::last); 16 by default.
    #[must_use]
    pub fn keep_requests(mut self, requests: usize) -> Self {
        self.keep_requests = requests;
        self
    }

    /// Output tokens and finish reason of the n-th request.
    pub(crate) fn output(&self, n: u64, limits: &Limits) -> (u32, &'static str) {
        let own = match &self.length {
            Some(length) => length(n, limits.max_tokens),
            None => limits.max_tokens.unwrap_or(16),
        };
        let own = if limits.ignore_eos {
            limits.max_tokens.unwrap_or(own)
        } else {
            own.max(limits.min_tokens)
        };
        match limits.max_tokens {
            Some(max) if own >= max => (max, "length"),
            _ => (own, "stop"),
        }
    }

    /// The fault that strikes the n-th request.
    pub(crate) fn fault_of(&self, n: u64) -> Option<&Fault> {
        self.faults
            .iter()
            .find(|(when, _)| when.strikes(n))
            .map(|(_, fault)| fault)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("models", &self.models)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

/// What a request says about the length of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Limits {
    pub max_tokens: Option<u32>,
    pub min_tokens: u32,
    pub ignore_eos: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_the_models_own_within_what_the_request_asks() {
        let limits = |max, min, ignore_eos| Limits {
            max_tokens: max,
            min_tokens: min,
            ignore_eos,
        };
        let any = Script::default();
        assert_eq!(any.output(1, &limits(None, 0, false)), (16, "stop"));
        assert_eq!(any.output(1, &limits(Some(32), 0, false)), (32, "length"));
        let ten = Script::default().tokens(10);
        assert_eq!(ten.output(1, &limits(None, 0, true)), (10, "stop"));
        assert_eq!(ten.output(1, &limits(Some(4), 0, false)), (4, "length"));
        assert_eq!(ten.output(1, &limits(Some(32), 0, false)), (10, "stop"));
        assert_eq!(ten.output(1, &limits(Some(32), 20, false)), (20, "stop"));
        assert_eq!(ten.output(1, &limits(Some(32), 0, true)), (32, "length"));
        let by = Script::default().tokens_by(|n, max| max.unwrap_or(0) / n as u32);
        assert_eq!(by.output(2, &limits(Some(32), 0, false)), (16, "stop"));
    }
}
