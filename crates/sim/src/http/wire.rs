//! The bytes of a reply, in vLLM's shape: the role chunk comes with the first token, the finish reason on the last
//! token's chunk, then a chunk of usage alone, then `[DONE]`.

use bytes::{BufMut, BytesMut};

use crate::engine::Token;
use crate::http::ask::Route;
use crate::prompts::mix;

/// Words of replies. One token each.
const WORDS: [&str; 32] = [
    "the", "ship", "draws", "more", "water", "as", "it", "takes", "on", "load", "and", "a", "line", "on",
    "its", "side", "shows", "how", "deep", "may", "lie", "in", "salt", "or", "fresh", "summer", "winter",
    "sea", "so", "that", "none", "sinks",
];

/// What is told of a reply, beside its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wire {
    route: Route,
    /// `chatcmpl-...` or `cmpl-...`
    id: String,
    created: u64,
    /// The model's name as JSON.
    model: String,
    /// The beginning of every token's chunk.
    head: String,
    prompt_tokens: u32,
    finish_reason: &'static str,
    /// Whether the last token is the end of the reply and shows no text.
    stops: bool,
    text_seed: u64,
}

/// What is known when a reply begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening<'a> {
    pub route: Route,
    /// Of the reply: unlike every other's.
    pub serial: u64,
    /// Seconds since 1970.
    pub created: u64,
    pub model: &'a str,
    pub prompt_tokens: u32,
    pub stops: bool,
    /// Decides the words.
    pub text_seed: u64,
}

impl Wire {
    pub(crate) fn new(opening: &Opening<'_>) -> Self {
        let (prefix, object) = match opening.route {
            Route::Chat => ("chatcmpl", "chat.completion.chunk"),
            Route::Completions => ("cmpl", "text_completion"),
        };
        let id = format!("{prefix}-{:016x}", mix(opening.created, opening.serial));
        let model = serde_json::Value::from(opening.model).to_string();
        let created = opening.created;
        let delta = match opening.route {
            Route::Chat => r#""delta":{"content":""#,
            Route::Completions => r#""text":""#,
        };
        let head = format!(
            r#"data: {{"id":"{id}","object":"{object}","created":{created},"model":{model},"choices":[{{"index":0,{delta}"#
        );
        Wire {
            route: opening.route,
            id,
            created,
            model,
            head,
            prompt_tokens: opening.prompt_tokens,
            finish_reason: if opening.stops { "stop" } else { "length" },
            stops: opening.stops,
            text_seed: opening.text_seed,
        }
    }

    /// The text of a token, appended.
    fn put_text(&self, out: &mut BytesMut, token: &Token) {
        if token.last && self.stops {
            return;
        }
        if token.index > 0 {
            out.put_u8(b' ');
        }
        let word = mix(self.text_seed, u64::from(token.index)) % WORDS.len() as u64;
        out.put_slice(WORDS[word as usize].as_bytes());
    }

    /// The chunk of a token, after the role chunk if it is a chat's first.
    pub(crate) fn put_token(&self, out: &mut BytesMut, token: &Token) {
        out.reserve(2 * self.head.len() + 256);
        let chat = self.route == Route::Chat;
        if chat && token.index == 0 {
            let (id, created, model) = (&self.id, self.created, &self.model);
            out.put_slice(
                format!(
                    "data: {{\"id\":\"{id}\",\"object\":\"chat.completion.chunk\",\"created\":{created},\"model\":{model},\
                     \"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,\
                     \"finish_reason\":null}}],\"prompt_token_ids\":null,\"prompt_text\":null}}\n\n"
                )
                .as_bytes(),
            );
        }
        out.put_slice(self.head.as_bytes());
        self.put_text(out, token);
        out.put_slice(if chat {
            b"\"},\"logprobs\":null,"
        } else {
            b"\",\"logprobs\":null,"
        });
        if token.last {
            out.put_slice(b"\"finish_reason\":\"");
            out.put_slice(self.finish_reason.as_bytes());
            out.put_slice(b"\",\"stop_reason\":null,");
        } else if chat {
            out.put_slice(b"\"finish_reason\":null,");
        } else {
            out.put_slice(b"\"finish_reason\":null,\"stop_reason\":null,");
        }
        out.put_slice(b"\"token_ids\":null}]}\n\n");
    }

    fn usage(&self, last: &Token) -> String {
        let (prompt, reply) = (self.prompt_tokens, last.index + 1);
        format!(
            "\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":{},\"completion_tokens\":{reply},\
             \"prompt_tokens_details\":{{\"cached_tokens\":{}}}}}",
            u64::from(prompt) + u64::from(reply),
            last.cached_tokens,
        )
    }

    /// What follows the last token's chunk.
    pub(crate) fn put_end(&self, out: &mut BytesMut, last: &Token, include_usage: bool) {
        if include_usage {
            let (id, created, model) = (&self.id, self.created, &self.model);
            let object = match self.route {
                Route::Chat => "chat.completion.chunk",
                Route::Completions => "text_completion",
            };
            let usage = self.usage(last);
            out.put_slice(
                format!(
                    "data: {{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{created},\"model\":{model},\"choices\":[],\
                     {usage}}}\n\n"
                )
                .as_bytes(),
            );
        }
        out.put_slice(b"data: [DONE]\n\n");
    }

    /// The whole reply at once, as JSON.
    pub(crate) fn whole(&self, tokens: &[Token]) -> String {
        let mut text = BytesMut::new();
        for token in tokens {
            self.put_text(&mut text, token);
        }
        // The words are ASCII.
        let text = String::from_utf8_lossy(&text);
        let (object, said) = match self.route {
            Route::Chat => (
                "chat.completion",
                format!(
                    r#""message":{{"role":"assistant","content":"{text}","refusal":null,"reasoning":null}}"#
                ),
            ),
            Route::Completions => ("text_completion", format!(r#""text":"{text}""#)),
        };
        let (id, created, model, finish) = (&self.id, self.created, &self.model, self.finish_reason);
        let usage = tokens
            .last()
            .map_or_else(|| "\"usage\":null".to_owned(), |last| self.usage(last));
        format!(
            "{{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{created},\"model\":{model},\"choices\":[{{\"index\":0,{said},\
             \"logprobs\":null,\"finish_reason\":\"{finish}\",\"stop_reason\":null}}],{usage}}}"
        )
    }
}
