//! GuideLLM's benchmarks JSON (shapes of versions 0.3 to 0.6).
//!
//! Its `inter_token_latency_ms` is one value a request, (last - first token)/(tokens - 1): our TPOT. Its
//! `time_per_output_token_ms` includes the first token and is left out. `request_latency` is in seconds.

use plimsoll_run::rung::Distribution;
use plimsoll_run::sla::Stat;
use serde_json::Value;

use super::Content;
use super::json::{at, count, level, number, text};
use super::row::{E2E, Row, TPOT, TTFAT, TTFT, set};

pub(super) fn is(document: &Value) -> bool {
    at(document, &["benchmarks"])
        .and_then(Value::as_array)
        .is_some_and(|benchmarks| {
            benchmarks
                .iter()
                .all(|benchmark| benchmark.get("metrics").is_some())
        })
}

/// Of the successful requests; some fixtures and older versions have no split by status.
fn successes<'v>(metrics: &'v Value, metric: &str) -> Option<&'v Value> {
    let metric = at(metrics, &[metric])?;
    if metric.get("successful").is_some() {
        at(metric, &["successful"])
    } else {
        Some(metric)
    }
}

fn mean(metrics: &Value, metric: &str) -> Result<Option<f64>, String> {
    match successes(metrics, metric) {
        Some(found) => number(found, &["mean"]).map_err(|problem| format!("{metric}: {problem}")),
        None => Ok(None),
    }
}

fn distribution(metrics: &Value, metric: &str, factor: f64) -> Result<Distribution, String> {
    let mut known = Distribution::default();
    let Some(found) = successes(metrics, metric) else {
        return Ok(known);
    };
    // Without a sample GuideLLM writes zeros.
    if at(found, &["count"]).and_then(Value::as_f64) == Some(0.0) {
        return Ok(known);
    }
    for (name, kind) in Stat::NAMES {
        let value = match kind {
            Stat::Mean | Stat::Max => number(found, &[name])?,
            _ => match number(found, &["percentiles", name])? {
                Some(value) => Some(value),
                None if kind == Stat::P50 => number(found, &["median"])?,
                None => number(found, &[name])?,
            },
        };
        set(&mut known, kind, value.map(|value| value * factor));
    }
    Ok(known)
}

pub(super) fn read(document: &Value) -> Result<Content, String> {
    let benchmarks = at(document, &["benchmarks"]).and_then(Value::as_array);
    let (mut rows, mut remarks) = (Vec::new(), Vec::new());
    for (index, benchmark) in benchmarks.into_iter().flatten().enumerate() {
        let place = format!("benchmarks[{index}]");
        rows.push(
            row(benchmark, place.clone(), &mut remarks).map_err(|problem| format!("{place}: {problem}"))?,
        );
    }
    let model = [
        &["args", "model"][..],
        &["args", "backend_kwargs", "model"],
        &["args", "model_name"],
    ]
    .into_iter()
    .find_map(|path| text(document, path))
    .or_else(|| {
        let first = at(document, &["benchmarks"])?.get(0)?;
        text(first, &["config", "backend", "model"]).or_else(|| text(first, &["worker", "backend_model"]))
    });
    Ok(Content {
        format: "GuideLLM benchmarks",
        rows,
        model,
        remarks,
        ..Content::default()
    })
}

fn row(benchmark: &Value, place: String, remarks: &mut Vec<String>) -> Result<Row, String> {
    let metrics = at(benchmark, &["metrics"]).ok_or("no `metrics`")?;
    let in_flight = match at(metrics, &["request_concurrency", "total"]) {
        Some(total) => number(total, &["mean"])?,
        None => mean(metrics, "request_concurrency")?,
    };
    let totals = [
        at(metrics, &["request_totals"]),
        at(benchmark, &["request_totals"]),
        at(benchmark, &["scheduler_metrics", "requests_made"]),
        at(benchmark, &["run_stats", "requests_made"]),
    ]
    .into_iter()
    .flatten()
    .next();
    // Incomplete requests were cut off by the end of the benchmark, and are neither.
    let (ok, failed) = match totals {
        Some(totals) => (count(totals, &["successful"])?, count(totals, &["errored"])?),
        None => (None, None),
    };
    let (concurrency, held) = strategy(benchmark, in_flight)?;
    if !held {
        remarks.push(format!(
            "{place} was sent at a rate: its level is the mean in flight, {concurrency}."
        ));
    }
    let mut row = Row {
        place,
        level: level(concurrency)?,
        requests_per_s: mean(metrics, "requests_per_second")?,
        output_tokens_per_s: mean(metrics, "output_tokens_per_second")?,
        total_tokens_per_s: mean(metrics, "tokens_per_second")?,
        requests: ok.map(|ok| ok + failed.unwrap_or(0)),
        failed,
        in_flight,
        input_tokens: mean(metrics, "prompt_token_count")?,
        output_tokens: mean(metrics, "output_token_count")?,
        window_s: number(benchmark, &["duration"])?,
        counted: held,
        ..Row::default()
    };
    for (place, metric, factor) in [
        (TTFT, "time_to_first_token_ms", 1.0),
        (TTFAT, "time_to_first_output_token_ms", 1.0),
        (TPOT, "inter_token_latency_ms", 1.0),
        (E2E, "request_latency", 1e3),
    ] {
        row.latency[place] = distribution(metrics, metric, factor)?;
    }
    if row.latency[E2E] == Distribution::default() {
        row.latency[E2E] = distribution(metrics, "request_latency_ms", 1.0)?;
    }
    Ok(row)
}

/// The level, and whether it was held (not the outcome of a rate).
fn strategy(benchmark: &Value, in_flight: Option<f64>) -> Result<(f64, bool), String> {
    let strategy = at(benchmark, &["config", "strategy"]).or_else(|| at(benchmark, &["args", "strategy"]));
    let kind = strategy
        .and_then(|strategy| text(strategy, &["type_"]))
        .or_else(|| text(benchmark, &["args", "rate_type"]))
        .unwrap_or_default();
    let field = |name: &str| strategy.map_or(Ok(None), |strategy| number(strategy, &[name]));
    if kind == "synchronous" {
        return Ok((1.0, true));
    }
    if let Some(streams) = field("streams")? {
        return Ok((streams, true));
    }
    if kind == "throughput"
        && let Some(most) = field("max_concurrency")?
    {
        return Ok((most, true));
    }
    in_flight
        .map(|mean| (mean.round().max(1.0), false))
        .ok_or_else(|| "neither `streams` nor a request_concurrency: its level is unknown".to_owned())
}
