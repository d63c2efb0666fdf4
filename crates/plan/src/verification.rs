//! Whether the SLA holds when requests arrive at the safe rate, as users send them: an open loop, judged from the
//! scheduled times, so that a request that waits for a stalled server or inside the client counts for what it waited.

use std::time::Duration;

use plimsoll_run::demand::DemandTerms;
use plimsoll_run::evidence::{ChunkLog, Evidence, StopReason};
use plimsoll_run::peak::Peak;
use plimsoll_run::rung::{Distribution, RungReport, TermOutcome};
use plimsoll_run::sla::{Metric, Sla};
use plimsoll_run::units::{show_ms, to_ms};
use plimsoll_run::verification::{ArrivalSource, Verification};
use plimsoll_run::workload::Workload;

use crate::answer::{Demand, answer};
use crate::arrivals::{bursty, replayed};
use crate::distribution::{Samples, distribution};
use crate::reduce::reduce;
use crate::wording::{figure, percent};

/// A p99 dispatch delay above this share of the tightest limit marks the client as the one that was slow (METHOD
/// section 1).
const DELAYED: f64 = 0.05;
/// The least time over which arrivals are judged, unless the user says otherwise.
const LEAST: Duration = Duration::from_secs(60);
/// The shortest replay worth making.
const SHORTEST: Duration = Duration::from_secs(1);

/// The rate that one replica may be given, per second: the target is one, whatever the fleet pools. `Err` says in a
/// sentence why there is none.
pub fn safe_rate(rungs: &[RungReport], sla: &Sla, demand: &Demand) -> Result<f64, String> {
    let alone = Demand {
        // One replica carries a peak of nothing.
        peak: Some(Peak::Rate(0.0)),
        spares: 0,
        failures: 0,
        ..demand.clone()
    };
    match answer(rungs, sla, &alone).instances {
        Some(instances) => instances
            .per_instance_per_s
            .filter(|rate| rate.is_finite() && *rate > 0.0)
            .ok_or(instances.reason),
        None => Err("the rate that a replica may be given is not known".to_owned()),
    }
}

/// A replay to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Arrivals per second.
    pub rate_per_s: f64,
    /// Where they come from.
    pub source: ArrivalSource,
    /// When they come, warm-up included, ascending.
    pub arrivals: Vec<Duration>,
    /// Those before this are not judged: an empty target is quicker than a busy one.
    pub warmup: Duration,
    /// The time over which the others come.
    pub duration: Duration,
    /// Whether a budget cut it short.
    pub cut: bool,
}

/// What a replay is made from.
#[derive(Debug, Clone, Copy)]
pub struct ReplayTerms<'a> {
    /// Arrivals per second, finite and above 0; see [`safe_rate`].
    pub rate_per_s: f64,
    /// Burstiness of random arrivals.
    pub demand: &'a DemandTerms,
    /// Arrival times of a trace, seconds, ascending, to be replayed instead.
    pub trace: Option<&'a [f64]>,
    /// What must be decided.
    pub sla: &'a Sla,
    /// Mean E2E at the limit: the warm-up lasts twice as long, within 1 to 10 s.
    pub response: Duration,
    /// Exactly this long, where the user asked for it.
    pub exactly: Option<Duration>,
    /// All the time there is, warm-up included.
    pub left: Option<Duration>,
    /// For arrivals at random.
    pub seed: u64,
}

/// Lays out a replay: the larger of 60 s and the time for 200 arrivals (500 for a p99), within what is left. `None` when
/// too little is.
#[must_use]
pub fn lay_out(terms: &ReplayTerms<'_>) -> Option<Replay> {
    let warmup = (terms.response * 2).clamp(SHORTEST, Duration::from_secs(10));
    let samples = terms.sla.samples_wanted() as f64 / terms.rate_per_s;
    let wanted = terms.exactly.unwrap_or_else(|| {
        Duration::try_from_secs_f64(samples)
            .unwrap_or(Duration::MAX)
            .max(LEAST)
    });
    let left = terms.left.unwrap_or(Duration::MAX).saturating_sub(warmup);
    let duration = wanted.min(left).min(Duration::from_secs(24 * 3600));
    if duration < SHORTEST {
        return None;
    }
    let whole = warmup + duration;
    let (source, arrivals) = match terms.trace {
        Some(times_s) => (ArrivalSource::Trace, replayed(times_s, terms.rate_per_s, whole)),
        None => {
            let cv2 = terms.demand.arrival_cv2;
            let source = if cv2 == 1.0 {
                ArrivalSource::Poisson
            } else {
                ArrivalSource::Bursty
            };
            (source, bursty(terms.rate_per_s, cv2, whole, terms.seed))
        }
    };
    Some(Replay {
        rate_per_s: terms.rate_per_s,
        source,
        arrivals,
        warmup,
        duration,
        cut: duration < wanted,
    })
}

/// Judges the evidence of a replay. Its window holds the arrivals to judge, by their scheduled time.
#[must_use]
pub fn verify(replay: &Replay, evidence: Evidence, workload: &Workload, sla: &Sla) -> Verification {
    let delays = dispatch_delays(&evidence);
    let stop = evidence.stop;
    let report = reduce(&from_schedule(evidence), 1, workload, sla).report;
    let mut verification = Verification {
        rate_per_s: Some(replay.rate_per_s),
        arrivals: replay.source,
        requests: report.requests.sent,
        failed: report.requests.failed,
        warmup_s: replay.warmup.as_secs_f64(),
        duration_s: report.window_s.unwrap_or(0.0),
        in_flight: report.in_flight,
        latency: report.latency,
        dispatch_delay_ms: delays,
        sla: report.sla,
        held: None,
        reason: String::new(),
        requests_file: None,
    };
    let (held, reason) = verdict(&verification, stop, sla);
    verification.held = held;
    verification.reason = format!(
        "{} arrivals at {} requests/s: {reason}{}",
        capitalised(replay.source.name()),
        figure(replay.rate_per_s),
        if replay.cut {
            " --max-time left less time for it than wanted."
        } else {
            ""
        }
    );
    verification
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn verdict(seen: &Verification, stop: StopReason, sla: &Sla) -> (Option<bool>, String) {
    let ended = seen.requests > 0;
    if stop == StopReason::Interrupted {
        return (None, "interrupted before the end.".to_owned());
    }
    if !ended {
        return (None, "none came in the time there was.".to_owned());
    }
    if let Some(reason) = client_limited(seen, sla) {
        return (None, reason);
    }
    let worded = |outcome: &TermOutcome| {
        let observed = match (outcome.observed, outcome.term.metric) {
            (Some(observed), Metric::ErrorRate) => percent(observed),
            (Some(observed), _) => show_ms(observed),
            (None, _) => outcome.note.clone().unwrap_or_else(|| "not known".to_owned()),
        };
        format!("{} ({observed})", outcome.term)
    };
    let of = |pass: Option<bool>| {
        let terms: Vec<String> = seen
            .sla
            .iter()
            .filter(|outcome| outcome.pass == pass)
            .map(worded)
            .collect();
        (!terms.is_empty()).then(|| terms.join(", "))
    };
    if let Some(broken) = of(Some(false)) {
        return (Some(false), format!("the SLA did not hold: {broken}."));
    }
    if let Some(open) = of(None) {
        return (None, format!("it cannot be said whether the SLA held: {open}."));
    }
    let held = of(Some(true)).unwrap_or_else(|| "no term".to_owned());
    (Some(true), format!("the SLA held: {held}."))
}

/// Why the client, not the target, may have been slow. The tightest limit is that of the terms that run from the schedule;
/// where there is none, the mean E2E stands for it.
fn client_limited(seen: &Verification, sla: &Sla) -> Option<String> {
    let delay = seen.dispatch_delay_ms.as_ref()?.p99?;
    let tightest = sla
        .terms
        .iter()
        .filter(|term| matches!(term.metric, Metric::Ttft | Metric::Ttfat | Metric::E2e))
        .map(|term| term.limit)
        .min_by(f64::total_cmp);
    let yardstick = tightest.or(seen.latency.e2e_ms.as_ref()?.mean)?;
    (delay > DELAYED * yardstick).then(|| {
        format!(
            "client-limited, so nothing is said of the target: 1 % of the requests left the client {} or more after they \
             were due, above {} of the tightest limit; use a client with more cores, closer to the target.",
            show_ms(delay),
            percent(DELAYED)
        )
    })
}

/// How long after their scheduled time requests of the window were sent.
fn dispatch_delays(evidence: &Evidence) -> Option<Distribution> {
    let window = evidence.window?;
    let mut due: Vec<_> = evidence
        .requests
        .iter()
        .filter(|record| window.contains(record.scheduled))
        .collect();
    due.sort_by_key(|record| record.scheduled);
    let mut delays = Samples::default();
    for record in due {
        delays.push(to_ms(record.sent.saturating_sub(record.scheduled)), 0);
    }
    distribution(&delays.in_send_order(), 0.0)
}

/// The same evidence with every request sent when it was due: all latencies and the window's choice follow.
fn from_schedule(mut evidence: Evidence) -> Evidence {
    let mut chunks = ChunkLog::default();
    for (at, record) in evidence.requests.iter_mut().enumerate() {
        let late = record.sent.saturating_sub(record.scheduled);
        chunks.push(
            evidence
                .chunks
                .of(at)
                .iter()
                .map(|us| Duration::from_micros(u64::from(*us)) + late),
        );
        record.sent = record.scheduled;
    }
    evidence.chunks = chunks;
    evidence
}

#[cfg(test)]
mod tests;
