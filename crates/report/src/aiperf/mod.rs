//! A run in the shape of AIPerf's `profile_export_aiperf_sweep.json` (version 0.13), for tools that read that. Figures have AIPerf's
//! names and units; what a run does not have is left out. AIPerf's `inter_token_latency` is our TPOT, its `inter_chunk_latency`
//! our ITL.

mod profile;
mod search_history;

pub use profile::aiperf_profile;
pub use search_history::aiperf_search_history;

use plimsoll_run::document::Run;
use plimsoll_run::rung::{Distribution, Interval, RungReport};
use serde_json::{Map, Value, json};

use crate::figures::finite;

/// The run as AIPerf writes a sweep over the concurrency, one rung a level.
#[must_use]
pub fn aiperf(run: &Run) -> String {
    let rungs = run.rung_of_each_level();
    let levels: Vec<u32> = rungs.iter().map(|rung| rung.concurrency).collect();
    let combinations: Vec<Value> = rungs
        .iter()
        .map(|rung| json!({"parameters": {"concurrency": rung.concurrency}, "metrics": metrics(rung)}))
        .collect();
    let document = json!({
        "aggregation_type": "sweep",
        "num_profile_runs": combinations.len(),
        "num_successful_runs": combinations.len(),
        "failed_runs": [],
        "metadata": {
            "sweep_parameters": [{"name": "concurrency", "values": levels}],
            "num_combinations": combinations.len(),
            "sweep_mode": "repeated",
            "confidence_level": 0.95,
            "num_trials_per_value": 1,
            "aggregation_type": "sweep",
        },
        "per_combination_metrics": combinations,
        "best_configurations": {},
        "pareto_optimal": [],
    });
    // A `Value` always becomes text.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn metrics(rung: &RungReport) -> Value {
    let mut metrics = Map::new();
    let mut put = |name: &str, unit: &str, value: Option<f64>, ci95: Option<Interval>| {
        if let Some(value) = finite(value) {
            let mut figure = Map::new();
            for key in ["mean", "avg"] {
                figure.insert(key.to_owned(), value.into());
            }
            interval(&mut figure, ci95);
            figure.insert("unit".to_owned(), unit.into());
            metrics.insert(name.to_owned(), figure.into());
        }
    };
    let (throughput, requests) = (&rung.throughput, &rung.requests);
    let counted = requests.sent > 0;
    put(
        "request_throughput",
        "requests/sec",
        throughput.requests_per_s,
        throughput.requests_ci95,
    );
    put(
        "output_token_throughput",
        "tokens/sec",
        throughput.output_tokens_per_s,
        throughput.output_tokens_ci95,
    );
    put(
        "total_token_throughput",
        "tokens/sec",
        throughput.total_tokens_per_s,
        None,
    );
    put("goodput", "requests/sec", throughput.goodput_per_s, None);
    let count = |n: u64| counted.then_some(n as f64);
    put("request_count", "requests", count(requests.ok), None);
    put("error_request_count", "requests", count(requests.failed), None);
    put(
        "request_error_rate",
        "%",
        rung.error_rate().map(|rate| rate * 100.0),
        None,
    );
    put("effective_concurrency", "requests", rung.in_flight.mean, None);
    put("input_sequence_length", "tokens", rung.lengths.input.actual, None);
    put(
        "output_sequence_length",
        "tokens",
        rung.lengths.output.actual,
        None,
    );
    put("benchmark_duration", "sec", rung.window_s, None);
    let latency = &rung.latency;
    for (name, known) in [
        ("time_to_first_token", &latency.ttft_ms),
        ("time_to_first_output_token", &latency.ttfat_ms),
        ("inter_token_latency", &latency.tpot_ms),
        ("inter_chunk_latency", &latency.itl_ms),
        ("request_latency", &latency.e2e_ms),
    ] {
        if let Some(known) = known {
            metrics.insert(name.to_owned(), distribution(known));
        }
    }
    metrics.into()
}

fn distribution(known: &Distribution) -> Value {
    let mut figure = Map::new();
    for (name, value) in [
        ("mean", known.mean),
        ("avg", known.mean),
        ("p50", known.p50),
        ("p90", known.p90),
        ("p95", known.p95),
        ("p99", known.p99),
        ("max", known.max),
    ] {
        if let Some(value) = finite(value) {
            figure.insert(name.to_owned(), value.into());
        }
    }
    interval(&mut figure, known.ci95.get("mean").copied());
    if known.n > 0 {
        figure.insert("count".to_owned(), known.n.into());
    }
    figure.insert("unit".to_owned(), "ms".into());
    figure.into()
}

/// The 95 % interval of the mean.
fn interval(figure: &mut Map<String, Value>, ci95: Option<Interval>) {
    if let Some([Some(low), Some(high)]) = ci95.map(|ends| ends.map(finite)) {
        figure.insert("ci_low".to_owned(), low.into());
        figure.insert("ci_high".to_owned(), high.into());
    }
}
