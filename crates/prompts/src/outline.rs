//! A request before its text is written: who says how much, and which parts are the same as in other requests.
//!
//! The simulated engine needs no more than that; a real endpoint gets the text of it.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::calibration::Calibration;
use crate::request::{Drawn, Role, Turn};
use crate::seed::mix;
use crate::words::synthetic;

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Who says it.
    pub role: Role,
    /// Its tokens, at least 1; those of a dataset's text are an estimate.
    pub tokens: u32,
    /// Parts of equal seed begin alike, for as long as the shorter one lasts.
    pub seed: u64,
    /// Whether the tokens of the chat template count as its own.
    pub with_overhead: bool,
    /// Whether it goes on in the message of the part before, which is of the same role.
    pub continues: bool,
    /// Its text, once written or where a dataset gives it.
    pub text: Option<Arc<str>>,
}

impl Part {
    /// A synthetic one.
    pub(crate) fn new(role: Role, tokens: u32, seed: u64) -> Self {
        Part {
            role,
            tokens: tokens.max(1),
            seed,
            with_overhead: false,
            continues: false,
            text: None,
        }
    }

    /// Writes its text unless it has one.
    pub(crate) fn write(&mut self, calibration: Calibration) -> Arc<str> {
        let words = if self.with_overhead {
            calibration.words(self.tokens)
        } else {
            calibration.words_of_part(self.tokens)
        };
        let seed = self.seed;
        let text = self
            .text
            .get_or_insert_with(|| synthetic(&mut StdRng::seed_from_u64(seed), words).into());
        Arc::clone(text)
    }
}

/// A request before its text is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// What is said, oldest first; the last is the user's.
    pub parts: Vec<Part>,
    /// Prompt tokens asked for: those of all parts.
    pub input_tokens: u32,
    /// Reply tokens asked for, at least 1.
    pub output_tokens: u32,
}

impl Outline {
    /// Of these parts.
    pub(crate) fn new(parts: Vec<Part>, output_tokens: u32) -> Self {
        Outline {
            input_tokens: parts
                .iter()
                .fold(0_u32, |sum, part| sum.saturating_add(part.tokens)),
            parts,
            output_tokens: output_tokens.max(1),
        }
    }

    /// Writes the texts that are still missing, so that they need not be written when the request is due.
    pub fn write(&mut self, calibration: Calibration) {
        for part in &mut self.parts {
            part.write(calibration);
        }
    }

    /// The request with its text.
    #[must_use]
    pub fn drawn(mut self, calibration: Calibration) -> Drawn {
        let mut turns: Vec<Turn> = Vec::with_capacity(self.parts.len());
        for part in &mut self.parts {
            let text = part.write(calibration);
            match turns.last_mut() {
                Some(turn) if part.continues && turn.role == part.role => {
                    turn.text = format!("{} {text}", turn.text).into();
                }
                _ => turns.push(Turn {
                    role: part.role,
                    text,
                }),
            }
        }
        Drawn {
            turns,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
        }
    }

    /// A hash for each full block of so many tokens, of it and all before it: equal hashes mean equal beginnings.
    #[must_use]
    pub fn block_hashes(&self, block_size: u32) -> Vec<u64> {
        let size = block_size.max(1);
        let mut hashes = Vec::with_capacity((self.input_tokens / size) as usize);
        let (mut hash, mut filled) = (0_u64, 0_u32);
        for part in &self.parts {
            let mut at = 0;
            while at < part.tokens {
                let taken = (size - filled).min(part.tokens - at);
                hash = mix(mix(hash ^ part.seed) ^ (u64::from(at) << 32 | u64::from(taken)));
                at += taken;
                filled += taken;
                if filled == size {
                    hashes.push(hash);
                    filled = 0;
                }
            }
        }
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(parts: &[(Role, u32, u64)]) -> Outline {
        Outline::new(
            parts
                .iter()
                .map(|(role, tokens, seed)| Part::new(*role, *tokens, *seed))
                .collect(),
            5,
        )
    }

    #[test]
    fn equal_beginnings_share_blocks_and_words_and_nothing_after_them() {
        let first = outline(&[(Role::System, 40, 1), (Role::User, 60, 2)]);
        let other = outline(&[(Role::System, 40, 1), (Role::User, 60, 3)]);
        let (a, b) = (first.block_hashes(16), other.block_hashes(16));
        assert_eq!((a.len(), first.input_tokens), (6, 100));
        assert_eq!(a[..2], b[..2]);
        assert!(a[2..].iter().zip(&b[2..]).all(|(a, b)| a != b));
        let (a, b) = (
            first.drawn(Calibration::UNKNOWN),
            other.drawn(Calibration::UNKNOWN),
        );
        assert_eq!(a.turns[0], b.turns[0]);
        assert_ne!(a.turns[1], b.turns[1]);
        assert_eq!(a.turns[0].text.split(' ').count(), 40);
    }

    #[test]
    fn a_longer_part_of_the_same_seed_begins_like_the_shorter() {
        let long = outline(&[(Role::User, 64, 9)]);
        let short = outline(&[(Role::User, 48, 9)]);
        assert_eq!(long.block_hashes(16)[..3], short.block_hashes(16)[..]);
        let (long, short) = (
            long.drawn(Calibration::UNKNOWN),
            short.drawn(Calibration::UNKNOWN),
        );
        assert!(long.turns[0].text.starts_with(&*short.turns[0].text));
    }

    #[test]
    fn parts_that_go_on_make_one_message() {
        let mut whole = outline(&[(Role::User, 3, 1), (Role::User, 2, 2), (Role::User, 4, 3)]);
        whole.parts[1].continues = true;
        let drawn = whole.drawn(Calibration::UNKNOWN);
        assert_eq!(drawn.turns.len(), 2);
        assert_eq!(drawn.turns[0].text.split(' ').count(), 5);
    }
}
