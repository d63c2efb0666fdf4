//! Synthetic conversations. What is said in each follows from its id alone, so that nothing needs to be kept of it while
//! its user thinks.
//!
//! The replies in a history are synthetic too, of the length that was asked for: no reply is read on the way, so that
//! taking up a conversation costs the load generator no time that it should give to its clocks. A prefix cache therefore
//! finds the prompts of earlier turns up to the first reply in them, and each earlier turn as it was sent since.

use plimsoll_run::workload::Workload;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::lengths::draw;
use crate::outline::Part;
use crate::request::Role;
use crate::seed::mix;

/// A conversation, or a single request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Nothing else of the run has it.
    pub id: u64,
    /// Sets texts that a trace shares between requests apart from those of other rungs and passes.
    pub salt: u64,
    /// Its prefix of the pool.
    pub prefix: Option<u32>,
    /// Its row of the source.
    pub row: Option<usize>,
    /// How many turns it has, at least 1.
    pub turns: u32,
    /// The next of them, from 0.
    pub turn: u32,
}

/// The seed of one turn's lengths and texts. The first turn's is the id itself.
fn seed_of(id: u64, turn: u32) -> u64 {
    if turn == 0 { id } else { mix(id ^ u64::from(turn)) }
}

/// What the user adds in this turn, and the reply asked for, in tokens.
pub(crate) fn lengths(workload: &Workload, id: u64, turn: u32) -> (u32, u32) {
    let mut generator = StdRng::seed_from_u64(seed_of(id, turn));
    (
        draw(&workload.input_tokens, &mut generator),
        draw(&workload.output_tokens, &mut generator),
    )
}

/// Adds all that has been said up to this turn, after a prefix of `prefix_tokens`, which count as part of the first
/// message. Returns the reply to ask for.
pub(crate) fn say(workload: &Workload, id: u64, turn: u32, prefix_tokens: u32, parts: &mut Vec<Part>) -> u32 {
    for earlier in 0..turn {
        let (input, output) = lengths(workload, id, earlier);
        parts.push(message(id, earlier, input, prefix_tokens));
        parts.push(Part::new(Role::Assistant, output, mix(!seed_of(id, earlier) ^ 1)));
    }
    let (input, output) = lengths(workload, id, turn);
    parts.push(message(id, turn, input, prefix_tokens));
    output
}

fn message(id: u64, turn: u32, tokens: u32, prefix_tokens: u32) -> Part {
    let opening = turn == 0;
    let own = if opening {
        tokens.saturating_sub(prefix_tokens)
    } else {
        tokens
    };
    Part {
        with_overhead: opening,
        ..Part::new(Role::User, own, mix(!seed_of(id, turn)))
    }
}
