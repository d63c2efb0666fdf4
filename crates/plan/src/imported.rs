//! Tables that someone else measured: what a run of our own would have shown in its evidence must be read off the
//! rows themselves (METHOD sections 2 and 4).
//!
//! [`answer_table`] gives the rungs their verdicts, answers from what may be used of them, and names what the table
//! leaves open. It starts from the table's own figures each time, so that another SLA can be asked of a saved table.

mod across;
mod record;
mod row;

use plimsoll_run::answer::{LimitStatus, Plan};
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::{Metric, Sla};
use plimsoll_run::table::ImportedTable;
use plimsoll_run::validity::{Validity, Verdict};

use crate::answer::{Demand, answer_for};
use crate::judge::judge;
use crate::validity::compare;

use across::{buffered, outliers, same_load, waiting_without_queue};
use record::put_record;
use row::{empty, errors, in_flight, in_one_piece, little, response, samples, too_few_to_hold, void};

/// What may not be used of each rung although its throughput counts; in the order of the rungs.
type Refused = Vec<Vec<Metric>>;

/// Examines the rungs of an imported table, judges them against the SLA, and answers from what may be used of them.
///
/// A term that no row can evaluate is left out, with a warning: the best concurrency is then that of the other terms, or
/// by throughput alone; a limit and a number of instances are not given unless a term remains. Where none does, or none
/// was given, what the table says of each row's passing counts, if it says so of this SLA.
#[must_use]
pub fn answer_table(rungs: &mut [RungReport], table: &ImportedTable, sla: &Sla, demand: &Demand) -> Plan {
    let row = |at: usize| table.rows.get(at).copied().unwrap_or_default();
    for (at, rung) in rungs.iter_mut().enumerate() {
        rung.validity = match row(at).verdict {
            None | Some(Verdict::Valid) => Validity::valid(),
            Some(verdict) => Validity {
                verdict,
                reasons: vec!["So says the table.".to_owned()],
            },
        };
    }
    let counted: Vec<bool> = (0..rungs.len()).map(|at| row(at).counted).collect();
    let refused = examine_table(rungs, &counted, sla);
    // What the files record was judged by their own SLA; another question needs values.
    let recorded: Vec<Option<bool>> = if table.sla.terms.is_empty() || table.sla == *sla {
        (0..rungs.len()).map(|at| row(at).met).collect()
    } else {
        Vec::new()
    };
    let mut plan = answer_examined(rungs, &refused, &recorded, sla, demand);
    plan.warnings.extend(table.remarks.iter().cloned());
    plan.warnings.extend(unchecked(rungs, &counted));
    plan
}

/// Gives the rungs of an imported table their verdicts. `counted[i]` says that the requests per second of rung `i`
/// were counted, not computed from the latency: only then does Little's law tell anything. `sla` says which
/// percentiles matter.
fn examine_table(rungs: &mut [RungReport], counted: &[bool], sla: &Sla) -> Refused {
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

/// [`answer_table`] for rungs that have their verdicts. `recorded`: whether each row is said to have passed the SLA (empty
/// where nothing is said).
fn answer_examined(
    rungs: &mut [RungReport],
    refused: &Refused,
    recorded: &[Option<bool>],
    sla: &Sla,
    demand: &Demand,
) -> Plan {
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
        } else if recorded.iter().all(Option::is_none) {
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
    let by_record = asked.terms.is_empty() && recorded.iter().any(Option::is_some);
    // With no term left nothing says which levels may be used: throughput alone is answered.
    let left_out = !sla.terms.is_empty() && asked.terms.is_empty();
    let mut plan = answer_for(&usable, &asked, (!left_out || by_record).then_some(demand));
    let silent = usable.iter().all(|rung| rung.error_rate().is_none());
    if asked.terms.is_empty()
        && (left_out || silent)
        && plan
            .limit
            .as_ref()
            .is_some_and(|limit| limit.status == LimitStatus::NotReached)
    {
        // Nothing says that any level passed.
        plan.limit = None;
        plan.largest_passing = None;
        plan.largest_throughput_under_sla = None;
    }
    if by_record {
        put_record(&mut plan, &usable, recorded, sla, demand);
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
    warnings.append(&mut plan.warnings);
    plan.warnings = warnings;
    for (at, (rung, usable)) in rungs.iter_mut().zip(&usable).enumerate() {
        rung.sla = judge(usable, sla);
        if let (true, Some(Some(pass))) = (by_record, recorded.get(at))
            // Which of several terms failed is not said.
            && (*pass || sla.terms.len() == 1)
        {
            for outcome in rung.sla.iter_mut().filter(|outcome| outcome.pass.is_none()) {
                outcome.pass = Some(*pass);
                outcome.note = Some("as the table says, without a value".to_owned());
            }
        }
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
fn unchecked(rungs: &[RungReport], counted: &[bool]) -> Vec<String> {
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
        let plan = answer_examined(&mut rungs, &refused, &[], &sla, &Demand::default());
        assert_eq!(plan.best.map(|best| best.concurrency), Some(64));
        assert_eq!((plan.limit, plan.instances), (None, None));
        assert!(plan.warnings[0].contains("e2e.mean"), "{:?}", plan.warnings);
        assert_eq!(rungs[0].sla[0].pass, None);
    }

    #[test]
    fn a_recorded_pass_above_a_fail_does_not_count() {
        // The published search of curve 32: output tokens/s, and whether p99 E2E stayed below 50 s.
        let rows = [
            (128, 2066.8, true),
            (256, 2823.4, true),
            (284, 2788.6, false),
            (320, 2781.8, true),
            (512, 2782.3, false),
        ];
        let mut rungs: Vec<RungReport> = rows
            .iter()
            .map(|(level, tokens, _)| made(*level, tokens / 256.0, *tokens))
            .collect();
        let recorded: Vec<Option<bool>> = rows.iter().map(|row| Some(row.2)).collect();
        let sla = Sla {
            terms: vec!["e2e.p99<50s".parse().unwrap()],
        };
        let refused = examine_table(&mut rungs, &[false; 5], &sla);
        let plan = answer_examined(&mut rungs, &refused, &recorded, &sla, &Demand::default());
        let limit = plan.limit.unwrap();
        assert_eq!(limit.interval, [Some(256.0), Some(284.0)]);
        assert_eq!(limit.status, LimitStatus::Crossed);
        assert_eq!(plan.best.unwrap().concurrency, 256);
        assert!(
            plan.warnings[0].contains("320 above it passes"),
            "{:?}",
            plan.warnings
        );
        assert_eq!(rungs[2].sla[0].pass, Some(false));
    }
}
