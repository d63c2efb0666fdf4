//! A sweep of a real llama.cpp server with 16 slots: throughput is flat from four users on, and TTFT breaks above
//! the slots, where requests wait for one.
//!
//! Then every other route it has: the same lengths, counts and outcome by each dialect.
//!
//! Runs where `PLIMSOLL_LLAMA_CPP` names the script that starts the engine (`engines/llama-cpp.sh`), as `.ci/run`
//! does; elsewhere it says that it was skipped.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its engine cannot be started"
)]

mod harness;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use harness::{Folder, number, text};
use plimsoll_scripted::closed_port;
use serde_json::Value;

/// Two engines at once would slow each other down.
static ONE: Mutex<()> = Mutex::new(());

/// A server that is stopped when the test ends, however it ends.
struct Engine {
    _alone: MutexGuard<'static, ()>,
    script: String,
    pid: String,
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = Command::new(&self.script).args(["stop", &self.pid]).status();
    }
}

impl Engine {
    /// Starts one of random weights with 16 slots and gives its URL; `None`, said by the test's name, where no script is
    /// named.
    fn start(test: &str) -> Option<(Engine, String)> {
        let Ok(script) = std::env::var("PLIMSOLL_LLAMA_CPP") else {
            assert!(
                std::env::var_os("PLIMSOLL_TEST_ALL").is_none(),
                "PLIMSOLL_TEST_ALL needs PLIMSOLL_LLAMA_CPP"
            );
            eprintln!("skipped: {test} (PLIMSOLL_LLAMA_CPP names no engine script)");
            return None;
        };
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let port = closed_port().unwrap().port().to_string();
        let started = Command::new(&script)
            .args(["start", &port])
            .envs([
                ("TINY", "1"),
                ("PARALLEL", "16"),
                ("CTX", "4096"),
                ("THREADS", "1"),
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&started.stdout).into_owned();
        assert!(
            started.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&started.stderr)
        );
        let pid = said
            .lines()
            .find_map(|line| line.strip_prefix("PID "))
            .unwrap()
            .trim()
            .to_owned();
        Some((
            Engine {
                _alone: alone,
                script,
                pid,
            },
            format!("http://127.0.0.1:{port}"),
        ))
    }
}

#[test]
fn llama_cpp_waits_for_a_slot_above_sixteen() {
    let Some((_engine, url)) = Engine::start("llama_cpp_waits_for_a_slot_above_sixteen") else {
        return;
    };
    let folder = Folder::new();
    let finished = folder.plimsoll(&[
        "sweep",
        &url,
        "--input-tokens",
        "64",
        "--output-tokens",
        "32",
        "--levels",
        "1,4,16,32",
        "--resolution",
        "0.05",
        "--sla",
        "ttft.p95<=300ms",
        "--peak",
        "20rps",
        "--json",
    ]);
    let run = finished.expect_code(0).json();
    let rungs = run["rungs"].as_array().unwrap();
    for rung in rungs {
        let asked = number(rung, "/lengths/input/asked");
        let actual = number(rung, "/lengths/input/actual");
        assert!(
            (actual / asked - 1.0).abs() <= 0.05,
            "prompts within 5 %: {rung:#}"
        );
        assert!(
            (number(rung, "/lengths/output/actual") - 32.0).abs() < 0.5,
            "{rung:#}"
        );
    }
    let rate = |level: u64| {
        let rung = rungs
            .iter()
            .find(|rung: &&Value| rung["concurrency"] == level)
            .unwrap();
        number(rung, "/throughput/output_tokens_per_s")
    };
    // Four times the users would give four times the tokens if it were not; a busy machine moves these by a third.
    for level in [16, 32] {
        assert!(
            (0.5..2.0).contains(&(rate(level) / rate(4))),
            "flat from 4 on: {} against {}",
            rate(level),
            rate(4)
        );
    }
    assert_eq!(text(&run, "/plan/limit/status"), "crossed");
    let limit = number(&run, "/plan/limit/concurrency");
    // Beyond the slots a request waits for one. Where the users are spread out evenly it waits for N - 16 others to
    // end, and TTFT passes 300 ms at N = 16 + 0.3 s x X; where they run in lockstep, the seventeenth waits a whole round.
    let requests_per_s = rate(16) / 32.0;
    let spread_out = 16.0 + 0.3 * requests_per_s;
    assert!(
        (15.0..=1.25 * spread_out).contains(&limit),
        "limit {limit}, at most {spread_out} by the slots and {requests_per_s} requests/s: {:#}",
        run["plan"]
    );
    assert!(text(&run, "/plan/limit/binding").starts_with("ttft.p95"));
    assert!(
        text(&run, "/plan/limit/reason").contains("wait"),
        "{:#}",
        run["plan"]["limit"]
    );
    assert!(number(&run, "/plan/instances/count") >= 1.0);
}

#[test]
fn llama_cpp_speaks_four_dialects() {
    let Some((_engine, url)) = Engine::start("llama_cpp_speaks_four_dialects") else {
        return;
    };
    for (dialect, route) in [
        ("openai-chat", "/v1/chat/completions"),
        ("openai-completions", "/v1/completions"),
        ("openai-responses", "/v1/responses"),
        ("anthropic-messages", "/v1/messages"),
    ] {
        let folder = Folder::new();
        let arguments =
            "--input-tokens 64 --output-tokens 16 --levels 2 --warmup 500ms --rung-time 3s --json";
        for stream in [true, false] {
            let at = format!("{url}{route}");
            let mut all = vec!["sweep", &at];
            all.extend(arguments.split(' '));
            if !stream {
                all.push("--no-stream");
            }
            // A reply of 16 ms on a busy machine may leave the rung without a verdict; what it holds is the same.
            let finished = folder.plimsoll(&all);
            assert!([0, 5].contains(&finished.code), "{finished:#?}");
            let run = finished.json();
            assert_eq!(text(&run, "/target/dialect"), dialect);
            assert_eq!(text(&run, "/target/engine/name"), "llama.cpp");
            let rung = &run["rungs"][0];
            assert_eq!(number(rung, "/requests/failed"), 0.0, "{dialect}: {rung:#}");
            assert!(number(rung, "/requests/ok") >= 4.0, "{dialect}: {rung:#}");
            assert_eq!(rung["lengths"]["output_estimated"], false, "{dialect}: {rung:#}");
            let prompt = number(rung, "/lengths/input/actual") / 64.0;
            assert!((prompt - 1.0).abs() <= 0.05, "{dialect}: {rung:#}");
            // A model of random weights may end early where a route cannot be told to go on.
            let reply = number(rung, "/lengths/output/actual");
            assert!((1.0..=16.0).contains(&reply), "{dialect}: {rung:#}");
            let (ttft, e2e) = (
                &rung["latency"]["ttft_ms"]["p50"],
                number(rung, "/latency/e2e_ms/p50"),
            );
            match ttft.as_f64() {
                Some(ttft) => assert!(stream && ttft > 0.0 && ttft < e2e, "{dialect}: {rung:#}"),
                None => assert!(!stream, "{dialect}: {rung:#}"),
            }
        }
    }
}
