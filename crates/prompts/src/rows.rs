//! The rows of a file that requests come from.

use plimsoll_run::workload::{NamedFile, Source, SourceKind, TokenLength};

use crate::dataset::{Dataset, DatasetOptions};
use crate::error::SourceError;
use crate::file;
use crate::lengths::condensed;
use crate::trace::{self, TimeUnit, Trace};

/// Texts or lengths.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows {
    /// Texts to send.
    Dataset(Dataset),
    /// Lengths that were recorded.
    Trace(Trace),
}

/// A source that was read.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it is, for the record.
    pub source: Source,
    /// Its rows.
    pub rows: Rows,
    /// Its prompt lengths in up to a hundred steps; estimates for a dataset.
    pub input_tokens: TokenLength,
    /// Its reply lengths likewise; `None` where the file says nothing of replies.
    pub output_tokens: Option<TokenLength>,
    /// What to know of it, one sentence each.
    pub notes: Vec<String>,
}

/// A file by its name and content.
///
/// # Errors
/// When it cannot be read.
pub fn named_file(file: &str) -> Result<NamedFile, SourceError> {
    Ok(NamedFile {
        file: file.to_owned(),
        sha256: file::sha256(file)?,
    })
}

/// Reads a dataset.
///
/// # Errors
/// When the file cannot be read, or a line of it is not what its format says; the line is named.
pub fn load_dataset(file: &str, options: &DatasetOptions) -> Result<Loaded, SourceError> {
    let (dataset, format, mut notes) = Dataset::read(file, options)?;
    let (inputs, outputs) = dataset.estimated_lengths();
    let distinct = dataset.distinct();
    if distinct < dataset.len() {
        notes.push(format!(
            "{file} holds {} prompts of which only {distinct} are distinct: a prefix cache may answer the others",
            dataset.len()
        ));
    }
    Ok(Loaded {
        source: Source {
            kind: SourceKind::Dataset,
            format: format.to_owned(),
            named: named_file(file)?,
            requests: dataset.len() as u64,
            prompt_column: options.prompt_column.clone(),
            output_column: options.output_column.clone(),
            unit: None,
            own_output_tokens: false,
        },
        input_tokens: condensed(inputs).ok_or_else(|| SourceError::nothing(file, "no prompt"))?,
        output_tokens: condensed(outputs),
        rows: Rows::Dataset(dataset),
        notes,
    })
}

/// Reads a trace.
///
/// # Errors
/// When the file cannot be read, or a line of it is not what its format says; the line is named.
pub fn load_trace(file: &str, unit: Option<TimeUnit>) -> Result<Loaded, SourceError> {
    let recorded = trace::read(file, unit)?;
    let nothing = || SourceError::nothing(file, "no request");
    Ok(Loaded {
        source: Source {
            kind: SourceKind::Trace,
            format: recorded.format.to_owned(),
            named: named_file(file)?,
            requests: recorded.trace.len() as u64,
            prompt_column: None,
            output_column: None,
            unit: None,
            own_output_tokens: false,
        },
        input_tokens: condensed(recorded.trace.lengths().map(|(input, _)| input)).ok_or_else(nothing)?,
        output_tokens: condensed(recorded.trace.lengths().map(|(_, output)| output)),
        rows: Rows::Trace(recorded.trace),
        notes: recorded.notes,
    })
}
