//! A body with gaps for the prompt and the length of the reply.

use std::fmt::Write;

use bytes::Bytes;
use plimsoll_prompts::{Role, Turn};

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The same in every request.
    Fixed(String),
    /// All turns as a list of `{"role", "content"}`.
    Messages,
    /// The turns that are not the system's, as such a list.
    Dialogue,
    /// This, then the text of the system's turns as a string and a comma; nothing where it has none.
    System(&'static str),
    /// All turns as one string, with its quotation marks.
    Prompt,
    /// The same as the inside of a string.
    PromptText,
    /// One turn of the user as a string, more as a list of messages.
    PromptOrMessages,
    /// The number of reply tokens asked for.
    OutputTokens,
}

/// A body with gaps for the prompt and the length of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    fixed: usize,
}

impl Template {
    pub(crate) fn new(pieces: Vec<Piece>) -> Self {
        let fixed = pieces
            .iter()
            .map(|piece| match piece {
                Piece::Fixed(text) => text.len(),
                _ => 16,
            })
            .sum();
        Template { pieces, fixed }
    }

    /// The body for these turns.
    pub(crate) fn body(&self, turns: &[Turn], output_tokens: u32) -> Bytes {
        let length: usize = turns.iter().map(|turn| turn.text.len() + 64).sum();
        let mut body = String::with_capacity(self.fixed + length);
        for piece in &self.pieces {
            match piece {
                Piece::Fixed(text) => body.push_str(text),
                Piece::Messages => messages(turns.iter(), &mut body),
                Piece::Dialogue => messages(turns.iter().filter(|turn| turn.role != Role::System), &mut body),
                Piece::System(key) => system(key, turns, &mut body),
                Piece::PromptOrMessages if !matches!(turns, [only] if only.role == Role::User) => {
                    messages(turns.iter(), &mut body);
                }
                Piece::Prompt | Piece::PromptOrMessages => {
                    body.push('"');
                    text(turns.iter(), &mut body);
                    body.push('"');
                }
                Piece::PromptText => text(turns.iter(), &mut body),
                // Writing to a string cannot fail.
                Piece::OutputTokens => drop(write!(body, "{output_tokens}")),
            }
        }
        Bytes::from(body)
    }
}

fn messages<'a>(turns: impl Iterator<Item = &'a Turn>, body: &mut String) {
    body.push('[');
    for (at, turn) in turns.enumerate() {
        body.push_str(if at == 0 { "{\"role\":\"" } else { ",{\"role\":\"" });
        body.push_str(turn.role.name());
        body.push_str("\",\"content\":\"");
        escape(&turn.text, body);
        body.push_str("\"}");
    }
    body.push(']');
}

fn text<'a>(turns: impl Iterator<Item = &'a Turn>, body: &mut String) {
    for (at, turn) in turns.enumerate() {
        if at > 0 {
            body.push_str("\\n\\n");
        }
        escape(&turn.text, body);
    }
}

fn system(key: &str, turns: &[Turn], body: &mut String) {
    let of_system = || turns.iter().filter(|turn| turn.role == Role::System);
    if of_system().next().is_none() {
        return;
    }
    body.push_str(key);
    body.push('"');
    text(of_system(), body);
    body.push_str("\",");
}

/// Writes a text as the inside of a JSON string.
fn escape(text: &str, body: &mut String) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        // Every byte of a character beyond ASCII is above these.
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        body.push_str(&text[from..at]);
        from = at + 1;
        // Writing to a string cannot fail.
        let _ = match byte {
            b'"' | b'\\' => write!(body, "\\{}", char::from(byte)),
            b'\n' => body.write_str("\\n"),
            _ => write!(body, "\\u{byte:04x}"),
        };
    }
    body.push_str(&text[from..]);
}

/// A JSON object's opening brace and, where the model is known, its name.
pub(crate) fn opening(model: Option<&str>) -> String {
    match model {
        Some(model) => format!("{{\"model\":{},", serde_json::Value::from(model)),
        None => "{".to_owned(),
    }
}
