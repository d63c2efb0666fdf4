//! What the dialects of OpenAI's older routes have in common: bodies, events and the bytes of their ends.
//!
//! Typed, and lenient where servers differ: text is only asked whether it is there, counts may be any number.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;

use super::bytes::{any_text, is_done, value_begins};
use super::gist::{Bears, Count, IsError};
use super::template::{Piece, Template, opening};
use super::{Counts, Told};
use crate::flight::Tail;
use crate::shape::{Field, Shape};

/// The body with the prompt under this key.
pub(super) fn template(shape: &Shape, key: &str, prompt: Piece) -> Template {
    let mut fixed = String::new();
    if shape.stream {
        fixed.push_str(",\"stream\":true");
    }
    if shape.has(Field::IncludeUsage) {
        fixed.push_str(",\"stream_options\":{\"include_usage\":true}");
    }
    if shape.has(Field::IgnoreEos) {
        fixed.push_str(",\"ignore_eos\":true");
    }
    if shape.has(Field::CachePrompt) {
        fixed.push_str(",\"cache_prompt\":false");
    }
    fixed.push_str(&format!(",\"{}\":", shape.limit_field()));
    let mut pieces = vec![
        Piece::Fixed(opening(shape.model.as_deref()) + key),
        prompt,
        Piece::Fixed(fixed),
        Piece::OutputTokens,
    ];
    if shape.has(Field::MinTokens) {
        pieces.push(Piece::Fixed(",\"min_tokens\":".to_owned()));
        pieces.push(Piece::OutputTokens);
    }
    pieces.push(Piece::Fixed("}".to_owned()));
    Template::new(pieces)
}

static FINISH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"finish_reason\""));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"usage\""));
static CONTENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"content\""));
static TEXT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"text\""));

/// How near its end the stream is after an event with this data.
pub(super) fn look(data: &[u8], tail: Tail) -> Option<Tail> {
    if is_done(data) {
        return Some(Tail::Done);
    }
    let mut tail = tail;
    // With several alternatives the end of one is not that of all: text that follows says so.
    if matches!(tail, Tail::Finished | Tail::Counted) && (any_text(data, &CONTENT) || any_text(data, &TEXT)) {
        tail = Tail::Open;
    }
    if tail < Tail::Finished && value_begins(data, &FINISH, b'"') {
        tail = Tail::Finished;
    }
    if tail == Tail::Finished && value_begins(data, &USAGE, b'{') {
        tail = Tail::Counted;
    }
    Some(tail)
}

/// One chunk of a stream, or a whole reply.
#[derive(Debug, Deserialize)]
struct Event {
    /// Absent in pings, empty in chunks that carry only usage.
    choices: Option<Vec<Choice>>,
    /// Null on most chunks of some servers.
    usage: Option<Usage>,
    /// An error in place of a reply.
    error: Option<serde_json::Value>,
    /// `error` in an older shape of the same.
    #[serde(default)]
    object: IsError,
    /// The same in another.
    #[serde(default, rename = "type")]
    kind: IsError,
    /// The message of those older shapes.
    message: Option<serde_json::Value>,
}

impl Event {
    /// What an error object says, with its code.
    fn error_message(&self) -> Option<String> {
        let of_choice = || {
            self.choices
                .iter()
                .flatten()
                .find_map(|choice| choice.error.as_ref().filter(|error| is_error(error)))
        };
        let old = || {
            let message = self.message.as_ref().filter(|_| self.object.0 || self.kind.0)?;
            Some(as_text(message))
        };
        self.error
            .as_ref()
            .filter(|error| is_error(error))
            .or_else(of_choice)
            .map(error_text)
            .or_else(old)
            .or_else(|| {
                // Servers that give up on a request after its stream has begun can only say so here.
                let gave_up = |reason: &&str| matches!(*reason, "error" | "abort");
                let mut reasons = self
                    .choices
                    .iter()
                    .flatten()
                    .filter_map(|choice| choice.finish_reason.as_deref());
                reasons
                    .find(gave_up)
                    .map(|reason| format!("the server ended the reply with finish_reason `{reason}`"))
            })
    }
}

/// Whether the value of a key `error` says that there is one.
fn is_error(error: &serde_json::Value) -> bool {
    match error {
        serde_json::Value::Null | serde_json::Value::Bool(false) => false,
        serde_json::Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

/// The message of an error object with its code, or the whole of it where it has none.
pub(crate) fn error_text(error: &serde_json::Value) -> String {
    let message = ["message", "Message"].iter().find_map(|key| error.get(key));
    let Some(message) = message.filter(|message| !message.is_null()) else {
        return as_text(error);
    };
    let code = ["code", "ErrorCode"].iter().find_map(|key| error.get(key));
    match code.filter(|code| !code.is_null()) {
        Some(code) => format!("{} (code {})", as_text(message), as_text(code)),
        None => as_text(message),
    }
}

fn as_text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// One alternative of a reply.
#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: Count,
    /// What a chunk adds.
    delta: Option<Message>,
    /// The whole of it where it is not streamed.
    message: Option<Message>,
    /// The text of a completion.
    #[serde(default)]
    text: Bears,
    /// Why it ended.
    finish_reason: Option<String>,
    /// Why it failed, as some gateways say.
    error: Option<serde_json::Value>,
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
    fn bears_token(&self) -> bool {
        self.answers()
            || self
                .messages()
                .any(|message| message.reasoning_content.0 || message.reasoning.0)
    }

    /// Whether it bears text of the answer itself: anything but reasoning.
    fn answers(&self) -> bool {
        self.text.0 || self.messages().any(Message::answers)
    }

    fn messages(&self) -> impl Iterator<Item = &Message> {
        self.delta.iter().chain(&self.message)
    }
}

/// Token counts by the server.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Count,
}

impl From<Usage> for Counts {
    fn from(usage: Usage) -> Self {
        Counts {
            input: usage.prompt_tokens.0,
            output: usage.completion_tokens.0,
            cached: usage
                .prompt_tokens_details
                .and_then(|details| details.cached_tokens.0),
        }
    }
}

/// Reads a chunk or a whole reply.
pub(super) fn event(data: &[u8]) -> serde_json::Result<Told> {
    let event: Event = serde_json::from_slice(data)?;
    let choices = event.choices.as_deref().unwrap_or_default();
    Ok(Told {
        known: event.choices.is_some() || event.usage.is_some(),
        bears: choices.iter().any(Choice::bears_token),
        answers: choices.iter().any(Choice::answers),
        alternatives: choices
            .iter()
            .map(|choice| {
                (
                    u64::from(choice.index.0.unwrap_or(0)),
                    choice.finish_reason.is_some(),
                )
            })
            .collect(),
        finish: choices
            .iter()
            .rev()
            .find_map(|choice| choice.finish_reason.clone()),
        usage: event.usage.map(Counts::from),
        done: false,
        error: event.error_message(),
    })
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
            (r#"{"type":"error","message":"bad"}"#, Some("bad")),
            (
                r#"{"error":{"Message":"gone","ErrorCode":"StreamBroken"}}"#,
                Some("gone (code StreamBroken)"),
            ),
            (
                r#"{"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"upstream"}}]}"#,
                Some("upstream (code 502)"),
            ),
            (
                r#"{"choices":[{"delta":{},"finish_reason":"abort"}]}"#,
                Some("the server ended the reply with finish_reason `abort`"),
            ),
            (r#"{"error":"","choices":[]}"#, None),
            (r#"{"error":null,"choices":[]}"#, None),
            (r#"{"object":"chat.completion.chunk","choices":[]}"#, None),
        ] {
            let told = event(json.as_bytes()).unwrap();
            assert_eq!(told.error.as_deref(), said, "{json}");
        }
    }

    #[test]
    fn counts_are_any_number_that_fits() {
        let counts = |json: &str| Counts::from(serde_json::from_str::<Usage>(json).unwrap());
        assert_eq!(
            counts(
                r#"{"prompt_tokens":7.0,"completion_tokens":"x","prompt_tokens_details":{"cached_tokens":3}}"#
            ),
            Counts {
                input: Some(7),
                output: None,
                cached: Some(3)
            }
        );
        assert_eq!(
            counts(r#"{"prompt_tokens":-1,"prompt_tokens_details":null}"#),
            Counts::default()
        );
    }

    #[test]
    fn the_end_of_a_stream_is_seen_from_its_bytes() {
        let finish = br#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        for (data, before, after) in [
            (&b"[DONE]"[..], Tail::Open, Tail::Done),
            (finish, Tail::Open, Tail::Finished),
            (br#"{"finish_reason" : "length"}"#, Tail::Open, Tail::Finished),
            (br#"{"finish_reason":null,"usage":{}}"#, Tail::Open, Tail::Open),
            (
                br#"{"choices":[],"usage":{"a":1}}"#,
                Tail::Finished,
                Tail::Counted,
            ),
            (br#"{"choices":[],"usage":null}"#, Tail::Finished, Tail::Finished),
            (
                br#"{"delta":{"content":"\"finish_reason\":\"x\""}}"#,
                Tail::Open,
                Tail::Open,
            ),
            // Another alternative goes on.
            (
                br#"{"delta":{"content":"x"},"finish_reason":null}"#,
                Tail::Counted,
                Tail::Open,
            ),
            (
                br#"{"delta":{"content":""},"finish_reason":null}"#,
                Tail::Counted,
                Tail::Counted,
            ),
            (
                br#"{"delta":{"content":"x"},"finish_reason":"stop"}"#,
                Tail::Counted,
                Tail::Finished,
            ),
        ] {
            assert_eq!(
                look(data, before),
                Some(after),
                "{}",
                String::from_utf8_lossy(data)
            );
        }
    }

    #[test]
    fn bodies_are_what_the_dialect_speaks() {
        use serde_json::json;

        use crate::shape::tests::body;
        use plimsoll_run::target::Dialect;
        let chat = Shape::full(Dialect::OpenaiChat, None, Some("a \"b\"".to_owned()), true, false);
        assert_eq!(
            body(&chat),
            json!({"model": "a \"b\"", "messages": [{"role": "user", "content": "one two"}], "stream": true,
                   "stream_options": {"include_usage": true}, "ignore_eos": true, "max_tokens": 5, "min_tokens": 5})
        );
        let mut plain = Shape::full(Dialect::OpenaiCompletions, None, None, false, true)
            .without(Field::MinTokens)
            .without(Field::IgnoreEos);
        plain.completion_limit = true;
        assert_eq!(
            body(&plain),
            json!({"prompt": "one two", "cache_prompt": false, "max_completion_tokens": 5})
        );
        assert_eq!(body(&chat.whole()).get("stream"), None);
    }
}
