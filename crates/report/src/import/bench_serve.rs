//! Result JSON of `vllm bench serve` (before: `benchmark_serving.py`) and of SGLang's `bench_serving`: one level a
//! document.

use plimsoll_run::rung::Distribution;
use plimsoll_run::sla::Stat;
use serde_json::Value;

use super::Content;
use super::json::{at, count, level, number, text};
use super::row::{E2E, ITL, Row, TPOT, TTFT, set};

pub(super) fn is(document: &Value) -> bool {
    document.get("request_throughput").is_some_and(Value::is_number) && document.get("completed").is_some()
}

fn distribution(document: &Value, metric: &str) -> Result<Distribution, String> {
    let mut known = Distribution::default();
    for (name, kind) in Stat::NAMES {
        let name = if kind == Stat::P50 { "median" } else { name };
        let mut value = number(document, &[&format!("{name}_{metric}_ms")])?;
        if value.is_none() && kind == Stat::P50 {
            value = number(document, &[&format!("p50_{metric}_ms")])?;
        }
        set(&mut known, kind, value);
    }
    Ok(known)
}

pub(super) fn read(document: &Value) -> Result<Content, String> {
    let rate = number(document, &["request_throughput"])?;
    let ok = count(document, &["completed"])?;
    // Only newer versions count failures; without them the prompts that did not complete have failed.
    let failed = match count(document, &["failed"])? {
        Some(failed) => Some(failed),
        None => match (count(document, &["num_prompts"])?, ok) {
            (Some(prompts), Some(ok)) if prompts >= ok => Some(prompts - ok),
            _ => None,
        },
    };
    let each = |total: &str| -> Result<Option<f64>, String> {
        Ok(match (number(document, &[total])?, ok.filter(|ok| *ok > 0)) {
            (Some(total), Some(ok)) => Some(total / ok as f64),
            _ => None,
        })
    };
    let mut row = Row {
        requests_per_s: rate,
        output_tokens_per_s: number(document, &["output_throughput"])?,
        total_tokens_per_s: number(document, &["total_token_throughput"])?
            .or(number(document, &["total_throughput"])?),
        goodput_per_s: number(document, &["request_goodput"])?,
        requests: ok.map(|ok| ok + failed.unwrap_or(0)),
        failed,
        // SGLang's own: the sum of all latencies over the duration.
        in_flight: number(document, &["concurrency"])?,
        input_tokens: each("total_input_tokens")?,
        output_tokens: each("total_output_tokens")?,
        window_s: number(document, &["duration"])?,
        counted: true,
        ..Row::default()
    };
    for (place, metric) in [(TTFT, "ttft"), (TPOT, "tpot"), (ITL, "itl"), (E2E, "e2el")] {
        row.latency[place] = distribution(document, metric)?;
    }
    if row.latency[E2E] == Distribution::default() {
        row.latency[E2E] = distribution(document, "e2e_latency")?;
    }
    let mut remarks = Vec::new();
    let asked = number(document, &["max_concurrency"])?;
    row.level = match asked {
        Some(asked) => level(asked)?,
        None => {
            let paced = at(document, &["request_rate"]).is_some_and(Value::is_number);
            let mean = row
                .in_flight
                .or_else(|| Some(rate? * row.latency[E2E].mean? / 1e3))
                .filter(|_| paced)
                .ok_or(
                    "no `max_concurrency`, so the level is unknown; run the benchmark with --max-concurrency",
                )?;
            row.counted = false;
            remarks.push(format!(
                "Requests were sent at a rate: the level is the mean in flight, {mean:.0}."
            ));
            level(mean.round().max(1.0))?
        }
    };
    row.place = format!("Level {}", row.level);
    let sglang = row.in_flight.is_some() || document.get("mean_e2e_latency_ms").is_some();
    Ok(Content {
        format: if sglang {
            "SGLang bench_serving result"
        } else {
            "vllm bench serve result"
        },
        rows: vec![row],
        model: text(document, &["model_id"]),
        remarks,
        ..Content::default()
    })
}
