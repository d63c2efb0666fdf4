//! How numbers read in a sentence.

/// Three significant digits, without an exponent and without trailing zeros after the point; thousands are set off.
#[must_use]
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    let magnitude = if value == 0.0 {
        0
    } else {
        value.abs().log10().floor() as i32
    };
    let decimals = (2 - magnitude).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        thousands(&text)
    }
}

/// A whole number with a comma before every three digits from the right.
fn thousands(digits: &str) -> String {
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits), |digits| ("-", digits));
    let mut text = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as a percentage of at most three digits.
#[must_use]
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", figure(share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(figure(7.9612), "7.96");
        assert_eq!(figure(2823.4), "2,823");
        assert_eq!(figure(-1_234_567.0), "-1,234,567");
        assert_eq!(figure(999.6), "1,000");
        assert_eq!(figure(2.0), "2");
        assert_eq!(figure(0.01234), "0.0123");
        assert_eq!(figure(0.0), "0");
        assert_eq!(percent(0.05), "5 %");
        assert_eq!(figure(f64::NAN), "unknown");
    }
}
