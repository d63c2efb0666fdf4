//! Intervals for what a closed loop leaves behind: its requests are not independent, so every interval rests on
//! batches (METHOD section 1).

use plimsoll_run::rung::Interval;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Batches: at most so many, each at least one response time long.
const MOST_BATCHES: u32 = 20;

/// Student's t is not taken beyond that of three batches: with two the interval would say nothing at all.
const T_MOST: f64 = 4.303;

/// How many time batches a window of `length` seconds gets when a response takes `response` seconds: as many as
/// are one response long, at most 20; 0 where not even two fit.
#[must_use]
pub(crate) fn time_batches(length: f64, response: f64) -> u32 {
    if !(length > 0.0 && response > 0.0) {
        return 0;
    }
    let fit = (length / response).floor().min(f64::from(MOST_BATCHES));
    // In range: 0..=20.
    let fit = fit as u32;
    if fit < 2 { 0 } else { fit }
}

/// Student's t at 97.5 % for so many batches; `None` below two.
#[must_use]
pub(crate) fn student(batches: usize) -> Option<f64> {
    let freedom = batches.checked_sub(1).filter(|freedom| *freedom > 0)?;
    let t = StudentsT::new(0.0, 1.0, freedom as f64).ok()?;
    Some(t.inverse_cdf(0.975))
}

/// Standard error of the mean of independent batches; `None` below two.
#[must_use]
pub(crate) fn standard_error(batches: &[f64]) -> Option<f64> {
    let n = batches.len() as f64;
    if batches.len() < 2 {
        return None;
    }
    let mean = batches.iter().sum::<f64>() / n;
    let variance = batches.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some((variance / n).sqrt())
}

/// 95 % interval of a mean of equal batches, by Student's t; never below zero.
#[must_use]
pub(crate) fn mean_of_batches(batches: &[f64]) -> Option<Interval> {
    let half = student(batches.len())? * standard_error(batches)?;
    let mean = batches.iter().sum::<f64>() / batches.len() as f64;
    Some([Some((mean - half).max(0.0)), Some(mean + half)])
}

/// Sums and counts of values by batch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batched {
    sums: Vec<(f64, f64)>,
}

impl Batched {
    pub(crate) fn new(values: impl IntoIterator<Item = (usize, f64)>) -> Self {
        let mut sums: Vec<(f64, f64)> = Vec::new();
        for (batch, value) in values {
            if sums.len() <= batch {
                sums.resize(batch + 1, (0.0, 0.0));
            }
            sums[batch].0 += value;
            sums[batch].1 += 1.0;
        }
        sums.retain(|(_, count)| *count > 0.0);
        Batched { sums }
    }

    /// Squared standard error of the mean over all values, by the ratio estimator: batches of unequal size weigh
    /// by their size. What neighbouring batches have in common counts twice, as in the variance of any sum (Bartlett's
    /// estimate cut off at the first lag): a queue that drifts is longer than a batch. `None` below two batches.
    fn variance(&self) -> Option<f64> {
        let k = self.sums.len() as f64;
        if self.sums.len() < 2 {
            return None;
        }
        let (sum, count) = self
            .sums
            .iter()
            .fold((0.0, 0.0), |total, batch| (total.0 + batch.0, total.1 + batch.1));
        let (mean, size) = (sum / count, count / k);
        let off: Vec<f64> = self.sums.iter().map(|(sum, count)| sum - count * mean).collect();
        let squares: f64 = off.iter().map(|x| x * x).sum();
        let neighbours: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
        Some((squares + 2.0 * neighbours.max(0.0)) / (k * (k - 1.0) * size * size))
    }

    /// 95 % interval of the mean over all values; never below zero.
    pub(crate) fn mean(&self) -> Option<Interval> {
        let (sum, count) = self
            .sums
            .iter()
            .fold((0.0, 0.0), |total, batch| (total.0 + batch.0, total.1 + batch.1));
        let half = student(self.sums.len())? * self.variance()?.sqrt();
        let mean = sum / count;
        Some([Some((mean - half).max(0.0)), Some(mean + half)])
    }
}

/// The rank (from 1) of a quantile among `n` values: nearest rank, ceil(q n).
#[must_use]
pub(crate) fn rank(q: f64, n: f64) -> usize {
    // A hair off, so that 0.95 * 20 is 19 and not 20; negative never happens and would saturate to 0.
    ((q * n - 1e-9).ceil() as usize).max(1)
}

/// 95 % interval of the quantile `q` by order statistics, widened by the design effect: how much more the share
/// of values at or below the quantile varies between batches than it would among independent values (never less).
///
/// `sorted` are the values in ascending order; each of `batchings` gives every value, in any order, with its batch. The
/// widest counts: neighbours in a queue resemble each other over a few requests, and the queue itself drifts over a response
/// time. A side is open where the sample is too small to bound it.
#[must_use]
pub(crate) fn quantile(
    sorted: &[f64],
    q: f64,
    batchings: &mut [&mut dyn Iterator<Item = (usize, f64)>],
) -> Option<Interval> {
    if sorted.len() < 2 {
        return None;
    }
    let n = sorted.len() as f64;
    let at = sorted[rank(q, n).min(sorted.len()) - 1];
    let simple = q * (1.0 - q) / n;
    let half = batchings
        .iter_mut()
        .map(|values| {
            let batched =
                Batched::new(values.map(|(batch, value)| (batch, f64::from(u8::from(value <= at)))));
            let effect = batched
                .variance()
                .map_or(1.0, |variance| (variance / simple).max(1.0));
            let t = student(batched.sums.len()).unwrap_or(1.96).min(T_MOST);
            t * (simple * effect).sqrt()
        })
        .fold(0.0, f64::max);
    let low = ((q - half) * n).floor();
    let high = ((q + half) * n).ceil() + 1.0;
    // Ranks are checked to lie in 1..=n before they index.
    let value = |rank: f64| (rank >= 1.0 && rank <= n).then(|| sorted[rank as usize - 1]);
    Some([value(low), value(high)])
}

/// 95 % interval of a share by Wilson's score.
#[must_use]
pub(crate) fn share(hits: u64, n: u64) -> Option<Interval> {
    if n == 0 {
        return None;
    }
    let (z, n, p) = (1.96_f64, n as f64, hits as f64 / n as f64);
    let centre = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    // Both are 0 for no hit, and 1 for nothing but hits, up to rounding.
    let low = if hits == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if p >= 1.0 { 1.0 } else { (centre + half).min(1.0) };
    Some([Some(low), Some(high)])
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn students_t_is_the_published_table() {
        for (batches, t) in [(2, 12.706), (8, 2.365), (20, 2.093)] {
            assert!((student(batches).unwrap() - t).abs() < 1e-3);
        }
        assert_eq!(student(1), None);
        assert_eq!(student(0), None);
    }

    #[test]
    fn ranks_are_nearest_ranks() {
        assert_eq!(rank(0.95, 20.0), 19);
        assert_eq!(rank(0.95, 21.0), 20);
        assert_eq!(rank(0.5, 1.0), 1);
        assert_eq!(rank(1.0, 7.0), 7);
    }

    #[test]
    fn batches_are_one_response_long_and_at_most_twenty() {
        assert_eq!(time_batches(8.0, 1.0), 8);
        assert_eq!(time_batches(100.0, 1.0), 20);
        assert_eq!(time_batches(1.5, 1.0), 0);
        assert_eq!(time_batches(1.0, 0.0), 0);
        assert_eq!(time_batches(f64::NAN, 1.0), 0);
    }

    #[test]
    fn batches_of_equal_size_give_the_textbook_interval() {
        let values = [1.0, 2.0, 3.0, 4.0];
        let [low, high] = mean_of_batches(&values).unwrap();
        // s = 1.2910, standard error 0.6455, t(3) = 3.182.
        assert!((high.unwrap() - (2.5 + 3.182 * 0.6455)).abs() < 1e-3);
        assert!((low.unwrap() - (2.5 - 3.182 * 0.6455)).abs() < 1e-3);
        // In an order in which neighbours have nothing in common.
        let ratio = Batched::new([2.0, 4.0, 1.0, 3.0].into_iter().enumerate())
            .mean()
            .unwrap();
        assert!((ratio[1].unwrap() - high.unwrap()).abs() < 1e-9);
        // Off the mean by -1.5, -0.5, 0.5, 1.5: squares 5, neighbours 0.75 - 0.25 + 0.75 = 1.25.
        let drifting = Batched::new(values.into_iter().enumerate()).mean().unwrap();
        let error = ((5.0 + 2.0 * 1.25) / 12.0_f64).sqrt();
        assert!((drifting[1].unwrap() - (2.5 + 3.182 * error)).abs() < 1e-3);
    }

    /// Values that share a random offset within each block of `block`.
    fn blocks(random: &mut StdRng, n: usize, block: usize) -> Vec<f64> {
        let mut offset = 0.0;
        (0..n)
            .map(|i| {
                if i % block == 0 {
                    offset = random.random::<f64>();
                }
                0.8 * offset + 0.2 * random.random::<f64>()
            })
            .collect()
    }

    #[test]
    fn quantile_intervals_cover_the_truth_though_values_cluster() {
        let mut random = StdRng::seed_from_u64(7);
        // The median of both the offsets' and the mixture's distribution is 0.5 by symmetry.
        let (mut covered, runs) = (0, 300);
        for _ in 0..runs {
            let values = blocks(&mut random, 900, 10);
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let [low, high] = quantile(
                &sorted,
                0.5,
                &mut [&mut values.iter().enumerate().map(|(i, v)| (i / 30, *v))],
            )
            .unwrap();
            covered += u32::from(low.unwrap() <= 0.5 && 0.5 <= high.unwrap());
        }
        assert!(covered * 100 >= runs * 90, "{covered} of {runs}");
    }

    #[test]
    fn a_sample_too_small_leaves_the_upper_side_open() {
        let sorted: Vec<f64> = (0..60).map(f64::from).collect();
        let [low, high] = quantile(
            &sorted,
            0.99,
            &mut [&mut sorted.iter().enumerate().map(|(i, v)| (i / 8, *v))],
        )
        .unwrap();
        assert!(low.is_some());
        assert_eq!(high, None);
        assert_eq!(quantile(&[1.0], 0.5, &mut [&mut [(0, 1.0)].into_iter()]), None);
    }

    #[test]
    fn shares_have_wilsons_interval() {
        let [low, high] = share(0, 100).unwrap();
        assert_eq!(low, Some(0.0));
        assert!((high.unwrap() - 0.0370).abs() < 1e-4);
        assert_eq!(share(0, 0), None);
    }
}
