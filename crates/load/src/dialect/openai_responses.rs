//! `openai-responses`: `POST /v1/responses`, whose streams are events of many types.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use plimsoll_run::target::Dialect;
use serde::Deserialize;
use serde_json::Value;

use super::bytes::{is_done, strings};
use super::gist::{Bears, Count};
use super::template::{Piece, Template, opening};
use super::{Counts, Look, Speak, Told, error_text};
use crate::flight::Tail;
use crate::shape::{Field, Shape};

/// Speaks `openai-responses`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenaiResponses;

static TYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"type\""));

fn look(data: &[u8], tail: Tail) -> Option<Tail> {
    if is_done(data) {
        return Some(Tail::Done);
    }
    let kind = strings(data, &TYPE).find(|kind| kind.starts_with(b"response.") || *kind == b"error")?;
    match kind {
        b"response.completed" | b"response.incomplete" | b"response.failed" | b"error" => Some(Tail::Done),
        _ if kind.ends_with(b".delta") => Some(tail),
        _ => None,
    }
}

/// An event of a stream.
#[derive(Debug, Deserialize)]
struct Event {
    #[serde(default, rename = "type")]
    kind: String,
    /// What a delta adds.
    #[serde(default)]
    delta: Bears,
    /// What begins.
    item: Option<Item>,
    /// The reply so far, or as a whole.
    response: Option<Response>,
    /// Of an event `error`, in one of two shapes.
    error: Option<Value>,
    message: Option<Value>,
    code: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Item {
    #[serde(default, rename = "type")]
    kind: String,
    /// Of a tool call.
    #[serde(default)]
    name: Bears,
    #[serde(default)]
    arguments: Bears,
    /// Of a message.
    #[serde(default)]
    content: Bears,
    /// Of reasoning.
    #[serde(default)]
    summary: Bears,
}

impl Item {
    fn reasons(&self) -> bool {
        self.kind == "reasoning" && (self.content.0 || self.summary.0)
    }

    fn answers(&self) -> bool {
        self.kind != "reasoning" && (self.name.0 || self.arguments.0 || self.content.0)
    }
}

#[derive(Debug, Deserialize)]
struct Response {
    status: Option<String>,
    incomplete_details: Option<Incomplete>,
    #[serde(default)]
    output: Option<Vec<Item>>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    input_tokens_details: Option<InputDetails>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Count,
}

impl Response {
    fn counts(&self) -> Option<Counts> {
        self.usage.map(|usage| Counts {
            input: usage.input_tokens.0,
            output: usage.output_tokens.0,
            cached: usage
                .input_tokens_details
                .and_then(|details| details.cached_tokens.0),
        })
    }

    /// Why it ended, if it has.
    fn end(&self) -> Option<String> {
        let status = self.status.as_deref().unwrap_or("completed");
        let cut = self
            .incomplete_details
            .as_ref()
            .and_then(|details| details.reason.as_deref());
        match (status, cut) {
            ("in_progress" | "queued", _) => None,
            (_, Some(reason)) => Some(reason.to_owned()),
            (status, None) => Some(status.to_owned()),
        }
    }

    fn failure(&self) -> Option<String> {
        let error = self.error.as_ref().filter(|error| !error.is_null());
        let failed = self.status.as_deref() == Some("failed");
        match error {
            Some(error) => Some(error_text(error)),
            None => failed.then(|| "the server says that the response failed".to_owned()),
        }
    }
}

impl Event {
    fn error(&self) -> Option<String> {
        let of_response = self.response.as_ref().and_then(Response::failure);
        if let Some(error) = self.error.as_ref().filter(|error| !error.is_null()) {
            return Some(error_text(error));
        }
        if self.kind != "error" {
            return of_response;
        }
        let mut error = serde_json::Map::new();
        error.insert(
            "message".to_owned(),
            self.message.clone().unwrap_or_else(|| "an error".into()),
        );
        error.insert("code".to_owned(), self.code.clone().unwrap_or_default());
        Some(error_text(&Value::Object(error)))
    }
}

impl Speak for OpenaiResponses {
    fn dialect(&self) -> Dialect {
        Dialect::OpenaiResponses
    }

    fn fields(&self) -> &'static [Field] {
        &[Field::CachePrompt, Field::IgnoreEos]
    }

    fn template(&self, shape: &Shape) -> Template {
        let mut fixed = String::new();
        if shape.stream {
            fixed.push_str(",\"stream\":true");
        }
        if shape.has(Field::IgnoreEos) {
            fixed.push_str(",\"ignore_eos\":true");
        }
        if shape.has(Field::CachePrompt) {
            fixed.push_str(",\"cache_prompt\":false");
        }
        Template::new(vec![
            Piece::Fixed(opening(shape.model.as_deref()) + "\"input\":"),
            Piece::PromptOrMessages,
            Piece::Fixed(fixed + ",\"max_output_tokens\":"),
            Piece::OutputTokens,
            Piece::Fixed("}".to_owned()),
        ])
    }

    fn look(&self) -> Look {
        look
    }

    fn event(&self, data: &[u8]) -> serde_json::Result<Told> {
        let event: Event = serde_json::from_slice(data)?;
        let kind = event.kind.as_str();
        let ends = matches!(
            kind,
            "response.completed" | "response.incomplete" | "response.failed"
        );
        // Deltas bear text in any channel; the name of a tool call comes with its item.
        let bears = kind.ends_with(".delta") && event.delta.0;
        let called = kind == "response.output_item.added"
            && event
                .item
                .as_ref()
                .is_some_and(|item| item.kind != "message" && item.answers());
        let end = event.response.as_ref().filter(|_| ends);
        Ok(Told {
            known: kind.starts_with("response."),
            bears: bears || called,
            answers: called || (bears && !kind.starts_with("response.reasoning")),
            finish: end.and_then(Response::end),
            usage: event.response.as_ref().and_then(Response::counts),
            done: ends,
            error: event.error(),
            ..Told::default()
        })
    }

    fn whole(&self, body: &[u8]) -> serde_json::Result<Told> {
        let response: Response = serde_json::from_slice(body)?;
        let items = response.output.as_deref().unwrap_or_default();
        let answers = items.iter().any(Item::answers);
        Ok(Told {
            known: response.output.is_some(),
            bears: answers || items.iter().any(Item::reasons),
            answers,
            finish: response.end(),
            usage: response.counts(),
            done: true,
            error: response.failure(),
            ..Told::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: &str) -> Told {
        OpenaiResponses.event(json.as_bytes()).unwrap()
    }

    #[test]
    fn deltas_of_every_channel_bear_tokens_and_nothing_else_does() {
        for (json, bears, answers) in [
            (
                r#"{"type":"response.created","response":{"status":"in_progress","usage":null}}"#,
                false,
                false,
            ),
            (
                r#"{"type":"response.output_text.delta","delta":"Hi"}"#,
                true,
                true,
            ),
            (
                r#"{"type":"response.output_text.delta","delta":""}"#,
                false,
                false,
            ),
            (
                r#"{"type":"response.reasoning_text.delta","delta":"hm"}"#,
                true,
                false,
            ),
            (
                r#"{"type":"response.reasoning_summary_text.delta","delta":"hm"}"#,
                true,
                false,
            ),
            (r#"{"type":"response.refusal.delta","delta":"no"}"#, true, true),
            (
                r#"{"type":"response.function_call_arguments.delta","delta":"{"}"#,
                true,
                true,
            ),
            (
                r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"f","arguments":""}}"#,
                true,
                true,
            ),
            (
                r#"{"type":"response.output_item.added","item":{"type":"message","content":[]}}"#,
                false,
                false,
            ),
            (
                r#"{"type":"response.output_text.done","text":"Hi"}"#,
                false,
                false,
            ),
        ] {
            let told = told(json);
            assert!(told.known, "{json}");
            assert_eq!((told.bears, told.answers), (bears, answers), "{json}");
        }
    }

    #[test]
    fn the_end_has_reason_and_counts_and_may_be_a_failure() {
        let end = r#"{"response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":31,"output_tokens":6,"input_tokens_details":{"cached_tokens":24}}},"type":"response.completed"}"#;
        let told_end = told(end);
        assert_eq!(told_end.finish.as_deref(), Some("max_output_tokens"));
        assert_eq!(
            told_end.usage,
            Some(Counts {
                input: Some(31),
                output: Some(6),
                cached: Some(24)
            })
        );
        assert!(told_end.done);
        assert_eq!(look(end.as_bytes(), Tail::Open), Some(Tail::Done));
        for failed in [
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"oh"}}}"#,
            r#"{"type":"error","code":"server_error","message":"oh","param":null}"#,
            r#"{"type":"error","error":{"code":"server_error","message":"oh"}}"#,
        ] {
            assert_eq!(
                told(failed).error.as_deref(),
                Some("oh (code server_error)"),
                "{failed}"
            );
            assert_eq!(look(failed.as_bytes(), Tail::Open), Some(Tail::Done));
        }
    }

    #[test]
    fn text_is_not_taken_for_the_type_of_its_event() {
        let data = br#"{"type":"response.output_text.delta","delta":"\"type\":\"response.completed\""}"#;
        assert_eq!(look(data, Tail::Open), Some(Tail::Open));
        assert_eq!(look(br#"{"type":"response.in_progress"}"#, Tail::Open), None);
        assert_eq!(
            look(
                br#"{"item":{"type":"message"},"type":"response.output_item.added"}"#,
                Tail::Open
            ),
            None
        );
    }

    #[test]
    fn a_whole_reply_has_items() {
        let body = br#"{"id":"r","object":"response","status":"completed","error":null,"output":[{"type":"reasoning","summary":[]},{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":3,"output_tokens":2}}"#;
        let told = OpenaiResponses.whole(body).unwrap();
        assert!(told.known && told.answers && told.done && told.error.is_none());
        assert_eq!(told.finish.as_deref(), Some("completed"));
    }
}
