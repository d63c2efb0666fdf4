//! Levels that answer one question each: the largest that passes, the largest throughput under the SLA, the most efficient.

use plimsoll_run::answer::{Decline, LevelAnswer};
use plimsoll_run::sla::Sla;

use crate::levels::{Curve, Level, Standing, has_throughput, throughput};
use crate::limit::crossing;
use crate::wording::{figure, percent};

fn answer(level: &Level, reason: String) -> LevelAnswer {
    LevelAnswer {
        concurrency: level.level,
        requests_per_s: level.rung.throughput.requests_per_s,
        output_tokens_per_s: level.rung.throughput.output_tokens_per_s,
        reason,
    }
}

/// The highest level that meets the SLA below every failing one; `None` when none does.
#[must_use]
pub(crate) fn largest_passing(levels: &[Level], sla: &Sla) -> Option<LevelAnswer> {
    let sides = crossing(levels);
    let pass = sides.pass?;
    let reason = match sides.fail {
        Some(fail) => format!(
            "{} meets the SLA, and {} is the lowest level tried that does not.",
            pass.level, fail.level
        ),
        None if sla.terms.is_empty() => {
            format!(
                "{} is the highest level tried; no SLA term was given.",
                pass.level
            )
        }
        None => format!("{} is the highest level tried, and no level fails.", pass.level),
    };
    Some(answer(pass, reason))
}

/// The level with the largest throughput of those that meet the SLA below every failing one; `None` when none does.
#[must_use]
pub(crate) fn largest_throughput(levels: &[Level], sla: &Sla, tokens: bool) -> Option<LevelAnswer> {
    let fail = crossing(levels).fail.map(|fail| fail.level);
    let (level, rate) = levels
        .iter()
        .filter(|level| level.standing == Standing::Passes && fail.is_none_or(|fail| level.level < fail))
        .filter_map(|level| Some((level, throughput(level.rung, tokens)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let unit = if tokens { "output tokens/s" } else { "requests/s" };
    let reason = format!(
        "{} gives {} {unit}, the most of any level {}.",
        level.level,
        figure(rate),
        if sla.terms.is_empty() {
            "tried"
        } else {
            "that meets the SLA"
        }
    );
    Some(answer(level, reason))
}

/// The level with the largest power X/R, throughput over mean response time (Kleinrock, 1979), whatever the SLA; `None`
/// from fewer than two levels that tell both.
#[must_use]
pub(crate) fn efficient(levels: &[Level]) -> Option<LevelAnswer> {
    let powers: Vec<(&Level, f64)> = levels
        .iter()
        .filter(|level| has_throughput(level.rung))
        .filter_map(|level| {
            let response = level
                .rung
                .latency
                .e2e_ms
                .as_ref()?
                .mean
                .filter(|mean| *mean > 0.0)?;
            Some((level, throughput(level.rung, false)? / response))
        })
        .collect();
    if powers.len() < 2 {
        return None;
    }
    let (level, _) = powers.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let reason = format!(
        "Of the levels tried {} has the largest throughput for its response time: above it requests slow down more than \
         throughput grows.",
        level.level
    );
    Some(answer(level, reason))
}

/// Throughput at the highest level below the maximum by more than two standard errors of the difference.
#[must_use]
pub(crate) fn decline(curve: &Curve) -> Option<Decline> {
    let most = curve.points.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let last = curve.points.last()?;
    let ratio = last.1 / most.1;
    (ratio < 1.0 - 2.0 * last.2.hypot(most.2)).then(|| Decline {
        from: most.0 as u32,
        to: last.0 as u32,
        loss: 1.0 - ratio,
        reason: format!(
            "Throughput declines beyond {}: {} gives {} less.",
            figure(most.0),
            figure(last.0),
            percent(1.0 - ratio)
        ),
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_run::rung::RungReport;

    use super::*;
    use crate::levels::{curve, levels};
    use crate::table::{rung, with_e2e, with_ttft};

    fn sla() -> Sla {
        Sla {
            terms: vec!["ttft.p95<=100ms".parse().unwrap()],
        }
    }

    fn rungs(rows: &[(u32, f64, f64)]) -> Vec<RungReport> {
        rows.iter()
            .map(|(level, rate, ttft)| {
                let response = f64::from(*level) / rate * 1e3;
                with_e2e(with_ttft(rung(*level, *rate, 100.0 * rate), *ttft), response)
            })
            .collect()
    }

    #[test]
    fn the_largest_level_and_the_largest_throughput_are_different_questions() {
        // AWS's own example: 320 passes at 2,782 tokens/s, 256 gives 2,823.
        let rungs = rungs(&[
            (128, 20.668, 20.0),
            (256, 28.234, 40.0),
            (320, 27.818, 90.0),
            (512, 27.823, 900.0),
        ]);
        let levels = levels(&rungs, &sla());
        let largest = largest_passing(&levels, &sla()).unwrap();
        assert_eq!((largest.concurrency, largest.requests_per_s), (320, Some(27.818)));
        let most = largest_throughput(&levels, &sla(), true).unwrap();
        assert_eq!((most.concurrency, most.requests_per_s), (256, Some(28.234)));
        assert!(most.reason.contains("256"));
        assert!(largest_passing(&[], &sla()).is_none() && largest_throughput(&[], &sla(), true).is_none());
    }

    #[test]
    fn power_is_largest_where_the_queue_begins() {
        // X = min(N, 40)/s with R = max(1, N/40) s: X/R is largest at 40.
        let rows: Vec<(u32, f64, f64)> = [10, 20, 40, 80, 160]
            .map(|n: u32| (n, f64::from(n.min(40)), 20.0))
            .into();
        let rungs = rungs(&rows);
        let point = efficient(&levels(&rungs, &sla())).unwrap();
        assert_eq!((point.concurrency, point.requests_per_s), (40, Some(40.0)));
        assert!(efficient(&levels(&rungs[..1], &sla())).is_none());
    }

    #[test]
    fn throughput_declines_only_beyond_its_noise() {
        let falling = rungs(&[(64, 30.0, 20.0), (128, 40.0, 20.0), (256, 36.0, 20.0)]);
        let found = decline(&curve(&levels(&falling, &sla()))).unwrap();
        assert_eq!((found.from, found.to), (128, 256));
        assert!((found.loss - 0.1).abs() < 1e-9);
        let flat = rungs(&[(64, 30.0, 20.0), (128, 40.0, 20.0), (256, 39.2, 20.0)]);
        assert!(decline(&curve(&levels(&flat, &sla()))).is_none());
    }
}
