//! The evidence: everything one rung left behind, before any judgement.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::request::RequestRecord;

/// The measured window, since the rung's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// When it opens.
    pub opens: Duration,
    /// When it closes.
    pub closes: Duration,
}

impl Window {
    /// Its length.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.closes.saturating_sub(self.opens)
    }

    /// Whether a time lies in it; its end does not.
    #[must_use]
    pub fn contains(&self, at: Duration) -> bool {
        self.opens <= at && at < self.closes
    }
}

/// Why a rung ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// There was evidence enough.
    Enough,
    /// The time or number of requests that the user asked for was reached.
    Asked,
    /// The cap on a rung's time cut in first.
    Cap,
    /// Too many requests failed.
    Errors,
    /// An SLA term was broken far beyond doubt, and the window closed early.
    Hopeless,
    /// Every SLA term was held far beyond doubt, and the window closed once it told the throughput.
    Easy,
    /// The user stopped the run.
    Interrupted,
}

/// Where time stamps were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StampSource {
    /// In the client, after the read.
    User,
    /// By the kernel, on receipt.
    Kernel,
    /// In the simulation: exact.
    Virtual,
}

/// How the client itself fared during a rung.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClientHealth {
    /// Where time stamps were taken.
    pub stamps: StampSource,
    /// Share of one core that the busiest load thread used during the window, 0..=1; `None` where unknown.
    pub busiest_thread_cpu: Option<f64>,
    /// How long received bytes waited for the client to read them; `None` where the kernel does not stamp.
    #[serde(default)]
    pub read_delay: Option<ReadDelay>,
}

/// How long received bytes waited for the client to read them, microseconds, over all reads of a rung.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadDelay {
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Times of token-bearing chunks, microseconds after their request was sent, for every request of a rung.
///
/// One flat vector, so that a rung of a million tokens is one allocation that grew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkLog {
    times_us: Vec<u32>,
    ends: Vec<usize>,
}

impl ChunkLog {
    /// Appends the chunks of the next request, ascending. Later than 71 minutes counts as 71 minutes.
    pub fn push(&mut self, chunks: impl IntoIterator<Item = Duration>) {
        self.times_us.extend(
            chunks
                .into_iter()
                .map(|after| u32::try_from(after.as_micros()).unwrap_or(u32::MAX)),
        );
        self.ends.push(self.times_us.len());
    }

    /// The chunks of the request at `position` in [`Evidence::requests`]; empty beyond the end.
    #[must_use]
    pub fn of(&self, position: usize) -> &[u32] {
        let Some(&end) = self.ends.get(position) else {
            return &[];
        };
        let start = if position == 0 { 0 } else { self.ends[position - 1] };
        &self.times_us[start..end]
    }

    /// How many requests are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// Everything one rung left behind.
///
/// `requests` holds every request that was sent, those of the warm-up and of the drain too, in any order;
/// `chunks` has one entry a request in the same order.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The level asked for.
    pub level: u32,
    /// The measured window; `None` when the rung ended before it opened.
    pub window: Option<Window>,
    /// How long the rung took, drain included.
    pub took: Duration,
    /// Why it ended.
    pub stop: StopReason,
    /// All requests.
    pub requests: Vec<RequestRecord>,
    /// Their token-bearing chunks.
    pub chunks: ChunkLog,
    /// How the client fared.
    pub client: ClientHealth,
    /// What the server's own metrics said.
    pub server: crate::rung::ServerSide,
    /// Every reading of those metrics, in order; empty where there was none.
    pub server_samples: Vec<crate::rung::ServerSample>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_logs_give_back_each_requests_chunks() {
        let mut log = ChunkLog::default();
        log.push([Duration::from_micros(5), Duration::from_micros(9)]);
        log.push([]);
        log.push([Duration::from_secs(1_000_000)]);
        assert_eq!(log.of(0), [5, 9]);
        assert_eq!(log.of(1), [0_u32; 0]);
        assert_eq!(log.of(2), [u32::MAX]);
        assert_eq!(log.of(3), [0_u32; 0]);
        assert_eq!(log.len(), 3);
    }
}
