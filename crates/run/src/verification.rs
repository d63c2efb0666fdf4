//! What an open-loop replay at the safe rate said, as it stands in `run.json` under `verification`.

use serde::{Deserialize, Serialize};

use crate::rung::{Distribution, InFlight, Latencies, TermOutcome};

/// Where the arrivals came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalSource {
    /// At random.
    Poisson,
    /// At random with gamma distributed gaps, in bursts as `--burstiness` asks.
    Bursty,
    /// The busiest window of a trace, at another rate.
    Trace,
}

impl ArrivalSource {
    /// Its name in a sentence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ArrivalSource::Poisson => "Poisson",
            ArrivalSource::Bursty => "bursty",
            ArrivalSource::Trace => "the trace's",
        }
    }
}

/// The replay. All latencies run from the scheduled time of arrival, so that waiting inside the client shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Arrivals per second asked for: what one replica may be given; `None` when that is not known.
    pub rate_per_s: Option<f64>,
    /// Where the arrivals came from.
    pub arrivals: ArrivalSource,
    /// Arrivals judged: those scheduled after the warm-up.
    pub requests: u64,
    /// Of those, failed.
    pub failed: u64,
    /// Replayed before them and not judged, seconds.
    pub warmup_s: f64,
    /// Time over which they arrived, seconds.
    pub duration_s: f64,
    /// Requests outstanding.
    pub in_flight: InFlight,
    /// From the scheduled time.
    pub latency: Latencies,
    /// First byte sent after the scheduled time, milliseconds.
    pub dispatch_delay_ms: Option<Distribution>,
    /// The SLA terms, judged.
    pub sla: Vec<TermOutcome>,
    /// Whether the SLA held; `None` when that cannot be said.
    pub held: Option<bool>,
    /// Why, in a sentence or two.
    pub reason: String,
    /// The raw requests, one row each, as a path below the run directory; `None` where none were kept.
    #[serde(default)]
    pub requests_file: Option<String>,
}

impl Verification {
    /// One that did not take place.
    #[must_use]
    pub fn not_done(rate_per_s: Option<f64>, arrivals: ArrivalSource, reason: String) -> Self {
        Verification {
            rate_per_s,
            arrivals,
            requests: 0,
            failed: 0,
            warmup_s: 0.0,
            duration_s: 0.0,
            in_flight: InFlight::default(),
            latency: Latencies::default(),
            dispatch_delay_ms: None,
            sla: Vec::new(),
            held: None,
            reason,
            requests_file: None,
        }
    }
}
