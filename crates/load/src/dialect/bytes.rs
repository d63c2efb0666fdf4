//! JSON looked at as bytes: where a key's value begins, without parsing.
//!
//! Text inside a JSON string cannot be mistaken for a key: its quotation marks are escaped.

use memchr::memmem::Finder;

/// Whether this data is the end marker of the OpenAI dialects.
pub(crate) fn is_done(data: &[u8]) -> bool {
    data.len() < 16 && data.trim_ascii() == b"[DONE]"
}

/// What follows the colon behind a key that begins at `at` and is `key` bytes long, its quotation marks included.
fn value(data: &[u8], at: usize, key: usize) -> Option<&[u8]> {
    let mut rest = data.get(at + key..)?.trim_ascii_start();
    rest = rest.strip_prefix(b":")?;
    Some(rest.trim_ascii_start())
}

/// The value of the first such key, up to the end of the data.
pub(crate) fn value_of<'a>(data: &'a [u8], key: &Finder<'_>) -> Option<&'a [u8]> {
    let at = key.find(data)?;
    value(data, at, key.needle().len())
}

/// Whether the value of the first such key begins with `first`.
pub(crate) fn value_begins(data: &[u8], key: &Finder<'_>, first: u8) -> bool {
    value_of(data, key).is_some_and(|value| value.first() == Some(&first))
}

/// Whether any such key has a string as its value that is not empty.
pub(crate) fn any_text(data: &[u8], key: &Finder<'_>) -> bool {
    key.find_iter(data)
        .any(|at| matches!(value(data, at, key.needle().len()), Some([b'"', second, ..]) if *second != b'"'))
}

/// The strings that are values of such keys, as they stand, without quotation marks.
pub(crate) fn strings<'a>(data: &'a [u8], key: &'a Finder<'_>) -> impl Iterator<Item = &'a [u8]> {
    key.find_iter(data).filter_map(move |at| {
        let text = value(data, at, key.needle().len())?.strip_prefix(b"\"")?;
        let end = memchr::memchr(b'"', text)?;
        Some(&text[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_whatever_white_space_stands_around_them() {
        let key = Finder::new("\"type\"");
        let found = |data: &'static str| {
            strings(data.as_bytes(), &Finder::new("\"type\""))
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found(r#"{"type":"a","x":{"type" : "b"},"type":null}"#),
            [b"a", b"b"]
        );
        assert!(found(r#"{"text":"\"type\":\"a\""}"#).is_empty());
        assert!(found(r#"{"type":"#).is_empty());
        assert!(value_begins(br#"{"type": true}"#, &key, b't'));
        assert!(!value_begins(br#"{"type"}"#, &key, b't'));
        assert!(any_text(br#"{"type":"","x":{"type":" "}}"#, &key));
        assert!(!any_text(br#"{"type":"","x":{"type":null}}"#, &key));
    }

    #[test]
    fn done_may_wear_white_space() {
        assert!(is_done(b"[DONE]") && is_done(b" [DONE] \n"));
        assert!(!is_done(b"\"[DONE]\"") && !is_done(b""));
    }
}
