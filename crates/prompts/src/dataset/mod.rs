//! Datasets: texts that are sent as they are.
//!
//! | format | what a file holds |
//! |---|---|
//! | `sharegpt` | a JSON array of `{"conversations": [{"from": "human", "value": ...}, ...]}` |
//! | `openai` | a JSON object a line with `messages`, `prompt`, or a batch request's `body` |
//! | `csv` | a table with a column of prompts |
//! | `parquet` | the same, or a column of `messages` or `conversations` |
//!
//! Files are read as a stream, up to a bound on the texts that are kept.

mod csv;
mod dialogue;
mod json;
mod parquet;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use plimsoll_run::nearest::hint;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::calibration::Calibration;
use crate::error::SourceError;
use crate::file;
use crate::outline::Part;
use crate::request::Role;
use crate::seed::mix;
use dialogue::Dialogue;

/// Texts that are kept, bytes. A sweep sends less.
const MOST_BYTES: usize = 512 << 20;
/// Dialogues that are kept.
const MOST_ROWS: usize = 2_000_000;

/// The format of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatasetFormat {
    /// A JSON array of conversations.
    Sharegpt,
    /// JSON lines of messages or prompts.
    Openai,
    /// Comma-separated values.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl DatasetFormat {
    const ALL: [DatasetFormat; 4] = [
        DatasetFormat::Sharegpt,
        DatasetFormat::Openai,
        DatasetFormat::Csv,
        DatasetFormat::Parquet,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DatasetFormat::Sharegpt => "sharegpt",
            DatasetFormat::Openai => "openai",
            DatasetFormat::Csv => "csv",
            DatasetFormat::Parquet => "parquet",
        }
    }
}

/// A format that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a format of datasets{hint}; formats are sharegpt, openai, csv and parquet")]
pub struct DatasetFormatError {
    text: String,
    hint: String,
}

impl FromStr for DatasetFormat {
    type Err = DatasetFormatError;

    fn from_str(text: &str) -> Result<Self, DatasetFormatError> {
        DatasetFormat::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| DatasetFormatError {
                text: text.to_owned(),
                hint: hint(text, &DatasetFormat::ALL.map(DatasetFormat::name)),
            })
    }
}

/// How to read a dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatasetOptions {
    /// Its format; `None` goes by name and content.
    pub format: Option<DatasetFormat>,
    /// The column or key of the prompts; `None` takes the usual names.
    pub prompt_column: Option<String>,
    /// The column or key of the replies: lengths in tokens, or texts. `None` takes the usual names.
    pub output_column: Option<String>,
}

/// Dialogues to send.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dataset {
    rows: Vec<Dialogue>,
    /// The order in which they are sent.
    order: Vec<u32>,
    distinct: usize,
}

/// What a reader hands over.
#[derive(Debug, Default)]
struct Harvest {
    rows: Vec<Dialogue>,
    bytes: usize,
    /// Entries without a user's text, and the number of the first of them.
    empty: u64,
    first_empty: u64,
    /// Whether the file holds more than is kept.
    cut: bool,
}

impl Harvest {
    /// Keeps an entry; `false` when no more can be kept.
    fn add(&mut self, number: u64, dialogue: Option<Dialogue>) -> bool {
        match dialogue {
            Some(dialogue) => {
                if self.rows.len() >= MOST_ROWS || self.bytes + dialogue.bytes() > MOST_BYTES {
                    self.cut = true;
                    return false;
                }
                self.bytes += dialogue.bytes();
                self.rows.push(dialogue);
            }
            None => {
                if self.empty == 0 {
                    self.first_empty = number;
                }
                self.empty += 1;
            }
        }
        true
    }
}

fn hash(text: &str) -> u64 {
    // `DefaultHasher::new` has fixed keys: equal texts hash alike in every run.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl Dataset {
    /// Reads a file: the dialogues, the format, and notes.
    pub(crate) fn read(
        file: &str,
        options: &DatasetOptions,
    ) -> Result<(Dataset, &'static str, Vec<String>), SourceError> {
        let format = match options.format {
            Some(format) => format,
            None => detect(file)?,
        };
        let mut harvest = Harvest::default();
        match format {
            DatasetFormat::Sharegpt => json::array(file, options, &mut harvest)?,
            DatasetFormat::Openai => json::lines(file, options, &mut harvest)?,
            DatasetFormat::Csv => csv::read(file, options, &mut harvest)?,
            DatasetFormat::Parquet => parquet::read(file, options, &mut harvest)?,
        }
        if harvest.rows.is_empty() {
            return Err(SourceError::nothing(file, "no prompt"));
        }
        let mut notes = Vec::new();
        if harvest.empty > 0 {
            notes.push(format!(
                "{} entries of {file} have no text of a user and are left out, the first on line {}",
                harvest.empty, harvest.first_empty
            ));
        }
        if harvest.cut {
            notes.push(format!(
                "{file} holds more than is kept: the first {} entries are used",
                harvest.rows.len()
            ));
        }
        Ok((Dataset::of(harvest.rows), format.name(), notes))
    }

    fn of(rows: Vec<Dialogue>) -> Dataset {
        let distinct = rows
            .iter()
            .map(|row| hash(&row.opening()))
            .collect::<HashSet<u64>>()
            .len();
        let mut order: Vec<u32> = (0..u32::try_from(rows.len()).unwrap_or(u32::MAX)).collect();
        // Files are often sorted by topic or length: every rung should meet the same mix. The order is always the same.
        order.shuffle(&mut StdRng::seed_from_u64(rows.len() as u64));
        Dataset {
            rows,
            order,
            distinct,
        }
    }

    /// Dialogues in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none; never so for one that was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Dialogues whose prompts are different.
    #[must_use]
    pub fn distinct(&self) -> usize {
        self.distinct
    }

    /// Up to so many of the texts that users say first.
    #[cfg(feature = "tokenizer")]
    pub(crate) fn sample(&self, most: usize) -> impl Iterator<Item = &str> {
        self.order
            .iter()
            .take(most)
            .filter_map(|row| self.rows.get(*row as usize)?.exchanges.first()?.said.last())
            .map(|(_, text)| &**text)
    }

    /// The row that is taken as the `n`th of the run, and in which pass through the file. `seed` says where it starts: a
    /// run that is taken up again does not begin with the same prompts.
    pub(crate) fn row(&self, n: u64, seed: u64) -> (usize, u64) {
        let len = self.order.len().max(1) as u64;
        let at = (mix(seed) % len + n % len) % len;
        let row = self.order.get(at as usize).copied().unwrap_or(0);
        (row as usize, n / len)
    }

    /// Exchanges that a row has.
    pub(crate) fn exchanges(&self, row: usize) -> u32 {
        self.rows
            .get(row)
            .map_or(1, |row| u32::try_from(row.exchanges.len()).unwrap_or(u32::MAX))
    }

    /// Adds what is said up to a turn of a row. Returns the length of the reply to it, where the file has one.
    pub(crate) fn say(
        &self,
        row: usize,
        turn: u32,
        turns: u32,
        calibration: Calibration,
        parts: &mut Vec<Part>,
    ) -> Option<u32> {
        let row = self.rows.get(row)?;
        let (first, last) = row.span(turn, turns);
        let mut reply = None;
        for (at, exchange) in row.exchanges.iter().enumerate().take(last + 1).skip(first) {
            for (role, text) in &exchange.said {
                let continues =
                    *role == Role::System && parts.last().is_some_and(|part| part.role == Role::System);
                parts.push(Part {
                    continues,
                    text: Some(text.clone()),
                    ..Part::new(*role, calibration.tokens_of_text(text.len()), hash(text))
                });
            }
            if at < last
                && let Some(text) = &exchange.reply
            {
                parts.push(Part {
                    text: Some(text.clone()),
                    ..Part::new(
                        Role::Assistant,
                        calibration.tokens_of_text(text.len()),
                        hash(text),
                    )
                });
            }
            if at == last {
                reply = exchange.output_tokens.or_else(|| {
                    exchange
                        .reply
                        .as_ref()
                        .map(|reply| calibration.tokens_of_text(reply.len()))
                });
            }
        }
        reply
    }

    /// Prompt and reply lengths of single requests at four bytes a token.
    pub(crate) fn estimated_lengths(&self) -> (Vec<u32>, Vec<u32>) {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for row in 0..self.rows.len() {
            let mut parts = Vec::new();
            outputs.extend(self.say(row, 0, 1, Calibration::UNKNOWN, &mut parts));
            inputs.push(
                parts
                    .iter()
                    .fold(0_u32, |sum, part| sum.saturating_add(part.tokens)),
            );
        }
        (inputs, outputs)
    }
}

/// The format by name and content.
fn detect(file: &str) -> Result<DatasetFormat, SourceError> {
    let opening = file::opening(file)?;
    let lower = file.to_ascii_lowercase();
    Ok(if opening.starts_with(b"PAR1") {
        DatasetFormat::Parquet
    } else if opening.starts_with(b"[") {
        DatasetFormat::Sharegpt
    } else if opening.starts_with(b"{") {
        DatasetFormat::Openai
    } else if [".csv", ".tsv"].iter().any(|end| lower.ends_with(end)) {
        DatasetFormat::Csv
    } else {
        return Err(SourceError::unreadable(
            file,
            "neither JSON, JSON lines, Parquet nor a .csv; name its format with --dataset-format",
        ));
    })
}

#[cfg(test)]
mod tests;
