//! What an engine counts, as its `/metrics` shows it.

use std::time::Duration;

/// Bucket bounds of vLLM's TTFT histogram, seconds.
pub const TTFT_BOUNDS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];
/// Bucket bounds of vLLM's inter-token histogram, seconds.
pub const ITL_BOUNDS: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
/// Bucket bounds of vLLM's request histograms, seconds.
pub const REQUEST_BOUNDS: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];

/// A histogram with fixed bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    /// With these upper bounds, ascending, seconds.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Histogram {
            bounds,
            counts: vec![0; bounds.len()],
            sum: 0.0,
            count: 0,
        }
    }

    /// Adds a value.
    pub fn observe(&mut self, value: Duration) {
        let seconds = value.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum += seconds;
        self.count += 1;
    }

    /// `(upper bound, values at most that)`, cumulative, without the bucket of everything.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let mut total = 0;
        self.bounds.iter().zip(&self.counts).map(move |(bound, count)| {
            total += count;
            (*bound, total)
        })
    }

    /// Sum of all values, seconds.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Everything counted since the engine began, and the gauges after its last step.
#[derive(Debug, Clone, PartialEq)]
pub struct Counters {
    /// Sequences running.
    pub running: u32,
    /// Requests waiting.
    pub waiting: u32,
    /// Share of KV blocks held by sequences, 0..=1.
    pub kv_usage: f64,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Of those, found.
    pub prefix_hits: u64,
    /// Sequences thrown out for want of blocks.
    pub preemptions: u64,
    /// Prompt tokens of the requests that produced their first token.
    pub prompt_tokens: u64,
    /// Reply tokens.
    pub generation_tokens: u64,
    /// Requests that ended by themselves.
    pub finished: u64,
    /// Requests that were aborted.
    pub aborted: u64,
    /// Steps.
    pub steps: u64,
    /// Arrival to first token.
    pub ttft: Histogram,
    /// Token to token.
    pub itl: Histogram,
    /// Arrival to last token.
    pub e2e: Histogram,
    /// Arrival to admission.
    pub queue: Histogram,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            running: 0,
            waiting: 0,
            kv_usage: 0.0,
            prefix_queries: 0,
            prefix_hits: 0,
            preemptions: 0,
            prompt_tokens: 0,
            generation_tokens: 0,
            finished: 0,
            aborted: 0,
            steps: 0,
            ttft: Histogram::new(&TTFT_BOUNDS),
            itl: Histogram::new(&ITL_BOUNDS),
            e2e: Histogram::new(&REQUEST_BOUNDS),
            queue: Histogram::new(&REQUEST_BOUNDS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_values_at_most_their_bound() {
        let mut histogram = Histogram::new(&[0.1, 1.0]);
        for ms in [100, 101, 5_000] {
            histogram.observe(Duration::from_millis(ms));
        }
        let buckets: Vec<_> = histogram.cumulative().collect();
        assert_eq!(buckets, [(0.1, 1), (1.0, 2)]);
        assert_eq!(histogram.count(), 3);
        assert!((histogram.sum() - 5.201).abs() < 1e-9);
    }
}
