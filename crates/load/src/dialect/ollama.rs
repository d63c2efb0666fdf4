//! `ollama`: `POST /api/chat`, whose streams are one JSON document a line.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use plimsoll_run::target::Dialect;
use serde::Deserialize;
use serde_json::Value;

use super::bytes::{is_done, value_begins};
use super::gist::{Bears, Count};
use super::template::{Piece, Template, opening};
use super::{Counts, Look, Speak, Told, error_text};
use crate::flight::Tail;
use crate::framing::Framing;
use crate::shape::Shape;

/// Speaks `ollama`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ollama;

#[derive(Debug, Deserialize)]
struct Event {
    message: Option<Message>,
    done: Option<bool>,
    done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: Count,
    #[serde(default)]
    eval_count: Count,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    content: Bears,
    #[serde(default)]
    thinking: Bears,
    #[serde(default)]
    tool_calls: Bears,
}

static DONE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"done\""));

fn look(data: &[u8], tail: Tail) -> Option<Tail> {
    let done = is_done(data) || value_begins(data, &DONE, b't');
    Some(if done { Tail::Done } else { tail })
}

impl Speak for Ollama {
    fn dialect(&self) -> Dialect {
        Dialect::Ollama
    }

    fn template(&self, shape: &Shape) -> Template {
        Template::new(vec![
            Piece::Fixed(format!("{}\"messages\":", opening(shape.model.as_deref()))),
            Piece::Messages,
            // Streaming is what it does when not told.
            Piece::Fixed(format!(
                ",\"stream\":{},\"options\":{{\"num_predict\":",
                shape.stream
            )),
            Piece::OutputTokens,
            Piece::Fixed("}}".to_owned()),
        ])
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn look(&self) -> Look {
        look
    }

    fn event(&self, data: &[u8]) -> serde_json::Result<Told> {
        let event: Event = serde_json::from_slice(data)?;
        let done = event.done == Some(true);
        let answers = event
            .message
            .as_ref()
            .is_some_and(|message| message.content.0 || message.tool_calls.0);
        let thinks = event.message.as_ref().is_some_and(|message| message.thinking.0);
        let counts = Counts {
            input: event.prompt_eval_count.0,
            output: event.eval_count.0,
            cached: None,
        };
        Ok(Told {
            known: event.message.is_some() || event.done.is_some(),
            bears: answers || thinks,
            answers,
            // Old versions gave no reason.
            finish: done.then(|| event.done_reason.unwrap_or_else(|| "stop".to_owned())),
            usage: (counts != Counts::default()).then_some(counts),
            done,
            error: event
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

    #[test]
    fn lines_bear_text_and_the_last_one_counts() {
        let said =
            br#"{"model":"m","created_at":"t","message":{"role":"assistant","content":"Hi"},"done":false}"#;
        let told = Ollama.event(said).unwrap();
        assert!(told.known && told.answers && !told.done);
        assert_eq!(look(said, Tail::Open), Some(Tail::Open));
        let thought =
            Ollama.event(br#"{"message":{"role":"assistant","content":"","thinking":"hm"},"done":false}"#);
        let thought = thought.unwrap();
        assert!(thought.bears && !thought.answers);
        let last = br#"{"message":{"role":"assistant","content":""},"done_reason":"length","done":true,"total_duration":9,"prompt_eval_count":11,"eval_count":5}"#;
        let told = Ollama.event(last).unwrap();
        assert!(told.done && !told.bears);
        assert_eq!(told.finish.as_deref(), Some("length"));
        let counts = told.usage.unwrap();
        assert_eq!((counts.input, counts.output), (Some(11), Some(5)));
        assert_eq!(look(last, Tail::Open), Some(Tail::Done));
        let error = Ollama
            .event(br#"{"error":"model runner has unexpectedly stopped"}"#)
            .unwrap();
        assert_eq!(
            error.error.as_deref(),
            Some("model runner has unexpectedly stopped")
        );
    }
}
