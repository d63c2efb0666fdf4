//! How the peak arrives and how the replicas are run, from flags and the sweep file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use plimsoll_plan::arrivals::{TracePeak, peak_of_trace};
use plimsoll_plan::trace::read_trace;
use plimsoll_run::demand::{DemandTerms, Routing};
use plimsoll_run::units::{parse_duration, show};
use serde::{Deserialize, Deserializer};

/// No trace of arrivals is larger.
const LARGEST_FILE: u64 = 1 << 30;

/// Arrivals and replicas.
#[derive(Debug, Default, Clone, Args)]
pub struct DemandArguments {
    /// File of arrival times in seconds, one a line or a CSV with a column `timestamp` or `arrival_s`: its busiest 60 s
    /// are the peak, and their burstiness counts unless --burstiness is given
    #[arg(long, value_name = "FILE", value_parser = parse_trace, help_heading = "Question", conflicts_with = "peak")]
    pub peak_trace: Option<PeakTrace>,
    /// Burstiness of the arrivals: variance over squared mean of the gaps between them [default: 1, Poisson]
    #[arg(long, value_name = "CV2", value_parser = parse_cv2, help_heading = "Question")]
    pub burstiness: Option<f64>,
    /// How requests are spread over the replicas: random, round-robin, power-of-two or least-outstanding [default:
    /// least-outstanding]
    #[arg(long, value_name = "ROUTING", help_heading = "Question")]
    pub routing: Option<Routing>,
    /// How fast the load grows, a fraction a minute, while a replica starts [default: 0]
    #[arg(long, value_name = "FRACTION", value_parser = parse_growth, help_heading = "Question")]
    pub growth: Option<f64>,
    /// How long a replica takes to start, such as 10m [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = parse_startup, help_heading = "Question")]
    pub startup: Option<Duration>,
    /// Throughput of n replicas over n times that of one [default: 1.0]
    #[arg(long, value_name = "FRACTION", value_parser = parse_efficiency, help_heading = "Question")]
    pub scaling_efficiency: Option<f64>,
    /// Replicas that may fail at once with every request still served [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000), help_heading = "Question")]
    pub failures: Option<u64>,
    /// Mean load as a fraction of the peak, for what the fleet costs per token [default: 0.35]
    #[arg(long, value_name = "FRACTION", value_parser = parse_mean_load, help_heading = "Question")]
    pub mean_load: Option<f64>,
}

impl DemandArguments {
    /// These flags, with `otherwise` for those that are not given. A trace brings its own burstiness.
    pub fn or(&self, otherwise: &DemandTerms) -> DemandTerms {
        let traced = self.peak_trace.as_ref();
        DemandTerms {
            arrival_cv2: self
                .burstiness
                .or(traced.and_then(|trace| trace.peak.cv2))
                .unwrap_or(otherwise.arrival_cv2),
            routing: self.routing.unwrap_or(otherwise.routing),
            scaling_efficiency: self.scaling_efficiency.unwrap_or(otherwise.scaling_efficiency),
            growth_per_minute: self.growth.unwrap_or(otherwise.growth_per_minute),
            startup_s: self
                .startup
                .map_or(otherwise.startup_s, |startup| startup.as_secs_f64()),
            failures: self.failures.unwrap_or(otherwise.failures),
            mean_load: self.mean_load.or(otherwise.mean_load),
            spares: otherwise.spares,
            trace: traced
                .map(|trace| trace.name.clone())
                .or_else(|| otherwise.trace.clone()),
        }
    }

    /// These flags over those of the sweep file.
    pub fn over(&self, file: &DemandTable) -> DemandArguments {
        DemandArguments {
            peak_trace: self.peak_trace.clone().or_else(|| file.trace.clone()),
            burstiness: self.burstiness.or(file.burstiness),
            routing: self.routing.or(file.routing),
            growth: self.growth.or(file.growth),
            startup: self.startup.or(file.startup),
            scaling_efficiency: self.scaling_efficiency.or(file.scaling_efficiency),
            failures: self.failures.or(file.failures),
            mean_load: self.mean_load.or(file.mean_load),
        }
    }
}

/// The same keys in `[peak]` of the sweep file.
#[derive(Debug, Default, Clone)]
pub struct DemandTable {
    pub trace: Option<PeakTrace>,
    pub burstiness: Option<f64>,
    pub routing: Option<Routing>,
    pub growth: Option<f64>,
    pub startup: Option<Duration>,
    pub scaling_efficiency: Option<f64>,
    pub failures: Option<u64>,
    pub mean_load: Option<f64>,
}

/// A trace of arrivals that was read.
#[derive(Debug, Clone)]
pub struct PeakTrace {
    /// Its file, as it was named.
    pub name: String,
    /// Arrival times, seconds, ascending.
    pub times_s: Arc<Vec<f64>>,
    /// Its busiest window.
    pub peak: TracePeak,
    /// What to know of it, in a sentence.
    pub note: String,
}

impl PeakTrace {
    /// Reads it.
    ///
    /// # Errors
    /// When the file cannot be read or a line of it holds no time.
    pub fn read(name: &str) -> anyhow::Result<PeakTrace> {
        if plimsoll_prompts::trace::looks_like_one(name) {
            let read = plimsoll_prompts::trace::read(name, None)?;
            let notes: Vec<String> = read.notes.iter().map(|note| format!(" {note}.")).collect();
            return PeakTrace::of(name, read.trace.times_s(), &notes.concat());
        }
        let path = Path::new(name);
        let about = std::fs::metadata(path).with_context(|| name.to_owned())?;
        if !about.is_file() || about.len() > LARGEST_FILE {
            anyhow::bail!("{name}: not a file of at most 1 GiB; name a text file of arrival times");
        }
        let text = std::fs::read_to_string(path).with_context(|| name.to_owned())?;
        let trace = read_trace(&text).with_context(|| name.to_owned())?;
        let order = if trace.sorted {
            " Its lines were not in order of time and have been sorted."
        } else {
            ""
        };
        PeakTrace::of(name, trace.times_s, order)
    }

    /// Of these arrival times in seconds, ascending, with what else there is to know of them.
    ///
    /// # Errors
    /// When there are fewer than two different times.
    pub fn of(name: &str, times_s: Vec<f64>, order: &str) -> anyhow::Result<PeakTrace> {
        let peak = peak_of_trace(&times_s)
            .with_context(|| format!("{name}: a peak needs two or more arrivals at different times"))?;
        let burstiness = peak
            .cv2
            .map_or_else(String::new, |cv2| format!(", cv2 of the gaps {cv2:.2}"));
        let note = format!(
            "The busiest {} of the {} arrivals in {name} come at {:.3} a second{burstiness}.{order}",
            show(Duration::try_from_secs_f64(peak.length_s).unwrap_or_default()),
            times_s.len(),
            peak.rate_per_s,
        );
        Ok(PeakTrace {
            name: name.to_owned(),
            times_s: Arc::new(times_s),
            peak,
            note,
        })
    }
}

fn parse_trace(name: &str) -> Result<PeakTrace, String> {
    PeakTrace::read(name).map_err(|error| format!("{error:#}"))
}

fn number(text: &str, range: std::ops::RangeInclusive<f64>, remedy: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|value| range.contains(value))
        .ok_or_else(|| remedy.to_owned())
}

fn parse_cv2(text: &str) -> Result<f64, String> {
    number(
        text,
        0.0..=1000.0,
        "write the squared coefficient of variation of the gaps, from 0 to 1000, such as 4",
    )
}

fn parse_growth(text: &str) -> Result<f64, String> {
    number(
        text,
        0.0..=10.0,
        "write a fraction a minute from 0 to 10, such as 0.03",
    )
}

fn parse_efficiency(text: &str) -> Result<f64, String> {
    number(text, 0.01..=1.0, "write a fraction from 0.01 to 1, such as 0.85")
}

fn parse_mean_load(text: &str) -> Result<f64, String> {
    number(
        text,
        0.001..=1.0,
        "write a fraction of the peak from 0.001 to 1, such as 0.35",
    )
}

fn parse_startup(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .map_err(|error| error.to_string())
        .and_then(|startup| {
            if startup <= Duration::from_secs(24 * 3600) {
                Ok(startup)
            } else {
                Err("a start-up takes at most 24h".to_owned())
            }
        })
}

/// A value of the sweep file, under the rules of its flag: written as a number or as a string.
fn spelled<'de, D, T>(deserializer: D, parse: fn(&str) -> Result<T, String>) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Whole(i64),
        Number(f64),
        Text(String),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Whole(number) => number.to_string(),
        Written::Number(number) => number.to_string(),
        Written::Text(text) => text,
    };
    parse(&text).map(Some).map_err(serde::de::Error::custom)
}

/// `trace` of the sweep file.
pub fn trace<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PeakTrace>, D::Error> {
    spelled(deserializer, parse_trace)
}

/// `burstiness` of the sweep file.
pub fn burstiness<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    spelled(deserializer, parse_cv2)
}

/// `routing` of the sweep file.
pub fn routing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Routing>, D::Error> {
    spelled(deserializer, |text| {
        text.parse()
            .map_err(|error: plimsoll_run::demand::RoutingError| error.to_string())
    })
}

/// `growth` of the sweep file.
pub fn growth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    spelled(deserializer, parse_growth)
}

/// `startup` of the sweep file.
pub fn startup<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    spelled(deserializer, parse_startup)
}

/// `mean-load` of the sweep file.
pub fn mean_load<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    spelled(deserializer, parse_mean_load)
}

/// `scaling-efficiency` of the sweep file.
pub fn efficiency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    spelled(deserializer, parse_efficiency)
}
