//! `anthropic-messages`: `POST /v1/messages`.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use plimsoll_run::target::Dialect;
use serde::Deserialize;
use serde_json::Value;

use super::bytes::{is_done, strings, value_begins};
use super::gist::{Bears, Count};
use super::template::{Piece, Template, opening};
use super::{Counts, Look, Speak, Told, error_text};
use crate::flight::Tail;
use crate::shape::{Field, Shape};

/// Speaks `anthropic-messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnthropicMessages;

static TYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"type\""));
static STOP: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"stop_reason\""));

fn look(data: &[u8], tail: Tail) -> Option<Tail> {
    if is_done(data) {
        return Some(Tail::Done);
    }
    strings(data, &TYPE).find_map(|kind| match kind {
        b"content_block_delta" => Some(tail),
        b"message_delta" if value_begins(data, &STOP, b'"') => Some(tail.max(Tail::Counted)),
        b"message_stop" | b"error" => Some(Tail::Done),
        _ => None,
    })
}

/// An event of a stream.
#[derive(Debug, Deserialize)]
struct Event {
    #[serde(default, rename = "type")]
    kind: String,
    message: Option<Reply>,
    content_block: Option<Block>,
    delta: Option<Delta>,
    usage: Option<Usage>,
    error: Option<Value>,
}

/// A block of the reply, whole or as it begins.
#[derive(Debug, Deserialize)]
struct Block {
    #[serde(default)]
    text: Bears,
    #[serde(default)]
    thinking: Bears,
    /// Of a tool's call.
    #[serde(default)]
    name: Bears,
}

impl Block {
    fn answers(&self) -> bool {
        self.text.0 || self.name.0
    }
}

#[derive(Debug, Deserialize)]
struct Delta {
    #[serde(default)]
    text: Bears,
    #[serde(default)]
    thinking: Bears,
    /// Arguments of a tool's call.
    #[serde(default)]
    partial_json: Bears,
    stop_reason: Option<String>,
}

/// The reply as it begins, or as a whole.
#[derive(Debug, Deserialize)]
struct Reply {
    content: Option<Vec<Block>>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
}

impl From<Usage> for Counts {
    /// The dialect counts tokens read from or written to a cache apart from the rest of the prompt.
    fn from(usage: Usage) -> Self {
        let apart = [usage.cache_read_input_tokens, usage.cache_creation_input_tokens];
        let apart = apart
            .iter()
            .filter_map(|count| count.0)
            .fold(0, u32::saturating_add);
        Counts {
            input: usage.input_tokens.0.map(|own| own.saturating_add(apart)),
            output: usage.output_tokens.0,
            cached: usage.cache_read_input_tokens.0,
        }
    }
}

impl Speak for AnthropicMessages {
    fn dialect(&self) -> Dialect {
        Dialect::AnthropicMessages
    }

    fn fields(&self) -> &'static [Field] {
        &[Field::CachePrompt, Field::IgnoreEos]
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn key_header(&self) -> Option<&'static str> {
        Some("x-api-key")
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
            Piece::Fixed(opening(shape.model.as_deref())),
            Piece::System("\"system\":"),
            Piece::Fixed("\"messages\":".to_owned()),
            Piece::Dialogue,
            Piece::Fixed(fixed + ",\"max_tokens\":"),
            Piece::OutputTokens,
            Piece::Fixed("}".to_owned()),
        ])
    }

    fn look(&self) -> Look {
        look
    }

    fn event(&self, data: &[u8]) -> serde_json::Result<Told> {
        let event: Event = serde_json::from_slice(data)?;
        let known = event.kind.starts_with("message_") || event.kind.starts_with("content_block_");
        let block = event.content_block.as_ref();
        let delta = event.delta.as_ref();
        let answers = block.is_some_and(Block::answers)
            || delta.is_some_and(|delta| delta.text.0 || delta.partial_json.0);
        let thinks =
            block.is_some_and(|block| block.thinking.0) || delta.is_some_and(|delta| delta.thinking.0);
        let begun = event.message.as_ref().and_then(|reply| reply.usage);
        Ok(Told {
            known,
            bears: answers || thinks,
            answers,
            finish: delta.and_then(|delta| delta.stop_reason.clone()),
            usage: event.usage.or(begun).map(Counts::from),
            done: event.kind == "message_stop",
            error: event
                .error
                .filter(|error| !error.is_null())
                .as_ref()
                .map(error_text),
            ..Told::default()
        })
    }

    fn whole(&self, body: &[u8]) -> serde_json::Result<Told> {
        let reply: Reply = serde_json::from_slice(body)?;
        let blocks = reply.content.as_deref().unwrap_or_default();
        let answers = blocks.iter().any(Block::answers);
        Ok(Told {
            known: reply.content.is_some(),
            bears: answers || blocks.iter().any(|block| block.thinking.0),
            answers,
            finish: reply.stop_reason,
            usage: reply.usage.map(Counts::from),
            done: true,
            error: reply
                .error
                .filter(|error| !error.is_null())
                .as_ref()
                .map(error_text),
            ..Told::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: &str) -> Told {
        AnthropicMessages.event(json.as_bytes()).unwrap()
    }

    #[test]
    fn blocks_and_deltas_bear_tokens_of_their_channel() {
        for (json, bears, answers) in [
            (
                r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#,
                false,
                false,
            ),
            (
                r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}}"#,
                true,
                true,
            ),
            (
                r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}"#,
                true,
                false,
            ),
            (
                r#"{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"x"}}"#,
                false,
                false,
            ),
            (
                r#"{"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#,
                true,
                true,
            ),
            (
                r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}"#,
                true,
                true,
            ),
        ] {
            let told = told(json);
            assert!(told.known, "{json}");
            assert_eq!((told.bears, told.answers), (bears, answers), "{json}");
        }
        let ping = told(r#"{"type":"ping"}"#);
        assert!(!ping.known && !ping.bears);
    }

    #[test]
    fn counts_come_in_two_parts_and_the_end_in_two_events() {
        let begun = told(
            r#"{"type":"message_start","message":{"usage":{"cache_read_input_tokens":30,"input_tokens":1,"output_tokens":0}}}"#,
        );
        let delta =
            r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":6}}"#;
        let ended = told(delta);
        assert_eq!(
            begun.usage.unwrap().then(ended.usage.unwrap()),
            Counts {
                input: Some(31),
                output: Some(6),
                cached: Some(30)
            }
        );
        assert_eq!(ended.finish.as_deref(), Some("max_tokens"));
        assert_eq!(look(delta.as_bytes(), Tail::Open), Some(Tail::Counted));
        assert_eq!(
            look(br#"{"type":"message_stop"}"#, Tail::Counted),
            Some(Tail::Done)
        );
        assert_eq!(look(br#"{"type":"ping"}"#, Tail::Open), None);
        let error = told(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#);
        assert_eq!(error.error.as_deref(), Some("Overloaded"));
    }

    #[test]
    fn a_whole_reply_has_blocks() {
        let told = AnthropicMessages
            .whole(br#"{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}"#)
            .unwrap();
        assert!(told.known && told.answers);
        assert_eq!(told.finish.as_deref(), Some("end_turn"));
    }
}
