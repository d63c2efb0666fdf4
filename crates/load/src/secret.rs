//! Credentials, and text that must never show one.

use std::fmt;

/// A credential. It prints as `***`, so that it cannot reach a log, a report or an error by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The credential itself, for the wire only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The longest message kept of a failure, characters.
const LONGEST: usize = 200;

/// Makes text from a server fit to be shown: one line, no control characters, no credential, at most 200 characters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redactor {
    hidden: Vec<Secret>,
}

impl Redactor {
    /// Hides these, and what follows a scheme in them (`Bearer abc` hides `abc` too). Credentials of fewer than
    /// four characters would mangle ordinary words and are left alone.
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut hidden: Vec<Secret> = Vec::new();
        for secret in secrets {
            let whole = secret.expose().trim();
            for part in std::iter::once(whole).chain(whole.split_whitespace().skip(1)) {
                if part.len() >= 4 {
                    hidden.push(Secret::new(part));
                }
            }
        }
        hidden.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Redactor { hidden }
    }

    /// One line of `text`.
    pub(crate) fn line(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.hidden {
            if text.contains(secret.expose()) {
                text = text.replace(secret.expose(), "***");
            }
        }
        let mut line = String::with_capacity(text.len().min(4 * LONGEST));
        let mut length = 0;
        let mut gap = false;
        for c in text.chars() {
            if c.is_whitespace() || c.is_control() {
                gap = length > 0;
                continue;
            }
            if length + usize::from(gap) >= LONGEST {
                line.pop();
                line.push('…');
                break;
            }
            if gap {
                line.push(' ');
                length += 1;
                gap = false;
            }
            line.push(c);
            length += 1;
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_print() {
        let secret = Secret::new("sk-12345");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
    }

    #[test]
    fn lines_are_short_single_and_clean() {
        let redactor = Redactor::new(&[Secret::new("Bearer sk-12345"), Secret::new("ab")]);
        assert_eq!(
            redactor.line("bad key sk-12345\r\n\tin `Bearer sk-12345`\u{7} about"),
            "bad key *** in `***` about"
        );
        let long = redactor.line(&"é ".repeat(500));
        assert!((LONGEST - 2..=LONGEST).contains(&long.chars().count()));
        assert!(long.ends_with('…'));
        assert_eq!(redactor.line(&"x".repeat(200)), "x".repeat(200));
    }
}
