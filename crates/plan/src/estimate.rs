//! The limit of a smooth SLA term, estimated from several rungs at once.
//!
//! Near the crossing y = ln(statistic / limit) is close to a straight line in ln C. A weighted regression through all
//! believable rungs within |ln C - x| < 0.35 of the crossing x, with a prior on its slope, gives x with its standard error
//! (METHOD section 3, search H). No single noisy verdict decides it.

use plimsoll_run::rung::{RungReport, TermOutcome};
use plimsoll_run::sla::{Metric, Sla, SlaTerm};

use crate::judge::judge;
use crate::levels::{Level, has_throughput};

/// Rungs within this distance in ln C take part.
const REACH: f64 = 0.35;
/// The slope of a smooth term: prior mean and standard deviation.
const SLOPE: (f64, f64) = (0.9, 0.5);
/// Steeper is a cliff, on which a straight line is worth nothing; flatter is no crossing.
pub(crate) const CLIFF: f64 = 3.0;
const FLAT: f64 = 0.1;
/// Fewer rungs are no regression.
const LEAST: usize = 3;
/// How far a smooth curve may bend away from the line at distance d: this times d squared.
const BEND: f64 = 0.1;
/// Standard errors to either side of a 95 % interval: of a rung's statistic; and of an estimate, Student's t with four
/// degrees of freedom for the five or so rungs that usually take part.
const NORMAL: f64 = 1.96;
const INTERVAL: f64 = 2.78;
/// No crossing is known better than this, relative: the line is a model.
const STRAIGHT: f64 = 0.01;
/// No statistic is known better than this, relative.
const LEAST_ERROR: f64 = 0.005;

/// The relative standard error of an outcome, from its 95 % interval; the side that is known where one is open. `None`
/// where it has none.
#[must_use]
pub(crate) fn relative_error(outcome: &TermOutcome) -> Option<f64> {
    let observed = outcome.observed.filter(|observed| *observed > 0.0)?;
    let [low, high] = outcome.interval?;
    let low = low.filter(|low| *low > 0.0).map(|low| (observed / low).ln());
    let high = high.map(|high| (high / observed).ln());
    let half = match (low, high) {
        (Some(low), Some(high)) => (low + high) / 2.0,
        (Some(side), None) | (None, Some(side)) => side,
        (None, None) => return None,
    };
    (half.is_finite() && half >= 0.0).then(|| (half / NORMAL).max(LEAST_ERROR))
}

/// Where a smooth term crosses its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    /// The level, not whole.
    pub(crate) level: f64,
    /// Standard error of its logarithm.
    pub(crate) error: f64,
    /// Which term.
    pub(crate) term: SlaTerm,
    /// Rungs that took part below and above it.
    pub(crate) below: usize,
    pub(crate) above: usize,
}

impl Estimate {
    /// The level to answer: half a standard error on the safe side, 1 % at least, whole. A promise that holds too much costs more than one that
    /// holds too little, and a curve is a straight line only so far.
    pub(crate) fn safe_level(&self) -> u32 {
        // Float to integer conversions saturate.
        (self.level * (-(self.error / 2.0).max(STRAIGHT)).exp()) as u32
    }

    /// 95 % interval of the level.
    pub(crate) fn interval(&self) -> [f64; 2] {
        let half = INTERVAL * self.error;
        [self.level * (-half).exp(), self.level * half.exp()]
    }
}

/// One rung's reading of a term: ln C, y, and y's standard error.
type Reading = (f64, f64, f64);

/// The slope of the steepest term that fails, between a passing and a failing row, in log-log; infinite where it cannot be
/// told (a statistic among the failures, an error rate).
#[must_use]
pub(crate) fn slope(pass: &Level, fail: &Level) -> f64 {
    fail.outcomes
        .iter()
        .filter(|outcome| outcome.pass == Some(false))
        .map(|outcome| {
            let before = pass.outcomes.iter().find(|other| other.term == outcome.term);
            let y = |outcome: &TermOutcome| Some((outcome.observed? / outcome.term.limit).ln());
            match (before.and_then(y), y(outcome)) {
                (Some(y0), Some(y1)) if outcome.term.metric != Metric::ErrorRate => {
                    (y1 - y0) / (f64::from(fail.level) / f64::from(pass.level)).ln()
                }
                _ => f64::INFINITY,
            }
        })
        .fold(f64::NEG_INFINITY, f64::max)
}

/// The crossing, the lowest over the terms that fail at `fail`; `None` on a cliff, or where too few rungs lie near it or
/// tell how sure they are.
#[must_use]
pub(crate) fn estimate(rungs: &[RungReport], sla: &Sla, pass: &Level, fail: &Level) -> Option<Estimate> {
    if slope(pass, fail) > CLIFF {
        return None;
    }
    let judged: Vec<(f64, Vec<TermOutcome>)> = rungs
        .iter()
        .filter(|rung| has_throughput(rung) && rung.concurrency > 0)
        .map(|rung| (f64::from(rung.concurrency).ln(), judge(rung, sla)))
        .collect();
    let mut lowest: Option<Estimate> = None;
    for outcome in fail.outcomes.iter().filter(|outcome| outcome.pass == Some(false)) {
        let readings: Vec<Reading> = judged
            .iter()
            .filter_map(|(x, outcomes)| {
                let own = outcomes.iter().find(|own| own.term == outcome.term)?;
                Some((*x, (own.observed? / own.term.limit).ln(), relative_error(own)?))
            })
            .collect();
        let start = (f64::from(pass.level) * f64::from(fail.level)).ln() / 2.0;
        let found = crossing(&readings, start, outcome.term)?;
        if lowest.is_none_or(|lowest| found.level < lowest.level) {
            lowest = Some(found);
        }
    }
    lowest
}

fn crossing(readings: &[Reading], start: f64, term: SlaTerm) -> Option<Estimate> {
    let mut at = start;
    let mut fitted = None;
    for _ in 0..12 {
        let near: Vec<Reading> = readings
            .iter()
            .copied()
            .filter(|(x, ..)| (x - at).abs() < REACH)
            .collect();
        let fit = fit(&near, at)?;
        if !(FLAT..=CLIFF).contains(&fit.slope) {
            return None;
        }
        // Not further than the window, so that it slides rather than leaps.
        let step = (-fit.height / fit.slope).clamp(-REACH, REACH);
        at += step;
        fitted = Some((fit, near));
        if step.abs() < 1e-6 {
            break;
        }
    }
    let (fit, near) = fitted?;
    let below = near.iter().filter(|(x, ..)| *x <= at).count();
    let above = near.len() - below;
    // A line carried on beyond its points is a guess.
    (near.len() >= LEAST && below > 0 && above > 0).then(|| Estimate {
        level: at.exp(),
        error: fit.error / fit.slope,
        term,
        below,
        above,
    })
}

struct Fit {
    /// y at the origin of the fit.
    height: f64,
    slope: f64,
    /// Standard error of `height`.
    error: f64,
}

/// Weighted least squares of y = height + slope (x - origin) with the prior on the slope. Where the points scatter more
/// than their errors allow, the error grows accordingly.
fn fit(near: &[Reading], origin: f64) -> Option<Fit> {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    // A rung's own error is itself known only roughly, from a score of batches: half of it is taken from its neighbours, so
    // that no rung weighs much because it happened to look quiet.
    let pooled = near.iter().map(|(.., error)| error * error).sum::<f64>() / near.len().max(1) as f64;
    let weighted = |&(x, y, error): &Reading| {
        let d = x - origin;
        let bend = BEND * d * d;
        (1.0 / ((error * error + pooled) / 2.0 + bend * bend), d, y)
    };
    for (weight, d, y) in near.iter().map(weighted) {
        w += weight;
        wx += weight * d;
        wy += weight * y;
        wxx += weight * d * d;
        wxy += weight * d * y;
    }
    let prior = 1.0 / (SLOPE.1 * SLOPE.1);
    wxx += prior;
    wxy += prior * SLOPE.0;
    let determinant = w * wxx - wx * wx;
    if determinant.is_nan() || determinant <= 0.0 {
        return None;
    }
    let height = (wxx * wy - wx * wxy) / determinant;
    let slope = (w * wxy - wx * wy) / determinant;
    let scatter: f64 = near
        .iter()
        .map(weighted)
        .map(|(weight, d, y)| weight * (y - height - slope * d).powi(2))
        .sum();
    let freedom = near.len().saturating_sub(2).max(1) as f64;
    Some(Fit {
        height,
        slope,
        error: (wxx / determinant).sqrt() * (scatter / freedom).max(1.0).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term() -> SlaTerm {
        "tpot.p95<=25ms".parse().unwrap()
    }

    #[test]
    fn a_line_is_crossed_where_it_is() {
        let line = |n: f64| (n.ln(), 0.8 * (n / 73.0).ln(), 0.01);
        let readings = [line(64.0), line(70.0), line(77.0), line(256.0)];
        let found = crossing(&readings, 90.0_f64.ln(), term()).unwrap();
        assert!((found.level / 73.0 - 1.0).abs() < 1e-3, "{found:?}");
        assert_eq!((found.below, found.above), (2, 1));
        // Three readings of 1 % on a slope of 0.8: 0.01 / sqrt(3) / 0.8 = 0.0072.
        assert!((0.006..0.010).contains(&found.error), "{found:?}");
        let [low, high] = found.interval();
        assert!(low < 73.0 && high > 73.0);
    }

    #[test]
    fn one_side_only_is_no_estimate() {
        let line = |n: f64| (n.ln(), 0.8 * (n / 73.0).ln(), 0.01);
        assert!(crossing(&[line(60.0), line(64.0), line(70.0)], 73.0_f64.ln(), term()).is_none());
        assert!(crossing(&[line(70.0), line(77.0)], 73.0_f64.ln(), term()).is_none());
    }

    #[test]
    fn scatter_beyond_the_errors_widens_the_interval() {
        let off = |n: f64, y: f64| (n.ln(), 0.8 * (n / 73.0).ln() + y, 0.005);
        let calm = [off(66.0, 0.0), off(70.0, 0.0), off(77.0, 0.0), off(80.0, 0.0)];
        let wild = [
            off(66.0, 0.03),
            off(70.0, -0.03),
            off(77.0, 0.03),
            off(80.0, -0.03),
        ];
        let calm = crossing(&calm, 73.0_f64.ln(), term()).unwrap();
        let wild = crossing(&wild, 73.0_f64.ln(), term()).unwrap();
        assert!(wild.error > 3.0 * calm.error, "{calm:?} {wild:?}");
    }

    #[test]
    fn errors_come_from_the_intervals() {
        let mut outcome = TermOutcome {
            term: term(),
            observed: Some(20.0),
            pass: Some(true),
            interval: Some([Some(19.0), Some(21.0)]),
            note: None,
        };
        let both = relative_error(&outcome).unwrap();
        assert!((both - (21.0_f64 / 19.0).ln() / 3.92).abs() < 1e-12);
        outcome.interval = Some([Some(19.0), None]);
        assert!((relative_error(&outcome).unwrap() - (20.0_f64 / 19.0).ln() / 1.96).abs() < 1e-12);
        outcome.interval = None;
        assert_eq!(relative_error(&outcome), None);
    }
}
