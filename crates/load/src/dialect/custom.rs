//! `custom`: a body with placeholders, and JSON pointers to text and counts.

use plimsoll_run::target::{CustomDialect, CustomFraming, Dialect};
use serde_json::Value;

use super::bytes::is_done;
use super::template::{Piece, Template};
use super::{Counts, Look, Speak, Told, error_text};
use crate::flight::Tail;
use crate::framing::Framing;
use crate::shape::Shape;

/// Speaks a dialect of the user's own.
#[derive(Debug, PartialEq)]
pub(crate) struct Custom {
    own: CustomDialect,
}

fn look(data: &[u8], tail: Tail) -> Option<Tail> {
    Some(if is_done(data) { Tail::Done } else { tail })
}

impl Custom {
    pub(crate) fn new(own: CustomDialect) -> Self {
        Custom { own }
    }

    fn told(&self, reply: &Value) -> Told {
        let at = |pointer: &str| reply.pointer(pointer).filter(|value| !value.is_null());
        let bears =
            |pointer: Option<&String>| pointer.and_then(|pointer| at(pointer)).is_some_and(bears_text);
        let count = |pointer: &Option<String>| {
            let number = at(pointer.as_deref()?)?.as_f64()?;
            (0.0..=f64::from(u32::MAX))
                .contains(&number)
                .then_some(number as u32)
        };
        let answers = bears(Some(&self.own.text));
        let finish = self
            .own
            .finish
            .as_deref()
            .and_then(at)
            .and_then(|reason| match reason {
                Value::Bool(false) => None,
                Value::String(reason) => Some(reason.clone()),
                other => Some(other.to_string()),
            });
        let counts = Counts {
            input: count(&self.own.input_tokens),
            output: count(&self.own.output_tokens),
            cached: None,
        };
        let error = at(self.own.error.as_deref().unwrap_or("/error"));
        let known = at(&self.own.text).is_some() || finish.is_some() || counts != Counts::default();
        Told {
            known,
            bears: answers || bears(self.own.reasoning.as_ref()),
            answers,
            finish,
            usage: (counts != Counts::default()).then_some(counts),
            error: error
                .filter(|error| !matches!(error, Value::Bool(false)) && error.as_str() != Some(""))
                .map(error_text),
            ..Told::default()
        }
    }
}

/// Whether a value is a string that is not empty, or a list or object with one.
fn bears_text(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => list.iter().any(bears_text),
        Value::Object(fields) => fields.values().any(bears_text),
        _ => false,
    }
}

/// Cuts a document at its placeholders.
fn pieces(document: &Value, shape: &Shape) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut fixed = String::new();
    let text = document.to_string();
    let mut rest = text.as_str();
    let model = shape
        .model
        .as_deref()
        .map_or(Value::Null, Value::from)
        .to_string();
    // Written as JSON, a placeholder that is a whole string stands between quotation marks.
    const MARKS: [&str; 6] = [
        "\"{messages}\"",
        "\"{output_tokens}\"",
        "\"{stream}\"",
        "\"{model}\"",
        "{model}",
        "{prompt}",
    ];
    while let Some((at, mark)) = MARKS
        .iter()
        .filter_map(|mark| rest.find(mark).map(|at| (at, *mark)))
        .min()
    {
        fixed.push_str(&rest[..at]);
        rest = &rest[at + mark.len()..];
        let piece = match mark {
            "\"{messages}\"" => Piece::Messages,
            "\"{output_tokens}\"" => Piece::OutputTokens,
            "{prompt}" => Piece::PromptText,
            "\"{stream}\"" => {
                fixed.push_str(if shape.stream { "true" } else { "false" });
                continue;
            }
            "\"{model}\"" => {
                fixed.push_str(&model);
                continue;
            }
            _ => {
                fixed.push_str(model.trim_matches('"'));
                continue;
            }
        };
        pieces.push(Piece::Fixed(std::mem::take(&mut fixed)));
        pieces.push(piece);
    }
    fixed.push_str(rest);
    pieces.push(Piece::Fixed(fixed));
    pieces
}

impl Speak for Custom {
    fn dialect(&self) -> Dialect {
        Dialect::Custom
    }

    fn template(&self, shape: &Shape) -> Template {
        // Checked before any request: a body that is none is sent as null and refused.
        Template::new(pieces(&self.own.document().unwrap_or_default(), shape))
    }

    fn framing(&self) -> Framing {
        match self.own.framing {
            CustomFraming::Sse => Framing::Sse,
            CustomFraming::Lines => Framing::Lines,
        }
    }

    fn look(&self) -> Look {
        look
    }

    fn bytes_tell_the_end(&self) -> bool {
        false
    }

    fn says_when_it_ends(&self) -> bool {
        self.own.finish.is_some()
    }

    fn event(&self, data: &[u8]) -> serde_json::Result<Told> {
        Ok(self.told(&serde_json::from_slice(data)?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape::tests::body;

    fn own() -> CustomDialect {
        CustomDialect {
            body: json!({"q": "Q: {prompt}\nA:", "m": "{model}", "chat": "{messages}", "n": "{output_tokens}",
                         "s": "{stream}", "path": "x/{model}", "keep": [1, "{other}"]}),
            text: "/out/0/text".to_owned(),
            reasoning: Some("/out/0/thought".to_owned()),
            input_tokens: Some("/n/in".to_owned()),
            output_tokens: Some("/n/out".to_owned()),
            finish: Some("/why".to_owned()),
            ..CustomDialect::default()
        }
    }

    #[test]
    fn placeholders_are_filled_and_all_else_is_sent_as_it_is() {
        let shape = Shape::full(
            Dialect::Custom,
            Some(&own()),
            Some("a\"b".to_owned()),
            true,
            false,
        );
        assert_eq!(
            body(&shape),
            json!({"q": "Q: one two\nA:", "m": "a\"b", "chat": [{"role": "user", "content": "one two"}], "n": 5,
                   "s": true, "path": "x/a\"b", "keep": [1, "{other}"]})
        );
        let shape = Shape::full(Dialect::Custom, Some(&own()), None, false, false);
        assert_eq!(body(&shape)["m"], Value::Null);
    }

    #[test]
    fn pointers_find_text_counts_reason_and_error() {
        let custom = Custom::new(own());
        let told = |json: &str| custom.event(json.as_bytes()).unwrap();
        let said = told(r#"{"out":[{"text":"x"}],"why":null}"#);
        assert!(said.known && said.answers && said.finish.is_none() && said.usage.is_none());
        let thought = told(r#"{"out":[{"text":"","thought":"x"}]}"#);
        assert!(thought.bears && !thought.answers);
        let end = told(r#"{"out":[],"why":"length","n":{"in":7,"out":3}}"#);
        assert_eq!(end.finish.as_deref(), Some("length"));
        assert_eq!(end.usage.unwrap().output, Some(3));
        assert_eq!(
            told(r#"{"error":{"message":"full"}}"#).error.as_deref(),
            Some("full")
        );
        assert!(!told(r#"{"choices":[]}"#).known);
    }
}
