//! What simulated users ask: the same outlines that a real endpoint gets as text, taken as lengths and block hashes.

use std::sync::Arc;

use plimsoll_prompts::{Calibration, Prompts, Rows, RungPrompts};
use plimsoll_run::workload::{TokenLength, Workload};

/// Reply lengths with a heavy tail, as chat traffic has them: lognormal around the workload's mean, cut off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeavyTail {
    /// Standard deviation of the logarithm, above 0.
    pub sigma: f64,
    /// No reply is longer, tokens.
    pub most: u32,
}

/// What users ask: a workload, and the rows of its source where it has one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asking {
    pub(crate) workload: Workload,
    pub(crate) rows: Option<Arc<Rows>>,
}

impl From<&Workload> for Asking {
    fn from(workload: &Workload) -> Self {
        Asking {
            workload: workload.clone(),
            rows: None,
        }
    }
}

impl Asking {
    /// The same with replies of a heavy tail.
    pub(crate) fn with_tail(mut self, tail: HeavyTail) -> Self {
        self.workload.output_tokens = TokenLength::LogNormal {
            mean: self.workload.output_tokens.mean_tokens(),
            sigma: tail.sigma,
            most: Some(tail.most.max(1)),
        };
        self
    }

    /// What one rung asks. Tokens are those of the workload: nothing needs to be calibrated.
    pub(crate) fn rung(&self, rung_seed: u64) -> Arc<RungPrompts> {
        let prompts = Prompts::new(&self.workload, self.rows.clone(), Calibration::UNKNOWN, rung_seed);
        Arc::new(prompts).rung(0)
    }
}

/// Mixes a number into a hash (the finaliser of SplitMix64, by Vigna).
#[must_use]
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    plimsoll_prompts::mix(hash ^ value)
}

#[cfg(test)]
mod tests {
    use plimsoll_prompts::Outline;

    use super::*;

    fn requests(asking: &Asking, n: u64) -> Vec<Outline> {
        let rung = asking.rung(7);
        (0..n).map(|index| rung.alone(mix(7, index))).collect()
    }

    #[test]
    fn requests_repeat_by_seed_and_differ_by_index() {
        let asking = Asking::from(&Workload {
            input_tokens: "64:20".parse().unwrap(),
            output_tokens: "16:4".parse().unwrap(),
            ..Workload::default()
        });
        assert_eq!(requests(&asking, 5), requests(&asking, 5));
        let mut hashes: Vec<u64> = requests(&asking, 1_000)
            .iter()
            .flat_map(|outline| outline.block_hashes(16))
            .collect();
        let all = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), all);
        let lengths = requests(&asking, 10_000);
        let mean = lengths
            .iter()
            .map(|outline| f64::from(outline.output_tokens))
            .sum::<f64>()
            / 10_000.0;
        assert!((mean - 16.0).abs() < 0.2, "{mean}");
    }

    #[test]
    fn heavy_tails_keep_the_mean_and_the_cut() {
        let asking = Asking::from(&Workload {
            input_tokens: "64".parse().unwrap(),
            output_tokens: "200".parse().unwrap(),
            ..Workload::default()
        })
        .with_tail(HeavyTail {
            sigma: 0.8,
            most: 2_000,
        });
        let lengths: Vec<f64> = requests(&asking, 20_000)
            .iter()
            .map(|outline| f64::from(outline.output_tokens))
            .collect();
        let mean = lengths.iter().sum::<f64>() / 20_000.0;
        assert!((mean - 200.0).abs() < 6.0, "{mean}");
        assert!(lengths.iter().all(|length| (1.0..=2_000.0).contains(length)));
        // The median of a lognormal is its mean over exp(sigma^2/2): 145.
        let below = lengths.iter().filter(|length| **length < 145.0).count();
        assert!((9_500..10_500).contains(&below), "{below}");
    }
}
