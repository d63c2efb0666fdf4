//! Prompts of the asked length, without a tokenizer.
//!
//! A prompt is made of common words, drawn at random. How many tokens that is depends on the server: a fixed
//! overhead (its chat template) and so many tokens a word, both found by calibration.

use plimsoll_run::workload::{TokenLength, Workload};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use crate::words::WORDS;

/// How the server counts a prompt: `overhead + per_word * words`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Calibration {
    /// Tokens of the chat template and whatever else comes with every prompt.
    pub overhead: f64,
    /// Tokens a word, above 0.
    pub per_word: f64,
}

impl Calibration {
    /// One token a word: what to assume of a server that does not count.
    pub(crate) const UNKNOWN: Calibration = Calibration {
        overhead: 0.0,
        per_word: 1.0,
    };

    /// Words of a prompt of so many tokens; at least 1.
    pub(crate) fn words(self, tokens: u32) -> u32 {
        // The cast saturates, and 1 is the least that can be asked.
        (((f64::from(tokens) - self.overhead) / self.per_word).round() as u32).max(1)
    }

    /// Tokens of a prompt of so many words.
    pub(crate) fn tokens(self, words: u32) -> f64 {
        self.overhead + self.per_word * f64::from(words)
    }
}

/// One request to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub prompt: String,
    /// Prompt tokens asked for.
    pub input_tokens: u32,
    /// Reply tokens asked for.
    pub output_tokens: u32,
}

/// Which request of a run a prompt is for. No two are alike, so no two prompts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Which {
    /// The run's seed.
    pub seed: u64,
    /// The rung's order in the run; 0 is the preparation.
    pub rung: u32,
    pub slot: u32,
    /// How many requests the slot has drawn before.
    pub nth: u64,
}

impl Which {
    fn generator(self) -> StdRng {
        let mut state = self.seed;
        for part in [u64::from(self.rung), u64::from(self.slot), self.nth] {
            state = mix(state ^ part);
        }
        StdRng::seed_from_u64(state)
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection, so different states stay different.
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Draws a request: lengths from the workload's distributions, words at random.
pub(crate) fn draw(which: Which, workload: &Workload, calibration: Calibration) -> Drawn {
    let mut generator = which.generator();
    let input_tokens = length(&mut generator, workload.input_tokens);
    let output_tokens = length(&mut generator, workload.output_tokens);
    Drawn {
        prompt: prompt(&mut generator, calibration.words(input_tokens)),
        input_tokens,
        output_tokens,
    }
}

/// A prompt of exactly so many words.
pub(crate) fn of_words(which: Which, words: u32) -> String {
    prompt(&mut which.generator(), words)
}

fn length(generator: &mut StdRng, length: TokenLength) -> u32 {
    if length.stddev == 0.0 {
        return length.mean;
    }
    let z: f64 = StandardNormal.sample(generator);
    // The cast saturates; a reply or prompt has at least one token.
    ((f64::from(length.mean) + length.stddev * z).round() as u32).max(1)
}

fn prompt(generator: &mut StdRng, words: u32) -> String {
    let mut text = String::with_capacity(words as usize * 6);
    for at in 0..words {
        if at > 0 {
            text.push(' ');
        }
        text.push_str(WORDS[generator.random_range(0..WORDS.len())]);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn workload(input: TokenLength) -> Workload {
        Workload {
            input_tokens: input,
            output_tokens: TokenLength::fixed(7),
            streaming: true,
        }
    }

    #[test]
    fn words_and_tokens_are_inverse() {
        let calibration = Calibration {
            overhead: 30.0,
            per_word: 1.25,
        };
        assert_eq!(calibration.words(1030), 800);
        assert_eq!(calibration.tokens(800), 1030.0);
        assert_eq!(calibration.words(10), 1, "never fewer than one word");
        assert_eq!(Calibration::UNKNOWN.words(64), 64);
    }

    #[test]
    fn prompts_differ_from_the_first_block_on_and_come_again_with_the_same_seed() {
        let workload = workload(TokenLength::fixed(64));
        let mut openings = HashSet::new();
        for rung in 1..4 {
            for slot in 0..16 {
                for nth in 0..32 {
                    let which = Which {
                        seed: 9,
                        rung,
                        slot,
                        nth,
                    };
                    let drawn = draw(which, &workload, Calibration::UNKNOWN);
                    assert_eq!(drawn, draw(which, &workload, Calibration::UNKNOWN));
                    assert_eq!(drawn.prompt.split(' ').count(), 64);
                    assert_eq!((drawn.input_tokens, drawn.output_tokens), (64, 7));
                    let opening: Vec<&str> = drawn.prompt.split(' ').take(8).collect();
                    assert!(openings.insert(opening.join(" ")), "{which:?}");
                }
            }
        }
        let which = |seed| Which {
            seed,
            rung: 1,
            slot: 0,
            nth: 0,
        };
        assert_ne!(of_words(which(1), 8), of_words(which(2), 8));
    }

    #[test]
    fn lengths_follow_a_normal_distribution_cut_off_at_one_token() {
        let spread = TokenLength {
            mean: 1000,
            stddev: 100.0,
        };
        let mut generator = StdRng::seed_from_u64(3);
        let n = 4000;
        let drawn: Vec<f64> = (0..n)
            .map(|_| f64::from(length(&mut generator, spread)))
            .collect();
        let mean = drawn.iter().sum::<f64>() / f64::from(n);
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n - 1);
        // Five standard errors: 100/sqrt(4000) = 1.6 of the mean, 100/sqrt(8000) = 1.1 of the deviation.
        assert!((mean - 1000.0).abs() < 8.0, "{mean}");
        assert!((variance.sqrt() - 100.0).abs() < 6.0, "{}", variance.sqrt());
        let wide = TokenLength {
            mean: 2,
            stddev: 50.0,
        };
        assert!((0..200).all(|_| length(&mut generator, wide) >= 1));
    }
}
