//! The knee: where throughput stops growing with concurrency.

use plimsoll_run::answer::{Knee, KneeStatus};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

use crate::levels::Curve;
use crate::wording::{figure, percent};

/// The knee is the lowest concurrency that reaches this share of the plateau.
const KNEE_SHARE: f64 = 0.95;
/// The plateau is the median of the rungs within this share of the maximum.
const PLATEAU_SHARE: f64 = 0.10;
/// Throughput that still grows as N^0.15 over the last doubling has not saturated.
const ELASTICITY: f64 = 0.15;
const DRAWS: usize = 300;
/// Any constant would do: the interval must be the same for the same rungs.
const SEED: u64 = 0x504c_494d_534f_4c4c;

/// A monotone curve through points in log-log: Fritsch-Carlson cubic Hermite (PCHIP) of the cumulative maximum.
#[derive(Debug, Clone)]
pub(crate) struct Monotone {
    x: Vec<f64>,
    y: Vec<f64>,
    slope: Vec<f64>,
}

impl Monotone {
    /// Through (level, throughput), ascending in level, all above zero; `None` without a point.
    pub(crate) fn through(points: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        let mut most = f64::NEG_INFINITY;
        for (level, rate) in points {
            most = most.max(rate.ln());
            x.push(level.ln());
            y.push(most);
        }
        if x.is_empty() {
            return None;
        }
        let secant: Vec<f64> = (1..x.len())
            .map(|i| (y[i] - y[i - 1]) / (x[i] - x[i - 1]))
            .collect();
        let slope = (0..x.len())
            .map(|i| match (i.checked_sub(1).map(|i| secant[i]), secant.get(i)) {
                (None, None) => 0.0,
                (None, Some(only)) => *only,
                (Some(only), None) => only,
                (Some(left), Some(right)) if left > 0.0 && *right > 0.0 => {
                    let (h0, h1) = (x[i] - x[i - 1], x[i + 1] - x[i]);
                    let (w0, w1) = (2.0 * h1 + h0, h1 + 2.0 * h0);
                    (w0 + w1) / (w0 / left + w1 / right)
                }
                _ => 0.0,
            })
            .collect();
        Some(Monotone { x, y, slope })
    }

    /// ln X at ln N; constant beyond both ends.
    fn at(&self, x: f64) -> f64 {
        let after = self.x.partition_point(|known| *known <= x);
        if after == 0 {
            return self.y[0];
        }
        if after == self.x.len() {
            return self.y[after - 1];
        }
        let i = after - 1;
        let h = self.x[after] - self.x[i];
        let t = (x - self.x[i]) / h;
        let (t2, t3) = (t * t, t * t * t);
        (2.0 * t3 - 3.0 * t2 + 1.0) * self.y[i]
            + (t3 - 2.0 * t2 + t) * h * self.slope[i]
            + (3.0 * t2 - 2.0 * t3) * self.y[after]
            + (t3 - t2) * h * self.slope[after]
    }

    /// The lowest level that reaches `rate`; `None` when none does.
    pub(crate) fn first_root(&self, rate: f64) -> Option<f64> {
        let target = rate.ln();
        let reaches = self.y.iter().position(|y| *y >= target)?;
        if reaches == 0 {
            return Some(self.x[0].exp());
        }
        let (mut low, mut high) = (self.x[reaches - 1], self.x[reaches]);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.at(middle) >= target {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high.exp())
    }

    /// Where the lowest level that reaches `rate` may lie, whatever the curve does between its points so long as
    /// growth does not speed up: no earlier than where the growth before the bracket, carried on, reaches it, and no
    /// later than where the straight line across the bracket does.
    fn root_bounds(&self, rate: f64) -> Option<[f64; 2]> {
        let target = rate.ln();
        let reaches = self.y.iter().position(|y| *y >= target)?;
        let before = reaches.checked_sub(1)?;
        let growth = match before.checked_sub(1) {
            Some(first) => (self.y[before] - self.y[first]) / (self.x[before] - self.x[first]),
            None => 1.0,
        };
        let (n0, n1) = (self.x[before].exp(), self.x[reaches].exp());
        let (x0, x1) = (self.y[before].exp(), self.y[reaches].exp());
        let carried = self.x[before] + (target - self.y[before]) / growth.clamp(1e-9, 1.0);
        Some([carried.exp().min(n1), n0 + (n1 - n0) * (rate - x0) / (x1 - x0)])
    }

    /// d ln X / d ln N over the last doubling, or over the whole where that is less.
    fn last_elasticity(&self) -> f64 {
        let (Some(first), Some(last)) = (self.x.first(), self.x.last()) else {
            return 0.0;
        };
        let from = (last - std::f64::consts::LN_2).max(*first);
        if *last > from {
            (self.at(*last) - self.at(from)) / (last - from)
        } else {
            0.0
        }
    }
}

/// The median of the throughputs within 10 % of the largest.
pub(crate) fn plateau(rates: impl IntoIterator<Item = f64> + Clone) -> Option<f64> {
    let most = rates.clone().into_iter().max_by(f64::total_cmp)?;
    let mut near: Vec<f64> = rates
        .into_iter()
        .filter(|rate| *rate >= (1.0 - PLATEAU_SHARE) * most)
        .collect();
    near.sort_by(f64::total_cmp);
    let middle = near.len() / 2;
    Some(if near.len().is_multiple_of(2) {
        (near[middle - 1] + near[middle]) / 2.0
    } else {
        near[middle]
    })
}

/// Whether throughput still grows at the highest level; `None` from fewer than two levels.
pub(crate) fn still_grows(curve: &Curve) -> Option<bool> {
    if curve.points.len() < 2 {
        return None;
    }
    let monotone = Monotone::through(curve.points.iter().map(|point| (point.0, point.1)))?;
    Some(monotone.last_elasticity() > ELASTICITY)
}

/// Where too many requests fail at nearly every level there is no knee. What succeeded may still show that throughput grew
/// to the end: a lower bound, nothing more; `None` where it does not.
#[must_use]
pub(crate) fn despite_failures(curve: &Curve) -> Option<Knee> {
    let found = knee(curve).filter(|knee| knee.status == KneeStatus::NotSaturated)?;
    Some(Knee {
        reason: format!(
            "{} Many requests failed, so that even this bound is to be trusted little.",
            found.reason
        ),
        ..found
    })
}

fn point(rates: &[(f64, f64)]) -> Option<f64> {
    let plateau = plateau(rates.iter().map(|rate| rate.1))?;
    Monotone::through(rates.iter().copied())?.first_root(KNEE_SHARE * plateau)
}

/// The knee of a throughput curve; `None` from fewer than two levels.
#[must_use]
pub(crate) fn knee(curve: &Curve) -> Option<Knee> {
    let rates: Vec<(f64, f64)> = curve.points.iter().map(|point| (point.0, point.1)).collect();
    let (lowest, highest) = (rates.first()?.0, rates.last()?.0);
    let monotone = Monotone::through(rates.iter().copied())?;
    if still_grows(curve)? {
        return Some(Knee {
            concurrency: highest,
            interval: [Some(highest), None],
            status: KneeStatus::NotSaturated,
            plateau: None,
            reason: format!(
                "Throughput still grows at {}, the highest level tried (by {} for the last doubling), so the knee lies \
                 beyond it.",
                figure(highest),
                percent(monotone.last_elasticity().exp2() - 1.0)
            ),
        });
    }
    let plateau = plateau(rates.iter().map(|rate| rate.1))?;
    let concurrency = point(&rates)?;
    if concurrency <= lowest {
        return Some(Knee {
            concurrency: lowest,
            interval: [None, Some(lowest)],
            status: KneeStatus::Saturated,
            plateau: Some(plateau),
            reason: format!(
                "Already the lowest level, {}, reaches the plateau of {} {}: the knee lies at or below it.",
                figure(lowest),
                figure(plateau),
                curve.unit()
            ),
        });
    }
    let mut random = StdRng::seed_from_u64(SEED);
    let mut roots: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let drawn: Vec<(f64, f64)> = curve
                .points
                .iter()
                .map(|(level, rate, error)| {
                    let normal: f64 = StandardNormal.sample(&mut random);
                    (*level, rate * (error * normal).exp())
                })
                .collect();
            point(&drawn)
        })
        .collect();
    roots.sort_by(f64::total_cmp);
    let quantile = |q: f64| {
        // 0 <= q < 1, so the index is within the draws, of which there are as many as the curve has points for.
        roots.get((q * roots.len() as f64) as usize).copied()
    };
    let [earliest, latest] = monotone
        .root_bounds(KNEE_SHARE * plateau)
        .unwrap_or([concurrency; 2]);
    let bound = |drawn: Option<f64>, other: f64, of: fn(f64, f64) -> f64| {
        Some(of(of(drawn.unwrap_or(concurrency), other), concurrency))
    };
    Some(Knee {
        concurrency,
        // Noise by the bootstrap, the gap between two rungs by what a curve may do in it.
        interval: [
            bound(quantile(0.05), earliest, f64::min),
            bound(quantile(0.95), latest, f64::max),
        ],
        status: KneeStatus::Saturated,
        plateau: Some(plateau),
        reason: format!(
            "Throughput levels off at {} {}; {} requests in flight reach 95 % of it, more only wait.",
            figure(plateau),
            curve.unit(),
            figure(concurrency)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve {
            points: points.iter().map(|(n, x)| (*n, *x, 0.01)).collect(),
            tokens: true,
        }
    }

    #[test]
    fn the_curve_goes_through_its_points_and_never_falls() {
        let m = Monotone::through([(1.0, 10.0), (4.0, 35.0), (16.0, 30.0), (64.0, 60.0)]).unwrap();
        for (n, x) in [(1.0_f64, 10.0_f64), (4.0, 35.0), (16.0, 35.0), (64.0, 60.0)] {
            assert!((m.at(n.ln()) - x.ln()).abs() < 1e-9);
        }
        let mut before = f64::NEG_INFINITY;
        for i in 0..=100 {
            let y = m.at(64.0_f64.ln() * f64::from(i) / 100.0);
            assert!(y >= before - 1e-12);
            before = y;
        }
        assert_eq!(m.first_root(61.0), None);
        assert!((m.first_root(10.0).unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_sharp_knee_is_found_between_its_neighbours() {
        // X = min(N, 40).
        let knee = knee(&curve(&[(8.0, 8.0), (32.0, 32.0), (48.0, 40.0), (128.0, 40.0)])).unwrap();
        assert_eq!(knee.status, KneeStatus::Saturated);
        assert!((36.0..=44.0).contains(&knee.concurrency), "{}", knee.concurrency);
        let [low, high] = knee.interval;
        assert!(low.unwrap() <= knee.concurrency && high.unwrap() >= knee.concurrency);
    }

    #[test]
    fn growth_to_the_end_is_not_a_knee() {
        let knee = knee(&curve(&[(1.0, 1.0), (4.0, 4.0), (16.0, 15.0)])).unwrap();
        assert_eq!(knee.status, KneeStatus::NotSaturated);
        assert_eq!(knee.interval, [Some(16.0), None]);
        assert_eq!(still_grows(&curve(&[(1.0, 1.0)])), None);
        assert!(super::knee(&curve(&[(1.0, 1.0)])).is_none());
    }

    #[test]
    fn a_ladder_that_starts_beyond_the_knee_says_so() {
        let knee = knee(&curve(&[(64.0, 100.0), (256.0, 101.0)])).unwrap();
        assert_eq!(knee.interval, [None, Some(64.0)]);
    }

    #[test]
    fn the_same_rungs_give_the_same_interval() {
        let c = curve(&[(8.0, 8.0), (32.0, 30.0), (64.0, 40.0), (128.0, 41.0)]);
        assert_eq!(knee(&c), knee(&c));
    }
}
