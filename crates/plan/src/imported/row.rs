//! What one row of a table says against itself.

use plimsoll_run::rung::{Distribution, RungReport};
use plimsoll_run::sla::{Sla, Stat};
use plimsoll_run::validity::Verdict;

use crate::wording::{figure, percent};

/// Asked and delivered levels may differ by this share.
const LOAD_TOLERANCE: f64 = 0.05;
/// More failures than this share make a row invalid.
const ERROR_SHARE: f64 = 0.10;
/// Fewer requests than so many for each in flight hardly leave the start and the end of the run.
const REQUESTS_EACH: f64 = 3.0;
/// A faster reader than this, milliseconds a token, does not exist: the replies came in one piece.
const ITL_LEAST_MS: f64 = 0.05;
/// A TTFT of this share of the E2E leaves no time for a reply of so many tokens.
const AT_THE_END: f64 = 0.99;
const TOKENS_LEAST: f64 = 4.0;

/// The number of requests of a row; `None` where the table does not tell (then `sent` is 0, and an error rate stands
/// as parts of a round number).
fn requests(rung: &RungReport) -> Option<f64> {
    (rung.requests.sent > 0).then_some(rung.requests.sent as f64)
}

/// Requests that "succeed" without a token.
pub(super) fn empty(rung: &RungReport) -> bool {
    rung.throughput.output_tokens_per_s == Some(0.0) || rung.lengths.output.actual == Some(0.0)
}

pub(super) fn void(rung: &mut RungReport) {
    let requests = &mut rung.requests;
    let all = (requests.ok + requests.failed).max(1);
    requests.ok = 0;
    requests.failed = all;
    let class = "empty-response".to_owned();
    requests.by_class.insert(class.clone(), all);
    requests
        .samples
        .insert(class, "the table counts replies without a token".to_owned());
}

pub(super) fn errors(rung: &RungReport) -> Option<(Verdict, String)> {
    if empty(rung) {
        return Some((
            Verdict::Errors,
            "Requests ended without a single output token: they count as failed, however fast they were. Look for \
             errors in the server's log, or replies that hold an error message."
                .to_owned(),
        ));
    }
    let share = rung.error_rate()?;
    (share > ERROR_SHARE).then(|| {
        (
            Verdict::Errors,
            format!(
                "{} of the requests failed: what the others saw is no measurement of the level.",
                percent(share)
            ),
        )
    })
}

pub(super) fn too_few_to_hold(rung: &RungReport) -> Option<(Verdict, String)> {
    let (n, level) = (requests(rung)?, f64::from(rung.concurrency));
    (n < level).then(|| {
        (
            Verdict::LoadNotDelivered,
            format!(
                "{n:.0} requests cannot keep {level:.0} in flight. Measure again with at least {:.0} requests.",
                10.0 * level
            ),
        )
    })
}

/// What is left of the level over a run of n requests: the last ones end one after another within a response time,
/// so that level/2 of them miss on average.
fn delivered_share(rung: &RungReport) -> f64 {
    requests(rung).map_or(1.0, |n| 1.0 / (1.0 + f64::from(rung.concurrency) / (2.0 * n)))
}

pub(super) fn in_flight(rung: &RungReport) -> Option<(Verdict, String)> {
    let (mean, level) = (rung.in_flight.mean?, f64::from(rung.concurrency));
    let least = delivered_share(rung) * (1.0 - LOAD_TOLERANCE);
    (mean < least * level).then(|| {
        (
            Verdict::LoadNotDelivered,
            format!(
                "Only {} of {level:.0} requests were in flight on average, by the table's own figure: the client did not \
                 hold the level.",
                figure(mean)
            ),
        )
    })
}

/// Mean response time, milliseconds, by the table or from its parts.
pub(super) fn response(rung: &RungReport) -> Option<f64> {
    let mean = |distribution: &Option<Distribution>| distribution.as_ref()?.mean;
    mean(&rung.latency.e2e_ms).or_else(|| {
        let tokens = rung.lengths.output.actual?;
        Some(mean(&rung.latency.ttft_ms)? + mean(&rung.latency.tpot_ms)? * (tokens - 1.0).max(0.0))
    })
}

/// X R = N, with the shortfall that the end of a run of n requests explains, and failed requests, whose time the
/// table does not tell.
pub(super) fn little(rung: &RungReport) -> Option<(Verdict, String)> {
    let level = f64::from(rung.concurrency);
    let held = rung.throughput.requests_per_s.filter(|rate| *rate > 0.0)? * response(rung)? / 1e3;
    let least = delivered_share(rung) * (1.0 - LOAD_TOLERANCE) * (1.0 - rung.error_rate().unwrap_or(0.0));
    let ratio = held / level;
    let why = if ratio < least {
        "the level was not held: too few requests, a limit on rate or connections in the client, or a client that \
         could not keep up"
    } else if ratio > 1.0 + LOAD_TOLERANCE {
        "the row contradicts itself: other units, or figures of different runs"
    } else {
        return None;
    };
    Some((
        Verdict::LoadNotDelivered,
        format!(
            "By Little's law {} requests were in flight where {level:.0} were asked for (requests/s times mean E2E): \
             {why}.",
            figure(held)
        ),
    ))
}

pub(super) fn in_one_piece(rung: &RungReport) -> Option<(Verdict, String)> {
    at_the_end(rung).or_else(|| no_gaps(rung))
}

/// The first token comes when the reply is over. A queue in which requests wait a hundred times as long as they take to
/// decode would look the same.
fn at_the_end(rung: &RungReport) -> Option<(Verdict, String)> {
    let (ttft, e2e) = (rung.latency.ttft_ms.as_ref()?, rung.latency.e2e_ms.as_ref()?);
    let (first, whole) = [Stat::Mean, Stat::P50, Stat::P95, Stat::P90, Stat::P99]
        .into_iter()
        .find_map(|stat| Some((ttft.stat(stat)?, e2e.stat(stat).filter(|whole| *whole > 0.0)?)))?;
    let one_token = rung
        .lengths
        .output
        .actual
        .is_some_and(|tokens| tokens < TOKENS_LEAST);
    (first >= AT_THE_END * whole && !one_token).then(|| {
        (
            Verdict::StreamBuffered,
            format!(
                "TTFT is {} ms of an E2E of {} ms: the first token came with the last, so that the reply was not streamed, or \
                 something between engine and client buffers the stream; TTFT and ITL mean nothing.",
                figure(first),
                figure(whole)
            ),
        )
    })
}

fn no_gaps(rung: &RungReport) -> Option<(Verdict, String)> {
    let itl = rung.latency.itl_ms.as_ref()?.mean?;
    (itl < ITL_LEAST_MS && rung.latency.ttft_ms.is_some()).then(|| {
        (
            Verdict::StreamBuffered,
            format!(
                "A mean ITL of {} ms is none: first and last token of a reply came together, so something between \
                 engine and client buffers the stream, and TTFT and ITL mean nothing.",
                figure(itl)
            ),
        )
    })
}

pub(super) fn samples(rung: &RungReport, sla: &Sla) -> Option<(Verdict, String)> {
    let (n, level) = (requests(rung)?, f64::from(rung.concurrency));
    if n < level {
        return None; // Said already.
    }
    if n < REQUESTS_EACH * level {
        return Some((
            Verdict::TooFewSamples,
            format!(
                "{n:.0} requests for {level:.0} in flight are little more than the start and the end of the run: low \
                 confidence."
            ),
        ));
    }
    let percentiles = sla
        .terms
        .iter()
        .any(|term| term.stat.is_some_and(|stat| stat.quantile().is_some()));
    let wanted = sla.samples_wanted();
    // Where the table says nothing of errors, the requests are taken to have succeeded.
    let ok = rung.requests.sent.saturating_sub(rung.requests.failed);
    (percentiles && ok < wanted).then(|| {
        (
            Verdict::TooFewSamples,
            format!("{ok} of {wanted} samples: low confidence in the percentiles of the SLA."),
        )
    })
}
