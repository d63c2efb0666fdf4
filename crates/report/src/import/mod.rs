//! Tables that someone else measured, as the rungs of a run.
//!
//! | format | module |
//! |---|---|
//! | CSV, one row a level | `table`, its columns in `columns` |
//! | AIPerf: `profile_export_aiperf.json`, `profile_export_aiperf_sweep.json`, `search_history.json` | `aiperf` |
//! | GuideLLM: benchmarks JSON | `guidellm` |
//! | `vllm bench serve` and SGLang's `bench_serving`: result JSON, one level each, or many as JSON lines | `bench_serve` |
//!
//! The format is told by the content. Every importer makes rows; `row` makes rungs of them. Nothing is judged here,
//! and nothing that a table lacks is made up: it is `None`, and null in `run.json`.

mod aiperf;
mod bench_serve;
mod columns;
mod guidellm;
mod json;
mod row;
mod table;

use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::Sla;
use plimsoll_run::table::ImportedTable;
use serde_json::Value;

use row::Row;

/// A file that cannot be used: what is wrong, where, and what would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct ImportError {
    /// The file as it was named.
    pub file: String,
    /// What is wrong with it and what would do.
    pub problem: String,
}

/// What the files say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// One rung a row, not yet examined, in the order of the files.
    pub rungs: Vec<RungReport>,
    /// What the files say beside the figures of those rungs.
    pub table: ImportedTable,
    /// The model, where a file names it.
    pub model: Option<String>,
}

/// What one file says, before it is made rungs of.
#[derive(Debug, Clone, Default)]
struct Content {
    format: &'static str,
    rows: Vec<Row>,
    sla: Sla,
    model: Option<String>,
    streaming: Option<bool>,
    remarks: Vec<String>,
}

/// Reads files of any known format, named as the user named them. `output_tokens` is the mean reply length for tables
/// that do not tell it: requests and tokens per second then follow from each other.
///
/// # Errors
/// The first file that is empty, no text, of no known format, or holds a value that cannot be.
pub fn import(files: &[(String, Vec<u8>)], output_tokens: Option<f64>) -> Result<Imported, ImportError> {
    let mut imported = Imported::default();
    let mut rows: Vec<Row> = Vec::new();
    for (file, bytes) in files {
        let content = read(bytes).map_err(|problem| ImportError {
            file: file.clone(),
            problem,
        })?;
        let table = &mut imported.table;
        if !table.formats.iter().any(|format| format == content.format) {
            table.formats.push(content.format.to_owned());
        }
        if table.sla.terms.is_empty() {
            table.sla = content.sla;
        }
        table.streaming = table.streaming.or(content.streaming);
        imported.model = imported.model.or(content.model);
        for remark in content.remarks {
            let remark = if files.len() > 1 {
                format!("{file}: {remark}")
            } else {
                remark
            };
            table.remarks.push(remark);
        }
        rows.extend(content.rows);
    }
    once(&mut rows, &mut imported.table.remarks);
    imported.table.remarks.extend(row::stand_ins(&mut rows));
    imported.table.remarks.extend(row::fill_rates(&mut rows));
    for (row, order) in rows.iter_mut().zip(1..) {
        if let Some(tokens) = output_tokens {
            row.complete(tokens);
        }
        imported.table.rows.push(row.beside());
        imported.rungs.push(row.report(order));
    }
    if imported
        .rungs
        .iter()
        .any(|rung| rung.requests.sent == 0 && rung.error_rate().is_some())
    {
        imported.table.remarks.push(
            "The table gives error rates without the number of requests: shares of failures carry no interval.".to_owned(),
        );
    }
    Ok(imported)
}

/// Drops rows that say again what another says, and names levels measured more than once.
fn once(rows: &mut Vec<Row>, remarks: &mut Vec<String>) {
    let mut kept: Vec<Row> = Vec::new();
    for row in rows.drain(..) {
        if kept.iter().any(|other| other.says_the_same(&row)) {
            remarks.push(format!(
                "{} repeats an earlier row of level {} word for word and was left out.",
                row.place, row.level
            ));
        } else {
            if kept.iter().any(|other| other.level == row.level) {
                remarks.push(format!(
                    "{} is a further measurement of level {}; the last that can be believed counts.",
                    row.place, row.level
                ));
            }
            kept.push(row);
        }
    }
    *rows = kept;
}

fn read(bytes: &[u8]) -> Result<Content, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("no UTF-8 text (byte {}); save it as UTF-8", error.valid_up_to()))?;
    let start = text.trim_start();
    if start.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let content = if start.starts_with(['{', '[']) {
        from_json(text)?
    } else {
        table::read(text)?
    };
    if content.rows.is_empty() {
        return Err(format!("{} without a single level", content.format));
    }
    Ok(content)
}

/// One document, or several one after another (JSON lines).
fn from_json(text: &str) -> Result<Content, String> {
    let documents: Vec<Value> = serde_json::Deserializer::from_str(text)
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(|error| format!("no JSON: {error}"))?;
    let mut whole = Content::default();
    let several = documents.len() > 1;
    for (at, document) in documents.iter().enumerate() {
        let parts: Vec<&Value> = match document {
            Value::Array(parts) => parts.iter().collect(),
            other => vec![other],
        };
        for (part_at, part) in parts.iter().enumerate() {
            let place = match (several, parts.len() > 1) {
                (false, false) => String::new(),
                (false, true) => format!("[{part_at}]"),
                (true, _) => format!("document {}", at + 1),
            };
            let content = dispatch(part).map_err(|problem| {
                if place.is_empty() {
                    problem
                } else {
                    format!("{place}: {problem}")
                }
            })?;
            whole.format = content.format;
            whole.rows.extend(content.rows);
            whole.model = whole.model.or(content.model);
            whole.streaming = whole.streaming.or(content.streaming);
            if whole.sla.terms.is_empty() {
                whole.sla = content.sla;
            }
            for remark in content.remarks {
                if !whole.remarks.contains(&remark) {
                    whole.remarks.push(remark);
                }
            }
        }
    }
    Ok(whole)
}

fn dispatch(document: &Value) -> Result<Content, String> {
    if document.get("schema").and_then(Value::as_str) == Some(plimsoll_run::document::SCHEMA) {
        Err("a run of plimsoll, not a table; `plimsoll plan` answers from it".to_owned())
    } else if aiperf::is_sweep(document) {
        aiperf::sweep(document)
    } else if aiperf::is_search(document) {
        aiperf::search(document)
    } else if aiperf::is_profile(document) {
        aiperf::profile(document)
    } else if guidellm::is(document) {
        guidellm::read(document)
    } else if bench_serve::is(document) {
        bench_serve::read(document)
    } else {
        Err(
            "JSON of no known format; tried AIPerf (profile_export_aiperf.json, profile_export_aiperf_sweep.json, \
             search_history.json), GuideLLM (benchmarks.json), vllm bench serve and SGLang bench_serving results"
                .to_owned(),
        )
    }
}
