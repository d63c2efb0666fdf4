//! The search: which level to measure next.
//!
//! A pure function of the rungs so far, so that a resumed run asks for the same levels as one that was never
//! interrupted. In turn:
//!
//! 1. the levels of the ladder, all of them;
//! 2. once more what cannot stand as it is: rungs that are invalid by chance, throughput outliers, and a failing level
//!    with a passing one above it;
//! 3. further down by factors of four while nothing passes, further up while the highest passes and still grows;
//! 4. inside the limit's bracket: by secant or by the queue until it is narrow; then on a smooth term to both sides of the
//!    estimate until that is known within the resolution, and on a cliff by halves until the bracket is;
//! 5. inside the knee's bracket until it is as narrow as throughput, which is flat there, can tell.

use std::time::Duration;

use plimsoll_run::answer::KneeStatus;
use plimsoll_run::ladder::Ladder;
use plimsoll_run::rung::RungReport;
use plimsoll_run::runner::{Rung, RungLimits};
use plimsoll_run::sla::Sla;
use plimsoll_run::validity::Verdict;

use crate::bracket::{Bracket, crossing_at};
use crate::estimate::{CLIFF, Estimate, estimate, relative_error, slope};
use crate::knee::{knee, still_grows};
use crate::levels::{Curve, Level, Standing, curve, levels};
use crate::limit::{crossing, find};
use crate::onset::onset;
use crate::outlier::outlier;
use crate::response::expected_response;

/// The factor between levels beyond the ladder.
const FACTOR: u32 = 4;
/// No level is measured more often.
const TIMES: usize = 2;
/// The knee's bracket need not be narrower, nor its interval.
const KNEE_RATIO: f64 = 1.25;
const KNEE_INTERVAL: f64 = 0.15;
/// So many rungs beyond the ladder, and the knee gets no further one of its own.
const KNEE_BUDGET: usize = 5;
/// One-sided 95 %: so many standard errors of an estimate must fit into the resolution.
const SURE: f64 = 1.645;
/// So many probes by prediction; if they did not suffice, the predictions are worth nothing, and halving is.
const PREDICTIONS: usize = 6;

/// What bounds and steers the search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSettings {
    /// The levels to begin with; all of them within the bounds are measured, in this order.
    pub ladder: Ladder,
    /// How close the limit's bracket must come, a fraction above 0 (0.05: within 5 %); `None` measures exactly the
    /// ladder and nothing else.
    pub refine: Option<f64>,
    /// No level below, at least 1.
    pub min: u32,
    /// No level above.
    pub max: u32,
    /// No more rungs than this, repeated ones counted.
    pub max_rungs: Option<u32>,
    /// The SLA whose limit is sought.
    pub sla: Sla,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Measure a level.
    Measure {
        /// Which.
        level: u32,
        /// Why, as a clause for the progress line.
        why: String,
    },
    /// The search is over.
    Finished {
        /// Why, in a sentence.
        why: String,
    },
}

/// The search of one run.
#[derive(Debug, Clone)]
pub struct Search {
    settings: SearchSettings,
    /// The ladder within the bounds.
    ladder: Vec<u32>,
}

/// A step of the search that found something to measure.
type Probe = Option<(u32, String)>;

impl Search {
    /// With these settings. A ladder that lies outside the bounds altogether becomes the upper bound.
    #[must_use]
    pub fn new(settings: SearchSettings) -> Self {
        let mut settings = settings;
        settings.min = settings.min.max(1);
        settings.max = settings.max.max(settings.min);
        let mut ladder: Vec<u32> = settings
            .ladder
            .levels()
            .iter()
            .copied()
            .filter(|level| (settings.min..=settings.max).contains(level))
            .collect();
        if ladder.is_empty() {
            ladder.push(settings.max);
        }
        Search { settings, ladder }
    }

    /// What to do after these rungs, given in the order in which they were measured and compared with each other
    /// (see [`crate::compare`]).
    #[must_use]
    pub fn next(&self, rungs: &[RungReport]) -> Next {
        let finished = |why: String| Next::Finished { why };
        if let Some(most) = self.settings.max_rungs
            && rungs.len() >= most as usize
        {
            return finished(format!("The budget of {most} rungs is used up."));
        }
        let measured = |level: u32| rungs.iter().any(|rung| rung.concurrency == level);
        if let Some(level) = self.ladder.iter().find(|level| !measured(**level)) {
            return Next::Measure {
                level: *level,
                why: "on the ladder".to_owned(),
            };
        }
        let Some(resolution) = self.settings.refine else {
            return finished("Every level asked for was measured.".to_owned());
        };
        let view = View::new(rungs, &self.settings.sla, resolution);
        let probe = view
            .again()
            .or_else(|| view.wider(&self.settings))
            .or_else(|| view.limit_probe(&self.settings, rungs.len().saturating_sub(self.ladder.len())))
            .or_else(|| {
                let left = rungs.len() < self.ladder.len() + KNEE_BUDGET;
                view.knee_probe().filter(|_| left)
            });
        match probe {
            // The guards below hold by construction; a fault in a step must not break bounds or run for ever.
            Some((level, why))
                if (self.settings.min..=self.settings.max).contains(&level) && view.times(level) < TIMES =>
            {
                Next::Measure { level, why }
            }
            _ => finished(view.conclusion()),
        }
    }

    /// The rung to measure for [`Next::Measure`]: a level that was measured before gets twice the time, and one that
    /// fails beyond doubt less, unless every level was asked for by name. `first_response` is expected where no rung tells
    /// yet.
    #[must_use]
    pub fn rung(
        &self,
        rungs: &[RungReport],
        level: u32,
        order: u32,
        first_response: Duration,
        limits: RungLimits,
    ) -> Rung {
        let again = rungs.iter().any(|rung| rung.concurrency == level);
        Rung {
            level,
            order,
            expected_response: Some(expected_response(rungs, level).unwrap_or(first_response)),
            samples_wanted: self.settings.sla.samples_wanted(),
            limits: RungLimits {
                lengthen: limits.lengthen.max(if again { 2 } else { 1 }),
                early: self.settings.refine.map(|_| self.settings.sla.clone()),
                ..limits
            },
        }
    }

    /// A guess of the rungs still to come, for an ETA.
    #[must_use]
    pub fn remaining(&self, rungs: &[RungReport]) -> u32 {
        let on_ladder = self
            .ladder
            .iter()
            .filter(|level| rungs.iter().all(|rung| rung.concurrency != **level))
            .count();
        let refining = match self.settings.refine {
            None => 0,
            // A factor of four takes about three probes, the knee two.
            Some(_) if on_ladder > 0 => 5,
            Some(resolution) => match self.next(rungs) {
                Next::Finished { .. } => 0,
                Next::Measure { .. } => {
                    let view = View::new(rungs, &self.settings.sla, resolution);
                    let halvings = view.limit_bracket().map_or(1.0, |bracket| {
                        (bracket.ratio().ln() / (1.0 + view.resolution).ln())
                            .log2()
                            .ceil()
                    });
                    // 1..=10 by the clamp; the predictions do better than halving.
                    (halvings * 0.7).clamp(1.0, 10.0) as usize + 1
                }
            },
        };
        let most = self
            .settings
            .max_rungs
            .map_or(usize::MAX, |most| (most as usize).saturating_sub(rungs.len()));
        u32::try_from((on_ladder + refining).min(most)).unwrap_or(u32::MAX)
    }
}

/// The rungs so far, as the search sees them.
struct View<'a> {
    rungs: &'a [RungReport],
    sla: &'a Sla,
    levels: Vec<Level<'a>>,
    curve: Curve,
    resolution: f64,
}

impl<'a> View<'a> {
    fn new(rungs: &'a [RungReport], sla: &'a Sla, resolution: f64) -> Self {
        let levels = levels(rungs, sla);
        View {
            rungs,
            sla,
            curve: curve(&levels),
            levels,
            // Finer than this no bracket of whole levels gets.
            resolution: if resolution.is_finite() {
                resolution.max(1e-6)
            } else {
                1e-6
            },
        }
    }

    fn times(&self, level: u32) -> usize {
        self.levels
            .iter()
            .find(|row| row.level == level)
            .map_or(0, |row| row.times)
    }

    fn once(&self, level: u32) -> bool {
        self.times(level) < TIMES
    }

    /// Whether another attempt may turn out differently. Buffering, a warm cache and reply lengths come back.
    fn by_chance(row: &Level) -> bool {
        row.standing == Standing::Invalid
            && matches!(
                row.rung.validity.verdict,
                Verdict::LoadNotDelivered
                    | Verdict::ClientLimited
                    | Verdict::Unsteady
                    | Verdict::ServerRestarted
            )
    }

    /// Step 2: what must be measured again.
    fn again(&self) -> Probe {
        if let Some(row) = self
            .levels
            .iter()
            .find(|row| Self::by_chance(row) && self.once(row.level))
        {
            return Some((
                row.level,
                format!(
                    "once more, its first rung was {}",
                    row.rung.validity.verdict.name()
                ),
            ));
        }
        if let Some(outlier) = outlier(&self.curve).filter(|outlier| self.once(outlier.level)) {
            return Some((
                outlier.level,
                format!(
                    "once more, its throughput lies far {} what its neighbours suggest",
                    outlier.side()
                ),
            ));
        }
        let fail = crossing(&self.levels).fail?;
        let above = self
            .levels
            .iter()
            .find(|row| row.level > fail.level && row.standing == Standing::Passes)
            // Two verdicts within their noise do not contradict each other.
            .filter(|above| !(fail.near && above.near))?;
        let again = [fail, above].into_iter().find(|row| self.once(row.level))?;
        Some((
            again.level,
            format!(
                "once more, as {} fails and {} above it passes",
                fail.level, above.level
            ),
        ))
    }

    /// Step 3: beyond the ladder.
    fn wider(&self, settings: &SearchSettings) -> Probe {
        let (lowest, highest) = (self.levels.first()?, self.levels.last()?);
        let sides = crossing(&self.levels);
        let down = (lowest.level / FACTOR).max(settings.min);
        if down < lowest.level {
            if let (None, Some(fail)) = (sides.pass, sides.fail) {
                return Some((down, format!("further down, as {} fails the SLA", fail.level)));
            }
            // A knee below the lowest level: already that one is on the plateau.
            let below = knee(&self.curve).is_some_and(|knee| knee.interval[0].is_none());
            if below {
                return Some((
                    down,
                    format!("further down, as the knee lies below {}", lowest.level),
                ));
            }
        }
        let up = highest.level.saturating_mul(FACTOR).min(settings.max);
        let grows = still_grows(&self.curve) == Some(true) || self.curve.points.len() < 2;
        (up > highest.level && sides.fail.is_none() && highest.standing == Standing::Passes && grows).then(
            || {
                (
                    up,
                    format!(
                        "further up, as {} passes and throughput still grows",
                        highest.level
                    ),
                )
            },
        )
    }

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

    /// The limit's bracket while it is wider than the resolution, and nothing inside it has been tried in vain.
    fn limit_bracket(&self) -> Option<Bracket> {
        let (low, high) = self.sides()?;
        let bracket = Bracket {
            low: low.level,
            high: high.level,
        };
        let open = !bracket.adjacent() && bracket.ratio() > 1.0 + self.resolution;
        let in_vain = self.levels.iter().any(|row| bracket.inside(row.level));
        (open && !in_vain).then_some(bracket)
    }

    /// Step 4: inside the limit's bracket.
    fn limit_probe(&self, settings: &SearchSettings, probes: usize) -> Probe {
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
        let in_vain = self.levels.iter().any(|row| bracket.inside(row.level));
        let settled = !pass.near && !fail.near && bracket.ratio() <= 1.0 + self.resolution;
        if bracket.adjacent() || in_vain || settled {
            return None;
        }
        Some(self.inside(bracket, pass, fail, probes))
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
        Some(self.inside(bracket, low, fail, probes))
    }

    /// A level inside a bracket: where the crossing is predicted, or where requests begin to wait, or in the middle.
    fn inside(&self, bracket: Bracket, pass: &Level, fail: &Level, probes: usize) -> (u32, String) {
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
        (
            level,
            format!("the limit lies between {} and {}", bracket.low, bracket.high),
        )
    }

    /// Step 5: inside the knee's bracket.
    fn knee_probe(&self) -> Probe {
        let knee = knee(&self.curve)?;
        let [Some(from), Some(to)] = knee.interval else {
            return None;
        };
        if knee.status == KneeStatus::NotSaturated || to - from <= KNEE_INTERVAL * knee.concurrency {
            return None;
        }
        let level_of = |point: &(f64, f64, f64)| point.0 as u32;
        let after = self
            .curve
            .points
            .iter()
            .position(|point| point.0 >= knee.concurrency)?;
        let bracket = Bracket {
            low: level_of(&self.curve.points[after.checked_sub(1)?]),
            high: level_of(&self.curve.points[after]),
        };
        let in_vain = self.levels.iter().any(|row| bracket.inside(row.level));
        if bracket.adjacent() || bracket.ratio() <= KNEE_RATIO || in_vain {
            return None;
        }
        let onset = onset(&self.levels)
            .map(|onset| onset.concurrency)
            .filter(|onset| bracket.inside(*onset as u32));
        Some((
            bracket.guarded(onset.unwrap_or(knee.concurrency)),
            format!("the knee lies between {} and {}", bracket.low, bracket.high),
        ))
    }

    fn conclusion(&self) -> String {
        let found = find(&self.levels, self.rungs, self.sla);
        match (found.row, found.fail) {
            (Some(pass), Some(fail)) => {
                let bracket = Bracket {
                    low: pass.level,
                    high: fail.level,
                };
                let unjudged = self.levels.iter().find(|row| {
                    bracket.inside(row.level) && matches!(row.standing, Standing::Unknown | Standing::Invalid)
                });
                if let Some(estimate) = found.estimate {
                    let [low, high] = estimate.interval();
                    format!(
                        "The limit is estimated at {:.0}, between {low:.0} and {high:.0}.",
                        estimate.level.floor()
                    )
                } else if let Some(row) = unjudged {
                    format!(
                        "The limit lies between {} and {}; {} between them could not be judged.",
                        pass.level, fail.level, row.level
                    )
                } else if bracket.adjacent() || bracket.ratio() <= 1.0 + self.resolution {
                    format!(
                        "The limit is known to lie between {} and {}, within the resolution.",
                        pass.level, fail.level
                    )
                } else {
                    format!(
                        "The limit lies between {} and {}; levels between them are within the noise.",
                        pass.level, fail.level
                    )
                }
            }
            (Some(pass), None) => format!("Every level up to {} meets the SLA.", pass.level),
            (None, Some(fail)) => format!("No level meets the SLA, down to {}.", fail.level),
            (None, None) => "No level could be judged.".to_owned(),
        }
    }
}
