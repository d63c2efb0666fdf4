//! What a list shows: filters, order, and one page at a time.
//!
//! A page begins behind a mark, the place of the last item of the page before, so what is made or deleted in between
//! neither repeats nor hides another item.

use rusqlite::types::Value as Sql;

use super::StoreError;
use crate::job::Status;

/// What a list is ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortBy {
    /// The name.
    Name,
    /// When it was made.
    CreationTime,
    /// The state, of jobs.
    Status,
}

/// Which end comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The smallest.
    Ascending,
    /// The largest.
    Descending,
}

/// The place of an item in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What the list is ordered by, as text.
    pub key: String,
    /// The name, which tells equal keys apart.
    pub name: String,
}

/// What to list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Only names with this in them.
    pub name_contains: Option<String>,
    /// Only jobs of this state.
    pub status: Option<Status>,
    /// Only what was made after this, milliseconds.
    pub after_ms: Option<i64>,
    /// Only what was made before this, milliseconds.
    pub before_ms: Option<i64>,
    /// The order.
    pub sort: SortBy,
    /// Which end comes first.
    pub direction: Direction,
    /// Begin behind this.
    pub behind: Option<Mark>,
    /// At most so many.
    pub most: usize,
}

impl Default for Listing {
    fn default() -> Self {
        Listing {
            name_contains: None,
            status: None,
            after_ms: None,
            before_ms: None,
            sort: SortBy::CreationTime,
            direction: Direction::Descending,
            behind: None,
            most: 100,
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<Mark>,
}

impl Listing {
    /// The clauses behind `SELECT ... FROM table`, with their values. One more item than asked for shows whether there is a next
    /// page.
    pub(super) fn clauses(&self) -> Result<(String, Vec<Sql>), StoreError> {
        let column = match self.sort {
            SortBy::Name => "name",
            SortBy::CreationTime => "created_ms",
            SortBy::Status => "status",
        };
        let (order, beyond) = match self.direction {
            Direction::Ascending => ("ASC", ">"),
            Direction::Descending => ("DESC", "<"),
        };
        let mut conditions = vec!["1".to_owned()];
        let mut values: Vec<Sql> = Vec::new();
        let mut filter = |condition: &str, value: Sql| {
            values.push(value);
            conditions.push(condition.replace('?', &format!("?{}", values.len())));
        };
        if let Some(part) = &self.name_contains {
            filter("instr(name, ?) > 0", part.clone().into());
        }
        if let Some(status) = self.status {
            filter("status = ?", status.name().to_owned().into());
        }
        if let Some(after) = self.after_ms {
            filter("created_ms > ?", after.into());
        }
        if let Some(before) = self.before_ms {
            filter("created_ms < ?", before.into());
        }
        if let Some(mark) = &self.behind {
            let key: Sql = match self.sort {
                SortBy::CreationTime => mark
                    .key
                    .parse::<i64>()
                    .map_err(|_| StoreError::Damaged("a mark of a list is no time".to_owned()))?
                    .into(),
                SortBy::Name | SortBy::Status => mark.key.clone().into(),
            };
            values.extend([key, mark.name.clone().into()]);
            let last = values.len();
            conditions.push(format!("({column}, name) {beyond} (?{}, ?{last})", last - 1));
        }
        let conditions = conditions.join(" AND ");
        let most = self.most + 1;
        Ok((
            format!("WHERE {conditions} ORDER BY {column} {order}, name {order} LIMIT {most}"),
            values,
        ))
    }

    /// Cuts the item too many off, and marks the place.
    pub(super) fn page<T>(&self, mut items: Vec<T>, mark: impl Fn(&T) -> Mark) -> Page<T> {
        let more = items.len() > self.most;
        items.truncate(self.most);
        let next = items.last().filter(|_| more).map(mark);
        Page { items, next }
    }
}
