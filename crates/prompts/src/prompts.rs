//! What a run asks, rung by rung and slot by slot.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_run::workload::Workload;

use crate::calibration::Calibration;
use crate::outline::{Outline, Part};
use crate::prefix::prefix_of;
use crate::request::Role;
use crate::rows::Rows;
use crate::seed::mix;
use crate::talk::{self, Opened};

/// Sets the seeds of shared prefixes apart from those of requests.
const PREFIX_SALT: u64 = 0x5057_2E66_6978_0001;

/// What a run asks. Shared by all its rungs.
#[derive(Debug)]
pub struct Prompts {
    workload: Workload,
    rows: Option<Arc<Rows>>,
    calibration: Calibration,
    seed: u64,
    /// Conversations opened: which of them have a shared prefix follows from their order.
    opened: AtomicU64,
    /// Rows of a dataset used.
    taken: AtomicU64,
}

impl Prompts {
    /// For this workload; `rows` are those of its source.
    #[must_use]
    pub fn new(workload: &Workload, rows: Option<Arc<Rows>>, calibration: Calibration, seed: u64) -> Self {
        Prompts {
            workload: workload.clone(),
            rows,
            calibration,
            seed,
            opened: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// What one rung asks; `order` is the rung's in the run.
    #[must_use]
    pub fn rung(self: &Arc<Self>, order: u32) -> Arc<RungPrompts> {
        Arc::new(RungPrompts {
            prompts: Arc::clone(self),
            salt: mix(mix(self.seed) ^ u64::from(order)),
            opened: AtomicU64::new(0),
        })
    }

    /// How a server counts these prompts.
    #[must_use]
    pub fn calibration(&self) -> Calibration {
        self.calibration
    }

    /// What to know of the prompts that were asked up to now: one sentence each, for the record.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let Some(Rows::Dataset(dataset)) = self.rows.as_deref() else {
            return Vec::new();
        };
        let (taken, distinct) = (self.taken.load(Ordering::Relaxed), dataset.distinct());
        let mut warnings = Vec::new();
        if taken > dataset.len() as u64 {
            warnings.push(format!(
                "The {} prompts of the dataset were used up and begun again: {taken} requests were drawn from {distinct} \
                 distinct prompts, so that a prefix cache may have answered the repeated ones. Give a larger dataset, or \
                 fewer and shorter rungs.",
                dataset.len()
            ));
        }
        warnings
    }

    /// A prefix of the pool.
    fn prefix(&self, which: u32, tokens: u32) -> Part {
        Part::new(
            Role::System,
            tokens,
            mix(mix(self.seed ^ PREFIX_SALT) ^ u64::from(which)),
        )
    }

    /// The outline of a turn.
    fn turn(&self, opened: &Opened, turn: u32) -> Outline {
        let mut parts = Vec::new();
        let prefix_tokens = self.workload.shared_prefix.map_or(0, |prefix| {
            parts.push(match opened.prefix {
                Some(which) => self.prefix(which, prefix.tokens),
                None => Part::new(Role::System, prefix.tokens, mix(opened.id ^ PREFIX_SALT)),
            });
            prefix.tokens
        });
        let row = opened.row.and_then(|row| Some((self.rows.as_deref()?, row)));
        let given = match row {
            Some((Rows::Dataset(dataset), row)) => {
                dataset.say(row, turn, opened.turns, self.calibration, &mut parts)
            }
            Some((Rows::Trace(trace), row)) => {
                trace.say(row, opened, prefix_tokens, &mut parts);
                Some(trace.output_tokens(row))
            }
            None => Some(talk::say(
                &self.workload,
                opened.id,
                turn,
                prefix_tokens,
                &mut parts,
            )),
        };
        let own = row.is_some()
            && self
                .workload
                .source
                .as_ref()
                .is_some_and(|source| source.own_output_tokens);
        let output_tokens = given
            .filter(|_| !own)
            .unwrap_or_else(|| talk::lengths(&self.workload, opened.id, turn).1);
        Outline::new(parts, output_tokens)
    }
}

/// What one rung asks. Shared by its slots.
#[derive(Debug)]
pub struct RungPrompts {
    prompts: Arc<Prompts>,
    /// What sets this rung's texts apart from those of others.
    salt: u64,
    /// Conversations opened in this rung.
    opened: AtomicU64,
}

impl RungPrompts {
    /// How a server counts these prompts.
    #[must_use]
    pub fn calibration(&self) -> Calibration {
        self.prompts.calibration
    }

    /// A new conversation, or a single request. `id` is a number that nothing else of the run has. One that is `under_way`
    /// begins at any of its turns, as it would be met in traffic that has gone on for long.
    fn open(&self, id: u64, under_way: bool) -> Opened {
        let n = self.opened.fetch_add(1, Ordering::Relaxed);
        let rows = self.prompts.rows.as_deref();
        let (row, pass) = match rows {
            Some(Rows::Dataset(dataset)) => {
                let taken = self.prompts.taken.fetch_add(1, Ordering::Relaxed);
                let (row, pass) = dataset.row(taken, self.prompts.seed);
                (Some(row), pass)
            }
            Some(Rows::Trace(trace)) => {
                let (row, pass) = trace.row(n);
                (Some(row), pass)
            }
            None => (None, 0),
        };
        let asked = self
            .prompts
            .workload
            .conversation
            .map_or(1, |conversation| conversation.turns.max(1));
        let turns = match (rows, row) {
            (Some(Rows::Dataset(dataset)), Some(row)) => asked.min(dataset.exchanges(row)).max(1),
            _ => asked,
        };
        Opened {
            id,
            salt: mix(self.salt ^ pass),
            prefix: None,
            row,
            turns,
            turn: if under_way {
                u32::try_from(n % u64::from(turns)).unwrap_or(0)
            } else {
                0
            },
        }
    }

    /// Says whether it has a shared prefix, by the order in which conversations are sent.
    fn choose_prefix(&self, opened: &mut Opened) {
        if let Some(prefix) = &self.prompts.workload.shared_prefix {
            opened.prefix = prefix_of(self.prompts.opened.fetch_add(1, Ordering::Relaxed), prefix);
        }
    }

    /// A request by itself, as an arrival in open loop is: any turn of a conversation of its own. `id` is a number that
    /// no other request of the run has.
    #[must_use]
    pub fn alone(&self, id: u64) -> Outline {
        let mut opened = self.open(id, true);
        self.choose_prefix(&mut opened);
        self.prompts.turn(&opened, opened.turn)
    }
}

/// What one slot asks, one request after the other.
///
/// While the user of a conversation thinks, the slot goes on with another: it takes up the one whose user has thought
/// longest, or opens a new one where none is due. So the slot always has a request in flight, and there are as many
/// conversations open as the pauses need.
///
/// Conversations that a rung opens before any pause can have ended begin at any of their turns: from the first request
/// on, each turn is as frequent as in traffic that has gone on for long.
#[derive(Debug)]
pub struct SlotPrompts {
    rung: Arc<RungPrompts>,
    think: Duration,
    /// Conversations whose users think, with the time at which their next message is due, ascending.
    thinking: VecDeque<(Duration, Opened)>,
    /// The one in flight.
    flying: Option<Opened>,
    ahead: Option<(Opened, Outline)>,
    /// Conversations opened later than this begin at their first turn.
    settled_at: Option<Duration>,
}

impl SlotPrompts {
    /// For a slot of this rung.
    #[must_use]
    pub fn new(rung: &Arc<RungPrompts>) -> Self {
        let conversation = rung.prompts.workload.conversation;
        SlotPrompts {
            rung: Arc::clone(rung),
            think: conversation.map_or(Duration::ZERO, |conversation| {
                Duration::try_from_secs_f64(conversation.think_s).unwrap_or(Duration::ZERO)
            }),
            thinking: VecDeque::new(),
            flying: None,
            ahead: None,
            settled_at: None,
        }
    }

    /// Prepares a new conversation, text and all, while there is time for it. `id` is a number that nothing else of the
    /// run has; it is used only where nothing is prepared yet.
    pub fn look_ahead(&mut self, now: Duration, id: impl FnOnce() -> u64) {
        if self.ahead.is_some() {
            return;
        }
        let settled_at = *self.settled_at.get_or_insert(now + self.think);
        let opened = self.rung.open(id(), now <= settled_at);
        let mut outline = self.rung.prompts.turn(&opened, opened.turn);
        outline.write(self.rung.prompts.calibration);
        self.ahead = Some((opened, outline));
    }

    /// The next request, to be sent now.
    pub fn next(&mut self, now: Duration, id: impl FnOnce() -> u64) -> Outline {
        if self.thinking.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, opened)) = self.thinking.pop_front()
        {
            let outline = self.rung.prompts.turn(&opened, opened.turn);
            self.flying = Some(opened);
            return outline;
        }
        self.look_ahead(now, id);
        let Some((mut opened, mut outline)) = self.ahead.take() else {
            // `look_ahead` leaves one.
            return Outline::new(Vec::new(), 1);
        };
        self.rung.choose_prefix(&mut opened);
        if let (Some(which), Some(prefix)) = (opened.prefix, &self.rung.prompts.workload.shared_prefix) {
            outline.parts[0] = self.rung.prompts.prefix(which, prefix.tokens);
        }
        self.flying = Some(opened);
        outline
    }

    /// The request in flight has ended. A conversation whose turn failed is over.
    pub fn ended(&mut self, now: Duration, ok: bool) {
        if let Some(mut opened) = self.flying.take() {
            opened.turn += 1;
            if ok && opened.turn < opened.turns {
                self.thinking.push_back((now + self.think, opened));
            }
        }
    }

    /// Conversations that are open: whose user thinks, or whose request is in flight.
    #[must_use]
    pub fn open(&self) -> usize {
        self.thinking.len() + usize::from(self.flying.is_some())
    }
}

#[cfg(test)]
mod tests;
