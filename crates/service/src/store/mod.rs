//! Jobs, workload configs and tags on disk: SQLite, one file.
//!
//! What a call has stored is on disk when it returns (write-ahead log, synchronous), so a server that is killed at any moment
//! knows all that it has answered.

mod configs;
mod jobs;
mod listing;
mod tags;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

pub use configs::Config;
pub use listing::{Direction, Listing, Mark, Page, SortBy};
pub use tags::{MOST_TAGS, Tag};

/// The version of the tables that this crate makes.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE config (
        name TEXT PRIMARY KEY,
        created_ms INTEGER NOT NULL,
        document TEXT NOT NULL
    );
    CREATE TABLE job (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        target TEXT NOT NULL,
        config TEXT NOT NULL,
        workload TEXT NOT NULL,
        request TEXT NOT NULL,
        status TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        started_ms INTEGER,
        ended_ms INTEGER,
        failure TEXT,
        idle_starts INTEGER NOT NULL DEFAULT 0,
        idle_deaths INTEGER NOT NULL DEFAULT 0,
        rungs_at_start INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX job_status ON job (status);
    CREATE TABLE tag (
        arn TEXT NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (arn, key)
    );
";

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The name is taken.
    #[error("{kind} `{name}` exists already; choose another name, or delete it first")]
    Taken {
        /// What has the name.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// Nothing has that name.
    #[error("there is no {kind} `{name}`")]
    Missing {
        /// What was looked for.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A job that goes on needs it.
    #[error("workload config `{name}` is in use by job `{job}`; stop that first")]
    InUse {
        /// The config.
        name: String,
        /// The job.
        job: String,
    },
    /// The job is not in a state that allows it.
    #[error("job `{name}` is {}; {advice}", .status.name())]
    WrongState {
        /// The job.
        name: String,
        /// Its state.
        status: crate::job::Status,
        /// What would be needed.
        advice: &'static str,
    },
    /// More tags than a resource may have.
    #[error("a resource has at most {MOST_TAGS} tags")]
    TooManyTags,
    /// The tables are of another version.
    #[error("{}: made by a version of plimsoll with other tables ({found}, not {VERSION}); name another folder with --data", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version it is of.
        found: i64,
    },
    /// SQLite said no.
    #[error("the job store: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// What stands in the tables is not what was put there.
    #[error("the job store: {0}")]
    Damaged(String),
}

/// The store. Calls wait for each other; each takes well under a millisecond.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
}

impl Store {
    /// Opens the store in this file, and makes it where there is none.
    ///
    /// # Errors
    /// When the file cannot be used, or is of another version.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match found {
            VERSION => {}
            0 => connection.execute_batch(&format!(
                "BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;"
            ))?,
            found => {
                return Err(StoreError::Version {
                    path: path.to_owned(),
                    found,
                });
            }
        }
        Ok(Store {
            connection: Mutex::new(connection),
        })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic elsewhere leaves no half transaction: it was rolled back as its guard went.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time, milliseconds since 1970.
#[must_use]
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Whether an insert failed because the name is taken.
fn is_taken(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::ConstraintViolation)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_another_version_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.sqlite");
        drop(Store::open(&path).unwrap());
        drop(Store::open(&path).unwrap());
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        drop(connection);
        let error = Store::open(&path).unwrap_err().to_string();
        assert!(error.contains("--data") && error.contains("99"), "{error}");
        std::fs::write(
            &path,
            "no database at all, just text that is long enough to be looked at",
        )
        .unwrap();
        assert!(Store::open(&path).is_err());
    }
}
