//! `--verify`: after the sweep, arrivals in open loop at the safe rate, and whether the SLA held.

use std::time::Duration;

use plimsoll_load::{HttpRunner, OpenLoop};
use plimsoll_plan::verification::{ReplayTerms, lay_out, safe_rate, verify};
use plimsoll_run::directory::RunDirectory;
use plimsoll_run::document::Run;
use plimsoll_run::runner::{RungLimits, Watch};
use plimsoll_run::units::{from_ms, show};
use plimsoll_run::verification::{ArrivalSource, Verification};

use crate::progress::Display;
use crate::question::Question;

/// What a replay is given.
pub struct Verify<'a> {
    /// What drove the sweep.
    pub runner: &'a HttpRunner,
    /// SLA, burstiness and trace.
    pub question: &'a Question,
    /// Its window is as long as a rung's where the user said how long that is; its drain is a rung's.
    pub limits: &'a RungLimits,
    /// What `--max-time` leaves.
    pub left: Option<Duration>,
    /// Where its requests are kept.
    pub directory: &'a RunDirectory,
    /// Shared with Ctrl-C.
    pub watch: &'a Watch,
    /// Where progress goes.
    pub display: &'a Display,
}

impl Verify<'_> {
    /// Replays, keeps the raw requests and judges.
    ///
    /// # Errors
    /// When the load cannot be driven at all, or the requests cannot be written.
    pub fn go(&self, run: &Run) -> anyhow::Result<Verification> {
        let trace = self.question.trace.as_ref();
        let source = match (trace, self.question.terms.arrival_cv2 == 1.0) {
            (Some(_), _) => ArrivalSource::Trace,
            (None, true) => ArrivalSource::Poisson,
            (None, false) => ArrivalSource::Bursty,
        };
        let not_done = |rate, why: String| {
            Ok(Verification::not_done(
                rate,
                source,
                format!("Not verified: {why}"),
            ))
        };
        let rate = match safe_rate(&run.rungs, &run.sla, &self.question.demand()) {
            Ok(rate) => rate,
            Err(why) => return not_done(None, why),
        };
        let response = run
            .plan
            .limit
            .as_ref()
            .and_then(|limit| limit.concurrency)
            .and_then(|level| run.rungs.iter().rfind(|rung| rung.concurrency == level))
            .and_then(|rung| rung.latency.e2e_ms.as_ref()?.mean)
            .map_or(Duration::from_secs(1), from_ms);
        let terms = ReplayTerms {
            rate_per_s: rate,
            demand: &self.question.terms,
            trace: trace.map(|trace| trace.as_slice()),
            sla: &run.sla,
            response,
            exactly: self.limits.rung_time,
            left: self.left,
            seed: run.seed,
        };
        let Some(replay) = lay_out(&terms) else {
            return not_done(Some(rate), "--max-time left no time for it.".to_owned());
        };
        let order = run.next_order();
        self.display.say(&format!(
            "verifying: {} arrivals at {rate:.3} requests/s for {}",
            replay.source.name(),
            show(replay.warmup + replay.duration)
        ));
        self.display.message("verifying the safe rate");
        let whole = replay.warmup + replay.duration;
        let plan = OpenLoop {
            arrivals: replay.arrivals.clone(),
            opens: replay.warmup,
            closes: whole,
            max_in_flight: None,
            drain: self
                .limits
                .drain
                .min(self.left.map_or(Duration::MAX, |left| left.saturating_sub(whole)))
                .max(Duration::from_secs(1)),
            order,
        };
        let evidence = self.runner.replay(&plan, self.watch)?;
        let kept = self.directory.save_replay(&evidence.requests)?;
        let mut verification = verify(&replay, evidence, &run.workload, &run.sla);
        verification.requests_file = Some(kept);
        self.display.say(&format!("  {}", verification.reason));
        Ok(verification)
    }
}
