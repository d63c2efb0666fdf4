//! Requests of the asked lengths, without a tokenizer.
//!
//! A prompt is made of common words, drawn at random. How many tokens that is depends on the server: a fixed
//! overhead (its chat template) and so many tokens a word, both found by calibration.

use plimsoll_prompts::{Calibration, Drawn, Turn, Which, lengths, synthetic};
use plimsoll_run::workload::Workload;

/// Draws a request: lengths from the workload's distributions, words at random.
pub(crate) fn draw(which: Which, workload: &Workload, calibration: Calibration) -> Drawn {
    let mut generator = which.generator();
    let input_tokens = lengths::draw(&workload.input_tokens, &mut generator);
    let output_tokens = lengths::draw(&workload.output_tokens, &mut generator);
    Drawn {
        turns: vec![Turn::user(synthetic(
            &mut generator,
            calibration.words(input_tokens),
        ))],
        input_tokens,
        output_tokens,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use plimsoll_prompts::of_words;
    use plimsoll_run::workload::TokenLength;

    use super::*;

    #[test]
    fn prompts_differ_from_the_first_block_on_and_come_again_with_the_same_seed() {
        let workload = Workload {
            input_tokens: TokenLength::fixed(64),
            output_tokens: TokenLength::fixed(7),
            ..Workload::default()
        };
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
                    let text = &drawn.turns[0].text;
                    assert_eq!(text.split(' ').count(), 64);
                    assert_eq!((drawn.input_tokens, drawn.output_tokens), (64, 7));
                    let opening: Vec<&str> = text.split(' ').take(8).collect();
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
}
