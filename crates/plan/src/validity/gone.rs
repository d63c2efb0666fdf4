//! Targets that go away: for good, or to come back restarted.

use std::time::Duration;

use plimsoll_run::evidence::{Evidence, Window};
use plimsoll_run::request::{FailureClass, RequestRecord};
use plimsoll_run::rung::RungReport;
use plimsoll_run::validity::{Validity, Verdict};

/// How a request fails when nobody is there.
const CUT: [FailureClass; 6] = [
    FailureClass::Dns,
    FailureClass::Connect,
    FailureClass::Tls,
    FailureClass::Write,
    FailureClass::Headers,
    FailureClass::Body,
];
/// So many refused connections in a row, and this share of all that were refused, are an outage. Where a server takes only so
/// many connections, requests that succeed stand between those refused.
const IN_A_ROW: usize = 5;
const SHARE: f64 = 0.8;

/// Whether most failures of a rung say that nobody was there: connections refused, reset or cut.
#[must_use]
pub fn found_nobody(report: &RungReport) -> bool {
    let requests = &report.requests;
    let cut: u64 = CUT
        .iter()
        .filter_map(|class| requests.by_class.get(class.name()))
        .sum();
    matches!(
        report.validity.verdict,
        Verdict::Errors | Verdict::ServerRestarted
    ) && 2 * cut > requests.failed
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

/// The target was gone for a part of the rung that reaches into the window.
pub(super) fn restarted(evidence: &Evidence, window: Window) -> Option<(Verdict, String)> {
    let advice = "Whether the load brought it down is for its log to say. This rung says nothing of the level: run it again.";
    if let Some((from, back)) = outage(evidence).filter(|(from, _)| *from < window.closes) {
        let until = back.map_or_else(
            || "and was not back when the rung ended".to_owned(),
            |back| {
                format!(
                    "and was back after {:.1} s",
                    back.saturating_sub(from).as_secs_f64()
                )
            },
        );
        return Some((
            Verdict::ServerRestarted,
            format!(
                "The endpoint went away {:.1} s into the rung, {until}. {advice}",
                from.as_secs_f64()
            ),
        ));
    }
    evidence.server.restarted.then(|| {
        (
            Verdict::ServerRestarted,
            format!("The server's own counters began anew during the rung: it restarted. {advice}"),
        )
    })
}

/// From when on connections were refused, and when the next request got through, since the rung's start.
fn outage(evidence: &Evidence) -> Option<(Duration, Option<Duration>)> {
    let of = |record: &RequestRecord, classes: &[FailureClass]| {
        record
            .failure
            .as_ref()
            .is_some_and(|failure| classes.contains(&failure.class))
    };
    let refused = |record: &&RequestRecord| of(record, &[FailureClass::Connect, FailureClass::Dns]);
    let mut records: Vec<&RequestRecord> = evidence.requests.iter().collect();
    records.sort_by_key(|record| record.sent);
    // The longest row in the order of sending, as its first and the one after its last.
    let (mut longest, mut first) = (0..0, 0);
    for at in 0..=records.len() {
        if records.get(at).is_none_or(|record| !of(record, &CUT)) {
            if at - first > longest.len() {
                longest = first..at;
            }
            first = at + 1;
        }
    }
    let all = records.iter().filter(|record| refused(record)).count();
    let row = &records[longest.clone()];
    let from = row.iter().find(|record| refused(record))?.sent;
    let in_row = row.iter().filter(|record| refused(record)).count();
    (in_row >= IN_A_ROW && in_row as f64 >= SHARE * all as f64)
        .then(|| (from, records.get(longest.end).map(|record| record.sent)))
}
