//! Dialects: how a target is spoken to, and what its replies say.
//!
//! One file each, behind one trait. While a reply comes in only [`Look`] is asked, a plain function over the bytes of
//! an event that neither parses JSON nor allocates; everything else happens off the hot path.

mod anthropic_messages;
mod bytes;
mod custom;
mod gist;
mod ollama;
mod openai;
mod openai_chat;
mod openai_completions;
mod openai_responses;
mod sagemaker;
mod template;
mod tgi;

use std::sync::Arc;

use plimsoll_run::target::{CustomDialect, Dialect};

pub(crate) use bytes::is_done;
pub(crate) use openai::error_text;
pub(crate) use template::Template;

use crate::flight::Tail;
use crate::framing::Framing;
use crate::shape::{Field, Shape};

/// How near its end a stream is after an event with this data; `None` for an event that brings nothing to count.
pub(crate) type Look = fn(data: &[u8], tail: Tail) -> Option<Tail>;

/// Token counts by the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Prompt tokens, those found in a cache among them.
    pub input: Option<u32>,
    pub output: Option<u32>,
    /// Prompt tokens found in a cache.
    pub cached: Option<u32>,
}

impl Counts {
    /// With what a later event says: counts of the reply are cumulative, those of the prompt do not shrink.
    pub(crate) fn then(self, later: Counts) -> Counts {
        Counts {
            input: self.input.max(later.input),
            output: later.output.or(self.output),
            cached: self.cached.max(later.cached),
        }
    }
}

/// What one event of a stream, or a whole reply, says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// It is of this dialect.
    pub known: bool,
    /// It bears generated text, in any channel.
    pub bears: bool,
    /// It bears text of the answer itself: anything but reasoning.
    pub answers: bool,
    /// The alternatives it is of, each with whether it says that it has ended.
    pub alternatives: Vec<(u64, bool)>,
    /// Why the reply ended.
    pub finish: Option<String>,
    /// Token counts.
    pub usage: Option<Counts>,
    /// It is the last event of the reply.
    pub done: bool,
    /// An error in place of a reply.
    pub error: Option<String>,
}

/// How a dialect is spoken.
pub(crate) trait Speak {
    /// Which one it is.
    fn dialect(&self) -> Dialect;

    /// The optional fields that a request may have, in the order in which they are given up.
    fn fields(&self) -> &'static [Field] {
        &[]
    }

    /// Whether `max_tokens` may have to be called `max_completion_tokens`.
    fn limit_has_two_names(&self) -> bool {
        false
    }

    /// Whether the route, not the body, asks for a stream.
    fn streams_by_route(&self) -> bool {
        false
    }

    /// Headers that every request carries unless the user gives others.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The header that holds the key, beside `authorization`.
    fn key_header(&self) -> Option<&'static str> {
        None
    }

    /// The parts of a body that do not change from one request to the next.
    fn template(&self, shape: &Shape) -> Template;

    /// How events are told apart where the content type does not say.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// How the end of a stream is seen from its bytes.
    fn look(&self) -> Look;

    /// Whether [`Look`] sees that a stream has said that it ends.
    fn bytes_tell_the_end(&self) -> bool {
        true
    }

    /// Whether a stream says when it ends. One that does not ends with its body.
    fn says_when_it_ends(&self) -> bool {
        true
    }

    /// Reads one event.
    fn event(&self, data: &[u8]) -> serde_json::Result<Told>;

    /// Reads a reply that is not streamed.
    fn whole(&self, body: &[u8]) -> serde_json::Result<Told> {
        self.event(body)
    }
}

/// The one who speaks a dialect. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Speaker {
    OpenaiChat(openai_chat::OpenaiChat),
    OpenaiCompletions(openai_completions::OpenaiCompletions),
    OpenaiResponses(openai_responses::OpenaiResponses),
    AnthropicMessages(anthropic_messages::AnthropicMessages),
    Tgi(tgi::Tgi),
    Ollama(ollama::Ollama),
    Sagemaker(sagemaker::Sagemaker),
    Custom(Arc<custom::Custom>),
}

impl Speaker {
    /// For this dialect; a custom one that is not described says nothing anybody understands.
    pub(crate) fn new(dialect: Dialect, own: Option<&CustomDialect>) -> Self {
        match dialect {
            Dialect::OpenaiChat => Speaker::OpenaiChat(openai_chat::OpenaiChat),
            Dialect::OpenaiCompletions => Speaker::OpenaiCompletions(openai_completions::OpenaiCompletions),
            Dialect::OpenaiResponses => Speaker::OpenaiResponses(openai_responses::OpenaiResponses),
            Dialect::AnthropicMessages => Speaker::AnthropicMessages(anthropic_messages::AnthropicMessages),
            Dialect::Tgi => Speaker::Tgi(tgi::Tgi),
            Dialect::Ollama => Speaker::Ollama(ollama::Ollama),
            Dialect::Sagemaker => Speaker::Sagemaker(sagemaker::Sagemaker),
            Dialect::Custom => {
                Speaker::Custom(Arc::new(custom::Custom::new(own.cloned().unwrap_or_default())))
            }
        }
    }
}

impl std::ops::Deref for Speaker {
    type Target = dyn Speak;

    fn deref(&self) -> &Self::Target {
        match self {
            Speaker::OpenaiChat(speaker) => speaker,
            Speaker::OpenaiCompletions(speaker) => speaker,
            Speaker::OpenaiResponses(speaker) => speaker,
            Speaker::AnthropicMessages(speaker) => speaker,
            Speaker::Tgi(speaker) => speaker,
            Speaker::Ollama(speaker) => speaker,
            Speaker::Sagemaker(speaker) => speaker,
            Speaker::Custom(speaker) => speaker.as_ref(),
        }
    }
}
