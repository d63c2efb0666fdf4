//! A run as JUnit XML, for the test page of a CI system.
//!
//! Two suites. `plan` has a test for each planning number that was asked for, and for the replay of `--verify`: it fails where no
//! level meets the SLA, no count of replicas carries the peak, or the replay broke the SLA. `levels` has a test for each level: one
//! that may not be believed is skipped with its reasons, and one that breaks the SLA fails, unless the sweep itself went looking
//! for where the SLA breaks and this level lies beyond; such a level is skipped with what it broke.

use plimsoll_run::answer::LimitStatus;
use plimsoll_run::document::Run;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::ReportError;
use crate::answer::{Headline, planning_numbers};
use crate::conditions::term_words;
use crate::figures;
use crate::rows::rows;
use crate::verified::verified;

/// The run as JUnit XML.
///
/// # Errors
/// Only if the tests would not become XML, which no run is known to cause.
pub fn junit(run: &Run) -> Result<String, ReportError> {
    let mut report = Report::new(format!("plimsoll {}", run.target.url));
    let mut plan = TestSuite::new("plan");
    plan.add_test_cases(answers(run));
    let mut levels = TestSuite::new("levels");
    levels.add_test_cases(level_cases(run));
    report.add_test_suites([plan, levels]);
    report
        .to_string()
        .map_err(|error| ReportError::Junit(error.to_string()))
}

fn case(name: impl Into<String>, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name.into(), status);
    case.set_classname("plimsoll");
    case
}

fn failed(message: String) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(message);
    status
}

fn skipped(message: String) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(message);
    status
}

fn answers(run: &Run) -> Vec<TestCase> {
    let [best, limit, instances] = planning_numbers(run);
    let said = |headline: &Headline| {
        let range = headline
            .range
            .as_ref()
            .map_or_else(String::new, |range| format!(" ({range})"));
        format!(
            "{} {}{range}. {}",
            headline.figure, headline.unit, headline.reason
        )
    };
    let plan = &run.plan;
    let met = plan
        .limit
        .as_ref()
        .map(|limit| limit.status != LimitStatus::NeverMet);
    let carried = plan.instances.as_ref().map(|found| found.count.is_some());
    let held = run.verification.as_ref().and_then(|seen| seen.held);
    let replay = verified(run);
    [
        (Some(best), plan.best.as_ref().map(|_| true)),
        (Some(limit), met),
        (Some(instances), carried),
        (replay, held),
    ]
    .into_iter()
    .filter_map(|(headline, holds)| {
        let headline = headline?;
        let mut case = case(
            headline.name,
            match holds {
                Some(true) => TestCaseStatus::success(),
                Some(false) => failed(said(&headline)),
                None => skipped(headline.reason.clone()),
            },
        );
        case.set_system_out(said(&headline));
        Some(case)
    })
    .collect()
}

fn level_cases(run: &Run) -> Vec<TestCase> {
    // Levels that were named one by one are each asked about; a search goes beyond the limit to find it.
    let sought = run
        .search
        .as_ref()
        .is_some_and(|search| search.resolution.is_some());
    let rows = rows(run);
    rows.iter()
        .map(|row| {
            let rung = row.rung;
            let broken: Vec<String> = rung
                .sla
                .iter()
                .filter(|outcome| outcome.pass != Some(true))
                .map(|outcome| {
                    let observed = match (outcome.observed, outcome.term.stat) {
                        (Some(share), None) => figures::percent(Some(share)),
                        (observed, _) => figures::latency(observed),
                    };
                    let note = outcome
                        .note
                        .as_ref()
                        .map_or_else(String::new, |note| format!(", {note}"));
                    format!("{} ({observed}{note})", term_words(&outcome.term))
                })
                .collect();
            let broken = broken.join("; ");
            let status = match rung.meets_sla() {
                _ if !rung.validity.may_decide() => skipped(format!(
                    "{}: {}",
                    rung.validity.verdict.name(),
                    rung.validity.reasons.join(" ")
                )),
                Some(true) => TestCaseStatus::success(),
                None => skipped(format!("inconclusive: {broken}")),
                Some(false) if sought => skipped(format!("beyond the SLA limit: {broken}")),
                Some(false) => failed(format!("breaks {broken}")),
            };
            let repeated = rows
                .iter()
                .filter(|other| other.rung.concurrency == rung.concurrency)
                .count()
                > 1;
            let mut case = case(
                if repeated {
                    format!("level {} (rung {})", rung.concurrency, rung.order)
                } else {
                    format!("level {}", rung.concurrency)
                },
                status,
            );
            if let Some(window) = rung
                .window_s
                .and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok())
            {
                case.set_time(window);
            }
            case.set_system_out(crate::terminal::rung_line(rung));
            case
        })
        .collect()
}
