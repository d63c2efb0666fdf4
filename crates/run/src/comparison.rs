//! One run against another, figure by figure: what `plimsoll compare` shows.

use serde::Serialize;

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Within the tolerance.
    Same,
    /// Better by more.
    Better,
    /// Worse by more.
    Worse,
    /// Apart by more, but their 95 % intervals overlap.
    Unclear,
    /// One of the two runs does not have it.
    Missing,
}

/// A figure of both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What it is, with its unit, such as `output tokens/s` or `TTFT p95 ms`.
    pub what: &'static str,
    /// The level it was measured at; `None` for an answer of the whole run.
    pub level: Option<u32>,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// In the first run.
    pub before: Option<f64>,
    /// In the other.
    pub after: Option<f64>,
    /// Relative change, a fraction of the first; `None` where the first is zero or either is missing.
    pub change: Option<f64>,
    /// What became of it.
    pub outcome: Outcome,
}
