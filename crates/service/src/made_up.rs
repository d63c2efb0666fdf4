//! Runs made up for tests.

use plimsoll_plan::{Demand, answer, judge};
use plimsoll_run::document::{Client, Run, SCHEMA, Status};
use plimsoll_run::evidence::StopReason;
use plimsoll_run::rung::{
    Distribution, InFlight, Latencies, Lengths, RequestCounts, RungReport, ServerSide, Throughput,
};
use plimsoll_run::sla::Sla;
use plimsoll_run::target::{Dialect, Target};
use plimsoll_run::validity::Validity;
use plimsoll_run::workload::Workload;

/// A run over these levels, whose throughput grows up to level 8 and whose E2E grows with the level: 100 ms a request in
/// flight.
pub(crate) fn run(levels: &[u32], status: Status, sla: &[&str]) -> Run {
    let sla = Sla {
        terms: sla.iter().map(|term| term.parse().unwrap()).collect(),
    };
    let mut rungs: Vec<RungReport> = levels
        .iter()
        .zip(1..)
        .map(|(level, order)| rung(*level, order))
        .collect();
    for rung in &mut rungs {
        rung.sla = judge(rung, &sla);
    }
    let workload = Workload::default();
    Run {
        schema: SCHEMA.to_owned(),
        status,
        started_at: "2026-11-30T12:00:00Z".to_owned(),
        ended_at: None,
        command: "plimsoll sweep sim".to_owned(),
        version: "0.1.0".to_owned(),
        target: Target {
            url: "http://127.0.0.1:8000/v1/chat/completions".to_owned(),
            dialect: Dialect::OpenaiChat,
            custom: None,
            model: Some("m".to_owned()),
            engine: None,
            serving_config: std::collections::BTreeMap::new(),
            fingerprint: None,
        },
        workload_digest: workload.digest(),
        workload,
        seed: 42,
        plan: answer(&rungs, &sla, &Demand::default()),
        sla,
        peak: None,
        price_per_hour: None,
        currency: "USD".to_owned(),
        demand: None,
        resumed: 0,
        search: None,
        client: Client::default(),
        notes: vec![],
        rungs,
        verification: None,
        table: None,
    }
}

fn rung(level: u32, order: u32) -> RungReport {
    let rate = f64::from(level.min(8));
    let e2e = f64::from(level) * 100.0;
    RungReport {
        concurrency: level,
        order,
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
            requests_per_s: Some(rate),
            output_tokens_per_s: Some(rate * 100.0),
            relative_se: Some(0.01),
            ..Throughput::default()
        },
        latency: Latencies {
            e2e_ms: Some(Distribution {
                n: 1000,
                mean: Some(e2e),
                p50: Some(e2e),
                p90: Some(e2e),
                p95: Some(e2e),
                p99: Some(e2e),
                max: Some(e2e),
                ..Distribution::default()
            }),
            ..Latencies::default()
        },
        sla: vec![],
        server: ServerSide::default(),
        client: None,
    }
}
