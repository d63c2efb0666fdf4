//! Workload configs.

use rusqlite::{OptionalExtension, params, params_from_iter};
use serde_json::Value;

use super::tags::{delete_tags_of, put_tags};
use super::{Listing, Mark, Page, SortBy, Store, StoreError, Tag, is_taken, now_ms};

const KIND: &str = "workload config";

/// A workload config.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Its name, unique among the configs.
    pub name: String,
    /// When it was made, milliseconds since 1970.
    pub created_ms: i64,
    /// What the request said, to be told again.
    pub document: Value,
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<(String, i64, String)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn config((name, created_ms, document): (String, i64, String)) -> Result<Config, StoreError> {
    let document = serde_json::from_str(&document)
        .map_err(|error| StoreError::Damaged(format!("workload config `{name}`: {error}")))?;
    Ok(Config {
        name,
        created_ms,
        document,
    })
}

impl Store {
    /// Stores a new config with its tags.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn create_config(
        &self,
        name: &str,
        document: &Value,
        arn: &str,
        tags: &[Tag],
    ) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let work = connection.transaction()?;
        work.execute(
            "INSERT INTO config (name, created_ms, document) VALUES (?1, ?2, ?3)",
            params![name, now_ms(), document.to_string()],
        )
        .map_err(|error| {
            if is_taken(&error) {
                StoreError::Taken {
                    kind: KIND,
                    name: name.to_owned(),
                }
            } else {
                error.into()
            }
        })?;
        put_tags(&work, arn, tags)?;
        Ok(work.commit()?)
    }

    /// The config of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn config(&self, name: &str) -> Result<Config, StoreError> {
        let found = self
            .connection()
            .query_row(
                "SELECT name, created_ms, document FROM config WHERE name = ?1",
                [name],
                read,
            )
            .optional()?;
        found.map_or_else(
            || {
                Err(StoreError::Missing {
                    kind: KIND,
                    name: name.to_owned(),
                })
            },
            config,
        )
    }

    /// A page of the configs.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn configs(&self, listing: &Listing) -> Result<Page<Config>, StoreError> {
        let (clauses, values) = listing.clauses()?;
        let connection = self.connection();
        let mut query = connection.prepare(&format!(
            "SELECT name, created_ms, document FROM config {clauses}"
        ))?;
        let rows = query.query_map(params_from_iter(values), read)?;
        let items = rows
            .map(|row| config(row?))
            .collect::<Result<Vec<_>, StoreError>>()?;
        Ok(listing.page(items, |config| Mark {
            key: match listing.sort {
                SortBy::CreationTime => config.created_ms.to_string(),
                SortBy::Name | SortBy::Status => config.name.clone(),
            },
            name: config.name.clone(),
        }))
    }

    /// Deletes a config and its tags. Jobs that have ended keep their copy of it.
    ///
    /// # Errors
    /// When there is none, or a job that has not ended names it.
    pub fn delete_config(&self, name: &str, arn: &str) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let work = connection.transaction()?;
        let user: Option<String> = work
            .query_row(
                "SELECT name FROM job WHERE config = ?1 AND status IN ('InProgress', 'Stopping') LIMIT 1",
                [name],
                |row| row.get(0),
            )
            .optional()?;
        if let Some(job) = user {
            return Err(StoreError::InUse {
                name: name.to_owned(),
                job,
            });
        }
        if work.execute("DELETE FROM config WHERE name = ?1", [name])? == 0 {
            return Err(StoreError::Missing {
                kind: KIND,
                name: name.to_owned(),
            });
        }
        delete_tags_of(&work, arn)?;
        Ok(work.commit()?)
    }
}
