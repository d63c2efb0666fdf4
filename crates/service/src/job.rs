//! A job, and the states it goes through.

use serde_json::Value;

/// Where a job stands. The names are those of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Queued, or being measured.
    InProgress,
    /// Measured to its end.
    Completed,
    /// Ended without an answer; the job says why.
    Failed,
    /// Asked to stop; what was measured is being kept.
    Stopping,
    /// Stopped; what was measured is kept.
    Stopped,
}

impl Status {
    /// Every state.
    pub const ALL: [Status; 5] = [
        Status::InProgress,
        Status::Completed,
        Status::Failed,
        Status::Stopping,
        Status::Stopped,
    ];

    /// Its name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Status::InProgress => "InProgress",
            Status::Completed => "Completed",
            Status::Failed => "Failed",
            Status::Stopping => "Stopping",
            Status::Stopped => "Stopped",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Whether nothing comes after it.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Stopped)
    }

    /// The states that it may follow. A job that was asked to stop may still come to its own end first.
    #[must_use]
    pub fn may_follow(self) -> &'static [Status] {
        match self {
            Status::InProgress => &[],
            Status::Stopping => &[Status::InProgress],
            Status::Stopped => &[Status::Stopping],
            Status::Completed | Status::Failed => &[Status::InProgress, Status::Stopping],
        }
    }
}

/// A job that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Its name, unique among the jobs.
    pub name: String,
    /// The target it measures, by the name that the server knows it under.
    pub target: String,
    /// The name of its workload config.
    pub config: String,
    /// The workload as it stood when the job was made: a config that is deleted and made anew changes no job.
    pub workload: String,
    /// What the request said beside that, to be told again.
    pub request: Value,
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its number; never used twice, even where a name is.
    pub id: i64,
    /// What it was made with.
    pub made: NewJob,
    /// Where it stands.
    pub status: Status,
    /// When it was made, milliseconds since 1970.
    pub created_ms: i64,
    /// When its measurement began; `None` while it is queued.
    pub started_ms: Option<i64>,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// Why it failed.
    pub failure: Option<String>,
    /// How often in a row its measurement was begun without a rung more than before: after a death of the sweep or of the server.
    pub idle_starts: u32,
    /// How often in a row its sweep was ended by something else than the server, without a rung more than before.
    pub idle_deaths: u32,
    /// Rungs that were there when it was begun last.
    pub rungs_at_start: u32,
}

impl Job {
    /// Whether it waits for its measurement to begin.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        !self.status.is_final() && self.started_ms.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_follows_an_end_and_every_state_has_its_name() {
        for status in Status::ALL {
            assert_eq!(Status::named(status.name()), Some(status));
            assert!(!status.may_follow().iter().any(|before| before.is_final()));
        }
        assert_eq!(Status::named("completed"), None);
    }
}
