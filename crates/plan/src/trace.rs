//! A trace of arrival times, read from text.

/// Column titles that hold arrival times, in the order in which they are looked for.
const TITLES: [&str; 5] = ["timestamp", "arrival_s", "arrived_at_s", "time_s", "time"];

/// Arrival times.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Seconds by any clock, ascending.
    pub times_s: Vec<f64>,
    /// Whether they were put in order.
    pub sorted: bool,
}

/// A trace that cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TraceError {
    /// A line without a number where one is due.
    #[error(
        "line {line}: `{text}` is not a time in seconds; write one arrival a line, or a CSV with a column `timestamp`"
    )]
    NotATime {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A line with fewer columns than its heading.
    #[error("line {line} has no column {column}, which holds the arrival times")]
    NoColumn {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// Nothing to take a peak from.
    #[error("{found} in it; a peak needs two or more arrivals at different times")]
    TooShort {
        /// What there is.
        found: String,
    },
}

/// Reads one arrival time in seconds a line, or a CSV whose column `timestamp` or `arrival_s` (else the first) holds them.
/// Blank lines and lines that begin with `#` are passed over.
///
/// # Errors
/// When a line holds no time, by its number, or there are fewer than two different times.
pub fn read_trace(text: &str) -> Result<Trace, TraceError> {
    let mut times_s = Vec::new();
    let mut column = 0;
    let mut first = true;
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut cells = line.split([',', ';', '\t']).map(unquoted);
        if std::mem::take(&mut first) && cells.clone().next().is_some_and(|cell| time(cell).is_none()) {
            let titles: Vec<String> = cells.map(str::to_ascii_lowercase).collect();
            let titled = TITLES
                .iter()
                .find_map(|title| titles.iter().position(|known| known == title));
            // A single word that is no known title is more likely a broken first line than a heading.
            if titled.is_none()
                && titles
                    .iter()
                    .any(|title| title.starts_with(|c: char| c.is_ascii_digit()))
            {
                return Err(TraceError::NotATime {
                    line: at + 1,
                    text: shortened(line),
                });
            }
            column = titled.unwrap_or(0);
            continue;
        }
        let cell = cells.nth(column).ok_or(TraceError::NoColumn {
            line: at + 1,
            column: column + 1,
        })?;
        times_s.push(time(cell).ok_or_else(|| TraceError::NotATime {
            line: at + 1,
            text: shortened(cell),
        })?);
    }
    let sorted = !times_s.is_sorted();
    if sorted {
        times_s.sort_by(f64::total_cmp);
    }
    if times_s.first() == times_s.last() {
        return Err(TraceError::TooShort {
            found: match times_s.len() {
                0 => "no arrival".to_owned(),
                1 => "one arrival".to_owned(),
                n => format!("{n} arrivals at one and the same time"),
            },
        });
    }
    Ok(Trace { times_s, sorted })
}

fn unquoted(cell: &str) -> &str {
    cell.trim().trim_matches('"').trim()
}

fn time(cell: &str) -> Option<f64> {
    // Within what a double tells apart to the microsecond.
    cell.parse().ok().filter(|time: &f64| time.abs() < 1e10)
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    if text.chars().count() > 40 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Vec<f64> {
        read_trace(text).unwrap().times_s
    }

    #[test]
    fn lines_and_tables_are_read() {
        assert_eq!(times("0.5\n1\n\n2e0\n"), [0.5, 1.0, 2.0]);
        assert_eq!(times("\u{feff}timestamp\r\n1\r\n2\r\n"), [1.0, 2.0]);
        assert_eq!(
            times("tokens,Arrival_s\n100,1.5\n200,\"2.5\"\n"),
            [1.5, 2.5],
            "by its title"
        );
        assert_eq!(times("when,tokens\n1,100\n2,200"), [1.0, 2.0], "else the first");
        assert_eq!(times("# a remark\n1,9\n2,9"), [1.0, 2.0]);
        let trace = read_trace("3\n1\n2").unwrap();
        assert_eq!((trace.times_s, trace.sorted), (vec![1.0, 2.0, 3.0], true));
    }

    #[test]
    fn bad_lines_are_named_by_number() {
        for (text, expected) in [
            ("1\n2\nx\n", "line 3: `x` is not a time"),
            ("a,timestamp\n1,2\n3\n", "line 3 has no column 2"),
            ("1\nnan\n2", "line 2"),
            ("1\ninf\n2", "line 2"),
            ("2023-11-16 18:15:46.68,1\n", "line 1"),
            ("", "no arrival"),
            ("timestamp\n", "no arrival"),
            ("4\n", "one arrival"),
            ("4\n4\n4\n", "3 arrivals at one and the same time"),
        ] {
            let error = read_trace(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[-0-9.,e;#\"\\n\\PC]{0,60}") {
            let _ = read_trace(&text);
        }
    }
}
