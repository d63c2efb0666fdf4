//! What a JSON value is reduced to: whether it bears text, or which number it is.
//!
//! Lenient where servers differ: a value of another kind than expected is nothing, not an error.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Whether a JSON value bears any text: a string that is not empty, or an array or object with one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bears(pub bool);

/// A count; whatever is not a number that fits is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count(pub Option<u32>);

/// Whether a string is `error`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IsError(pub bool);

/// What one JSON value is reduced to.
#[derive(Debug, Clone, Copy, Default)]
struct Gist {
    text: bool,
    error: bool,
    number: Option<f64>,
}

struct GistVisitor;

impl<'de> Visitor<'de> for GistVisitor {
    type Value = Gist;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Gist, E> {
        Ok(Gist {
            text: !text.is_empty(),
            error: text == "error",
            number: None,
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Gist, E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Gist, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E>(self, number: f64) -> Result<Gist, E> {
        Ok(Gist {
            number: Some(number),
            ..Gist::default()
        })
    }

    fn visit_bool<E>(self, _: bool) -> Result<Gist, E> {
        Ok(Gist::default())
    }

    fn visit_unit<E>(self) -> Result<Gist, E> {
        Ok(Gist::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Gist, A::Error> {
        let mut gist = Gist::default();
        while let Some(Bears(text)) = seq.next_element()? {
            gist.text |= text;
        }
        Ok(gist)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Gist, A::Error> {
        let mut gist = Gist::default();
        while let Some(key) = map.next_key::<Key>()? {
            // `{"type":"text","text":""}`: the type of a part is not generated.
            if key.is_type {
                map.next_value::<IgnoredAny>()?;
            } else {
                gist.text |= map.next_value::<Bears>()?.0;
            }
        }
        Ok(gist)
    }
}

struct Key {
    is_type: bool,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_str<E>(self, text: &str) -> Result<Key, E> {
                Ok(Key {
                    is_type: matches!(text, "type" | "id"),
                })
            }
        }
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

impl<'de> Deserialize<'de> for Bears {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Bears(deserializer.deserialize_any(GistVisitor)?.text))
    }
}

impl<'de> Deserialize<'de> for IsError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(IsError(deserializer.deserialize_any(GistVisitor)?.error))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = deserializer.deserialize_any(GistVisitor)?.number;
        Ok(Count(number.and_then(|n| {
            (0.0..=f64::from(u32::MAX)).contains(&n).then_some(n as u32)
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_wherever_it_stands_and_counts_are_any_number_that_fits() {
        let bears = |json: &str| serde_json::from_str::<Bears>(json).unwrap().0;
        for (json, wanted) in [
            ("\"x\"", true),
            ("\"\"", false),
            ("null", false),
            ("7", false),
            (r#"[{"type":"text","text":""}]"#, false),
            (r#"[{"type":"text","text":"x"}]"#, true),
            (r#"{"a":{"b":"x"}}"#, true),
        ] {
            assert_eq!(bears(json), wanted, "{json}");
        }
        let count = |json: &str| serde_json::from_str::<Count>(json).unwrap().0;
        assert_eq!(
            (count("7.0"), count("\"x\""), count("-1"), count("1e99")),
            (Some(7), None, None, None)
        );
    }
}
