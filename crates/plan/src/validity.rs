//! Whether a rung may be believed (METHOD sections 2 and 4), alone and beside the others of its run.

mod across;
mod buffered;
mod delivered;
mod gone;

use std::time::Duration;

use plimsoll_run::evidence::{Evidence, StopReason};
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::Sla;
use plimsoll_run::validity::{Validity, Verdict};

pub use self::across::compare;
pub use self::gone::{found_nobody, went_away};

use self::buffered::buffered;
use self::delivered::{Unanswered, little, load, unsteady};
use self::gone::restarted;

/// More failures than this share make a rung invalid.
const ERROR_SHARE: f64 = 0.10;
/// A prefix cache hit below this share, or below so many tokens a request, is the chat template that all prompts share.
const CACHE_SHARE: f64 = 0.01;
const CACHE_TOKENS: f64 = 64.0;
/// A load thread busier than this is the bottleneck itself.
const CLIENT_CPU: f64 = 0.9;
/// Fewer response times in the window than this give intervals of low confidence.
const BLOCKS: f64 = 7.0;

/// Examines one rung. `cold` is whether no two prompts were meant to begin alike. The verdict is the gravest finding; the
/// reasons name all of them, the gravest first.
#[must_use]
pub fn examine(report: &RungReport, evidence: &Evidence, cold: bool) -> Validity {
    let Some(window) = evidence.window.filter(|window| !window.length().is_zero()) else {
        return Validity {
            verdict: Verdict::Unsteady,
            reasons: vec![
                "The rung ended before its window opened; nothing was measured. Run it again.".to_owned(),
            ],
        };
    };
    let unanswered = Unanswered::of(evidence, window);
    let findings: Vec<(Verdict, String)> = [
        restarted(evidence, window),
        errors(report),
        load(report, &unanswered),
        client(report),
        buffered(report, evidence, window),
        cold.then(|| cache(report)).flatten(),
        little(report, evidence, window, &unanswered),
        unsteady(report, evidence, window),
        samples(report),
    ]
    .into_iter()
    .flatten()
    .collect();
    match findings.first() {
        None => Validity::valid(),
        Some((verdict, _)) => Validity {
            verdict: *verdict,
            reasons: findings.iter().map(|(_, reason)| reason.clone()).collect(),
        },
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn errors(report: &RungReport) -> Option<(Verdict, String)> {
    let requests = &report.requests;
    let ended = requests.ok + requests.failed;
    if ended == 0 {
        return Some((
            Verdict::Errors,
            "Not one request sent inside the window ended. Check that the server answers at this level, or allow the \
             rung more time."
                .to_owned(),
        ));
    }
    let share = requests.failed as f64 / ended as f64;
    (share > ERROR_SHARE).then(|| {
        let class = requests.by_class.iter().max_by_key(|(_, count)| **count);
        let most = class.map_or_else(String::new, |(class, count)| {
            let sample = requests.samples.get(class).map_or("no message", String::as_str);
            format!(", most of them {class} ({count}: {sample})")
        });
        (
            Verdict::Errors,
            format!(
                "{} of {ended} requests failed{most}. The level is beyond what the server accepts, or the server is \
                 unwell; look at its log.",
                requests.failed
            ),
        )
    })
}

fn client(report: &RungReport) -> Option<(Verdict, String)> {
    let cpu = report.client?.busiest_thread_cpu?;
    (cpu > CLIENT_CPU).then(|| {
        (
            Verdict::ClientLimited,
            format!(
                "The busiest load thread used {} of its core, so the client may have been the limit. Use a machine with \
                 more cores, or a lower level.",
                percent(cpu)
            ),
        )
    })
}

fn cache(report: &RungReport) -> Option<(Verdict, String)> {
    let rate = report.server.prefix_cache_hit_rate?;
    let input = report.lengths.input.actual.or(report.lengths.input.asked)?;
    (rate >= CACHE_SHARE && rate * input > CACHE_TOKENS).then(|| {
        (
            Verdict::CacheWarm,
            format!(
                "The prefix cache served {} of the prompt tokens ({:.0} a request) although every prompt is new. Turn \
                 prefix caching off, or reset the cache, to measure cold prompts.",
                percent(rate),
                rate * input
            ),
        )
    })
}

fn samples(report: &RungReport) -> Option<(Verdict, String)> {
    let sla = Sla {
        terms: report.sla.iter().map(|outcome| outcome.term).collect(),
    };
    let (ok, wanted) = (report.requests.ok, sla.samples_wanted());
    if ok < wanted && report.stopped != StopReason::Easy {
        let why = match report.stopped {
            StopReason::Cap => "the cap on the rung's time cut in",
            StopReason::Asked => "the rung was asked to end there",
            StopReason::Interrupted => "the run was interrupted",
            StopReason::Errors => "errors ended the rung",
            StopReason::Hopeless => "the SLA was broken beyond doubt",
            StopReason::Enough | StopReason::Easy => "the window closed",
        };
        return Some((
            Verdict::TooFewSamples,
            format!(
                "{ok} of {wanted} samples before {why}: low confidence in the high percentiles. Allow the rung more time."
            ),
        ));
    }
    let length = Duration::try_from_secs_f64(report.window_s?).ok()?.as_secs_f64();
    let response = report.latency.e2e_ms.as_ref()?.mean? / 1e3;
    (length < BLOCKS * response).then(|| {
        (
            Verdict::TooFewSamples,
            format!(
                "The window spans {:.1} response times, and intervals rest on 8: low confidence. Allow the rung more \
                 time.",
                length / response
            ),
        )
    })
}
