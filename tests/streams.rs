//! Thirteen byte streams that real servers have sent, replayed to the real binary at four concurrent requests: each
//! from a public report, named beside the fixture. Equal prompts (case 21) are in `workloads/`.

#![expect(clippy::unwrap_used, reason = "a test fails where its helpers do")]

mod harness;

use std::path::Path;
use std::time::Duration;

use harness::{Finished, Folder, number};
use plimsoll_scripted::{Cases, Script, Scripted};

fn sweep(name: &str) -> Finished {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams/streams.json");
    let server = Scripted::start(Script::default().cases(Cases::from_file(file).unwrap())).unwrap();
    let url = format!("{}/{name}/v1/chat/completions", server.url());
    at_four(&url, "3")
}

fn at_four(url: &str, output: &str) -> Finished {
    let arguments = "--levels 4 --input-tokens 32 --warmup 500ms --rung-time 2s --json --output-tokens";
    let mut all = vec!["sweep", url];
    all.extend(arguments.split(' '));
    all.push(output);
    Folder::new().plimsoll(&all)
}

/// A stream that is a success of 7 prompt and 3 reply tokens.
struct Truth {
    name: &'static str,
    /// Chunks that bear text.
    chunks: f64,
    /// By the pauses of the stream, and 3 ms after each write.
    ttft_ms: f64,
    /// Where the answer begins later than the first token.
    answer_ms: Option<f64>,
}

fn reads(truth: &Truth) {
    let run = sweep(truth.name).json();
    let rung = &run["rungs"][0];
    let name = truth.name;
    assert_eq!(number(rung, "/concurrency"), 4.0, "{name}");
    assert_eq!(number(rung, "/requests/failed"), 0.0, "{name}: {rung:#}");
    assert!(number(rung, "/requests/ok") >= 8.0, "{name}: {rung:#}");
    assert_eq!(number(rung, "/lengths/output/actual"), 3.0, "{name}");
    assert_eq!(number(rung, "/lengths/input/actual"), 7.0, "{name}");
    assert_eq!(rung["lengths"]["output_estimated"], false, "{name}");
    assert_eq!(rung["requests"]["without_ttft"], 0, "{name}");
    let ttft = number(rung, "/latency/ttft_ms/p50");
    // Nothing is before the first token; a busy machine is up to 60 ms late.
    assert!(
        (truth.ttft_ms - 5.0..truth.ttft_ms + 60.0).contains(&ttft),
        "{name}: TTFT {ttft} ms, by the stream {} ms",
        truth.ttft_ms
    );
    // Gaps of replies at the window's edges are not all inside it.
    let gaps = number(rung, "/latency/itl_ms/n") / number(rung, "/latency/ttft_ms/n");
    assert!(
        (gaps - (truth.chunks - 1.0)).abs() < 0.5,
        "{name}: {gaps} gaps a reply of {} chunks",
        truth.chunks
    );
    assert!(number(rung, "/latency/itl_ms/mean") >= 0.0, "{name}");
    if let Some(answer) = truth.answer_ms {
        let ttfat = number(rung, "/latency/ttfat_ms/p50");
        assert!(
            (answer - 5.0..answer + 80.0).contains(&ttfat),
            "{name}: first answer token {ttfat} ms, by the stream {answer} ms"
        );
    }
}

/// A stream that is no reply: every request fails in that class, and nothing of it enters a latency.
fn fails(name: &str, class: &str, said: &str) {
    let finished = sweep(name).expect_code(5);
    let run = finished.json();
    let rung = &run["rungs"][0];
    assert_eq!(number(rung, "/concurrency"), 4.0, "{name}");
    assert_eq!(number(rung, "/requests/ok"), 0.0, "{name}: {rung:#}");
    let failed = number(rung, "/requests/failed");
    assert!(failed >= 4.0, "{name}: {rung:#}");
    assert_eq!(
        number(rung, &format!("/requests/by_class/{class}")),
        failed,
        "{name}: {rung:#}"
    );
    assert!(rung["latency"]["ttft_ms"]["p50"].is_null(), "{name}: {rung:#}");
    assert!(finished.stderr.contains(said), "{name}: {}", finished.stderr);
}

macro_rules! streams {
    ($($test:ident: $name:literal, $chunks:literal chunks, $ttft:literal ms, $answer:expr;)*) => {$(
        #[test]
        fn $test() {
            reads(&Truth { name: $name, chunks: $chunks, ttft_ms: $ttft, answer_ms: $answer });
        }
    )*};
}

streams! {
    case_01_a_first_chunk_with_a_role_only_is_no_token: "baseline", 3.0 chunks, 63.0 ms, None;
    case_02_usage_is_read_from_a_chunk_without_choices: "usage_null", 2.0 chunks, 63.0 ms, None;
    case_04_reasoning_is_generated_text: "reasoning_content", 3.0 chunks, 63.0 ms, Some(109.0);
    case_04_reasoning_without_an_answer_is_a_success: "reasoning_only", 2.0 chunks, 63.0 ms, None;
    case_05_data_without_a_space: "nospace", 3.0 chunks, 63.0 ms, None;
    case_06_json_split_between_reads: "split_json", 3.0 chunks, 86.0 ms, None;
    case_06_two_events_in_one_read: "two_in_one", 3.0 chunks, 63.0 ms, None;
    case_08_comments_are_no_events: "comments", 3.0 chunks, 269.0 ms, None;
    case_09_crlf_ends_lines: "crlf", 3.0 chunks, 63.0 ms, None;
    case_10_a_character_split_between_reads: "utf8_split", 3.0 chunks, 86.0 ms, None;
}

#[test]
fn case_11_an_error_inside_a_200_stream_is_a_failure() {
    fails("err_in_200", "in-stream-error", "quota exceeded (code 429)");
}

#[test]
fn case_12_a_clean_end_without_finish_reason_is_a_truncated_stream() {
    fails(
        "eof_no_done",
        "truncated-stream",
        "neither a finish reason nor [DONE]",
    );
}

#[test]
fn case_13_a_reply_of_no_token_is_a_failure() {
    fails("empty_200", "empty-response", "100 % errors");
}

/// Case 3: four tokens an event, 14 ms apart.
#[test]
fn case_03_several_tokens_in_a_chunk_are_several_tokens() {
    let script = Script::default()
        .tokens_per_chunk(4)
        .ttft(Duration::from_millis(30))
        .itl(Duration::from_millis(14));
    let server = Scripted::start(script).unwrap();
    let run = at_four(&server.url(), "80").json();
    let rung = &run["rungs"][0];
    assert_eq!(number(rung, "/lengths/output/actual"), 80.0);
    let (itl, tpot) = (
        number(rung, "/latency/itl_ms/p50"),
        number(rung, "/latency/tpot_ms/p50"),
    );
    let decode = number(rung, "/latency/e2e_ms/p50") - number(rung, "/latency/ttft_ms/p50");
    // TPOT is decode time by the server's count; the gap is between chunks.
    assert!(
        (tpot * 79.0 / decode - 1.0).abs() < 0.02,
        "{tpot} ms a token, {decode} ms"
    );
    assert!(
        (3.5..4.5).contains(&(itl / tpot)),
        "{itl} ms a chunk, {tpot} ms a token"
    );
}
