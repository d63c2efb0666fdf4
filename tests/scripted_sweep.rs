//! Whole sweeps against a server whose truth is scripted.

#![expect(clippy::unwrap_used, reason = "a test fails where its helpers do")]

mod harness;

use std::time::Duration;

use harness::{Folder, number, text, wait_until};
use plimsoll_scripted::{Fault, Script, Scripted, When};
use serde_json::Value;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// First token after 50 ms, then 15 gaps of 10 ms: a response takes 200 ms, and four are served at once.
fn four_slots() -> Script {
    Script::default()
        .ttft(ms(50))
        .itl(ms(10))
        .slots(4)
        .prompt_tokens(1.3, 23)
}

const SMALL: [&str; 6] = [
    "--input-tokens",
    "64",
    "--output-tokens",
    "16",
    "--warmup",
    "500ms",
];

fn sweep<'a>(url: &'a str, extra: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["sweep", url];
    arguments.extend(SMALL);
    arguments.extend(extra);
    arguments
}

fn rung(run: &Value, level: u64) -> &Value {
    run["rungs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|rung| rung["concurrency"] == level)
        .unwrap()
}

#[test]
fn the_numbers_are_those_of_the_script() {
    let server = Scripted::start(four_slots()).unwrap();
    let folder = Folder::new();
    let url = server.url();
    let finished = folder
        .plimsoll(&sweep(
            &url,
            &[
                "--levels",
                "1,4,16",
                "--rung-time",
                "3s",
                "--sla",
                "ttft.p95<=200ms",
                "--peak",
                "50rps",
                "--json",
            ],
        ))
        .expect_code(0);
    let run = finished.json();
    assert_eq!(run, folder.run_json(), "--json prints run.json");
    assert_eq!(text(&run, "/schema"), "plimsoll.run/1");
    assert_eq!(text(&run, "/status"), "complete");
    assert_eq!(text(&run, "/target/url"), format!("{url}/v1/chat/completions"));
    assert_eq!(text(&run, "/target/model"), "m");

    let one = rung(&run, 1);
    // 5 requests/s of 16 tokens, by the script; a busy machine may only be slower.
    let rate = number(one, "/throughput/requests_per_s");
    assert!((3.5..=5.1).contains(&rate), "{one:#}");
    let ttft = number(one, "/latency/ttft_ms/p50");
    assert!(
        (49.0..75.0).contains(&ttft),
        "the role chunk comes at once and is not a token: {one:#}"
    );
    let tpot = number(one, "/latency/tpot_ms/p50");
    assert!((9.5..14.0).contains(&tpot), "{one:#}");
    assert_eq!(number(one, "/lengths/output/actual"), 16.0);
    let input = number(one, "/lengths/input/actual");
    assert!(
        (input / 64.0 - 1.0).abs() <= 0.05,
        "prompts of {input} tokens, 64 asked"
    );

    // Four slots: level 16 is no faster than level 4, and its requests wait.
    let (four, sixteen) = (rung(&run, 4), rung(&run, 16));
    let ratio = number(sixteen, "/throughput/requests_per_s") / number(four, "/throughput/requests_per_s");
    assert!((0.8..1.2).contains(&ratio), "{ratio}");
    assert!(number(sixteen, "/latency/ttft_ms/p50") > 400.0, "{sixteen:#}");
    for (rung, level) in [(one, 1.0), (four, 4.0), (sixteen, 16.0)] {
        assert!(
            (number(rung, "/in_flight/mean") / level - 1.0).abs() < 0.05,
            "{rung:#}"
        );
        assert!(number(rung, "/in_flight/max") <= level, "{rung:#}");
    }
    assert_eq!(
        server.seen().max_in_flight,
        16,
        "never more in flight than the level"
    );
    assert_eq!(
        server.seen().repeated_first_blocks,
        0,
        "every prompt is new from its first block on"
    );

    assert_eq!(number(&run, "/plan/limit/concurrency"), 4.0);
    assert_eq!(number(&run, "/plan/limit/interval/1"), 16.0);
    assert_eq!(text(&run, "/plan/limit/status"), "crossed");
    assert!(text(&run, "/plan/limit/binding").starts_with("ttft.p95"));
    assert_eq!(number(&run, "/plan/best/concurrency"), 4.0);
    // 20 requests/s from four slots, of which Poisson arrivals may use a part: more than 50 / 20.
    assert!(number(&run, "/plan/instances/count") >= 3.0);

    let directory = folder.run_directory();
    for file in [
        "report.html",
        "rungs/01-c0001/requests.parquet",
        "rungs/03-c0016/timeline.csv",
        "rungs/02-c0004/itl.hdr",
    ] {
        assert!(directory.join(file).exists(), "{file}");
    }
}

#[test]
fn a_saved_run_answers_other_questions_and_takes_other_shapes() {
    let server = Scripted::start(four_slots()).unwrap();
    let folder = Folder::new();
    let url = server.url();
    folder
        .plimsoll(&sweep(
            &url,
            &[
                "--levels",
                "2,4,16",
                "--rung-time",
                "2s",
                "--sla",
                "ttft.p95<=200ms",
            ],
        ))
        .expect_code(0);
    let requests = server.seen().requests;
    let path = folder.run_directory();
    let path = path.to_str().unwrap();
    let before = std::fs::read(folder.run_directory().join("run.json")).unwrap();

    let easy = folder
        .plimsoll(&[
            "plan",
            path,
            "--sla",
            "ttft.p95<=60s",
            "--peak",
            "10rps",
            "--price",
            "4.2",
            "--json",
        ])
        .expect_code(0)
        .json();
    assert_eq!(number(&easy, "/plan/limit/concurrency"), 16.0);
    assert_eq!(text(&easy, "/plan/limit/status"), "not_reached");
    assert!(number(&easy, "/plan/instances/count") >= 1.0);
    assert!(number(&easy, "/plan/cost/fleet_per_hour") >= 4.2);
    let hard = folder
        .plimsoll(&["plan", path, "--sla", "ttft.p95<=1ms"])
        .expect_code(3);
    assert!(!hard.stdout.is_empty());
    assert_eq!(server.seen().requests, requests, "plan sends nothing");
    assert_eq!(
        std::fs::read(folder.run_directory().join("run.json")).unwrap(),
        before,
        "plan changes nothing"
    );

    let csv = folder
        .plimsoll(&["report", path, "--format", "csv"])
        .expect_code(0)
        .stdout;
    assert!(
        csv.starts_with(
            "concurrency,throughput_tok_s,req_s,ttft_p50_ms,ttft_p95_ms,ttft_p99_ms,itl_mean_ms,"
        )
    );
    assert_eq!(csv.lines().count(), 4);
    let markdown = folder
        .plimsoll(&["report", path, "--format", "markdown"])
        .expect_code(0)
        .stdout;
    assert!(markdown.contains("| "), "{markdown}");
    let json = folder
        .plimsoll(&["report", path, "--format", "json"])
        .expect_code(0)
        .json();
    assert_eq!(json, folder.run_json());
    let html = folder
        .plimsoll(&["report", path, "--format", "html"])
        .expect_code(0)
        .stdout;
    assert!(html.contains("</html>"));
    folder.plimsoll(&["report", "no-such-run"]).expect_code(2);
}

#[test]
fn no_level_within_the_sla_is_exit_3() {
    let server = Scripted::start(four_slots()).unwrap();
    let url = server.url();
    let finished = Folder::new()
        .plimsoll(&sweep(
            &url,
            &[
                "--levels",
                "2,4",
                "--rung-time",
                "1s",
                "--sla",
                "ttft.p95<=20ms",
                "--json",
            ],
        ))
        .expect_code(3);
    let run = finished.json();
    assert_eq!(text(&run, "/plan/limit/status"), "never_met");
    assert_eq!(run["plan"]["limit"]["concurrency"], Value::Null);
    assert_eq!(run["plan"]["best"], Value::Null);
}

#[test]
fn replies_that_are_not_streamed_have_e2e_only() {
    let server = Scripted::start(four_slots()).unwrap();
    let url = format!("{}/v1/completions", server.url());
    let run = Folder::new()
        .plimsoll(&sweep(
            &url,
            &[
                "--no-stream",
                "--levels",
                "1,4",
                "--rung-time",
                "2s",
                "--sla",
                "e2e.p95<=2s",
                "--json",
            ],
        ))
        .expect_code(0)
        .json();
    assert_eq!(text(&run, "/target/dialect"), "openai-completions");
    let one = rung(&run, 1);
    assert_eq!(one["latency"]["ttft_ms"], Value::Null);
    assert_eq!(one["latency"]["tpot_ms"], Value::Null);
    assert!(
        (195.0..300.0).contains(&number(one, "/latency/e2e_ms/p50")),
        "{one:#}"
    );
    assert!(
        (50.0..=81.0).contains(&number(one, "/throughput/output_tokens_per_s")),
        "{one:#}"
    );
}

#[test]
fn https_works_with_its_authority_named() {
    let server = Scripted::start(four_slots().tls()).unwrap();
    let folder = Folder::new();
    std::fs::write(folder.path().join("ca.pem"), server.ca_pem().unwrap()).unwrap();
    let url = server.url();
    let run = folder
        .plimsoll(&sweep(
            &url,
            &[
                "--ca-file",
                "ca.pem",
                "--levels",
                "2,4",
                "--rung-time",
                "1s",
                "--json",
            ],
        ))
        .expect_code(0)
        .json();
    assert_eq!(number(rung(&run, 4), "/requests/failed"), 0.0);
}

#[test]
fn failures_are_counted_and_count_against_the_sla() {
    let server =
        Scripted::start(four_slots().fault(When::Every(5), Fault::Truncated { after_tokens: 2 })).unwrap();
    let url = server.url();
    let finished = Folder::new().plimsoll(&sweep(
        &url,
        &[
            "--levels",
            "2",
            "--rung-time",
            "3s",
            "--sla",
            "ttft.p95<=5s",
            "--sla",
            "error_rate<=0.5",
            "--json",
        ],
    ));
    let run = finished.json();
    let rung = rung(&run, 2);
    let failed = number(rung, "/requests/failed");
    assert!(failed >= 1.0, "{rung:#}");
    assert_eq!(
        number(rung, "/requests/by_class/truncated-stream"),
        failed,
        "{rung:#}"
    );
    assert_eq!(
        rung["sla"][0]["pass"], false,
        "a fifth failed, so the 95th percentile lies among them: {rung:#}"
    );
    assert_ne!(finished.code, 0, "more than a tenth failed");
}

#[test]
fn credentials_stand_in_no_file_and_no_output() {
    let server = Scripted::start(four_slots().api_key("sk-secret-1")).unwrap();
    let folder = Folder::new();
    let url = server.url().replace("http://", "http://user:sk-secret-2@");
    let finished = folder
        .plimsoll_with(
            &[("PLIMSOLL_TEST_KEY", "sk-secret-1")],
            &sweep(
                &url,
                &[
                    "--api-key-env",
                    "PLIMSOLL_TEST_KEY",
                    "-H",
                    "X-Key: sk-secret-3",
                    "--levels",
                    "2",
                    "--rung-time",
                    "1s",
                ],
            ),
        )
        .expect_code(0);
    for secret in ["sk-secret-1", "sk-secret-2", "sk-secret-3"] {
        assert!(
            !finished.stdout.contains(secret) && !finished.stderr.contains(secret),
            "{secret} was printed"
        );
        for (path, bytes) in folder.files() {
            let found = bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} stands in {}", path.display());
        }
    }
}

#[test]
fn an_interrupt_keeps_the_finished_rungs() {
    let server = Scripted::start(four_slots()).unwrap();
    let folder = Folder::new();
    let url = server.url();
    let running = folder.start(&sweep(&url, &["--levels", "1,2,4,8", "--rung-time", "1500ms"]));
    // Level 4 is the third rung: once four are in flight it runs.
    wait_until("the third rung", || server.seen().max_in_flight >= 4);
    running.interrupt();
    let finished = running.finish().expect_code(130);
    assert!(finished.took < Duration::from_secs(40), "{finished:#?}");
    let run = folder.run_json();
    assert_eq!(text(&run, "/status"), "interrupted");
    assert_eq!(run["rungs"].as_array().unwrap().len(), 2, "{run:#}");
    assert!(
        run["plan"]["best"].is_object(),
        "what was measured is answered from: {run:#}"
    );
    assert!(folder.run_directory().join("report.html").exists());
    wait_until("the requests in flight to end", || server.seen().in_flight == 0);
}

#[test]
fn a_second_interrupt_ends_at_once_with_the_files_whole() {
    // No reply ends within the drain.
    let server = Scripted::start(
        Script::default()
            .ttft(ms(20))
            .itl(ms(2000))
            .prompt_tokens(1.0, 5)
            .tokens(16),
    )
    .unwrap();
    let folder = Folder::new();
    let url = server.url();
    let running = folder.start(&[
        "sweep",
        &url,
        "--input-tokens",
        "16",
        "--output-tokens",
        "4",
        "--levels",
        "2",
        "--rung-time",
        "60s",
    ]);
    wait_until("the first rung", || server.seen().max_in_flight >= 2);
    running.interrupt();
    std::thread::sleep(ms(300));
    running.interrupt();
    running.finish().expect_code(130);
    assert_eq!(text(&folder.run_json(), "/status"), "interrupted");
}

#[test]
fn every_level_refused_is_exit_5() {
    // Ready when asked once, refusing all that comes after: the calibration takes fewer than 20 requests.
    let server = Scripted::start(four_slots().fault(When::After(40), Fault::Status(500))).unwrap();
    let url = server.url();
    let finished = Folder::new()
        .plimsoll(&sweep(&url, &["--levels", "4", "--rung-time", "30s", "--json"]))
        .expect_code(5);
    let run = finished.json();
    assert_eq!(text(&run, "/rungs/0/validity/verdict"), "errors");
    assert!(number(&run, "/rungs/0/requests/by_class/http-status") > 0.0);
    assert_eq!(run["plan"]["best"], Value::Null);
}

#[test]
fn a_resumed_run_asks_for_what_is_missing_and_no_more() {
    let server = Scripted::start(four_slots()).unwrap();
    let folder = Folder::new();
    let url = server.url();
    let running = folder.start(&sweep(
        &url,
        &[
            "--levels",
            "1,2,4,8",
            "--rung-time",
            "1500ms",
            "--sla",
            "ttft.p95<=200ms",
        ],
    ));
    wait_until("the third rung", || server.seen().max_in_flight >= 4);
    running.interrupt();
    running.finish().expect_code(130);
    let before = folder.run_json();
    assert_eq!(before["rungs"].as_array().unwrap().len(), 2);

    let path = folder.run_directory();
    let run = folder
        .plimsoll(&["resume", path.to_str().unwrap(), "--json"])
        .expect_code(0)
        .json();
    assert_eq!(run, folder.run_json());
    assert_eq!(text(&run, "/status"), "complete");
    let levels: Vec<u64> = run["rungs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rung| rung["concurrency"].as_u64().unwrap())
        .collect();
    assert_eq!(levels, [1, 2, 4, 8]);
    assert_eq!(
        run["rungs"][1], before["rungs"][1],
        "a finished rung stays as it was"
    );
    assert_eq!(number(&run, "/plan/limit/concurrency"), 4.0);
    assert_eq!(
        server.seen().repeated_first_blocks,
        0,
        "the third rung got new prompts"
    );

    let again = folder
        .plimsoll(&["resume", path.to_str().unwrap(), "--json"])
        .expect_code(0)
        .json();
    assert_eq!(again["rungs"], run["rungs"], "nothing is missing any more");
}
