//! The SLA limit and the best concurrency.

use plimsoll_run::answer::{Best, Limit, LimitStatus, QueueOnset};
use plimsoll_run::rung::{RungReport, TermOutcome};
use plimsoll_run::sla::{Metric, Sla};
use plimsoll_run::units::show_ms;

use crate::estimate::{Estimate, estimate};
use crate::levels::{Level, Standing, throughput};
use crate::wording::{figure, percent};

/// Standard errors in half a 95 % interval.
const NORMAL: f64 = 1.96;
/// Throughputs closer together than this cannot be told apart.
const TIE: f64 = 0.02;

/// The levels around the crossing, ascending.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crossing<'l, 'r> {
    /// The highest level that passes below every failing one.
    pub(crate) pass: Option<&'l Level<'r>>,
    /// The lowest level that fails.
    pub(crate) fail: Option<&'l Level<'r>>,
    /// A level that passes above it.
    pub(crate) above: Option<&'l Level<'r>>,
}

/// Where the SLA is crossed, by the levels that could be judged.
#[must_use]
pub(crate) fn crossing<'l, 'r>(levels: &'l [Level<'r>]) -> Crossing<'l, 'r> {
    let fail = levels.iter().find(|level| level.standing == Standing::Fails);
    let below = |level: &&Level| fail.is_none_or(|fail| level.level < fail.level);
    let passes = || levels.iter().filter(|level| level.standing == Standing::Passes);
    Crossing {
        pass: passes().rfind(below),
        fail,
        above: passes().rfind(|level| !below(level)),
    }
}

/// A level that passes by less than the noise gives way to one that passes for certain, if that is no further below.
const GIVE_WAY: f64 = 1.10;
/// An estimate with a wider 95 % interval than this factor to either side is no answer.
const VAGUE: f64 = 1.25;

/// Where the limit is, as far as the rungs tell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'l, 'r> {
    /// The row that answers: the highest level that passes, by more than the noise where there is one close below. It
    /// lies below every failing level.
    pub(crate) row: Option<&'l Level<'r>>,
    /// The lowest level that fails.
    pub(crate) fail: Option<&'l Level<'r>>,
    /// The lowest level that fails by more than the noise, or else the lowest that fails.
    pub(crate) certain: Option<&'l Level<'r>>,
    /// The crossing of a smooth term, estimated from the rungs around it.
    pub(crate) estimate: Option<Estimate>,
}

/// Where the limit is; see [`Found`].
#[must_use]
pub(crate) fn find<'l, 'r>(levels: &'l [Level<'r>], rungs: &[RungReport], sla: &Sla) -> Found<'l, 'r> {
    let Crossing { pass, fail, .. } = crossing(levels);
    let estimate = pass
        .zip(fail)
        .and_then(|(pass, fail)| estimate(rungs, sla, pass, fail))
        .filter(|estimate| estimate.interval()[1] <= VAGUE * estimate.level);
    let below = |most: u32| {
        levels
            .iter()
            .rfind(move |row| row.level <= most && row.standing == Standing::Passes)
    };
    let row = match (pass, &estimate) {
        (Some(pass), Some(estimate)) => below(estimate.safe_level().min(pass.level)).or(Some(pass)),
        (Some(pass), None) if pass.near => levels
            .iter()
            .rfind(|row| row.level < pass.level && row.standing == Standing::Passes && !row.near)
            .filter(|row| f64::from(pass.level) <= GIVE_WAY * f64::from(row.level))
            .or(Some(pass)),
        (pass, _) => pass,
    };
    Found {
        row,
        fail,
        certain: levels
            .iter()
            .find(|row| row.standing == Standing::Fails && !row.near)
            .or(fail),
        estimate,
    }
}

impl Found<'_, '_> {
    /// The highest concurrency that meets the SLA: the estimate, on the safe side and below every failing level, or the row.
    fn concurrency(&self) -> Option<u32> {
        let row = self.row?.level;
        let (Some(estimate), Some(fail)) = (&self.estimate, self.fail) else {
            return Some(row);
        };
        Some(estimate.safe_level().min(fail.level.saturating_sub(1)).max(1))
    }

    fn interval(&self) -> [Option<f64>; 2] {
        let level_of = |level: Option<&Level>| level.map(|level| f64::from(level.level));
        match &self.estimate {
            // The answer is a whole number on the safe side of the crossing: its interval reaches down to it.
            Some(estimate) => {
                let [low, high] = estimate.interval();
                let least = self.concurrency().map_or(low, |level| low.min(f64::from(level)));
                [Some(least), Some(high)]
            }
            None => [level_of(self.row), level_of(self.certain)],
        }
    }
}

/// The highest concurrency that meets the SLA; `None` when no level could be judged.
#[must_use]
pub(crate) fn limit(
    levels: &[Level],
    rungs: &[RungReport],
    sla: &Sla,
    onset: Option<&QueueOnset>,
) -> Option<Limit> {
    let found = find(levels, rungs, sla);
    let (pass, fail) = (found.row, found.fail);
    let interval = found.interval();
    let concurrency = found.concurrency();
    let estimated = concurrency.is_some_and(|level| {
        levels
            .iter()
            .all(|row| row.level != level || row.standing != Standing::Passes)
    });
    let (status, decider) = match (pass, fail) {
        (None, None) => return None,
        (Some(_), Some(fail)) => (LimitStatus::Crossed, fail),
        (Some(pass), None) => (LimitStatus::NotReached, pass),
        (None, Some(fail)) => (LimitStatus::NeverMet, fail),
    };
    let worst = decider.worst().map(|(outcome, _)| outcome);
    let at = decider.level;
    let seen = worst.map_or_else(
        || "too many requests fail".to_owned(),
        |worst| saying(worst, decider),
    );
    let fitted = found.estimate.map(|estimate| {
        format!(
            "{} crosses its limit at about {} by a line through the {} rungs around it; at {at} {seen}.{}",
            estimate.term.subject(),
            figure(estimate.level),
            estimate.below + estimate.above,
            waiting(worst, at, onset)
        )
    });
    let reason = fitted.unwrap_or_else(|| match (status, pass) {
        (LimitStatus::Crossed, Some(pass)) => format!(
            "{} is the highest level tried that meets the SLA{}; at {at} {seen}.{}",
            pass.level,
            if crossing(levels).pass.is_some_and(|highest| highest.level > pass.level) {
                " beyond doubt"
            } else {
                ""
            },
            waiting(worst, at, onset)
        ),
        (LimitStatus::NotReached, _) if sla.terms.is_empty() => {
            format!("No SLA term was given and no request failed up to {at}, the highest level tried.")
        }
        (LimitStatus::NotReached, _) => {
            let nearest = worst.map_or_else(String::new, |_| format!("; there {seen}"));
            format!(
                "Every level tried meets the SLA up to {at}, the highest{nearest}. The limit is at least that."
            )
        }
        _ => {
            let open: Vec<String> = levels
                .iter()
                .filter(|row| row.level < at && row.standing == Standing::Unknown)
                .map(|row| row.level.to_string())
                .collect();
            let open = if open.is_empty() {
                "No level tried meets the SLA; already at".to_owned()
            } else {
                format!(
                    "No level is known to meet the SLA: {} could not be judged, and at",
                    open.join(", ")
                )
            };
            format!("{open} {at} {seen}.{}", waiting(worst, at, onset))
        }
    });
    Some(Limit {
        concurrency,
        estimated,
        interval,
        status,
        binding: worst.map(|worst| worst.term.to_string()),
        reason,
    })
}

fn saying(outcome: &TermOutcome, level: &Level) -> String {
    let term = &outcome.term;
    match outcome.observed {
        Some(observed) if term.metric == Metric::ErrorRate => format!(
            "{} of the requests fail, where {} may",
            percent(observed),
            if term.limit > 0.0 {
                term.limit_text()
            } else {
                "none".to_owned()
            }
        ),
        Some(observed) => format!(
            "{} is {} against a limit of {}",
            term.subject(),
            show_ms(observed),
            term.limit_text()
        ),
        None => format!(
            "{} lies among the failures ({} of {} requests failed)",
            term.subject(),
            level.rung.requests.failed,
            level.rung.requests.failed + level.rung.requests.ok
        ),
    }
}

/// Why TTFT and E2E break: beyond the queue onset requests wait for their turn.
fn waiting(worst: Option<&TermOutcome>, at: u32, onset: Option<&QueueOnset>) -> String {
    match (worst, onset) {
        (Some(worst), Some(onset))
            if matches!(worst.term.metric, Metric::Ttft | Metric::Ttfat | Metric::E2e)
                && f64::from(at) > onset.concurrency =>
        {
            format!(
                " Beyond about {} in flight requests wait for a slot.",
                figure(onset.concurrency)
            )
        }
        _ => String::new(),
    }
}

/// The concurrency with maximum throughput at acceptable latency, among the levels below the lowest failing one;
/// `None` when none passes. Throughputs within 2 % are ties and go to the lowest level.
#[must_use]
pub(crate) fn best(levels: &[Level], sla: &Sla, tokens: bool) -> Option<Best> {
    let fail = crossing(levels).fail.map(|fail| fail.level);
    let rates: Vec<(&Level, f64)> = levels
        .iter()
        .filter(|level| level.standing == Standing::Passes && fail.is_none_or(|fail| level.level < fail))
        .filter_map(|level| Some((level, throughput(level.rung, tokens)?)))
        .collect();
    let most = rates.iter().map(|rate| rate.1).max_by(f64::total_cmp)?;
    let ties: Vec<&(&Level, f64)> = rates
        .iter()
        .filter(|(_, rate)| *rate >= (1.0 - TIE) * most)
        .collect();
    let (&&(first, rate), last) = (ties.first()?, ties.last()?.0);
    let unit = if tokens { "output tokens/s" } else { "requests/s" };
    // A level whose distance from a tie is within the noise of the two throughputs could be the answer of another run.
    let noise = |level: &Level| level.rung.throughput.relative_se.unwrap_or(0.0);
    let (top, most) = *rates.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let why = if first.level == top.level {
        format!("has the largest throughput: {} {unit}.", figure(rate))
    } else {
        format!(
            "is the lowest within 2 % of the largest throughput: {} {unit} against {} at {}.",
            figure(rate),
            figure(most),
            top.level
        )
    };
    let lowest = rates
        .iter()
        .find(|(level, rate)| {
            let short = ((1.0 - TIE) * most / rate).ln();
            short <= NORMAL * noise(level).hypot(noise(top))
        })
        .map_or(first.level, |(level, _)| level.level.min(first.level));
    let doubt = if lowest < first.level {
        format!(" {lowest} may do as well: its throughput misses that tie by less than the noise.")
    } else {
        String::new()
    };
    Some(Best {
        concurrency: first.level,
        interval: [Some(f64::from(lowest)), Some(f64::from(last.level))],
        requests_per_s: first.rung.throughput.requests_per_s,
        output_tokens_per_s: first.rung.throughput.output_tokens_per_s,
        reason: format!(
            "Of the levels {}, {} {why}{doubt}",
            if sla.terms.is_empty() {
                "tried"
            } else {
                "that meet the SLA"
            },
            first.level,
        ),
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_run::rung::RungReport;
    use plimsoll_run::validity::{Validity, Verdict};

    use super::*;
    use crate::levels::levels;
    use crate::table::{rung, with_ttft};

    fn sla() -> Sla {
        Sla {
            terms: vec!["ttft.p95<=100ms".parse().unwrap()],
        }
    }

    fn rungs(rows: &[(u32, f64, f64)]) -> Vec<RungReport> {
        rows.iter()
            .map(|(level, rate, ttft)| with_ttft(rung(*level, rate / 100.0, *rate), *ttft))
            .collect()
    }

    #[test]
    fn a_near_tie_is_in_the_interval_of_the_best() {
        let noisy = |rate_at_132: f64, se: f64| {
            let mut rungs = rungs(&[(64, 3358.0, 20.0), (132, rate_at_132, 30.0), (194, 5742.0, 80.0)]);
            for rung in &mut rungs {
                rung.throughput.relative_se = Some(se);
            }
            let best = best(&levels(&rungs, &sla()), &sla(), true).unwrap();
            (best.concurrency, best.interval)
        };
        // 5,584 is 2.75 % below 5,742: no tie, but by less than 1.96 * sqrt(2) * 0.6 %.
        assert_eq!(noisy(5584.0, 0.006), (194, [Some(132.0), Some(194.0)]));
        assert_eq!(noisy(5584.0, 0.0001), (194, [Some(194.0), Some(194.0)]));
        assert_eq!(noisy(5700.0, 0.0001), (132, [Some(132.0), Some(194.0)]));
    }

    #[test]
    fn a_crossing_is_a_bracket_with_its_binding_term() {
        let rungs = rungs(&[(16, 100.0, 20.0), (64, 300.0, 80.0), (256, 310.0, 900.0)]);
        let limit = limit(&levels(&rungs, &sla()), &rungs, &sla(), None).unwrap();
        assert_eq!(
            (limit.concurrency, limit.status),
            (Some(64), LimitStatus::Crossed)
        );
        assert_eq!(limit.interval, [Some(64.0), Some(256.0)]);
        assert_eq!(limit.binding.as_deref(), Some("ttft.p95<=100ms"));
        assert!(limit.reason.contains("900 ms"), "{}", limit.reason);
    }

    #[test]
    fn all_passing_and_none_passing_are_open_on_one_side() {
        let low = rungs(&[(16, 100.0, 20.0), (64, 300.0, 80.0)]);
        let found = limit(&levels(&low, &sla()), &low, &sla(), None).unwrap();
        assert_eq!(
            (found.status, found.interval),
            (LimitStatus::NotReached, [Some(64.0), None])
        );
        let high = rungs(&[(16, 100.0, 120.0), (64, 300.0, 480.0)]);
        let found = limit(&levels(&high, &sla()), &high, &sla(), None).unwrap();
        assert_eq!((found.status, found.concurrency), (LimitStatus::NeverMet, None));
        assert_eq!(found.interval, [None, Some(16.0)]);
        assert!(best(&levels(&high, &sla()), &sla(), true).is_none());
        assert!(limit(&[], &[], &sla(), None).is_none());
    }

    #[test]
    fn a_pass_above_a_fail_does_not_count() {
        let rungs = rungs(&[(64, 100.0, 20.0), (96, 150.0, 180.0), (128, 300.0, 80.0)]);
        let levels = levels(&rungs, &sla());
        assert_eq!(crossing(&levels).above.unwrap().level, 128);
        assert_eq!(
            limit(&levels, &rungs, &sla(), None).unwrap().concurrency,
            Some(64)
        );
        assert_eq!(best(&levels, &sla(), true).unwrap().concurrency, 64);
    }

    #[test]
    fn ties_go_to_the_lower_level() {
        let rungs = rungs(&[(64, 297.0, 20.0), (96, 300.0, 30.0), (128, 270.0, 80.0)]);
        let best = best(&levels(&rungs, &sla()), &sla(), true).unwrap();
        assert_eq!((best.concurrency, best.interval), (64, [Some(64.0), Some(96.0)]));
        assert_eq!(best.output_tokens_per_s, Some(297.0));
    }

    #[test]
    fn a_later_rung_supersedes_and_invalid_ones_do_not_decide() {
        let mut rungs = rungs(&[
            (64, 100.0, 20.0),
            (128, 150.0, 180.0),
            (128, 150.0, 90.0),
            (256, 1.0, 1.0),
        ]);
        rungs[3].validity = Validity {
            verdict: Verdict::ClientLimited,
            reasons: Vec::new(),
        };
        let found = limit(&levels(&rungs, &sla()), &rungs, &sla(), None).unwrap();
        assert_eq!(
            (found.concurrency, found.status),
            (Some(128), LimitStatus::NotReached)
        );
        // Too many failures do say that a level cannot be served.
        rungs[3].validity.verdict = Verdict::Errors;
        rungs[3].requests.ok = 500;
        rungs[3].requests.failed = 500;
        let found = limit(&levels(&rungs, &sla()), &rungs, &sla(), None).unwrap();
        assert_eq!(found.interval, [Some(128.0), Some(256.0)]);
        assert_eq!(found.binding.as_deref(), Some("error_rate<=0"));
    }
}
