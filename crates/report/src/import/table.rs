//! A CSV table, one row a level: separated by commas, semicolons or tabs, columns in any order, cells blank where nothing
//! was published.

use csv::{ReaderBuilder, StringRecord, Trim};
use plimsoll_run::validity::Verdict;

use super::Content;
use super::columns::{CANONICAL, Field, field};
use super::json::level;
use super::row::{Row, set};

/// A length from rates that are rounded more coarsely than this says nothing.
const ROUNDED: f64 = 0.03;

pub(super) fn read(text: &str) -> Result<Content, String> {
    let delimiter = delimiter(text);
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .trim(Trim::All)
        .flexible(true)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let header = reader
        .headers()
        .map_err(|error| format!("the header cannot be read: {error}"))?
        .clone();
    let mut remarks = Vec::new();
    let columns = columns(&header, &mut remarks)?;
    let mut rows = Vec::new();
    let mut derived = None;
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, |start| line(text, start));
        if record.iter().all(str::is_empty) {
            continue;
        }
        rows.push(row(&record, line, &header, &columns, delimiter, &mut derived)?);
    }
    if let Some(how) = derived {
        remarks.push(format!(
            "The table says that figures were computed afterwards: {how}."
        ));
    }
    if rows.is_empty() {
        return Err("a header and no row; one row a level is needed".to_owned());
    }
    Ok(Content {
        format: "CSV table",
        rows,
        remarks,
        ..Content::default()
    })
}

/// The line that a record stands on: its position is where the reader was, before any blank lines and comments.
fn line(text: &str, start: &csv::Position) -> u64 {
    let rest = usize::try_from(start.byte())
        .ok()
        .and_then(|byte| text.get(byte..))
        .unwrap_or("");
    let skipped = rest
        .lines()
        .take_while(|line| line.trim().is_empty() || line.starts_with('#'))
        .count();
    start.line() + skipped as u64
}

/// The separator that the first line of data has most of.
fn delimiter(text: &str) -> u8 {
    let header = text
        .lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .unwrap_or("");
    [b',', b';', b'\t']
        .into_iter()
        .rev()
        .max_by_key(|separator| header.bytes().filter(|byte| byte == separator).count())
        .unwrap_or(b',')
}

fn columns(header: &StringRecord, remarks: &mut Vec<String>) -> Result<Vec<Option<Field>>, String> {
    let mut columns: Vec<Option<Field>> = Vec::new();
    let (mut unknown, mut unitless) = (Vec::new(), Vec::new());
    for name in header {
        let found = field(name);
        if let Some((field, _)) = found
            && !matches!(field, Field::Unused)
            && let Some(before) = columns.iter().position(|other| *other == Some(field))
        {
            return Err(format!(
                "columns `{}` and `{name}` say the same thing; leave one",
                header.get(before).unwrap_or("")
            ));
        }
        match found {
            None if !name.is_empty() => unknown.push(format!("`{name}`")),
            Some((_, true)) => unitless.push(format!("`{name}`")),
            _ => {}
        }
        columns.push(found.map(|(field, _)| field));
    }
    let known = columns.iter().flatten().count();
    if header.iter().next().is_some_and(|first| first == "Metric") && header.iter().any(|name| name == "avg")
    {
        return Err(
            "AIPerf's CSV has no level in it; give the profile_export_aiperf.json beside it".to_owned(),
        );
    }
    if !columns.contains(&Some(Field::Level)) {
        let first = header.iter().next().unwrap_or("");
        let what = if known == 0 {
            format!("line 1 is no header (`{first}` ...)")
        } else {
            "no column `concurrency`".to_owned()
        };
        return Err(format!("{what}; columns known are {CANONICAL}"));
    }
    if !columns
        .iter()
        .flatten()
        .any(|field| matches!(field, Field::OutputTokens | Field::Requests | Field::Latency(..)))
    {
        return Err(format!(
            "neither throughput nor latency; columns known are {CANONICAL}"
        ));
    }
    if !unknown.is_empty() {
        remarks.push(format!("Unknown columns were ignored: {}.", unknown.join(", ")));
    }
    if !unitless.is_empty() {
        remarks.push(format!(
            "{} without a unit: taken as milliseconds.",
            unitless.join(", ")
        ));
    }
    Ok(columns)
}

fn row(
    record: &StringRecord,
    line: u64,
    header: &StringRecord,
    columns: &[Option<Field>],
    delimiter: u8,
    derived: &mut Option<String>,
) -> Result<Row, String> {
    if record.len() < columns.len() || record.iter().skip(columns.len()).any(|cell| !cell.is_empty()) {
        return Err(format!(
            "line {line} has {} cells and the header {}; leave a cell blank where nothing is known",
            record.len(),
            columns.len()
        ));
    }
    let mut row = Row {
        place: format!("Line {line}"),
        counted: true,
        ..Row::default()
    };
    let (mut ok, mut coarse) = (None, false);
    let mut seen_level = false;
    for ((cell, column), name) in record.iter().zip(columns).zip(header) {
        let Some(field) = column else { continue };
        if cell.is_empty() {
            continue;
        }
        let at = || format!("line {line}, column `{name}`");
        match field {
            Field::Unused => continue,
            Field::Derived => {
                // Little's law would find what was put in.
                let mentions = |word: &str| cell.contains(word);
                row.counted = !(mentions("req_s") || mentions("e2e") || mentions("latency"));
                derived.get_or_insert_with(|| cell.to_owned());
                continue;
            }
            Field::Met => {
                row.met = Some(match cell.to_lowercase().as_str() {
                    "true" | "yes" | "pass" | "passed" | "met" | "1" => true,
                    "false" | "no" | "fail" | "failed" | "0" => false,
                    _ => return Err(format!("{}: `{cell}` is neither true nor false", at())),
                });
                continue;
            }
            Field::Verdict => {
                let verdict: Verdict = serde_json::from_value(cell.into()).map_err(|_| {
                    format!("{}: `{cell}` is not a verdict of plimsoll; leave it blank", at())
                })?;
                row.verdict = Some(verdict);
                continue;
            }
            _ => {}
        }
        let value = number(cell, delimiter).map_err(|problem| format!("{}: {problem}", at()))?;
        let count = || {
            (value.fract() == 0.0 && value < 1e15)
                .then_some(value as u64)
                .ok_or_else(|| format!("{}: `{cell}` is not a whole number", at()))
        };
        match field {
            Field::Level => {
                row.level = level(value).map_err(|problem| format!("{}: {problem}", at()))?;
                seen_level = true;
            }
            Field::OutputTokens => row.output_tokens_per_s = Some(value),
            Field::Requests => {
                row.requests_per_s = Some(value);
                coarse = rounding(cell) > ROUNDED * value;
            }
            Field::TotalTokens => row.total_tokens_per_s = Some(value),
            Field::Goodput => row.goodput_per_s = Some(value),
            Field::ErrorRate(factor) => {
                let share = value * factor;
                if share > 1.0 {
                    return Err(format!(
                        "{}: `{cell}` is above 1; write a fraction, such as 0.05 for 5 %, or name the column \
                         error_rate_pct",
                        at()
                    ));
                }
                row.error_rate = Some(share);
            }
            Field::Count => row.requests = Some(count()?),
            Field::Ok => ok = Some(count()?),
            Field::Failed => row.failed = Some(count()?),
            Field::InFlight => row.in_flight = Some(value),
            Field::InputLength => row.input_tokens = Some(value),
            Field::OutputLength => row.output_tokens = Some(value),
            Field::Window => row.window_s = Some(value),
            Field::Latency(metric, stat, factor) => {
                set(&mut row.latency[*metric], *stat, Some(value * factor));
            }
            Field::Met | Field::Verdict | Field::Derived | Field::Unused => {}
        }
    }
    if !seen_level {
        return Err(format!("line {line} names no concurrency"));
    }
    if let Some(ok) = ok {
        let all = ok + row.failed.unwrap_or(0);
        let all = *row.requests.get_or_insert(all);
        row.failed.get_or_insert(all.saturating_sub(ok));
    }
    if row.output_tokens.is_none()
        && row.counted
        && !coarse
        && let (Some(tokens), Some(requests)) = (
            row.output_tokens_per_s,
            row.requests_per_s.filter(|rate| *rate > 0.0),
        )
    {
        row.output_tokens = Some(tokens / requests);
    }
    Ok(row)
}

fn number(cell: &str, delimiter: u8) -> Result<f64, String> {
    let parsed: Option<f64> = cell.parse().ok().or_else(|| {
        // Where semicolons separate, a comma is a decimal point.
        (delimiter == b';')
            .then(|| cell.replacen(',', ".", 1).parse().ok())
            .flatten()
    });
    let Some(value) = parsed.filter(|value: &f64| value.is_finite()) else {
        return Err(format!(
            "`{cell}` is not a number; leave the cell blank where nothing is known"
        ));
    };
    if value < 0.0 {
        return Err(format!("`{cell}` is below 0"));
    }
    Ok(value)
}

/// Half a unit of the last digit written.
fn rounding(cell: &str) -> f64 {
    let decimals = cell
        .split_once(['.', ','])
        .map_or(0, |(_, decimals)| decimals.len());
    0.5 * 10_f64.powi(-i32::try_from(decimals).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_decimal_commas() {
        for text in [
            "concurrency,req_s,ttft_p95_ms\n4,1.5,\n8,2.5,90\n",
            "concurrency;req_s;ttft_p95_ms\r\n4;1,5;\r\n8;2,5;90\r\n",
            "ttft_p95_ms\treq_s\tconcurrency\n\t1.5\t4\n\n90\t2.5\t8",
        ] {
            let content = read(text).unwrap();
            let got: Vec<_> = content
                .rows
                .iter()
                .map(|row| (row.level, row.requests_per_s, row.latency[0].p95))
                .collect();
            assert_eq!(
                got,
                [(4, Some(1.5), None), (8, Some(2.5), Some(90.0))],
                "{text:?}"
            );
        }
    }

    #[test]
    fn values_that_cannot_be_are_named_by_line_and_column() {
        for (text, expected) in [
            (
                "concurrency,req_s\n4,-1\n",
                "line 2, column `req_s`: `-1` is below 0",
            ),
            (
                "concurrency,req_s\n\n4,NaN\n",
                "line 3, column `req_s`: `NaN` is not a number",
            ),
            ("concurrency,req_s\n4,fast\n", "`fast` is not a number"),
            ("concurrency,req_s\n4,inf\n", "`inf` is not a number"),
            ("concurrency,req_s\n0,1\n", "line 2, column `concurrency`"),
            ("concurrency,req_s\n1.5,1\n", "whole number"),
            ("concurrency,req_s\n,1\n", "line 2 names no concurrency"),
            ("concurrency,req_s\n4\n", "line 2 has 1 cells and the header 2"),
            ("concurrency,req_s,error_rate\n4,1,5\n", "0.05"),
            ("concurrency,req_s,n_requests\n4,1,2.5\n", "whole number"),
            ("concurrency,req_s,rps\n4,1,2\n", "`req_s` and `rps`"),
            ("4,1.5\n8,2.5\n", "no header"),
            ("req_s,ttft_p95_ms\n1,2\n", "no column `concurrency`"),
            ("concurrency,colour\n1,2\n", "neither throughput nor latency"),
            ("concurrency,req_s\n", "no row"),
            ("Metric,avg,min\nx,1,2\n", "profile_export_aiperf.json"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(expected), "{text:?}: {problem}");
        }
    }

    #[test]
    fn unknown_columns_are_listed_and_derived_figures_are_not_counted() {
        let content =
            read("concurrency,gpu,req_s,derived\n4,x,1,\"req_s = C/e2e, rounded\"\n8,x,2,\n").unwrap();
        assert!(content.remarks[0].contains("`gpu`"), "{:?}", content.remarks);
        assert_eq!(
            content.rows.iter().map(|row| row.counted).collect::<Vec<_>>(),
            [false, true]
        );
    }
}
