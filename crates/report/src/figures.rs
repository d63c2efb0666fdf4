//! How figures are written for a person: three significant digits, thousands separated, percent for shares, and
//! a dash for whatever was not measured. Nothing here decides a number.

use plimsoll_run::rung::Interval;
use plimsoll_run::units::show_ms;

/// Stands for whatever was not measured.
pub(crate) const NOT_MEASURED: &str = "–";

/// A value that is there and finite.
pub(crate) fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// A value that is there, finite and above zero: one that a logarithmic axis can show.
pub(crate) fn positive(value: Option<f64>) -> Option<f64> {
    finite(value).filter(|value| *value > 0.0)
}

/// `0.0123`, `1.23`, `12.3`, `123`, `1,234`.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        NOT_MEASURED.to_owned()
    } else if magnitude == 0.0 {
        "0".to_owned()
    } else if !(1e-4..1e15).contains(&magnitude) {
        format!("{value:.2e}")
    } else if magnitude < 0.1 {
        format!("{value:.4}")
    } else if magnitude < 1.0 {
        format!("{value:.3}")
    } else if magnitude < 10.0 {
        format!("{value:.2}")
    } else if magnitude < 100.0 {
        format!("{value:.1}")
    } else {
        grouped(&format!("{value:.0}"))
    }
}

/// [`number`], or a dash.
pub(crate) fn maybe(value: Option<f64>) -> String {
    finite(value).map_or_else(|| NOT_MEASURED.to_owned(), number)
}

/// A concurrency: whole where it is whole, else [`number`].
pub(crate) fn level(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        grouped(&format!("{value:.0}"))
    } else {
        number(value)
    }
}

/// A whole number with its thousands separated.
pub(crate) fn count(value: impl ToString) -> String {
    grouped(&value.to_string())
}

/// Money: two decimals, four below one tenth.
pub(crate) fn money(value: f64) -> String {
    if value.abs() < 0.1 && value != 0.0 {
        return number(value);
    }
    if value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.2}");
    match text.split_once('.') {
        Some((whole, cents)) => format!("{}.{cents}", grouped(whole)),
        None => text,
    }
}

/// A fraction as percent.
pub(crate) fn percent(fraction: Option<f64>) -> String {
    match finite(fraction.map(|fraction| fraction * 100.0)) {
        None => NOT_MEASURED.to_owned(),
        Some(percent) => {
            if percent.abs() >= 1e6 {
                format!("{percent:.2e} %")
            } else if percent == 0.0 || percent.abs() >= 10.0 {
                format!("{percent:.0} %")
            } else if percent.abs() >= 0.1 {
                format!("{percent:.1} %")
            } else {
                format!("{percent:.2} %")
            }
        }
    }
}

/// A latency with its unit, or a dash.
pub(crate) fn latency(ms: Option<f64>) -> String {
    match finite(ms) {
        None => NOT_MEASURED.to_owned(),
        Some(ms) if ms.abs() >= 1e12 => format!("{:.2e} s", ms / 1e3),
        Some(ms) => show_ms(ms),
    }
}

/// `256 to 284`, `256`, `256 or more`, `up to 284`; `None` when both sides are open.
pub(crate) fn interval(interval: Interval, write: impl Fn(f64) -> String) -> Option<String> {
    match (finite(interval[0]), finite(interval[1])) {
        (Some(low), Some(high)) if write(low) == write(high) => Some(write(low)),
        (Some(low), Some(high)) => Some(format!("{} to {}", write(low), write(high))),
        (Some(low), None) => Some(format!("{} or more", write(low))),
        (None, Some(high)) => Some(format!("up to {}", write(high))),
        (None, None) => None,
    }
}

/// `1 reply`, `2 replies`.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// Separates the thousands of a decimal integer.
fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let mut out = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_separate_thousands() {
        for (value, shown) in [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (0.5, "0.500"),
            (7.962, "7.96"),
            (11.03, "11.0"),
            (492.5, "492"),
            (2823.4, "2,823"),
            (-1_234_567.0, "-1,234,567"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
            (1e300, "1.00e300"),
        ] {
            assert_eq!(number(value), shown);
        }
        assert_eq!(money(1234.5), "1,234.50");
        assert_eq!(money(0.69), "0.69");
        assert_eq!(money(0.012), "0.0120");
        assert_eq!(level(256.0), "256");
        assert_eq!(level(187.34), "187");
    }

    #[test]
    fn shares_are_percent() {
        assert_eq!(percent(Some(0.0)), "0 %");
        assert_eq!(percent(Some(0.0123)), "1.2 %");
        assert_eq!(percent(Some(0.0004)), "0.04 %");
        assert_eq!(percent(Some(0.88)), "88 %");
        assert_eq!(percent(None), "–");
    }

    #[test]
    fn open_intervals_say_so() {
        assert_eq!(interval([Some(1.0), Some(2.0)], level).as_deref(), Some("1 to 2"));
        assert_eq!(interval([Some(2.0), Some(2.0)], level).as_deref(), Some("2"));
        assert_eq!(interval([Some(1.0), None], level).as_deref(), Some("1 or more"));
        assert_eq!(interval([None, Some(2.0)], level).as_deref(), Some("up to 2"));
        assert_eq!(interval([None, Some(f64::NAN)], level), None);
    }
}
