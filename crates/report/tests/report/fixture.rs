//! A run after the sweep that AWS published of Nemotron-3-Nano-30B-A3B on ml.g7e.2xlarge (1,024 tokens in, 256
//! out): its output tokens per second by level, and latencies that follow from them by Little's law with 256
//! slots. Levels 16 to 320 decide; 512 was not delivered.

use std::collections::BTreeMap;

use plimsoll_run::answer::{Best, Cost, Instances, Knee, KneeStatus, Limit, LimitStatus, Plan, QueueOnset};
use plimsoll_run::document::{Client, Run, SCHEMA, Status};
use plimsoll_run::evidence::{ClientHealth, StampSource, StopReason};
use plimsoll_run::rung::{
    AskedActual, Distribution, InFlight, Latencies, Lengths, RequestCounts, RungReport, ServerSide,
    TermOutcome, Throughput, TimelineSecond,
};
use plimsoll_run::sla::{Sla, SlaTerm};
use plimsoll_run::target::{Dialect, Engine, Target};
use plimsoll_run::validity::{Validity, Verdict};
use plimsoll_run::workload::{TokenLength, Workload};

/// Published output tokens per second, by level, in the order in which this run measured them.
const PUBLISHED: [(u32, f64); 8] = [
    (64, 1433.4),
    (256, 2823.4),
    (512, 2782.3),
    (128, 2066.8),
    (320, 2781.8),
    (284, 2788.6),
    (32, 904.2),
    (16, 492.5),
];

/// Requests the engine runs at once.
const SLOTS: u32 = 256;

pub fn run() -> Run {
    let sla = Sla {
        terms: ["ttft.p95<=5s", "tpot.p95<=100ms", "error_rate<=0.01"]
            .map(|term| term.parse().unwrap())
            .to_vec(),
    };
    let workload = Workload {
        input_tokens: TokenLength::fixed(1024),
        output_tokens: TokenLength::fixed(256),
        streaming: true,
        ..Workload::default()
    };
    Run {
        schema: SCHEMA.to_owned(),
        status: Status::Complete,
        started_at: "2026-11-30T12:00:00Z".to_owned(),
        ended_at: Some("2026-11-30T12:14:10Z".to_owned()),
        command: "plimsoll sweep http://127.0.0.1:8000 --sla ttft.p95<=5s --sla tpot.p95<=100ms --peak 40rps"
            .to_owned(),
        version: "0.1.0".to_owned(),
        target: Target {
            url: "http://127.0.0.1:8000/v1/chat/completions".to_owned(),
            dialect: Dialect::OpenaiChat,
            custom: None,
            model: Some("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16".to_owned()),
            engine: Some(Engine {
                name: Some("vllm".to_owned()),
                version: Some("0.19.1".to_owned()),
            }),
            serving_config: BTreeMap::from([
                ("max_model_len".to_owned(), 10_240.into()),
                ("max_num_seqs".to_owned(), SLOTS.into()),
            ]),
            fingerprint: None,
        },
        workload_digest: workload.digest(),
        workload,
        seed: 42,
        rungs: PUBLISHED
            .iter()
            .zip(1..)
            .map(|((level, tokens_per_s), order)| rung(&sla, *level, order, *tokens_per_s))
            .collect(),
        sla,
        peak: Some("40rps".parse().unwrap()),
        demand: None,
        resumed: 0,
        search: None,
        price_per_hour: Some(4.2),
        currency: "USD".to_owned(),
        client: Client {
            cores: 8,
            platform: "linux x86_64".to_owned(),
            ceiling_tokens_per_s: Some(410_000.0),
        },
        notes: vec!["Prompts were calibrated once against the server's own prompt_tokens.".to_owned()],
        plan: plan(),
        verification: None,
        table: None,
    }
}

fn plan() -> Plan {
    Plan {
        best: Some(Best {
            concurrency: 256,
            interval: [Some(256.0), Some(284.0)],
            requests_per_s: Some(11.03),
            output_tokens_per_s: Some(2823.4),
            reason: "Largest throughput among the levels whose every SLA term passes.".to_owned(),
        }),
        limit: Some(Limit {
            concurrency: Some(284),
            estimated: false,
            interval: [Some(284.0), Some(320.0)],
            status: LimitStatus::Crossed,
            binding: Some("ttft.p95".to_owned()),
            reason: "Requests wait for a slot above 256 in flight, so TTFT p95 passes its limit of 5.00 s."
                .to_owned(),
        }),
        knee: Some(Knee {
            concurrency: 221.4,
            interval: [Some(205.0), Some(236.0)],
            status: KneeStatus::Saturated,
            plateau: Some(2785.0),
            reason: "Beyond it throughput stays within 5 % of its plateau.".to_owned(),
        }),
        queue_onset: Some(QueueOnset {
            concurrency: 257.0,
            reason: "From the waiting time at level 320.".to_owned(),
        }),
        bound: None,
        instances: Some(Instances {
            count: Some(6),
            per_instance_per_s: Some(9.59),
            safe_fraction: Some(0.88),
            headroom: Some(0.166),
            spares: 1,
            naive_count: Some(4),
            peak_per_s: Some(40.0),
            reason: "5 replicas carry the peak and 1 more stands by.".to_owned(),
        }),
        cost: Some(Cost {
            per_million_output_tokens: Some(0.475),
            per_million_at_mean_load: None,
            mean_load: None,
            fleet_per_hour: Some(25.2),
            currency: "USD".to_owned(),
        }),
        warnings: vec![
            "Scaling from one replica to many is assumed to lose nothing; name your own efficiency."
                .to_owned(),
        ],
        ..Plan::default()
    }
}

fn rung(sla: &Sla, level: u32, order: u32, tokens_per_s: f64) -> RungReport {
    let requests_per_s = tokens_per_s / 256.0;
    let running = f64::from(level.min(SLOTS));
    let prefill = 90.0 + f64::from(level.min(SLOTS)) * 3.5;
    let waiting = f64::from(level.saturating_sub(SLOTS)) / requests_per_s * 1e3;
    let ttft = distribution(prefill + waiting, 0.25);
    let e2e_ms = f64::from(level) / requests_per_s * 1e3;
    let tpot = distribution((running / requests_per_s * 1e3 - prefill) / 255.0, 0.03);
    let sent = 1024;
    let failed = if level == 512 { 3 } else { 0 };
    let outcome = |term: &SlaTerm| {
        let observed = match term.to_string().split('.').next() {
            Some("ttft") => ttft.p95,
            Some("tpot") => tpot.p95,
            _ => Some(failed as f64 / sent as f64),
        };
        TermOutcome {
            term: *term,
            observed,
            pass: observed.map(|observed| term.admits(observed)),
            interval: None,
            note: None,
        }
    };
    let (validity, in_flight) = match level {
        512 => (
            Validity {
                verdict: Verdict::LoadNotDelivered,
                reasons: vec![
                    "470 of 512 requests were in flight; raise the file limit with ulimit -n 4096."
                        .to_owned(),
                ],
            },
            470.2,
        ),
        16 => (
            Validity {
                verdict: Verdict::TooFewSamples,
                reasons: vec![
                    "p95 from 120 requests; hold the level for longer with --rung-time.".to_owned(),
                ],
            },
            16.0,
        ),
        level => (Validity::valid(), f64::from(level) - 0.3),
    };
    RungReport {
        concurrency: level,
        order,
        validity,
        stopped: StopReason::Enough,
        warmup_s: Some(20.0),
        window_s: Some(60.0),
        in_flight: InFlight {
            mean: Some(in_flight),
            max: Some(level),
        },
        requests: RequestCounts {
            sent,
            ok: sent - failed,
            failed,
            by_class: if failed > 0 {
                BTreeMap::from([("throttled".to_owned(), failed)])
            } else {
                BTreeMap::new()
            },
            samples: if failed > 0 {
                BTreeMap::from([("throttled".to_owned(), "503 queue is full".to_owned())])
            } else {
                BTreeMap::new()
            },
            retried: 0,
            without_ttft: 0,
        },
        lengths: Lengths {
            input: AskedActual {
                asked: Some(1024.0),
                actual: Some(1024.0),
            },
            output: AskedActual {
                asked: Some(256.0),
                actual: Some(256.0),
            },
            output_estimated: false,
            finish_reasons: BTreeMap::from([("length".to_owned(), sent - failed)]),
        },
        throughput: Throughput {
            requests_per_s: Some(requests_per_s),
            output_tokens_per_s: Some(tokens_per_s),
            total_tokens_per_s: Some(requests_per_s * 1280.0),
            goodput_per_s: None,
            relative_se: Some(0.01),
            requests_ci95: Some([Some(requests_per_s * 0.97), Some(requests_per_s * 1.03)]),
            output_tokens_ci95: Some([Some(tokens_per_s * 0.97), Some(tokens_per_s * 1.03)]),
        },
        latency: Latencies {
            ttft_ms: Some(ttft.clone()),
            ttfat_ms: None,
            tpot_ms: Some(tpot.clone()),
            itl_ms: Some(tpot.clone()),
            e2e_ms: Some(distribution(e2e_ms, 0.04)),
        },
        sla: sla.terms.iter().map(outcome).collect(),
        server: ServerSide::default(),
        client: Some(ClientHealth {
            stamps: StampSource::Kernel,
            busiest_thread_cpu: Some(0.12),
            read_delay: None,
        }),
    }
}

/// A distribution around `centre` milliseconds whose p95 lies `spread` above it.
fn distribution(centre: f64, spread: f64) -> Distribution {
    Distribution {
        n: 1024,
        mean: Some(centre * 1.01),
        p50: Some(centre),
        p90: Some(centre * (1.0 + spread * 0.8)),
        p95: Some(centre * (1.0 + spread)),
        p99: Some(centre * (1.0 + spread * 1.6)),
        max: Some(centre * (1.0 + spread * 2.5)),
        ci95: BTreeMap::from([(
            "p95".to_owned(),
            [
                Some(centre * (1.0 + spread * 0.9)),
                Some(centre * (1.0 + spread * 1.1)),
            ],
        )]),
        counting_failures: BTreeMap::new(),
    }
}

/// A timeline for each rung: 20 s of warm-up, a window of 60 s, and a drain.
pub fn timelines(run: &Run) -> Vec<(u32, Vec<TimelineSecond>)> {
    run.rungs
        .iter()
        .map(|rung| {
            let level = f64::from(rung.concurrency);
            let tokens = rung.throughput.output_tokens_per_s.unwrap_or(0.0);
            let ttft = rung.latency.ttft_ms.as_ref().and_then(|ttft| ttft.p50);
            let seconds = (0..90)
                .map(|second| {
                    let ramp = (f64::from(second + 1) / 10.0).min(1.0);
                    let drain = if second >= 80 {
                        f64::from(90 - second) / 10.0
                    } else {
                        1.0
                    };
                    // A ripple that repeats, so that the fixture never changes.
                    let ripple = 1.0 + 0.04 * (f64::from(second) * 1.7).sin();
                    TimelineSecond {
                        second,
                        in_window: (20..80).contains(&second),
                        in_flight: level * ramp * drain,
                        sent: 10,
                        ok: 10,
                        failed: 0,
                        output_tokens: tokens * ramp * drain * ripple,
                        ttft_p50_ms: ttft.filter(|_| second < 80).map(|ttft| ttft * ripple),
                        e2e_p50_ms: None,
                    }
                })
                .collect();
            (rung.order, seconds)
        })
        .collect()
}
