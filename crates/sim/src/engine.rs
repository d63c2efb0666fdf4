//! The engine: continuous batching as vLLM V1 schedules it, in whatever time its holder keeps.
//!
//! A step takes running sequences first, each with one token or with the next chunk of its prompt, then admits
//! waiting requests in order of arrival while the token budget, `max_num_seqs` and the KV blocks allow. When a
//! running sequence finds no block, the youngest is thrown out and later computed again from the start. Nothing is
//! random: equal calls give equal answers.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use crate::blocks::BlockPool;
use crate::counters::Counters;
use crate::spec::EngineSpec;
use crate::step_cost::StepLoad;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Unlike that of every other request in the engine.
    pub id: u64,
    /// Prompt tokens, at least 1.
    pub prompt_tokens: u32,
    /// One hash for each full block of the prompt, each taken over the block and all before it. Fewer, or none,
    /// leave the rest out of the prefix cache.
    pub block_hashes: Vec<u64>,
    /// Reply tokens, at least 1.
    pub output_tokens: u32,
}

/// A request that the engine does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// No prompt or no reply.
    #[error("a request needs at least one prompt token and one reply token")]
    Empty,
    /// Longer than the engine allows.
    #[error("{asked} tokens of prompt and reply exceed the {most} that the engine can hold; ask for fewer")]
    TooLong {
        /// Prompt and reply tokens.
        asked: u64,
        /// The most that would do.
        most: u64,
    },
    /// That id is in the engine already.
    #[error("request {0} is in the engine already; give every request its own id")]
    Duplicate(u64),
}

/// A token of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Of which request.
    pub id: u64,
    /// Its place in the reply, from 0.
    pub index: u32,
    /// Whether it is the last one.
    pub last: bool,
    /// Prompt tokens that the prefix cache had when the request was first admitted.
    pub cached_tokens: u32,
}

/// What one step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When it ends. Its tokens exist from then on.
    pub ends_at: Duration,
    /// At most one token for each running sequence, oldest sequence first.
    pub tokens: Vec<Token>,
}

#[derive(Debug)]
struct Sequence {
    id: u64,
    arrived: Duration,
    prompt: u32,
    output: u32,
    hashes: Vec<u64>,
    /// Reply tokens so far.
    generated: u32,
    /// Tokens whose KV is in the cache.
    computed: u32,
    /// Private blocks held, those of the state included.
    private: u32,
    /// Cached blocks held.
    held: Vec<u64>,
    /// How many of `hashes`, from the first on, are behind it: held, or left private because a twin had published
    /// the same content.
    looked_at: usize,
    cached_tokens: u32,
    admitted_before: bool,
    last_token: Duration,
}

impl Sequence {
    fn known(&self) -> u32 {
        self.prompt + self.generated
    }
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    spec: EngineSpec,
    pool: BlockPool,
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    ids: HashSet<u64>,
    counters: Counters,
}

impl Engine {
    /// An idle engine. Settings of 0 that must be at least 1 count as 1.
    #[must_use]
    pub fn new(mut spec: EngineSpec) -> Self {
        spec.serving.max_num_seqs = spec.serving.max_num_seqs.max(1);
        spec.serving.max_num_batched_tokens = spec.serving.max_num_batched_tokens.max(1);
        spec.serving.block_size = spec.serving.block_size.max(1);
        Engine {
            pool: BlockPool::new(spec.kv_blocks),
            spec,
            running: Vec::new(),
            waiting: VecDeque::new(),
            ids: HashSet::new(),
            counters: Counters::default(),
        }
    }

    /// What it is made of.
    #[must_use]
    pub fn spec(&self) -> &EngineSpec {
        &self.spec
    }

    /// The most tokens of prompt and reply that one request may have.
    #[must_use]
    pub fn longest(&self) -> u64 {
        let blocks = self.spec.kv_blocks.saturating_sub(self.spec.state_blocks);
        u64::from(self.spec.serving.max_model_len)
            .min(u64::from(blocks) * u64::from(self.spec.serving.block_size))
    }

    /// Queues a request that arrives at `now`.
    ///
    /// # Errors
    /// When it is empty, too long, or its id is taken.
    pub fn submit(&mut self, now: Duration, request: Request) -> Result<(), SubmitError> {
        if request.prompt_tokens == 0 || request.output_tokens == 0 {
            return Err(SubmitError::Empty);
        }
        let asked = u64::from(request.prompt_tokens) + u64::from(request.output_tokens);
        if asked > self.longest() {
            return Err(SubmitError::TooLong {
                asked,
                most: self.longest(),
            });
        }
        if !self.ids.insert(request.id) {
            return Err(SubmitError::Duplicate(request.id));
        }
        self.waiting.push_back(Sequence {
            id: request.id,
            arrived: now,
            prompt: request.prompt_tokens,
            output: request.output_tokens,
            hashes: request.block_hashes,
            generated: 0,
            computed: 0,
            private: 0,
            held: Vec::new(),
            looked_at: 0,
            cached_tokens: 0,
            admitted_before: false,
            last_token: now,
        });
        Ok(())
    }

    /// Drops a request and frees its blocks. `false` when there is none of that id.
    pub fn abort(&mut self, id: u64) -> bool {
        if !self.ids.remove(&id) {
            return false;
        }
        if let Some(at) = self.running.iter().position(|sequence| sequence.id == id) {
            let mut sequence = self.running.remove(at);
            Self::free(&mut self.pool, &mut sequence);
        } else {
            self.waiting.retain(|sequence| sequence.id != id);
        }
        self.counters.aborted += 1;
        true
    }

    /// What it has counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            running: u32::try_from(self.running.len()).unwrap_or(u32::MAX),
            waiting: u32::try_from(self.waiting.len()).unwrap_or(u32::MAX),
            kv_usage: self.pool.usage(),
            ..self.counters.clone()
        }
    }

    /// Sequences running, requests waiting and the share of KV blocks held, without the cost of
    /// [`Engine::counters`].
    #[must_use]
    pub fn gauges(&self) -> (usize, usize, f64) {
        (self.running.len(), self.waiting.len(), self.pool.usage())
    }

    /// Runs one step that begins at `now`, with the requests that arrived by then. `None` when there is nothing to
    /// do. The next step may begin at the step's end.
    pub fn step(&mut self, now: Duration) -> Option<Step> {
        let mut budget = self.spec.serving.max_num_batched_tokens;
        let mut load = StepLoad::default();
        let preempted = self.schedule_running(&mut budget, &mut load);
        if !preempted {
            self.admit(now, &mut budget, &mut load);
        }
        if load.sequences == 0 {
            return None;
        }
        let ends_at = now.saturating_add(self.spec.cost.duration(&load));
        self.counters.steps += 1;
        let tokens = self.emit(ends_at);
        Some(Step { ends_at, tokens })
    }

    /// Gives running sequences their tokens, oldest first. Says whether any was thrown out.
    fn schedule_running(&mut self, budget: &mut u32, load: &mut StepLoad) -> bool {
        let mut preempted = false;
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let sequence = &self.running[at];
            let want = (sequence.known() - sequence.computed).min(*budget);
            let need = self.blocks_missing(sequence, sequence.computed + want);
            while !self.pool.take(need) {
                // The youngest is the last; it may be this very sequence.
                preempted = true;
                let Some(mut youngest) = self.running.pop() else {
                    break;
                };
                Self::free(&mut self.pool, &mut youngest);
                youngest.computed = 0;
                self.counters.preemptions += 1;
                self.waiting.push_front(youngest);
                if self.running.len() <= at {
                    return preempted;
                }
            }
            self.running[at].private += need;
            self.compute(at, want, budget, load);
            at += 1;
        }
        preempted
    }

    /// Admits waiting requests in order while there is room.
    fn admit(&mut self, now: Duration, budget: &mut u32, load: &mut StepLoad) {
        let serving = self.spec.serving;
        while *budget > 0 && self.running.len() < serving.max_num_seqs as usize {
            let Some(first) = self.waiting.front() else { break };
            if first.arrived > now {
                break;
            }
            let known = first.known();
            let (hits, idle) = if serving.prefix_caching {
                // The last token is always computed, for its logits are needed.
                let most = ((known - 1) / serving.block_size) as usize;
                self.pool
                    .longest_prefix(&first.hashes[..first.hashes.len().min(most)])
            } else {
                (0, 0)
            };
            let computed = hits * serving.block_size;
            let want = (known - computed).min(*budget);
            let need = (computed + want).div_ceil(serving.block_size) - hits + self.spec.state_blocks;
            if need > self.pool.available() - idle {
                break;
            }
            let Some(mut sequence) = self.waiting.pop_front() else {
                break;
            };
            for hash in &sequence.hashes[..hits as usize] {
                self.pool.hold(*hash);
                sequence.held.push(*hash);
            }
            // There is room: it was checked above, and holding the hits took only the idle ones among them.
            self.pool.take(need);
            sequence.private = need;
            sequence.looked_at = hits as usize;
            sequence.computed = computed;
            if !sequence.admitted_before {
                sequence.admitted_before = true;
                sequence.cached_tokens = computed;
                if serving.prefix_caching {
                    self.counters.prefix_queries += u64::from(sequence.prompt);
                    self.counters.prefix_hits += u64::from(computed);
                }
                self.counters.queue.observe(now.saturating_sub(sequence.arrived));
            }
            self.running.push(sequence);
            self.compute(self.running.len() - 1, want, budget, load);
        }
    }

    /// Private blocks that a sequence lacks to hold `tokens` tokens.
    fn blocks_missing(&self, sequence: &Sequence, tokens: u32) -> u32 {
        let held = sequence.private + u32::try_from(sequence.held.len()).unwrap_or(u32::MAX);
        (tokens.div_ceil(self.spec.serving.block_size) + self.spec.state_blocks).saturating_sub(held)
    }

    /// Puts `want` tokens of the sequence at `at` into the step and publishes the prompt blocks they fill.
    fn compute(&mut self, at: usize, want: u32, budget: &mut u32, load: &mut StepLoad) {
        let sequence = &mut self.running[at];
        let decoding = want == 1 && sequence.generated > 0 && sequence.computed + 1 == sequence.known();
        sequence.computed += want;
        *budget -= want;
        load.sequences += 1;
        load.tokens += want;
        load.prefill_tokens += if decoding { 0 } else { want };
        load.context_tokens += u64::from(sequence.computed);
        if self.spec.serving.prefix_caching {
            let full = (sequence.computed / self.spec.serving.block_size) as usize;
            while sequence.looked_at < full.min(sequence.hashes.len()) {
                let hash = sequence.hashes[sequence.looked_at];
                if self.pool.publish(hash) {
                    sequence.private -= 1;
                    sequence.held.push(hash);
                }
                sequence.looked_at += 1;
            }
        }
    }

    /// Gives every sequence whose tokens are all computed its next token.
    fn emit(&mut self, ends_at: Duration) -> Vec<Token> {
        let mut tokens = Vec::with_capacity(self.running.len());
        let mut ended = false;
        for sequence in &mut self.running {
            if sequence.computed < sequence.known() {
                continue;
            }
            let index = sequence.generated;
            sequence.generated += 1;
            let last = sequence.generated == sequence.output;
            ended |= last;
            tokens.push(Token {
                id: sequence.id,
                index,
                last,
                cached_tokens: sequence.cached_tokens,
            });
            self.counters.generation_tokens += 1;
            if index == 0 {
                self.counters.prompt_tokens += u64::from(sequence.prompt);
                self.counters
                    .ttft
                    .observe(ends_at.saturating_sub(sequence.arrived));
            } else {
                self.counters
                    .itl
                    .observe(ends_at.saturating_sub(sequence.last_token));
            }
            if last {
                self.counters.finished += 1;
                self.counters
                    .e2e
                    .observe(ends_at.saturating_sub(sequence.arrived));
            }
            sequence.last_token = ends_at;
        }
        if ended {
            let (pool, ids) = (&mut self.pool, &mut self.ids);
            self.running.retain_mut(|sequence| {
                let stays = sequence.generated < sequence.output;
                if !stays {
                    Self::free(pool, sequence);
                    ids.remove(&sequence.id);
                }
                stays
            });
        }
        tokens
    }

    /// Frees all blocks of a sequence, its last block first, so that a shared beginning lives longest.
    fn free(pool: &mut BlockPool, sequence: &mut Sequence) {
        pool.give_back(sequence.private);
        sequence.private = 0;
        for hash in sequence.held.drain(..).rev() {
            pool.release(hash);
        }
        sequence.looked_at = 0;
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
