//! Jobs and their queue.

use rusqlite::{OptionalExtension, Row, params, params_from_iter};

use super::tags::{delete_tags_of, put_tags};
use super::{Listing, Mark, Page, SortBy, Store, StoreError, Tag, is_taken, now_ms};
use crate::job::{Job, NewJob, Status};

const KIND: &str = "job";

const COLUMNS: &str = "id, name, target, config, workload, request, status, created_ms, started_ms, ended_ms, failure, \
                       idle_starts, idle_deaths, rungs_at_start";

/// The longest reason that a job may give.
const LONGEST_REASON: usize = 1024;

fn read(row: &Row<'_>) -> rusqlite::Result<Result<Job, StoreError>> {
    let name: String = row.get(1)?;
    let request: String = row.get(5)?;
    let status: String = row.get(6)?;
    let damaged = |what: &str| StoreError::Damaged(format!("job `{name}`: {what}"));
    let Some(status) = Status::named(&status) else {
        return Ok(Err(damaged("its state is unknown")));
    };
    let request = match serde_json::from_str(&request) {
        Ok(request) => request,
        Err(error) => return Ok(Err(damaged(&error.to_string()))),
    };
    Ok(Ok(Job {
        id: row.get(0)?,
        made: NewJob {
            name,
            target: row.get(2)?,
            config: row.get(3)?,
            workload: row.get(4)?,
            request,
        },
        status,
        created_ms: row.get(7)?,
        started_ms: row.get(8)?,
        ended_ms: row.get(9)?,
        failure: row.get(10)?,
        idle_starts: row.get(11)?,
        idle_deaths: row.get(12)?,
        rungs_at_start: row.get(13)?,
    }))
}

impl Store {
    /// Queues a new job with its tags.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn create_job(&self, job: &NewJob, arn: &str, tags: &[Tag]) -> Result<i64, StoreError> {
        let mut connection = self.connection();
        let work = connection.transaction()?;
        work.execute(
            "INSERT INTO job (name, target, config, workload, request, status, created_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                job.name,
                job.target,
                job.config,
                job.workload,
                job.request.to_string(),
                Status::InProgress.name(),
                now_ms()
            ],
        )
        .map_err(|error| {
            if is_taken(&error) {
                StoreError::Taken {
                    kind: KIND,
                    name: job.name.clone(),
                }
            } else {
                error.into()
            }
        })?;
        let id = work.last_insert_rowid();
        put_tags(&work, arn, tags)?;
        work.commit()?;
        Ok(id)
    }

    /// The job of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn job(&self, name: &str) -> Result<Job, StoreError> {
        self.connection()
            .query_row(
                &format!("SELECT {COLUMNS} FROM job WHERE name = ?1"),
                [name],
                read,
            )
            .optional()?
            .ok_or_else(|| StoreError::Missing {
                kind: KIND,
                name: name.to_owned(),
            })?
    }

    /// A page of the jobs.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn jobs(&self, listing: &Listing) -> Result<Page<Job>, StoreError> {
        let (clauses, values) = listing.clauses()?;
        let connection = self.connection();
        let mut query = connection.prepare(&format!("SELECT {COLUMNS} FROM job {clauses}"))?;
        let rows = query.query_map(params_from_iter(values), read)?;
        let items = rows.map(|row| row?).collect::<Result<Vec<_>, StoreError>>()?;
        Ok(listing.page(items, |job| Mark {
            key: match listing.sort {
                SortBy::CreationTime => job.created_ms.to_string(),
                SortBy::Name => job.made.name.clone(),
                SortBy::Status => job.status.name().to_owned(),
            },
            name: job.made.name.clone(),
        }))
    }

    /// The jobs that have not ended, the oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open_jobs(&self) -> Result<Vec<Job>, StoreError> {
        let connection = self.connection();
        let mut query = connection.prepare(&format!(
            "SELECT {COLUMNS} FROM job WHERE status IN ('InProgress', 'Stopping') ORDER BY id"
        ))?;
        let rows = query.query_map([], read)?;
        rows.map(|row| row?).collect()
    }

    /// Notes that the measurement begins, with so many rungs there already.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn begin_job(&self, id: i64, rungs: u32) -> Result<(), StoreError> {
        self.connection().execute(
            "UPDATE job SET
                idle_starts = CASE WHEN started_ms IS NOT NULL AND ?2 <= rungs_at_start THEN idle_starts + 1 ELSE 0 END,
                rungs_at_start = ?2,
                started_ms = coalesce(started_ms, ?3)
             WHERE id = ?1",
            params![id, rungs, now_ms()],
        )?;
        Ok(())
    }

    /// Notes that the sweep was ended by something else, with so many rungs there.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn note_death(&self, id: i64, rungs: u32) -> Result<(), StoreError> {
        self.connection().execute(
            "UPDATE job SET idle_deaths = CASE WHEN ?2 <= rungs_at_start THEN idle_deaths + 1 ELSE 0 END WHERE id = ?1",
            params![id, rungs],
        )?;
        Ok(())
    }

    /// Asks a job to stop.
    ///
    /// # Errors
    /// When there is none, or it has ended. Asking twice does no harm.
    pub fn ask_to_stop(&self, name: &str) -> Result<Job, StoreError> {
        let job = self.job(name)?;
        if job.status == Status::Stopping || self.move_to(job.id, Status::Stopping, None)? {
            return Ok(job);
        }
        Err(StoreError::WrongState {
            name: name.to_owned(),
            status: self.job(name)?.status,
            advice: "only one that is in progress can be stopped",
        })
    }

    /// Moves a job to another state where that may follow its present one; says whether it did.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn move_to(&self, id: i64, status: Status, failure: Option<&str>) -> Result<bool, StoreError> {
        let before: Vec<String> = status
            .may_follow()
            .iter()
            .map(|status| format!("'{}'", status.name()))
            .collect();
        let failure = failure.map(|text| text.chars().take(LONGEST_REASON).collect::<String>());
        let changed = self.connection().execute(
            &format!(
                "UPDATE job SET status = ?2, failure = ?3, ended_ms = ?4 WHERE id = ?1 AND status IN ({})",
                before.join(", ")
            ),
            params![id, status.name(), failure, status.is_final().then(now_ms)],
        )?;
        Ok(changed == 1)
    }

    /// Deletes a job that has ended, with its tags.
    ///
    /// # Errors
    /// When there is none, or it has not ended.
    pub fn delete_job(&self, name: &str, arn: &str) -> Result<Job, StoreError> {
        let job = self.job(name)?;
        if !job.status.is_final() {
            return Err(StoreError::WrongState {
                name: name.to_owned(),
                status: job.status,
                advice: "stop it and wait for its end before it is deleted",
            });
        }
        let mut connection = self.connection();
        let work = connection.transaction()?;
        work.execute("DELETE FROM job WHERE id = ?1", [job.id])?;
        delete_tags_of(&work, arn)?;
        work.commit()?;
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Direction, Store};
    use super::*;

    fn new(name: &str) -> NewJob {
        NewJob {
            name: name.to_owned(),
            target: "prod".to_owned(),
            config: "chat".to_owned(),
            workload: "{}".to_owned(),
            request: json!({"RoleArn": "r"}),
        }
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("jobs.sqlite")).unwrap();
        (folder, store)
    }

    #[test]
    fn a_job_goes_its_way_and_no_other() {
        let (_folder, store) = store();
        let tag = Tag {
            key: "team".to_owned(),
            value: "<b>capacity</b>".to_owned(),
        };
        let id = store
            .create_job(&new("a"), "arn:a", std::slice::from_ref(&tag))
            .unwrap();
        assert!(matches!(
            store.create_job(&new("a"), "arn:a", &[]),
            Err(StoreError::Taken { .. })
        ));
        assert_eq!(store.tags("arn:a").unwrap(), [tag]);
        assert!(
            !store.move_to(id, Status::Stopped, None).unwrap(),
            "it was not asked to stop"
        );
        assert!(
            store
                .delete_job("a", "arn:a")
                .unwrap_err()
                .to_string()
                .contains("InProgress")
        );
        store.begin_job(id, 0).unwrap();
        store.ask_to_stop("a").unwrap();
        store.ask_to_stop("a").unwrap();
        assert_eq!(store.open_jobs().unwrap().len(), 1);
        assert!(store.move_to(id, Status::Stopped, None).unwrap());
        assert!(!store.move_to(id, Status::Completed, None).unwrap());
        assert!(
            store
                .ask_to_stop("a")
                .unwrap_err()
                .to_string()
                .contains("Stopped")
        );
        let job = store.job("a").unwrap();
        assert!(job.ended_ms.is_some() && job.started_ms.is_some() && store.open_jobs().unwrap().is_empty());
        store.delete_job("a", "arn:a").unwrap();
        assert!(store.tags("arn:a").unwrap().is_empty());
        let again = store.create_job(&new("a"), "arn:a", &[]).unwrap();
        assert_ne!(id, again, "a number is used once");
    }

    #[test]
    fn starts_in_vain_are_counted_until_a_rung_is_added() {
        let (_folder, store) = store();
        let id = store.create_job(&new("a"), "arn:a", &[]).unwrap();
        let idle = || store.job("a").unwrap().idle_starts;
        for (rungs, expected) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (3, 0)] {
            store.begin_job(id, rungs).unwrap();
            assert_eq!(idle(), expected);
        }
        let deaths = || store.job("a").unwrap().idle_deaths;
        for (rungs, expected) in [(3, 1), (3, 2), (4, 0), (3, 1)] {
            store.note_death(id, rungs).unwrap();
            assert_eq!(deaths(), expected);
        }
    }

    #[test]
    fn a_config_in_use_is_not_deleted() {
        let (_folder, store) = store();
        store.create_config("chat", &json!({}), "arn:c", &[]).unwrap();
        let id = store.create_job(&new("a"), "arn:a", &[]).unwrap();
        assert!(matches!(
            store.delete_config("chat", "arn:c"),
            Err(StoreError::InUse { .. })
        ));
        store.move_to(id, Status::Failed, Some("x")).unwrap();
        store.delete_config("chat", "arn:c").unwrap();
        assert!(matches!(
            store.delete_config("chat", "arn:c"),
            Err(StoreError::Missing { .. })
        ));
    }

    #[test]
    fn pages_neither_repeat_nor_leave_out() {
        let (_folder, store) = store();
        for n in 0..7 {
            store.create_job(&new(&format!("job-{n}")), "arn", &[]).unwrap();
        }
        for sort in [SortBy::Name, SortBy::CreationTime, SortBy::Status] {
            for direction in [Direction::Ascending, Direction::Descending] {
                let mut listing = Listing {
                    sort,
                    direction,
                    most: 3,
                    ..Listing::default()
                };
                let mut seen = Vec::new();
                loop {
                    let page = store.jobs(&listing).unwrap();
                    seen.extend(page.items.into_iter().map(|job| job.made.name));
                    match page.next {
                        Some(mark) => listing.behind = Some(mark),
                        None => break,
                    }
                }
                let mut sorted = seen.clone();
                sorted.sort();
                sorted.dedup();
                assert_eq!(
                    (seen.len(), sorted.len()),
                    (7, 7),
                    "{sort:?} {direction:?}: {seen:?}"
                );
                if sort == SortBy::Name {
                    assert_eq!(
                        seen[0],
                        if direction == Direction::Ascending {
                            "job-0"
                        } else {
                            "job-6"
                        }
                    );
                }
            }
        }
        let found = store.jobs(&Listing {
            name_contains: Some("-3".to_owned()),
            status: Some(Status::InProgress),
            after_ms: Some(0),
            before_ms: Some(i64::MAX),
            ..Listing::default()
        });
        assert_eq!(found.unwrap().items[0].made.name, "job-3");
    }

    #[test]
    fn no_more_than_fifty_tags() {
        let (_folder, store) = store();
        let tags = |n: usize| -> Vec<Tag> {
            (0..n)
                .map(|n| Tag {
                    key: n.to_string(),
                    value: String::new(),
                })
                .collect()
        };
        store.add_tags("arn", &tags(50)).unwrap();
        store.add_tags("arn", &tags(50)).unwrap();
        assert!(matches!(
            store.add_tags("arn", &tags(51)),
            Err(StoreError::TooManyTags)
        ));
        store
            .delete_tags("arn", &["0".to_owned(), "none".to_owned()])
            .unwrap();
        assert_eq!(store.tags("arn").unwrap().len(), 49);
    }
}
