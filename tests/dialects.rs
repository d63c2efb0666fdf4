//! Every dialect through the real binary: servers of the shapes of Ollama, Text Generation Inference, SageMaker, the
//! responses and the messages API, found by asking, timed against their script, streamed and not.

#![expect(clippy::unwrap_used, reason = "a test fails where its helpers do")]

mod harness;

use std::time::Duration;

use harness::{Finished, Folder, number, text};
use plimsoll_scripted::{Fault, Script, Scripted, Shape, When};
use serde_json::Value;

const TTFT_MS: f64 = 60.0;
const ITL_MS: f64 = 10.0;
const REPLY: u32 = 8;

/// Keys for a server that wants signed requests; it does not check them.
const KEYS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
    ("AWS_SECRET_ACCESS_KEY", "a-secret-key"),
    ("AWS_REGION", "us-west-2"),
];

fn script(shape: Shape) -> Script {
    let ms = Duration::from_millis;
    Script::default()
        .shape(shape)
        .ttft(ms(60))
        .itl(ms(10))
        .keep_requests(64)
}

fn sweep(folder: &Folder, url: &str, more: &[&str]) -> Finished {
    let mut all = vec!["sweep", url, "--json"];
    all.extend("--levels 4 --input-tokens 32 --output-tokens 8 --warmup 300ms --rung-time 2s".split(' '));
    all.extend(more);
    folder.plimsoll_with(&KEYS, &all)
}

/// The rung's lengths and times are those of the script, and nothing failed.
fn is_as_scripted(run: &Value, streamed: bool) {
    let rung = &run["rungs"][0];
    assert_eq!(number(rung, "/requests/failed"), 0.0, "{rung:#}");
    assert!(number(rung, "/requests/ok") >= 20.0, "{rung:#}");
    assert_eq!(
        number(rung, "/lengths/output/actual"),
        f64::from(REPLY),
        "{rung:#}"
    );
    assert_eq!(rung["lengths"]["output_estimated"], false, "{rung:#}");
    let asked = number(rung, "/lengths/input/asked");
    assert!(
        (number(rung, "/lengths/input/actual") / asked - 1.0).abs() <= 0.05,
        "{rung:#}"
    );
    let e2e = number(rung, "/latency/e2e_ms/p50");
    let scripted = TTFT_MS + ITL_MS * f64::from(REPLY - 1);
    // A busy machine is late by some milliseconds, never early; the timer of the script is 1 ms coarse.
    assert!(
        (scripted - 2.0..scripted + 60.0).contains(&e2e),
        "E2E {e2e}, scripted {scripted}"
    );
    if streamed {
        let ttft = number(rung, "/latency/ttft_ms/p50");
        assert!((TTFT_MS - 2.0..TTFT_MS + 40.0).contains(&ttft), "TTFT {ttft}");
        let tpot = number(rung, "/latency/tpot_ms/p50");
        assert!((ITL_MS - 1.0..ITL_MS + 5.0).contains(&tpot), "TPOT {tpot}");
    } else {
        assert!(rung["latency"]["ttft_ms"].is_null(), "{rung:#}");
    }
}

/// Both ways of asking, and what is made of streams that break.
fn speaks(shape: Shape, path: &str, dialect: &str, route: &str) {
    let folder = Folder::new();
    let server = Scripted::start(script(shape)).unwrap();
    let url = format!("{}{path}", server.url());
    let run = sweep(&folder, &url, &[]).expect_code(0).json();
    assert_eq!(text(&run, "/target/dialect"), dialect);
    is_as_scripted(&run, true);
    let asked = |server: &Scripted| server.seen().last.last().map(|request| request.path.clone());
    assert_eq!(asked(&server).as_deref(), Some(route));

    let whole = Scripted::start(script(shape)).unwrap();
    let url = format!("{}{path}", whole.url());
    let run = sweep(&folder, &url, &["--no-stream"]).expect_code(0).json();
    assert_eq!(text(&run, "/target/dialect"), dialect);
    is_as_scripted(&run, false);

    // The first forty requests are left alone: those that find out what the server is are among them.
    let broken =
        Scripted::start(script(shape).fault(When::After(40), Fault::StreamError { after_tokens: 2 }))
            .unwrap();
    let url = format!("{}{path}", broken.url());
    let run = sweep(&folder, &url, &["--max-time", "20s"]).json();
    let rung = &run["rungs"][0];
    assert!(
        number(rung, "/requests/by_class/in-stream-error") >= 1.0,
        "{rung:#}"
    );
    let sample = text(rung, "/requests/samples/in-stream-error");
    assert!(sample.contains("scripted error inside the stream"), "{rung:#}");
}

#[test]
fn ollama() {
    speaks(Shape::Ollama, "", "ollama", "/api/chat");
}

#[test]
fn text_generation_inference() {
    speaks(Shape::Tgi, "", "tgi", "/generate_stream");
}

#[test]
fn responses() {
    speaks(Shape::Responses, "", "openai-responses", "/v1/responses");
}

#[test]
fn messages() {
    speaks(Shape::Messages, "", "anthropic-messages", "/v1/messages");
}

#[test]
fn sagemaker() {
    speaks(
        Shape::Sagemaker,
        "/endpoints/an-endpoint/invocations",
        "sagemaker",
        "/endpoints/an-endpoint/invocations-response-stream",
    );
}

#[test]
fn sagemaker_without_keys_is_a_clear_error_and_no_key_is_kept() {
    let server = Scripted::start(script(Shape::Sagemaker)).unwrap();
    let url = format!("{}/endpoints/an-endpoint/invocations", server.url());
    let folder = Folder::new();
    let unset = KEYS.map(|(name, _)| (name, ""));
    let finished = folder
        .plimsoll_with(&unset, &["sweep", &url, "--levels", "1", "--json"])
        .expect_code(2);
    assert!(finished.stderr.contains("AWS_ACCESS_KEY_ID"), "{finished:#?}");
    assert_eq!(server.seen().requests, 0);

    let finished = sweep(&folder, &url, &[]).expect_code(0);
    for (_, bytes) in folder.files() {
        assert!(!String::from_utf8_lossy(&bytes).contains("a-secret-key"));
    }
    assert!(!finished.stderr.contains("a-secret-key") && !finished.stdout.contains("a-secret-key"));
}

#[test]
fn a_body_of_the_users_own_with_pointers_to_text_and_counts() {
    let server = Scripted::start(script(Shape::OpenAi)).unwrap();
    let url = format!("{}/v1/completions", server.url());
    let own = [
        "--dialect",
        "custom",
        "--custom",
        r#"body={"model": "m", "prompt": "{prompt}", "max_tokens": "{output_tokens}", "stream": "{stream}", "stream_options": {"include_usage": true}}"#,
        "--custom",
        "text=/choices/0/text",
        "--custom",
        "input-tokens=/usage/prompt_tokens",
        "--custom",
        "output-tokens=/usage/completion_tokens",
        "--custom",
        "finish=/choices/0/finish_reason",
    ];
    let folder = Folder::new();
    let run = sweep(&folder, &url, &own).expect_code(0).json();
    assert_eq!(text(&run, "/target/dialect"), "custom");
    is_as_scripted(&run, true);
    let bodies = server.seen().last;
    let body = &bodies.last().unwrap().body;
    assert_eq!(
        (&body["max_tokens"], &body["stream"]),
        (&8.into(), &true.into()),
        "{body}"
    );
}
