//! `openai-chat`: `POST /v1/chat/completions`.

use plimsoll_run::target::Dialect;

use super::template::{Piece, Template};
use super::{Look, Speak, Told, openai};
use crate::shape::{Field, Shape};

/// Speaks `openai-chat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenaiChat;

impl Speak for OpenaiChat {
    fn dialect(&self) -> Dialect {
        Dialect::OpenaiChat
    }

    fn fields(&self) -> &'static [Field] {
        &Field::ALL
    }

    fn limit_has_two_names(&self) -> bool {
        true
    }

    fn template(&self, shape: &Shape) -> Template {
        openai::template(shape, "\"messages\":", Piece::Messages)
    }

    fn look(&self) -> Look {
        openai::look
    }

    fn event(&self, data: &[u8]) -> serde_json::Result<Told> {
        openai::event(data)
    }
}
