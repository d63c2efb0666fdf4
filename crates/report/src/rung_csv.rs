//! The rung table as CSV: one row a rung, in the order of measurement, blank where not measured.
//!
//! The first nine columns, and the eight after them, are those of the tables that `plimsoll analyze` reads, so a
//! run can be handed to whoever works with such tables.

use plimsoll_run::answer::LevelAnswer;
use plimsoll_run::document::Run;
use plimsoll_run::rung::{Distribution, RungReport};
use plimsoll_run::sla::Stat;

use crate::ReportError;
use crate::figures::finite;

/// A column's name and how its cell is read off a rung.
type Column = (&'static str, fn(&RungReport) -> String);

/// The columns. Latencies in milliseconds, rates per second, shares as fractions.
const COLUMNS: [Column; 43] = [
    ("concurrency", |r| r.concurrency.to_string()),
    ("throughput_tok_s", |r| cell(r.throughput.output_tokens_per_s)),
    ("req_s", |r| cell(r.throughput.requests_per_s)),
    ("ttft_p50_ms", |r| stat(&r.latency.ttft_ms, Stat::P50)),
    ("ttft_p95_ms", |r| stat(&r.latency.ttft_ms, Stat::P95)),
    ("ttft_p99_ms", |r| stat(&r.latency.ttft_ms, Stat::P99)),
    ("itl_mean_ms", |r| stat(&r.latency.itl_ms, Stat::Mean)),
    ("e2e_mean_ms", |r| stat(&r.latency.e2e_ms, Stat::Mean)),
    ("error_rate", |r| cell(r.error_rate())),
    ("ttft_mean_ms", |r| stat(&r.latency.ttft_ms, Stat::Mean)),
    ("e2e_p50_ms", |r| stat(&r.latency.e2e_ms, Stat::P50)),
    ("e2e_p90_ms", |r| stat(&r.latency.e2e_ms, Stat::P90)),
    ("e2e_p95_ms", |r| stat(&r.latency.e2e_ms, Stat::P95)),
    ("e2e_p99_ms", |r| stat(&r.latency.e2e_ms, Stat::P99)),
    ("itl_p95_ms", |r| stat(&r.latency.itl_ms, Stat::P95)),
    ("itl_p99_ms", |r| stat(&r.latency.itl_ms, Stat::P99)),
    ("n_requests", |r| r.requests.sent.to_string()),
    ("in_flight_mean", |r| cell(r.in_flight.mean)),
    ("tpot_p50_ms", |r| stat(&r.latency.tpot_ms, Stat::P50)),
    ("tpot_p95_ms", |r| stat(&r.latency.tpot_ms, Stat::P95)),
    ("tpot_p99_ms", |r| stat(&r.latency.tpot_ms, Stat::P99)),
    ("verdict", |r| r.validity.verdict.name().to_owned()),
    ("sla_pass", |r| {
        sla_pass(r).map_or_else(String::new, |pass| pass.to_string())
    }),
    ("order", |r| r.order.to_string()),
    ("window_s", |r| cell(r.window_s)),
    ("requests_ok", |r| r.requests.ok.to_string()),
    ("requests_failed", |r| r.requests.failed.to_string()),
    ("goodput_per_s", |r| cell(r.throughput.goodput_per_s)),
    ("input_tokens_mean", |r| cell(r.lengths.input.actual)),
    ("output_tokens_mean", |r| cell(r.lengths.output.actual)),
    ("output_tokens_estimated", |r| {
        r.lengths.output_estimated.to_string()
    }),
    ("prefix_cache_hit_rate", |r| cell(r.server.prefix_cache_hit_rate)),
    ("kv_cache_usage_max", |r| cell(r.server.kv_cache_usage_max)),
    ("running_mean", |r| cell(r.server.running_mean)),
    ("running_max", |r| whole(r.server.running_max)),
    ("waiting_max", |r| whole(r.server.waiting_max)),
    ("preemptions", |r| whole(r.server.preemptions)),
    ("server_ttft_mean_ms", |r| cell(r.server.ttft_mean_ms)),
    ("server_queue_mean_ms", |r| cell(r.server.queue_mean_ms)),
    ("ttft_n", |r| samples(&r.latency.ttft_ms)),
    ("tpot_n", |r| samples(&r.latency.tpot_ms)),
    ("e2e_n", |r| samples(&r.latency.e2e_ms)),
    ("verdict_reasons", |r| r.validity.reasons.join(" ")),
];

/// The rung table as CSV. See the module for the columns.
///
/// # Errors
/// Only if the table would not become CSV, which no run is known to cause.
pub fn csv(run: &Run) -> Result<String, ReportError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let titles = COLUMNS.iter().map(|(name, _)| *name);
    writer.write_record(titles.chain([ANSWERS]))?;
    for rung in &run.rungs {
        let cells = COLUMNS.iter().map(|(_, read)| read(rung));
        writer.write_record(cells.chain([answers(run, rung)]))?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| ReportError::Unfinished(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| ReportError::Unfinished(error.to_string()))
}

/// The last column: which answers of the plan name the rung's level, by their names in `run.json`.
const ANSWERS: &str = "answers";

fn answers(run: &Run, rung: &RungReport) -> String {
    let plan = &run.plan;
    let level = |answer: &Option<LevelAnswer>| answer.as_ref().map(|answer| answer.concurrency);
    let named = [
        ("best", plan.best.as_ref().map(|best| best.concurrency)),
        ("limit", plan.limit.as_ref().and_then(|limit| limit.concurrency)),
        ("largest_passing", level(&plan.largest_passing)),
        (
            "largest_throughput_under_sla",
            level(&plan.largest_throughput_under_sla),
        ),
        ("efficient_point", level(&plan.efficient_point)),
    ];
    let named: Vec<&str> = named
        .into_iter()
        .filter(|(_, level)| *level == Some(rung.concurrency))
        .map(|(name, _)| name)
        .collect();
    named.join(" ")
}

/// Whether the SLA is met; `None` without an SLA, as where a term could not be evaluated.
fn sla_pass(rung: &RungReport) -> Option<bool> {
    (!rung.sla.is_empty()).then(|| rung.meets_sla()).flatten()
}

/// A number in full, or blank.
fn cell(value: Option<f64>) -> String {
    finite(value).map_or_else(String::new, |value| value.to_string())
}

/// How many samples a latency rests on, or blank.
fn samples(distribution: &Option<Distribution>) -> String {
    let n = distribution.as_ref().map(|distribution| distribution.n);
    whole(n.filter(|n| *n > 0))
}

/// A count, or blank.
fn whole(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn stat(distribution: &Option<Distribution>, stat: Stat) -> String {
    cell(
        distribution
            .as_ref()
            .and_then(|distribution| distribution.stat(stat)),
    )
}
