//! A request as it was drawn, before a dialect gives it its form.

use std::sync::Arc;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions that come before everything else.
    System,
    /// The user.
    User,
    /// The model, in an earlier turn.
    Assistant,
}

impl Role {
    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// What one of them says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Who.
    pub role: Role,
    /// What. A dataset's text may hold any character.
    pub text: Arc<str>,
}

impl Turn {
    /// The user says this.
    #[must_use]
    pub fn user(text: impl Into<Arc<str>>) -> Self {
        Turn {
            role: Role::User,
            text: text.into(),
        }
    }
}

/// One request to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// The whole prompt, oldest turn first, the last one the user's.
    pub turns: Vec<Turn>,
    /// Prompt tokens asked for, history included.
    pub input_tokens: u32,
    /// Reply tokens asked for.
    pub output_tokens: u32,
}
