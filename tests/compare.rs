//! `plimsoll compare` and the formats that other tools read, on runs of the engine model in virtual time.

#![expect(
    clippy::unwrap_used,
    reason = "a helper that cannot write its folder fails its test"
)]

mod harness;

use harness::{Folder, number, text};

const LEVELS: [&str; 3] = ["--levels", "16,64", "--json"];

/// Keeps a predicted run as `NAME/run.json`.
fn predicted(folder: &Folder, name: &str, flags: &[&str]) -> serde_json::Value {
    let mut arguments = vec!["predict"];
    arguments.extend(LEVELS);
    arguments.extend(flags);
    let finished = folder.plimsoll(&arguments).expect_code(0);
    let directory = folder.path().join(name);
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("run.json"), &finished.stdout).unwrap();
    finished.json()
}

#[test]
fn a_regression_is_found_and_noise_is_not() {
    let folder = Folder::new();
    let base = predicted(&folder, "base", &["--seed", "1"]);
    predicted(&folder, "again", &["--seed", "2"]);
    folder
        .plimsoll(&["compare", "base", "again", "--gate"])
        .expect_code(0);
    // The same run on a server whose every figure is a fifth worse.
    let mut slow = base.clone();
    let factor = |value: &mut serde_json::Value, by: f64| {
        if let Some(number) = value.as_f64() {
            *value = (number * by).into();
        }
    };
    for rung in slow["rungs"].as_array_mut().unwrap() {
        for rate in ["requests_per_s", "output_tokens_per_s"] {
            factor(&mut rung["throughput"][rate], 0.8);
        }
        for ends in ["requests_ci95", "output_tokens_ci95"] {
            factor(&mut rung["throughput"][ends][0], 0.8);
            factor(&mut rung["throughput"][ends][1], 0.8);
        }
    }
    std::fs::create_dir(folder.path().join("slow")).unwrap();
    std::fs::write(folder.path().join("slow/run.json"), slow.to_string()).unwrap();
    let without_gate = folder.plimsoll(&["compare", "base", "slow"]).expect_code(0);
    assert!(
        without_gate.stdout.contains("-20 % worse"),
        "{}",
        without_gate.stdout
    );
    let gated = folder
        .plimsoll(&["compare", "base", "slow", "--gate", "--json"])
        .expect_code(4)
        .json();
    assert_eq!(gated["runs"][0]["regressed"], true);
    let changes = gated["runs"][0]["changes"].as_array().unwrap();
    let change = changes
        .iter()
        .find(|change| change["what"] == "output tokens/s" && change["level"] == 64)
        .unwrap();
    assert!((number(change, "/change") + 0.2).abs() < 1e-9, "{change}");
    // Better is no regression.
    folder
        .plimsoll(&["compare", "slow", "base", "--gate"])
        .expect_code(0);
}

#[test]
fn unequal_workloads_are_refused_aloud() {
    let folder = Folder::new();
    predicted(&folder, "base", &[]);
    predicted(&folder, "other", &["--output-tokens", "32"]);
    let finished = folder.plimsoll(&["compare", "base", "other"]).expect_code(2);
    assert!(
        finished.stderr.contains("another workload") && finished.stderr.contains("output_tokens"),
        "{finished:#?}"
    );
    assert!(finished.stdout.is_empty());
}

#[test]
fn a_run_reads_back_from_aiperfs_shape_and_as_junit() {
    let folder = Folder::new();
    let run = predicted(&folder, "run", &[]);
    let exported = folder
        .plimsoll(&["report", "run", "--format", "aiperf", "-o", "sweep.json"])
        .expect_code(0);
    assert!(exported.stdout.is_empty());
    let analyzed = folder
        .plimsoll(&["analyze", "sweep.json", "--json"])
        .expect_code(0)
        .json();
    for (at, rung) in run["rungs"].as_array().unwrap().iter().enumerate() {
        let back = &analyzed["rungs"][at];
        for place in [
            "/concurrency",
            "/throughput/output_tokens_per_s",
            "/throughput/requests_per_s",
            "/latency/ttft_ms/p95",
            "/latency/tpot_ms/mean",
            "/latency/e2e_ms/p99",
            "/in_flight/mean",
        ] {
            assert_eq!(rung.pointer(place), back.pointer(place), "{place}");
        }
    }
    let junit = folder
        .plimsoll(&["report", "run", "--format", "junit"])
        .expect_code(0)
        .stdout;
    assert!(junit.starts_with("<?xml"), "{junit}");
    assert!(
        junit.contains("name=\"level 64\"") && junit.contains("name=\"SLA limit\""),
        "{junit}"
    );
    assert!(junit.contains("failures=\"0\""), "{junit}");
    // An SLA that no level meets fails its tests.
    let failing = folder
        .plimsoll(&["plan", "run", "--sla", "ttft.p95<=1ms", "--json"])
        .expect_code(3);
    std::fs::write(folder.path().join("failing.json"), &failing.stdout).unwrap();
    let junit = folder
        .plimsoll(&["report", "failing.json", "--format", "junit"])
        .expect_code(0)
        .stdout;
    assert!(junit.contains("<failure"), "{junit}");
    assert_eq!(text(&run, "/schema"), "plimsoll.run/1");
}
