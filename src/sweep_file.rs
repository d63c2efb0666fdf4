//! The TOML sweep file. Whatever a flag can say can stand here; flags win.

mod problem;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use plimsoll_run::demand::Routing;
use plimsoll_run::ladder::MAX_LEVEL;
use plimsoll_run::peak::Peak;
use plimsoll_run::sla::SlaTerm;
use plimsoll_run::target::{CustomDialect, Dialect};
use plimsoll_run::units::parse_duration;
use serde::{Deserialize, Deserializer};

use crate::connection;
use crate::demand::{self, DemandTable, PeakTrace};
use crate::workload_arguments::WorkloadArguments;

/// Looked for in the current folder when `--config` names no other.
pub const DEFAULT_FILE: &str = "plimsoll.toml";

/// The file as it is written. Keys are the flags' names.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SweepFile {
    /// Targets by name.
    pub targets: BTreeMap<String, TargetTable>,
    /// What one request looks like.
    pub workload: WorkloadArguments,
    /// How to climb.
    pub sweep: SweepTable,
    /// The SLA.
    pub sla: SlaTable,
    /// The peak and the price.
    pub peak: PeakTable,
}

/// `[targets.NAME]`
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TargetTable {
    /// Where it is.
    pub url: String,
    #[serde(deserialize_with = "spelled")]
    pub dialect: Option<Dialect>,
    /// What the dialect `custom` is made of.
    pub custom: Option<CustomDialect>,
    pub model: Option<String>,
    pub api_key_env: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub endpoint_path: Option<String>,
    pub insecure: bool,
    pub ca_file: Option<PathBuf>,
    /// A proxy's URL, or `none`.
    pub proxy: Option<String>,
    pub http2: bool,
    #[serde(deserialize_with = "connection::time")]
    pub connect_timeout: Option<Duration>,
    #[serde(deserialize_with = "connection::time")]
    pub first_byte_timeout: Option<Duration>,
    #[serde(deserialize_with = "connection::time")]
    pub idle_timeout: Option<Duration>,
    #[serde(deserialize_with = "connection::time")]
    pub request_timeout: Option<Duration>,
    /// Where the server's own metrics are.
    pub metrics_url: Option<String>,
    /// Settings of the server to keep with a run.
    pub serving: BTreeMap<String, serde_json::Value>,
    /// The same from a file.
    pub serving_file: Option<PathBuf>,
}

/// `[sweep]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SweepTable {
    pub levels: Option<Vec<u32>>,
    pub min: Option<u32>,
    pub max: Option<u32>,
    pub resolution: Option<f64>,
    pub max_time: Option<String>,
    pub max_rungs: Option<u32>,
    pub rung_time: Option<String>,
    pub requests: Option<u64>,
    pub warmup: Option<String>,
    pub out: Option<PathBuf>,
    pub verify: Option<bool>,
}

/// `[sla]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SlaTable {
    pub terms: Vec<SlaTerm>,
}

/// `[peak]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PeakTable {
    pub load: Option<Peak>,
    pub price: Option<f64>,
    pub currency: Option<String>,
    pub spares: Option<u64>,
    #[serde(deserialize_with = "demand::trace")]
    pub trace: Option<PeakTrace>,
    #[serde(deserialize_with = "demand::burstiness")]
    pub burstiness: Option<f64>,
    #[serde(deserialize_with = "demand::routing")]
    pub routing: Option<Routing>,
    #[serde(deserialize_with = "demand::growth")]
    pub growth: Option<f64>,
    #[serde(deserialize_with = "demand::startup")]
    pub startup: Option<Duration>,
    #[serde(deserialize_with = "demand::efficiency")]
    pub scaling_efficiency: Option<f64>,
    pub failures: Option<u64>,
    #[serde(deserialize_with = "demand::mean_load")]
    pub mean_load: Option<f64>,
}

impl PeakTable {
    /// How the peak arrives and the replicas are run.
    pub fn demand(&self) -> DemandTable {
        DemandTable {
            trace: self.trace.clone(),
            burstiness: self.burstiness,
            routing: self.routing,
            growth: self.growth,
            startup: self.startup,
            scaling_efficiency: self.scaling_efficiency,
            failures: self.failures,
            mean_load: self.mean_load,
        }
    }
}

/// A value that is written as a string and parsed by its own rules.
fn spelled<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

impl SweepFile {
    /// Reads the file that `--config` names, else `plimsoll.toml` where there is one, else nothing.
    ///
    /// # Errors
    /// When the file cannot be read, or holds a key or value that nobody knows.
    pub fn find(named: Option<&Path>) -> anyhow::Result<SweepFile> {
        let path = match named {
            Some(path) => path,
            None if Path::new(DEFAULT_FILE).exists() => Path::new(DEFAULT_FILE),
            None => return Ok(SweepFile::default()),
        };
        let text = std::fs::read_to_string(path).with_context(|| format!("sweep file {}", path.display()))?;
        SweepFile::parse(&text).with_context(|| format!("sweep file {}", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<SweepFile> {
        let file: SweepFile =
            toml::from_str(text).map_err(|error| anyhow::anyhow!(problem::words(text, &error)))?;
        file.check()?;
        Ok(file)
    }

    /// Holds the values to the bounds that the flags of the same names have.
    fn check(&self) -> anyhow::Result<()> {
        let sweep = &self.sweep;
        for (key, level) in [("min", sweep.min), ("max", sweep.max)] {
            if let Some(level) = level.filter(|level| !(1..=MAX_LEVEL).contains(level)) {
                bail!("`sweep.{key}` is {level}; write a whole number from 1 to {MAX_LEVEL}");
            }
        }
        for (key, count) in [
            ("max-rungs", sweep.max_rungs.map(u64::from)),
            ("requests", sweep.requests),
        ] {
            if count == Some(0) {
                bail!("`sweep.{key}` is 0; write at least 1, or leave it out");
            }
        }
        for (key, time) in [("rung-time", &sweep.rung_time), ("max-time", &sweep.max_time)] {
            // One that is no time is named where it is used.
            if time.as_deref().map(parse_duration) == Some(Ok(Duration::ZERO)) {
                bail!("`sweep.{key}` is 0; write a time above 0, such as 30s, or leave it out");
            }
        }
        if let Some(price) = self
            .peak
            .price
            .filter(|price| !(price.is_finite() && *price >= 0.0))
        {
            bail!("`peak.price` is {price}; write an amount an hour, such as 4.20");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::workload::TokenLength;

    use super::*;

    #[test]
    fn a_whole_file_is_read() {
        let file = SweepFile::parse(
            r#"
            [targets.prod]
            url = "https://llm.example.com/v1"
            dialect = "openai-chat"
            api-key-env = "PROD_KEY"
            headers = { "X-Team" = "capacity" }
            [workload]
            input-tokens = "1024:128"
            output-tokens = 256
            [sweep]
            levels = [16, 64, 256]
            resolution = 0.05
            rung-time = "30s"
            [sla]
            terms = ["ttft.p95<=500ms", "error_rate<=0.01"]
            [peak]
            load = "40rps"
            price = 4.2
            "#,
        )
        .unwrap();
        assert_eq!(file.targets["prod"].dialect, Some(Dialect::OpenaiChat));
        assert_eq!(file.workload.input_tokens.unwrap().stddev(), 128.0);
        assert_eq!(file.workload.output_tokens.unwrap(), TokenLength::Fixed(256));
        assert_eq!(file.sla.terms.len(), 2);
        assert_eq!(file.peak.load, Some(Peak::Rate(40.0)));
    }

    #[test]
    fn values_keep_the_bounds_of_their_flags() {
        for (text, expected) in [
            ("[sweep]\nmin = 0", "`sweep.min` is 0"),
            ("[sweep]\nmax = 4294967295", "from 1 to 1000000"),
            ("[sweep]\nmax-rungs = 0", "`sweep.max-rungs`"),
            ("[sweep]\nrequests = 0", "`sweep.requests`"),
            ("[sweep]\nrung-time = \"0s\"", "`sweep.rung-time`"),
            ("[sweep]\nmax-time = \"0ms\"", "`sweep.max-time`"),
            ("[peak]\nprice = nan", "`peak.price`"),
            ("[peak]\nprice = -5.0", "`peak.price`"),
        ] {
            let error = format!("{:#}", SweepFile::parse(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn unknown_keys_and_bad_values_name_line_and_remedy() {
        for (text, expected) in [
            ("[sweep]\nlevls = [1]", "line 2: unknown field `levls`"),
            ("[sweep]\nlevls = [1]", "did you mean `levels`"),
            ("[wokload]\n", "did you mean `workload`"),
            ("[sla]\nterms = [\"tfft.p95<=1s\"]", "did you mean `ttft`"),
            ("[workload]\ninput-tokens = -4", "not a token length"),
            (
                "[targets.x]\ndialect = \"openai-chats\"",
                "did you mean `openai-chat`",
            ),
            ("[sweep\n", "line 1"),
        ] {
            let error = format!("{:#}", SweepFile::parse(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    const EXAMPLE: &str = include_str!("../examples/plimsoll.toml");

    /// The keys of a table, as the error about one that nobody knows lists them.
    fn keys(table: &str) -> Vec<String> {
        let error = toml::from_str::<SweepFile>(&format!("[{table}]\nno-such-key = 1")).unwrap_err();
        let names: Vec<String> = error
            .message()
            .split('`')
            .skip(3)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        assert!(names.len() > 1 || table == "sla", "{error}");
        names
    }

    #[test]
    fn the_example_is_read_and_names_every_key() {
        let file = SweepFile::parse(EXAMPLE).unwrap();
        assert_eq!(file.workload.shared_prefix, Some(512));
        assert_eq!(file.workload.think, Some(Duration::from_secs(2)));
        assert_eq!(file.peak.load, Some(Peak::Rate(40.0)));
        for table in ["targets.prod", "workload", "sweep", "sla", "peak"] {
            let begins = EXAMPLE.find(&format!("[{table}]")).unwrap();
            let rest = &EXAMPLE[begins + 1..];
            let section = rest.split("\n[").next().unwrap();
            for key in keys(table) {
                let stands = section.lines().any(|line| {
                    let line = line.strip_prefix("# ").unwrap_or(line);
                    line.split_once('=').is_some_and(|(name, _)| name.trim() == key)
                });
                assert!(stands, "[{table}] of the example does not name `{key}`");
            }
            // What it leaves out has a value that works.
            for line in section.lines().filter_map(|line| line.strip_prefix("# ")) {
                let Some((key, _)) = line.split_once(" = ") else {
                    continue;
                };
                if keys(table).iter().any(|known| known == key) && (table, key) != ("peak", "trace") {
                    let text = format!("[{table}]\n{line}");
                    SweepFile::parse(&text).unwrap_or_else(|error| panic!("{text}: {error:#}"));
                }
            }
        }
    }

    #[test]
    fn workloads_are_written_as_their_flags() {
        let read = |text: &str| SweepFile::parse(&format!("[workload]\n{text}"));
        let workload = read(
            "input-tokens = 512\nshared-prefix = \"64\"\nshare = 0.5\npool = 3\nprefix-shares = [0, 0.5]",
        )
        .unwrap()
        .workload;
        assert_eq!(workload.input_tokens, Some(TokenLength::Fixed(512)));
        assert_eq!(
            (workload.shared_prefix, workload.share, workload.pool),
            (Some(64), Some(0.5), Some(3))
        );
        assert_eq!(workload.prefix_shares, [0.0, 0.5]);
        for (text, expected) in [
            ("share = 2", "fraction from 0 to 1"),
            ("share = nan", "fraction from 0 to 1"),
            ("pool = 0", "whole number from 1"),
            ("shared-prefix = -1", "whole number from 1"),
            ("shared-prefix = 1.5", "whole number from 1"),
            ("turns = 99999", "whole number from 1"),
            ("think = 2", "has no unit"),
            ("think = \"48h\"", "at most 24h"),
            ("input-tokens = \"file:/nowhere\"", "/nowhere"),
            ("input-tokens = \"uniform:9-1\"", "uniform:LEAST-MOST"),
            ("dataset-format = \"cvs\"", "did you mean `csv`"),
            ("trace-unit = \"min\"", "write ms or s"),
            ("shared-prefx = 5", "did you mean `shared-prefix`"),
            ("sed = 5", "did you mean `seed`"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(
                error.contains(expected) && error.contains("line 2"),
                "{text}: {error}"
            );
        }
    }
}
