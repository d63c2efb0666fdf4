//! What simulated users ask: lengths drawn from the workload, prompts that no other request shares.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, LogNormal};

use plimsoll_prompts::lengths;
use plimsoll_run::workload::Workload;

use crate::engine::Request;

/// Reply lengths with a heavy tail, as chat traffic has them: lognormal around the workload's mean, cut off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeavyTail {
    /// Standard deviation of the logarithm, above 0.
    pub sigma: f64,
    /// No reply is longer, tokens.
    pub most: u32,
}

impl HeavyTail {
    /// A length whose mean before the cut is `mean`: the lognormal's mean is exp(mu + sigma^2/2).
    fn draw(self, mean: u32, rng: &mut StdRng) -> u32 {
        let mu = f64::from(mean).ln() - self.sigma * self.sigma / 2.0;
        match LogNormal::new(mu, self.sigma) {
            Ok(lognormal) => (lognormal.sample(rng).round() as u32).clamp(1, self.most.max(1)),
            Err(_) => mean,
        }
    }
}

/// What users ask: a workload, its reply lengths with a heavy tail where one is given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asking {
    pub(crate) workload: Workload,
    pub(crate) tail: Option<HeavyTail>,
}

impl From<&Workload> for Asking {
    fn from(workload: &Workload) -> Self {
        Asking {
            workload: workload.clone(),
            tail: None,
        }
    }
}

/// Mixes a number into a hash (the finaliser of SplitMix64, by Vigna).
#[must_use]
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let mut z = (hash ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The `index`th request of the rung with this seed: the same for equal arguments, unlike every other from its first
/// block on.
pub(crate) fn request(asking: &Asking, rung_seed: u64, index: u64, block_size: u32) -> Request {
    let workload = &asking.workload;
    let own = mix(rung_seed, index);
    let mut rng = StdRng::seed_from_u64(own);
    let prompt_tokens = lengths::draw(&workload.input_tokens, &mut rng);
    let output_tokens = match asking.tail {
        Some(tail) => tail.draw(workload.output_tokens.mean_tokens(), &mut rng),
        None => lengths::draw(&workload.output_tokens, &mut rng),
    };
    Request {
        id: index,
        prompt_tokens,
        block_hashes: (0..prompt_tokens / block_size.max(1))
            .map(|block| mix(own, u64::from(block) + 1))
            .collect(),
        output_tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_repeat_by_seed_and_differ_by_index() {
        let workload = Asking::from(&Workload {
            input_tokens: "64:20".parse().unwrap(),
            output_tokens: "16:4".parse().unwrap(),
            streaming: true,
            ..Workload::default()
        });
        assert_eq!(request(&workload, 7, 3, 16), request(&workload, 7, 3, 16));
        let mut hashes: Vec<u64> = (0..1_000)
            .flat_map(|index| request(&workload, 7, index, 16).block_hashes)
            .collect();
        let all = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), all);
        let mean = (0..10_000)
            .map(|index| f64::from(request(&workload, 7, index, 16).output_tokens))
            .sum::<f64>()
            / 10_000.0;
        assert!((mean - 16.0).abs() < 0.2, "{mean}");
    }
    #[test]
    fn heavy_tails_keep_the_mean_and_the_cut() {
        let mut asking = Asking::from(&Workload {
            input_tokens: "64".parse().unwrap(),
            output_tokens: "200".parse().unwrap(),
            streaming: true,
            ..Workload::default()
        });
        asking.tail = Some(HeavyTail {
            sigma: 0.8,
            most: 2_000,
        });
        let lengths: Vec<f64> = (0..20_000)
            .map(|index| f64::from(request(&asking, 7, index, 16).output_tokens))
            .collect();
        let mean = lengths.iter().sum::<f64>() / 20_000.0;
        assert!((mean - 200.0).abs() < 6.0, "{mean}");
        assert!(lengths.iter().all(|length| (1.0..=2_000.0).contains(length)));
        // The median of a lognormal is its mean over exp(sigma^2/2): 145.
        let below = lengths.iter().filter(|length| **length < 145.0).count();
        assert!((9_500..10_500).contains(&below), "{below}");
    }
}
