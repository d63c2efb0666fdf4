//! Queue onset: where requests start to wait, read off a saturated rung.

use plimsoll_run::answer::QueueOnset;
use plimsoll_run::rung::RungReport;

use crate::levels::{Level, Standing};
use crate::wording::figure;

/// A rung beyond this many times the onset shows a queue; one up to the second is still without.
const QUEUED: f64 = 1.25;
const FREE: f64 = 1.05;

struct Row {
    level: f64,
    rate: f64,
    response: f64,
    ttft: f64,
}

fn row(level: u32, rung: &RungReport) -> Option<Row> {
    Some(Row {
        level: f64::from(level),
        rate: rung.throughput.requests_per_s.filter(|rate| *rate > 0.0)?,
        response: rung.latency.e2e_ms.as_ref()?.mean? / 1e3,
        ttft: rung.latency.ttft_ms.as_ref()?.mean? / 1e3,
    })
}

/// Where requests start to wait; `None` without a rung in which they do, or without one in which they do not.
///
/// Of the N requests in flight in a saturated rung, X (TTFT - TTFT_0) wait (Little's law on the queue), so that
/// N_sat = X (R - (TTFT - TTFT_0)) are served. TTFT_0, the TTFT without a queue, is the straight line through the two
/// highest rungs without one, read at N_sat itself.
#[must_use]
pub(crate) fn onset(levels: &[Level]) -> Option<QueueOnset> {
    let rows: Vec<Row> = levels
        .iter()
        .filter(|level| level.standing != Standing::Invalid && level.rung.validity.may_decide())
        .filter_map(|level| row(level.level, level.rung))
        .collect();
    let top = rows.last()?;
    let decoding = top.rate * (top.response - top.ttft).max(0.0);
    // From below: without any TTFT_0 only those that decode are being served. Each round may find that a further
    // rung is without a queue, and read TTFT_0 off it.
    let mut onset = decoding;
    for _ in 0..20 {
        let unqueued = unqueued(&rows, onset)?;
        onset = (decoding + top.rate * unqueued).min(top.level);
    }
    let waited = top.ttft - unqueued(&rows, onset)?;
    (top.level >= QUEUED * onset && onset >= 1.0 && waited > 0.0).then(|| QueueOnset {
        concurrency: onset,
        reason: format!(
            "At {} in flight the server works on about {} requests at once; the others wait, {} s on average.",
            figure(top.level),
            figure(onset),
            figure(waited)
        ),
    })
}

/// TTFT without a queue at the level `onset`; `None` without a rung below it.
fn unqueued(rows: &[Row], onset: f64) -> Option<f64> {
    let free = &rows[..rows.partition_point(|row| row.level <= FREE * onset)];
    match free {
        [] => None,
        [only] => Some(only.ttft),
        [.., before, last] => {
            let slope = (last.ttft - before.ttft) / (last.level - before.level);
            Some(last.ttft + slope.max(0.0) * (onset - last.level).max(0.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::rung::Distribution;
    use plimsoll_run::sla::Sla;

    use super::*;
    use crate::levels::levels;
    use crate::table::rung;

    /// Curve 01 of the public collection (docs.nvidia.com/nim/benchmarking/llm): level, output tokens/s, ITL ms, TTFT ms.
    const CURVE_01: [(u32, f64, f64, f64); 8] = [
        (1, 51.67, 18.58, 406.77),
        (5, 218.48, 21.83, 546.7),
        (25, 623.4, 38.75, 688.69),
        (50, 814.37, 59.73, 834.51),
        (100, 917.26, 92.91, 7996.25),
        (150, 920.9, 92.86, 34794.2),
        (200, 920.54, 93.06, 61680.2),
        (250, 920.12, 93.2, 88605.3),
    ];

    fn rungs(upto: u32) -> Vec<RungReport> {
        let mean = |mean: f64| {
            Some(Distribution {
                mean: Some(mean),
                ..Distribution::default()
            })
        };
        CURVE_01
            .iter()
            .filter(|row| row.0 <= upto)
            .map(|(level, tokens, itl, ttft)| {
                let mut rung = rung(*level, tokens / 500.0, *tokens);
                rung.latency.ttft_ms = mean(*ttft);
                rung.latency.e2e_ms = mean(ttft + itl * 499.0);
                rung
            })
            .collect()
    }

    #[test]
    fn the_onset_of_curve_01_is_the_one_worked_out_by_hand() {
        // 100 is too close to its onset of 87 to show much of a queue.
        for (upto, worked) in [(150, 87.3), (200, 87.4), (250, 87.5)] {
            let rungs = rungs(upto);
            let found = onset(&levels(&rungs, &Sla::default())).unwrap().concurrency;
            assert!((found - worked).abs() < 0.5, "{upto}: {found}");
        }
        assert!(onset(&levels(&rungs(50), &Sla::default())).is_none());
        assert!(onset(&[]).is_none());
    }
}
