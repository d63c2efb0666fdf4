//! Answers in other shapes than OpenAI's: Ollama, Text Generation Inference, SageMaker, responses and messages.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

use crate::fault::Page;
use crate::openai::Counts;
use crate::script::Script;

/// Whose API a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// `/v1/chat/completions` and `/v1/completions`.
    #[default]
    OpenAi,
    /// `/v1/responses` alone, with `/v1/models`.
    Responses,
    /// `/v1/messages` alone, with `/v1/models`.
    Messages,
    /// `/generate`, `/generate_stream` and `/info` of Text Generation Inference.
    Tgi,
    /// `/api/chat`, `/api/tags` and `/api/version` of Ollama.
    Ollama,
    /// `/endpoints/NAME/invocations` and its twin with a response stream, which takes and gives OpenAI's chat. Streams
    /// are cut into payload parts in the middle of events and characters. Requests without a signature get 403.
    Sagemaker,
}

/// The answer to a question about the server, where there is one of this shape.
pub(crate) fn about(script: &Script, path: &str) -> Option<Page> {
    let model = script.models.first().map_or("m", String::as_str);
    let answer = match (script.shape, path) {
        (Shape::Tgi, "/info") => {
            json!({"model_id": model, "version": "3.3.4", "max_input_tokens": 4095, "max_total_tokens": 4096})
        }
        (Shape::Ollama, "/api/version") => json!({"version": "0.12.6"}),
        (Shape::Ollama, "/api/tags") => {
            let models: Vec<Value> = script
                .models
                .iter()
                .map(|name| json!({"name": name, "model": name, "details": {"parameter_size": "1.2B"}}))
                .collect();
            json!({"models": models})
        }
        _ => return None,
    };
    Some(Page::json(200, answer.to_string()))
}

/// A generation route of this shape: whether it streams, where the route says so.
pub(crate) fn route(shape: Shape, path: &str) -> Option<Option<bool>> {
    match (shape, path) {
        (Shape::Responses, "/v1/responses")
        | (Shape::Messages, "/v1/messages")
        | (Shape::Ollama, "/api/chat") => Some(None),
        (Shape::Tgi, "/generate") => Some(Some(false)),
        (Shape::Tgi, "/generate_stream") => Some(Some(true)),
        (Shape::Sagemaker, path) => {
            let rest = path.strip_prefix("/endpoints/")?;
            match rest.split_once('/') {
                Some((_, "invocations")) => Some(Some(false)),
                Some((_, "invocations-response-stream")) => Some(Some(true)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The content type of a stream.
pub(crate) fn stream_type(shape: Shape) -> &'static str {
    match shape {
        Shape::Ollama => "application/x-ndjson",
        Shape::Sagemaker => "application/vnd.amazon.eventstream",
        _ => "text/event-stream; charset=utf-8",
    }
}

fn event(value: &Value) -> String {
    match value["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {value}\n\n"),
        None => format!("data:{value}\n\n"),
    }
}

/// What a stream begins with.
pub(crate) fn begin(shape: Shape, prompt: u32) -> Option<String> {
    match shape {
        Shape::Responses => Some(
            event(
                &json!({"type": "response.created", "response": {"object": "response", "status": "in_progress", "usage": null}}),
            ) + &event(
                &json!({"type": "response.output_item.added", "item": {"type": "message", "content": [], "role": "assistant"}}),
            ) + &event(
                &json!({"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}}),
            ),
        ),
        Shape::Messages => Some(
            event(
                &json!({"type": "message_start", "message": {"type": "message", "role": "assistant", "content": [],
                "usage": {"input_tokens": prompt, "output_tokens": 0}}}),
            ) + &event(&json!({"type": "ping"}))
                + &event(
                    &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                ),
        ),
        _ => None,
    }
}

/// Tokens of a stream.
pub(crate) fn tokens(shape: Shape, text: &str, index: u32) -> String {
    match shape {
        Shape::Responses => event(&json!({"delta": text, "type": "response.output_text.delta"})),
        Shape::Messages => event(
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        ),
        Shape::Tgi => event(
            &json!({"index": index, "token": {"id": index, "text": text, "logprob": -0.5, "special": false},
            "generated_text": null, "details": null}),
        ),
        _ => format!(
            "{}\n",
            json!({"model": "m", "message": {"role": "assistant", "content": text}, "done": false})
        ),
    }
}

/// What follows the last token. Text Generation Inference ends with a token, the one that ended the reply: it is among
/// those that `counts` has, so the stream before it had one less.
pub(crate) fn finish(shape: Shape, reason: &str, counts: Counts) -> String {
    let Counts { prompt, output } = counts;
    match shape {
        Shape::Responses => {
            event(&json!({"type": "response.completed", "response": responses(reason, counts, "")}))
        }
        Shape::Messages => {
            event(&json!({"type": "content_block_stop", "index": 0}))
                + &event(
                    &json!({"type": "message_delta", "delta": {"stop_reason": messages_reason(reason)},
                    "usage": {"output_tokens": output}}),
                )
                + &event(&json!({"type": "message_stop"}))
        }
        Shape::Tgi => event(
            &json!({"index": output, "token": {"id": 2, "text": "", "special": true},
            "generated_text": "all", "details": {"finish_reason": reason, "generated_tokens": output, "input_length": prompt}}),
        ),
        _ => format!(
            "{}\n",
            json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
                   "prompt_eval_count": prompt, "eval_count": output})
        ),
    }
}

/// A reply that is not streamed.
pub(crate) fn whole(shape: Shape, reason: &str, counts: Counts, text: &str) -> String {
    let Counts { prompt, output } = counts;
    let body = match shape {
        Shape::Responses => responses(reason, counts, text),
        Shape::Messages => {
            json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}],
            "stop_reason": messages_reason(reason), "usage": {"input_tokens": prompt, "output_tokens": output}})
        }
        Shape::Tgi => {
            json!({"generated_text": text, "details": {"finish_reason": reason, "generated_tokens": output,
            "prefill": (0..prompt).map(|id| json!({"id": id})).collect::<Vec<_>>()}})
        }
        _ => {
            json!({"model": "m", "message": {"role": "assistant", "content": text}, "done": true, "done_reason": reason,
            "prompt_eval_count": prompt, "eval_count": output})
        }
    };
    body.to_string()
}

fn responses(reason: &str, counts: Counts, text: &str) -> Value {
    let cut = reason == "length";
    json!({"object": "response", "status": if cut { "incomplete" } else { "completed" },
           "incomplete_details": cut.then(|| json!({"reason": "max_output_tokens"})),
           "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}],
           "usage": {"input_tokens": counts.prompt, "output_tokens": counts.output}})
}

fn messages_reason(reason: &str) -> &str {
    if reason == "length" {
        "max_tokens"
    } else {
        "end_turn"
    }
}

/// An error in the middle of a stream.
pub(crate) fn error(shape: Shape) -> Vec<u8> {
    let message = "scripted error inside the stream";
    match shape {
        Shape::Sagemaker => frame(
            &[
                (":exception-type", "ModelStreamError"),
                (":content-type", "application/json"),
                (":message-type", "exception"),
            ],
            json!({"Message": message, "ErrorCode": "StreamBroken"})
                .to_string()
                .as_bytes(),
        ),
        Shape::Responses => {
            event(&json!({"type": "error", "code": "server_error", "message": message})).into_bytes()
        }
        Shape::Messages => {
            event(&json!({"type": "error", "error": {"type": "api_error", "message": message}})).into_bytes()
        }
        Shape::Tgi => event(&json!({"error": message, "error_type": "generation"})).into_bytes(),
        Shape::OpenAi | Shape::Ollama => format!("{}\n", json!({"error": message})).into_bytes(),
    }
}

/// The bytes of a piece of a stream as they go over the wire: for SageMaker in two frames, cut where it hurts.
pub(crate) fn wire(shape: Shape, text: &str, number: u64) -> Vec<u8> {
    if shape != Shape::Sagemaker {
        return text.as_bytes().to_vec();
    }
    let cut = usize::try_from(number).unwrap_or(0) * 7 % (text.len() + 1);
    let (first, second) = text.as_bytes().split_at(cut);
    [payload(first), payload(second)].concat()
}

fn payload(bytes: &[u8]) -> Vec<u8> {
    frame(
        &[
            (":event-type", "PayloadPart"),
            (":content-type", "application/octet-stream"),
            (":message-type", "event"),
        ],
        bytes,
    )
}

fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut message = Message::new(payload.to_vec());
    for (name, value) in headers {
        message = message.add_header(Header::new(
            (*name).to_owned(),
            HeaderValue::String((*value).to_owned().into()),
        ));
    }
    let mut bytes = Vec::new();
    // Short headers and payloads can always be written.
    let _ = write_message_to(&message, &mut bytes);
    bytes
}
