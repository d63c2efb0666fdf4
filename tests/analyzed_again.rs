//! The document of an analyzed table is a run like any other: `plan` and `report` open it, and answer as `analyze` does.

#![expect(clippy::unwrap_used, reason = "a test may stop here")]

mod harness;

use std::path::Path;

use harness::{Finished, Folder, curve, number, text};
use serde_json::Value;

/// Analyzes a file and keeps the document as `run.json`.
fn kept(folder: &Folder, file: &Path, question: &[&str]) -> Finished {
    let path = file.display().to_string();
    let mut arguments = vec!["analyze", path.as_str(), "--json"];
    arguments.extend(question);
    let finished = folder.plimsoll(&arguments);
    std::fs::write(folder.path().join("run.json"), &finished.stdout).unwrap();
    finished
}

fn plan(folder: &Folder, question: &[&str]) -> Finished {
    let mut arguments = vec!["plan", "run.json", "--json"];
    arguments.extend(question);
    folder.plimsoll(&arguments)
}

/// Documents apart from the command that made them.
fn content(finished: &Finished) -> Value {
    let mut document = finished.json();
    document["command"] = Value::Null;
    document
}

/// Where two documents differ first; empty where they do not.
fn difference(a: &Value, b: &Value, at: &str) -> String {
    match (a, b) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys());
            let differences = keys.map(|key| difference(&a[key], &b[key], &format!("{at}/{key}")));
            differences
                .into_iter()
                .find(|found| !found.is_empty())
                .unwrap_or_default()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            let differences = pairs.map(|(place, (a, b))| difference(a, b, &format!("{at}/{place}")));
            differences
                .into_iter()
                .find(|found| !found.is_empty())
                .unwrap_or_default()
        }
        _ if a == b => String::new(),
        _ => format!("{at}: {a} and {b}"),
    }
}

const QUESTIONS: [&[&str]; 3] = [
    // Each says all that the others say, so that none inherits.
    &[
        "--sla",
        "ttft.mean<=2s",
        "--peak",
        "5rps",
        "--price",
        "12",
        "--spares",
        "1",
        "--burstiness",
        "1",
    ],
    &[
        "--sla",
        "tpot.mean<=20ms",
        "--sla",
        "error_rate<=0.1",
        "--peak",
        "0rps",
        "--price",
        "1",
        "--spares",
        "0",
        "--burstiness",
        "1",
    ],
    &[
        "--sla",
        "e2e.p95<=30s",
        "--peak",
        "100users:think=10s",
        "--burstiness",
        "4",
        "--price",
        "3",
        "--spares",
        "2",
    ],
];

#[test]
fn every_curve_answers_again_as_it_did_under_any_question() {
    for number in [
        "01", "02", "04", "06", "07", "08", "10", "11", "13", "14", "16", "18", "20", "22", "24", "32",
    ] {
        let file = curve(number);
        for (at, first) in QUESTIONS.iter().enumerate() {
            let folder = Folder::new();
            let analyzed = kept(&folder, &file, first);
            let same = plan(&folder, &[]);
            let differs = difference(&content(&same), &content(&analyzed), "");
            assert!(differs.is_empty(), "{number} {first:?} {differs}");
            assert_eq!(same.code, analyzed.code, "{number} {first:?}: {}", same.stderr);
            // Another question of the saved table is the same question of the table itself.
            let other = QUESTIONS[(at + 1) % QUESTIONS.len()];
            let expected = kept(&Folder::new(), &file, other);
            let answered = plan(&folder, other);
            for part in ["sla", "rungs", "peak", "plan"] {
                let differs = difference(&answered.json()[part], &expected.json()[part], part);
                assert!(differs.is_empty(), "{number} {first:?} {other:?} {differs}");
            }
            assert_eq!(answered.code, expected.code, "{number} {first:?} {other:?}");
        }
    }
}

#[test]
fn files_of_other_benchmarks_are_reopened_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import");
    for file in [
        "profile_export_aiperf.json",
        "profile_export_aiperf_sweep.json",
        "search_history.json",
        "guidellm.json",
        "bench_serving.jsonl",
        "bench_serve_32.json",
    ] {
        let run = Folder::new();
        let analyzed = kept(&run, &folder.join(file), &["--peak", "20rps"]);
        let again = plan(&run, &[]);
        assert_eq!(
            difference(&content(&again), &content(&analyzed), ""),
            "",
            "{file}"
        );
        assert_eq!(again.code, analyzed.code, "{file}");
    }
}

#[test]
fn what_a_table_says_without_a_number_survives() {
    // An error rate without the number of requests, and passes without a value.
    let rows = "concurrency,req_s,error_rate,sla_pass\n4,4,0,true\n8,7.5,0.04,true\n16,9,0.3,false\n";
    let run = Folder::new();
    let file = run.path().join("table.csv");
    std::fs::write(&file, rows).unwrap();
    let analyzed = kept(&run, &file, &["--sla", "error_rate<=0.05"]);
    assert_eq!(analyzed.json()["rungs"][1]["requests"]["failed"], Value::Null);
    let again = plan(&run, &[]);
    assert_eq!(difference(&content(&again), &content(&analyzed), ""), "");
    assert_eq!(number(&again.json(), "/plan/limit/interval/0"), 8.0);
    assert_eq!(number(&again.json(), "/rungs/1/sla/0/observed"), 0.04);
    let strict = plan(&run, &["--sla", "error_rate<=0.01"]).expect_code(0).json();
    assert_eq!(number(&strict, "/plan/limit/interval/0"), 4.0);
    assert_eq!(number(&strict, "/plan/limit/interval/1"), 8.0);
}

#[test]
fn a_reopened_table_is_shown_as_one() {
    let run = Folder::new();
    kept(&run, &curve("01"), &["--sla", "ttft.mean<=2s"]);
    let shown = run.plimsoll(&["plan", "run.json"]).expect_code(0).stdout;
    assert!(shown.contains("CSV table"), "{shown}");
    for made_up in ["Seed", "Workload", "openai"] {
        assert!(!shown.contains(made_up), "{made_up} in\n{shown}");
    }
    for format in ["table", "json", "csv", "markdown", "html"] {
        run.plimsoll(&["report", "run.json", "--format", format])
            .expect_code(0);
    }
    // There is no target to go on with.
    let resumed = run.plimsoll(&["resume", "run.json"]).expect_code(2);
    assert_eq!(resumed.stderr.trim_end().lines().count(), 1, "{}", resumed.stderr);
}

#[test]
fn documents_with_holes_are_refused_in_one_line() {
    let run = Folder::new();
    kept(&run, &curve("01"), &[]);
    let text_of = std::fs::read_to_string(run.path().join("run.json")).unwrap();
    let document: Value = serde_json::from_str(&text_of).unwrap();
    assert_eq!(text(&document, "/schema"), "plimsoll.run/1");
    for pointer in [
        "/rungs/0/concurrency",
        "/rungs/0/validity",
        "/table/rows",
        "/sla",
        "/plan",
    ] {
        let mut broken = document.clone();
        *broken.pointer_mut(pointer).unwrap() = Value::Null;
        std::fs::write(run.path().join("run.json"), broken.to_string()).unwrap();
        let finished = plan(&run, &[]).expect_code(2);
        assert_eq!(
            finished.stderr.trim_end().lines().count(),
            1,
            "{}",
            finished.stderr
        );
    }
}
