//! Traces as tables: Azure's, BurstGPT's, and others with the usual titles.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{Gathered, TimeUnit, tokens};
use crate::error::{SourceError, shortened};
use crate::table::Table;

/// Titles of times.
const TIMES: [&str; 8] = [
    "timestamp",
    "arrival_s",
    "arrived_at_s",
    "arrived_at",
    "time_s",
    "time",
    "timestamp_ms",
    "arrival_ms",
];
/// Titles of prompt lengths.
const INPUTS: [&str; 7] = [
    "contexttokens",
    "request tokens",
    "input_length",
    "input_tokens",
    "prompt_tokens",
    "num_prefill_tokens",
    "input_len",
];
/// Titles of reply lengths.
const OUTPUTS: [&str; 7] = [
    "generatedtokens",
    "response tokens",
    "output_length",
    "output_tokens",
    "completion_tokens",
    "num_decode_tokens",
    "output_len",
];

/// Whether a heading, in lower case, is that of a trace with lengths.
pub(super) fn knows(heading: &str) -> bool {
    let titles: Vec<&str> = heading
        .split([',', '\t'])
        .map(|title| title.trim().trim_matches('"'))
        .collect();
    let any = |names: &[&str]| names.iter().any(|name| titles.contains(name));
    any(&TIMES) && any(&INPUTS) && any(&OUTPUTS)
}

pub(super) fn read(file: &str, gathered: &mut Gathered) -> Result<(&'static str, TimeUnit), SourceError> {
    let mut table = Table::open(file)?;
    let time = table.any(&TIMES, "times", "one of these titles")?;
    let input = table.any(&INPUTS, "prompt lengths", "one of these titles")?;
    let output = table.any(&OUTPUTS, "reply lengths", "one of these titles")?;
    let format = if table.find(&["contexttokens"]).is_some() {
        "azure"
    } else if table.find(&["request tokens"]).is_some() {
        "burstgpt"
    } else {
        "csv"
    };
    let unit = if table.find(&["timestamp_ms", "arrival_ms"]) == Some(time) {
        TimeUnit::Milliseconds
    } else {
        TimeUnit::Seconds
    };
    let mut dated = None;
    table.for_each(|row| {
        let text = row.cell(time)?.trim();
        let (at, is_date) = match (text.parse::<f64>(), date(text)) {
            (Ok(number), _) => (number, false),
            (Err(_), Some(seconds)) => (seconds, true),
            (Err(_), None) => {
                return Err(row.wrong(if text.is_empty() {
                    "it has no timestamp".to_owned()
                } else {
                    format!("`{}` is neither a number nor a date and time", shortened(text))
                }));
            }
        };
        if *dated.get_or_insert(is_date) != is_date {
            return Err(row.wrong(format!(
                "`{}` is a time of another kind than those before it: numbers and dates are mixed",
                shortened(text)
            )));
        }
        let length = |column, what| {
            let text: &str = row.cell(column)?;
            let number = text.trim().parse::<f64>().ok();
            // Written by tools that keep whole numbers as floats.
            let whole = number
                .filter(|n| n.fract() == 0.0 && (0.0..=1e9).contains(n))
                .map(|n| n as u64);
            tokens(whole, what).map_err(|problem| row.wrong(problem))
        };
        let (input, output) = (length(input, "prompt length")?, length(output, "reply length")?);
        Ok(gathered.add(row.line(), at, input, output, &[]))
    })?;
    gathered.counted = dated == Some(false);
    Ok((format, unit))
}

/// Seconds since 1970 of a date and time, in UTC where it does not say its zone.
fn date(text: &str) -> Option<f64> {
    let stamp = text.parse::<Timestamp>().ok().or_else(|| {
        let civil: DateTime = text.parse().ok()?;
        TimeZone::UTC.to_timestamp(civil).ok()
    })?;
    Some(stamp.as_second() as f64 + f64::from(stamp.subsec_nanosecond()) * 1e-9)
}
