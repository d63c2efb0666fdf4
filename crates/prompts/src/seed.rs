//! Seeds: one for each request of a run.

use rand::SeedableRng;
use rand::rngs::StdRng;

/// Which request of a run a prompt is for. No two are alike, so no two prompts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Which {
    /// The run's seed.
    pub seed: u64,
    /// The rung's order in the run; 0 is the preparation.
    pub rung: u32,
    /// The slot that sends it.
    pub slot: u32,
    /// How many requests the slot has drawn before.
    pub nth: u64,
}

impl Which {
    /// A number that no other request of the run has.
    #[must_use]
    pub fn hash(self) -> u64 {
        // Mixed first: rung 2 of seed 43 must not be rung 3 of seed 42.
        let mut state = mix(self.seed);
        for part in [u64::from(self.rung), u64::from(self.slot), self.nth] {
            state = mix(state ^ part);
        }
        state
    }

    /// Its own randomness.
    #[must_use]
    pub fn generator(self) -> StdRng {
        StdRng::seed_from_u64(self.hash())
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection, so different states stay different.
#[must_use]
pub fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_requests_of_runs_with_neighbouring_seeds_are_alike() {
        let mut seen = HashSet::new();
        for seed in 40..48 {
            for rung in 0..8 {
                for slot in 0..8 {
                    for nth in 0..8 {
                        let which = Which {
                            seed,
                            rung,
                            slot,
                            nth,
                        };
                        assert!(seen.insert(which.hash()), "{which:?}");
                    }
                }
            }
        }
    }
}
