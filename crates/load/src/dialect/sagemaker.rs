//! `sagemaker`: `InvokeEndpoint` and `InvokeEndpointWithResponseStream`.
//!
//! The service hands body and reply through to a container, which speaks OpenAI's chat as those of vLLM, SGLang, LMI
//! and TGI do. A streamed reply comes as an event stream whose payloads are cut anywhere: [`crate::flight`] puts them
//! together before anybody looks for events in them.

use plimsoll_run::target::Dialect;

use super::template::{Piece, Template};
use super::{Look, Speak, Told, openai};
use crate::shape::{Field, Shape};

/// Speaks `sagemaker`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sagemaker;

impl Speak for Sagemaker {
    fn dialect(&self) -> Dialect {
        Dialect::Sagemaker
    }

    fn fields(&self) -> &'static [Field] {
        &Field::ALL
    }

    fn limit_has_two_names(&self) -> bool {
        true
    }

    fn streams_by_route(&self) -> bool {
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
