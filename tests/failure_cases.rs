//! What real endpoints have done to tools like this one, through the real binary: each case from a public report. Cases about
//! streams are in `streams.rs`; those about interrupts in `scripted_sweep.rs`; bounds and budgets (23) are a property test of
//! the search, and waiting inside the client (19) is tested where arrivals are replayed.

#![expect(clippy::unwrap_used, reason = "a test fails where its helpers do")]

mod harness;

use std::time::Duration;

use harness::{Finished, Folder, number, text, wait_until};
use plimsoll_scripted::{Fault, Overload, Script, Scripted, When};
use serde_json::Value;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A response takes 100 ms.
fn engine() -> Script {
    Script::default().ttft(ms(25)).itl(ms(5))
}

fn sweep(folder: &Folder, server: &Scripted, extra: &str) -> Finished {
    let url = server.url();
    let usual = [
        ("--input-tokens", "32"),
        ("--output-tokens", "16"),
        ("--warmup", "300ms"),
        ("--rung-time", "1500ms"),
    ];
    let mut arguments = vec!["sweep", url.as_str(), "--json"];
    for (flag, value) in usual {
        if !extra.contains(flag) {
            arguments.extend([flag, value]);
        }
    }
    arguments.extend(extra.split(' '));
    folder.plimsoll(&arguments)
}

fn rung(run: &Value, level: u64) -> &Value {
    run["rungs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|rung| rung["concurrency"] == level)
        .unwrap()
}

fn warnings(run: &Value) -> String {
    run["plan"]["warnings"].to_string()
}

/// Case 7: something lets only 8 connections through; the rest wait where no tool sees them.
#[test]
fn case_07_a_level_that_was_not_delivered_is_no_plateau() {
    let server = Scripted::start(engine().max_connections(8)).unwrap();
    let folder = Folder::new();
    let run = sweep(&folder, &server, "--levels 4,32 --sla ttft.p95<=1s")
        .expect_code(0)
        .json();
    let at_32 = rung(&run, 32);
    assert_eq!(text(at_32, "/validity/verdict"), "load-not-delivered");
    let reason = text(at_32, "/validity/reasons/0");
    assert!(reason.contains("Of 32 connections only 8"), "{reason}");
    assert_eq!(number(&run, "/plan/best/concurrency"), 4.0);
    assert_eq!(text(&run, "/plan/limit/status"), "not_reached");
}

/// Case 13: every other reply is empty, and fast.
#[test]
fn case_13_an_empty_reply_is_a_failure() {
    let server = Scripted::start(engine().fault(When::Every(2), Fault::Empty)).unwrap();
    let folder = Folder::new();
    let run = sweep(&folder, &server, "--levels 8 --sla ttft.p95<=1s")
        .expect_code(5)
        .json();
    let rung = rung(&run, 8);
    assert_eq!(text(rung, "/validity/verdict"), "errors");
    let (ok, failed) = (number(rung, "/requests/ok"), number(rung, "/requests/failed"));
    assert!(
        (0.4..0.6).contains(&(failed / (ok + failed))),
        "{failed} of {}",
        ok + failed
    );
    assert_eq!(number(rung, "/requests/by_class/empty-response"), failed);
    // The 2 ms of the empty ones are in no latency.
    assert!(number(rung, "/latency/e2e_ms/p50") > 90.0);
    assert_eq!(number(rung, "/latency/e2e_ms/n"), ok);
}

/// Case 14: the server stops when it likes.
#[test]
fn case_14_replies_shorter_than_asked_are_told_and_not_compared() {
    // The first level sees replies of 16 tokens, the second of 4 to 13.
    let script = engine()
        .refuses(["ignore_eos", "min_tokens"])
        .tokens_by(|number, asked| {
            let asked = asked.unwrap_or(16);
            // Four requests find out what the server takes, some 45 are the first level's.
            if number <= 45 {
                asked
            } else {
                asked * (2 + u32::try_from(number % 7).unwrap()) / 9
            }
        });
    let server = Scripted::start(script).unwrap();
    let folder = Folder::new();
    let run = sweep(&folder, &server, "--levels 2,8 --sla ttft.p95<=1s --requests 20").json();
    let (two, eight) = (rung(&run, 2), rung(&run, 8));
    assert_eq!(number(two, "/lengths/output/asked"), 16.0);
    assert!((number(two, "/lengths/output/actual") - 16.0).abs() < 1e-9);
    assert_eq!(number(eight, "/lengths/output/asked"), 16.0);
    assert!(number(eight, "/lengths/output/actual") < 14.0);
    assert!(eight["lengths"]["finish_reasons"]["stop"].as_u64().unwrap() > 0);
    // TPOT is by the tokens that came: 5 ms each, not 75 ms shared by 15.
    assert!(number(eight, "/latency/tpot_ms/p50") > 4.5, "{eight}");
    let verdicts = [text(two, "/validity/verdict"), text(eight, "/validity/verdict")];
    assert!(verdicts.contains(&"lengths-differ"), "{verdicts:?}");
}

/// Case 15: above 32 in flight the server refuses within 2 ms, which looks fast.
#[test]
fn case_15_refusing_load_is_not_passing() {
    let server = Scripted::start(engine().capacity(32, Overload::Unavailable)).unwrap();
    let folder = Folder::new();
    let run = sweep(&folder, &server, "--levels 16,32,128 --sla ttft.p95<1s")
        .expect_code(0)
        .json();
    assert!(number(&run, "/plan/limit/concurrency") <= 32.0);
    assert!(number(&run, "/plan/best/concurrency") <= 32.0);
    let at_128 = rung(&run, 128);
    assert_eq!(text(at_128, "/validity/verdict"), "errors");
    assert_eq!(at_128["sla"][0]["pass"], false);
    assert!(at_128["requests"]["by_class"]["throttled"].as_u64().unwrap() > 0);
}

/// Case 16: nobody is there, or goes away.
#[test]
fn case_16_an_endpoint_that_is_not_there_is_one_clear_cause() {
    let closed = format!("http://{}", plimsoll_scripted::closed_port().unwrap());
    let folder = Folder::new();
    let finished = folder
        .plimsoll(&["sweep", &closed, "--levels", "4", "--json"])
        .expect_code(5);
    assert_eq!(finished.stdout, "");
    assert!(
        finished.stderr.contains("connection refused"),
        "{}",
        finished.stderr
    );
    assert!(!folder.path().join("runs").exists());
}

#[test]
fn case_16_an_endpoint_that_goes_away_in_mid_sweep_sets_no_limit() {
    let server = Scripted::start(engine()).unwrap();
    let folder = Folder::new();
    let url = server.url();
    let running = folder.start(&[
        "sweep",
        &url,
        "--input-tokens=32",
        "--output-tokens=16",
        "--warmup=300ms",
        "--rung-time=1500ms",
        "--levels=2,4,8",
        "--sla=ttft.p95<=1s",
        "--json",
    ]);
    wait_until("the first rung is stored", || {
        let runs = std::fs::read_dir(folder.path().join("runs")).ok();
        runs.into_iter().flatten().flatten().any(|run| {
            std::fs::read_to_string(run.path().join("run.json"))
                .is_ok_and(|text| text.contains("\"concurrency\": 2"))
        })
    });
    drop(server);
    let finished = running.finish().expect_code(1);
    let run = finished.json();
    assert_eq!(text(&run, "/status"), "failed");
    let last = run["rungs"].as_array().unwrap().last().unwrap();
    assert_eq!(text(last, "/validity/verdict"), "server-restarted");
    assert_eq!(number(last, "/concurrency"), 4.0);
    // Level 4 is not the reason: nobody knows.
    assert_eq!(text(&run, "/plan/limit/status"), "not_reached");
    assert_eq!(number(&run, "/plan/limit/concurrency"), 2.0);
    assert!(warnings(&run).contains("server-restarted"), "{}", warnings(&run));
    assert!(
        finished.stderr.contains("went away at level 4"),
        "{}",
        finished.stderr
    );
    assert!(finished.stderr.contains("plimsoll resume"), "{}", finished.stderr);
}

/// Case 18: one token has no time per output token.
#[test]
fn case_18_tpot_of_one_token_is_not_evaluated() {
    let server = Scripted::start(engine().tokens(1)).unwrap();
    let folder = Folder::new();
    let run = sweep(
        &folder,
        &server,
        "--levels 4 --output-tokens 1 --sla tpot.p95<=50ms",
    )
    .expect_code(5)
    .json();
    let rung = rung(&run, 4);
    assert_eq!(rung["sla"][0]["pass"], Value::Null);
    assert_eq!(rung["sla"][0]["observed"], Value::Null);
    assert!(rung["latency"]["tpot_ms"]["p95"].is_null());
    assert!(number(rung, "/requests/ok") > 20.0);
    assert!(run["plan"]["best"].is_null() && run["plan"]["limit"].is_null());
    assert!(warnings(&run).contains("tpot"), "{}", warnings(&run));
}

/// Case 20: at 64 users, a window of three requests each gives the steady state's TTFT, without the herd and the tail.
#[test]
fn case_20_start_burst_and_drain_tail_are_outside() {
    use plimsoll_plan::reduce;
    use plimsoll_run::runner::{Rung, RungLimits, Runner, Watch};
    use plimsoll_run::sla::Sla;
    use plimsoll_sim::preset;
    use plimsoll_sim::runner::SimRunner;

    let preset = preset::quick();
    let measure = |order: u32, requests: u64, warmup: Option<Duration>| {
        let rung = Rung {
            level: 64,
            order,
            expected_response: Some(ms(350)),
            samples_wanted: requests,
            limits: RungLimits {
                requests: Some(requests),
                warmup,
                ..RungLimits::default()
            },
        };
        let evidence = SimRunner::new(preset.spec.clone(), preset.workload.clone(), u64::from(order))
            .measure(&rung, &Watch::new())
            .unwrap();
        let report = reduce(&evidence, order, &preset.workload, &Sla { terms: Vec::new() }).report;
        report.latency.ttft_ms.unwrap().mean.unwrap()
    };
    let steady = measure(1, 20_000, Some(Duration::from_secs(60)));
    for order in 2..10 {
        let short = measure(order, 3 * 64, None);
        assert!(
            (short / steady - 1.0).abs() < 0.05,
            "{short} ms, steady {steady} ms"
        );
    }
}

/// Case 22: all that was tried failed, and all that was tried passed.
#[test]
fn case_22_a_failing_level_is_never_the_largest_that_passes() {
    let script = || engine().ttft_by_load(|load| if load > 32 { ms(600) } else { ms(20) });
    let server = Scripted::start(script()).unwrap();
    let folder = Folder::new();
    let finished = sweep(&folder, &server, "--levels 64,128 --sla ttft.p95<=300ms").expect_code(3);
    let run = finished.json();
    assert_eq!(text(&run, "/plan/limit/status"), "never_met");
    assert!(run["plan"]["limit"]["concurrency"].is_null() && run["plan"]["best"].is_null());
    let reason = text(&run, "/plan/limit/reason");
    assert!(reason.contains("64") && reason.contains("ttft.p95"), "{reason}");

    let server = Scripted::start(script()).unwrap();
    let folder = Folder::new();
    let run = sweep(&folder, &server, "--levels 4,16 --sla ttft.p95<=300ms")
        .expect_code(0)
        .json();
    assert_eq!(text(&run, "/plan/limit/status"), "not_reached");
    assert_eq!(number(&run, "/plan/limit/concurrency"), 16.0);
    assert!(
        text(&run, "/plan/limit/reason").contains("at least"),
        "{}",
        text(&run, "/plan/limit/reason")
    );
}

/// Case 24: an error rate is a fraction, everywhere.
#[test]
fn case_24_two_percent_of_errors_pass_at_005_and_fail_at_001() {
    let server = Scripted::start(engine().fault(When::Every(50), Fault::Status(500))).unwrap();
    let folder = Folder::new();
    let run = sweep(
        &folder,
        &server,
        "--levels 16 --rung-time 2500ms --sla error_rate<=0.05",
    )
    .expect_code(0)
    .json();
    let outcome = &rung(&run, 16)["sla"][0];
    assert_eq!(outcome["pass"], true);
    let share = outcome["observed"].as_f64().unwrap();
    assert!((0.01..0.03).contains(&share), "{share}");
    let directory = folder.run_directory();
    let directory = directory.to_str().unwrap();
    let again = folder
        .plimsoll(&["plan", directory, "--sla", "error_rate<=0.01", "--json"])
        .expect_code(3)
        .json();
    assert_eq!(rung(&again, 16)["sla"][0]["pass"], false);
    for wrong in ["error_rate.p99<=0.05", "eror_rate<=0.05", "error_rate<=5"] {
        let finished = folder
            .plimsoll(&["plan", directory, "--sla", wrong])
            .expect_code(2);
        assert!(finished.stderr.contains("error_rate"), "{}", finished.stderr);
    }
}

/// Case 25: one request in a hundred is never answered.
#[test]
fn case_25_a_stuck_request_is_a_time_out_and_no_more() {
    let server = Scripted::start(engine().fault(When::Only(60), Fault::NeverAnswers)).unwrap();
    let folder = Folder::new();
    let run = sweep(
        &folder,
        &server,
        "--levels 8 --rung-time 4s --request-timeout 1s --sla ttft.p95<=1s --sla error_rate<=0.02",
    )
    .expect_code(0)
    .json();
    let at_8 = rung(&run, 8);
    assert_eq!(text(at_8, "/validity/verdict"), "valid", "{}", at_8["validity"]);
    assert_eq!(number(at_8, "/requests/failed"), 1.0);
    assert_eq!(number(at_8, "/requests/by_class/deadline"), 1.0);
    let share = 1.0 / (number(at_8, "/requests/ok") + 1.0);
    let observed = at_8["sla"][1]["observed"].as_f64().unwrap();
    assert!((observed - share).abs() < 1e-9, "{observed} of {share}");
}
