//! The JSON of the OpenAI dialects, as far as a measurement needs it.
//!
//! Typed, and lenient where servers differ: text is only asked whether it is there, counts may be any number.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// One chunk of a stream, or a whole reply.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    /// Absent in pings, empty in chunks that carry only usage.
    pub choices: Option<Vec<Choice>>,
    /// Null on most chunks of some servers.
    pub usage: Option<Usage>,
    /// An error in place of a reply.
    pub error: Option<serde_json::Value>,
    /// `error` in an older shape of the same.
    #[serde(default)]
    object: IsError,
    /// The message of that older shape.
    message: Option<serde_json::Value>,
}

impl Event {
    /// What an error object says, with its code.
    pub(crate) fn error_message(&self) -> Option<String> {
        match &self.error {
            None | Some(serde_json::Value::Bool(false)) => {
                let message = self.message.as_ref().filter(|_| self.object.0)?;
                Some(as_text(message))
            }
            Some(error) => Some(error_text(error)),
        }
    }
}

/// The message of an error object with its code, or the whole of it where it has none.
pub(crate) fn error_text(error: &serde_json::Value) -> String {
    let Some(message) = error.get("message").filter(|message| !message.is_null()) else {
        return as_text(error);
    };
    match error.get("code").filter(|code| !code.is_null()) {
        Some(code) => format!("{} (code {})", as_text(message), as_text(code)),
        None => as_text(message),
    }
}

fn as_text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// One alternative of a reply.
#[derive(Debug, Deserialize)]
pub(crate) struct Choice {
    /// What a chunk adds.
    delta: Option<Message>,
    /// The whole of it where it is not streamed.
    message: Option<Message>,
    /// The text of a completion.
    #[serde(default)]
    text: Bears,
    /// Why it ended.
    pub finish_reason: Option<String>,
}

/// The channels of a message.
#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    content: Bears,
    #[serde(default)]
    refusal: Bears,
    #[serde(default)]
    reasoning_content: Bears,
    #[serde(default)]
    reasoning: Bears,
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(default)]
    function_call: Bears,
}

/// A tool call: what the model generates is its name and arguments, not its identifier.
#[derive(Debug, Deserialize)]
struct ToolCall {
    #[serde(default)]
    function: Bears,
    #[serde(default)]
    custom: Bears,
}

impl Message {
    fn answers(&self) -> bool {
        self.content.0
            || self.refusal.0
            || self.function_call.0
            || self
                .tool_calls
                .as_deref()
                .unwrap_or_default()
                .iter()
                .any(|call| call.function.0 || call.custom.0)
    }
}

impl Choice {
    /// Whether it bears generated text in any channel.
    pub(crate) fn bears_token(&self) -> bool {
        self.answers()
            || self
                .messages()
                .any(|message| message.reasoning_content.0 || message.reasoning.0)
    }

    /// Whether it bears text of the answer itself: anything but reasoning.
    pub(crate) fn answers(&self) -> bool {
        self.text.0 || self.messages().any(Message::answers)
    }

    fn messages(&self) -> impl Iterator<Item = &Message> {
        self.delta.iter().chain(&self.message)
    }
}

/// Token counts by the server.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct Usage {
    #[serde(default)]
    pub prompt_tokens: Count,
    #[serde(default)]
    pub completion_tokens: Count,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Count,
}

impl Usage {
    /// Prompt tokens found in a prefix cache.
    pub(crate) fn cached_tokens(&self) -> Option<u32> {
        self.prompt_tokens_details
            .and_then(|details| details.cached_tokens.0)
    }
}

/// Whether a JSON value bears any text: a string that is not empty, or an array or object with one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bears(pub bool);

/// A count; whatever is not a number that fits is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count(pub Option<u32>);

/// Whether a string is `error`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct IsError(bool);

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

    fn choice(json: &str) -> (bool, bool) {
        let choice: Choice = serde_json::from_str(json).unwrap();
        (choice.bears_token(), choice.answers())
    }

    #[test]
    fn text_counts_in_every_channel_and_nothing_else_does() {
        for (json, bears, answers) in [
            (r#"{"delta":{"role":"assistant","content":""}}"#, false, false),
            (r#"{"delta":{"role":"assistant","content":null}}"#, false, false),
            (r#"{"delta":{"role":"assistant"}}"#, false, false),
            (r#"{"delta":{},"finish_reason":"stop"}"#, false, false),
            (r#"{"delta":null,"text":null}"#, false, false),
            (r#"{"delta":{"content":" "}}"#, true, true),
            (r#"{"delta":{"content":"\ud83d\ude00"}}"#, true, true),
            (
                r#"{"delta":{"content":[{"type":"text","text":"x"}]}}"#,
                true,
                true,
            ),
            (
                r#"{"delta":{"content":[{"type":"text","text":""}]}}"#,
                false,
                false,
            ),
            (r#"{"delta":{"reasoning_content":"x"}}"#, true, false),
            (r#"{"delta":{"reasoning":"x","content":null}}"#, true, false),
            (r#"{"delta":{"refusal":"x"}}"#, true, true),
            (
                r#"{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f"}}]}}"#,
                true,
                true,
            ),
            (
                r#"{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}"#,
                true,
                true,
            ),
            (
                r#"{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"arguments":""}}]}}"#,
                false,
                false,
            ),
            (r#"{"delta":{"tool_calls":[]}}"#, false, false),
            (r#"{"text":"x"}"#, true, true),
            (r#"{"text":""}"#, false, false),
            (r#"{"message":{"role":"assistant","content":"x"}}"#, true, true),
        ] {
            assert_eq!(choice(json), (bears, answers), "{json}");
        }
    }

    #[test]
    fn errors_come_in_many_shapes() {
        for (json, said) in [
            (
                r#"{"error":{"message":"full","code":429}}"#,
                Some("full (code 429)"),
            ),
            (
                r#"{"error":{"message":"full","code":"busy"}}"#,
                Some("full (code busy)"),
            ),
            (r#"{"error":{"message":"full","code":null}}"#, Some("full")),
            (
                r#"{"error":"overloaded","error_type":"overloaded"}"#,
                Some("overloaded"),
            ),
            (r#"{"object":"error","message":"bad","code":400}"#, Some("bad")),
            (r#"{"error":null,"choices":[]}"#, None),
            (r#"{"object":"chat.completion.chunk","choices":[]}"#, None),
        ] {
            let event: Event = serde_json::from_str(json).unwrap();
            assert_eq!(event.error_message().as_deref(), said, "{json}");
        }
    }

    #[test]
    fn counts_are_any_number_that_fits() {
        let usage: Usage = serde_json::from_str(
            r#"{"prompt_tokens":7.0,"completion_tokens":"x","prompt_tokens_details":{"cached_tokens":3}}"#,
        )
        .unwrap();
        assert_eq!(usage.prompt_tokens.0, Some(7));
        assert_eq!(usage.completion_tokens.0, None);
        assert_eq!(usage.cached_tokens(), Some(3));
        let usage: Usage =
            serde_json::from_str(r#"{"prompt_tokens":-1,"prompt_tokens_details":null}"#).unwrap();
        assert_eq!((usage.prompt_tokens.0, usage.cached_tokens()), (None, None));
    }
}
