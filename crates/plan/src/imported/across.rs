//! What the rows of a table say against each other.

use plimsoll_run::rung::{Distribution, RungReport};
use plimsoll_run::sla::{Metric, Sla};
use plimsoll_run::validity::Verdict;

use super::{Refused, usable};
use crate::levels::{curve, levels};
use crate::outlier::outlier;
use crate::wording::figure;

/// Two levels this far apart, with throughputs and latencies this close together, had the same load.
const FLAT_LEVELS: f64 = 1.5;
const FLAT_RATE: f64 = 0.03;
const FLAT_LATENCY: f64 = 0.05;

fn condemn(rung: &mut RungReport, verdict: Verdict, reason: String) {
    if rung.validity.may_decide() {
        rung.validity.verdict = verdict;
        rung.validity.reasons.insert(0, reason);
    } else {
        rung.validity.reasons.push(reason);
    }
}

fn close(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * a.max(b)
}

fn rate(rung: &RungReport) -> Option<f64> {
    rung.throughput
        .output_tokens_per_s
        .or(rung.throughput.requests_per_s)
        .filter(|rate| *rate > 0.0)
}

/// In a closed loop N = X R: where N rises, throughput or response time must. A row that repeats both of a lower level
/// had that level's load, whatever it is called.
pub(super) fn same_load(rungs: &mut [RungReport]) {
    let repeats = |rung: &RungReport, lower: &RungReport| {
        let pairs = |a: &Option<Distribution>, b: &Option<Distribution>| {
            let (Some(a), Some(b)) = (a, b) else {
                return Vec::new();
            };
            [(a.mean, b.mean), (a.p50, b.p50), (a.p90, b.p90), (a.p95, b.p95)]
                .into_iter()
                .filter_map(|(a, b)| Some((a?, b?)))
                .collect::<Vec<_>>()
        };
        let (latency, other) = (&rung.latency, &lower.latency);
        let e2e = pairs(&latency.e2e_ms, &other.e2e_ms);
        let ttft = pairs(&latency.ttft_ms, &other.ttft_ms);
        let itl = pairs(&latency.itl_ms, &other.itl_ms);
        // Without E2E, TTFT and ITL together tell that it did not rise.
        let tells = !e2e.is_empty() || (!ttft.is_empty() && !itl.is_empty());
        tells
            && f64::from(rung.concurrency) >= FLAT_LEVELS * f64::from(lower.concurrency)
            && rate(rung)
                .zip(rate(lower))
                .is_some_and(|(a, b)| close(a, b, FLAT_RATE))
            && e2e
                .iter()
                .chain(&ttft)
                .chain(&itl)
                .all(|(a, b)| close(*a, *b, FLAT_LATENCY))
    };
    for at in 0..rungs.len() {
        let lower = rungs
            .iter()
            .find(|lower| repeats(&rungs[at], lower))
            .map(|lower| lower.concurrency);
        if let Some(lower) = lower {
            let rung = &mut rungs[at];
            let times = f64::from(rung.concurrency) / f64::from(lower.max(1));
            let reason = format!(
                "Throughput and latency are those of {lower} in flight; with {} times the requests in flight one of them \
                 must rise. The load was not delivered: too few requests, or a limit on rate or connections in the \
                 client.",
                figure(times)
            );
            condemn(rung, Verdict::LoadNotDelivered, reason);
        }
    }
}

/// What buffers the stream stands in the path of every level: where more than one row shows it, or a third of them,
/// the others are not to be believed either.
pub(super) fn buffered(rungs: &mut [RungReport], refused: &mut Refused) {
    const STREAM: [Metric; 4] = [Metric::Ttft, Metric::Ttfat, Metric::Tpot, Metric::Itl];
    let shows = rungs
        .iter()
        .filter(|rung| rung.validity.verdict == Verdict::StreamBuffered)
        .count();
    let everywhere = shows >= 2 || (shows > 0 && 3 * shows >= rungs.len());
    for (rung, refused) in rungs.iter_mut().zip(refused.iter_mut()) {
        if everywhere && rung.validity.may_decide() {
            condemn(
                rung,
                Verdict::StreamBuffered,
                "Other levels of the table show that something between engine and client buffers the stream; it stood in \
                 the path of this one too, so its TTFT and ITL mean nothing."
                    .to_owned(),
            );
        }
        if rung.validity.verdict == Verdict::StreamBuffered {
            refused.extend(STREAM);
        }
    }
}

/// A TTFT that leaps although throughput still grows, and then stays while the load rises, is no queue: a queue would
/// grow by 1/X for each further request. Something went on once (warm-up, compilation, loading).
pub(super) fn waiting_without_queue(rungs: &mut [RungReport], refused: &mut Refused) {
    const LEAP: f64 = 5.0;
    let mut rows: Vec<(usize, f64, f64, f64)> = rungs
        .iter()
        .enumerate()
        .filter(|(_, rung)| rung.validity.may_decide())
        .filter_map(|(at, rung)| {
            let ttft = rung.latency.ttft_ms.as_ref()?;
            let ttft = ttft.mean.or(ttft.p50).filter(|ttft| *ttft > 0.0)?;
            Some((at, f64::from(rung.concurrency), ttft, rate(rung)?))
        })
        .collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    let leap = rows.windows(3).position(|rows| {
        let [(_, _, before, _), (_, level, ttft, x), (_, above, after, more)] = [rows[0], rows[1], rows[2]];
        ttft > LEAP * before && after < 1.1 * ttft && more > 1.3 * x && above >= FLAT_LEVELS * level
    });
    let Some(before) = leap.and_then(|at| rows.get(at)).copied() else {
        return;
    };
    for (at, ..) in rows
        .iter()
        .filter(|row| row.1 > before.1 && row.2 > LEAP * before.2)
    {
        condemn(
            &mut rungs[*at],
            Verdict::Unsteady,
            format!(
                "TTFT leaps from {} ms at {} and then stays although throughput goes on growing: that is no queue, but \
                 something that happened once (warm-up, compilation). TTFT and E2E mean nothing here. Measure again \
                 after a warm-up.",
                figure(before.2),
                figure(before.1)
            ),
        );
        refused[*at].extend([Metric::Ttft, Metric::Ttfat, Metric::E2e]);
    }
}

/// Rows far off what their neighbours agree on decide nothing. Without one, a row beside it may look like another:
/// of neighbours only the first is taken.
pub(super) fn outliers(rungs: &mut [RungReport], refused: &mut Refused) {
    let mut order: Vec<u32> = rungs.iter().map(|rung| rung.concurrency).collect();
    order.sort_unstable();
    order.dedup();
    let place = |level: u32| order.iter().position(|other| *other == level).unwrap_or(0);
    let mut found: Vec<usize> = Vec::new();
    while found.len() < order.len() / 3 {
        let usable = usable(rungs, refused);
        let Some(odd) = outlier(&curve(&levels(&usable, &Sla::default()))) else {
            return;
        };
        let level = odd.level;
        if found.iter().any(|other| other.abs_diff(place(level)) <= 1) {
            return;
        }
        found.push(place(level));
        for (rung, refused) in rungs.iter_mut().zip(refused.iter_mut()) {
            if rung.concurrency == level {
                let reason = format!(
                    "Throughput lies far {} what the levels beside it agree on: something disturbed this row. Measure it \
                     again.",
                    odd.side()
                );
                condemn(rung, Verdict::Unsteady, reason);
                refused.clear();
            }
        }
    }
}
