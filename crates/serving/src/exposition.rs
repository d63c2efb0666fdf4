//! The Prometheus text format, as far as it carries samples.
//!
//! A page of 60 kB is read every second beside the load, so samples borrow from the text and labels are only unescaped where
//! they are asked for. Lines that are no samples are passed over, whatever they hold.

use std::borrow::Cow;

/// One sample line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// The metric's name.
    pub name: &'a str,
    /// Between the braces, as it stands there.
    labels: &'a str,
    /// May be NaN or infinite.
    pub value: f64,
}

impl<'a> Sample<'a> {
    /// The labels, in order, unescaped. Ends at the first that is malformed.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> + use<'a> {
        let mut rest = self.labels;
        std::iter::from_fn(move || {
            let (name, after) = rest.trim_start_matches([' ', '\t', ',']).split_once('=')?;
            let quoted = after.trim_start().strip_prefix('"')?;
            let end = closing_quote(quoted)?;
            rest = &quoted[end + 1..];
            Some((name.trim(), unescaped(&quoted[..end])))
        })
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, wanted: &str) -> Option<Cow<'a, str>> {
        self.labels()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value)
    }
}

/// All samples of a page.
pub fn samples(text: &str) -> impl Iterator<Item = Sample<'_>> {
    text.lines().filter_map(sample)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' ', '\t'])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => {
            let close = closing_brace(inside)?;
            (&inside[..close], &inside[close + 1..])
        }
        None => ("", rest),
    };
    // A time stamp or an exemplar may follow.
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    (!name.is_empty()).then_some(Sample { name, labels, value })
}

/// Where the quoted text before it ends.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

/// Where the labels end: the first brace outside quotes.
fn closing_brace(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    text.bytes().position(|byte| {
        if quoted {
            quoted = byte != b'"' || escaped;
            escaped = byte == b'\\' && !escaped;
            return false;
        }
        quoted = byte == b'"';
        byte == b'}'
    })
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (c, false) => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn samples_are_read_as_the_format_says() {
        let page = "# HELP a \"x\" {\n# TYPE a counter\na{l=\"q\\\"},\\\\ \\n\", m = \"2\",} 1.5e3 1700000000\n\
                    b 7\r\n\tc{}\t+Inf\nd NaN # {trace=\"1\"} 2\n\nno_value\n{x=\"1\"} 3\ne{l=\"open 4\nf x\n";
        let read: Vec<Sample<'_>> = samples(page).collect();
        let names: Vec<&str> = read.iter().map(|sample| sample.name).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        assert_eq!(read[0].value, 1500.0);
        assert_eq!(read[0].label("l").unwrap(), "q\"},\\ \n");
        assert_eq!(read[0].label("m").unwrap(), "2");
        assert_eq!(read[0].label("n"), None);
        assert_eq!(read[1].value, 7.0);
        assert_eq!(read[2].value, f64::INFINITY);
        assert!(read[3].value.is_nan());
    }

    proptest! {
        #[test]
        fn no_page_is_too_hostile(page in "[a-z{}=\",\\\\ \t\r\n0-9#é\u{0}.+-]{0,200}") {
            for sample in samples(&page) {
                prop_assert!(sample.labels().count() <= page.len());
            }
        }
    }
}
