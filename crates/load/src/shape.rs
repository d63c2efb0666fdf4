//! The shape of a request: which fields the endpoint takes.

use plimsoll_run::target::{CustomDialect, Dialect};

use crate::dialect::{Speaker, Template};

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
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub speaker: Speaker,
    pub model: Option<String>,
    pub stream: bool,
    /// The optional fields that are sent.
    pub fields: Vec<Field>,
    /// `max_completion_tokens` in place of `max_tokens`.
    pub completion_limit: bool,
}

impl Shape {
    /// With every field that some engine takes. `own` describes the dialect `custom`.
    pub(crate) fn full(
        dialect: Dialect,
        own: Option<&CustomDialect>,
        model: Option<String>,
        stream: bool,
        llama_cpp: bool,
    ) -> Self {
        let speaker = Speaker::new(dialect, own);
        Shape {
            fields: speaker
                .fields()
                .iter()
                .copied()
                .filter(|field| match field {
                    Field::CachePrompt => llama_cpp,
                    Field::IncludeUsage => stream,
                    Field::MinTokens | Field::IgnoreEos => true,
                })
                .collect(),
            speaker,
            model,
            stream,
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

    /// The same, not streamed, where it is the body that says so.
    pub(crate) fn whole(&self) -> Self {
        if self.speaker.streams_by_route() {
            return self.clone();
        }
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
        self.speaker.template(self)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use plimsoll_prompts::{Role, Turn};
    use serde_json::json;

    use super::*;

    /// The body for one turn of two words and five tokens.
    pub(crate) fn body(shape: &Shape) -> serde_json::Value {
        serde_json::from_slice(&shape.template().body(&[Turn::user("one two")], 5)).unwrap()
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
            let shape = Shape::full(dialect, None, None, false, false);
            serde_json::from_slice(&shape.template().body(&turns, 5)).unwrap()
        };
        let messages = json!([{"role": "system", "content": hostile}, {"role": "user", "content": "one"},
                              {"role": "assistant", "content": "uno"}, {"role": "user", "content": ""}]);
        let text = json!(format!("{hostile}\n\none\n\nuno\n\n"));
        for dialect in [Dialect::OpenaiChat, Dialect::Sagemaker, Dialect::Ollama] {
            assert_eq!(sent(dialect)["messages"], messages);
        }
        assert_eq!(sent(Dialect::OpenaiCompletions)["prompt"], text);
        assert_eq!(sent(Dialect::OpenaiResponses)["input"], messages);
        assert_eq!(sent(Dialect::Tgi)["inputs"], text);
        let anthropic = sent(Dialect::AnthropicMessages);
        assert_eq!(anthropic["system"], hostile);
        assert_eq!(anthropic["messages"], json!(messages.as_array().unwrap()[1..]));
    }

    #[test]
    fn each_dialect_asks_for_streams_and_lengths_in_its_own_way() {
        let full = |dialect, stream| body(&Shape::full(dialect, None, Some("m".to_owned()), stream, false));
        assert_eq!(
            full(Dialect::OpenaiResponses, true),
            json!({"model": "m", "input": "one two", "stream": true, "ignore_eos": true, "max_output_tokens": 5})
        );
        assert_eq!(
            full(Dialect::AnthropicMessages, true),
            json!({"model": "m", "messages": [{"role": "user", "content": "one two"}], "stream": true,
                   "ignore_eos": true, "max_tokens": 5})
        );
        assert_eq!(
            full(Dialect::Ollama, false),
            json!({"model": "m", "messages": [{"role": "user", "content": "one two"}], "stream": false,
                   "options": {"num_predict": 5}})
        );
        assert_eq!(
            full(Dialect::Tgi, true),
            json!({"inputs": "one two", "parameters": {"details": true, "max_new_tokens": 5}})
        );
    }
}
