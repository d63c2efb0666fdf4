//! A dialect of the user's own: a body with placeholders, and where its replies keep text and counts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::nearest::hint;

/// How the events of a stream are told apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CustomFraming {
    /// Server-sent events.
    #[default]
    Sse,
    /// One JSON document a line.
    Lines,
}

/// The dialect `custom`: `[custom]` in a sweep file, `--custom KEY=VALUE` on the command line.
///
/// The body is JSON. Inside its strings `{prompt}` stands for the prompt's text and `{model}` for the model; a string
/// that is nothing but `{messages}`, `{output_tokens}` or `{stream}` stands for a list of `{"role", "content"}`, a
/// number or a boolean. Everything else is sent as it is. The pointers are JSON pointers (RFC 6901) into each event of
/// a stream and into a reply that is not streamed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CustomDialect {
    /// The body: a JSON document, or a string that holds one.
    pub body: Value,
    /// Where the text is. An event where it is a string that is not empty bears a token.
    pub text: String,
    /// Where reasoning is, if it comes apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Where the server's count of prompt tokens is. The last event that has one counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<String>,
    /// Where its count of reply tokens is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<String>,
    /// Where the reason for a reply's end is. Without it a reply is whole when its body is, or at `[DONE]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// Where an error is; `/error` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How the events of a stream are told apart where the content type does not say.
    pub framing: CustomFraming,
}

/// A custom dialect that cannot be spoken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CustomError {
    /// A key that there is not.
    #[error("`{key}` is not a key of a custom dialect{hint}; keys are {}", KEYS.join(", "))]
    Key {
        /// What was given.
        key: String,
        /// The nearest that there is.
        hint: String,
    },
    /// A framing that there is not.
    #[error("custom framing `{0}` is unknown; write sse or lines")]
    Framing(String),
    /// No body.
    #[error(
        "a custom dialect needs a body, such as {{\"inputs\": \"{{prompt}}\", \"max\": \"{{output_tokens}}\"}}"
    )]
    NoBody,
    /// A body that is not JSON.
    #[error("the custom body is not JSON ({0})")]
    Body(String),
    /// A body without the prompt.
    #[error("the custom body has neither {{prompt}} nor {{messages}}: every request would be the same")]
    NoPrompt,
    /// Nothing says where the text is.
    #[error("a custom dialect needs `text`, a JSON pointer to a reply's text such as /choices/0/text")]
    NoText,
    /// Not a JSON pointer.
    #[error("custom `{key}` is no JSON pointer: `{pointer}`; write for example /usage/output_tokens")]
    Pointer {
        /// Its key.
        key: &'static str,
        /// What was given.
        pointer: String,
    },
}

/// Every key.
const KEYS: [&str; 8] = [
    "body",
    "text",
    "reasoning",
    "input-tokens",
    "output-tokens",
    "finish",
    "error",
    "framing",
];

impl CustomDialect {
    /// Sets the value of a key, as `--custom KEY=VALUE` does.
    ///
    /// # Errors
    /// When there is no such key or framing.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), CustomError> {
        let owned = value.to_owned();
        match key {
            "body" => self.body = Value::String(owned),
            "text" => self.text = owned,
            "reasoning" => self.reasoning = Some(owned),
            "input-tokens" => self.input_tokens = Some(owned),
            "output-tokens" => self.output_tokens = Some(owned),
            "finish" => self.finish = Some(owned),
            "error" => self.error = Some(owned),
            "framing" => {
                self.framing = match value {
                    "sse" => CustomFraming::Sse,
                    "lines" => CustomFraming::Lines,
                    _ => return Err(CustomError::Framing(owned)),
                }
            }
            _ => {
                return Err(CustomError::Key {
                    key: key.to_owned(),
                    hint: hint(key, &KEYS),
                });
            }
        }
        Ok(())
    }

    /// The body as a JSON document.
    ///
    /// # Errors
    /// When it is a string that holds none.
    pub fn document(&self) -> Result<Value, CustomError> {
        match &self.body {
            Value::Null => Err(CustomError::NoBody),
            Value::String(text) => {
                serde_json::from_str(text).map_err(|error| CustomError::Body(error.to_string()))
            }
            other => Ok(other.clone()),
        }
    }

    /// Checks that it can be spoken.
    ///
    /// # Errors
    /// The first thing that is wrong, with the remedy.
    pub fn check(&self) -> Result<(), CustomError> {
        let document = self.document()?.to_string();
        if !document.contains("{prompt}") && !document.contains("\"{messages}\"") {
            return Err(CustomError::NoPrompt);
        }
        if self.text.is_empty() {
            return Err(CustomError::NoText);
        }
        let pointers = [
            ("text", Some(&self.text)),
            ("reasoning", self.reasoning.as_ref()),
            ("input-tokens", self.input_tokens.as_ref()),
            ("output-tokens", self.output_tokens.as_ref()),
            ("finish", self.finish.as_ref()),
            ("error", self.error.as_ref()),
        ];
        for (key, pointer) in pointers {
            if let Some(pointer) = pointer.filter(|pointer| !pointer.starts_with('/')) {
                return Err(CustomError::Pointer {
                    key,
                    pointer: pointer.clone(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_spoken_is_named_with_its_remedy() {
        let mut custom = CustomDialect::default();
        assert_eq!(custom.check(), Err(CustomError::NoBody));
        let error = custom.set("output-token", "/n").unwrap_err().to_string();
        assert!(error.contains("did you mean `output-tokens`"), "{error}");
        custom.set("body", "{").unwrap();
        assert!(matches!(custom.check(), Err(CustomError::Body(_))));
        custom.set("body", r#"{"a": 1}"#).unwrap();
        assert_eq!(custom.check(), Err(CustomError::NoPrompt));
        custom.set("body", r#"{"a": "Q: {prompt}"}"#).unwrap();
        assert_eq!(custom.check(), Err(CustomError::NoText));
        custom.set("text", "choices.0").unwrap();
        assert!(custom.check().unwrap_err().to_string().contains("/usage/"));
        custom.set("text", "/t").unwrap();
        assert_eq!(custom.check(), Ok(()));
        assert!(custom.set("framing", "xml").is_err());
        let table: CustomDialect = serde_json::from_value(
            serde_json::json!({"body": {"m": "{messages}"}, "text": "/t", "framing": "lines"}),
        )
        .unwrap();
        assert_eq!((table.check(), table.framing), (Ok(()), CustomFraming::Lines));
    }
}
