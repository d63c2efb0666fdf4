//! One run against another of the same workload: what became better, what worse, and what cannot be told from noise.

use plimsoll_run::comparison::{Change, Outcome};
use plimsoll_run::document::Run;
use plimsoll_run::rung::{Distribution, Interval, RungReport};
use plimsoll_run::sla::Metric;

/// A figure with its interval, where it has one.
type Figure = (Option<f64>, Option<Interval>);

/// Every figure of `before` beside that of `after`: the answers of the plan, then each level of `before` that may be believed.
/// A figure that is apart by more than `tolerance` (a fraction) is better or worse, unless both have intervals and these overlap.
/// An answer that was there and is gone is worse.
#[must_use]
pub fn changes(before: &Run, after: &Run, tolerance: f64) -> Vec<Change> {
    let mut changes = answers(before, after, tolerance);
    let mut levels: Vec<u32> = before.rungs.iter().map(|rung| rung.concurrency).collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels {
        let Some(old) = believed(before, level) else {
            continue;
        };
        let new = believed(after, level);
        for (what, more_is_better, read) in FIGURES {
            let (was, is) = (read(old), new.map_or((None, None), read));
            if was.0.is_some() {
                changes.push(change(what, Some(level), more_is_better, was, is, tolerance));
            }
        }
    }
    changes
}

/// The last rung of a level that may be believed.
fn believed(run: &Run, level: u32) -> Option<&RungReport> {
    run.rungs
        .iter()
        .rfind(|rung| rung.concurrency == level && rung.validity.may_decide())
}

/// A figure's name, whether more of it is better, and how it is read off a rung.
type Read = (&'static str, bool, fn(&RungReport) -> Figure);

const FIGURES: [Read; 6] = [
    ("requests/s", true, |rung| {
        (rung.throughput.requests_per_s, rung.throughput.requests_ci95)
    }),
    ("output tokens/s", true, |rung| {
        (
            rung.throughput.output_tokens_per_s,
            rung.throughput.output_tokens_ci95,
        )
    }),
    ("TTFT p95 ms", false, |rung| p95(rung, Metric::Ttft)),
    ("TPOT p95 ms", false, |rung| p95(rung, Metric::Tpot)),
    ("E2E p95 ms", false, |rung| p95(rung, Metric::E2e)),
    ("error rate", false, |rung| (rung.error_rate(), None)),
];

fn p95(rung: &RungReport, metric: Metric) -> Figure {
    let known: Option<&Distribution> = rung.latency.of(metric);
    (
        known.and_then(|known| known.p95),
        known.and_then(|known| known.ci95.get("p95").copied()),
    )
}

fn answers(before: &Run, after: &Run, tolerance: f64) -> Vec<Change> {
    type Answer = (&'static str, bool, fn(&Run) -> Figure);
    const ANSWERS: [Answer; 5] = [
        ("best concurrency", true, |run| {
            let best = run.plan.best.as_ref();
            (
                best.map(|best| f64::from(best.concurrency)),
                best.map(|best| best.interval),
            )
        }),
        ("output tokens/s at the best", true, |run| {
            (
                run.plan.best.as_ref().and_then(|best| best.output_tokens_per_s),
                None,
            )
        }),
        ("SLA limit", true, |run| {
            let limit = run.plan.limit.as_ref();
            (
                limit.and_then(|limit| limit.concurrency).map(f64::from),
                limit.map(|limit| limit.interval),
            )
        }),
        ("instances", false, |run| {
            let count = run.plan.instances.as_ref().and_then(|found| found.count);
            (count.map(|count| count as f64), None)
        }),
        ("knee", true, |run| {
            let knee = run.plan.knee.as_ref();
            (knee.map(|knee| knee.concurrency), knee.map(|knee| knee.interval))
        }),
    ];
    ANSWERS
        .into_iter()
        .filter_map(|(what, more_is_better, read)| {
            let (was, is) = (read(before), read(after));
            was.0?;
            let mut found = change(what, None, more_is_better, was, is, tolerance);
            if is.0.is_none() && what != "knee" {
                found.outcome = Outcome::Worse;
            }
            // Where throughput stops growing is neither good nor bad by itself, nor is the level of the most throughput.
            if matches!(what, "knee" | "best concurrency") && is.0.is_some() {
                found.outcome = Outcome::Same;
            }
            // Replicas are whole.
            if what == "instances" && found.outcome == Outcome::Same && was.0 != is.0 {
                found.outcome = if is.0 > was.0 {
                    Outcome::Worse
                } else {
                    Outcome::Better
                };
            }
            Some(found)
        })
        .collect()
}

fn change(
    what: &'static str,
    level: Option<u32>,
    more_is_better: bool,
    (before, of_before): Figure,
    (after, of_after): Figure,
    tolerance: f64,
) -> Change {
    let relative = before
        .zip(after)
        .filter(|(before, _)| *before > 0.0)
        .map(|(before, after)| after / before - 1.0)
        .filter(|change| change.is_finite());
    let outcome = match before.zip(after) {
        None => Outcome::Missing,
        Some((before, after)) => {
            // From nothing, such as no error, any amount counts by itself.
            let apart = relative.unwrap_or(after - before);
            let worse = (apart < 0.0) == more_is_better;
            if apart.abs() <= tolerance {
                Outcome::Same
            } else if of_before.zip(of_after).is_some_and(overlap) {
                Outcome::Unclear
            } else if worse {
                Outcome::Worse
            } else {
                Outcome::Better
            }
        }
    };
    Change {
        what,
        level,
        more_is_better,
        before,
        after,
        change: relative,
        outcome,
    }
}

/// Whether two intervals have a value in common. An open side has no end; one that is open on both sides is none.
fn overlap((one, other): (Interval, Interval)) -> bool {
    let ends = |[low, high]: Interval| {
        (low.is_some() || high.is_some())
            .then(|| (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY)))
    };
    ends(one)
        .zip(ends(other))
        .is_some_and(|(one, other)| one.0 <= other.1 && other.0 <= one.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Option<Interval> = None;

    fn outcome(before: f64, after: f64, intervals: [Option<Interval>; 2], more: bool) -> Outcome {
        change(
            "x",
            None,
            more,
            (Some(before), intervals[0]),
            (Some(after), intervals[1]),
            0.05,
        )
        .outcome
    }

    #[test]
    fn a_change_counts_beyond_tolerance_and_noise() {
        assert_eq!(outcome(100.0, 96.0, [NONE; 2], true), Outcome::Same);
        assert_eq!(outcome(100.0, 94.0, [NONE; 2], true), Outcome::Worse);
        assert_eq!(outcome(100.0, 94.0, [NONE; 2], false), Outcome::Better);
        let wide = |low, high| Some([Some(low), Some(high)]);
        assert_eq!(
            outcome(100.0, 94.0, [wide(93.0, 107.0), wide(90.0, 98.0)], true),
            Outcome::Unclear
        );
        assert_eq!(
            outcome(100.0, 90.0, [wide(98.0, 102.0), wide(88.0, 92.0)], true),
            Outcome::Worse
        );
        // Errors where there were none.
        assert_eq!(outcome(0.0, 0.2, [NONE; 2], false), Outcome::Worse);
        assert_eq!(outcome(0.0, 0.0, [NONE; 2], false), Outcome::Same);
        let gone = change("x", None, true, (Some(1.0), None), (None, None), 0.05);
        assert_eq!((gone.outcome, gone.change), (Outcome::Missing, None));
    }
}
