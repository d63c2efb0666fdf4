//! What NVIDIA's AIPerf writes (shapes of version 0.13, and of earlier ones where they differ).
//!
//! Its `inter_token_latency` is one value a request, (latency - TTFT)/(tokens - 1): our TPOT. `inter_chunk_latency` are
//! the gaps themselves: our ITL.

use plimsoll_run::rung::Distribution;
use plimsoll_run::sla::{Sla, SlaTerm, Stat};
use serde_json::Value;

use super::Content;
use super::json::{at, count, level, number, text};
use super::row::{E2E, ITL, Row, TPOT, TTFAT, TTFT, set};

pub(super) fn is_sweep(document: &Value) -> bool {
    document.get("per_combination_metrics").is_some()
}

pub(super) fn is_search(document: &Value) -> bool {
    document.get("iterations").is_some_and(Value::is_array)
        && at(document, &["config", "search_space"]).is_some()
}

pub(super) fn is_profile(document: &Value) -> bool {
    let records = document.get("records").unwrap_or(document);
    document.get("input_config").is_some()
        && (records.get("request_throughput").is_some() || records.get("request_latency").is_some())
}

/// A statistic of a metric: `request_latency.avg`, or `request_latency_avg.mean` in older aggregates.
fn stat(metrics: &Value, metric: &str, name: &str) -> Result<Option<f64>, String> {
    let nested = number(metrics, &[metric, name])?;
    if nested.is_some() {
        return Ok(nested);
    }
    number(metrics, &[&format!("{metric}_{name}"), "mean"])
}

fn distribution(metrics: &Value, metric: &str) -> Result<Distribution, String> {
    let mut found = Distribution::default();
    for (name, kind) in Stat::NAMES {
        let name = if kind == Stat::Mean { "avg" } else { name };
        set(&mut found, kind, stat(metrics, metric, name)?);
    }
    Ok(found)
}

fn row(metrics: &Value, concurrency: f64, place: String) -> Result<Row, String> {
    let avg = |metric: &str| stat(metrics, metric, "avg");
    let ok = avg("request_count")?;
    let failed = avg("error_request_count")?;
    let mut row = Row {
        place,
        level: level(concurrency)?,
        requests_per_s: avg("request_throughput")?,
        output_tokens_per_s: avg("output_token_throughput")?,
        total_tokens_per_s: avg("total_token_throughput")?,
        goodput_per_s: avg("goodput")?,
        error_rate: avg("request_error_rate")?.map(|percent| (percent / 100.0).min(1.0)),
        in_flight: avg("effective_concurrency")?,
        input_tokens: avg("input_sequence_length")?,
        output_tokens: avg("output_sequence_length")?.or(avg("output_token_count")?),
        window_s: avg("benchmark_duration")?,
        counted: true,
        ..Row::default()
    };
    // `request_count` are the successes; without a count of errors their share tells it.
    row.failed = failed
        .map(|failed| failed.round() as u64)
        .or_else(|| match (ok, row.error_rate) {
            (Some(ok), Some(share)) if share < 1.0 => Some((ok * share / (1.0 - share)).round() as u64),
            _ => None,
        });
    row.requests = ok.map(|ok| ok.round() as u64 + row.failed.unwrap_or(0));
    for (place, metric) in [
        (TTFT, "time_to_first_token"),
        (TTFAT, "time_to_first_output_token"),
        (TPOT, "inter_token_latency"),
        (ITL, "inter_chunk_latency"),
        (E2E, "request_latency"),
    ] {
        row.latency[place] = distribution(metrics, metric)?;
    }
    Ok(row)
}

/// `profile_export_aiperf.json`: one level.
pub(super) fn profile(document: &Value) -> Result<Content, String> {
    let records = document.get("records").unwrap_or(document);
    let phases = at(document, &["input_config", "phases"]).and_then(Value::as_array);
    let concurrency = match varied(at(document, &["run_info", "variation_values"])) {
        Some(level) => Some(level),
        None => phases
            .into_iter()
            .flatten()
            .filter(|phase| text(phase, &["kind"]).is_none_or(|kind| kind == "profiling"))
            .find_map(|phase| phase.get("concurrency").and_then(Value::as_f64)),
    };
    let concurrency = match concurrency {
        Some(level) => Some(level),
        None => number(document, &["input_config", "loadgen", "concurrency"])?,
    }
    .ok_or("no concurrency in `input_config`: run aiperf with --concurrency, as a rate alone is no level")?;
    let remarks = if at(document, &["was_cancelled"]).and_then(Value::as_bool) == Some(true) {
        vec![format!("The AIPerf run of level {concurrency} was cancelled.")]
    } else {
        Vec::new()
    };
    let model = at(document, &["input_config", "models", "items"])
        .and_then(|items| text(items.get(0)?, &["name"]))
        .or_else(|| {
            let names = at(document, &["input_config", "endpoint", "model_names"])?;
            names.get(0)?.as_str().map(str::to_owned)
        });
    Ok(Content {
        format: "AIPerf profile",
        rows: vec![row(records, concurrency, format!("Level {concurrency}"))?],
        model,
        streaming: at(document, &["input_config", "endpoint", "streaming"]).and_then(Value::as_bool),
        remarks,
        ..Content::default()
    })
}

/// The concurrency among the values that a sweep varies: `concurrency`, `phases.profiling.concurrency`.
fn varied(values: Option<&Value>) -> Option<f64> {
    values?
        .as_object()?
        .iter()
        .find(|(name, _)| name.rsplit('.').next() == Some("concurrency"))
        .and_then(|(_, value)| value.as_f64())
}

/// `profile_export_aiperf_sweep.json`.
pub(super) fn sweep(document: &Value) -> Result<Content, String> {
    let combinations = at(document, &["per_combination_metrics"])
        .and_then(Value::as_array)
        .ok_or("`per_combination_metrics` is not a list")?;
    let mut rows = Vec::new();
    for (index, combination) in combinations.iter().enumerate() {
        let place = format!("per_combination_metrics[{index}]");
        let concurrency = varied(at(combination, &["parameters"]))
            .ok_or_else(|| format!("{place} varies no concurrency: only sweeps of it can be read"))?;
        let metrics = at(combination, &["metrics"]).ok_or_else(|| format!("{place} has no `metrics`"))?;
        rows.push(row(metrics, concurrency, place.clone()).map_err(|problem| format!("{place}: {problem}"))?);
    }
    let mut remarks = Vec::new();
    let failed = at(document, &["failed_runs"])
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    if failed > 0 {
        remarks.push(format!(
            "{failed} runs of the AIPerf sweep failed and are not in it."
        ));
    }
    if count(document, &["metadata", "num_trials_per_value"])?.is_some_and(|trials| trials > 1) {
        remarks
            .push("AIPerf repeated each level; its percentiles are means over the repetitions.".to_owned());
    }
    Ok(Content {
        format: "AIPerf sweep",
        rows,
        remarks,
        ..Content::default()
    })
}

/// `search_history.json`: the objective at each level tried, and whether AIPerf's own filters passed.
pub(super) fn search(document: &Value) -> Result<Content, String> {
    let objective = |key: &str| {
        at(document, &["config", "objectives"])
            .and_then(|objectives| objectives.get(0))
            .and_then(|first| text(first, &[key]))
    };
    let (metric, kind) = (objective("metric").unwrap_or_default(), objective("stat"));
    let iterations = at(document, &["iterations"])
        .and_then(Value::as_array)
        .ok_or("`iterations` is not a list")?;
    let mut rows = Vec::new();
    for (index, iteration) in iterations.iter().enumerate() {
        let place = format!("iterations[{index}]");
        let concurrency = varied(at(iteration, &["variation_values"]))
            .ok_or_else(|| format!("{place} varies no concurrency: only searches of it can be read"))?;
        let value = at(iteration, &["objective_values"])
            .and_then(|values| values.get(0))
            .and_then(Value::as_f64);
        if value.is_some_and(|value| value < 0.0) {
            return Err(format!("{place}: objective below 0"));
        }
        let mut row = Row {
            place: place.clone(),
            level: level(concurrency).map_err(|problem| format!("{place}: {problem}"))?,
            counted: true,
            ..Row::default()
        };
        match (metric.as_str(), kind.as_deref()) {
            ("output_token_throughput", _) => row.output_tokens_per_s = value,
            ("request_throughput", _) => row.requests_per_s = value,
            ("total_token_throughput", _) => row.total_tokens_per_s = value,
            (latency, kind) => {
                let place = place_of(latency);
                let kind = kind.and_then(stat_of);
                if let (Some(place), Some(kind)) = (place, kind) {
                    set(&mut row.latency[place], kind, value);
                }
            }
        }
        row.met = at(iteration, &["feasible"]).and_then(Value::as_bool);
        rows.push(row);
    }
    let (sla, mut remarks) = filters(document);
    if !sla.terms.is_empty() {
        remarks.push(format!(
            "The history holds no latencies, only whether AIPerf's own filters passed ({sla})."
        ));
    }
    Ok(Content {
        format: "AIPerf search history",
        rows,
        sla,
        remarks,
        ..Content::default()
    })
}

fn place_of(metric: &str) -> Option<usize> {
    match metric {
        "time_to_first_token" => Some(TTFT),
        "time_to_first_output_token" => Some(TTFAT),
        "inter_token_latency" => Some(TPOT),
        "inter_chunk_latency" => Some(ITL),
        "request_latency" => Some(E2E),
        _ => None,
    }
}

fn stat_of(name: &str) -> Option<Stat> {
    let name = if name == "avg" { "mean" } else { name };
    Stat::NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, stat)| *stat)
}

/// AIPerf's SLA filters as terms of ours, and what could not be said so.
fn filters(document: &Value) -> (Sla, Vec<String>) {
    let (mut sla, mut remarks) = (Sla::default(), Vec::new());
    let filters = at(document, &["config", "sla_filters"]).and_then(Value::as_array);
    for filter in filters.into_iter().flatten() {
        let metric = text(filter, &["metric_tag"]).unwrap_or_default();
        let term = || -> Option<SlaTerm> {
            let name = match place_of(&metric)? {
                TTFT => "ttft",
                TTFAT => "ttfat",
                TPOT => "tpot",
                ITL => "itl",
                _ => "e2e",
            };
            let stat = stat_of(&text(filter, &["stat"])?)?;
            let op = match text(filter, &["op"])?.as_str() {
                "lt" => "<",
                "le" | "lte" => "<=",
                _ => return None,
            };
            let threshold = at(filter, &["threshold"])?.as_f64()?;
            format!("{name}.{}{op}{threshold}ms", stat.name()).parse().ok()
        };
        match term() {
            Some(term) => sla.terms.push(term),
            None => remarks.push(format!(
                "An SLA filter of the file cannot be said as a term: {filter}."
            )),
        }
    }
    (sla, remarks)
}
