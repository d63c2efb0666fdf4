//! A level whose throughput does not fit its neighbours although they agree with each other: it is measured again before
//! anything is concluded (METHOD section 3).
//!
//! Leave one out: the straight line in log-log through the neighbours says what the level should give. A throughput curve
//! is concave there, so that a level above that line is nothing out of the ordinary (any knee is). What concavity forbids
//! is to lie above the line that the growth before it, carried on, gives as well; and a curve that falls for good after
//! it declines, where one that returns to its course does not.

use crate::levels::Curve;

/// Residuals below this are not worth a second look, nor those within so many standard errors.
const RESIDUAL: f64 = 0.15;
const ERRORS: f64 = 4.0;
/// The upper neighbour of a low level has recovered when it gives this much of the lower one.
const RECOVERED: f64 = 0.9;

/// The level that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outlier {
    pub(crate) level: u32,
    /// Whether it lies above what fits, not below.
    pub(crate) high: bool,
}

impl Outlier {
    /// Which way, in a sentence.
    pub(crate) fn side(self) -> &'static str {
        if self.high { "above" } else { "below" }
    }
}

/// The lowest level that does not fit; of the two kinds those below their neighbours come first, which make the next level
/// look too high.
#[must_use]
pub(crate) fn outlier(curve: &Curve) -> Option<Outlier> {
    let levels = 1..curve.points.len().saturating_sub(1);
    let found = |high| {
        move |at: usize| Outlier {
            level: curve.points[at].0 as u32,
            high,
        }
    };
    let low = levels.clone().find(|at| is_low(curve, *at)).map(found(false));
    low.or_else(|| levels.into_iter().find(|at| is_high(curve, *at)).map(found(true)))
}

/// ln X at `n` on the straight line in log-log through two levels.
fn line(from: (f64, f64, f64), to: (f64, f64, f64), n: f64) -> f64 {
    from.1.ln() + (n / from.0).ln() / (to.0 / from.0).ln() * (to.1 / from.1).ln()
}

fn tolerance(error: f64) -> f64 {
    (ERRORS * error).max(RESIDUAL)
}

fn is_low(curve: &Curve, at: usize) -> bool {
    let (before, own, after) = (curve.points[at - 1], curve.points[at], curve.points[at + 1]);
    own.1.ln() - line(before, after, own.0) < -tolerance(own.2) && after.1 >= RECOVERED * before.1
}

fn is_high(curve: &Curve, at: usize) -> bool {
    let (before, own, after) = (curve.points[at - 1], curve.points[at], curve.points[at + 1]);
    let height = own.1.ln();
    // No more in flight than n times as many give more than n times as much.
    let proportional = before.1.ln() + (own.0 / before.0).ln();
    let carried_on = match at.checked_sub(2).map(|first| curve.points[first]) {
        Some(first) => line(first, before, own.0).max(before.1.ln()).min(proportional),
        None => proportional,
    };
    let allowed = carried_on.max(line(before, after, own.0));
    height - allowed > tolerance(own.2)
        // The neighbours agree: what comes after continues what was before.
        && height - after.1.ln() > tolerance(own.2)
        && after.1 >= RECOVERED * before.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(points: &[(f64, f64)]) -> Option<(u32, bool)> {
        let curve = Curve {
            points: points.iter().map(|(n, x)| (*n, *x, 0.01)).collect(),
            tokens: true,
        };
        outlier(&curve).map(|outlier| (outlier.level, outlier.high))
    }

    #[test]
    fn a_level_below_what_its_neighbours_agree_on_is_one() {
        // Curve 18 of the public collection: 32 is slower than 16, and 64 is 3.3 times it.
        let curve_18 = [
            (4.0, 987.3),
            (8.0, 1675.7),
            (16.0, 2719.9),
            (32.0, 2310.0),
            (64.0, 7600.0),
        ];
        assert_eq!(found(&curve_18), Some((32, false)));
        assert_eq!(
            found(&[(8.0, 100.0), (32.0, 260.0), (128.0, 1000.0)]),
            Some((32, false))
        );
        // On a plateau a dip of 16 %.
        assert_eq!(
            found(&[(64.0, 100.0), (128.0, 84.0), (256.0, 100.0)]),
            Some((128, false))
        );
        assert_eq!(found(&[(64.0, 100.0), (128.0, 88.0), (256.0, 100.0)]), None);
    }

    #[test]
    fn a_level_above_what_growth_allows_and_that_does_not_last_is_one() {
        assert_eq!(
            found(&[(16.0, 90.0), (64.0, 100.0), (128.0, 130.0), (256.0, 102.0)]),
            Some((128, true))
        );
        // Twice the level cannot give three times as much.
        assert_eq!(
            found(&[(8.0, 80.0), (16.0, 240.0), (32.0, 200.0), (64.0, 210.0)]),
            Some((16, true))
        );
    }

    #[test]
    fn knees_and_declines_are_none() {
        // X = min(N, 40) on a ladder of factor 4: 40 % above the line through its neighbours, and right.
        assert_eq!(
            found(&[(8.0, 8.0), (32.0, 32.0), (128.0, 40.0), (512.0, 40.0)]),
            None
        );
        // Curve 14: a hard decline by 29 % beyond 32.
        let curve_14 = [
            (4.0, 1071.6),
            (8.0, 1944.2),
            (16.0, 3406.9),
            (32.0, 5000.0),
            (64.0, 3550.0),
        ];
        assert_eq!(found(&curve_14), None);
        assert_eq!(found(&[(8.0, 8.0), (32.0, 30.0), (128.0, 20.0)]), None);
        assert_eq!(found(&[(8.0, 8.0), (32.0, 30.0)]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn what_the_noise_explains_is_none() {
        let noisy = Curve {
            points: vec![(64.0, 100.0, 0.05), (128.0, 83.0, 0.05), (256.0, 100.0, 0.05)],
            tokens: true,
        };
        assert_eq!(outlier(&noisy), None);
    }
}
