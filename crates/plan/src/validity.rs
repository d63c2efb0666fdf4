//! Whether a rung may be believed (METHOD sections 2 and 4), alone and beside the others of its run.

use std::time::Duration;

use plimsoll_run::evidence::{Evidence, StopReason, Window};
use plimsoll_run::request::{FailureClass, RequestRecord};
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::Sla;
use plimsoll_run::validity::{Validity, Verdict};

use crate::distribution::each_gap;
use crate::judge::judge_again;
use crate::reduce::mean;
use crate::steady::halves_differ;
use crate::tokens::{WindowBins, in_window};

/// Delivered and asked levels, and the two sides of Little's law, may differ by this share.
const LOAD_TOLERANCE: f64 = 0.05;
/// More failures than this share make a rung invalid.
const ERROR_SHARE: f64 = 0.10;
/// A gap below this share of the TPOT is none: the chunk had been held back.
const NEAR_ZERO: f64 = 0.10;
/// More such gaps than this share (bursts of four chunks and more) mean that something buffers the stream. Engines
/// that guess ahead (speculative decoding) send two or three tokens at once and stay below it.
const BUFFERED_SHARE: f64 = 0.75;
/// A faster reader than this, seconds a token, does not exist: the reply came in one piece.
const TPOT_LEAST: f64 = 50e-6;
/// A prefix cache hit below this share, or below so many tokens a request, is the chat template that all prompts share.
const CACHE_SHARE: f64 = 0.01;
const CACHE_TOKENS: f64 = 64.0;
/// The server's own count of tokens may differ by this share from the client's where it served nobody else.
const ALL_TRAFFIC: f64 = 0.2;
/// A server that never ran this share of the level, by at least so many readings, at a level of at least so many, was not given it.
const SEEN_SHARE: f64 = 0.6;
const SEEN_SAMPLES: u32 = 4;
const SEEN_LEVEL: u32 = 4;
/// A load thread busier than this is the bottleneck itself.
const CLIENT_CPU: f64 = 0.9;
/// Halves of the window that differ by more than this share, beyond noise, are not one steady state.
const UNSTEADY_SHARE: f64 = 0.05;
/// Fewer response times in the window than this give intervals of low confidence.
const BLOCKS: f64 = 7.0;
/// Reply lengths, and ITL against load, may differ by this share between rungs.
const BETWEEN_RUNGS: f64 = 0.10;

/// Examines one rung. `cold` is whether no two prompts were meant to begin alike. The verdict is the gravest finding; the reasons name all of them, the gravest first.
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
        errors(report),
        restarted(report),
        load(report, &unanswered),
        elsewhere(report),
        client(report),
        buffered(report, evidence, window),
        cold.then(|| cache(report)).flatten(),
        little(report, evidence, window, &unanswered),
        unsteady(evidence, window, &unanswered),
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

/// Whether most requests of a rung failed because nobody was there: connections refused, reset or cut.
#[must_use]
pub fn found_nobody(report: &RungReport) -> bool {
    let requests = &report.requests;
    let cut: u64 = [
        FailureClass::Dns,
        FailureClass::Connect,
        FailureClass::Tls,
        FailureClass::Write,
        FailureClass::Headers,
        FailureClass::Body,
    ]
    .iter()
    .filter_map(|class| requests.by_class.get(class.name()))
    .sum();
    report.validity.verdict == Verdict::Errors && 2 * cut > requests.failed
}

/// The verdict on a rung during which the target went away: it says nothing of the level, for nobody knows whether the load
/// did it. `now` is what happens to whoever tries to reach it.
#[must_use]
pub fn went_away(rung: &Validity, now: &str) -> Validity {
    let mut reasons = vec![format!(
        "The endpoint went away during this rung and has not come back ({now}). Whether the load brought it down is for its \
         log to say; start it again, then `plimsoll resume` goes on with this level."
    )];
    reasons.extend(rung.reasons.iter().cloned());
    Validity {
        verdict: Verdict::ServerRestarted,
        reasons,
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

/// Requests that the server had not answered with a single byte when the rung ended, though others, sent later, were
/// answered long ago: in flight for the client, not for the server.
#[derive(Debug, Default)]
struct Unanswered {
    /// Mean number in the window on connections that never brought a reply.
    never: f64,
    /// Connections of that kind.
    slots: usize,
    /// Mean number in the window on connections that had brought replies before: each a request that got stuck.
    stuck: f64,
}

/// A request that waits for this many times the longest reply is not in a queue.
const OVERDUE: u32 = 3;

impl Unanswered {
    fn of(evidence: &Evidence, window: Window) -> Self {
        let longest = evidence.requests.iter().filter_map(RequestRecord::e2e).max();
        let Some(longest) = longest else {
            return Unanswered::default();
        };
        let mut answered: Vec<u32> = evidence
            .requests
            .iter()
            .filter(|record| record.headers.is_some())
            .map(|record| record.slot)
            .collect();
        answered.sort_unstable();
        let length = window.length().as_secs_f64();
        let mut found = Unanswered::default();
        for record in &evidence.requests {
            let waited = record.ended.saturating_sub(record.sent);
            if record.ok()
                || record.headers.is_some()
                || record.ended < window.closes
                || waited < longest.saturating_mul(OVERDUE)
            {
                continue;
            }
            let inside = window.closes.saturating_sub(record.sent.max(window.opens));
            let mean = inside.as_secs_f64() / length;
            if answered.binary_search(&record.slot).is_ok() {
                found.stuck += mean;
            } else {
                found.never += mean;
                found.slots += 1;
            }
        }
        found
    }

    fn mean(&self) -> f64 {
        self.never + self.stuck
    }
}

fn load(report: &RungReport, unanswered: &Unanswered) -> Option<(Verdict, String)> {
    let level = f64::from(report.concurrency);
    let mean = report.in_flight.mean?;
    if report.in_flight.max.is_some_and(|max| max > report.concurrency) {
        return Some((
            Verdict::LoadNotDelivered,
            format!(
                "Up to {} requests were in flight at level {}; the level was exceeded. This is a fault of the load \
                 generator, report it.",
                report.in_flight.max.unwrap_or(0),
                report.concurrency
            ),
        ));
    }
    if unanswered.never > level * LOAD_TOLERANCE {
        let through = report
            .concurrency
            .saturating_sub(u32::try_from(unanswered.slots).unwrap_or(u32::MAX));
        return Some((
            Verdict::LoadNotDelivered,
            format!(
                "Of {level:.0} connections only {through} were ever answered, the others not once: something before the engine \
                 (a connection limit, a gateway, too few workers) lets no more through. This is no figure of level \
                 {level:.0}; raise that limit, or stay at or below {through}."
            ),
        ));
    }
    (mean < level * (1.0 - LOAD_TOLERANCE)).then(|| {
        (
            Verdict::LoadNotDelivered,
            format!(
                "Only {mean:.1} of {level:.0} requests were in flight on average. The client could not hold the level: \
                 check connection limits between it and the server, or use a stronger client.",
            ),
        )
    })
}

/// The server's counters began anew: part of the rung ran on a server that was starting, or not there.
fn restarted(report: &RungReport) -> Option<(Verdict, String)> {
    report.server.restarted.then(|| {
        (
            Verdict::ServerRestarted,
            "The server's counters began anew in the window: it restarted. Look at its log for the reason, and measure the \
             level again."
                .to_owned(),
        )
    })
}

/// By its own metrics the server never had nearly as many requests as were in flight, and none waited in its queue: they waited
/// before it. Only where it produced what the client received: metrics of one replica out of several say nothing of the level.
/// Few and short requests may well be elsewhere when the metrics are read.
fn elsewhere(report: &RungReport) -> Option<(Verdict, String)> {
    let server = &report.server;
    let level = f64::from(report.concurrency);
    let (running, waiting) = (server.running_max?, server.waiting_max?);
    let theirs = server.output_tokens_per_s?;
    let ours = report.throughput.output_tokens_per_s?;
    let alone = (theirs / ours - 1.0).abs() < ALL_TRAFFIC;
    let few = f64::from(running) < level * SEEN_SHARE;
    (server.samples >= SEEN_SAMPLES && report.concurrency >= SEEN_LEVEL && alone && few && waiting == 0).then(|| {
        (
            Verdict::LoadNotDelivered,
            format!(
                "Of {level:.0} requests in flight the server never ran more than {running} and none waited in its queue: the \
                 others waited before it (a gateway, a connection limit, too few workers). This is no figure of level \
                 {level:.0}; raise that limit, or stay at or below {running}."
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

fn buffered(report: &RungReport, evidence: &Evidence, window: Window) -> Option<(Verdict, String)> {
    report.latency.ttft_ms.as_ref()?;
    let advice = "Something between engine and client buffers the stream: turn off response buffering in the proxy. \
                  TTFT and ITL mean nothing here; throughput and E2E stand.";
    let (mut chunks, mut tokens, mut decode, mut replies) = (0.0, 0.0, 0.0, 0.0);
    for (at, record) in evidence.requests.iter().enumerate() {
        if !record.ok() || !window.contains(record.sent) {
            continue;
        }
        let (Some(first), Some(last), Some(count)) =
            (record.first_token, record.last_token, record.output_tokens)
        else {
            continue;
        };
        if count >= 8 {
            chunks += evidence.chunks.of(at).len() as f64;
            tokens += f64::from(count);
            decode += last.saturating_sub(first).as_secs_f64();
            replies += 1.0;
        }
    }
    if replies < 1.0 || tokens <= replies {
        return None;
    }
    let tpot = decode / (tokens - replies);
    if tpot < TPOT_LEAST {
        return Some((
            Verdict::StreamBuffered,
            format!(
                "First and last token of a reply come together ({:.0} tokens a reply). {advice}",
                tokens / replies
            ),
        ));
    }
    if chunks < 0.5 * tokens {
        return None;
    }
    let near_zero = tpot * NEAR_ZERO * 1e6;
    let (mut short, mut gaps) = (0_u64, 0_u64);
    each_gap(evidence, window, |_, us| {
        gaps += 1;
        short += u64::from(f64::from(us) < near_zero);
    });
    let share = short as f64 / (gaps.max(1)) as f64;
    (gaps >= 20 && share > BUFFERED_SHARE).then(|| {
        (
            Verdict::StreamBuffered,
            format!(
                "{} of the gaps between chunks are near zero, with long pauses between. {advice}",
                percent(share)
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

/// X R = N over all requests sent in the window, failed ones too. The tolerance grows by 1/sqrt(n): the window cuts
/// off requests at both ends.
///
/// Requests that got stuck are time-outs, counted as such; the law is asked of the others.
fn little(
    report: &RungReport,
    evidence: &Evidence,
    window: Window,
    unanswered: &Unanswered,
) -> Option<(Verdict, String)> {
    let in_flight = Some(report.in_flight.mean? - unanswered.mean()).filter(|mean| *mean > 0.0)?;
    let response = mean(
        evidence
            .requests
            .iter()
            .filter(|record| window.contains(record.sent))
            .filter(|record| record.ok() || record.headers.is_some() || record.ended < window.closes)
            // A slot is busy until its request has ended, which may be later than the last token.
            .map(|record| record.ended.saturating_sub(record.sent).as_secs_f64()),
    )?;
    let ended = evidence
        .requests
        .iter()
        .filter(|record| window.contains(record.ended))
        .count() as f64;
    let length = window.length().as_secs_f64();
    // The law needs some responses in the window to show.
    if length < 3.0 * response || ended < 1.0 {
        return None;
    }
    let ratio = ended / length * response / in_flight;
    ((ratio - 1.0).abs() > LOAD_TOLERANCE + 1.0 / ended.sqrt()).then(|| {
        (
            Verdict::Unsteady,
            format!(
                "Throughput times response time is {ratio:.2} of the requests in flight, where Little's law asks for 1: \
                 the system was not in a steady state. Allow a longer warm-up."
            ),
        )
    })
}

fn unsteady(evidence: &Evidence, window: Window, unanswered: &Unanswered) -> Option<(Verdict, String)> {
    const BINS: u32 = 16;
    // A window of three responses or so is too short to have halves; and a slot whose request got stuck is missing from the
    // second.
    if evidence.stop == StopReason::Hopeless || unanswered.stuck > 0.0 {
        return None;
    }
    let bins = in_window(evidence, window, BINS).unwrap_or_else(|| {
        let mut bins = WindowBins::new(window, BINS);
        for record in evidence.requests.iter().filter(|record| record.ok()) {
            bins.add(record.ended, 1.0);
        }
        bins
    });
    // From few endings the halves differ by chance.
    let least = UNSTEADY_SHARE + 1.0 / bins.total.max(1.0).sqrt();
    halves_differ(&bins.rates(), least).then(|| {
        (
            Verdict::Unsteady,
            format!(
                "The halves of the window differ by more than {} in throughput: the server was still warming up, \
                 throttling or shared. Allow a longer warm-up or rung.",
                percent(UNSTEADY_SHARE)
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

/// What the reasons of [`compare`] begin with, by which it finds its own again.
const LENGTHS_REASON: &str = "Replies are ";
const ITL_REASON: &str = "ITL falls from ";

/// Checks across the rungs of a run: replies of one length, and ITL that does not fall as load rises. Rungs that
/// break them get their verdict changed; one that is invalid already keeps it. To be called again whenever a rung
/// has been added: its own earlier verdicts are taken back first.
pub fn compare(rungs: &mut [RungReport]) {
    for rung in rungs.iter_mut() {
        acquit(&mut rung.validity);
    }
    lengths_differ(rungs);
    falling_itl(rungs);
    rungs.iter_mut().for_each(judge_again);
}

/// Takes back what an earlier comparison said.
fn acquit(validity: &mut Validity) {
    let own = |reason: &String| reason.starts_with(LENGTHS_REASON) || reason.starts_with(ITL_REASON);
    let decided = validity.reasons.first().is_some_and(own)
        && matches!(validity.verdict, Verdict::LengthsDiffer | Verdict::StreamBuffered);
    validity.reasons.retain(|reason| !own(reason));
    if decided {
        // It could decide before, so whatever else was said of it is about its samples.
        validity.verdict = if validity.reasons.is_empty() {
            Verdict::Valid
        } else {
            Verdict::TooFewSamples
        };
    }
}

fn condemn(rung: &mut RungReport, verdict: Verdict, reason: String) {
    if rung.validity.may_decide() {
        rung.validity.verdict = verdict;
        rung.validity.reasons.insert(0, reason);
    } else {
        rung.validity.reasons.push(reason);
    }
}

fn lengths_differ(rungs: &mut [RungReport]) {
    // Where lengths are drawn at random, what a rung asked for differs by chance: it is the share of it that came which
    // must be alike.
    let drawn = |rung: &RungReport| rung.lengths.output.asked.filter(|asked| *asked > 0.0);
    let usual = rungs
        .iter()
        .filter_map(drawn)
        .fold((0.0, 0.0), |(sum, n), asked| (sum + asked, n + 1.0));
    let usual = usual.0 / f64::max(usual.1, 1.0);
    let length = |rung: &RungReport| {
        let actual = rung.lengths.output.actual?;
        Some(drawn(rung).map_or(actual, |asked| actual / asked * usual))
    };
    let mut lengths: Vec<f64> = rungs
        .iter()
        .filter(|rung| rung.validity.may_decide())
        .filter_map(length)
        .collect();
    if lengths.len() < 2 {
        return;
    }
    lengths.sort_by(f64::total_cmp);
    let median = lengths[lengths.len() / 2];
    for rung in rungs {
        let Some(actual) = length(rung) else {
            continue;
        };
        if (actual - median).abs() > BETWEEN_RUNGS * median {
            condemn(
                rung,
                Verdict::LengthsDiffer,
                format!(
                    "{LENGTHS_REASON}{actual:.0} tokens long on average, those of the other rungs {median:.0}: the rungs \
                     cannot be compared. Pin the length (ignore_eos or min_tokens)."
                ),
            );
        }
    }
}

/// An engine that decodes more sequences at once takes longer a step. Where ITL falls although the level rises, and
/// the sequences decoding at once (tokens per second times ITL) do not, the stream is held back on its way.
fn falling_itl(rungs: &mut [RungReport]) {
    let seen: Vec<Option<(f64, f64, f64)>> = rungs
        .iter()
        .map(|rung| {
            let itl = rung.latency.itl_ms.as_ref()?.mean?;
            let rate = rung.throughput.output_tokens_per_s?;
            Some((f64::from(rung.concurrency), itl, rate * itl / 1e3))
        })
        .collect();
    for (at, rung) in rungs.iter_mut().enumerate() {
        let Some((level, itl, decoding)) = seen[at] else {
            continue;
        };
        let before = seen.iter().flatten().find(|(lower, slower, occupied)| {
            *lower * 1.5 <= level
                && itl < *slower * (1.0 - BETWEEN_RUNGS)
                && decoding < *occupied * (1.0 + BETWEEN_RUNGS)
        });
        if let Some((lower, slower, _)) = before {
            condemn(
                rung,
                Verdict::StreamBuffered,
                format!(
                    "{ITL_REASON}{slower:.1} ms at {lower:.0} to {itl:.1} ms at {level:.0} although the load rises: \
                     something between engine and client buffers the stream, so TTFT and ITL mean nothing. Turn off \
                     response buffering in the proxy."
                ),
            );
        }
    }
}
