//! Shared prefixes: which requests begin with one, and with which.

use plimsoll_run::workload::SharedPrefix;

/// Keeps a product such as `10 * 0.1` from falling below the whole number that it is.
const ROUNDING: f64 = 1e-9;

/// How many of the first `n` requests begin with a shared prefix: the whole part of `n * share`, so that the share is
/// met as nearly as whole requests can, over the first `n` of a run for every `n`.
fn shared_among(n: u64, share: f64) -> u64 {
    // The cast saturates.
    (n as f64 * share + ROUNDING) as u64
}

/// Which prefix of the pool the `n`th request (from 0) begins with; `None` for one of its own. Prefixes take turns.
#[must_use]
pub fn prefix_of(n: u64, prefix: &SharedPrefix) -> Option<u32> {
    let before = shared_among(n, prefix.share);
    (shared_among(n.saturating_add(1), prefix.share) > before)
        .then(|| u32::try_from(before % u64::from(prefix.pool.max(1))).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_share_of_any_number_of_requests_is_shared_and_prefixes_take_turns() {
        for share in [0.0, 0.1, 0.25, 1.0 / 3.0, 0.5, 0.8, 0.9, 0.999, 1.0] {
            let prefix = SharedPrefix {
                tokens: 16,
                share,
                pool: 7,
            };
            let mut shared = 0;
            let mut uses = [0_u32; 7];
            for n in 0..10_000 {
                if let Some(which) = prefix_of(n, &prefix) {
                    shared += 1;
                    uses[which as usize] += 1;
                }
                let asked = (n + 1) as f64 * share;
                assert!((f64::from(shared) - asked).abs() < 1.0, "{share} {n}: {shared}");
            }
            assert_eq!(f64::from(shared), (10_000.0 * share + 1e-9).floor());
            assert!(uses.iter().max().unwrap() - uses.iter().min().unwrap() <= 1);
        }
    }
}
