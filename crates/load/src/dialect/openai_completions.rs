//! `openai-completions`: `POST /v1/completions`.

use plimsoll_run::target::Dialect;

use super::template::{Piece, Template};
use super::{Look, Speak, Told, openai};
use crate::shape::{Field, Shape};

/// Speaks `openai-completions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenaiCompletions;

impl Speak for OpenaiCompletions {
    fn dialect(&self) -> Dialect {
        Dialect::OpenaiCompletions
    }

    fn fields(&self) -> &'static [Field] {
        &Field::ALL
    }

    fn limit_has_two_names(&self) -> bool {
        true
    }

    fn template(&self, shape: &Shape) -> Template {
        openai::template(shape, "\"prompt\":", Piece::Prompt)
    }

    fn look(&self) -> Look {
        openai::look
    }

    fn event(&self, data: &[u8]) -> serde_json::Result<Told> {
        openai::event(data)
    }
}
