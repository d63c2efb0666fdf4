//! A job and its run as REST and page tell of them.

use std::path::PathBuf;

use plimsoll_report::{Fragments, fragments};
use plimsoll_run::document::Run;
use serde_json::{Value, json};

use super::House;
use crate::api::{ApiError, output_location};
use crate::job::Job;
use crate::workload;

/// A job with its run so far.
pub(super) struct Seen {
    pub(super) job: Job,
    pub(super) directory: Option<PathBuf>,
    pub(super) run: Option<Run>,
}

impl House {
    /// The job of that name with its run.
    pub(super) fn see(&self, name: &str) -> Result<Seen, ApiError> {
        Ok(self.seen(self.api.store.job(name)?))
    }

    pub(super) fn seen(&self, job: Job) -> Seen {
        let (directory, run) = self.api.folders.run(job.id).unzip();
        Seen { job, directory, run }
    }
}

impl Seen {
    /// The parts of the report, once there is a rung.
    pub(super) fn fragments(&self) -> Option<Fragments> {
        self.run
            .as_ref()
            .filter(|run| !run.rungs.is_empty())
            .map(fragments)
    }

    /// In short.
    pub(super) fn summary(&self) -> Value {
        let job = &self.job;
        let rungs = self.run.as_ref().map_or(&[][..], |run| &run.rungs[..]);
        let levels: Vec<u32> = rungs.iter().map(|rung| rung.concurrency).collect();
        let numbers = self
            .fragments()
            .map(|fragments| fragments.numbers)
            .map(|[best, limit, instances]| json!({"best": best, "limit": limit, "instances": instances}));
        json!({
            "id": job.made.name,
            "status": job.status.name(),
            "queued": job.is_queued(),
            "target": job.made.target,
            "workload_config": job.made.config,
            "created_at": date(job.created_ms),
            "started_at": job.started_ms.map(date),
            "ended_at": job.ended_ms.map(date),
            "failure_reason": job.failure,
            "output_location": output_location(job).map(|location| location.to_string()),
            "levels": levels,
            "numbers": numbers,
        })
    }

    /// With the whole document.
    pub(super) fn whole(&self) -> Value {
        let mut value = self.summary();
        value["notes"] = self.notes().into();
        value["run"] = self
            .run
            .as_ref()
            .and_then(|run| serde_json::from_str(&run.to_json()).ok())
            .unwrap_or_default();
        value
    }

    /// What to know about how the workload was understood.
    pub(super) fn notes(&self) -> Vec<String> {
        workload::read(&self.job.made.workload)
            .map(|sweep| sweep.notes)
            .unwrap_or_default()
    }
}

/// A time as RFC 3339, to the second.
pub(super) fn date(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}
