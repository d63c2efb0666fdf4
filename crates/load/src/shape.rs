//! The shape of a request: which fields the endpoint takes, and the body made of them.

use bytes::Bytes;
use plimsoll_prompts::Turn;
use plimsoll_run::target::Dialect;

/// The optional fields of a request, in the order in which they are given up when the endpoint refuses without
/// saying which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// `cache_prompt: false`, which llama.cpp alone takes: no prompt cache for this request.
    CachePrompt,
    /// `min_tokens`: not shorter than asked.
    MinTokens,
    /// `ignore_eos`: not shorter than asked.
    IgnoreEos,
    /// `stream_options.include_usage`: token counts at the end of a stream.
    IncludeUsage,
}

impl Field {
    pub(crate) const ALL: [Field; 4] = [
        Field::CachePrompt,
        Field::MinTokens,
        Field::IgnoreEos,
        Field::IncludeUsage,
    ];

    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Field::CachePrompt => "cache_prompt",
            Field::MinTokens => "min_tokens",
            Field::IgnoreEos => "ignore_eos",
            Field::IncludeUsage => "stream_options",
        }
    }
}

/// What requests to this endpoint look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub dialect: Dialect,
    pub model: Option<String>,
    pub stream: bool,
    /// The optional fields that are sent.
    pub fields: Vec<Field>,
    /// `max_completion_tokens` in place of `max_tokens`.
    pub completion_limit: bool,
}

impl Shape {
    /// With every field that some engine takes.
    pub(crate) fn full(dialect: Dialect, model: Option<String>, stream: bool, llama_cpp: bool) -> Self {
        Shape {
            dialect,
            model,
            stream,
            fields: Field::ALL
                .into_iter()
                .filter(|field| match field {
                    Field::CachePrompt => llama_cpp,
                    Field::IncludeUsage => stream,
                    Field::MinTokens | Field::IgnoreEos => true,
                })
                .collect(),
            completion_limit: false,
        }
    }

    pub(crate) fn has(&self, field: Field) -> bool {
        self.fields.contains(&field)
    }

    /// Without that field.
    pub(crate) fn without(&self, field: Field) -> Self {
        let mut shape = self.clone();
        shape.fields.retain(|other| *other != field);
        shape
    }

    /// The same, not streamed.
    pub(crate) fn whole(&self) -> Self {
        let mut shape = self.without(Field::IncludeUsage);
        shape.stream = false;
        shape
    }

    /// The name of the field that limits the reply.
    pub(crate) fn limit_field(&self) -> &'static str {
        if self.completion_limit {
            "max_completion_tokens"
        } else {
            "max_tokens"
        }
    }

    /// The parts of a body that do not change from one request to the next.
    pub(crate) fn template(&self) -> Template {
        let mut head = String::from("{");
        if let Some(model) = &self.model {
            head.push_str(&format!("\"model\":{},", serde_json::Value::from(model.as_str())));
        }
        head.push_str(match self.dialect {
            Dialect::OpenaiCompletions => "\"prompt\":",
            _ => "\"messages\":",
        });
        let mut middle = String::new();
        if self.stream {
            middle.push_str(",\"stream\":true");
        }
        if self.has(Field::IncludeUsage) {
            middle.push_str(",\"stream_options\":{\"include_usage\":true}");
        }
        if self.has(Field::IgnoreEos) {
            middle.push_str(",\"ignore_eos\":true");
        }
        if self.has(Field::CachePrompt) {
            middle.push_str(",\"cache_prompt\":false");
        }
        middle.push_str(&format!(",\"{}\":", self.limit_field()));
        Template {
            dialect: self.dialect,
            head,
            middle,
            min_tokens: self.has(Field::MinTokens),
        }
    }
}

/// A body with gaps for the prompt and the length of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    dialect: Dialect,
    head: String,
    middle: String,
    min_tokens: bool,
}

impl Template {
    /// The body for these turns.
    pub(crate) fn body(&self, turns: &[Turn], output_tokens: u32) -> Bytes {
        use std::fmt::Write;
        let length: usize = turns.iter().map(|turn| turn.text.len() + 64).sum();
        let mut body = String::with_capacity(self.head.len() + length + self.middle.len() + 64);
        body.push_str(&self.head);
        match self.dialect {
            Dialect::OpenaiCompletions => {
                body.push('"');
                for (at, turn) in turns.iter().enumerate() {
                    if at > 0 {
                        body.push_str("\\n\\n");
                    }
                    escape(&turn.text, &mut body);
                }
                body.push('"');
            }
            _ => {
                for (at, turn) in turns.iter().enumerate() {
                    body.push_str(if at == 0 { "[" } else { "," });
                    body.push_str("{\"role\":\"");
                    body.push_str(turn.role.name());
                    body.push_str("\",\"content\":\"");
                    escape(&turn.text, &mut body);
                    body.push_str("\"}");
                }
                body.push(']');
            }
        }
        body.push_str(&self.middle);
        // Writing to a string cannot fail.
        let _ = write!(body, "{output_tokens}");
        if self.min_tokens {
            let _ = write!(body, ",\"min_tokens\":{output_tokens}");
        }
        body.push('}');
        Bytes::from(body)
    }
}

/// Writes a text as the inside of a JSON string.
fn escape(text: &str, body: &mut String) {
    use std::fmt::Write;
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

#[cfg(test)]
mod tests {
    use plimsoll_prompts::Role;
    use serde_json::json;

    use super::*;

    fn body(shape: &Shape) -> serde_json::Value {
        serde_json::from_slice(&shape.template().body(&[Turn::user("one two")], 5)).unwrap()
    }

    #[test]
    fn bodies_are_what_the_dialect_speaks() {
        let chat = Shape::full(Dialect::OpenaiChat, Some("a \"b\"".to_owned()), true, false);
        assert_eq!(
            body(&chat),
            json!({"model": "a \"b\"", "messages": [{"role": "user", "content": "one two"}], "stream": true,
                   "stream_options": {"include_usage": true}, "ignore_eos": true, "max_tokens": 5, "min_tokens": 5})
        );
        let mut plain = Shape::full(Dialect::OpenaiCompletions, None, false, true)
            .without(Field::MinTokens)
            .without(Field::IgnoreEos);
        plain.completion_limit = true;
        assert_eq!(
            body(&plain),
            json!({"prompt": "one two", "cache_prompt": false, "max_completion_tokens": 5})
        );
        assert_eq!(body(&chat.whole()).get("stream"), None);
    }

    #[test]
    fn turns_of_any_text_arrive_as_they_are() {
        let hostile = "a \"b\" \\ \u{1}\t\r\n\u{7f} \u{2028} 🌊 \u{0}";
        let turns = [
            Turn {
                role: Role::System,
                text: hostile.into(),
            },
            Turn::user("one"),
            Turn {
                role: Role::Assistant,
                text: "uno".into(),
            },
            Turn::user(""),
        ];
        let sent = |dialect| -> serde_json::Value {
            let shape = Shape::full(dialect, None, false, false);
            serde_json::from_slice(&shape.template().body(&turns, 5)).unwrap()
        };
        assert_eq!(
            sent(Dialect::OpenaiChat)["messages"],
            json!([{"role": "system", "content": hostile}, {"role": "user", "content": "one"},
                   {"role": "assistant", "content": "uno"}, {"role": "user", "content": ""}])
        );
        assert_eq!(
            sent(Dialect::OpenaiCompletions)["prompt"],
            json!(format!("{hostile}\n\none\n\nuno\n\n"))
        );
    }
}
