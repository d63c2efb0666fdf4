//! Rungs made up for tests.

use plimsoll_run::evidence::StopReason;
use plimsoll_run::rung::{
    Distribution, InFlight, Latencies, Lengths, RequestCounts, RungReport, ServerSide, Throughput,
};
use plimsoll_run::validity::Validity;

/// A believable rung of a thousand successes with these rates.
pub(crate) fn rung(level: u32, requests_per_s: f64, output_tokens_per_s: f64) -> RungReport {
    RungReport {
        concurrency: level,
        order: 1,
        validity: Validity::valid(),
        stopped: StopReason::Enough,
        warmup_s: None,
        window_s: Some(60.0),
        in_flight: InFlight {
            mean: Some(f64::from(level)),
            max: Some(level),
        },
        requests: RequestCounts {
            sent: 1000,
            ok: 1000,
            ..RequestCounts::default()
        },
        lengths: Lengths::default(),
        throughput: Throughput {
            requests_per_s: Some(requests_per_s),
            output_tokens_per_s: Some(output_tokens_per_s),
            relative_se: Some(0.01),
            ..Throughput::default()
        },
        latency: Latencies::default(),
        sla: Vec::new(),
        server: ServerSide::default(),
        client: None,
    }
}

/// The same with a p95 TTFT, milliseconds.
pub(crate) fn with_ttft(mut rung: RungReport, p95: f64) -> RungReport {
    rung.latency.ttft_ms = Some(Distribution {
        n: 1000,
        mean: Some(p95),
        p95: Some(p95),
        p99: Some(p95),
        ..Distribution::default()
    });
    rung
}

/// The same with a mean E2E, milliseconds.
pub(crate) fn with_e2e(mut rung: RungReport, mean: f64) -> RungReport {
    rung.latency.e2e_ms = Some(Distribution {
        n: 1000,
        mean: Some(mean),
        ..Distribution::default()
    });
    rung
}
