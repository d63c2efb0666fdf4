//! Users in a closed loop against the engine, in virtual time.
//!
//! Each slot sends its next request the moment it has the last token of the one before. Requests and tokens take
//! [`ONE_WAY`] between user and engine, so a slot's next request misses the step that begins when its last one ended,
//! as it does over a network.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use plimsoll_prompts::SlotPrompts;

use crate::engine::{Engine, Request, Step, SubmitError};
use crate::prompts::{Asking, mix};
use crate::spec::EngineSpec;

/// Time between user and engine, either way: what loopback and a fast client take.
pub const ONE_WAY: Duration = Duration::from_micros(150);

/// A request as its user saw it. Times are since the rung's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Counts requests from 0 in the order in which they were sent.
    pub index: u64,
    pub slot: u32,
    pub sent: Duration,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    pub cached_tokens: u32,
    /// When each token came; all of them once the request has ended.
    pub tokens: Vec<Duration>,
}

impl Exchange {
    /// When the last token came, once it has.
    pub(crate) fn ended(&self) -> Option<Duration> {
        (self.tokens.len() == self.output_tokens as usize)
            .then(|| self.tokens.last().copied())
            .flatten()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(u64),
    Send(u32),
}

/// The users and the engine.
#[derive(Debug)]
pub(crate) struct ClosedLoop {
    engine: Engine,
    slots: Vec<SlotPrompts>,
    seed: u64,
    /// Requests on their way to the engine.
    sending: HashMap<u64, Request>,
    events: BinaryHeap<Reverse<(Duration, Event)>>,
    step: Option<Step>,
    next_index: u64,
    in_flight: HashMap<u64, Exchange>,
    finished: Vec<Exchange>,
    tokens: u64,
    peaks: Peaks,
    refused: Option<SubmitError>,
}

/// The largest gauges seen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Peaks {
    pub running: u32,
    pub waiting: u32,
    pub kv_usage: f64,
}

impl ClosedLoop {
    /// One slot for each of `starts`, the times of their first requests.
    pub(crate) fn new(spec: &EngineSpec, asking: impl Into<Asking>, seed: u64, starts: &[Duration]) -> Self {
        let asking: Asking = asking.into();
        let rung = asking.rung(seed);
        ClosedLoop {
            engine: Engine::new(spec.clone()),
            slots: starts.iter().map(|_| SlotPrompts::new(&rung)).collect(),
            seed,
            sending: HashMap::new(),
            events: (0_u32..)
                .zip(starts)
                .map(|(slot, start)| Reverse((*start, Event::Send(slot))))
                .collect(),
            step: None,
            next_index: 0,
            in_flight: HashMap::with_capacity(starts.len()),
            finished: Vec::new(),
            tokens: 0,
            peaks: Peaks::default(),
            refused: None,
        }
    }

    /// Lets everything happen that happens up to `until`, and returns the requests that ended. Their last tokens may
    /// be on their way for up to [`ONE_WAY`] beyond it.
    ///
    /// # Errors
    /// When the engine refuses a request of this workload.
    pub(crate) fn advance(&mut self, until: Duration) -> Result<Vec<Exchange>, SubmitError> {
        loop {
            let event_at = self.events.peek().map(|Reverse((at, _))| *at);
            let step_at = self.step.as_ref().map(|step| step.ends_at);
            // Who arrives at the very end of a step is there for the next one.
            match (event_at, step_at) {
                (Some(at), step) if at <= until && step.is_none_or(|step| at <= step) => self.next_event(),
                (_, Some(at)) if at <= until => self.end_step(),
                _ => break,
            }
        }
        match self.refused {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.finished)),
        }
    }

    fn next_event(&mut self) {
        match self.events.pop() {
            Some(Reverse((at, Event::Send(slot)))) => self.send(at, slot),
            Some(Reverse((at, Event::Arrive(index)))) => self.arrive(at, index),
            None => {}
        }
    }

    fn send(&mut self, at: Duration, slot: u32) {
        let index = self.next_index;
        self.next_index += 1;
        let block_size = self.engine.spec().serving.block_size;
        let Some(prompts) = self.slots.get_mut(slot as usize) else {
            return;
        };
        let outline = prompts.next(at, || mix(self.seed, index));
        let request = Request {
            id: index,
            prompt_tokens: outline.input_tokens,
            block_hashes: outline.block_hashes(block_size),
            output_tokens: outline.output_tokens,
        };
        self.in_flight.insert(
            index,
            Exchange {
                index,
                slot,
                sent: at,
                prompt_tokens: request.prompt_tokens,
                output_tokens: request.output_tokens,
                cached_tokens: 0,
                tokens: Vec::with_capacity(request.output_tokens as usize),
            },
        );
        self.sending.insert(index, request);
        self.events.push(Reverse((at + ONE_WAY, Event::Arrive(index))));
    }

    fn arrive(&mut self, at: Duration, index: u64) {
        let Some(request) = self.sending.remove(&index) else {
            return;
        };
        match self.engine.submit(at, request) {
            Ok(()) => {}
            Err(error) => self.refused = Some(error),
        }
        if self.step.is_none() {
            self.begin_step(at);
        }
    }

    fn begin_step(&mut self, at: Duration) {
        self.step = self.engine.step(at);
        let (running, waiting, kv_usage) = self.engine.gauges();
        // Sequences that got their last token in this step ran in it too.
        let ended = self
            .step
            .iter()
            .flat_map(|step| &step.tokens)
            .filter(|token| token.last)
            .count();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.peaks.running = self.peaks.running.max(count(running + ended));
        self.peaks.waiting = self.peaks.waiting.max(count(waiting));
        self.peaks.kv_usage = self.peaks.kv_usage.max(kv_usage);
    }

    fn end_step(&mut self) {
        let Some(step) = self.step.take() else { return };
        let seen = step.ends_at + ONE_WAY;
        for token in &step.tokens {
            self.tokens += 1;
            if let Some(exchange) = self.in_flight.get_mut(&token.id) {
                exchange.tokens.push(seen);
                exchange.cached_tokens = token.cached_tokens;
            }
            if token.last
                && let Some(exchange) = self.in_flight.remove(&token.id)
            {
                if let Some(prompts) = self.slots.get_mut(exchange.slot as usize) {
                    prompts.ended(seen, true);
                }
                self.events.push(Reverse((seen, Event::Send(exchange.slot))));
                self.finished.push(exchange);
            }
        }
        self.begin_step(step.ends_at);
    }

    /// Tokens that all users have received.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Requests that have been sent and have not ended.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &Exchange> {
        self.in_flight.values()
    }

    /// The engine, for its counters.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The largest gauges seen.
    pub(crate) fn peaks(&self) -> Peaks {
        self.peaks
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::workload::{Conversation, SharedPrefix, TokenLength, Workload};

    use super::*;
    use crate::preset::quick;

    #[test]
    fn a_closed_loop_never_exceeds_its_level_and_uses_it_all() {
        let preset = quick();
        let mut users = ClosedLoop::new(&preset.spec, &preset.workload, 1, &[Duration::ZERO; 10]);
        let mut ended = 0;
        for tick in 1..100 {
            let now = Duration::from_millis(10 * tick);
            for exchange in users.advance(now).unwrap() {
                assert_eq!(exchange.tokens.len(), exchange.output_tokens as usize);
                assert!(exchange.tokens.is_sorted() && exchange.tokens[0] > exchange.sent);
                ended += 1;
            }
            // A slot is between two requests for as long as its last token is on its way.
            assert!(users.in_flight().count() <= 10);
        }
        assert!(ended >= 20, "{ended}");
        assert_eq!(users.peaks().running, 10);
    }

    #[test]
    fn a_lone_user_waits_for_one_step_a_token() {
        let mut preset = quick();
        preset.workload.output_tokens = plimsoll_run::workload::TokenLength::fixed(3);
        let mut users = ClosedLoop::new(&preset.spec, &preset.workload, 1, &[Duration::ZERO]);
        let ended = users.advance(Duration::from_millis(60)).unwrap();
        // 14 ms + 0.045 ms + 64 * 0.005 ms, then 14.045 ms each; 0.15 ms there and back.
        assert_eq!(
            ended[0].tokens,
            [14_665, 28_710, 42_755].map(Duration::from_micros)
        );
    }

    fn asked(change: impl FnOnce(&mut Workload)) -> ClosedLoop {
        let mut preset = quick();
        change(&mut preset.workload);
        let mut users = ClosedLoop::new(&preset.spec, &preset.workload, 1, &[Duration::ZERO; 8]);
        users.advance(Duration::from_secs(30)).unwrap();
        users
    }

    #[test]
    fn a_shared_prefix_is_served_from_the_cache_in_the_asked_share() {
        for (share, expected) in [(0.0, 0.0), (0.5, 0.25), (1.0, 0.5)] {
            let users = asked(|workload| {
                workload.input_tokens = TokenLength::fixed(128);
                workload.shared_prefix = Some(SharedPrefix {
                    tokens: 64,
                    share,
                    pool: 2,
                });
            });
            let counters = users.engine().counters();
            let rate = counters.prefix_hits as f64 / counters.prefix_queries as f64;
            // Half of each prompt is its prefix; the first few of each of the two find nothing yet.
            assert!((rate - expected).abs() < 0.01, "{share}: {rate}");
        }
    }

    #[test]
    fn turns_of_a_conversation_find_those_before_them_in_the_cache() {
        let users = asked(|workload| {
            workload.input_tokens = TokenLength::fixed(32);
            workload.output_tokens = TokenLength::fixed(16);
            workload.conversation = Some(Conversation {
                turns: 4,
                think_s: 0.5,
            });
        });
        assert!(users.in_flight().count() <= 8);
        let counters = users.engine().counters();
        let rate = counters.prefix_hits as f64 / counters.prefix_queries as f64;
        // Prompts have 32, 80, 128 and 176 tokens, of which the one before is cached: 240 of 416. Conversations that
        // begin in the middle find nothing, which costs a little.
        assert!((0.5..=0.577).contains(&rate), "{rate}");
    }
}
