//! Replies captured from real engines, read by the parser with scripted time stamps.
//!
//! What is expected was counted by hand and by another program from the files, not by this parser.

use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_run::request::{FailureClass, RequestRecord};

use plimsoll_run::target::{CustomDialect, Dialect};

use super::read;
use crate::dialect::Speaker;
use crate::flight::{Buffers, Ending, Flight};
use crate::secret::Redactor;

/// A captured reply: status line and headers, and the body.
struct Captured {
    status: u16,
    content_type: String,
    body: Vec<u8>,
    /// Who reads it.
    speaker: Speaker,
    /// One more header.
    extra: Option<(&'static str, &'static str)>,
}

fn captured(name: &str) -> Captured {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/captured")
        .join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let (head, body) = text.split_once("\n\n").unwrap();
    let status = head
        .lines()
        .find_map(|line| line.strip_prefix("# HTTP/1.1 "))
        .unwrap();
    let content_type = head
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("# content-type: ")
                .map(str::to_owned)
        })
        .unwrap();
    Captured {
        status: status[..3].parse().unwrap(),
        content_type,
        body: body.as_bytes().to_vec(),
        speaker: speaker(name),
        extra: None,
    }
}

/// Who speaks the dialect of this file.
fn speaker(name: &str) -> Speaker {
    if name.contains("messages") {
        Speaker::new(Dialect::AnthropicMessages, None)
    } else if name.contains("responses") {
        Speaker::new(Dialect::OpenaiResponses, None)
    } else if name.contains("native-completion") {
        Speaker::new(Dialect::Custom, Some(&llama_cpp_native()))
    } else {
        chat()
    }
}

fn chat() -> Speaker {
    Speaker::new(Dialect::OpenaiChat, None)
}

/// llama.cpp's own `/completion`, as a user would describe it.
fn llama_cpp_native() -> CustomDialect {
    CustomDialect {
        text: "/content".to_owned(),
        input_tokens: Some("/tokens_evaluated".to_owned()),
        output_tokens: Some("/tokens_predicted".to_owned()),
        finish: Some("/stop_type".to_owned()),
        ..CustomDialect::default()
    }
}

/// Reads a reply whose body comes in these pieces, one every 10 ms from 10 ms on.
fn replay(captured: &Captured, pieces: &[&[u8]]) -> (RequestRecord, Vec<Duration>) {
    let origin = Instant::now();
    let record = RequestRecord::begun(0, 0, Duration::ZERO, Duration::ZERO);
    let mut flight = Flight::new(record, Buffers::default(), origin, &captured.speaker);
    let (head, ()) = http::Response::builder()
        .status(captured.status)
        .header("content-type", &captured.content_type)
        .header(
            captured.extra.map_or("x-none", |(name, _)| name),
            captured.extra.map_or("", |(_, value)| value),
        )
        .body(())
        .unwrap()
        .into_parts();
    flight.headers(head, origin);
    let mut at = Duration::ZERO;
    for piece in pieces {
        at += Duration::from_millis(10);
        flight.body(piece, origin + at).unwrap();
    }
    flight.record.ended = at;
    let chunks = read(&mut flight, &Ending::Complete, &Redactor::default());
    (flight.record, chunks)
}

/// The body cut behind each event.
fn events(body: &[u8]) -> Vec<&[u8]> {
    let mut events = Vec::new();
    let mut rest = body;
    while let Some(end) = memchr::memmem::find(rest, b"\n\n") {
        events.push(&rest[..end + 2]);
        rest = &rest[end + 2..];
    }
    if !rest.is_empty() {
        events.push(rest);
    }
    events
}

/// What a stream holds.
struct Truth {
    file: &'static str,
    /// Token-bearing chunks.
    chunks: usize,
    /// The event with the first token and, where there is one, that with the first answer token, from 1.
    first: u64,
    answer: Option<u64>,
    /// Prompt, reply and cached tokens by the server.
    usage: Option<(u32, u32, Option<u32>)>,
    finish: Option<&'static str>,
}

#[rustfmt::skip]
const STREAMS: [Truth; 36] = [
    Truth { file: "vllm/chat-stream-include_usage.sse", chunks: 6, first: 2, answer: Some(2), usage: Some((37, 6, None)), finish: Some("length") },
    Truth { file: "vllm/chat-stream-continuous_usage.sse", chunks: 6, first: 2, answer: Some(2), usage: Some((37, 6, None)), finish: Some("length") },
    Truth { file: "vllm/chat-stream-ignore_eos.sse", chunks: 40, first: 2, answer: Some(2), usage: Some((37, 40, None)), finish: Some("length") },
    Truth { file: "vllm/chat-stream-per_request_metrics.sse", chunks: 12, first: 2, answer: Some(2), usage: Some((37, 12, Some(0))), finish: Some("length") },
    Truth { file: "vllm/chat-stream-plain.sse", chunks: 6, first: 2, answer: Some(2), usage: None, finish: Some("length") },
    Truth { file: "vllm/chat-stream-reasoning-only.sse", chunks: 24, first: 2, answer: None, usage: Some((37, 24, Some(32))), finish: Some("length") },
    Truth { file: "vllm/chat-stream-reasoning-then-content.sse", chunks: 23, first: 2, answer: Some(18), usage: Some((37, 24, Some(32))), finish: Some("length") },
    Truth { file: "vllm/chat-stream-toolcall-named.sse", chunks: 23, first: 2, answer: Some(17), usage: Some((37, 70, Some(32))), finish: Some("stop") },
    Truth { file: "vllm/chat-stream-toolcall-required.sse", chunks: 23, first: 2, answer: Some(42), usage: Some((37, 70, Some(32))), finish: Some("tool_calls") },
    Truth { file: "vllm/completions-prefix-hit.sse", chunks: 2, first: 1, answer: Some(1), usage: Some((200, 2, Some(192))), finish: Some("length") },
    Truth { file: "vllm/completions-stream.sse", chunks: 6, first: 1, answer: Some(1), usage: Some((4, 6, None)), finish: Some("length") },
    Truth { file: "vllm/completions-stream_interval4.sse", chunks: 4, first: 1, answer: Some(1), usage: Some((2, 12, Some(0))), finish: Some("length") },
    Truth { file: "vllm/chat-stream-logprobs.sse", chunks: 6, first: 2, answer: Some(2), usage: Some((37, 6, None)), finish: Some("length") },
    Truth { file: "vllm/chat-stream-n2.sse", chunks: 10, first: 3, answer: Some(3), usage: Some((32, 10, None)), finish: Some("length") },
    Truth { file: "vllm/chat-stream-return_token_ids.sse", chunks: 6, first: 2, answer: Some(2), usage: Some((37, 6, None)), finish: Some("length") },
    Truth { file: "vllm/chat-stream-tools-auto-no-call.sse", chunks: 60, first: 2, answer: None, usage: None, finish: Some("length") },
    Truth { file: "vllm/completions-batch2-stream.sse", chunks: 6, first: 1, answer: Some(1), usage: Some((6, 6, None)), finish: Some("length") },
    Truth { file: "vllm/invocations-chat-stream.sse", chunks: 6, first: 2, answer: Some(2), usage: Some((37, 6, None)), finish: Some("length") },
    Truth { file: "vllm/messages-stream.sse", chunks: 6, first: 3, answer: Some(3), usage: Some((31, 6, None)), finish: Some("max_tokens") },
    Truth { file: "vllm/responses-stream.sse", chunks: 6, first: 5, answer: Some(5), usage: Some((31, 6, Some(0))), finish: Some("max_output_tokens") },
    Truth { file: "llama-cpp/chat-stream-logprobs-return_tokens.sse", chunks: 6, first: 2, answer: Some(2), usage: None, finish: Some("length") },
    // Each alternative has a usage chunk of its own: 5 and 5.
    Truth { file: "llama-cpp/chat-stream-n2.sse", chunks: 10, first: 2, answer: Some(2), usage: Some((37, 10, Some(36))), finish: Some("length") },
    Truth { file: "llama-cpp/messages-stream.sse", chunks: 6, first: 3, answer: Some(3), usage: Some((31, 6, Some(30))), finish: Some("max_tokens") },
    Truth { file: "llama-cpp/responses-stream.sse", chunks: 6, first: 5, answer: Some(5), usage: Some((31, 6, Some(24))), finish: Some("completed") },
    Truth { file: "llama-cpp/native-completion-stream.sse", chunks: 5, first: 3, answer: Some(3), usage: Some((4, 5, None)), finish: Some("limit") },
    Truth { file: "llama-cpp/chat-stream-ignore_eos.sse", chunks: 30, first: 2, answer: Some(2), usage: Some((37, 30, Some(36))), finish: Some("length") },
    Truth { file: "llama-cpp/chat-stream-include_usage.sse", chunks: 6, first: 2, answer: Some(2), usage: Some((37, 6, Some(36))), finish: Some("length") },
    Truth { file: "llama-cpp/chat-stream-plain.sse", chunks: 6, first: 2, answer: Some(2), usage: None, finish: Some("length") },
    Truth { file: "llama-cpp/chat-stream-reasoning.sse", chunks: 30, first: 2, answer: Some(2), usage: Some((37, 31, Some(36))), finish: Some("stop") },
    Truth { file: "llama-cpp/chat-stream-timings_per_token-return_progress.sse", chunks: 6, first: 4, answer: Some(4), usage: Some((37, 6, Some(36))), finish: Some("length") },
    Truth { file: "llama-cpp/chat-stream-toolcall.sse", chunks: 14, first: 6, answer: Some(6), usage: Some((625, 37, Some(133))), finish: Some("tool_calls") },
    Truth { file: "llama-cpp/completions-stream.sse", chunks: 6, first: 1, answer: Some(1), usage: Some((4, 6, Some(0))), finish: Some("length") },
    Truth { file: "transformers/chat-stream.sse", chunks: 6, first: 2, answer: Some(2), usage: Some((37, 6, None)), finish: Some("length") },
    Truth { file: "transformers/completions-stream.sse", chunks: 6, first: 1, answer: Some(1), usage: Some((4, 6, None)), finish: Some("length") },
    Truth { file: "guidellm-mock/chat-stream.sse", chunks: 6, first: 1, answer: Some(1), usage: Some((12, 6, None)), finish: Some("stop") },
    Truth { file: "guidellm-mock/completions-stream.sse", chunks: 6, first: 1, answer: Some(1), usage: Some((5, 6, None)), finish: Some("stop") },
];

#[test]
fn streams_of_real_engines_are_read_as_they_are() {
    for truth in &STREAMS {
        let captured = captured(truth.file);
        let (record, chunks) = replay(&captured, &events(&captured.body));
        let at = |event: u64| Duration::from_millis(10 * event);
        let file = truth.file;
        assert!(record.ok(), "{file}: {:?}", record.failure);
        assert_eq!(chunks.len(), truth.chunks, "{file}");
        assert_eq!(record.first_token, Some(at(truth.first)), "{file}");
        assert_eq!(record.first_answer, truth.answer.map(at), "{file}");
        assert_eq!(record.last_token, chunks.last().copied(), "{file}");
        assert_eq!(record.finish_reason.as_deref(), truth.finish, "{file}");
        assert_eq!(record.bytes, captured.body.len() as u64);
        match truth.usage {
            Some((input, output, cached)) => {
                assert_eq!(record.input_tokens, Some(input), "{file}");
                assert_eq!(record.output_tokens, Some(output), "{file}");
                assert_eq!(record.cached_tokens, cached, "{file}");
                assert!(!record.output_estimated, "{file}");
            }
            None => {
                assert_eq!(record.input_tokens, None, "{file}");
                assert_eq!(record.output_tokens, Some(truth.chunks as u32), "{file}");
                assert!(record.output_estimated, "{file}");
            }
        }
    }
}

#[test]
fn no_cut_of_a_stream_into_two_reads_changes_what_it_says() {
    for file in [
        "vllm/chat-stream-include_usage.sse",
        "vllm/responses-stream.sse",
        "llama-cpp/chat-stream-n2.sse",
        "llama-cpp/completions-stream.sse",
        "llama-cpp/messages-stream.sse",
        "llama-cpp/native-completion-stream.sse",
        "transformers/completions-stream.sse",
    ] {
        let captured = captured(file);
        let (whole, chunks) = replay(&captured, &[&captured.body]);
        for cut in 1..captured.body.len() {
            let (first, second) = captured.body.split_at(cut);
            let (record, cut_chunks) = replay(&captured, &[first, second]);
            assert_eq!(cut_chunks.len(), chunks.len(), "{file} cut at {cut}");
            assert!(cut_chunks.is_sorted(), "{file} cut at {cut}");
            assert_eq!(
                (
                    record.output_tokens,
                    record.input_tokens,
                    &record.finish_reason,
                    record.ok()
                ),
                (
                    whole.output_tokens,
                    whole.input_tokens,
                    &whole.finish_reason,
                    true
                ),
                "{file} cut at {cut}"
            );
        }
    }
}

#[test]
fn an_engine_that_dies_in_mid_stream_is_a_failure_in_the_stream() {
    let captured = captured("vllm/error-midstream-worker-killed.sse");
    let (record, chunks) = replay(&captured, &events(&captured.body));
    let failure = record.failure.unwrap();
    assert_eq!(failure.class, FailureClass::InStreamError);
    assert!(
        failure.message.contains("EngineCore encountered an issue"),
        "{}",
        failure.message
    );
    assert!(failure.message.contains("500"), "{}", failure.message);
    assert_eq!(chunks.len(), 11, "what came before is kept for diagnosis");
}

#[test]
fn a_refusal_inside_a_200_stream_is_a_failure_though_the_status_is_good() {
    // The socket's bytes, chunk lengths and all.
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/captured/vllm/error-503-inband-after-200.raw");
    let raw = std::fs::read_to_string(path).unwrap();
    let body: String = raw
        .lines()
        .filter(|line| line.starts_with("data: "))
        .map(|line| format!("{line}\n\n"))
        .collect();
    let (record, chunks) = stream(&body);
    let failure = record.failure.unwrap();
    assert_eq!(failure.class, FailureClass::InStreamError);
    assert!(failure.message.contains("currently busy"), "{}", failure.message);
    assert!(failure.message.ends_with("(code 503)"), "{}", failure.message);
    assert_eq!((record.status, chunks.len()), (Some(200), 0));
}

#[test]
fn another_dialect_is_not_taken_for_an_empty_reply() {
    for file in [
        "vllm/responses-stream.sse",
        "llama-cpp/native-completion-stream.sse",
    ] {
        let mut captured = captured(file);
        captured.speaker = chat();
        let (record, _) = replay(&captured, &events(&captured.body));
        assert_eq!(record.failure.unwrap().class, FailureClass::Malformed, "{file}");
    }
}

#[test]
fn replies_that_are_not_streamed_have_counts_and_an_end() {
    for (file, usage, finish) in [
        ("vllm/chat-nonstream.json", (37, 8), "stop"),
        ("vllm/chat-nonstream-toolcall.json", (37, 70), "tool_calls"),
        ("vllm/completions-tokenids-nonstream.json", (6, 6), "length"),
        ("llama-cpp/chat-nonstream.json", (37, 6), "length"),
        ("vllm/chat-nonstream-per_request_metrics.json", (37, 8), "stop"),
        ("vllm/invocations-completions.json", (2, 4), "length"),
        ("llama-cpp/completions-tokenids.json", (4, 4), "length"),
        ("llama-cpp/chat-nonstream-toolcall.json", (37, 60), "length"),
        ("llama-cpp/model-not-checked.json", (37, 2), "length"),
        ("llama-cpp/native-completion.json", (4, 5), "limit"),
    ] {
        let captured = captured(file);
        let (record, chunks) = replay(&captured, &[&captured.body]);
        assert!(record.ok(), "{file}: {:?}", record.failure);
        assert_eq!(
            (record.input_tokens, record.output_tokens),
            (Some(usage.0), Some(usage.1)),
            "{file}"
        );
        assert_eq!(record.finish_reason.as_deref(), Some(finish), "{file}");
        assert_eq!((record.first_token, chunks.len()), (None, 0), "{file}");
        assert_eq!(record.last_token, Some(Duration::from_millis(10)), "{file}");
    }
}

#[test]
fn refusals_keep_their_class_and_message() {
    for (file, class, said) in [
        (
            "vllm/error-503-queue-full.json",
            FailureClass::Throttled,
            "HTTP 503: The engine is currently busy",
        ),
        (
            "vllm/error-bad-param.json",
            FailureClass::HttpStatus,
            "HTTP 400: temperature must be non-negative",
        ),
        (
            "vllm/error-model-not-found.json",
            FailureClass::HttpStatus,
            "The model `nosuch` does not exist",
        ),
        (
            "vllm/error-max_tokens-too-large.json",
            FailureClass::HttpStatus,
            "max_model_len=2048",
        ),
        (
            "vllm/error-context-too-long.json",
            FailureClass::HttpStatus,
            "maximum context length is 2048",
        ),
        (
            "llama-cpp/error-context-too-long.json",
            FailureClass::HttpStatus,
            "exceeds the available context size (2048 tokens)",
        ),
        (
            "llama-cpp/error-bad-request.json",
            FailureClass::HttpStatus,
            "Expected 'messages' to be an array",
        ),
        (
            "llama-cpp/error-no-invocations.json",
            FailureClass::HttpStatus,
            "HTTP 404: File Not Found",
        ),
    ] {
        let captured = captured(file);
        let (record, _) = replay(&captured, &[&captured.body]);
        let failure = record.failure.unwrap();
        assert_eq!(failure.class, class, "{file}");
        assert!(failure.message.contains(said), "{file}: {}", failure.message);
    }
}

fn stream(body: &str) -> (RequestRecord, Vec<Duration>) {
    let captured = Captured {
        status: 200,
        content_type: "text/event-stream".to_owned(),
        body: body.as_bytes().to_vec(),
        speaker: chat(),
        extra: None,
    };
    replay(&captured, &events(&captured.body))
}

#[test]
fn a_full_reply_without_visible_text_is_a_success_without_ttft() {
    let (record, chunks) = stream(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":null}}]}\n\n\
         data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n\
         data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":32}}\n\ndata: [DONE]\n\n",
    );
    assert!(record.ok(), "{:?}", record.failure);
    assert_eq!(
        (record.ttft(), record.output_tokens, chunks.len()),
        (None, Some(32), 0)
    );
    assert_eq!(record.e2e(), Some(Duration::from_millis(40)));
}

#[test]
fn half_a_character_is_a_token_and_a_compressed_reply_says_so() {
    let mut captured = Captured {
        status: 200,
        content_type: "text/event-stream".to_owned(),
        body: b"data: {\"choices\":[{\"delta\":{\"content\":\"\xF0\x9F\"},\"finish_reason\":\"stop\"}]}\n\n\
            data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"
            .to_vec(),
        speaker: chat(),
        extra: None,
    };
    let (record, chunks) = replay(&captured, &events(&captured.body));
    assert!(record.ok(), "{:?}", record.failure);
    assert_eq!((record.output_tokens, chunks.len()), (Some(1), 1));
    captured.extra = Some(("content-encoding", "gzip"));
    let (record, _) = replay(&captured, &[b"\x1F\x8B\x08"]);
    let failure = record.failure.unwrap();
    assert_eq!(failure.class, FailureClass::Malformed);
    assert!(
        failure.message.contains("content-encoding: gzip"),
        "{}",
        failure.message
    );
}

#[test]
fn what_is_not_json_is_malformed_and_half_an_event_is_a_cut() {
    let token = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let (record, _) = stream(&format!("{token}data: oops\n\ndata: [DONE]\n\n"));
    let failure = record.failure.unwrap();
    assert_eq!(failure.class, FailureClass::Malformed);
    assert!(failure.message.contains("oops"));
    let (record, chunks) = stream(&format!("{token}data: {{\"choices\":[{{\"del"));
    assert_eq!(record.failure.unwrap().class, FailureClass::TruncatedStream);
    assert_eq!(chunks.len(), 1);
    // What comes after the end of a stream is nobody's business.
    let (record, _) = stream(&format!(
        "{token}data: {{\"choices\":[{{\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\ndata: oops\n\n"
    ));
    assert!(record.ok());
    // llama.cpp of old had a field of its own for errors.
    let (record, _) = stream("error: {\"code\":500,\"message\":\"gone\"}\n\n");
    assert_eq!(record.failure.unwrap().message, "gone (code 500)");
}
