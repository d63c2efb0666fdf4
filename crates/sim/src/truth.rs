//! The engine's own truth: what each level gives when it is held for very long.
//!
//! Computed plainly, without the conduct of a rung or anything of the analysis, so that both can be judged by it.

use std::time::Duration;

use plimsoll_run::workload::Workload;

use crate::closed_loop::{ClosedLoop, Exchange};
use crate::engine::SubmitError;
pub use crate::prompts::HeavyTail;
use crate::prompts::{Asking, mix};
use crate::spec::EngineSpec;

/// Some statistics of a latency, milliseconds; percentiles by nearest rank.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LatencyTruth {
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
}

/// What a level gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TruthPoint {
    /// Requests in flight.
    pub level: u32,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Reply tokens per second.
    pub output_tokens_per_s: f64,
    /// Send to first token.
    pub ttft: LatencyTruth,
    /// (last token - first token) / (output tokens - 1), of replies with two tokens and more.
    pub tpot: LatencyTruth,
    /// Send to last token.
    pub e2e: LatencyTruth,
    /// Requests that the latencies were taken from.
    pub requests: usize,
}

/// Requests that a level is held for, at least.
const REQUESTS: usize = 4_000;

/// What each of these levels gives with this workload, held until 4,000 requests and 20 response times have passed.
///
/// # Errors
/// When the engine cannot hold a request of this workload.
pub fn truth(
    spec: &EngineSpec,
    workload: &Workload,
    levels: &[u32],
    seed: u64,
) -> Result<Vec<TruthPoint>, SubmitError> {
    let asking = Asking::from(workload);
    levels
        .iter()
        .map(|level| point(spec, &asking, *level, REQUESTS, mix(seed, u64::from(*level))))
        .collect()
}

/// The same with replies of a heavy tail, held until `requests` requests have passed.
///
/// # Errors
/// When the engine cannot hold a request of this workload.
pub fn truth_with(
    spec: &EngineSpec,
    workload: &Workload,
    tail: HeavyTail,
    levels: &[u32],
    requests: usize,
    seed: u64,
) -> Result<Vec<TruthPoint>, SubmitError> {
    let asking = Asking::from(workload).with_tail(tail);
    levels
        .iter()
        .map(|level| point(spec, &asking, *level, requests, mix(seed, u64::from(*level))))
        .collect()
}

fn point(
    spec: &EngineSpec,
    asking: &Asking,
    level: u32,
    requests: usize,
    seed: u64,
) -> Result<TruthPoint, SubmitError> {
    let level = level.max(1);
    // Find R roughly, from a herd's first requests.
    let mut scout = ClosedLoop::new(spec, asking.clone(), seed, &vec![Duration::ZERO; level as usize]);
    let mut now = Duration::ZERO;
    let mut first_round = Vec::new();
    while first_round.len() < level as usize {
        now += Duration::from_millis(100);
        first_round.extend(scout.advance(now)?);
    }
    let response = first_round
        .iter()
        .filter_map(|exchange| Some(exchange.ended()? - exchange.sent))
        .sum::<Duration>()
        / u32::try_from(first_round.len()).unwrap_or(u32::MAX);

    // Hold the level, its starts spread over R, for 3 R unobserved and then for the window.
    let starts: Vec<Duration> = (0..level)
        .map(|slot| response.mul_f64(f64::from(slot) / f64::from(level)))
        .collect();
    let mut users = ClosedLoop::new(spec, asking.clone(), seed, &starts);
    let opens = response * 4;
    users.advance(opens)?;
    let rounds = (requests as f64 / f64::from(level)).max(20.0);
    let closes = opens + response.mul_f64(rounds);
    let tokens_before = users.tokens();
    let mut all = users.advance(closes)?;
    let seconds = (closes - opens).as_secs_f64();
    let tokens = users.tokens() - tokens_before;
    let completed = all.len();
    // Load goes on until the window's requests have ended.
    let mut now = closes;
    while users.in_flight().any(|exchange| exchange.sent < closes) {
        now += response / 10;
        all.extend(users.advance(now)?);
    }
    let window: Vec<&Exchange> = all
        .iter()
        .filter(|exchange| exchange.sent >= opens && exchange.sent < closes)
        .collect();
    let latency = |of: &dyn Fn(&Exchange) -> Option<Duration>| {
        summary(window.iter().filter_map(|exchange| of(exchange)).collect())
    };
    Ok(TruthPoint {
        level,
        requests_per_s: completed as f64 / seconds,
        output_tokens_per_s: tokens as f64 / seconds,
        ttft: latency(&|exchange| Some(*exchange.tokens.first()? - exchange.sent)),
        tpot: latency(&|exchange| {
            let gaps = exchange.output_tokens - 1;
            let span = *exchange.tokens.last()? - *exchange.tokens.first()?;
            (gaps > 0).then(|| span / gaps)
        }),
        e2e: latency(&|exchange| Some(exchange.ended()? - exchange.sent)),
        requests: window.len(),
    })
}

fn summary(mut values: Vec<Duration>) -> LatencyTruth {
    values.sort_unstable();
    let ms = |value: Duration| value.as_secs_f64() * 1e3;
    let rank = |share: f64| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values.get(rank.saturating_sub(1)).copied().map_or(0.0, ms)
    };
    LatencyTruth {
        mean_ms: values.iter().map(|value| ms(*value)).sum::<f64>() / values.len().max(1) as f64,
        p50_ms: rank(0.50),
        p95_ms: rank(0.95),
        p99_ms: rank(0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::{preset, quick};

    #[test]
    fn nemotron_meets_the_aws_sweep() {
        let published = [
            (16, 492.5),
            (32, 904.2),
            (64, 1433.4),
            (128, 2066.8),
            (256, 2823.4),
            (284, 2788.6),
            (320, 2781.8),
            (512, 2782.3),
        ];
        let preset = preset("sim:nemotron-3-nano@ml.g7e.2xlarge").unwrap();
        let levels = published.map(|(level, _)| level);
        let ours = truth(&preset.spec, &preset.workload, &levels, 1).unwrap();
        for (point, (level, tokens)) in ours.iter().zip(published) {
            eprintln!("{level} {tokens} {point:?}");
            let error = point.output_tokens_per_s / tokens - 1.0;
            assert!(
                error.abs() < 0.08,
                "{level}: {} against {tokens}",
                point.output_tokens_per_s
            );
        }
    }

    #[test]
    fn littles_law_holds() {
        let preset = quick();
        for point in truth(&preset.spec, &preset.workload, &[1, 30, 100, 150, 400], 1).unwrap() {
            let in_flight = point.requests_per_s * point.e2e.mean_ms / 1e3;
            assert!(
                (in_flight / f64::from(point.level) - 1.0).abs() < 0.02,
                "{point:?}"
            );
        }
    }

    /// What the quick preset promises; see [`quick`].
    #[test]
    fn the_quick_preset_keeps_its_promises() {
        let preset = quick();
        let levels = [64, 128, 160, 200, 256, 1024];
        let points = truth(&preset.spec, &preset.workload, &levels, 1).unwrap();
        for point in &points {
            eprintln!(
                "{:5} {:7.1} {:7.1} ttft {:7.1} tpot {:6.2} e2e {:7.1}",
                point.level,
                point.requests_per_s,
                point.output_tokens_per_s,
                point.ttft.p95_ms,
                point.tpot.p95_ms,
                point.e2e.mean_ms
            );
            assert!(point.output_tokens_per_s < 8_000.0);
        }
        let meets = |point: &TruthPoint| point.ttft.p95_ms <= 250.0 && point.tpot.p95_ms <= 30.0;
        assert!(meets(&points[0]) && meets(&points[1]) && !meets(&points[4]));
        assert!((250.0..350.0).contains(&points[0].e2e.mean_ms));
        assert!(points[5].e2e.mean_ms <= 3_000.0);
    }
}
