//! How the peak arrives and how the replicas are run: what a count of instances rests on beside the rungs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::nearest::hint;

/// How a load balancer spreads requests over the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// To any replica with equal chance.
    Random,
    /// To one after another.
    RoundRobin,
    /// To the less busy one of two drawn at random.
    PowerOfTwo,
    /// To the least busy one.
    #[default]
    LeastOutstanding,
}

impl Routing {
    /// Every routing by the name it has in flags and files.
    pub const NAMES: [(&'static str, Routing); 4] = [
        ("random", Routing::Random),
        ("round-robin", Routing::RoundRobin),
        ("power-of-two", Routing::PowerOfTwo),
        ("least-outstanding", Routing::LeastOutstanding),
    ];

    /// Its name in a sentence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Routing::Random => "random",
            Routing::RoundRobin => "round-robin",
            Routing::PowerOfTwo => "power-of-two-choices",
            Routing::LeastOutstanding => "least-outstanding",
        }
    }
}

/// A routing nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{given}` is not a routing{hint}; routings are random, round-robin, power-of-two and least-outstanding"
)]
pub struct RoutingError {
    given: String,
    hint: String,
}

impl FromStr for Routing {
    type Err = RoutingError;

    fn from_str(text: &str) -> Result<Self, RoutingError> {
        Routing::NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, routing)| *routing)
            .ok_or_else(|| RoutingError {
                given: text.to_owned(),
                hint: hint(text, &Routing::NAMES.map(|(name, _)| name)),
            })
    }
}

impl fmt::Display for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Routing::NAMES
            .iter()
            .find(|(_, routing)| routing == self)
            .map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DemandTerms {
    /// Squared coefficient of variation of the gaps between arrivals: 1 for Poisson, more for bursts.
    pub arrival_cv2: f64,
    /// How requests are spread over the replicas.
    pub routing: Routing,
    /// Throughput of n replicas over n times that of one, a fraction above 0.
    pub scaling_efficiency: f64,
    /// How fast the load grows while a replica starts, a fraction a minute.
    pub growth_per_minute: f64,
    /// How long a replica takes to start, seconds.
    pub startup_s: f64,
    /// Replicas that may fail at once with every request still served.
    pub failures: u64,
    /// Replicas kept beyond what the load needs.
    pub spares: u64,
    /// Mean load over the peak, a fraction above 0, for what the fleet costs; `None` takes what is usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_load: Option<f64>,
    /// The file whose busiest minute gave the peak, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl Default for DemandTerms {
    /// Poisson arrivals, least-outstanding routing (what load balancers for inference offer), linear scaling.
    fn default() -> Self {
        DemandTerms {
            arrival_cv2: 1.0,
            routing: Routing::LeastOutstanding,
            scaling_efficiency: 1.0,
            growth_per_minute: 0.0,
            startup_s: 0.0,
            failures: 0,
            spares: 0,
            mean_load: None,
            trace: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routings_are_spelled_alike_in_flags_and_files() {
        for (name, routing) in Routing::NAMES {
            assert_eq!(name.parse(), Ok(routing));
            assert_eq!(routing.to_string(), name);
            assert_eq!(serde_json::to_string(&routing).unwrap(), format!("\"{name}\""));
        }
        let error = "least-outstandin".parse::<Routing>().unwrap_err().to_string();
        assert!(error.contains("did you mean `least-outstanding`"), "{error}");
    }
}
