//! The target: an endpoint and the serving configuration behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::nearest::hint;

/// How a target is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// `POST /v1/chat/completions`
    OpenaiChat,
    /// `POST /v1/completions`
    OpenaiCompletions,
}

impl Dialect {
    /// Every dialect by name.
    pub const NAMES: [(&'static str, Dialect); 2] = [
        ("openai-chat", Dialect::OpenaiChat),
        ("openai-completions", Dialect::OpenaiCompletions),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenaiChat => "openai-chat",
            Dialect::OpenaiCompletions => "openai-completions",
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
#[error("`{given}` is not a dialect{hint}; dialects are openai-chat and openai-completions")]
pub struct DialectError {
    given: String,
    hint: String,
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
    /// The model asked for.
    pub model: Option<String>,
    /// The engine behind it.
    pub engine: Option<Engine>,
    /// Settings that the endpoint tells of itself or the user gave.
    pub serving_config: BTreeMap<String, serde_json::Value>,
    /// SHA-256 over engine and serving configuration, in hex.
    pub fingerprint: Option<String>,
}
