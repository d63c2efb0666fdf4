//! The rungs of a run beside each other.

use plimsoll_run::rung::RungReport;
use plimsoll_run::validity::{Validity, Verdict};

use crate::judge::judge_again;

/// Reply lengths, and ITL against load, may differ by this share between rungs.
const BETWEEN_RUNGS: f64 = 0.10;
/// With the engine must be this share of the level.
const INSIDE_SHARE: f64 = 0.75;
/// Outside of it a request may spend so many times what it does at the lowest level, and this many seconds in any case.
const OUTSIDE_TIMES: f64 = 3.0;
const OUTSIDE_LEAST_S: f64 = 0.05;
/// Where there is no lower level to compare with, this many seconds are beyond any network.
const OUTSIDE_ALONE_S: f64 = 0.3;
/// Fewer readings of the engine's count than this tell nothing, nor do so few requests.
const OUTSIDE_SAMPLES: u32 = 4;
const OUTSIDE_LEVEL: u32 = 4;
/// The engine's count of tokens may differ from ours by this share.
const OUTSIDE_RATE: f64 = 0.2;

/// What the reasons of [`compare`] begin with, by which it finds its own again.
const OUTSIDE_REASON: &str = "Of the requests in flight, ";
const LENGTHS_REASON: &str = "Replies are ";
const ITL_REASON: &str = "ITL falls from ";

/// Checks across the rungs of a run: requests that reach the engine, replies of one length, and ITL that does not fall as load
/// rises. Rungs that break them get their verdict changed; one that is invalid already keeps it. To be called again whenever a
/// rung has been added: its own earlier verdicts are taken back first.
pub fn compare(rungs: &mut [RungReport]) {
    for rung in rungs.iter_mut() {
        acquit(&mut rung.validity);
    }
    waiting_outside(rungs);
    lengths_differ(rungs);
    falling_itl(rungs);
    rungs.iter_mut().for_each(judge_again);
}

/// Takes back what an earlier comparison said.
fn acquit(validity: &mut Validity) {
    let own = |reason: &String| {
        [OUTSIDE_REASON, LENGTHS_REASON, ITL_REASON]
            .iter()
            .any(|begins| reason.starts_with(begins))
    };
    let decided = validity.reasons.first().is_some_and(own)
        && matches!(
            validity.verdict,
            Verdict::LoadNotDelivered | Verdict::LengthsDiffer | Verdict::StreamBuffered
        );
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

/// The requests in flight that the engine knows of (running or waiting there) against those that the client holds open: the
/// others wait before the engine, where nobody counts them. Some always do, on the network for instance, so the time that a
/// request spends there is compared with that at the lowest level.
fn waiting_outside(rungs: &mut [RungReport]) {
    let lowest = rungs
        .iter()
        .filter_map(|rung| Some((rung.concurrency, outside(rung)?.seconds)))
        .min_by_key(|(level, _)| *level);
    for rung in rungs {
        let Some(seen) = outside(rung) else { continue };
        let usual = match lowest {
            Some((level, seconds)) if level < rung.concurrency => {
                (OUTSIDE_TIMES * seconds).max(OUTSIDE_LEAST_S)
            }
            _ => OUTSIDE_ALONE_S,
        };
        if seen.inside < INSIDE_SHARE * f64::from(rung.concurrency) && seen.seconds > usual {
            condemn(
                rung,
                Verdict::LoadNotDelivered,
                format!(
                    "{OUTSIDE_REASON}{:.0} at most were with the engine at once by its own count; the others waited before it, {:.1} s \
                     each: a connection limit, a gateway or too few workers lets no more through. This is no figure of level \
                     {}; raise that limit.",
                    seen.inside, seen.seconds, rung.concurrency
                ),
            );
        }
    }
}

/// What waits before the engine.
struct Outside {
    /// Most requests that the engine ran and queued.
    inside: f64,
    /// Seconds that a request spends elsewhere, by Little's law.
    seconds: f64,
}

/// `None` where the engine does not say, was read too seldom, or serves others too (or is one of several that share the
/// load): then its count is not that of our requests.
fn outside(rung: &RungReport) -> Option<Outside> {
    let server = &rung.server;
    let (ours, its) = (rung.throughput.output_tokens_per_s?, server.output_tokens_per_s?);
    if rung.concurrency < OUTSIDE_LEVEL
        || server.samples < OUTSIDE_SAMPLES
        || (its - ours).abs() > OUTSIDE_RATE * ours
    {
        return None;
    }
    let inside = f64::from(server.running_max?) + f64::from(server.waiting_max.unwrap_or(0));
    let rate = rung.throughput.requests_per_s.filter(|rate| *rate > 0.0)?;
    let held = rung.in_flight.mean?;
    Some(Outside {
        inside,
        seconds: (held - inside).max(0.0) / rate,
    })
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

/// How fast a rung's replies came in, by every account there is of it.
struct Pace {
    level: f64,
    /// Mean ITL, milliseconds.
    itl: f64,
    /// Median ITL and median TPOT, milliseconds: unlike a mean they do not move with a few long pauses of a busy machine.
    medians: [Option<f64>; 2],
    /// Sequences decoding at once.
    decoding: f64,
}

impl Pace {
    fn of(rung: &RungReport) -> Option<Pace> {
        let latency = &rung.latency;
        let itl = latency.itl_ms.as_ref()?;
        let mean = itl.mean?;
        Some(Pace {
            level: f64::from(rung.concurrency),
            itl: mean,
            medians: [itl.p50, latency.tpot_ms.as_ref().and_then(|tpot| tpot.p50)],
            decoding: rung.throughput.output_tokens_per_s? * mean / 1e3,
        })
    }

    /// Whether replies come in faster than at this lower level although no more are being decoded.
    fn belies(&self, lower: &Pace) -> bool {
        let falls = |here: f64, there: f64| here < there * (1.0 - BETWEEN_RUNGS);
        let medians = self.medians.iter().zip(lower.medians);
        lower.level * 1.5 <= self.level
            && falls(self.itl, lower.itl)
            && medians
                .filter_map(|(here, there)| here.zip(there))
                .all(|(here, there)| falls(here, there))
            && self.decoding < lower.decoding * (1.0 + BETWEEN_RUNGS)
    }
}

/// An engine that decodes more sequences at once takes longer a step. Where ITL falls although the level rises, and
/// the sequences decoding at once (tokens per second times ITL) do not, the stream is held back on its way.
fn falling_itl(rungs: &mut [RungReport]) {
    let paces: Vec<Option<Pace>> = rungs.iter().map(Pace::of).collect();
    for (at, rung) in rungs.iter_mut().enumerate() {
        let Some(pace) = &paces[at] else { continue };
        if let Some(lower) = paces.iter().flatten().find(|lower| pace.belies(lower)) {
            condemn(
                rung,
                Verdict::StreamBuffered,
                format!(
                    "{ITL_REASON}{:.1} ms at {:.0} to {:.1} ms at {:.0} although the load rises: something between engine and \
                     client buffers the stream, so TTFT and ITL mean nothing. Turn off response buffering in the proxy.",
                    lower.itl, lower.level, pace.itl, pace.level
                ),
            );
        }
    }
}
