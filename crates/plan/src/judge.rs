//! A rung against the SLA.

use plimsoll_run::rung::{Distribution, RungReport, TermOutcome};
use plimsoll_run::sla::{Metric, Sla, SlaTerm, Stat};
use plimsoll_run::validity::Verdict;

use crate::interval::share;

/// A p99 or a maximum from fewer samples is not one.
const P99_SAMPLES: u64 = 100;
/// TPOT is defined for replies of two tokens and more; from fewer of them it says nothing.
const TPOT_SAMPLES: u64 = 20;

/// One outcome for every term of the SLA, and one for the implicit `error_rate<=0` when the SLA names none
/// (an imported table that says nothing of errors is spared it).
///
/// Percentiles are judged with failed requests counted as slower than any success, means over the successes (the
/// error term sees the failures). A percentile from too few samples passes as `None`, with a note, unless it lies
/// among the failures. An imported table that does not say how many samples it has (`n` 0) is taken at its word. Behind
/// something that buffers the stream, TTFT, TPOT and ITL are not evaluated: what was timed is not the engine.
#[must_use]
pub fn judge(report: &RungReport, sla: &Sla) -> Vec<TermOutcome> {
    let mut outcomes: Vec<TermOutcome> = sla
        .terms
        .iter()
        .map(|term| match (term.metric, term.stat) {
            (Metric::ErrorRate, _) | (_, None) => errors(report, *term),
            _ if report.validity.verdict == Verdict::StreamBuffered && term.metric.needs_stream() => {
                TermOutcome {
                    term: *term,
                    observed: None,
                    pass: None,
                    interval: None,
                    note: Some("not evaluated: something buffers the stream on its way".to_owned()),
                }
            }
            (_, Some(stat)) => latency(report, *term, stat),
        })
        .collect();
    // A table without a word on errors is not held to have had some.
    let silent = report.client.is_none() && report.error_rate().is_none();
    if !silent && !sla.terms.iter().any(|term| term.metric == Metric::ErrorRate) {
        outcomes.push(errors(report, sla.error_limit()));
    }
    outcomes
}

/// Judges a rung again by the terms it was judged by, after its verdict may have changed.
pub(crate) fn judge_again(report: &mut RungReport) {
    if !report.sla.is_empty() {
        let terms = report.sla.iter().map(|outcome| outcome.term).collect();
        report.sla = judge(report, &Sla { terms });
    }
}

fn errors(report: &RungReport, term: SlaTerm) -> TermOutcome {
    let observed = report.error_rate();
    let (failed, ended) = (
        report.requests.failed,
        report.requests.failed + report.requests.ok,
    );
    TermOutcome {
        term,
        observed,
        pass: observed.map(|observed| term.admits(observed)),
        interval: share(failed, ended),
        note: observed.is_none().then(|| "no request ended".to_owned()),
    }
}

fn latency(report: &RungReport, term: SlaTerm, stat: Stat) -> TermOutcome {
    let outcome = |observed: Option<f64>, pass: Option<bool>, note: Option<String>| TermOutcome {
        term,
        observed,
        pass,
        interval: None,
        note,
    };
    let among_failures = || {
        outcome(
            None,
            Some(false),
            Some(format!(
                "{} of {} requests failed: the {} lies among them",
                report.requests.failed,
                report.requests.failed + report.requests.ok,
                stat.name()
            )),
        )
    };
    let Some(distribution) = report.latency.of(term.metric) else {
        return if report.requests.ok == 0 && report.requests.failed > 0 && stat != Stat::Mean {
            among_failures()
        } else if report.requests.ok > 0 && term.metric.needs_stream() && report.latency.ttft_ms.is_none() {
            outcome(
                None,
                None,
                Some("not evaluated: the reply was not streamed".to_owned()),
            )
        } else {
            outcome(None, None, Some("no samples".to_owned()))
        };
    };
    let failures = distribution.counting_failures.get(stat.name());
    if let Some(None) = failures {
        return among_failures();
    }
    let Some(observed) = failures.copied().flatten().or_else(|| distribution.stat(stat)) else {
        return outcome(None, None, Some("no samples".to_owned()));
    };
    let n = distribution.n;
    let mut outcome = outcome(Some(observed), Some(term.admits(observed)), None);
    if failures.is_none() {
        outcome.interval = distribution.ci95.get(stat.name()).copied();
    }
    if n > 0 && term.metric == Metric::Tpot && n < TPOT_SAMPLES {
        outcome.pass = None;
        outcome.note = Some(format!(
            "TPOT from {n} replies says nothing; {TPOT_SAMPLES} are needed"
        ));
    } else if n > 0 && n < P99_SAMPLES && matches!(stat, Stat::P99) {
        outcome.pass = lower_percentile_fails(distribution, &term).then_some(false);
        outcome.note = Some(format!(
            "a p99 needs {P99_SAMPLES} samples, this rung has {n}{}",
            if outcome.pass == Some(false) {
                "; its p90 already breaks the limit"
            } else {
                ""
            }
        ));
    }
    outcome
}

/// A p99 is no better than a p90: where the latter fails beyond doubt, so does the former.
fn lower_percentile_fails(distribution: &Distribution, term: &SlaTerm) -> bool {
    distribution
        .ci95
        .get(Stat::P90.name())
        .and_then(|[low, _]| *low)
        .is_some_and(|low| !term.admits(low))
}
