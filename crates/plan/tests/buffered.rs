//! Sweeps of our own behind something that buffers the stream: TTFT, TPOT and ITL are refused, E2E and throughput are
//! answered.

#![expect(clippy::unwrap_used, reason = "a test may stop here")]

use plimsoll_plan::{Demand, answer, judge, trustworthy};
use plimsoll_run::answer::{KneeStatus, LimitStatus};
use plimsoll_run::document::Run;
use plimsoll_run::peak::Peak;
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::Sla;
use serde_json::json;

/// Rungs of a server that serves 40 at once, each in 2 s, as a buffering proxy shows them: the first token with the last.
fn rungs() -> Vec<RungReport> {
    [8_u32, 16, 32, 64, 128]
        .iter()
        .zip(1..)
        .map(|(level, order)| {
            let rate = f64::from(*level.min(&40)) / 2.0;
            let e2e = f64::from(*level) / rate * 1e3;
            let latency = |value: f64| {
                json!({"n": 1000, "mean": value, "p50": value, "p90": value, "p95": value, "p99": value, "max": value,
                       "ci95": {"p95": [0.99 * value, 1.01 * value]}})
            };
            serde_json::from_value(json!({
                "concurrency": level, "order": order, "stopped": "enough", "warmup_s": 5.0, "window_s": 60.0,
                "validity": {"verdict": "stream-buffered", "reasons": ["First and last token come together."]},
                "in_flight": {"mean": level, "max": level},
                "requests": {"sent": 1000, "ok": 1000, "failed": 0, "by_class": {}, "samples": {}, "retried": 0, "without_ttft": 0},
                "lengths": {"input": {"asked": 100.0, "actual": 100.0}, "output": {"asked": 100.0, "actual": 100.0},
                            "output_estimated": false, "finish_reasons": {}},
                "throughput": {"requests_per_s": rate, "output_tokens_per_s": 100.0 * rate, "total_tokens_per_s": null,
                               "goodput_per_s": null, "relative_se": 0.005, "requests_ci95": null, "output_tokens_ci95": null},
                "latency": {"ttft_ms": latency(e2e - 1.0), "tpot_ms": latency(0.01), "itl_ms": latency(0.01), "e2e_ms": latency(e2e)},
                "sla": [], "server": {"prefix_cache_hit_rate": null, "kv_cache_usage_max": null, "running_max": null,
                                      "waiting_max": null, "preemptions": null},
                "client": null,
            }))
            .unwrap()
        })
        .collect()
}

fn sla(terms: &[&str]) -> Sla {
    Sla {
        terms: terms.iter().map(|term| term.parse().unwrap()).collect(),
    }
}

fn demand() -> Demand {
    Demand {
        peak: Some(Peak::Rate(50.0)),
        ..Demand::default()
    }
}

/// A run of these rungs under this SLA.
fn run(sla: Sla) -> Run {
    let rungs = rungs();
    let plan = answer(&rungs, &sla, &demand());
    let mut run: Run = serde_json::from_value(json!({
        "schema": "plimsoll.run/1", "status": "complete", "started_at": "", "ended_at": null, "command": "", "version": "",
        "target": {"url": "", "dialect": "openai-chat", "model": null, "engine": null, "serving_config": {}, "fingerprint": null},
        "workload": {"input_tokens": "100", "output_tokens": "100", "streaming": true}, "workload_digest": "", "seed": 0,
        "sla": [], "peak": null, "price_per_hour": null, "currency": "USD",
        "client": {"cores": 1, "platform": "", "ceiling_tokens_per_s": null}, "notes": [], "rungs": [],
        "plan": plan,
    }))
    .unwrap();
    run.rungs = rungs;
    run.sla = sla;
    run
}

#[test]
fn e2e_is_answered_and_so_are_throughput_and_instances() {
    let run = run(sla(&["e2e.p95<=4s"]));
    let limit = run.plan.limit.as_ref().unwrap();
    assert_eq!(
        (limit.status, limit.interval[0]),
        (LimitStatus::Crossed, Some(64.0))
    );
    assert_eq!(limit.binding.as_deref(), Some("e2e.p95<=4000ms"));
    let best = run.plan.best.as_ref().unwrap();
    assert_eq!((best.concurrency, best.requests_per_s), (64, Some(20.0)));
    let knee = run.plan.knee.as_ref().unwrap();
    assert_eq!(knee.status, KneeStatus::Saturated);
    assert!((36.0..=64.0).contains(&knee.concurrency), "{knee:?}");
    assert_eq!(run.plan.efficient_point.as_ref().unwrap().concurrency, 32);
    // 50/s at less than 20/s each.
    assert_eq!(run.plan.instances.as_ref().unwrap().count, Some(3));
    assert!(run.plan.queue_onset.is_none(), "it rests on TTFT");
    assert!(
        run.plan
            .warnings
            .iter()
            .any(|warning| warning.contains("buffers the stream at 8, 16, 32, 64, 128")),
        "{:?}",
        run.plan.warnings
    );
    assert!(trustworthy(&run));
}

#[test]
fn what_needs_the_stream_is_refused() {
    for term in [
        "ttft.p95<=500ms",
        "tpot.p95<=50ms",
        "itl.mean<=50ms",
        "ttfat.p50<=1s",
    ] {
        let sla = sla(&[term]);
        for rung in rungs() {
            let outcome = &judge(&rung, &sla)[0];
            assert_eq!((outcome.observed, outcome.pass), (None, None), "{term}");
            assert!(outcome.note.as_ref().unwrap().contains("buffers"));
        }
        let run = run(sla);
        assert!(run.plan.limit.is_none() && run.plan.best.is_none(), "{term}");
        assert!(run.plan.largest_passing.is_none());
        assert_eq!(run.plan.instances.as_ref().unwrap().count, None);
        assert_eq!(run.plan.knee.as_ref().unwrap().status, KneeStatus::Saturated);
        assert!(!trustworthy(&run), "{term}");
    }
}

#[test]
fn one_refused_term_leaves_a_level_open_unless_another_fails() {
    let plan = run(sla(&["e2e.p95<=4s", "ttft.p95<=500ms"])).plan;
    // 128 fails by its E2E; whether a level below passes, TTFT would have to say.
    let limit = plan.limit.unwrap();
    assert_eq!((limit.concurrency, limit.interval), (None, [None, Some(128.0)]));
    assert!(plan.best.is_none());
    assert!(limit.reason.contains("could not be judged"), "{}", limit.reason);
}
