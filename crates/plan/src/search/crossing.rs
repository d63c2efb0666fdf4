//! Step 4 of the search: inside the limit's bracket.

use super::view::View;
use super::{Probe, SearchSettings};
use crate::bracket::{Bracket, crossing_at};
use crate::estimate::{CLIFF, Estimate, estimate, relative_error, slope};
use crate::levels::{Level, Standing};
use crate::limit::crossing;
use crate::onset::onset;

/// One-sided 95 %: so many standard errors of an estimate must fit into the resolution.
const SURE: f64 = 1.645;
/// So many probes by prediction; if they did not suffice, the predictions are worth nothing, and halving is.
const PREDICTIONS: usize = 6;
/// So many levels inside a bracket that cannot be judged, and it is left as wide as it is.
const VAIN: usize = 4;

impl<'a> View<'a> {
    /// The highest level that passes by more than the noise (or at all, where none does), and the lowest above it that
    /// does not: a verdict within the noise is not latched, it only says that the limit is not far.
    fn sides(&self) -> Option<(&Level<'a>, &Level<'a>)> {
        let sides = crossing(&self.levels);
        let (pass, fail) = (sides.pass?, sides.fail?);
        let low = self
            .levels
            .iter()
            .rfind(|row| row.level < fail.level && row.standing == Standing::Passes && !row.near)
            .unwrap_or(pass);
        let high = self
            .levels
            .iter()
            .find(|row| row.level > low.level && row.near)
            .filter(|row| row.level < fail.level)
            .unwrap_or(fail);
        Some((low, high))
    }

    /// The limit's bracket while it is wider than the resolution.
    pub(super) fn limit_bracket(&self) -> Option<Bracket> {
        let (low, high) = self.sides()?;
        let bracket = Bracket {
            low: low.level,
            high: high.level,
        };
        self.open(bracket).then_some(bracket)
    }

    fn open(&self, bracket: Bracket) -> bool {
        !bracket.adjacent() && bracket.ratio() > 1.0 + self.resolution
    }

    /// Levels inside the bracket that were tried and could not be judged.
    fn in_vain(&self, bracket: Bracket) -> Vec<u32> {
        self.levels
            .iter()
            .map(|row| row.level)
            .filter(|level| bracket.inside(*level))
            .collect()
    }

    /// Step 4: inside the limit's bracket.
    pub(super) fn limit_probe(&self, settings: &SearchSettings, probes: usize) -> Probe {
        let sides = crossing(&self.levels);
        let (pass, fail) = (sides.pass?, sides.fail?);
        let telling = fail
            .outcomes
            .iter()
            .filter(|outcome| outcome.pass == Some(false))
            .all(|outcome| relative_error(outcome).is_some());
        if !telling || slope(pass, fail) > CLIFF {
            return self.cliff_probe(fail, probes);
        }
        match estimate(self.rungs, self.sla, pass, fail) {
            Some(found) => self.smooth_probe(settings, pass, fail, &found),
            None => self.first_probe(pass, fail, probes),
        }
    }

    /// Towards a term that may be smooth, before enough rungs lie around its crossing: by secant, or by the queue.
    fn first_probe(&self, pass: &Level, fail: &Level, probes: usize) -> Probe {
        let bracket = Bracket {
            low: pass.level,
            high: fail.level,
        };
        let settled = !pass.near && !fail.near && bracket.ratio() <= 1.0 + self.resolution;
        if bracket.adjacent() || settled {
            return None;
        }
        self.inside(bracket, pass, fail, probes)
    }

    /// A smooth term: to both sides of the estimate in turn, until it is sure.
    fn smooth_probe(&self, settings: &SearchSettings, pass: &Level, fail: &Level, found: &Estimate) -> Probe {
        let bracket = Bracket {
            low: pass.level,
            high: fail.level,
        };
        let closed = bracket.adjacent() || bracket.ratio() <= 1.0 + self.resolution;
        if closed && !pass.near && !fail.near {
            return None;
        }
        if SURE * found.error <= self.resolution {
            return None;
        }
        let aside = 1.0 + self.resolution;
        let (first, second) = if found.below <= found.above {
            (found.level / aside, found.level * aside)
        } else {
            (found.level * aside, found.level / aside)
        };
        [first, second, found.level, first - 1.0, second + 1.0]
            .into_iter()
            // Float to integer conversions saturate.
            .map(|level| (level.round() as u32).clamp(settings.min, settings.max))
            .find(|level| self.once(*level))
            .map(|level| {
                (
                    level,
                    format!(
                        "the limit is estimated at {:.0}, within {:.0} %",
                        found.level,
                        100.0 * SURE * found.error
                    ),
                )
            })
    }

    /// A cliff, a wide bracket, or rungs that do not tell how sure they are: prediction first, then halves.
    fn cliff_probe(&self, fail: &Level, probes: usize) -> Probe {
        let (low, high) = self.sides()?;
        if low.near && self.once(low.level) {
            return Some((
                low.level,
                "once more, it passes by less than the noise".to_owned(),
            ));
        }
        let Some(bracket) = self.limit_bracket() else {
            return (high.near && self.once(high.level) && low.level < high.level).then(|| {
                (
                    high.level,
                    "once more, its verdict is within the noise".to_owned(),
                )
            });
        };
        self.inside(bracket, low, fail, probes)
    }

    /// A level inside a bracket: where the crossing is predicted, or where requests begin to wait, or in the middle. Around
    /// levels that could not be judged, the middle of the widest gap, a few times: whatever they suffer from need not reach
    /// as far.
    fn inside(&self, bracket: Bracket, pass: &Level, fail: &Level, probes: usize) -> Probe {
        let why = format!("the limit lies between {} and {}", bracket.low, bracket.high);
        let in_vain = self.in_vain(bracket);
        if !in_vain.is_empty() {
            return bracket
                .widest_gap(&in_vain)
                .filter(|gap| self.open(*gap) && in_vain.len() < VAIN)
                .map(|gap| (gap.middle(), why));
        }
        let onset = onset(&self.levels).map(|onset| onset.concurrency);
        let predicted = crossing_at(pass, fail, onset).filter(|_| probes < PREDICTIONS);
        let level = match (predicted, onset) {
            (Some(at), _) => bracket.straddle(at, self.resolution),
            // Latency breaks where requests begin to wait, and the same rung serves the knee.
            (None, Some(onset)) if probes < PREDICTIONS && bracket.inside(onset as u32) => {
                bracket.guarded(onset)
            }
            (None, _) => bracket.middle(),
        };
        Some((level, why))
    }
}
