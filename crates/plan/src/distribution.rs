//! Distributions of latencies with their intervals.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use plimsoll_run::evidence::{Evidence, Window};
use plimsoll_run::rung::{Distribution, Interval};
use plimsoll_run::sla::Stat;

use crate::interval::{Batched, quantile, rank};
use crate::tokens::bin_of;

/// Values in the order in which they were sent (or came), each with its time batch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    values: Vec<f64>,
    batches: Vec<u16>,
    /// How many consecutive values make a further batch for percentiles; 0 for time batches only.
    block: usize,
}

impl Samples {
    pub(crate) fn push(&mut self, value: f64, batch: usize) {
        self.values.push(value);
        self.batches.push(u16::try_from(batch).unwrap_or(u16::MAX));
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Percentiles by batches of sqrt(n) in send order rather than by time: TTFT and E2E of neighbours in the queue
    /// resemble each other.
    pub(crate) fn in_send_order(mut self) -> Self {
        self.block = ((self.values.len() as f64).sqrt() as usize).max(1);
        self
    }

    fn by_time(&self) -> impl Iterator<Item = (usize, f64)> {
        self.batches
            .iter()
            .zip(&self.values)
            .map(|(batch, value)| (usize::from(*batch), *value))
    }

    /// By time batches of at least one response, and by the blocks in send order where there are any.
    fn quantile(&self, sorted: &[f64], q: f64) -> Option<Interval> {
        let mut by_time = self.by_time();
        if self.block == 0 {
            return quantile(sorted, q, &mut [&mut by_time]);
        }
        let mut by_block = self
            .values
            .iter()
            .enumerate()
            .map(|(at, value)| (at / self.block, *value));
        quantile(sorted, q, &mut [&mut by_time, &mut by_block])
    }
}

/// The distribution of some samples, with `failed` further ones that count as slower than any; `None` without a
/// sample.
#[must_use]
pub(crate) fn distribution(samples: &Samples, failed: f64) -> Option<Distribution> {
    let mut sorted = samples.values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let max = *sorted.last()?;
    let n = sorted.len() as f64;
    let nearest = |q: f64| sorted[rank(q, n).min(sorted.len()) - 1];

    let mut ci95 = BTreeMap::new();
    if let Some(interval) = Batched::new(samples.by_time()).mean() {
        ci95.insert("mean".to_owned(), interval);
    }
    let mut counting_failures = BTreeMap::new();
    for stat in [Stat::P50, Stat::P90, Stat::P95, Stat::P99, Stat::Max] {
        let Some(q) = stat.quantile() else { continue };
        if stat != Stat::Max
            && let Some(interval) = samples.quantile(&sorted, q)
        {
            ci95.insert(stat.name().to_owned(), interval);
        }
        if failed > 0.0 {
            let worst = sorted.get(rank(q, n + failed) - 1).copied();
            counting_failures.insert(stat.name().to_owned(), worst);
        }
    }
    Some(Distribution {
        n: sorted.len() as u64,
        mean: Some(sorted.iter().sum::<f64>() / n),
        p50: Some(nearest(0.50)),
        p90: Some(nearest(0.90)),
        p95: Some(nearest(0.95)),
        p99: Some(nearest(0.99)),
        max: Some(max),
        ci95,
        counting_failures,
    })
}

/// Gaps between the token-bearing chunks of successes, those whose later chunk lies inside the window.
#[derive(Debug, Clone)]
pub(crate) struct Gaps {
    /// Milliseconds.
    pub(crate) samples: Samples,
    /// Microseconds, to three digits.
    pub(crate) histogram: Histogram<u64>,
}

/// All gaps of a rung; see [`Gaps`].
#[must_use]
pub(crate) fn gaps(evidence: &Evidence, window: Window, batches: u32) -> Gaps {
    let mut samples = Samples::default();
    #[expect(clippy::expect_used, reason = "three digits are among those the crate allows")]
    let mut histogram = Histogram::<u64>::new(3).expect("three significant digits");
    histogram.auto(true);
    each_gap(evidence, window, |at, us| {
        samples.push(f64::from(us) / 1e3, bin_of(window, at, batches));
        // Cannot fail: the histogram resizes itself.
        let _ = histogram.record(u64::from(us));
    });
    Gaps { samples, histogram }
}

/// Calls `gap` with the time of the later chunk and the gap in microseconds.
pub(crate) fn each_gap(evidence: &Evidence, window: Window, mut gap: impl FnMut(Duration, u32)) {
    for (position, record) in evidence.requests.iter().enumerate() {
        if !record.ok() {
            continue;
        }
        for pair in evidence.chunks.of(position).windows(2) {
            let at = record.sent + Duration::from_micros(u64::from(pair[1]));
            if window.contains(at) {
                gap(at, pair[1].saturating_sub(pair[0]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: impl IntoIterator<Item = f64>) -> Samples {
        let mut samples = Samples::default();
        for (at, value) in values.into_iter().enumerate() {
            samples.push(value, at % 10);
        }
        samples
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let d = distribution(&samples((1..=100).map(f64::from)), 0.0).unwrap();
        assert_eq!((d.n, d.mean, d.max), (100, Some(50.5), Some(100.0)));
        assert_eq!(
            (d.p50, d.p90, d.p95, d.p99),
            (Some(50.0), Some(90.0), Some(95.0), Some(99.0))
        );
        assert!(d.counting_failures.is_empty());
        let [low, high] = d.ci95["p50"];
        assert!(low.unwrap() < 50.0 && high.unwrap() > 50.0);
        assert!(distribution(&Samples::default(), 3.0).is_none());
    }

    #[test]
    fn failures_count_as_slower_than_any_success() {
        // 96 successes and 4 failures: the 95th of 100 is the 95th success, the 99th lies among the failures.
        let d = distribution(&samples((1..=96).map(f64::from)), 4.0).unwrap();
        assert_eq!(d.p95, Some(92.0));
        assert_eq!(d.counting_failures["p95"], Some(95.0));
        assert_eq!(d.counting_failures["p99"], None);
        assert_eq!(d.counting_failures["max"], None);
    }
}
