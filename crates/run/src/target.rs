//! The target: an endpoint and the serving configuration behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use crate::custom::{CustomDialect, CustomError, CustomFraming};
use crate::nearest::hint;

/// How a target is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// `POST /v1/chat/completions`
    OpenaiChat,
    /// `POST /v1/completions`
    OpenaiCompletions,
    /// `POST /v1/responses`
    OpenaiResponses,
    /// `POST /v1/messages`
    AnthropicMessages,
    /// `POST /generate_stream` of Text Generation Inference
    Tgi,
    /// `POST /api/chat` of Ollama
    Ollama,
    /// `InvokeEndpoint` and `InvokeEndpointWithResponseStream` of Amazon SageMaker
    Sagemaker,
    /// A body of the user's own: [`CustomDialect`].
    Custom,
}

impl Dialect {
    /// Every dialect by name.
    pub const NAMES: [(&'static str, Dialect); 8] = [
        ("openai-chat", Dialect::OpenaiChat),
        ("openai-completions", Dialect::OpenaiCompletions),
        ("openai-responses", Dialect::OpenaiResponses),
        ("anthropic-messages", Dialect::AnthropicMessages),
        ("tgi", Dialect::Tgi),
        ("ollama", Dialect::Ollama),
        ("sagemaker", Dialect::Sagemaker),
        ("custom", Dialect::Custom),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenaiChat => "openai-chat",
            Dialect::OpenaiCompletions => "openai-completions",
            Dialect::OpenaiResponses => "openai-responses",
            Dialect::AnthropicMessages => "anthropic-messages",
            Dialect::Tgi => "tgi",
            Dialect::Ollama => "ollama",
            Dialect::Sagemaker => "sagemaker",
            Dialect::Custom => "custom",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A dialect nobody speaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a dialect{hint}; dialects are {}", names())]
pub struct DialectError {
    given: String,
    hint: String,
}

fn names() -> String {
    Dialect::NAMES.map(|(name, _)| name).join(", ")
}

impl FromStr for Dialect {
    type Err = DialectError;

    fn from_str(text: &str) -> Result<Self, DialectError> {
        Dialect::NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, dialect)| *dialect)
            .ok_or_else(|| DialectError {
                given: text.to_owned(),
                hint: hint(text, &Dialect::NAMES.map(|(name, _)| name)),
            })
    }
}

/// The engine behind an endpoint, as far as it tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Such as `vllm` or `llama.cpp`.
    pub name: Option<String>,
    /// As the engine writes it.
    pub version: Option<String>,
}

/// The endpoint that was measured. Holds no credential: the URL is stored without user info and query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The one URL that requests go to.
    pub url: String,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// What the dialect `custom` is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomDialect>,
    /// The model asked for.
    pub model: Option<String>,
    /// The engine behind it.
    pub engine: Option<Engine>,
    /// Settings that the endpoint tells of itself or the user gave.
    pub serving_config: BTreeMap<String, serde_json::Value>,
    /// SHA-256 over engine and serving configuration, in hex.
    pub fingerprint: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_serde_writes_and_reading_takes_them_back() {
        for (name, dialect) in Dialect::NAMES {
            assert_eq!(dialect.name(), name);
            assert_eq!(serde_json::to_value(dialect).unwrap(), name);
            assert_eq!(name.parse(), Ok(dialect));
        }
        let error = "openai-chats".parse::<Dialect>().unwrap_err().to_string();
        assert!(error.contains("did you mean `openai-chat`"), "{error}");
        assert!(error.contains("ollama, sagemaker, custom"), "{error}");
    }
}
