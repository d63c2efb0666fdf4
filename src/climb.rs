//! The climb: measures the levels that the search asks for, one rung after the other, whatever drives them.

use std::time::{Duration, Instant};

use plimsoll_plan::{
    Next, Reduced, Search, SearchSettings, answer, compare, found_nobody, reduce, went_away,
};
use plimsoll_report::terminal;
use plimsoll_run::document::Run;
use plimsoll_run::evidence::{Evidence, StopReason};
use plimsoll_run::runner::{RungLimits, Runner, Watch};

use crate::progress::Display;
use crate::question::Question;

/// Which time a sweep's budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Real time.
    Wall,
    /// The rungs' own, which in a simulation passes faster.
    Rungs,
}

/// What to climb, and how.
pub struct Climb<'a> {
    /// Ladder, bounds and resolution.
    pub search: SearchSettings,
    /// What ends a rung.
    pub limits: RungLimits,
    /// Hard bound on the time, by `clock`.
    pub max_time: Option<Duration>,
    /// Which time that is.
    pub clock: Clock,
    /// SLA, peak and price.
    pub question: &'a Question,
    /// A response time to expect before the first rung tells.
    pub first_response: Duration,
    /// Shared with the runner and with Ctrl-C.
    pub watch: &'a Watch,
    /// Where progress goes.
    pub display: &'a Display,
}

/// How a climb ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The search had all it wanted, or its budget was spent.
    Found,
    /// The user stopped it.
    Interrupted,
    /// The target went away while this level was held, and did not come back.
    WentAway(u32),
}

impl Climb<'_> {
    /// Goes on from the rungs that `run` holds until the search is content. `keep` stores each rung, and the run with
    /// it, before the next one starts.
    ///
    /// # Errors
    /// When a level cannot be held at all, or `keep` fails; the rungs so far stay in `run`.
    pub fn go(
        &self,
        runner: &mut dyn Runner,
        run: &mut Run,
        keep: &mut dyn FnMut(&Evidence, &Reduced, &Run) -> anyhow::Result<()>,
    ) -> anyhow::Result<End> {
        let search = Search::new(self.search.clone());
        let demand = self.question.demand();
        let began = Instant::now();
        let (mut spent_in_rungs, mut longest_rung, mut measured) = (Duration::ZERO, Duration::ZERO, 0_u32);
        let mut budget_spent = None;
        while let Next::Measure { level, why } = search.next(&run.rungs) {
            let mut limits = self.limits.clone();
            if let Some(max_time) = self.max_time {
                let spent = match self.clock {
                    Clock::Wall => began.elapsed(),
                    Clock::Rungs => spent_in_rungs,
                };
                let left = max_time.saturating_sub(spent);
                if left < longest_rung.max(Duration::from_secs(1)) {
                    budget_spent = Some(format!(
                        "--max-time ended the sweep before level {level} was measured, so the brackets are wider \
                         than asked."
                    ));
                    break;
                }
                limits.cap = limits.cap.min(left);
                limits.drain = limits.drain.min(left);
            }
            let order = run.next_order();
            let remaining = search.remaining(&run.rungs).saturating_sub(1);
            self.display.begin(
                order,
                level,
                remaining,
                began.elapsed() / measured.max(1) * remaining,
            );
            self.display.say(&format!("rung {order}: level {level} ({why})"));
            self.watch.begin_rung();
            let rung = search.rung(&run.rungs, level, order, self.first_response, limits);
            let evidence = runner.measure(&rung, self.watch)?;
            if evidence.stop == StopReason::Interrupted {
                return Ok(End::Interrupted);
            }
            measured += 1;
            spent_in_rungs += evidence.took;
            longest_rung = longest_rung.max(evidence.took);
            let mut reduced = reduce(&evidence, order, &run.workload, &self.question.sla);
            let gone = found_nobody(&reduced.report)
                .then(|| runner.reach().err())
                .flatten();
            if let Some(problem) = &gone {
                reduced.report.validity = went_away(&reduced.report.validity, problem);
            }
            self.display
                .say(&format!("  {}", terminal::rung_line(&reduced.report)));
            run.rungs.push(reduced.report.clone());
            compare(&mut run.rungs);
            run.plan = answer(&run.rungs, &run.sla, &demand);
            keep(&evidence, &reduced, run)?;
            if gone.is_some() {
                return Ok(End::WentAway(level));
            }
        }
        run.plan = answer(&run.rungs, &run.sla, &demand);
        run.plan.warnings.extend(budget_spent);
        Ok(End::Found)
    }
}
