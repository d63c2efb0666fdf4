//! Tags of jobs and configs, by ARN.

use rusqlite::{Connection, params};

use super::{Store, StoreError};

/// No resource has more tags.
pub const MOST_TAGS: usize = 50;

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// What it is about.
    pub key: String,
    /// What it says.
    pub value: String,
}

pub(super) fn put_tags(connection: &Connection, arn: &str, tags: &[Tag]) -> Result<(), StoreError> {
    for tag in tags {
        connection.execute(
            "INSERT INTO tag (arn, key, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (arn, key) DO UPDATE SET value = excluded.value",
            params![arn, tag.key, tag.value],
        )?;
    }
    let count: i64 =
        connection.query_row("SELECT count(*) FROM tag WHERE arn = ?1", [arn], |row| row.get(0))?;
    if usize::try_from(count).is_ok_and(|count| count > MOST_TAGS) {
        return Err(StoreError::TooManyTags);
    }
    Ok(())
}

pub(super) fn delete_tags_of(connection: &Connection, arn: &str) -> rusqlite::Result<usize> {
    connection.execute("DELETE FROM tag WHERE arn = ?1", [arn])
}

impl Store {
    /// The tags of a resource, by key.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn tags(&self, arn: &str) -> Result<Vec<Tag>, StoreError> {
        let connection = self.connection();
        let mut query = connection.prepare("SELECT key, value FROM tag WHERE arn = ?1 ORDER BY key")?;
        let rows = query.query_map([arn], |row| {
            Ok(Tag {
                key: row.get(0)?,
                value: row.get(1)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Adds tags, or replaces those of the same keys.
    ///
    /// # Errors
    /// When there would be more than [`MOST_TAGS`]; none is then added.
    pub fn add_tags(&self, arn: &str, tags: &[Tag]) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let work = connection.transaction()?;
        put_tags(&work, arn, tags)?;
        Ok(work.commit()?)
    }

    /// Takes tags away; keys that are not there do no harm.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn delete_tags(&self, arn: &str, keys: &[String]) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let work = connection.transaction()?;
        for key in keys {
            work.execute("DELETE FROM tag WHERE arn = ?1 AND key = ?2", params![arn, key])?;
        }
        Ok(work.commit()?)
    }
}
