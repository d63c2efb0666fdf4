//! The columns of a CSV table by the names that people give them.

use plimsoll_run::sla::Stat;

use super::row::{E2E, ITL, TPOT, TTFAT, TTFT};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field {
    Level,
    OutputTokens,
    Requests,
    TotalTokens,
    Goodput,
    /// Factor to a fraction.
    ErrorRate(f64),
    Count,
    Ok,
    Failed,
    InFlight,
    InputLength,
    OutputLength,
    Window,
    /// Place in the row, statistic, factor to milliseconds.
    Latency(usize, Stat, f64),
    /// Whether an SLA was met.
    Met,
    Verdict,
    Derived,
    /// Known, and of no use here.
    Unused,
}

/// The columns to name in a message.
pub(super) const CANONICAL: &str = "concurrency, throughput_tok_s, req_s, error_rate, n_requests, in_flight_mean, \
    output_tokens_mean, sla_pass, and latencies such as ttft_p95_ms, tpot_mean_ms, itl_mean_ms, e2e_p99_ms (mean, p50, p90, p95, \
    p99, max)";

const NAMES: [(Field, &[&str]); 16] = [
    (
        Field::Level,
        &[
            "concurrency",
            "level",
            "concurrent_requests",
            "concurrent_users",
            "num_concurrent",
            "max_concurrency",
            "target_concurrency",
            "users",
            "streams",
            "conc",
        ],
    ),
    (
        Field::OutputTokens,
        &[
            "throughput_tok_s",
            "throughput",
            "throughput_tokens_s",
            "output_tok_s",
            "output_tokens_s",
            "output_tokens_per_s",
            "output_token_throughput",
            "output_throughput",
            "output_throughput_tok_s",
            "output_token_throughput_tok_s",
            "output_tokens_per_second",
            "tok_s",
            "tokens_s",
            "tokens_per_s",
            "tokens_per_second",
            "tps",
        ],
    ),
    (
        Field::Requests,
        &[
            "req_s",
            "requests_s",
            "requests_per_s",
            "requests_per_second",
            "request_throughput",
            "request_throughput_req_s",
            "req_per_s",
            "rps",
            "qps",
        ],
    ),
    (
        Field::TotalTokens,
        &[
            "total_tok_s",
            "total_tokens_s",
            "total_tokens_per_s",
            "total_token_throughput",
            "total_throughput",
            "total_throughput_tok_s",
        ],
    ),
    (
        Field::Goodput,
        &["goodput_per_s", "goodput", "request_goodput", "goodput_req_s"],
    ),
    (
        Field::ErrorRate(1.0),
        &["error_rate", "failure_rate", "errors_share", "error_fraction"],
    ),
    (
        Field::ErrorRate(0.01),
        &[
            "error_rate_pct",
            "errors_pct",
            "error_pct",
            "failure_rate_pct",
            "error_percent",
            "error_rate_percent",
        ],
    ),
    (
        Field::Count,
        &[
            "n_requests",
            "requests",
            "num_requests",
            "request_count",
            "requests_sent",
            "num_prompts",
            "prompts",
            "n",
        ],
    ),
    (
        Field::Ok,
        &[
            "requests_ok",
            "completed",
            "successful",
            "successful_requests",
            "ok",
        ],
    ),
    (
        Field::Failed,
        &[
            "requests_failed",
            "failed",
            "errors",
            "error_count",
            "failed_requests",
            "failures",
        ],
    ),
    (
        Field::InFlight,
        &[
            "in_flight_mean",
            "in_flight",
            "effective_concurrency",
            "achieved_concurrency",
            "mean_concurrency",
        ],
    ),
    (
        Field::InputLength,
        &[
            "input_tokens_mean",
            "input_tokens",
            "isl",
            "input_length",
            "prompt_tokens",
            "input_sequence_length",
        ],
    ),
    (
        Field::OutputLength,
        &[
            "output_tokens_mean",
            "output_tokens",
            "osl",
            "output_length",
            "completion_tokens",
            "output_sequence_length",
        ],
    ),
    (
        Field::Window,
        &["window_s", "duration_s", "benchmark_duration_s", "duration"],
    ),
    (Field::Unused, &["order", "output_tokens_estimated", "rung"]),
    (
        Field::Met,
        &["sla_pass", "sla_met", "meets_sla", "passed", "pass", "feasible"],
    ),
];

/// `TTFT p95 (ms)` as `ttft_p95_ms`.
fn plain(name: &str) -> String {
    let spelled = name.to_lowercase().replace('%', "_pct_");
    let words: Vec<&str> = spelled
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    words.join("_")
}

/// What a column of this name holds; `None` where nobody knows. The second value says that a latency names no unit and is
/// taken as milliseconds.
pub(super) fn field(name: &str) -> Option<(Field, bool)> {
    let name = plain(name);
    if name == "derived" {
        return Some((Field::Derived, false));
    }
    if name == "verdict" {
        return Some((Field::Verdict, false));
    }
    if let Some((field, _)) = NAMES.iter().find(|(_, names)| names.contains(&name.as_str())) {
        return Some((*field, false));
    }
    latency(&name)
}

/// Metric, statistic and unit in any order: `ttft_p95_ms`, `p95_ttft_ms`, `median_e2el_s`.
fn latency(name: &str) -> Option<(Field, bool)> {
    let mut name = format!("_{name}_");
    for (long, short) in [
        ("_time_to_first_token_", "_ttft_"),
        ("_time_per_output_token_", "_tpot_"),
        ("_inter_token_latency_", "_itl_"),
        ("_end_to_end_latency_", "_e2e_"),
        ("_end_to_end_", "_e2e_"),
        ("_e2e_latency_", "_e2e_"),
        ("_request_latency_", "_e2e_"),
        ("_e2el_", "_e2e_"),
        ("_latency_", "_e2e_"),
        ("_median_", "_p50_"),
        ("_avg_", "_mean_"),
        ("_average_", "_mean_"),
        ("_milliseconds_", "_ms_"),
        ("_seconds_", "_s_"),
        ("_sec_", "_s_"),
    ] {
        name = name.replace(long, short);
    }
    let (mut metric, mut stat, mut unit) = (None, None, None);
    for word in name.split('_').filter(|word| !word.is_empty()) {
        let known = [
            ("ttft", TTFT),
            ("ttfat", TTFAT),
            ("tpot", TPOT),
            ("itl", ITL),
            ("e2e", E2E),
        ];
        if let Some((_, at)) = known.iter().find(|(name, _)| *name == word) {
            metric = metric.is_none().then_some(*at);
            metric?;
        } else if let Some((_, found)) = Stat::NAMES.iter().find(|(name, _)| *name == word) {
            stat = stat.is_none().then_some(*found);
            stat?;
        } else if let ("ms", None) | ("s", None) = (word, unit) {
            unit = Some(if word == "s" { 1e3 } else { 1.0 });
        } else {
            return None;
        }
    }
    Some((
        Field::Latency(metric?, stat?, unit.unwrap_or(1.0)),
        unit.is_none(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_known_in_any_spelling() {
        for (name, expected) in [
            ("ttft_p95_ms", Field::Latency(TTFT, Stat::P95, 1.0)),
            ("TTFT p95 (ms)", Field::Latency(TTFT, Stat::P95, 1.0)),
            ("median_ttft_ms", Field::Latency(TTFT, Stat::P50, 1.0)),
            ("P99 Latency [s]", Field::Latency(E2E, Stat::P99, 1e3)),
            ("mean_e2el_ms", Field::Latency(E2E, Stat::Mean, 1.0)),
            (
                "avg inter-token latency (ms)",
                Field::Latency(ITL, Stat::Mean, 1.0),
            ),
            ("Output tok/s", Field::OutputTokens),
            ("Error rate %", Field::ErrorRate(0.01)),
            ("Requests/s", Field::Requests),
        ] {
            assert_eq!(field(name), Some((expected, false)), "{name}");
        }
        assert_eq!(
            field("ttft_p95"),
            Some((Field::Latency(TTFT, Stat::P95, 1.0), true))
        );
        for unknown in ["ttft", "p95", "ttft_tpot_p95_ms", "ttft_p95_us", "gpu", ""] {
            assert_eq!(field(unknown), None, "{unknown}");
        }
    }
}
