//! Cases about the measuring side, through the real binary: what is in flight and what only waits, rungs that end early, servers
//! that go away and come back, and the limit of a server whose latency is a formula. Those about single replies are in
//! `failure_cases.rs`.

#![expect(clippy::unwrap_used, reason = "a test fails where its helpers do")]

mod harness;

use std::time::Duration;

use harness::{Finished, Folder, number, text, wait_until};
use plimsoll_scripted::{Fault, Script, Scripted, When};
use serde_json::Value;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A response takes 100 ms.
fn engine() -> Script {
    Script::default().ttft(ms(25)).itl(ms(5))
}

fn arguments(url: &str, extra: &str) -> Vec<String> {
    let small = "--input-tokens 32 --output-tokens 16 --json";
    ["sweep", url]
        .into_iter()
        .chain(small.split(' '))
        .chain(extra.split(' '))
        .map(ToOwned::to_owned)
        .collect()
}

fn sweep(folder: &Folder, server: &Scripted, extra: &str) -> Finished {
    let arguments = arguments(&server.url(), extra);
    folder.plimsoll(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn rungs(run: &Value) -> &[Value] {
    run["rungs"].as_array().unwrap()
}

fn levels(run: &Value) -> Vec<u64> {
    rungs(run)
        .iter()
        .map(|rung| rung["concurrency"].as_u64().unwrap())
        .collect()
}

/// Case 7 where the connections take turns: each reply ends its connection, and one of those that wait gets in. All are
/// served in the end, so what the gateway does is latency, and in flight is who waits.
#[test]
fn case_07_the_wait_for_a_connection_is_part_of_the_latency() {
    let server = Scripted::start(engine().max_connections(8).requests_per_connection(1)).unwrap();
    let folder = Folder::new();
    let run = sweep(
        &folder,
        &server,
        "--levels 8,32 --rung-time 3s --warmup 1s --sla ttft.p95<=200ms",
    )
    .expect_code(0)
    .json();
    let at_32 = &rungs(&run)[1];
    // 8 at once, 100 ms each: 32 in flight take 400 ms, of which 300 ms pass before the server has heard of them.
    let (ttft, e2e) = (
        number(at_32, "/latency/ttft_ms/p50"),
        number(at_32, "/latency/e2e_ms/p50"),
    );
    assert!(ttft > 250.0 && e2e > 350.0, "{ttft} ms, {e2e} ms");
    assert!((number(at_32, "/in_flight/mean") / 32.0 - 1.0).abs() < 0.05);
    assert_eq!(server.seen().max_in_flight, 8);
    assert_eq!(number(&run, "/plan/limit/concurrency"), 8.0);
}

/// Every first token comes at five times the limit.
#[test]
fn a_hopeless_rung_ends_early_fails_and_says_so() {
    let server = Scripted::start(engine().ttft(ms(500))).unwrap();
    let folder = Folder::new();
    let finished = sweep(&folder, &server, "--min 8 --max 8 --sla ttft.p95<=100ms").expect_code(3);
    let run = finished.json();
    let rung = &rungs(&run)[0];
    assert_eq!(text(rung, "/stopped"), "hopeless");
    assert_eq!(rung["sla"][0]["pass"], false);
    assert!(number(rung, "/latency/ttft_ms/p95") >= 500.0);
    let reasons = rung["validity"]["reasons"].to_string();
    assert!(reasons.contains("broken beyond doubt"), "{reasons}");
    // 200 samples at 16 a second would take 12.5 s; three responses take 1.5 s.
    assert!(number(rung, "/window_s") < 5.0, "{rung}");
    assert_eq!(text(&run, "/plan/limit/status"), "never_met");
}

/// Case 16: the server dies under the rung, and comes back: nothing is concluded from that rung, which is measured again.
#[test]
fn case_16_a_server_that_restarts_is_measured_again() {
    let server = Scripted::start(engine()).unwrap();
    let folder = Folder::new();
    let address = server.addr();
    let arguments = arguments(
        &server.url(),
        "--min 8 --max 8 --warmup 300ms --rung-time 4s --sla ttft.p95<=1s",
    );
    let running = folder.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    wait_until("the rung is well under way", || {
        let seen = server.seen();
        seen.max_in_flight == 8 && seen.requests > 100
    });
    drop(server);
    std::thread::sleep(ms(700));
    let _again = Scripted::start_at(address, engine()).unwrap();
    let run = running.finish().expect_code(0).json();
    assert_eq!(levels(&run), [8, 8]);
    let (first, second) = (&rungs(&run)[0], &rungs(&run)[1]);
    assert_eq!(text(first, "/validity/verdict"), "server-restarted", "{first}");
    assert!(text(first, "/validity/reasons/0").contains("went away"));
    assert_eq!(text(second, "/validity/verdict"), "valid", "{second}");
    assert_eq!(number(second, "/requests/failed"), 0.0);
    assert_eq!(text(&run, "/plan/limit/status"), "not_reached");
}

/// Errors end a rung; what is in flight at that moment is our own doing and counts nowhere.
#[test]
fn requests_cut_short_by_our_own_stop_are_no_failures() {
    // Every fourth request is refused, the others take 3 s.
    let server = Scripted::start(
        Script::default()
            .ttft(ms(3000))
            .fault(When::Every(4), Fault::Status(500)),
    )
    .unwrap();
    let folder = Folder::new();
    let run = sweep(&folder, &server, "--levels 24 --warmup 0 --rung-time 20s").json();
    let rung = &rungs(&run)[0];
    assert_eq!(text(rung, "/stopped"), "errors");
    assert_eq!(text(rung, "/validity/verdict"), "errors");
    let classes = rung["requests"]["by_class"].as_object().unwrap();
    assert_eq!(classes.keys().collect::<Vec<_>>(), ["http-status"], "{classes:?}");
}

/// Case 23: bounds and the budget of rungs are hard, and what stands beside an answer is of its own rung. In virtual time.
#[test]
fn case_23_bounds_budgets_and_the_row_shown_are_hard() {
    let folder = Folder::new();
    for (min, max, most) in [(70, 140, 3), (64, 512, 5), (9, 11, 1), (1, 16, 7), (300, 300, 4)] {
        let (low, high, budget) = (min.to_string(), max.to_string(), most.to_string());
        let finished = folder.plimsoll(&[
            "predict",
            "--min",
            &low,
            "--max",
            &high,
            "--max-rungs",
            &budget,
            "--peak",
            "500rps",
            "--json",
        ]);
        assert!([0, 3].contains(&finished.code), "{finished:#?}");
        let run = finished.json();
        assert!(rungs(&run).len() <= most, "{:?}", levels(&run));
        assert!(
            levels(&run).iter().all(|level| (min..=max).contains(level)),
            "{:?} outside {min} to {max}",
            levels(&run)
        );
        let best = &run["plan"]["best"];
        if best.is_null() {
            continue;
        }
        let row = rungs(&run)
            .iter()
            .rfind(|rung| rung["concurrency"] == best["concurrency"])
            .unwrap();
        assert_eq!(
            best["output_tokens_per_s"],
            row["throughput"]["output_tokens_per_s"]
        );
        assert!(
            row["sla"]
                .as_array()
                .unwrap()
                .iter()
                .all(|outcome| outcome["pass"] == true)
        );
    }
}

/// Case 25: one request in a hundred is never answered. Each is one time-out; the rung is usable, its drain is bounded, and
/// the errors count against the SLA as they should.
#[test]
fn case_25_one_stuck_request_in_a_hundred_costs_its_share_and_no_rung() {
    let server = Scripted::start(engine().fault(When::Every(100), Fault::NeverAnswers)).unwrap();
    let folder = Folder::new();
    let finished = sweep(
        &folder,
        &server,
        "--levels 8 --warmup 300ms --rung-time 4s --request-timeout 1500ms --sla ttft.p95<=1s --sla error_rate<=0.05",
    )
    .expect_code(0);
    assert!(finished.took < Duration::from_secs(15), "{:?}", finished.took);
    let run = finished.json();
    let rung = &rungs(&run)[0];
    assert!(
        matches!(text(rung, "/validity/verdict"), "valid" | "too-few-samples"),
        "{}",
        rung["validity"]
    );
    let (ok, failed) = (number(rung, "/requests/ok"), number(rung, "/requests/failed"));
    assert_eq!(number(rung, "/requests/by_class/deadline"), failed);
    assert!((1.0..=4.0).contains(&failed), "{failed} of {ok}");
    assert_eq!(rung["sla"][1]["pass"], true);
    let directory = folder.run_directory();
    let strict = folder
        .plimsoll(&[
            "plan",
            directory.to_str().unwrap(),
            "--sla",
            "ttft.p95<=1s",
            "--json",
        ])
        .expect_code(3)
        .json();
    assert_eq!(text(&strict, "/plan/limit/status"), "never_met");
}

/// Case 25: interrupted half way, with a stuck request in flight: what is there parses, and only what is missing is run.
#[test]
fn case_25_an_interrupt_half_way_and_a_resume() {
    let server = Scripted::start(engine().fault(When::Only(90), Fault::NeverAnswers)).unwrap();
    let folder = Folder::new();
    let arguments = arguments(
        &server.url(),
        "--levels 1,2,4,8 --warmup 300ms --rung-time 1200ms --request-timeout 3s --sla ttft.p95<=1s --sla error_rate<=0.1",
    );
    let running = folder.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    wait_until("the third rung", || server.seen().max_in_flight >= 4);
    running.interrupt();
    let finished = running.finish().expect_code(130);
    assert!(finished.took < Duration::from_secs(30), "{:?}", finished.took);
    assert_eq!(finished.json(), folder.run_json());
    let before = folder.run_json();
    assert_eq!(text(&before, "/status"), "interrupted");
    assert_eq!(levels(&before), [1, 2]);
    let directory = folder.run_directory();
    let run = folder
        .plimsoll(&["resume", directory.to_str().unwrap(), "--json"])
        .expect_code(0)
        .json();
    assert_eq!(text(&run, "/status"), "complete");
    assert_eq!(levels(&run), [1, 2, 4, 8]);
    assert_eq!(rungs(&run)[..2], rungs(&before)[..2]);
}
