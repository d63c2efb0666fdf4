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

mod crossing;
mod view;

use std::time::Duration;

use plimsoll_run::ladder::Ladder;
use plimsoll_run::rung::RungReport;
use plimsoll_run::runner::{Rung, RungLimits};
use plimsoll_run::sla::Sla;

use crate::response::expected_response;

use view::View;

/// No level is measured more often.
const TIMES: usize = 2;
/// So many rungs beyond the ladder, and the knee gets no further one of its own.
const KNEE_BUDGET: usize = 5;

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
