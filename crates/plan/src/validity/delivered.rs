//! Whether the level was held, and held in a steady state.

use plimsoll_run::evidence::{Evidence, StopReason, Window};
use plimsoll_run::request::RequestRecord;
use plimsoll_run::rung::RungReport;
use plimsoll_run::validity::Verdict;

use super::percent;
use crate::reduce::mean;
use crate::steady::halves_differ;
use crate::tokens::{WindowBins, in_window};

/// Delivered and asked levels, and the two sides of Little's law, may differ by this share.
const LOAD_TOLERANCE: f64 = 0.05;
/// Halves of the window that differ by more than this share, beyond noise, are not one steady state.
const UNSTEADY_SHARE: f64 = 0.05;

/// Requests that the server had not answered with a single byte when the rung ended, though others, sent later, were
/// answered long ago: in flight for the client, not for the server.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
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
    pub(super) fn of(evidence: &Evidence, window: Window) -> Self {
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

pub(super) fn load(report: &RungReport, unanswered: &Unanswered) -> Option<(Verdict, String)> {
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

/// X R = N over all requests sent in the window, failed ones too. The tolerance grows by 1/sqrt(n): the window cuts
/// off requests at both ends.
///
/// Requests that got stuck are time-outs, counted as such; the law is asked of the others.
pub(super) fn little(
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

/// Mean number of slots, in each of so many bins of the window, that wait for a request which fails after [`OVERDUE`] times
/// the longest reply.
fn stuck_slots(evidence: &Evidence, window: Window, bins: u32) -> Vec<f64> {
    let width = window.length().as_secs_f64() / f64::from(bins);
    let mut slots = vec![0.0; bins as usize];
    let Some(longest) = evidence.requests.iter().filter_map(RequestRecord::e2e).max() else {
        return slots;
    };
    for record in evidence.requests.iter().filter(|record| !record.ok()) {
        if record.ended.saturating_sub(record.sent) < longest.saturating_mul(OVERDUE) {
            continue;
        }
        for (bin, slots) in slots.iter_mut().enumerate() {
            let from = window.opens.as_secs_f64() + width * bin as f64;
            let inside = record.ended.as_secs_f64().min(from + width) - record.sent.as_secs_f64().max(from);
            *slots += inside.max(0.0) / width;
        }
    }
    slots
}

pub(super) fn unsteady(
    report: &RungReport,
    evidence: &Evidence,
    window: Window,
) -> Option<(Verdict, String)> {
    const BINS: u32 = 16;
    // A window of three responses or so is too short to have halves.
    if evidence.stop == StopReason::Hopeless {
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
    // A slot whose request got stuck serves nobody for that time: its share of the bin is no change of the server's pace.
    let level = f64::from(report.concurrency);
    let rates: Vec<f64> = bins
        .rates()
        .iter()
        .zip(stuck_slots(evidence, window, BINS))
        .map(|(rate, stuck)| rate * level / (level - stuck).max(1.0))
        .collect();
    halves_differ(&rates, least).then(|| {
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
