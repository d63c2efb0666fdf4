//! Tables that others published, against what a careful reader would defend from them; and files that cannot be read.

#![expect(clippy::unwrap_used, reason = "a test may stop here")]

mod harness;

use std::path::Path;

use harness::{Finished, Folder, curve, number, text};
use serde_json::Value;

fn foreign(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/import")
        .join(file)
        .display()
        .to_string()
}

fn analyze(arguments: &[&str]) -> Finished {
    let mut all = vec!["analyze"];
    all.extend(arguments);
    Folder::new().plimsoll(&all)
}

/// Analyzes a curve as JSON.
fn answer(number: &str, sla: &[&str]) -> (i32, Value) {
    let path = curve(number).display().to_string();
    let mut arguments = vec![path.as_str(), "--json"];
    for term in sla {
        arguments.extend(["--sla", term]);
    }
    let finished = analyze(&arguments);
    let document = finished.json();
    (finished.code, document)
}

/// Analyzes a table written here.
fn table(rows: &str, sla: &[&str]) -> (Finished, Value) {
    let folder = Folder::new();
    std::fs::write(folder.path().join("t.csv"), rows).unwrap();
    let mut arguments = vec!["analyze", "t.csv", "--json"];
    for term in sla {
        arguments.extend(["--sla", term]);
    }
    let finished = folder.plimsoll(&arguments);
    let document = finished.json();
    (finished, document)
}

fn verdicts(document: &Value) -> Vec<(u64, &str)> {
    document["rungs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rung| {
            (
                rung["concurrency"].as_u64().unwrap(),
                text(rung, "/validity/verdict"),
            )
        })
        .collect()
}

fn said(document: &Value, words: &str) -> bool {
    document["plan"]["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .any(|warning| warning.as_str().unwrap().contains(words))
}

#[test]
fn knees_are_those_an_expert_reads_off_the_curves() {
    for (curve, [low, high]) in [
        ("01", [75.0, 100.0]),
        ("02", [50.0, 75.0]),
        ("04", [100.0, 150.0]),
        ("08", [64.0, 110.0]),
        ("13", [55.0, 80.0]),
        ("14", [16.0, 48.0]),
        ("16", [45.0, 64.0]),
        ("20", [100.0, 200.0]),
        ("32", [190.0, 256.0]),
    ] {
        let (code, document) = answer(curve, &[]);
        assert_eq!(code, 0, "{curve}");
        let knee = &document["plan"]["knee"];
        assert_eq!(text(knee, "/status"), "saturated", "{curve}");
        let (from, to) = (number(knee, "/interval/0"), number(knee, "/interval/1"));
        assert!(from <= high && to >= low, "{curve}: {from:.1} to {to:.1}");
    }
}

#[test]
fn curves_that_still_grow_have_a_lower_bound_and_no_knee() {
    for (curve, highest) in [
        ("06", 256.0),
        ("07", 32.0),
        ("10", 16.0),
        ("18", 64.0),
        ("22", 128.0),
        ("24", 512.0),
    ] {
        let (_, document) = answer(curve, &[]);
        let knee = &document["plan"]["knee"];
        assert_eq!(text(knee, "/status"), "not_saturated", "{curve}");
        assert_eq!(number(knee, "/interval/0"), highest, "{curve}");
        assert_eq!(knee["interval"][1], Value::Null, "{curve}");
    }
}

#[test]
fn limits_are_those_an_expert_reads_off_the_curves() {
    for (curve, term, [low, high]) in [
        ("01", "itl.mean<=70ms", [60.0, 66.0]),
        ("01", "ttft.mean<=2s", [86.0, 92.0]),
        ("02", "ttft.mean<=2s", [68.0, 74.0]),
        ("02", "itl.mean<=70ms", [53.0, 60.0]),
        ("04", "itl.mean<=10ms", [148.0, 155.0]),
        ("06", "itl.mean<=10ms", [150.0, 200.0]),
        ("10", "e2e.p90<=30s", [8.0, 16.0]),
        ("13", "tpot.p95<=60ms", [76.0, 82.0]),
        ("13", "ttft.p95<=1s", [80.0, 90.0]),
        ("14", "tpot.mean<=8ms", [36.0, 45.0]),
        ("16", "ttft.mean<=5s", [66.0, 72.0]),
        ("16", "tpot.mean<=50ms", [48.0, 54.0]),
        ("18", "tpot.mean<=8ms", [40.0, 55.0]),
        ("20", "ttft.mean<=2s", [215.0, 225.0]),
        ("24", "tpot.mean<=25ms", [240.0, 256.0]),
        ("24", "ttft.mean<=500ms", [320.0, 370.0]),
    ] {
        let (code, document) = answer(curve, &[term]);
        assert_eq!(code, 0, "{curve} {term}");
        let limit = &document["plan"]["limit"];
        assert_eq!(text(limit, "/status"), "crossed", "{curve} {term}");
        let (pass, fail) = (number(limit, "/interval/0"), number(limit, "/interval/1"));
        assert!(pass <= high && fail >= low, "{curve} {term}: {pass} to {fail}");
    }
}

#[test]
fn the_onset_explains_the_cliff() {
    let (_, document) = answer("16", &["ttft.mean<=5s"]);
    let onset = number(&document, "/plan/queue_onset/concurrency");
    assert!(
        (62.0..=68.0).contains(&onset),
        "the batch is capped at 64: {onset}"
    );
    assert!(text(&document, "/plan/limit/reason").contains("wait for a slot"));
}

#[test]
fn what_an_expert_refuses_is_refused() {
    // Fifty requests cannot hold 64, nor 400 hold 512.
    for (curve, held) in [("06", 256), ("07", 32)] {
        let (_, document) = answer(curve, &[]);
        for (level, verdict) in verdicts(&document) {
            assert_eq!(verdict == "load-not-delivered", level > held, "{curve} {level}");
        }
    }

    // Behind a proxy that buffers there is no TTFT, TPOT or ITL, but throughput and E2E.
    for term in ["ttft.p99<=1s", "itl.mean<=5ms", "tpot.mean<=5ms"] {
        let (code, document) = answer("08", &[term]);
        assert_eq!((code, &document["plan"]["limit"]), (0, &Value::Null), "{term}");
        assert!(
            verdicts(&document)
                .iter()
                .all(|(_, verdict)| *verdict == "stream-buffered")
        );
        assert!(said(&document, "TTFT, TPOT and ITL are not used"));
        assert_eq!(number(&document, "/plan/best/concurrency"), 128.0);
    }
    let (_, document) = answer("08", &["e2e.mean<=3s"]);
    assert_eq!(number(&document, "/plan/limit/interval/0"), 64.0);

    // Successes without a token are none.
    let (_, document) = answer("10", &["e2e.p90<=60s"]);
    assert_eq!(verdicts(&document)[5], (32, "errors"));
    assert_eq!(number(&document, "/plan/best/concurrency"), 16.0);

    // 37 to 50 % of the requests failed at every level: none passes, with or without a word on errors, and nothing else
    // is known but that throughput had not stopped growing.
    for sla in [&["error_rate<=0.05"][..], &["e2e.p95<=60s"], &[]] {
        let (code, document) = answer("11", sla);
        assert_eq!(code, 5);
        let limit = &document["plan"]["limit"];
        assert_eq!(text(limit, "/status"), "never_met");
        assert_eq!(limit["concurrency"], Value::Null);
        assert!(text(limit, "/binding").starts_with("error_rate<="), "{limit}");
        for lacking in ["best", "instances", "cost", "largest_passing", "efficient_point"] {
            assert_eq!(document["plan"][lacking], Value::Null, "{lacking}");
        }
        assert_eq!(text(&document, "/plan/knee/status"), "not_saturated");
        assert!(text(&document, "/plan/knee/reason").contains("requests failed"));
    }

    // TTFT that leaps once and then stays is no queue.
    let (_, document) = answer("22", &["ttft.mean<=2s"]);
    assert_eq!(text(&document, "/plan/limit/status"), "not_reached");
    assert_eq!(number(&document, "/plan/limit/concurrency"), 16.0);

    // One bad row.
    let (_, document) = answer("18", &[]);
    assert_eq!(verdicts(&document)[3], (32, "unsteady"));
    let (_, document) = answer("14", &[]);
    assert!(said(&document, "declines beyond 32"));
}

#[test]
fn a_pass_above_a_fail_is_a_bracket_with_a_warning() {
    // Without the outcomes the table knows throughput alone.
    let (code, document) = answer("32", &["e2e.p99<50s"]);
    assert_eq!(code, 0);
    assert_eq!(number(&document, "/plan/best/concurrency"), 256.0);
    assert_eq!(document["plan"]["limit"], Value::Null);
    assert_eq!(document["plan"]["instances"], Value::Null);
    assert!(said(&document, "e2e.p99 could be evaluated at no level"));

    // With them: p99 E2E below 50 s passed at 256 and 320, and failed at 284 and 512.
    let rows = std::fs::read_to_string(curve("32")).unwrap();
    let rows: Vec<String> = rows
        .lines()
        .map(|line| match line.split(',').next().unwrap() {
            "concurrency" => format!("{line},sla_pass"),
            "284" | "512" => format!("{line},false"),
            "256" | "320" => format!("{line},true"),
            _ => format!("{line},"),
        })
        .collect();
    for sla in [&["e2e.p99<50s"][..], &[]] {
        let (finished, document) = table(&rows.join("\n"), sla);
        assert_eq!(finished.code, 0);
        assert_eq!(number(&document, "/plan/limit/interval/0"), 256.0);
        assert_eq!(number(&document, "/plan/limit/interval/1"), 284.0);
        assert_eq!(number(&document, "/plan/best/output_tokens_per_s"), 2823.4);
        assert!(said(&document, "284 fails the SLA although 320 above it passes"));
    }
}

#[test]
fn a_rate_limited_client_is_not_a_saturated_server() {
    // 10 requests/s whatever the level, each taking 0.8 s.
    let rows = "concurrency,throughput_tok_s,req_s,e2e_mean_ms,ttft_mean_ms,itl_mean_ms\n\
                4,500,5,799,100,7\n8,1000,10,802,101,7\n16,1001,10.01,801,100,7\n32,999,9.99,803,101,7\n64,1000,10,802,100,7\n";
    let (finished, document) = table(rows, &[]);
    assert_eq!(finished.code, 0);
    for (level, verdict) in verdicts(&document) {
        assert_eq!(verdict == "load-not-delivered", level > 8, "{level}: {verdict}");
    }
    assert_eq!(text(&document, "/plan/knee/status"), "not_saturated");
    // The same where E2E and requests are not published.
    let rows = "concurrency,throughput_tok_s,ttft_mean_ms,itl_mean_ms\n\
                4,500,100,7\n8,1000,101,7\n16,1001,100,7\n32,999,101,7\n64,1000,100,7\n";
    let (_, document) = table(rows, &[]);
    assert_eq!(text(&document, "/plan/knee/status"), "not_saturated");
    assert_eq!(verdicts(&document)[4], (64, "load-not-delivered"));
}

#[test]
fn failures_count_against_percentiles() {
    let rows = "concurrency,req_s,error_rate,e2e_p90_ms,e2e_p95_ms,n_requests\n\
                4,4,0,900,1000,1000\n8,8,0.07,900,1000,1000\n";
    let (finished, document) = table(rows, &["e2e.p95<=2s", "error_rate<=0.1"]);
    assert_eq!(finished.code, 0);
    assert_eq!(number(&document, "/plan/limit/interval/1"), 8.0);
    let (_, document) = table(rows, &["e2e.p90<=2s", "error_rate<=0.1"]);
    assert_eq!(text(&document, "/plan/limit/status"), "not_reached");
    let (finished, _) = table(rows, &["e2e.p95<=500ms"]);
    assert_eq!(finished.code, 3);
}

#[test]
fn what_a_table_lacks_is_null_and_named() {
    let (_, document) = answer("01", &[]);
    for pointer in [
        "/seed",
        "/workload/input_tokens",
        "/target/dialect",
        "/client",
        "/rungs/0/throughput/requests_per_s",
        "/rungs/0/requests/ok",
        "/rungs/0/latency/ttft_ms/p95",
        "/rungs/0/latency/ttft_ms/n",
        "/rungs/0/latency/e2e_ms",
        "/plan/limit",
    ] {
        assert_eq!(document.pointer(pointer), Some(&Value::Null), "{pointer}");
    }
    for words in ["in-flight", "number of requests", "error rate", "ITL stands in"] {
        assert!(said(&document, words), "{words}");
    }
    // Derived figures prove nothing by Little's law.
    let (_, document) = answer("16", &[]);
    assert!(said(&document, "Little's law cannot tell"));
    // The user may know the reply length.
    let path = curve("01").display().to_string();
    let finished = analyze(&[
        &path,
        "--output-tokens",
        "500",
        "--sla",
        "ttft.mean<=2s",
        "--peak",
        "5rps",
        "--json",
    ]);
    let document = finished.expect_code(0).json();
    let onset = number(&document, "/plan/queue_onset/concurrency");
    assert!((86.0..89.0).contains(&onset), "{onset}");
    assert_eq!(number(&document, "/plan/instances/count"), 4.0);
}

#[test]
fn the_terminal_shows_what_there_is() {
    let path = curve("01").display().to_string();
    let shown = analyze(&[&path, "--sla", "ttft.mean<=2s"]).expect_code(0).stdout;
    for words in [
        "mean s",
        "fails ttft.mean",
        "CSV table",
        "50 passes, 100 fails",
        "best, limit",
    ] {
        assert!(shown.contains(words), "{words} not in\n{shown}");
    }
    for words in ["Seed", "Workload", "openai"] {
        assert!(!shown.contains(words), "{words} in\n{shown}");
    }
    let (header, _) = shown.split_once('─').unwrap();
    for column in ["req/s", "E2E", "errors", "achieved"] {
        assert!(!header.contains(column), "{column} in\n{header}");
    }
}

#[test]
fn files_of_other_benchmarks_are_told_by_their_content() {
    // AIPerf's own figures say that these short runs did not hold their levels.
    for (file, levels) in [
        ("profile_export_aiperf.json", &[8][..]),
        ("profile_export_aiperf_sweep.json", &[2, 4, 8]),
    ] {
        let document = analyze(&[&foreign(file), "--json"]).expect_code(5).json();
        let seen = verdicts(&document);
        assert_eq!(
            seen.iter().map(|rung| rung.0).collect::<Vec<_>>(),
            levels,
            "{file}"
        );
        assert!(seen.iter().all(|rung| rung.1 == "load-not-delivered"), "{file}");
    }
    let document = analyze(&[&foreign("profile_export_aiperf.json"), "--json"]).json();
    for (pointer, expected) in [
        ("/rungs/0/throughput/output_tokens_per_s", 320.112_215_977_535_3),
        ("/rungs/0/latency/ttft_ms/p95", 213.887_703_65),
        ("/rungs/0/latency/tpot_ms/mean", 1.990_788_186_666_666),
        ("/rungs/0/latency/itl_ms/p99", 4.438_089_149_999_996),
        ("/rungs/0/latency/e2e_ms/max", 242.920_279),
        ("/rungs/0/in_flight/mean", 4.783_055_160_181_536),
        ("/rungs/0/requests/ok", 10.0),
        ("/rungs/0/lengths/output/actual", 16.0),
    ] {
        let seen = number(&document, pointer);
        assert!((seen - expected).abs() < 1e-9, "{pointer}: {seen}");
    }
    assert_eq!(text(&document, "/target/model"), "mock-model");

    let document = analyze(&[&foreign("search_history.json"), "--json"])
        .expect_code(0)
        .json();
    assert_eq!(document["sla"], serde_json::json!(["ttft.p95<2000ms"]));
    assert_eq!(number(&document, "/plan/limit/concurrency"), 200.0);
    assert_eq!(text(&document, "/plan/limit/status"), "not_reached");
    assert_eq!(number(&document, "/plan/best/concurrency"), 32.0);

    // A server that decodes 24 at once, 10 ms + 0.5 ms each a token, 100 tokens, 0.1 s prefill: at 32 in flight TTFT
    // is 0.859 s, at 16 it is 0.1 s.
    for files in [
        vec!["guidellm.json"],
        vec!["bench_serving.jsonl"],
        vec!["bench_serve_32.json", "bench_serve_8.json"],
    ] {
        let paths: Vec<String> = files.iter().map(|file| foreign(file)).collect();
        let mut arguments: Vec<&str> = paths.iter().map(String::as_str).collect();
        arguments.extend(["--json", "--sla", "ttft.p50<=500ms"]);
        let document = analyze(&arguments).expect_code(0).json();
        let named = !files[0].ends_with('l');
        assert_eq!(document["target"]["model"] == "test-model", named, "{files:?}");
        let below = if files.len() == 2 { 8.0 } else { 16.0 };
        assert_eq!(number(&document, "/plan/limit/interval/0"), below, "{files:?}");
        assert_eq!(number(&document, "/plan/limit/interval/1"), 32.0, "{files:?}");
        if files.len() == 1 {
            let onset = number(&document, "/plan/queue_onset/concurrency");
            assert!((22.0..26.0).contains(&onset), "{files:?}: {onset}");
        }
    }
}

#[test]
fn a_run_of_our_own_as_csv_comes_back() {
    let folder = Folder::new();
    let rows = "concurrency,throughput_tok_s,req_s,itl_mean_ms,e2e_mean_ms,error_rate,n_requests,in_flight_mean,verdict,\
                sla_pass,order,window_s,requests_ok,requests_failed,output_tokens_mean,output_tokens_estimated\n\
                8,800,8,9,1000,0,500,8,valid,true,1,60,500,0,100,false\n\
                32,1500,15,20,2133,0,500,32,cache-warm,true,2,60,500,0,100,false\n";
    std::fs::write(folder.path().join("rungs.csv"), rows).unwrap();
    let document = folder
        .plimsoll(&["analyze", "rungs.csv", "--json"])
        .expect_code(0)
        .json();
    assert_eq!(verdicts(&document), [(8, "valid"), (32, "cache-warm")]);
    assert_eq!(number(&document, "/plan/limit/concurrency"), 8.0);
    assert!(!said(&document, "Unknown columns"));
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_remedy() {
    let cases: [(&[u8], &str); 16] = [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf \r\n", "the file is empty"),
        (b"concurrency,req_s\r\n", "no row"),
        (b"8,100\n16,200\n", "columns known are concurrency"),
        (b"load,req_s\n8,100\n", "no column `concurrency`"),
        (
            b"concurrency,req_s\n8,-1\n",
            "line 2, column `req_s`: `-1` is below 0",
        ),
        (b"concurrency,req_s\n8,1\n16,NaN\n", "line 3, column `req_s`"),
        (b"concurrency,req_s\n8,n/a\n", "leave the cell blank"),
        (b"concurrency,req_s\neight,1\n", "line 2, column `concurrency`"),
        (b"concurrency,req_s\n-8,1\n", "line 2, column `concurrency`"),
        (b"concurrency,req_s,error_rate\n8,1,12\n", "0.05 for 5 %"),
        (b"\xff\xfec\0o\0n\0", "UTF-8"),
        (b"{\"a\": 1", "no JSON"),
        (b"{\"a\": 1}", "tried AIPerf"),
        (b"{\"benchmarks\": []}", "without a single level"),
        (
            b"{\"schema\": \"plimsoll.run/1\"}",
            "`plimsoll plan` answers from it",
        ),
    ];
    for (bytes, expected) in cases {
        let folder = Folder::new();
        std::fs::write(folder.path().join("table"), bytes).unwrap();
        let finished = folder.plimsoll(&["analyze", "table"]).expect_code(2);
        assert!(
            finished.stderr.contains(expected),
            "{expected}: {}",
            finished.stderr
        );
        assert!(
            finished.stderr.starts_with("plimsoll: table: "),
            "{}",
            finished.stderr
        );
        assert_eq!(
            finished.stderr.trim_end().lines().count(),
            1,
            "{}",
            finished.stderr
        );
        assert!(finished.stdout.is_empty());
    }
    let folder = Folder::new();
    for (path, expected) in [("nowhere.csv", "nowhere.csv"), (".", "a folder")] {
        let finished = folder.plimsoll(&["analyze", path]).expect_code(2);
        assert!(finished.stderr.contains(expected), "{}", finished.stderr);
    }
    analyze(&[]).expect_code(2);
    analyze(&["x.csv", "--sla", "tfft.p95<=1s"]).expect_code(2);
}

#[test]
fn tables_as_people_write_them_are_read() {
    let plain = "concurrency,req_s,ttft_p95_ms\n4,4,100\n8,8,110\n16,9,900\n";
    let (_, expected) = table(plain, &["ttft.p95<=500ms"]);
    for rows in [
        "\u{feff}concurrency,req_s,ttft_p95_ms\r\n4,4,100\r\n8,8,110\r\n16,9,900\r\n",
        "TTFT p95 (s);Concurrency;Requests/s\n0,1;4;4,0\n0,11;8;8,0\n\n0,9;16;9,0\n",
        "# measured on a Monday\nconcurrency\trps\tp95 ttft [ms]\n16\t9\t900\n4\t4\t100\n8\t8\t110\n",
        "concurrency,req_s,ttft_p95_ms\n4,4,100\n8,8,110\n8,8,110\n16,9,900\n",
    ] {
        let (finished, document) = table(rows, &["ttft.p95<=500ms"]);
        assert_eq!(finished.code, 0);
        assert_eq!(document["plan"]["limit"], expected["plan"]["limit"], "{rows}");
        assert_eq!(document["plan"]["best"], expected["plan"]["best"], "{rows}");
    }
    let (_, document) = table(
        "concurrency,req_s,ttft_p95_ms,gpu\n4,4,100,a\n8,8,110,b\n8,8.1,115,b\n",
        &["ttft.p95<=500ms"],
    );
    assert!(said(&document, "Unknown columns were ignored: `gpu`"));
    assert!(said(&document, "further measurement of level 8"));
}
