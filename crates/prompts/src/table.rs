//! A table in a text file: a heading and rows, read one after the other.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use csv::{ByteRecord, Reader, ReaderBuilder, Terminator, Trim};
use plimsoll_run::nearest::hint;

use crate::error::{SourceError, shortened};
use crate::file;

/// A table with its heading read.
pub(crate) struct Table {
    file: String,
    reader: Reader<BufReader<File>>,
    titles: Vec<String>,
    /// Where the file ends, if no line end stands there.
    open_end: Option<u64>,
}

/// One of its rows.
pub(crate) struct Row<'a> {
    file: &'a str,
    line: u64,
    record: &'a ByteRecord,
    titles: &'a [String],
}

impl Table {
    /// Opens a table separated by commas, or by tabs where its name ends in `.tsv`.
    pub(crate) fn open(file: &str) -> Result<Table, SourceError> {
        let mut reader = ReaderBuilder::new()
            .flexible(true)
            .trim(Trim::Headers)
            // A carriage return before it is taken off each row: with both as one terminator, lines are counted wrong.
            .terminator(Terminator::Any(b'\n'))
            .delimiter(if file.to_ascii_lowercase().ends_with(".tsv") {
                b'\t'
            } else {
                b','
            })
            .from_reader(file::open(file)?);
        let titles = reader
            .byte_headers()
            .map_err(|error| SourceError::unreadable(file, error))?
            .iter()
            .map(|title| {
                std::str::from_utf8(title)
                    .map(|title| title.trim().to_owned())
                    .map_err(|_| SourceError::line(file, 1, "it is not UTF-8 text"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Table {
            file: file.to_owned(),
            reader,
            titles,
            open_end: open_end(file)?,
        })
    }

    /// The first column with one of these titles, whatever their case.
    pub(crate) fn find(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| {
            self.titles
                .iter()
                .position(|title| title.eq_ignore_ascii_case(name))
        })
    }

    /// The column with this title.
    pub(crate) fn named(&self, name: &str) -> Result<usize, SourceError> {
        self.find(&[name]).ok_or_else(|| {
            let known: Vec<&str> = self.titles.iter().map(String::as_str).collect();
            SourceError::line(
                &self.file,
                1,
                format!(
                    "there is no column `{}`{}; columns are {}",
                    shortened(name),
                    hint(name, &known),
                    self.listed()
                ),
            )
        })
    }

    /// The first column with one of these titles, else an error that says what is missing and how to name it.
    pub(crate) fn any(&self, names: &[&str], what: &str, remedy: &str) -> Result<usize, SourceError> {
        self.find(names).ok_or_else(|| {
            SourceError::line(
                &self.file,
                1,
                format!(
                    "there is no column of {what} ({}) among {}; name it with {remedy}",
                    names.join(", "),
                    self.listed()
                ),
            )
        })
    }

    fn listed(&self) -> String {
        let titles: Vec<String> = self
            .titles
            .iter()
            .take(12)
            .map(|title| shortened(title))
            .collect();
        titles.join(", ")
    }

    /// Calls `take` with each row until it says stop.
    pub(crate) fn for_each(
        &mut self,
        mut take: impl FnMut(Row<'_>) -> Result<bool, SourceError>,
    ) -> Result<(), SourceError> {
        let mut record = ByteRecord::new();
        loop {
            let before = self.reader.position().line();
            match self.reader.read_byte_record(&mut record) {
                Ok(false) => return Ok(()),
                Ok(true) => {}
                Err(error) => return Err(SourceError::line(&self.file, before, error.to_string())),
            }
            if record.len() == 1 && record.iter().all(|cell| cell.trim_ascii().is_empty()) {
                continue;
            }
            // Blank lines before it were passed over: only where it ended is known.
            let after = self.reader.position();
            let within: usize = record
                .iter()
                .map(|cell| cell.iter().filter(|b| **b == b'\n').count())
                .sum();
            let beyond = u64::from(self.open_end != Some(after.byte()));
            let row = Row {
                file: &self.file,
                line: after.line().saturating_sub(beyond + within as u64),
                record: &record,
                titles: &self.titles,
            };
            if !take(row)? {
                return Ok(());
            }
        }
    }
}

/// The length of the file, if its last line has no end.
fn open_end(file: &str) -> Result<Option<u64>, SourceError> {
    let mut reader = file::open(file)?;
    let mut last = [0];
    let length = reader
        .seek(SeekFrom::End(-1))
        .and_then(|at| reader.read_exact(&mut last).map(|()| at + 1))
        .map_err(|error| SourceError::unreadable(file, error))?;
    Ok((last != [b'\n']).then_some(length))
}

impl Row<'_> {
    /// Where it stands.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// An error of this row.
    pub(crate) fn wrong(&self, problem: impl Into<String>) -> SourceError {
        SourceError::line(self.file, self.line, problem)
    }

    /// The text of a cell.
    pub(crate) fn cell(&self, column: usize) -> Result<&str, SourceError> {
        let bytes = self.record.get(column).ok_or_else(|| {
            self.wrong(format!(
                "it has no `{}`",
                self.titles.get(column).map_or("", String::as_str)
            ))
        })?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.wrong("it is not UTF-8 text"))?;
        let last = column + 1 == self.record.len();
        Ok(text.strip_suffix('\r').filter(|_| last).unwrap_or(text))
    }
}
