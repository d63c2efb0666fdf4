//! Where to probe inside a bracket.

use plimsoll_run::sla::Metric;

use crate::levels::{Level, throughput};

/// A bracket wider than this is cut in its middle 60 %, whatever a prediction says.
const WIDE: f64 = 1.3;
/// Steeper than this in log-log is a cliff, on which a secant is worth nothing.
const CLIFF: f64 = 3.0;
/// A level beyond this many times the onset is governed by its queue.
const QUEUED: f64 = 1.1;

/// Two levels with something between them that is sought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bracket {
    pub(crate) low: u32,
    pub(crate) high: u32,
}

impl Bracket {
    pub(crate) fn ratio(self) -> f64 {
        f64::from(self.high) / f64::from(self.low.max(1))
    }

    /// Whether no level lies between.
    pub(crate) fn adjacent(self) -> bool {
        self.high <= self.low.saturating_add(1)
    }

    pub(crate) fn inside(self, level: u32) -> bool {
        self.low < level && level < self.high
    }

    /// The widest gap, as a ratio, between the bracket's ends and `levels` inside it, ascending; the lowest of equal ones.
    pub(crate) fn widest_gap(self, levels: &[u32]) -> Option<Bracket> {
        let highs = levels.iter().copied().chain([self.high]);
        let lows = [self.low].into_iter().chain(levels.iter().copied());
        lows.zip(highs)
            .map(|(low, high)| Bracket { low, high })
            // The first of equal ones, which `max_by` would not give.
            .min_by(|a, b| b.ratio().total_cmp(&a.ratio()))
    }

    /// The level nearest to `at` strictly inside; to be asked only of one that is not adjacent.
    fn nearest(self, at: f64) -> u32 {
        let least = self.low.saturating_add(1);
        // In range by the clamp; NaN becomes the least.
        (at.round().max(f64::from(least)) as u32).clamp(least, self.high.saturating_sub(1).max(least))
    }

    /// The point at this share of the bracket, geometrically.
    fn at(self, share: f64) -> f64 {
        f64::from(self.low.max(1)) * self.ratio().powf(share)
    }

    /// The geometric middle.
    pub(crate) fn middle(self) -> u32 {
        self.nearest(self.at(0.5))
    }

    /// The level nearest to `at` within the middle 60 %.
    pub(crate) fn guarded(self, at: f64) -> u32 {
        self.nearest(at.clamp(self.at(0.2), self.at(0.8)))
    }

    /// The probe for a crossing predicted at `at`: half a resolution to the side that is further off, so that two
    /// right predictions close the bracket from both sides.
    pub(crate) fn straddle(self, at: f64, resolution: f64) -> u32 {
        let half = 1.0 + 0.45 * resolution;
        let probe = if at / f64::from(self.low.max(1)) > 1.0 + resolution {
            at / half
        } else {
            at * half
        };
        if self.ratio() > WIDE {
            self.guarded(probe)
        } else {
            self.nearest(probe.clamp(self.at(0.1), self.at(0.9)))
        }
    }
}

/// The level at which the SLA is crossed between a passing and a failing one, as far as their rows tell; `None` where
/// only the middle is left.
///
/// Each term that fails gives a root, and the lowest counts. Beyond the queue onset TTFT and E2E grow by 1/X for each
/// further request in flight, so that the failing row alone tells where they crossed. Other terms, and levels without a
/// queue, are smooth in log-log: the secant through both rows.
pub(crate) fn crossing_at(pass: &Level, fail: &Level, onset: Option<f64>) -> Option<f64> {
    let (n0, n1) = (f64::from(pass.level), f64::from(fail.level));
    let queued = onset.is_some_and(|onset| n1 > QUEUED * onset);
    let mut lowest = f64::INFINITY;
    for outcome in fail.outcomes.iter().filter(|outcome| outcome.pass == Some(false)) {
        let term = outcome.term;
        let observed = outcome.observed?;
        let waits = matches!(term.metric, Metric::Ttft | Metric::Ttfat | Metric::E2e);
        let root = if let (true, true, Some(rate)) = (waits, queued, throughput(fail.rung, false)) {
            n1 - rate * (observed - term.limit) / 1e3
        } else {
            let before = pass
                .outcomes
                .iter()
                .find(|other| other.term == term)?
                .observed
                .filter(|before| *before > 0.0)?;
            let (y0, y1) = ((before / term.limit).ln(), (observed / term.limit).ln());
            let slope = (y1 - y0) / (n1 / n0).ln();
            if !(slope.is_finite() && slope > 0.0 && slope <= CLIFF) {
                return None;
            }
            n0 * (-y0 / slope).exp()
        };
        lowest = lowest.min(root);
    }
    (lowest.is_finite() && lowest > 0.0).then_some(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn probes_lie_strictly_inside(low in 1_u32..1000, width in 2_u32..100_000, at in proptest::num::f64::ANY) {
            let bracket = Bracket { low, high: low + width };
            for probe in [bracket.middle(), bracket.guarded(at), bracket.straddle(at, 0.05)] {
                proptest::prop_assert!(bracket.inside(probe), "{bracket:?} {probe}");
            }
        }
    }

    #[test]
    fn two_right_predictions_close_a_bracket() {
        let narrow = Bracket { low: 190, high: 240 };
        let below = narrow.straddle(207.0, 0.05);
        assert!((200..207).contains(&below), "{below}");
        let above = Bracket {
            low: below,
            high: 240,
        }
        .straddle(207.0, 0.05);
        assert!((208..214).contains(&above), "{above}");
        assert!(f64::from(above) / f64::from(below) <= 1.05);
    }
}
