//! What the server saw: the other half of every comparison.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Words that make a prompt's first block: two prompts that share them would share a prefix cache.
const FIRST_BLOCK_WORDS: usize = 16;

/// One request as it came in.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    /// HTTP method.
    pub method: String,
    /// Path with its query.
    pub path: String,
    /// Header lines in order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; null where it is empty or no JSON.
    pub body: serde_json::Value,
}

impl SeenRequest {
    /// The first header of this name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}

/// One generation that the server served to its end, or to the fault that was asked for.
#[derive(Debug, Clone)]
pub struct Served {
    /// Number of the request, counted as for [`When`](crate::When).
    pub number: u64,
    /// When its last byte had been read.
    pub arrived: Instant,
    /// When its time began to run: `arrived`, or when its slot was free. None if it never got one.
    pub started: Option<Instant>,
    /// The instant of the write of each token; tokens of one chunk share theirs. Without streaming: empty.
    pub tokens: Vec<Instant>,
    /// When it left flight, just before its last byte was written or when the client went away.
    pub ended: Instant,
    /// Whether the client went away before the end.
    pub abandoned: bool,
    /// Prompt tokens by the server's count.
    pub prompt_tokens: u32,
    /// Output tokens by the server's count.
    pub output_tokens: u32,
}

/// Everything the server saw up to now.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Requests to the two generation routes and to cases, of whatever outcome.
    pub requests: u64,
    /// Requests to any other route.
    pub other_requests: u64,
    /// Generations admitted and not ended.
    pub in_flight: usize,
    /// Highest number of generations in flight at once. Refused ones (status, capacity) do not count.
    pub max_in_flight: usize,
    /// Connections accepted since the start.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: usize,
    /// Highest number of connections open at once.
    pub max_open_connections: usize,
    /// Generation requests whose whole prompt had been seen before.
    pub repeated_prompts: u64,
    /// Generation requests whose first 16 words had been seen before.
    pub repeated_first_blocks: u64,
    /// Answers by status code, of all routes.
    pub by_status: BTreeMap<u16, u64>,
    /// The last requests of any route, oldest first.
    pub last: Vec<SeenRequest>,
    /// Every admitted generation that has ended, in the order of their ends.
    pub served: Vec<Served>,
}

#[derive(Debug, Default)]
struct Book {
    seen: Seen,
    last: VecDeque<SeenRequest>,
    prompts: HashSet<u64>,
    first_blocks: HashSet<u64>,
    /// Requests that faults count.
    numbered: u64,
}

/// The book all connections write in.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    book: Mutex<Book>,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        // A panicking writer leaves at worst one count undone.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn snapshot(&self) -> Seen {
        let book = self.book();
        let mut seen = book.seen.clone();
        seen.last = book.last.iter().cloned().collect();
        seen
    }

    pub fn in_flight(&self) -> usize {
        self.book().seen.in_flight
    }

    pub fn connected(self: &Arc<Self>) -> Connected {
        let mut book = self.book();
        let seen = &mut book.seen;
        seen.connections += 1;
        seen.open_connections += 1;
        seen.max_open_connections = seen.max_open_connections.max(seen.open_connections);
        Connected(Arc::clone(self))
    }

    pub fn request(&self, request: SeenRequest, generates: bool, keep: usize) {
        let mut book = self.book();
        if generates {
            book.seen.requests += 1;
        } else {
            book.seen.other_requests += 1;
        }
        book.last.push_back(request);
        while book.last.len() > keep {
            book.last.pop_front();
        }
    }

    pub fn status(&self, status: u16) {
        *self.book().seen.by_status.entry(status).or_default() += 1;
    }

    pub fn prompt(&self, prompt: &str) {
        let hash = |text: &mut dyn Iterator<Item = &str>| {
            let mut hasher = DefaultHasher::new();
            text.for_each(|word| word.hash(&mut hasher));
            hasher.finish()
        };
        let whole = hash(&mut std::iter::once(prompt));
        let first = hash(&mut prompt.split_whitespace().take(FIRST_BLOCK_WORDS));
        let mut book = self.book();
        if !book.prompts.insert(whole) {
            book.seen.repeated_prompts += 1;
        }
        if !book.first_blocks.insert(first) {
            book.seen.repeated_first_blocks += 1;
        }
    }

    /// The next request's number, from 1.
    pub fn number(&self) -> u64 {
        let mut book = self.book();
        book.numbered += 1;
        book.numbered
    }

    /// Takes a request into flight unless `limit` are there already.
    pub fn admit(self: &Arc<Self>, limit: Option<usize>, number: u64, arrived: Instant) -> Option<InFlight> {
        let mut book = self.book();
        let seen = &mut book.seen;
        if limit.is_some_and(|limit| seen.in_flight >= limit) {
            return None;
        }
        seen.in_flight += 1;
        seen.max_in_flight = seen.max_in_flight.max(seen.in_flight);
        let served = Served {
            number,
            arrived,
            started: None,
            tokens: Vec::new(),
            ended: arrived,
            abandoned: true,
            prompt_tokens: 0,
            output_tokens: 0,
        };
        Some(InFlight {
            ledger: Arc::clone(self),
            served: Some(served),
        })
    }
}

/// An open connection; counted as closed when dropped.
#[derive(Debug)]
pub(crate) struct Connected(Arc<Ledger>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.book().seen.open_connections -= 1;
    }
}

/// A generation in flight; leaves flight when told or dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    ledger: Arc<Ledger>,
    served: Option<Served>,
}

impl InFlight {
    pub fn update(&mut self, change: impl FnOnce(&mut Served)) {
        if let Some(served) = &mut self.served {
            change(served);
        }
    }

    /// Ends it in order. Does nothing the second time.
    pub fn leave(&mut self) {
        self.end(false);
    }

    fn end(&mut self, abandoned: bool) {
        if let Some(mut served) = self.served.take() {
            served.ended = Instant::now();
            served.abandoned = abandoned;
            let mut book = self.ledger.book();
            book.seen.in_flight -= 1;
            book.seen.served.push(served);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.end(true);
    }
}
