//! The open-loop replay in words.

use plimsoll_run::document::Run;
use plimsoll_run::rung::Distribution;

use crate::answer::Headline;
use crate::figures::{self, counted, finite};

/// Whether the safe rate held, where it was tried.
pub(crate) fn verified(run: &Run) -> Option<Headline> {
    let seen = run.verification.as_ref()?;
    let figure = match seen.held {
        Some(true) => "held",
        Some(false) => "did not hold",
        None => "not decided",
    };
    let range = (seen.requests > 0).then(|| {
        format!(
            "{} over {} s",
            counted(seen.requests, "arrival", "arrivals"),
            figures::number(seen.duration_s)
        )
    });
    let p95 = |name: &str, distribution: &Option<Distribution>| {
        let p95 = finite(distribution.as_ref()?.p95)?;
        Some(format!(
            "{name} p95 {} from the schedule",
            figures::latency(Some(p95))
        ))
    };
    let delay = seen
        .dispatch_delay_ms
        .as_ref()
        .and_then(|delay| finite(delay.p99))
        .map(|p99| format!("dispatch delay p99 {}", figures::latency(Some(p99))));
    let failed = (seen.failed > 0).then(|| format!("{} failed", figures::count(seen.failed)));
    let details = [
        p95("TTFT", &seen.latency.ttft_ms),
        p95("E2E", &seen.latency.e2e_ms),
        delay,
        failed,
    ];
    Some(Headline {
        name: "Verified",
        figure: figure.to_owned(),
        unit: "in open loop at the safe rate of one replica",
        range,
        details: details.into_iter().flatten().collect(),
        reason: seen.reason.clone(),
        explain: true,
    })
}
