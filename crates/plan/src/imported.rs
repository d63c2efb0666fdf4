//! Tables that someone else measured: what a run of our own would have shown in its evidence must be read off the
//! rows themselves (METHOD sections 2 and 4).
//!
//! [`examine_table`] gives the rungs their verdicts and says which metrics may not be used; [`answer_table`] answers
//! from what is left; [`unchecked`] names what the table leaves open.

use plimsoll_run::answer::{LimitStatus, Plan};
use plimsoll_run::rung::{Distribution, RungReport};
use plimsoll_run::sla::{Metric, Sla};
use plimsoll_run::validity::{Validity, Verdict};

use crate::answer::{Demand, answer};
use crate::judge::judge;
use crate::levels::{curve, levels, outlier};
use crate::validity::compare;
use crate::wording::{figure, percent};

/// Asked and delivered levels may differ by this share.
const LOAD_TOLERANCE: f64 = 0.05;
/// More failures than this share make a row invalid.
const ERROR_SHARE: f64 = 0.10;
/// Fewer requests than so many for each in flight hardly leave the start and the end of the run.
const REQUESTS_EACH: f64 = 3.0;
/// A faster reader than this, milliseconds a token, does not exist: the replies came in one piece.
const ITL_LEAST_MS: f64 = 0.05;
/// Two levels this far apart, with throughputs and latencies this close together, had the same load.
const FLAT_LEVELS: f64 = 1.5;
const FLAT_RATE: f64 = 0.03;
const FLAT_LATENCY: f64 = 0.05;

/// What may not be used of each rung although its throughput counts; in the order of the rungs.
pub type Refused = Vec<Vec<Metric>>;

/// Gives the rungs of an imported table their verdicts. `counted[i]` says that the requests per second of rung `i`
/// were counted, not computed from the latency: only then does Little's law tell anything. `sla` says which
/// percentiles matter.
pub fn examine_table(rungs: &mut [RungReport], counted: &[bool], sla: &Sla) -> Refused {
    for (at, rung) in rungs.iter_mut().enumerate() {
        let counted = counted.get(at).copied().unwrap_or(false);
        if empty(rung) {
            void(rung);
        }
        let findings: Vec<(Verdict, String)> = [
            errors(rung),
            too_few_to_hold(rung),
            in_flight(rung),
            little(rung).filter(|_| counted),
            in_one_piece(rung),
            samples(rung, sla),
        ]
        .into_iter()
        .flatten()
        .collect();
        // A verdict that the table brings along stands.
        if rung.validity.verdict == Verdict::Valid
            && let Some((verdict, _)) = findings.first()
        {
            rung.validity = Validity {
                verdict: *verdict,
                reasons: findings.iter().map(|(_, reason)| reason.clone()).collect(),
            };
        }
    }
    same_load(rungs);
    compare(rungs);
    let mut refused: Refused = vec![Vec::new(); rungs.len()];
    buffered(rungs, &mut refused);
    waiting_without_queue(rungs, &mut refused);
    outliers(rungs, &mut refused);
    refused
}

fn condemn(rung: &mut RungReport, verdict: Verdict, reason: String) {
    if rung.validity.may_decide() {
        rung.validity.verdict = verdict;
        rung.validity.reasons.insert(0, reason);
    } else {
        rung.validity.reasons.push(reason);
    }
}

/// The number of requests of a row; `None` where the table does not tell (then `sent` is 0, and an error rate stands
/// as parts of a round number).
fn requests(rung: &RungReport) -> Option<f64> {
    (rung.requests.sent > 0).then_some(rung.requests.sent as f64)
}

/// Requests that "succeed" without a token.
fn empty(rung: &RungReport) -> bool {
    rung.throughput.output_tokens_per_s == Some(0.0) || rung.lengths.output.actual == Some(0.0)
}

fn void(rung: &mut RungReport) {
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

fn errors(rung: &RungReport) -> Option<(Verdict, String)> {
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

fn too_few_to_hold(rung: &RungReport) -> Option<(Verdict, String)> {
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

fn in_flight(rung: &RungReport) -> Option<(Verdict, String)> {
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
fn response(rung: &RungReport) -> Option<f64> {
    let mean = |distribution: &Option<Distribution>| distribution.as_ref()?.mean;
    mean(&rung.latency.e2e_ms).or_else(|| {
        let tokens = rung.lengths.output.actual?;
        Some(mean(&rung.latency.ttft_ms)? + mean(&rung.latency.tpot_ms)? * (tokens - 1.0).max(0.0))
    })
}

/// X R = N, with the shortfall that the end of a run of n requests explains, and failed requests, whose time the
/// table does not tell.
fn little(rung: &RungReport) -> Option<(Verdict, String)> {
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

fn in_one_piece(rung: &RungReport) -> Option<(Verdict, String)> {
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

fn samples(rung: &RungReport, sla: &Sla) -> Option<(Verdict, String)> {
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
fn same_load(rungs: &mut [RungReport]) {
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
fn buffered(rungs: &mut [RungReport], refused: &mut Refused) {
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
fn waiting_without_queue(rungs: &mut [RungReport], refused: &mut Refused) {
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

/// Rows far below what their neighbours agree on decide nothing. Without one, a row beside it may look like another:
/// of neighbours only the first is taken.
fn outliers(rungs: &mut [RungReport], refused: &mut Refused) {
    let mut order: Vec<u32> = rungs.iter().map(|rung| rung.concurrency).collect();
    order.sort_unstable();
    order.dedup();
    let place = |level: u32| order.iter().position(|other| *other == level).unwrap_or(0);
    let mut found: Vec<usize> = Vec::new();
    while found.len() < order.len() / 3 {
        let usable = usable(rungs, refused);
        let Some(level) = outlier(&curve(&levels(&usable, &Sla::default()))) else {
            return;
        };
        if found.iter().any(|other| other.abs_diff(place(level)) <= 1) {
            return;
        }
        found.push(place(level));
        for (rung, refused) in rungs.iter_mut().zip(refused.iter_mut()) {
            if rung.concurrency == level {
                let reason = "Throughput lies far below what the levels beside it agree on: something disturbed this row. \
                              Measure it again.";
                condemn(rung, Verdict::Unsteady, reason.to_owned());
                refused.clear();
            }
        }
    }
}

/// The rungs as they may be used: without the metrics refused, and then believable.
fn usable(rungs: &[RungReport], refused: &Refused) -> Vec<RungReport> {
    let mut usable = rungs.to_vec();
    for (rung, refused) in usable.iter_mut().zip(refused) {
        if refused.is_empty() || !matches!(rung.validity.verdict, Verdict::StreamBuffered | Verdict::Unsteady)
        {
            continue;
        }
        rung.validity.verdict = Verdict::TooFewSamples;
        let latency = &mut rung.latency;
        for metric in refused {
            match metric {
                Metric::Ttft => latency.ttft_ms = None,
                Metric::Ttfat => latency.ttfat_ms = None,
                Metric::Tpot => latency.tpot_ms = None,
                Metric::Itl => latency.itl_ms = None,
                Metric::E2e => latency.e2e_ms = None,
                Metric::ErrorRate => {}
            }
        }
    }
    usable
}

/// Whether anything in the table may be relied upon.
#[must_use]
pub fn trustworthy(rungs: &[RungReport], refused: &Refused) -> bool {
    usable(rungs, refused)
        .iter()
        .any(|rung| rung.validity.may_decide())
}

/// Judges the rungs against the SLA and answers from what may be used of them.
///
/// A term that no row can evaluate is left out, with a warning: the best concurrency is then that of the other terms, or
/// by throughput alone; a limit and a number of instances are not given unless a term remains.
#[must_use]
pub fn answer_table(rungs: &mut [RungReport], refused: &Refused, sla: &Sla, demand: &Demand) -> Plan {
    let usable = usable(rungs, refused);
    let (mut asked, mut warnings) = (Sla::default(), Vec::new());
    for term in &sla.terms {
        let alone = Sla { terms: vec![*term] };
        let evaluated = usable.iter().any(|rung| {
            judge(rung, &alone)
                .iter()
                .any(|outcome| outcome.term == *term && outcome.pass.is_some())
        });
        if evaluated {
            asked.terms.push(*term);
        } else {
            let has = statistics(&usable, term.metric);
            let instead = if has.is_empty() {
                String::new()
            } else {
                format!(" (the table has {})", has.join(", "))
            };
            warnings.push(format!(
                "{} could be evaluated at no level{instead}: it is left out of the answer.",
                term.subject()
            ));
        }
    }
    let mut plan = answer(&usable, &asked, demand);
    let left_out = !sla.terms.is_empty() && asked.terms.is_empty();
    let silent = usable.iter().all(|rung| rung.error_rate().is_none());
    if asked.terms.is_empty()
        && (left_out || silent)
        && plan
            .limit
            .as_ref()
            .is_some_and(|limit| limit.status == LimitStatus::NotReached)
    {
        plan.limit = None;
    }
    if left_out {
        plan.instances = None;
        plan.cost = None;
    }
    for (name, what) in [
        (Verdict::StreamBuffered, "TTFT, TPOT and ITL"),
        (Verdict::Unsteady, "TTFT and E2E"),
    ] {
        let at: Vec<String> = rungs
            .iter()
            .zip(refused)
            .filter(|(rung, refused)| rung.validity.verdict == name && !refused.is_empty())
            .map(|(rung, _)| rung.concurrency.to_string())
            .collect();
        if !at.is_empty() {
            warnings.push(format!(
                "{what} are not used at {} ({}); throughput is.",
                at.join(", "),
                name.name()
            ));
        }
    }
    // Nobody sweeps here, so that no flag of a sweep would help.
    warnings.extend(
        plan.warnings
            .iter()
            .map(|warning| warning.replace("a higher --max", "a higher level")),
    );
    plan.warnings = warnings;
    for (rung, usable) in rungs.iter_mut().zip(&usable) {
        rung.sla = judge(usable, sla);
    }
    plan
}

/// Which statistics of a metric some row has, as they are written in a term.
fn statistics(rungs: &[RungReport], metric: Metric) -> Vec<String> {
    plimsoll_run::sla::Stat::NAMES
        .iter()
        .filter(|(_, stat)| {
            rungs.iter().any(|rung| {
                rung.latency
                    .of(metric)
                    .is_some_and(|known| known.stat(*stat).is_some())
            })
        })
        .map(|(name, _)| format!("{}.{name}", metric.name()))
        .collect()
}

/// What the table leaves open, in sentences.
#[must_use]
pub fn unchecked(rungs: &[RungReport], counted: &[bool]) -> Vec<String> {
    let mut open = Vec::new();
    let none = |has: &dyn Fn(&RungReport) -> bool| !rungs.iter().any(has);
    let little = rungs.iter().zip(counted).any(|(rung, counted)| {
        *counted && rung.throughput.requests_per_s.is_some() && response(rung).is_some()
    });
    if none(&|rung| rung.in_flight.mean.is_some()) && !little {
        open.push(
            if counted.iter().any(|counted| !counted) {
                "Requests/s or latency are not as counted (column `derived`), so that Little's law cannot tell whether \
                 the levels were held: not checked."
            } else {
                "No in-flight figure, nor requests/s with a mean E2E: whether the levels were held was not checked."
            }
            .to_owned(),
        );
    }
    if none(&|rung| rung.requests.sent > 0) {
        open.push("No number of requests: whether the samples suffice was not checked.".to_owned());
    }
    if none(&|rung| rung.error_rate().is_some()) {
        open.push("No error rate: the requests are taken to have succeeded.".to_owned());
    }
    if none(&|rung| rung.lengths.output.actual.is_some()) {
        open.push("No reply lengths: whether they were alike at every level was not checked.".to_owned());
    }
    open.push(
        "A table tells nothing of prefix caches, of the client, or of a steady state: not checked. Its figures carry no \
         interval."
            .to_owned(),
    );
    open
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::rung as made;

    /// A row of a table: level, requests/s, mean E2E in ms, number of requests (0 where unknown).
    fn row(level: u32, rate: f64, e2e: f64, n: u64) -> RungReport {
        let mut rung = crate::table::with_e2e(made(level, rate, rate * 100.0), e2e);
        rung.in_flight.mean = None;
        rung.requests.sent = n;
        rung.requests.ok = n;
        rung
    }

    fn verdicts(rungs: &mut [RungReport]) -> Vec<Verdict> {
        let counted = vec![true; rungs.len()];
        examine_table(rungs, &counted, &Sla::default());
        rungs.iter().map(|rung| rung.validity.verdict).collect()
    }

    #[test]
    fn littles_law_allows_for_the_end_of_a_run_and_for_no_more() {
        // A finite run of n requests by N users delivers N/(1 + N/2n): 470 of 512 from 2,400 requests would be 0.904.
        assert_eq!(
            verdicts(&mut [row(512, 25.6428, 17_822.6, 2400)]),
            [Verdict::Valid]
        );
        // The same without that excuse.
        assert_eq!(
            verdicts(&mut [row(512, 25.6428, 17_822.6, 0)]),
            [Verdict::LoadNotDelivered]
        );
        assert_eq!(
            verdicts(&mut [row(512, 25.6428, 12_000.0, 2400)]),
            [Verdict::LoadNotDelivered]
        );
        // More in flight than asked for.
        assert_eq!(
            verdicts(&mut [row(10, 12.0, 1000.0, 0)]),
            [Verdict::LoadNotDelivered]
        );
        // Computed from latency: the law holds by construction or not at all, and tells nothing.
        let mut derived = [row(512, 25.0, 100.0, 0)];
        examine_table(&mut derived, &[false], &Sla::default());
        assert_eq!(derived[0].validity.verdict, Verdict::Valid);
    }

    #[test]
    fn requests_must_suffice_for_the_level() {
        assert_eq!(
            verdicts(&mut [row(50, 50.0, 1000.0, 40), row(16, 16.0, 980.0, 40)]),
            [Verdict::LoadNotDelivered, Verdict::TooFewSamples]
        );
    }

    #[test]
    fn a_level_that_repeats_a_lower_one_had_its_load() {
        let mut rungs = [
            row(8, 10.0, 800.0, 0),
            row(32, 10.1, 810.0, 0),
            row(64, 10.0, 6400.0, 0),
        ];
        examine_table(&mut rungs, &[false; 3], &Sla::default());
        assert_eq!(
            rungs.map(|rung| rung.validity.verdict),
            [Verdict::Valid, Verdict::LoadNotDelivered, Verdict::Valid]
        );
    }

    #[test]
    fn empty_successes_are_failures() {
        let mut rungs = [row(16, 0.41, 39_000.0, 30), row(32, 4.04, 7916.0, 30)];
        rungs[1].throughput.output_tokens_per_s = Some(0.0);
        examine_table(&mut rungs, &[false; 2], &Sla::default());
        assert_eq!(rungs[1].validity.verdict, Verdict::Errors);
        assert_eq!(rungs[1].error_rate(), Some(1.0));
        assert_eq!(rungs[1].requests.by_class["empty-response"], 30);
    }

    #[test]
    fn terms_that_the_table_cannot_answer_are_left_out_and_named() {
        let mut rungs = [row(16, 15.0, 1000.0, 0), row(64, 30.0, 2100.0, 0)];
        let refused = examine_table(&mut rungs, &[true; 2], &Sla::default());
        let sla = Sla {
            terms: vec!["e2e.p99<=5s".parse().unwrap()],
        };
        let plan = answer_table(&mut rungs, &refused, &sla, &Demand::default());
        assert_eq!(plan.best.map(|best| best.concurrency), Some(64));
        assert_eq!((plan.limit, plan.instances), (None, None));
        assert!(plan.warnings[0].contains("e2e.mean"), "{:?}", plan.warnings);
        assert_eq!(rungs[0].sla[0].pass, None);
    }
}
