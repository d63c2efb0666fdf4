//! Units: how durations and rates are read from a person and shown to one.

use std::time::Duration;

/// A quantity that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No number where one was expected.
    #[error("`{text}` does not begin with a number; write for example {example}")]
    NotANumber {
        /// What was given.
        text: String,
        /// A spelling that works.
        example: &'static str,
    },
    /// A number without its unit.
    #[error("`{text}` has no unit; write for example {example}")]
    MissingUnit {
        /// What was given.
        text: String,
        /// A spelling that works.
        example: &'static str,
    },
    /// A unit nobody knows.
    #[error("`{unit}` in `{text}` is not a unit{}; units are {known}", did_you_mean(.nearest))]
    UnknownUnit {
        /// What was given.
        text: String,
        /// The unit in it.
        unit: String,
        /// The units that would do.
        known: &'static str,
        /// The nearest of them.
        nearest: Option<&'static str>,
    },
    /// Negative, infinite or beyond what a run can last.
    #[error("`{text}` is out of range: {range}")]
    OutOfRange {
        /// What was given.
        text: String,
        /// The range that is allowed.
        range: &'static str,
    },
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// Splits `12.5ms` into its number and its unit. The unit may be empty.
pub(crate) fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(at, c)| {
            !(c.is_ascii_digit()
                || *c == '.'
                || (*at == 0 && (*c == '-' || *c == '+'))
                || (*c == 'e'
                    && text[at + 1..].starts_with(|n: char| n.is_ascii_digit() || n == '-')
                    && *at > 0)
                || (*c == '-' && text[..*at].ends_with('e')))
        })
        .map_or(text.len(), |(at, _)| at);
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

/// Reads a duration such as `300ms`, `1.5s`, `15m` or `2h`.
///
/// # Errors
/// When the number or the unit is missing or unknown, or the value is negative or over a year.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    const EXAMPLE: &str = "`300ms`, `1.5s` or `15m`";
    let (number, unit) = split_number(text).ok_or_else(|| UnitError::NotANumber {
        text: text.to_owned(),
        example: EXAMPLE,
    })?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        "" => {
            return Err(UnitError::MissingUnit {
                text: text.to_owned(),
                example: EXAMPLE,
            });
        }
        _ => {
            return Err(UnitError::UnknownUnit {
                text: text.to_owned(),
                unit: unit.to_owned(),
                known: "us, ms, s, m and h",
                nearest: crate::nearest::nearest(unit, &["us", "ms", "s", "m", "h", "min"]),
            });
        }
    };
    if !(0.0..=366.0 * 86_400.0).contains(&seconds) {
        return Err(UnitError::OutOfRange {
            text: text.to_owned(),
            range: "durations run from 0 to one year",
        });
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Milliseconds as they stand on disk (`_ms`).
#[must_use]
pub fn to_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A duration from milliseconds; negative and non-finite values become zero.
#[must_use]
pub fn from_ms(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1e3).unwrap_or(Duration::ZERO)
}

/// A duration for a person: `420 us`, `12.3 ms`, `1.25 s`, `3 min 20 s`.
#[must_use]
pub fn show_ms(ms: f64) -> String {
    let magnitude = ms.abs();
    if magnitude == 0.0 {
        "0 ms".to_owned()
    } else if magnitude < 1.0 {
        format!("{:.0} us", ms * 1e3)
    } else if magnitude < 10.0 {
        format!("{ms:.2} ms")
    } else if magnitude < 100.0 {
        format!("{ms:.1} ms")
    } else if magnitude < 1_000.0 {
        format!("{ms:.0} ms")
    } else if magnitude < 10_000.0 {
        format!("{:.2} s", ms / 1e3)
    } else if magnitude < 120_000.0 {
        format!("{:.1} s", ms / 1e3)
    } else {
        let seconds = (ms / 1e3).round();
        format!("{:.0} min {:.0} s", (seconds / 60.0).floor(), seconds % 60.0)
    }
}

/// A duration for a person; see [`show_ms`].
#[must_use]
pub fn show(duration: Duration) -> String {
    show_ms(to_ms(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_name_the_nearest() {
        assert_eq!(parse_duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("15m"), Ok(Duration::from_secs(900)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert!(matches!(parse_duration("5"), Err(UnitError::MissingUnit { .. })));
        assert!(matches!(parse_duration("-1s"), Err(UnitError::OutOfRange { .. })));
        assert!(matches!(
            parse_duration("infs"),
            Err(UnitError::NotANumber { .. })
        ));
        let error = parse_duration("5sm").unwrap_err().to_string();
        assert!(
            error.contains("did you mean `s`") || error.contains("did you mean `ms`"),
            "{error}"
        );
    }

    #[test]
    fn durations_are_shown_in_the_unit_a_person_would_choose() {
        assert_eq!(show_ms(0.42), "420 us");
        assert_eq!(show_ms(12.34), "12.3 ms");
        assert_eq!(show_ms(1250.0), "1.25 s");
        assert_eq!(show_ms(200_000.0), "3 min 20 s");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}") {
            let _ = parse_duration(&text);
        }
    }
}
