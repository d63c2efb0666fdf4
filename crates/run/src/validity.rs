//! Whether a rung may be believed.

use serde::{Deserialize, Serialize};

/// The verdict on a rung (METHOD: validity verdicts). Only [`Verdict::Valid`] and [`Verdict::TooFewSamples`]
/// rungs may decide a planning number, the latter with low confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing speaks against it.
    Valid,
    /// Fewer or more requests in flight than the level.
    LoadNotDelivered,
    /// The client, not the server, was the limit.
    ClientLimited,
    /// Too few requests for the statistics asked of them.
    TooFewSamples,
    /// A prefix cache served a workload that was meant to be cold.
    CacheWarm,
    /// Replies were shorter or longer than those of the other rungs.
    LengthsDiffer,
    /// Something buffers the stream, so TTFT and ITL mean nothing.
    StreamBuffered,
    /// Too many requests failed.
    Errors,
    /// The server restarted.
    ServerRestarted,
    /// Throughput was still moving when the rung ended.
    Unsteady,
}

impl Verdict {
    /// Its name on disk and on screen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Valid => "valid",
            Verdict::LoadNotDelivered => "load-not-delivered",
            Verdict::ClientLimited => "client-limited",
            Verdict::TooFewSamples => "too-few-samples",
            Verdict::CacheWarm => "cache-warm",
            Verdict::LengthsDiffer => "lengths-differ",
            Verdict::StreamBuffered => "stream-buffered",
            Verdict::Errors => "errors",
            Verdict::ServerRestarted => "server-restarted",
            Verdict::Unsteady => "unsteady",
        }
    }
}

/// A verdict with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// The verdict.
    pub verdict: Verdict,
    /// Sentences: what was seen, and what to do about it. Empty when nothing was.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Nothing speaks against it.
    #[must_use]
    pub fn valid() -> Self {
        Validity {
            verdict: Verdict::Valid,
            reasons: Vec::new(),
        }
    }

    /// Whether the rung may decide a planning number.
    #[must_use]
    pub fn may_decide(&self) -> bool {
        matches!(self.verdict, Verdict::Valid | Verdict::TooFewSamples)
    }
}
