//! `tgi`: `POST /generate_stream` and `/generate` of Text Generation Inference.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use plimsoll_run::target::Dialect;
use serde::Deserialize;
use serde_json::Value;

use super::bytes::{is_done, value_begins};
use super::gist::{Bears, Count};
use super::template::{Piece, Template};
use super::{Counts, Look, Speak, Told, error_text};
use crate::flight::Tail;
use crate::shape::Shape;

/// Speaks `tgi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tgi;

/// An event, or a whole reply. Each event is one token; the last has the whole text and the details as well.
#[derive(Debug, Deserialize)]
struct Event {
    token: Option<Token>,
    generated_text: Option<Bears>,
    details: Option<Details>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Token {
    #[serde(default)]
    text: Bears,
}

#[derive(Debug, Deserialize)]
struct Details {
    finish_reason: Option<String>,
    #[serde(default)]
    generated_tokens: Count,
    /// Since 2.3.
    #[serde(default)]
    input_length: Count,
    /// The prompt's tokens, in a whole reply that was asked for them.
    #[serde(default)]
    prefill: Vec<serde::de::IgnoredAny>,
}

/// Some versions put a whole reply into a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Whole {
    One(Event),
    List(Vec<Event>),
}

static TEXT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"generated_text\""));

fn look(data: &[u8], tail: Tail) -> Option<Tail> {
    let done = is_done(data) || value_begins(data, &TEXT, b'"');
    Some(if done { Tail::Done } else { tail })
}

impl Event {
    fn told(self, whole: bool) -> Told {
        let error = self.error.filter(|error| !error.is_null());
        let text = self.generated_text;
        let bears = match &self.token {
            Some(token) => token.text.0,
            None => whole && text.is_some_and(|text| text.0),
        };
        let details = self.details;
        let prefill = details.as_ref().map_or(0, |details| details.prefill.len());
        let prefill = u32::try_from(prefill).ok().filter(|tokens| *tokens > 0);
        Told {
            known: self.token.is_some() || text.is_some(),
            bears,
            answers: bears,
            finish: match &details {
                Some(details) => details.finish_reason.clone(),
                None => None,
            },
            usage: details.map(|details| Counts {
                input: details.input_length.0.or(prefill),
                output: details.generated_tokens.0,
                cached: None,
            }),
            done: text.is_some(),
            error: error.as_ref().map(error_text),
            ..Told::default()
        }
    }
}

impl Speak for Tgi {
    fn dialect(&self) -> Dialect {
        Dialect::Tgi
    }

    fn streams_by_route(&self) -> bool {
        true
    }

    fn template(&self, shape: &Shape) -> Template {
        // A whole reply tells the prompt's length only by listing its tokens.
        let listed = if shape.stream {
            ""
        } else {
            ",\"decoder_input_details\":true"
        };
        Template::new(vec![
            Piece::Fixed("{\"inputs\":".to_owned()),
            Piece::Prompt,
            Piece::Fixed(format!(
                ",\"parameters\":{{\"details\":true{listed},\"max_new_tokens\":"
            )),
            Piece::OutputTokens,
            Piece::Fixed("}}".to_owned()),
        ])
    }

    fn look(&self) -> Look {
        look
    }

    fn event(&self, data: &[u8]) -> serde_json::Result<Told> {
        Ok(serde_json::from_slice::<Event>(data)?.told(false))
    }

    fn whole(&self, body: &[u8]) -> serde_json::Result<Told> {
        let event = match serde_json::from_slice(body)? {
            Whole::One(event) => Some(event),
            Whole::List(list) => list.into_iter().next(),
        };
        Ok(event.map_or_else(Told::default, |event| event.told(true)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_a_token_and_the_last_one_counts() {
        let first = br#"{"index":1,"token":{"id":5,"text":" a","logprob":-0.1,"special":false},"generated_text":null,"details":null}"#;
        let told = Tgi.event(first).unwrap();
        assert!(told.known && told.bears && told.answers && !told.done);
        assert_eq!((told.usage, look(first, Tail::Open)), (None, Some(Tail::Open)));
        let last = br#"{"index":2,"token":{"id":2,"text":"</s>","special":true},"generated_text":" a","details":{"finish_reason":"eos_token","generated_tokens":2,"seed":null,"input_length":7}}"#;
        let told = Tgi.event(last).unwrap();
        assert!(told.done && told.bears);
        assert_eq!(told.finish.as_deref(), Some("eos_token"));
        let counts = told.usage.unwrap();
        assert_eq!((counts.input, counts.output), (Some(7), Some(2)));
        assert_eq!(look(last, Tail::Open), Some(Tail::Done));
        let error = Tgi.event(br#"{"error":"Request failed during generation","error_type":"generation"}"#);
        assert_eq!(
            error.unwrap().error.as_deref(),
            Some("Request failed during generation")
        );
    }

    #[test]
    fn whole_replies_come_alone_or_in_a_list() {
        let one = r#"{"generated_text":"a b","details":{"finish_reason":"length","generated_tokens":2,"prefill":[{"id":1},{"id":2},{"id":3}]}}"#;
        for body in [one.to_owned(), format!("[{one}]")] {
            let told = Tgi.whole(body.as_bytes()).unwrap();
            assert!(told.bears && told.done);
            let counts = told.usage.unwrap();
            assert_eq!((counts.input, counts.output), (Some(3), Some(2)));
        }
        assert!(!Tgi.whole(b"[]").unwrap().known);
    }
}
