//! Byte streams read from a fixture file: what real endpoints have sent.
//!
//! The file is a JSON object from a case's name to
//! `{"ops": [...], "status": "200 OK", "ct": "text/event-stream; charset=utf-8", "extra": "name: value\r\n"}`;
//! all but `ops` may be missing. An op is `["s", text]` (bytes of the text), `["b64", base64]` (bytes),
//! `["ms", n]` (pause), `["rst"]` (TCP reset) or `["fin"]` (close without the end of the body). Each `s` or `b64` is one
//! HTTP chunk in a write of its own, with a pause of 3 ms after it so that it arrives as a read of its own.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD as STANDARD, Engine};
use serde::Deserialize;
use serde_json::Value;

/// The ops there are, for messages.
const OPS: &str = r#"["s", text], ["b64", base64], ["ms", n], ["rst"], ["fin"]"#;

/// Byte streams by name.
#[derive(Debug, Clone, Default)]
pub struct Cases(Arc<BTreeMap<String, Case>>);

#[derive(Debug)]
pub(crate) struct Case {
    pub status: String,
    pub content_type: String,
    /// Whole header lines, each with its line end.
    pub extra: String,
    pub steps: Vec<Step>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Pause(Duration),
    Reset,
    Close,
}

impl Cases {
    /// Reads a fixture file.
    ///
    /// # Errors
    /// The file cannot be read, or is not in the format above.
    pub fn from_file(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        Self::from_json(&std::fs::read_to_string(path).map_err(named)?).map_err(named)
    }

    /// Reads a fixture's text.
    ///
    /// # Errors
    /// The text is not in the format above.
    pub fn from_json(text: &str) -> io::Result<Self> {
        #[derive(Deserialize)]
        struct Raw {
            ops: Vec<Vec<Value>>,
            status: Option<String>,
            ct: Option<String>,
            extra: Option<String>,
        }
        let raw: BTreeMap<String, Raw> = serde_json::from_str(text)?;
        let mut cases = BTreeMap::new();
        for (name, raw) in raw {
            let steps = raw
                .ops
                .iter()
                .map(|op| step(op))
                .collect::<Option<_>>()
                .ok_or_else(|| {
                    let message = format!("case {name:?} holds an op that is none of {OPS}");
                    io::Error::new(io::ErrorKind::InvalidData, message)
                })?;
            let case = Case {
                status: raw.status.unwrap_or_else(|| "200 OK".to_owned()),
                content_type: raw
                    .ct
                    .unwrap_or_else(|| "text/event-stream; charset=utf-8".to_owned()),
                extra: raw.extra.unwrap_or_default(),
                steps,
            };
            cases.insert(name, case);
        }
        Ok(Self(Arc::new(cases)))
    }

    /// Names of the cases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Case> {
        self.0.get(name)
    }
}

fn step(op: &[Value]) -> Option<Step> {
    match (op.first()?.as_str()?, op.get(1)) {
        ("s", Some(Value::String(text))) => Some(Step::Send(text.as_bytes().to_vec())),
        ("b64", Some(Value::String(text))) => STANDARD.decode(text).ok().map(Step::Send),
        ("ms", Some(Value::Number(ms))) => ms.as_u64().map(Duration::from_millis).map(Step::Pause),
        ("rst", None) => Some(Step::Reset),
        ("fin", None) => Some(Step::Close),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixture_is_read_whole_or_refused_by_name() {
        let fixture = r#"{
            "a": {"ops": [["s", "x"], ["ms", 5], ["b64", "eQ=="], ["rst"]], "status": "429 Slow"},
            "b": {"ops": [["fin"]]}
        }"#;
        let cases = Cases::from_json(fixture).unwrap();
        assert_eq!(cases.names().collect::<Vec<_>>(), ["a", "b"]);
        let a = cases.get("a").unwrap();
        assert_eq!(a.status, "429 Slow");
        assert_eq!(
            a.steps,
            [
                Step::Send(b"x".to_vec()),
                Step::Pause(Duration::from_millis(5)),
                Step::Send(b"y".to_vec()),
                Step::Reset
            ]
        );
        let error = Cases::from_json(r#"{"odd":{"ops":[["jump"]]}}"#).unwrap_err();
        assert!(error.to_string().contains("odd"), "{error}");
    }
}
