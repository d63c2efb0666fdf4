//! The planning numbers, as they stand in `run.json` under `plan`.

use serde::{Deserialize, Serialize};

use crate::rung::Interval;

/// The answer of a run. A number that could not be given is `None`, and `warnings` or the reason says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The concurrency with maximum throughput at acceptable latency.
    pub best: Option<Best>,
    /// The highest concurrency that meets the SLA.
    pub limit: Option<Limit>,
    /// The lowest concurrency that reaches 95 % of the plateau.
    pub knee: Option<Knee>,
    /// Where requests start to wait.
    pub queue_onset: Option<QueueOnset>,
    /// What keeps throughput from growing, by the server's own metrics; `None` where they do not tell.
    #[serde(default)]
    pub bound: Option<Bound>,
    /// Where throughput falls again beyond its maximum; `None` where it does not.
    #[serde(default)]
    pub decline: Option<Decline>,
    /// The highest level tried that meets the SLA, below every one that fails.
    #[serde(default)]
    pub largest_passing: Option<LevelAnswer>,
    /// The level tried with the largest throughput among those that meet the SLA. `best` differs from it by giving ties
    /// to the lower level.
    #[serde(default)]
    pub largest_throughput_under_sla: Option<LevelAnswer>,
    /// The level tried with the largest power X/R (Kleinrock, 1979), throughput over response time.
    #[serde(default)]
    pub efficient_point: Option<LevelAnswer>,
    /// How many replicas the peak needs; `None` without a peak.
    pub instances: Option<Instances>,
    /// What that costs; `None` without a price.
    pub cost: Option<Cost>,
    /// Sentences a reader must know before relying on the numbers.
    pub warnings: Vec<String>,
}

/// The concurrency with maximum throughput at acceptable latency. All figures come from that level's rung.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The level.
    pub concurrency: u32,
    /// Levels that cannot be told from it: passing, and within 2 % of its throughput.
    pub interval: Interval,
    /// Its requests per second.
    pub requests_per_s: Option<f64>,
    /// Its reply tokens per second.
    pub output_tokens_per_s: Option<f64>,
    /// Why it is the best.
    pub reason: String,
}

/// How the limit was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitStatus {
    /// A passing level lies below a failing one.
    Crossed,
    /// Every level tried passes: the limit is at least the highest.
    NotReached,
    /// No level tried passes.
    NeverMet,
}

/// The highest concurrency that meets the SLA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The highest level that meets the SLA: one that was tried and passed, or, where `estimated`, a whole level read off
    /// the line through the rungs around the crossing. Below every level that failed; `None` when none passed.
    pub concurrency: Option<u32>,
    /// Whether `concurrency` is such a reading and was not itself tried and passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Where the limit lies. Of a line through several rungs its 95 % interval; else the bracket: the passing level and the
    /// lowest above it that fails by more than its noise (open where there is none).
    pub interval: Interval,
    /// How it was found.
    pub status: LimitStatus,
    /// The SLA term that breaks first.
    pub binding: Option<String>,
    /// Why, in a sentence.
    pub reason: String,
}

/// Whether the plateau was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KneeStatus {
    /// Throughput stopped growing within the levels tried.
    Saturated,
    /// It still grew at the highest: the knee is a lower bound.
    NotSaturated,
}

/// The lowest concurrency that reaches 95 % of the plateau.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The concurrency, interpolated between rungs.
    pub concurrency: f64,
    /// 90 % interval by bootstrap.
    pub interval: Interval,
    /// Whether the plateau was reached.
    pub status: KneeStatus,
    /// Output tokens per second of the plateau (requests per second where tokens are unknown).
    pub plateau: Option<f64>,
    /// Why, in a sentence.
    pub reason: String,
}

/// Where requests start to wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueOnset {
    /// The concurrency.
    pub concurrency: f64,
    /// How it was found, in a sentence.
    pub reason: String,
}

/// What keeps throughput from growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundBy {
    /// The KV cache is full: requests wait for blocks, or are preempted.
    KvCache,
    /// The server admits no more requests at once, with memory left for them.
    Admission,
    /// Steps take longer the more requests share them.
    Compute,
    /// Requests wait for their prompts' turn, with memory and slots left for them.
    Queue,
}

impl BoundBy {
    /// As a person reads it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BoundBy::KvCache => "KV cache",
            BoundBy::Admission => "admission cap",
            BoundBy::Compute => "compute",
            BoundBy::Queue => "queue",
        }
    }
}

/// Why the knee is where it is, by the server's own metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// What binds.
    pub by: BoundBy,
    /// The level that shows it.
    pub concurrency: u32,
    /// How it shows, in a sentence or two.
    pub reason: String,
    /// What binds at each level that tells, ascending.
    pub levels: Vec<LevelBound>,
}

/// What binds at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelBound {
    /// The level.
    pub concurrency: u32,
    /// What binds there.
    pub by: BoundBy,
}

/// Throughput that falls beyond its maximum by more than twice the standard error of the difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decline {
    /// The level with the largest throughput.
    pub from: u32,
    /// The highest level tried.
    pub to: u32,
    /// How much less that one gives, a fraction.
    pub loss: f64,
    /// In a sentence.
    pub reason: String,
}

/// A level that answers one question. All figures come from that level's rung.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelAnswer {
    /// The level.
    pub concurrency: u32,
    /// Its requests per second.
    pub requests_per_s: Option<f64>,
    /// Its reply tokens per second.
    pub output_tokens_per_s: Option<f64>,
    /// Why, in a sentence.
    pub reason: String,
}

/// How many replicas the peak needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instances {
    /// Replicas to run; `None` when no count can meet the SLA.
    pub count: Option<u64>,
    /// Requests per second that one replica may be given, at which the SLA still holds.
    pub per_instance_per_s: Option<f64>,
    /// That rate over the throughput at the limit, a fraction.
    pub safe_fraction: Option<f64>,
    /// Share of the fleet's safe rate left at the peak, a fraction.
    pub headroom: Option<f64>,
    /// Replicas kept beyond what the load needs.
    pub spares: u64,
    /// What dividing the peak by the largest throughput would say.
    pub naive_count: Option<u64>,
    /// The peak, requests per second.
    pub peak_per_s: Option<f64>,
    /// Why, in a sentence or two.
    pub reason: String,
}

/// What the answer costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Per million output tokens with a replica at its safe rate.
    pub per_million_output_tokens: Option<f64>,
    /// Per million output tokens of all replicas at the mean load; `None` without a peak.
    #[serde(default)]
    pub per_million_at_mean_load: Option<f64>,
    /// That mean load over the peak, a fraction: given, or taken for granted.
    #[serde(default)]
    pub mean_load: Option<f64>,
    /// Of all replicas, an hour.
    pub fleet_per_hour: Option<f64>,
    /// The currency of the price given.
    pub currency: String,
}
