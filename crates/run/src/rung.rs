//! The report on one rung, as it stands in `run.json`.
//!
//! Whatever was not measured is `None`, never zero, NaN or infinity.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::evidence::{ClientHealth, StopReason};
use crate::sla::{Metric, SlaTerm, Stat};
use crate::validity::Validity;

/// A pair `[low, high]`; an open side is null.
pub type Interval = [Option<f64>; 2];

/// Everything a rung said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RungReport {
    /// The level asked for: requests in flight.
    pub concurrency: u32,
    /// Which rung of the run this is, from 1.
    pub order: u32,
    /// Whether it may be believed.
    pub validity: Validity,
    /// Why it ended.
    pub stopped: StopReason,
    /// Warm-up before the window, seconds.
    pub warmup_s: Option<f64>,
    /// Length of the measured window, seconds.
    pub window_s: Option<f64>,
    /// Requests actually in flight during the window.
    pub in_flight: InFlight,
    /// Requests sent inside the window and what became of them.
    pub requests: RequestCounts,
    /// Lengths asked for and seen.
    pub lengths: Lengths,
    /// Rates within the window.
    pub throughput: Throughput,
    /// Latencies of the successful requests sent inside the window.
    pub latency: Latencies,
    /// The SLA terms, judged.
    pub sla: Vec<TermOutcome>,
    /// The server's own side.
    pub server: ServerSide,
    /// How the client fared; `None` in an imported table.
    pub client: Option<ClientHealth>,
}

impl RungReport {
    /// Whether every SLA term passes; `None` when a term could not be evaluated and none failed.
    #[must_use]
    pub fn meets_sla(&self) -> Option<bool> {
        if self.sla.iter().any(|outcome| outcome.pass == Some(false)) {
            Some(false)
        } else if self.sla.iter().any(|outcome| outcome.pass.is_none()) {
            None
        } else {
            Some(true)
        }
    }

    /// Failed requests over requests ended, a fraction; `None` when none ended.
    #[must_use]
    pub fn error_rate(&self) -> Option<f64> {
        let ended = self.requests.ok + self.requests.failed;
        (ended > 0).then(|| self.requests.failed as f64 / ended as f64)
    }
}

/// Requests in flight during the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct InFlight {
    /// Time-weighted mean.
    pub mean: Option<f64>,
    /// Largest number at once.
    pub max: Option<u32>,
}

/// Requests sent inside the window, by outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Sent inside the window.
    pub sent: u64,
    /// Of those, succeeded.
    pub ok: u64,
    /// Of those, failed.
    pub failed: u64,
    /// Failed, by class.
    pub by_class: BTreeMap<String, u64>,
    /// One message of each class.
    pub samples: BTreeMap<String, String>,
    /// Sent again after an idle connection had died.
    pub retried: u64,
    /// Successes without a TTFT: tokens by the server's count, none that could be seen.
    pub without_ttft: u64,
}

/// Asked against actual, tokens, means over the successes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct AskedActual {
    /// Mean asked for.
    pub asked: Option<f64>,
    /// Mean seen.
    pub actual: Option<f64>,
}

/// Lengths of prompts and replies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Lengths {
    /// Prompts.
    pub input: AskedActual,
    /// Replies.
    pub output: AskedActual,
    /// Whether reply tokens were counted from chunks because the server gave no usage.
    pub output_estimated: bool,
    /// Why replies ended, with counts.
    pub finish_reasons: BTreeMap<String, u64>,
}

/// Rates within the window, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Successful requests completed per second.
    pub requests_per_s: Option<f64>,
    /// Reply tokens per second, each counted when it came.
    pub output_tokens_per_s: Option<f64>,
    /// Prompt and reply tokens per second.
    pub total_tokens_per_s: Option<f64>,
    /// Requests per second that met every SLA term they could meet on their own.
    pub goodput_per_s: Option<f64>,
    /// Standard error of `output_tokens_per_s`, relative (a fraction), from time batches.
    pub relative_se: Option<f64>,
    /// 95 % interval of `requests_per_s`.
    pub requests_ci95: Option<Interval>,
    /// 95 % interval of `output_tokens_per_s`.
    pub output_tokens_ci95: Option<Interval>,
}

/// Latencies, milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Send to first generated token in any channel.
    pub ttft_ms: Option<Distribution>,
    /// Send to first answer token; present where it differs from TTFT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttfat_ms: Option<Distribution>,
    /// (last token - first token) / (output tokens - 1).
    pub tpot_ms: Option<Distribution>,
    /// Gap between token-bearing chunks.
    pub itl_ms: Option<Distribution>,
    /// Send to last token, or to the end of a body that was not streamed.
    pub e2e_ms: Option<Distribution>,
}

impl Latencies {
    /// The distribution of a latency metric; `None` for the error rate or where not measured.
    #[must_use]
    pub fn of(&self, metric: Metric) -> Option<&Distribution> {
        match metric {
            Metric::Ttft => self.ttft_ms.as_ref(),
            Metric::Ttfat => self.ttfat_ms.as_ref().or(self.ttft_ms.as_ref()),
            Metric::Tpot => self.tpot_ms.as_ref(),
            Metric::Itl => self.itl_ms.as_ref(),
            Metric::E2e => self.e2e_ms.as_ref(),
            Metric::ErrorRate => None,
        }
    }
}

/// A latency's distribution, milliseconds. Percentiles are order statistics (nearest rank).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Samples.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// 95 % intervals by statistic (`mean`, `p50`, `p90`, `p95`, `p99`).
    pub ci95: BTreeMap<String, Interval>,
    /// The percentiles and the maximum again with every failed request counted as slower than any success, by
    /// which SLA terms are judged; null where the percentile lies among the failures. Empty when nothing failed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counting_failures: BTreeMap<String, Option<f64>>,
}

impl Distribution {
    /// One of its statistics.
    #[must_use]
    pub fn stat(&self, stat: Stat) -> Option<f64> {
        match stat {
            Stat::Mean => self.mean,
            Stat::P50 => self.p50,
            Stat::P90 => self.p90,
            Stat::P95 => self.p95,
            Stat::P99 => self.p99,
            Stat::Max => self.max,
        }
    }
}

/// An SLA term against what was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TermOutcome {
    /// The term.
    pub term: SlaTerm,
    /// The statistic with failed requests counted as worse than any success: milliseconds, or a fraction for
    /// `error_rate`. `None` when it could not be evaluated or lies among the failures.
    pub observed: Option<f64>,
    /// Whether it holds; `None` when it could not be evaluated.
    pub pass: Option<bool>,
    /// 95 % interval of `observed`.
    pub interval: Option<Interval>,
    /// Why it could not be evaluated, or what to know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What the server's own metrics said during the rung.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSide {
    /// Share of prompt tokens found in a prefix cache, a fraction.
    pub prefix_cache_hit_rate: Option<f64>,
    /// The same by the usage in the replies (`cached_tokens`), over the successes sent in the window; these requests only, where the
    /// metrics count those of every client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_cached_share: Option<f64>,
    /// Largest share of KV blocks in use, a fraction.
    pub kv_cache_usage_max: Option<f64>,
    /// Most requests running at once.
    pub running_max: Option<u32>,
    /// Most requests waiting at once.
    pub waiting_max: Option<u32>,
    /// Preemptions.
    pub preemptions: Option<u64>,
    /// Mean of the requests running, over the samples of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_mean: Option<f64>,
    /// Mean of the requests waiting, over the samples of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_mean: Option<f64>,
    /// Mean TTFT by the server's own clock, milliseconds: from a request's arrival in the engine to its first token, without
    /// the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_mean_ms: Option<f64>,
    /// Mean time that a request waited in the engine's queue, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_mean_ms: Option<f64>,
    /// Reply tokens a second by the server's count, whoever asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens_per_s: Option<f64>,
    /// How many times the metrics were read in the window; 0 where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub samples: u32,
    /// Whether the server's counters began anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restarted: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The server's metrics as they were read at one time, as they stand in `server.csv`. Counters are those of the server since its
/// start, summed over its engines; blank where it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSample {
    /// Seconds since the rung's start.
    pub at_s: f64,
    /// Whether it lies in the window.
    pub in_window: bool,
    /// Requests running.
    pub running: Option<f64>,
    /// Requests waiting.
    pub waiting: Option<f64>,
    /// Share of KV blocks in use, a fraction; of several engines the largest.
    pub kv_cache_usage: Option<f64>,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queried_tokens: Option<f64>,
    /// Prompt tokens found there.
    pub prefix_hit_tokens: Option<f64>,
    /// Preemptions.
    pub preemptions: Option<f64>,
    /// Reply tokens.
    pub output_tokens: Option<f64>,
}

/// One second of a rung, as it stands in `timeline.csv`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelineSecond {
    /// Seconds since the rung's start.
    pub second: u32,
    /// Whether the whole second lies in the window.
    pub in_window: bool,
    /// Time-weighted requests in flight.
    pub in_flight: f64,
    /// Requests sent.
    pub sent: u32,
    /// Requests that ended well.
    pub ok: u32,
    /// Requests that failed.
    pub failed: u32,
    /// Reply tokens received.
    pub output_tokens: f64,
    /// Median TTFT of requests sent in it, milliseconds.
    pub ttft_p50_ms: Option<f64>,
    /// Median E2E of requests sent in it, milliseconds.
    pub e2e_p50_ms: Option<f64>,
}
