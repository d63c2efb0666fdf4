//! JSON in OpenAI's shapes: bodies read, chunks and errors written.

use serde_json::{Value, json};

use crate::fault::Page;
use crate::script::{Limits, Script, Usage};
use crate::shapes::{self, Shape};

/// Which generation route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
    /// A route of another shape; whether it streams, where the route says so.
    Other(Option<bool>),
}

/// Token counts of one reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub prompt: u32,
    pub output: u32,
}

impl Counts {
    fn json(self) -> Value {
        let total = self.prompt.saturating_add(self.output);
        json!({"prompt_tokens": self.prompt, "completion_tokens": self.output, "total_tokens": total})
    }
}

/// An error in OpenAI's shape.
pub(crate) fn error(status: u16, kind: &str, param: Option<&str>, message: &str) -> Page {
    let body = json!({"error": {"message": message, "type": kind, "param": param, "code": status}});
    Page::json(status, body.to_string())
}

/// The answer of `/v1/models`.
pub(crate) fn models(models: &[String]) -> Page {
    let data: Vec<_> = models
        .iter()
        .map(|id| json!({"id": id, "object": "model", "created": 1, "owned_by": "scripted", "max_model_len": 131_072}))
        .collect();
    Page::json(200, json!({"object": "list", "data": data}).to_string())
}

/// What a generation request asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub stream: bool,
    pub include_usage: bool,
    pub limits: Limits,
    pub prompt: String,
    pub prompt_tokens: u32,
}

impl Asked {
    pub fn read(script: &Script, api: Api, body: &Value) -> Self {
        let other;
        let (body, api, stream) = match api {
            Api::Other(stream) => {
                other = plain(script.shape, body);
                (&other, Api::Chat, stream)
            }
            api => (body, api, None),
        };
        let number = |name: &str| body[name].as_u64().map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let flag = |value: &Value| value.as_bool().unwrap_or(false);
        let (prompt, prompt_tokens) = prompt(script, api, body);
        Self {
            stream: stream.unwrap_or_else(|| flag(&body["stream"])),
            include_usage: flag(&body["stream_options"]["include_usage"]),
            limits: Limits {
                max_tokens: number("max_tokens").or_else(|| number("max_completion_tokens")),
                min_tokens: number("min_tokens").unwrap_or(0),
                ignore_eos: flag(&body["ignore_eos"]),
            },
            prompt,
            prompt_tokens,
        }
    }
}

/// The body of another shape as chat's.
fn plain(shape: Shape, body: &Value) -> Value {
    let mut body = body.clone();
    let text = |value: &Value| json!([{"role": "user", "content": value}]);
    let (messages, limit) = match shape {
        Shape::Responses => {
            let input = &body["input"];
            let messages = if input.is_array() {
                input.clone()
            } else {
                text(input)
            };
            (messages, "/max_output_tokens")
        }
        Shape::Tgi => (text(&body["inputs"]), "/parameters/max_new_tokens"),
        Shape::Ollama => (body["messages"].clone(), "/options/num_predict"),
        Shape::Messages | Shape::OpenAi | Shape::Sagemaker => (body["messages"].clone(), "/max_tokens"),
    };
    let limit = body.pointer(limit).cloned().unwrap_or_default();
    if shape == Shape::Ollama && body.get("stream").is_none() {
        body["stream"] = json!(true);
    }
    body["messages"] = messages;
    body["max_tokens"] = limit;
    body
}

/// The prompt as text and its length in tokens.
fn prompt(script: &Script, api: Api, body: &Value) -> (String, u32) {
    let by_words =
        |text: &str| (text.split_whitespace().count() as f64 * script.tokens_per_word).round() as u32;
    match api {
        Api::Chat | Api::Other(_) => {
            let mut text = String::new();
            for message in body["messages"].as_array().into_iter().flatten() {
                match &message["content"] {
                    Value::String(content) => text.push_str(content),
                    Value::Array(parts) => parts
                        .iter()
                        .filter_map(|p| p["text"].as_str())
                        .for_each(|p| text.push_str(p)),
                    _ => {}
                }
                text.push('\n');
            }
            let tokens = by_words(&text).saturating_add(script.overhead);
            (text, tokens)
        }
        Api::Completions => match &body["prompt"] {
            Value::String(text) => (text.clone(), by_words(text)),
            Value::Array(items) if items.iter().all(Value::is_u64) => {
                let text: Vec<_> = items.iter().map(Value::to_string).collect();
                (text.join(" "), u32::try_from(items.len()).unwrap_or(u32::MAX))
            }
            Value::Array(items) => {
                let text: Vec<_> = items.iter().filter_map(Value::as_str).collect();
                let text = text.join("\n");
                let tokens = by_words(&text);
                (text, tokens)
            }
            _ => (String::new(), 0),
        },
    }
}

/// Writes the events of one reply.
#[derive(Debug)]
pub(crate) struct Events {
    api: Api,
    /// Whose events they are where they are not OpenAI's.
    other: Option<Shape>,
    /// How they go over the wire.
    shape: Shape,
    number: u64,
    /// `"id":...,"object":...,"created":...,"model":...` without braces.
    envelope: String,
    usage: Usage,
    include_usage: bool,
    pub reasoning_tokens: u32,
}

impl Events {
    pub fn new(script: &Script, api: Api, asked: &Asked, number: u64, model: &str) -> Self {
        let shape = match api {
            Api::Other(_) => script.shape,
            Api::Chat | Api::Completions => Shape::OpenAi,
        };
        let other = (!matches!(shape, Shape::OpenAi | Shape::Sagemaker)).then_some(shape);
        let api = match api {
            Api::Other(_) => Api::Chat,
            api => api,
        };
        let object = match (api, asked.stream) {
            (Api::Chat, true) => "chat.completion.chunk",
            (Api::Chat, false) => "chat.completion",
            (_, _) => "text_completion",
        };
        let envelope = format!(
            r#""id":"scripted-{number}","object":"{object}","created":1,"model":{}"#,
            json!(model)
        );
        Self {
            api,
            other,
            shape,
            number,
            envelope,
            usage: script.usage,
            include_usage: asked.include_usage,
            reasoning_tokens: if api == Api::Chat {
                script.reasoning_tokens
            } else {
                0
            },
        }
    }

    fn event(&self, choices: &str, usage: Option<Counts>) -> String {
        let usage = usage.map_or(String::new(), |counts| format!(r#","usage":{}"#, counts.json()));
        format!("data: {{{},\"choices\":[{choices}]{usage}}}\n\n", self.envelope)
    }

    /// The role-only chunk that chat begins with.
    pub fn role(&self, prompt: u32) -> Option<String> {
        if let Some(shape) = self.other {
            return shapes::begin(shape, prompt);
        }
        let choice = r#"{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}"#;
        (self.api == Api::Chat).then(|| self.event(choice, None))
    }

    /// A chunk with tokens `from..to`; tokens of both channels never share one.
    pub fn tokens(&self, from: u32, to: u32, prompt: u32) -> String {
        let text = text(from, to);
        if let Some(shape) = self.other {
            return shapes::tokens(shape, &text, to);
        }
        let choice = match self.api {
            Api::Chat | Api::Other(_) => {
                let channel = if from < self.reasoning_tokens {
                    "reasoning_content"
                } else {
                    "content"
                };
                format!(r#"{{"index":0,"delta":{{"{channel}":"{text}"}},"finish_reason":null}}"#)
            }
            Api::Completions => format!(r#"{{"index":0,"text":"{text}","finish_reason":null}}"#),
        };
        let usage = (self.usage == Usage::Cumulative).then_some(Counts { prompt, output: to });
        self.event(&choice, usage)
    }

    /// Everything after the last token: finish chunk, usage, `[DONE]`.
    pub fn finish(&self, reason: &str, counts: Counts) -> String {
        if let Some(shape) = self.other {
            return shapes::finish(shape, reason, counts);
        }
        let content = match self.api {
            Api::Chat | Api::Other(_) => r#""delta":{}"#,
            Api::Completions => r#""text":"""#,
        };
        let choice = format!(r#"{{"index":0,{content},"finish_reason":"{reason}"}}"#);
        let on_finish = matches!(self.usage, Usage::OnFinish | Usage::Cumulative);
        let mut events = self.event(&choice, on_finish.then_some(counts));
        if self.usage == Usage::Always || self.usage == Usage::WhenAsked && self.include_usage {
            events.push_str(&self.event("", Some(counts)));
        }
        events.push_str(DONE);
        events
    }

    /// The content type of a stream.
    pub fn stream_type(&self) -> &'static str {
        shapes::stream_type(self.shape)
    }

    /// A piece of a stream as it goes over the wire.
    pub fn wire(&self, text: &str) -> Vec<u8> {
        shapes::wire(self.shape, text, self.number)
    }

    /// An error in the middle of a stream.
    pub fn error(&self) -> Vec<u8> {
        match self.shape {
            Shape::OpenAi => format!("data: {STREAM_ERROR}\n\n{DONE}").into_bytes(),
            shape => shapes::error(shape),
        }
    }

    /// The body of a reply without streaming.
    pub fn body(&self, reason: &str, counts: Counts) -> String {
        if let Some(shape) = self.other {
            return shapes::whole(shape, reason, counts, &text(0, counts.output));
        }
        let text = |from, to| Value::String(text(from, to));
        let choice = match self.api {
            Api::Chat | Api::Other(_) => {
                let reasoning = self.reasoning_tokens.min(counts.output);
                let mut message = json!({"role": "assistant", "content": text(reasoning, counts.output)});
                if reasoning > 0 {
                    message["reasoning_content"] = text(0, reasoning);
                }
                json!({"index": 0, "message": message, "finish_reason": reason})
            }
            Api::Completions => json!({"index": 0, "text": text(0, counts.output), "finish_reason": reason}),
        };
        let usage = (self.usage != Usage::Never).then(|| counts.json());
        let usage = usage.map_or(String::new(), |usage| format!(r#","usage":{usage}"#));
        format!("{{{},\"choices\":[{choice}]{usage}}}", self.envelope)
    }
}

/// The error object of [`Fault::StreamError`](crate::Fault::StreamError).
pub(crate) const STREAM_ERROR: &str = r#"{"error":{"message":"scripted error inside the stream","type":"server_error","param":null,"code":500}}"#;

/// The last event of a stream.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// Tokens `from..to` as text: " t0 t1 ...".
fn text(from: u32, to: u32) -> String {
    (from..to).map(|i| format!(" t{i}")).collect()
}
