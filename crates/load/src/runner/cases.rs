//! Streams that other clients got wrong, sent by the scripted server and measured by the runner.

use std::path::Path;
use std::time::Duration;

use plimsoll_run::request::{FailureClass, RequestRecord};
use plimsoll_run::runner::{Rung, RungLimits, Runner, Watch};
use plimsoll_run::workload::{TokenLength, Workload};
use plimsoll_scripted::{Cases, Script, Scripted};

use super::HttpRunner;
use crate::endpoint::resolve;
use crate::options::TargetOptions;
use crate::prepare::{Prepared, prepare};

fn workload() -> Workload {
    Workload {
        input_tokens: TokenLength::fixed(7),
        output_tokens: TokenLength::fixed(3),
        streaming: true,
        ..Workload::default()
    }
}

/// The first request of a rung of one user against this case.
fn first(ready: &Prepared, server: &Scripted, case: &str) -> (RequestRecord, Vec<u32>) {
    let mut ready = ready.clone();
    // Preparation refuses most of these endpoints, so it was done against the one that is well.
    ready.line.endpoint = resolve(
        &format!("{}/{case}/v1/chat/completions", server.url()),
        None,
        None,
    )
    .unwrap();
    let rung = Rung {
        level: 1,
        order: 1,
        expected_response: None,
        samples_wanted: 1,
        limits: RungLimits {
            requests: Some(1),
            warmup: Some(Duration::ZERO),
            cap: Duration::from_secs(5),
            drain: Duration::from_secs(5),
            ..RungLimits::default()
        },
    };
    let evidence = HttpRunner::new(ready, workload(), 1)
        .unwrap()
        .measure(&rung, &Watch::new())
        .unwrap();
    let at = evidence.requests.iter().position(|r| r.index == 0).unwrap();
    (evidence.requests[at].clone(), evidence.chunks.of(at).to_vec())
}

fn server_and_target() -> (Scripted, Prepared) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cases.json");
    target_of(Cases::from_file(path).unwrap())
}

/// A server of these cases, and the target that its case `baseline` is.
fn target_of(cases: Cases) -> (Scripted, Prepared) {
    let server = Scripted::start(Script::default().cases(cases)).unwrap();
    let options = TargetOptions {
        url: format!("{}/baseline", server.url()),
        ..TargetOptions::default()
    };
    let ready = prepare(&options, &workload(), 1).unwrap();
    (server, ready)
}

#[test]
fn good_streams_are_read_whatever_their_spelling() {
    let (server, ready) = server_and_target();
    // Case, least TTFT, token-bearing chunks, least time from the first of them to the last.
    for (case, ttft, chunks, decode) in [
        ("baseline", 60, 3, 40),
        ("nospace", 60, 3, 40),
        ("crlf", 60, 3, 40),
        ("comments", 260, 3, 40),
        ("two_in_one", 60, 3, 20),
        ("split_json", 80, 3, 20),
        ("utf8_split", 80, 3, 0),
        ("usage_null", 60, 2, 20),
        ("reasoning_content", 60, 3, 40),
        ("reasoning_only", 60, 2, 20),
    ] {
        let (record, times) = first(&ready, &server, case);
        assert!(record.ok(), "{case}: {:?}", record.failure);
        assert_eq!(
            (record.input_tokens, record.output_tokens),
            (Some(7), Some(3)),
            "{case}"
        );
        assert_eq!(times.len(), chunks, "{case}");
        assert!(times.is_sorted(), "{case}");
        assert_eq!(record.finish_reason.as_deref(), Some("stop"), "{case}");
        let seen = record.ttft().unwrap().as_millis();
        assert!(seen >= ttft - 1 && seen < ttft + 60, "{case}: TTFT {seen} ms");
        let seen = (times[chunks - 1] - times[0]) / 1000;
        assert!(
            seen + 1 >= decode && seen < decode + 60,
            "{case}: {seen} ms of decoding"
        );
        let answered = record.ttfat().map(|at| at.as_millis());
        match case {
            "reasoning_only" => assert_eq!(answered, None),
            "reasoning_content" => assert!(answered.unwrap() >= ttft + 39, "{answered:?}"),
            _ => assert_eq!(record.first_answer, record.first_token, "{case}"),
        }
    }
}

#[test]
fn bad_streams_are_failures_of_their_own_class() {
    let (server, ready) = server_and_target();
    for (case, class, said) in [
        (
            "err_in_200",
            FailureClass::InStreamError,
            "quota exceeded (code 429)",
        ),
        ("empty_200", FailureClass::EmptyResponse, "no token"),
        ("eof_no_done", FailureClass::TruncatedStream, "after 2 chunks"),
    ] {
        let (record, _) = first(&ready, &server, case);
        let failure = record.failure.unwrap();
        assert_eq!(failure.class, class, "{case}");
        assert!(failure.message.contains(said), "{case}: {}", failure.message);
    }
}

#[test]
fn a_connection_held_open_after_the_last_word_does_not_hang_the_slot() {
    let event = |json: &str| {
        format!(
            r#"["s", {}]"#,
            serde_json::Value::from(format!("data: {json}\n\n"))
        )
    };
    let token = event(r#"{"choices":[{"delta":{"content":"x"},"finish_reason":null}]}"#);
    let finish = event(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#);
    let usage = event(r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#);
    let (done, hold) = (event("[DONE]"), r#"["ms", 20000]"#);
    let cases = format!(
        r#"{{"baseline": {{"ops": [{token}, {finish}, {usage}, {done}]}},
             "done": {{"ops": [{token}, {finish}, {usage}, {done}, {hold}]}},
             "counted": {{"ops": [{token}, {finish}, {usage}, {hold}]}},
             "cut": {{"ops": [{token}, {finish}, {usage}, ["rst"]]}}}}"#
    );
    let (server, ready) = target_of(Cases::from_json(&cases).unwrap());
    for case in ["done", "counted", "cut"] {
        let (record, _) = first(&ready, &server, case);
        assert!(record.ok(), "{case}: {:?}", record.failure);
        assert_eq!(record.output_tokens, Some(1), "{case}");
        let took = record.ended - record.sent;
        assert!(took < Duration::from_secs(2), "{case}: {took:?}");
        assert!(
            record.e2e().unwrap() < Duration::from_millis(200),
            "{case}: waiting is not latency"
        );
    }
}
