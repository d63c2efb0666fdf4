//! Drawing token lengths, and reading them from a file.

use plimsoll_run::workload::TokenLength;
use rand::RngExt;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

/// Draws a length, at least 1.
#[must_use]
pub fn draw(length: &TokenLength, generator: &mut StdRng) -> u32 {
    let mut normal = || -> f64 { StandardNormal.sample(generator) };
    match length {
        TokenLength::Fixed(tokens) => *tokens,
        // Casts saturate; a reply or prompt has at least one token.
        TokenLength::Normal { mean, stddev } => {
            ((f64::from(*mean) + stddev * normal()).round() as u32).max(1)
        }
        TokenLength::LogNormal { mean, sigma, most } => {
            let mu = f64::from(*mean).ln() - sigma * sigma / 2.0;
            ((mu + sigma * normal()).exp().round() as u32)
                .clamp(1, most.unwrap_or(plimsoll_run::workload::LONGEST))
        }
        TokenLength::Uniform { least, most } => generator.random_range(*least..=*most),
        TokenLength::Empirical(empirical) => empirical.quantile(generator.random()),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn drawn(text: &str, n: usize) -> Vec<u32> {
        let length = text.parse().unwrap();
        let mut generator = StdRng::seed_from_u64(3);
        let mut drawn: Vec<u32> = (0..n).map(|_| draw(&length, &mut generator)).collect();
        drawn.sort_unstable();
        drawn
    }

    fn mean(of: &[u32]) -> f64 {
        of.iter().map(|x| f64::from(*x)).sum::<f64>() / of.len() as f64
    }

    fn quantile(sorted: &[u32], p: f64) -> f64 {
        f64::from(sorted[(p * sorted.len() as f64) as usize])
    }

    /// Means within five standard errors, quantiles within five of theirs, sqrt(p(1-p)/n)/f.
    #[test]
    fn draws_have_the_mean_and_the_quantiles_of_their_law() {
        const N: usize = 20_000;
        let n = N as f64;
        // z at 0.95 is 1.644854, with a density of 0.103136 there.
        let normal = drawn("1000:100", N);
        assert!(
            (mean(&normal) - 1000.0).abs() < 5.0 * 100.0 / n.sqrt(),
            "{}",
            mean(&normal)
        );
        let p95 = quantile(&normal, 0.95);
        assert!(
            (p95 - 1164.5).abs() < 5.0 * 100.0 * (0.95 * 0.05 / n).sqrt() / 0.1031,
            "{p95}"
        );

        // mu = ln 1000 - 0.32 = 6.587755: median 726.15, p95 exp(mu + 1.644854*0.8) = 2706.9.
        let lognormal = drawn("lognormal:1000:0.8", N);
        let deviation = 1000.0 * (0.64_f64.exp() - 1.0).sqrt();
        assert!(
            (mean(&lognormal) - 1000.0).abs() < 5.0 * deviation / n.sqrt(),
            "{}",
            mean(&lognormal)
        );
        let median = quantile(&lognormal, 0.5);
        // Density of the logarithm at its median: 0.398942/0.8.
        assert!(
            (median / 726.15).ln().abs() < 5.0 * (0.25 / n).sqrt() * 0.8 / 0.3989,
            "{median}"
        );
        let p95 = quantile(&lognormal, 0.95);
        assert!(
            (p95 / 2706.9).ln().abs() < 5.0 * (0.0475 / n).sqrt() * 0.8 / 0.1031,
            "{p95}"
        );

        // ln 2000 lies (7.600902 - 6.587755)/0.8 = 1.266434 deviations up: a share of 0.10268 is cut off there.
        let cut = drawn("lognormal:1000:0.8:2000", N);
        assert_eq!(cut.last(), Some(&2000));
        let share = cut.iter().filter(|x| **x == 2000).count() as f64 / n;
        assert!(
            (share - 0.1027).abs() < 5.0 * (0.1027 * 0.8973 / n).sqrt(),
            "{share}"
        );

        let die = drawn("uniform:1-6", N);
        for face in 1..=6 {
            let share = die.iter().filter(|x| **x == face).count() as f64 / n;
            assert!(
                (share - 1.0 / 6.0).abs() < 5.0 * (5.0 / 36.0 / n).sqrt(),
                "{face}: {share}"
            );
        }

        let given = drawn("empirical:10@1,20@2,30@1", N);
        for (length, weight) in [(10, 0.25), (20, 0.5), (30, 0.25)] {
            let share = given.iter().filter(|x| **x == length).count() as f64 / n;
            assert!(
                (share - weight).abs() < 5.0 * (weight * (1.0 - weight) / n).sqrt(),
                "{length}: {share}"
            );
        }
        assert!(drawn("17", 10).iter().all(|x| *x == 17));
    }

    #[test]
    fn no_draw_is_below_one_token() {
        for wide in ["2:50", "lognormal:1:5", "lognormal:10000000:5"] {
            assert!(
                drawn(wide, 500).iter().all(|x| (1..=10_000_000).contains(x)),
                "{wide}"
            );
        }
    }
}
