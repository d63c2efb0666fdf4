//! The times of a trace: their unit, their order, and whether they can be times at all.

use std::str::FromStr;

use crate::error::SourceError;

/// No two arrivals of a trace that one peak could be taken from lie further apart, seconds: 60 days.
const LONGEST_GAP_S: f64 = 60.0 * 86_400.0;
/// Beyond it lies no time that a double tells apart to the microsecond.
const LARGEST_S: f64 = 1e10;
/// Fewer arrivals say nothing of their unit.
const TELLING: usize = 20;
/// No trace has a higher mean rate, per second, unless the user says what its times count.
const HIGHEST_RATE: f64 = 1000.0;
/// No trace has a lower one.
const LOWEST_RATE: f64 = 0.001;

/// What the numbers of a trace count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl TimeUnit {
    /// One of it, seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        match self {
            TimeUnit::Milliseconds => 1e-3,
            TimeUnit::Seconds => 1.0,
        }
    }

    fn words(self) -> &'static str {
        match self {
            TimeUnit::Milliseconds => "milliseconds",
            TimeUnit::Seconds => "seconds",
        }
    }

    /// Its short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Seconds => "s",
        }
    }
}

/// A unit that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a unit of time; write ms or s")]
pub struct TimeUnitError(String);

impl FromStr for TimeUnit {
    type Err = TimeUnitError;

    fn from_str(text: &str) -> Result<Self, TimeUnitError> {
        match text {
            "ms" => Ok(TimeUnit::Milliseconds),
            "s" => Ok(TimeUnit::Seconds),
            _ => Err(TimeUnitError(text.to_owned())),
        }
    }
}

/// Checks times in seconds as they stand, with the lines they stand on. `assumed` is the unit that nobody confirmed.
/// Returns notes.
pub(super) fn check(
    file: &str,
    times_s: &[f64],
    lines: &[u64],
    assumed: Option<TimeUnit>,
) -> Result<Vec<String>, SourceError> {
    let mut notes = Vec::new();
    let line = |at: usize| lines.get(at).copied().unwrap_or(0);
    if let Some(at) = times_s
        .iter()
        .position(|time| !time.is_finite() || *time < 0.0 || *time > LARGEST_S)
    {
        return Err(SourceError::line(
            file,
            line(at),
            format!("its timestamp, {} s, cannot be one", times_s[at]),
        ));
    }
    let unsorted: Vec<usize> = (1..times_s.len())
        .filter(|at| times_s[*at] < times_s[*at - 1])
        .collect();
    if let Some(first) = unsorted.first() {
        notes.push(format!(
            "{file} is not in order of time: line {} is earlier than line {} before it{}; it has been sorted",
            line(*first),
            line(*first - 1),
            match unsorted.len() {
                1 => String::new(),
                n => format!(", and {} more lines likewise", n - 1),
            }
        ));
    }
    let mut order: Vec<usize> = (0..times_s.len()).collect();
    order.sort_by(|a, b| times_s[*a].total_cmp(&times_s[*b]));
    for pair in order.windows(2) {
        let gap = times_s[pair[1]] - times_s[pair[0]];
        if gap > LONGEST_GAP_S {
            return Err(SourceError::line(
                file,
                line(pair[1]),
                format!(
                    "its timestamp is {:.0} days after the one before it, on line {}; correct it, or leave the line out",
                    gap / 86_400.0,
                    line(pair[0])
                ),
            ));
        }
    }
    if let (Some(assumed), Some(first), Some(last)) = (assumed, order.first(), order.last())
        && times_s.len() >= TELLING
    {
        let span = times_s[*last] - times_s[*first];
        let rate = times_s.len() as f64 / span;
        let likely = match assumed {
            TimeUnit::Milliseconds if rate > HIGHEST_RATE && span > 0.0 => Some(TimeUnit::Seconds),
            TimeUnit::Seconds if rate < LOWEST_RATE => Some(TimeUnit::Milliseconds),
            _ => None,
        };
        if let Some(likely) = likely {
            return Err(SourceError::line(
                file,
                line(*first),
                format!(
                    "timestamps from here on look like {} where {} are expected: they would make {rate:.3e} requests a \
                     second; say which with --trace-unit {} or --trace-unit {}",
                    likely.words(),
                    assumed.words(),
                    likely.name(),
                    assumed.name()
                ),
            ));
        }
    }
    Ok(notes)
}
