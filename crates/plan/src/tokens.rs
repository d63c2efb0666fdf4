//! When tokens came: each counts at its own time, in bins of the window.

use std::time::Duration;

use plimsoll_run::evidence::{Evidence, Window};

/// Which of `bins` equal parts of the window a time lies in; the nearest one for a time outside it.
#[must_use]
pub(crate) fn bin_of(window: Window, at: Duration, bins: u32) -> usize {
    let length = window.length().as_secs_f64();
    if bins == 0 || length <= 0.0 {
        return 0;
    }
    let share = at.saturating_sub(window.opens).as_secs_f64() / length;
    ((share * f64::from(bins)) as usize).min(bins as usize - 1)
}

/// Weights within the window, in equal bins.
#[derive(Debug, Clone)]
pub(crate) struct WindowBins {
    window: Window,
    sums: Vec<f64>,
    /// All of them.
    pub(crate) total: f64,
}

impl WindowBins {
    pub(crate) fn new(window: Window, bins: u32) -> Self {
        WindowBins {
            window,
            sums: vec![0.0; bins as usize],
            total: 0.0,
        }
    }

    /// Adds a weight if its time lies inside the window.
    pub(crate) fn add(&mut self, at: Duration, weight: f64) {
        if !self.window.contains(at) {
            return;
        }
        self.total += weight;
        let bin = bin_of(self.window, at, self.sums.len() as u32);
        if let Some(sum) = self.sums.get_mut(bin) {
            *sum += weight;
        }
    }

    /// Per second and bin.
    pub(crate) fn rates(&self) -> Vec<f64> {
        let width = self.window.length().as_secs_f64() / self.sums.len().max(1) as f64;
        self.sums.iter().map(|sum| sum / width).collect()
    }
}

/// Calls `token` with the time and the weight of every token-bearing chunk of every success: a chunk weighs the
/// reply's tokens over its chunks. A reply without chunks (not streamed) has all its tokens at its end. Gives the
/// number of replies whose tokens were known.
pub(crate) fn each(evidence: &Evidence, mut token: impl FnMut(Duration, f64)) -> usize {
    let mut known = 0;
    for (at, record) in evidence.requests.iter().enumerate() {
        if !record.ok() {
            continue;
        }
        let chunks = evidence.chunks.of(at);
        if chunks.is_empty() {
            if let (Some(tokens), Some(last)) = (record.output_tokens, record.last_token) {
                token(last, f64::from(tokens));
                known += 1;
            }
            continue;
        }
        known += 1;
        let weight = record
            .output_tokens
            .map_or(1.0, |tokens| f64::from(tokens) / chunks.len() as f64);
        for after in chunks {
            token(record.sent + Duration::from_micros(u64::from(*after)), weight);
        }
    }
    known
}

/// The tokens inside the window; `None` when no reply told its tokens.
#[must_use]
pub(crate) fn in_window(evidence: &Evidence, window: Window, bins: u32) -> Option<WindowBins> {
    let mut sums = WindowBins::new(window, bins);
    let known = each(evidence, |at, weight| sums.add(at, weight));
    (known > 0).then_some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cut_the_window_evenly_and_leave_out_the_rest() {
        let window = Window {
            opens: Duration::from_secs(10),
            closes: Duration::from_secs(20),
        };
        let mut bins = WindowBins::new(window, 5);
        for second in 0..30 {
            bins.add(Duration::from_secs(second), 2.0);
        }
        assert_eq!(bins.total, 20.0);
        assert_eq!(bins.rates(), [2.0; 5]);
        assert_eq!(bin_of(window, Duration::from_secs(99), 5), 4);
        assert_eq!(bin_of(window, Duration::from_secs(1), 5), 0);
        assert_eq!(bin_of(window, Duration::from_secs(12), 0), 0);
        assert!(WindowBins::new(window, 0).rates().is_empty());
    }
}
