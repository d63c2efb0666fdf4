//! The cross-check of a rung's intervals: a block bootstrap with blocks of one response time (METHOD section 1).
//!
//! The intervals of the report rest on batches. Drawing blocks of a response time anew, at any phase and with their
//! neighbourhood whole, asks the same question without the batches' edges. Where the answer is much wider, the batches did
//! not capture what the requests have in common, and confidence is low.

use plimsoll_run::evidence::{Evidence, Window};
use plimsoll_run::request::RequestRecord;
use plimsoll_run::rung::{Distribution, Interval, RungReport};
use plimsoll_run::sla::Stat;
use plimsoll_run::units::to_ms;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::interval::rank;
use crate::tokens::{WindowBins, bin_of, in_window};
use crate::wording::figure;

/// Cells of the window's time a block: blocks start at any of them.
const CELLS: u32 = 4;
/// Longer windows get longer blocks.
const MOST_BLOCKS: u32 = 256;
/// With fewer blocks there is nothing to draw from (and the report says so by itself).
const LEAST_BLOCKS: u32 = 8;
const DRAWS: usize = 200;
/// Any constant would do: the check must be the same for the same evidence.
const SEED: u64 = 0x424c_4f43_4b53_3152;
/// A bootstrap interval so many times as wide as the batches' disagrees with it.
const DISAGREES: f64 = 2.0;
/// Throughput known within this share is known, whoever disagrees.
const ENOUGH: f64 = 0.01;
const NORMAL: f64 = 1.96;

/// Sums and counts of values in equal cells of time, in order.
type Cells = Vec<(f64, f64)>;

/// Standard error of the mean over all values, sum over count, by the circular block bootstrap with blocks of `block`
/// cells; `None` where there is nothing to draw.
#[must_use]
fn standard_error(cells: &Cells, block: usize) -> Option<f64> {
    let n = cells.len();
    if block == 0 || n < 2 * block {
        return None;
    }
    let mut random = StdRng::seed_from_u64(SEED);
    let means: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let (mut sum, mut count) = (0.0, 0.0);
            for _ in 0..n / block {
                let from = random.random_range(0..n);
                for at in from..from + block {
                    let cell = cells[at % n];
                    sum += cell.0;
                    count += cell.1;
                }
            }
            (count > 0.0).then(|| sum / count)
        })
        .collect();
    let drawn = means.len() as f64;
    if drawn < 2.0 {
        return None;
    }
    let mean = means.iter().sum::<f64>() / drawn;
    let variance = means.iter().map(|other| (other - mean).powi(2)).sum::<f64>() / (drawn - 1.0);
    Some(variance.sqrt())
}

/// Where intervals of the report are much narrower than the bootstrap's, in a sentence; `None` where they agree, or where
/// the window is too short for either.
#[must_use]
pub(crate) fn doubt(report: &RungReport, evidence: &Evidence, response_s: Option<f64>) -> Option<String> {
    let window = evidence.window?;
    let blocks = window.length().as_secs_f64() / response_s.filter(|response| *response > 0.0)?;
    // 8 to 256 by the clamp.
    let blocks = (blocks >= f64::from(LEAST_BLOCKS)).then(|| blocks.min(f64::from(MOST_BLOCKS)) as u32)?;
    let cells = blocks * CELLS;
    let mut doubted = Vec::new();
    if let (Some(batches), Some(drawn)) = (report.throughput.relative_se, throughput(evidence, window, cells))
        && drawn > DISAGREES * batches.max(ENOUGH)
    {
        doubted.push(format!("throughput ({} times)", figure(drawn / batches)));
    }
    type Value = fn(&RequestRecord) -> Option<std::time::Duration>;
    let latencies: [(&str, &Option<Distribution>, Value); 3] = [
        ("TTFT p95", &report.latency.ttft_ms, RequestRecord::ttft),
        ("TPOT p95", &report.latency.tpot_ms, RequestRecord::tpot),
        ("E2E p95", &report.latency.e2e_ms, RequestRecord::e2e),
    ];
    for (name, distribution, value) in latencies {
        let batches = distribution
            .as_ref()
            .and_then(|known| known.ci95.get(Stat::P95.name()))
            .copied();
        let values = evidence
            .requests
            .iter()
            .filter(|record| record.ok() && window.contains(record.sent))
            .filter_map(|record| Some((bin_of(window, record.sent, cells), to_ms(value(record)?))));
        if let (Some(batches), Some(drawn)) = (
            batches.and_then(width),
            quantile(values, cells, 0.95).and_then(width),
        ) && drawn > DISAGREES * batches
        {
            doubted.push(format!("{name} ({} times)", figure(drawn / batches)));
        }
    }
    (!doubted.is_empty()).then(|| {
        format!(
            "Drawing blocks of one response time anew gives a much wider interval than the batches do for {}: low confidence. \
             Allow the rung more time.",
            doubted.join(", ")
        )
    })
}

fn width(interval: Interval) -> Option<f64> {
    let [low, high] = interval;
    Some(high? - low?).filter(|width| *width > 0.0)
}

/// Relative standard error of the tokens per second, or of the endings per second without tokens.
fn throughput(evidence: &Evidence, window: Window, cells: u32) -> Option<f64> {
    let bins = in_window(evidence, window, cells).unwrap_or_else(|| {
        let mut endings = WindowBins::new(window, cells);
        for record in evidence.requests.iter().filter(|record| record.ok()) {
            endings.add(record.ended, 1.0);
        }
        endings
    });
    let rates: Cells = bins.rates().into_iter().map(|rate| (rate, 1.0)).collect();
    let mean = rates.iter().map(|cell| cell.0).sum::<f64>() / rates.len().max(1) as f64;
    (mean > 0.0).then_some(standard_error(&rates, CELLS as usize)? / mean)
}

/// 95 % interval of a quantile: order statistics at the bootstrap's error of the share at or below it.
fn quantile(values: impl Iterator<Item = (usize, f64)>, cells: u32, q: f64) -> Option<Interval> {
    let values: Vec<(usize, f64)> = values.collect();
    let mut sorted: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let at = *sorted.get(rank(q, n).min(sorted.len()).checked_sub(1)?)?;
    let mut shares: Cells = vec![(0.0, 0.0); cells as usize];
    for (cell, value) in &values {
        if let Some(share) = shares.get_mut(*cell) {
            share.0 += f64::from(u8::from(*value <= at));
            share.1 += 1.0;
        }
    }
    let half = NORMAL * standard_error(&shares, CELLS as usize)?;
    // Ranks are checked to lie in 1..=n before they index.
    let value = |rank: f64| (rank >= 1.0 && rank <= n).then(|| sorted[rank as usize - 1]);
    Some([
        value(((q - half) * n).floor()),
        value(((q + half) * n).ceil() + 1.0),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(random: &mut StdRng) -> f64 {
        // Variance 1: uniform over an interval of length sqrt(12).
        (random.random::<f64>() - 0.5) * 12.0_f64.sqrt()
    }

    #[test]
    fn independent_cells_give_the_textbook_error() {
        let mut random = StdRng::seed_from_u64(1);
        let cells: Cells = (0..4000).map(|_| (noise(&mut random), 1.0)).collect();
        let error = standard_error(&cells, 4).unwrap();
        let expected = 1.0 / 4000.0_f64.sqrt();
        assert!((error / expected - 1.0).abs() < 0.2, "{error} {expected}");
        assert_eq!(
            standard_error(&cells, 4),
            Some(error),
            "the same for the same cells"
        );
    }

    #[test]
    fn what_cells_of_a_block_have_in_common_counts() {
        // Runs of eight equal cells: an eighth as many independent values. Blocks of four see some of it, of 32 nearly all.
        let mut random = StdRng::seed_from_u64(2);
        let cells: Cells = (0..500).flat_map(|_| [(noise(&mut random), 1.0); 8]).collect();
        let truth = 1.0 / 500.0_f64.sqrt();
        let long = standard_error(&cells, 32).unwrap();
        assert!((0.75..1.15).contains(&(long / truth)), "{long} {truth}");
        assert!(standard_error(&cells, 1).unwrap() < 0.5 * truth);
    }

    #[test]
    fn cells_weigh_by_their_counts_and_too_few_tell_nothing() {
        let cells: Cells = (0..64).map(|at| (f64::from(at % 2) * 3.0, 3.0)).collect();
        assert!(
            standard_error(&cells, 2).unwrap() < 1e-9,
            "every block holds the same"
        );
        assert_eq!(standard_error(&vec![(1.0, 1.0); 7], 4), None);
        assert_eq!(standard_error(&vec![(0.0, 0.0); 64], 4), None);
        assert_eq!(standard_error(&Vec::new(), 0), None);
    }

    #[test]
    fn quantiles_of_independent_values_agree_with_order_statistics() {
        let mut random = StdRng::seed_from_u64(3);
        let values = (0..20_000).map(|at| (at / 50, random.random::<f64>()));
        let [low, high] = quantile(values, 400, 0.95).unwrap();
        let (low, high) = (low.unwrap(), high.unwrap());
        let expected = 2.0 * 1.96 * (0.95 * 0.05 / 20_000.0_f64).sqrt();
        assert!((0.7..1.4).contains(&((high - low) / expected)), "{low} {high}");
        assert!(low < 0.955 && high > 0.945, "{low} {high}");
        assert!(quantile(std::iter::empty(), 100, 0.95).is_none());
    }
}
