//! When a series has settled: truncation of the start-up transient and the comparison of halves.

use std::time::Duration;

/// A cumulative count over time, read back between the samples by straight lines.
#[derive(Debug, Clone)]
pub(crate) struct Cumulative {
    spacing: Duration,
    samples: Vec<(Duration, u64)>,
}

impl Cumulative {
    /// Samples closer together than `spacing` replace one another, which bounds the memory.
    pub(crate) fn new(spacing: Duration) -> Self {
        Cumulative {
            spacing,
            samples: vec![(Duration::ZERO, 0)],
        }
    }

    /// Appends a sample; times must not descend, and a count that descends counts as unchanged.
    pub(crate) fn push(&mut self, at: Duration, count: u64) {
        let length = self.samples.len();
        if let Some(&(_, before)) = self.samples.last() {
            let count = count.max(before);
            if length >= 2 && at < self.samples[length - 2].0.saturating_add(self.spacing) {
                self.samples[length - 1] = (at, count);
            } else {
                self.samples.push((at, count));
            }
        }
    }

    /// The latest count.
    pub(crate) fn latest(&self) -> u64 {
        self.samples.last().map_or(0, |&(_, count)| count)
    }

    /// The count at a time, between samples by interpolation, beyond the last one the last.
    pub(crate) fn at(&self, time: Duration) -> f64 {
        let after = self.samples.partition_point(|&(at, _)| at <= time);
        let (from, to) = match (after.checked_sub(1), self.samples.get(after)) {
            (Some(before), Some(&to)) => (self.samples[before], to),
            (Some(before), None) => return self.samples[before].1 as f64,
            (None, _) => return 0.0,
        };
        let width = (to.0 - from.0).as_secs_f64();
        let share = if width > 0.0 {
            (time - from.0).as_secs_f64() / width
        } else {
            0.0
        };
        from.1 as f64 + share * (to.1 - from.1) as f64
    }

    /// Increments over `bins` equal parts of a span.
    pub(crate) fn bins(&self, from: Duration, to: Duration, bins: u32) -> Vec<f64> {
        let width = to.saturating_sub(from);
        let edge = |bin: u32| from + width.mul_f64(f64::from(bin) / f64::from(bins.max(1)));
        (0..bins)
            .map(|bin| self.at(edge(bin + 1)) - self.at(edge(bin)))
            .collect()
    }
}

/// MSER-5 (White, 1997): how many of `batches` (means of five observations each) to cut off the front, the number
/// that minimises the squared standard error of the mean of the rest. The last quarter is never cut into, where
/// the criterion is known to be erratic; a result that reaches it means that the transient is not over.
#[must_use]
pub(crate) fn mser(batches: &[f64]) -> usize {
    let most = batches.len() * 3 / 4;
    let (mut best, mut least) = (0, f64::INFINITY);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    // From the back, so that sums over every tail are had in one pass.
    for cut in (0..batches.len()).rev() {
        sum += batches[cut];
        squares += batches[cut] * batches[cut];
        count += 1.0;
        if cut <= most {
            let spread = (squares - sum * sum / count).max(0.0) / (count * count);
            if spread <= least {
                (best, least) = (cut, spread);
            }
        }
    }
    best
}

/// Whether the two halves of a series of equal bins differ by more than two standard errors, and by more than the
/// share `least` of the mean (so that a server without noise is not held to its last token). Fewer than eight
/// bins tell nothing.
#[must_use]
pub(crate) fn halves_differ(bins: &[f64], least: f64) -> bool {
    if bins.len() < 8 {
        return false;
    }
    let (first, second) = bins.split_at(bins.len() / 2);
    let moments = |half: &[f64]| {
        let n = half.len() as f64;
        let mean = half.iter().sum::<f64>() / n;
        let variance = half.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, variance / n)
    };
    let ((m1, v1), (m2, v2)) = (moments(first), moments(second));
    let difference = (m1 - m2).abs();
    difference > 2.0 * (v1 + v2).sqrt() && difference > least * (m1 + m2) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cumulative_counts_are_read_between_samples() {
        let mut count = Cumulative::new(Duration::from_millis(10));
        for second in 1..=4 {
            count.push(Duration::from_secs(second), second * second);
        }
        assert_eq!(count.at(Duration::ZERO), 0.0);
        assert_eq!(count.at(Duration::from_millis(2500)), 6.5);
        assert_eq!(count.at(Duration::from_secs(9)), 16.0);
        assert_eq!(
            count.bins(Duration::ZERO, Duration::from_secs(4), 4),
            [1.0, 3.0, 5.0, 7.0]
        );
    }

    #[test]
    fn samples_too_close_together_replace_one_another() {
        let mut count = Cumulative::new(Duration::from_millis(10));
        for ms in 0..1000 {
            count.push(Duration::from_millis(ms), ms);
        }
        assert!(count.samples.len() <= 120, "{}", count.samples.len());
        assert_eq!(count.latest(), 999);
        assert!((count.at(Duration::from_millis(505)) - 505.0).abs() < 1.0);
    }

    #[test]
    fn mser_cuts_a_ramp_and_nothing_else() {
        let mut series: Vec<f64> = (0..10).map(f64::from).collect();
        series.extend((0..30).map(|i| 10.0 + if i % 2 == 0 { 0.1 } else { -0.1 }));
        assert_eq!(mser(&series), 10);
        assert_eq!(mser(&[5.0; 12]), 0);
        let ramp: Vec<f64> = (0..20).map(f64::from).collect();
        assert!(
            mser(&ramp) >= 14,
            "a transient that is not over reaches the bound"
        );
        assert_eq!(mser(&[]), 0);
    }

    #[test]
    fn halves_differ_only_beyond_noise_and_beyond_the_least_share() {
        let flat: Vec<f64> = (0..16).map(|i| 10.0 + f64::from(i % 3)).collect();
        assert!(!halves_differ(&flat, 0.02));
        let step: Vec<f64> = (0..16).map(|i| if i < 8 { 10.0 } else { 12.0 }).collect();
        assert!(halves_differ(&step, 0.02));
        let tiny: Vec<f64> = (0..16).map(|i| if i < 8 { 10.0 } else { 10.1 }).collect();
        assert!(!halves_differ(&tiny, 0.02));
        assert!(!halves_differ(&[1.0, 2.0], 0.0));
    }
}
