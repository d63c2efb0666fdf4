//! The rungs so far, and the steps of the search around the limit: what must be measured again, levels beyond the ladder,
//! the knee, and what to say at the end.

use plimsoll_run::answer::KneeStatus;
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::Sla;
use plimsoll_run::validity::Verdict;

use super::{Probe, SearchSettings, TIMES};
use crate::bracket::Bracket;
use crate::knee::{knee, still_grows};
use crate::levels::{Curve, Level, Standing, curve, levels};
use crate::limit::{crossing, find};
use crate::onset::onset;
use crate::outlier::outlier;

/// The factor between levels beyond the ladder.
const FACTOR: u32 = 4;
/// The knee's bracket need not be narrower, nor its interval.
const KNEE_RATIO: f64 = 1.25;
const KNEE_INTERVAL: f64 = 0.15;

/// The rungs so far, as the search sees them.
pub(super) struct View<'a> {
    pub(super) rungs: &'a [RungReport],
    pub(super) sla: &'a Sla,
    pub(super) levels: Vec<Level<'a>>,
    pub(super) curve: Curve,
    pub(super) resolution: f64,
}

impl<'a> View<'a> {
    pub(super) fn new(rungs: &'a [RungReport], sla: &'a Sla, resolution: f64) -> Self {
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

    pub(super) fn times(&self, level: u32) -> usize {
        self.levels
            .iter()
            .find(|row| row.level == level)
            .map_or(0, |row| row.times)
    }

    pub(super) fn once(&self, level: u32) -> bool {
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
    pub(super) fn again(&self) -> Probe {
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
    pub(super) fn wider(&self, settings: &SearchSettings) -> Probe {
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

    /// Step 5: inside the knee's bracket.
    pub(super) fn knee_probe(&self) -> Probe {
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

    pub(super) fn conclusion(&self) -> String {
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
