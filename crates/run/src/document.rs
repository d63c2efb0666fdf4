//! `run.json`: the whole of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::answer::Plan;
use crate::demand::DemandTerms;
use crate::peak::Peak;
use crate::rung::RungReport;
use crate::sla::Sla;
use crate::table::{ImportedTable, put_blanks, put_nulls};
use crate::target::Target;
use crate::verification::Verification;
use crate::workload::Workload;

/// The schema this crate writes.
pub const SCHEMA: &str = "plimsoll.run/1";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The search came to its end.
    Complete,
    /// The user stopped it, or it is still going on.
    Interrupted,
    /// Something broke.
    Failed,
}

/// The client that drove the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Cores it could use.
    pub cores: u32,
    /// Operating system and architecture.
    pub platform: String,
    /// Its ceiling, tokens per second, where it was measured.
    pub ceiling_tokens_per_s: Option<f64>,
}

/// How levels are chosen and rungs end: with the rungs so far it says which level comes next, so that a run can be
/// resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchTerms {
    /// The ladder, ascending.
    pub levels: Vec<u32>,
    /// Lowest level that may be tried.
    pub min: u32,
    /// Highest level that may be tried.
    pub max: u32,
    /// Refine until brackets are within this fraction; `None` holds exactly the ladder.
    pub resolution: Option<f64>,
    /// At most so many rungs.
    pub max_rungs: Option<u32>,
    /// Length of every window, seconds, where one was asked for.
    pub rung_time_s: Option<f64>,
    /// Requests that end a rung, where asked for.
    pub requests: Option<u64>,
    /// Length of every warm-up, seconds, where one was asked for.
    pub warmup_s: Option<f64>,
}

/// A run. See the module documentation of each part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// How it ended.
    pub status: Status,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC; `None` while it goes on.
    pub ended_at: Option<String>,
    /// The command that made it, without credentials.
    pub command: String,
    /// The version of Plimsoll that made it.
    pub version: String,
    /// What was measured.
    pub target: Target,
    /// What one request looked like.
    pub workload: Workload,
    /// See [`Workload::digest`].
    pub workload_digest: String,
    /// All randomness of the run follows from it.
    pub seed: u64,
    /// The SLA.
    pub sla: Sla,
    /// The peak.
    pub peak: Option<Peak>,
    /// Price of one replica, an hour.
    pub price_per_hour: Option<f64>,
    /// The currency of the price.
    pub currency: String,
    /// How the peak arrives and the replicas are run; `None` stands for the defaults.
    #[serde(default)]
    pub demand: Option<DemandTerms>,
    /// How often it was interrupted and taken up again. Each time the prompts are new.
    #[serde(default)]
    pub resumed: u32,
    /// How levels are chosen and rungs end; `None` in an imported table.
    #[serde(default)]
    pub search: Option<SearchTerms>,
    /// The client.
    pub client: Client,
    /// What was found out before the sweep: parameters dropped, how prompts were calibrated, and the like.
    pub notes: Vec<String>,
    /// The rungs, in the order in which they were measured.
    pub rungs: Vec<RungReport>,
    /// The planning numbers.
    pub plan: Plan,
    /// The open-loop replay, where `--verify` asked for one.
    #[serde(default)]
    pub verification: Option<Verification>,
    /// What an imported table says beside its rungs; `None` in a run of our own. Where it is present, the dialect, the
    /// workload, the digest, the seed, the client and the counts that its rungs lack are blanks, and null on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<ImportedTable>,
}

/// A `run.json` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Not JSON, or not a run.
    #[error("not a run: {0}; name a run directory that `plimsoll sweep` made, or the run.json in it")]
    Malformed(#[from] serde_json::Error),
    /// From another version.
    #[error(
        "schema `{0}` is not {SCHEMA}, which this version reads; use the version that made it, or measure again"
    )]
    Schema(String),
}

impl Run {
    /// The order of the next rung, from 1.
    #[must_use]
    pub fn next_order(&self) -> u32 {
        let last = self.rungs.iter().map(|rung| rung.order).max();
        last.unwrap_or(0).saturating_add(1)
    }

    /// One rung a level, in ascending order: of a level measured more than once the last that may be believed, else the last.
    #[must_use]
    pub fn rung_of_each_level(&self) -> Vec<&RungReport> {
        let mut of_level: BTreeMap<u32, &RungReport> = BTreeMap::new();
        for rung in &self.rungs {
            let standing = of_level.entry(rung.concurrency).or_insert(rung);
            if rung.validity.may_decide() || !standing.validity.may_decide() {
                *standing = rung;
            }
        }
        of_level.into_values().collect()
    }

    /// Reads `run.json`.
    ///
    /// # Errors
    /// When the text is not a run, or one of another schema.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        #[derive(Deserialize)]
        struct Origin {
            #[serde(default)]
            table: Option<serde::de::IgnoredAny>,
        }
        let head: Head = serde_json::from_str(text)?;
        if head.schema != SCHEMA {
            return Err(DocumentError::Schema(head.schema));
        }
        let origin: Origin = serde_json::from_str(text)?;
        if origin.table.is_none() {
            // Straight from the text: errors then name line and column.
            return Ok(serde_json::from_str(text)?);
        }
        let mut value = serde_json::from_str(text)?;
        put_blanks(&mut value);
        Ok(serde_json::from_value(value)?)
    }

    /// Writes `run.json`. Numbers that are not finite become null, and so does all that an imported table lacks.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Serialising into a `Value` turns NaN and infinity into null, and cannot fail: no map here has
        // keys other than strings.
        let mut value = serde_json::to_value(self).unwrap_or(serde_json::Value::Null);
        if let Some(table) = &self.table {
            put_nulls(&mut value, table);
        }
        let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
        text.push('\n');
        text
    }
}
