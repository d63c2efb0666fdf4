//! `--verify` and the demand it rests on, against a server whose truth is scripted.

mod harness;

use std::time::Duration;

use harness::{Folder, number, text};
use plimsoll_scripted::{Script, Scripted};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const SMALL: [&str; 10] = [
    "--input-tokens",
    "32",
    "--output-tokens",
    "4",
    "--warmup",
    "500ms",
    "--rung-time",
    "4s",
    "--sla",
    "e2e.p95<=1s",
];

#[test]
fn the_safe_rate_of_one_replica_is_replayed_and_holds() {
    // Eight at once, 100 ms each: 80/s at most, and a queue before them for a limit of 1 s.
    let server = Scripted::start(Script::default().ttft(ms(100)).slots(8)).unwrap();
    let folder = Folder::new();
    let url = server.url();
    let mut arguments = vec!["sweep", &url, "--levels", "4,16,32", "--verify", "--json"];
    arguments.extend(SMALL);
    let run = folder.plimsoll(&arguments).expect_code(0).json();
    let seen = &run["verification"];
    assert_eq!(text(seen, "/arrivals"), "poisson");
    let rate = number(seen, "/rate_per_s");
    assert!(rate > 30.0 && rate < 80.0, "{seen:#}");
    assert_eq!(number(seen, "/duration_s"), 4.0);
    // A Poisson count: within four standard deviations of its mean.
    let requests = number(seen, "/requests");
    assert!(
        (requests - 4.0 * rate).abs() < 4.0 * (4.0 * rate).sqrt(),
        "{seen:#}"
    );
    assert!(number(seen, "/latency/e2e_ms/p50") >= 99.0, "{seen:#}");
    assert!(number(seen, "/dispatch_delay_ms/p50") < 100.0, "{seen:#}");
    assert_eq!(seen["held"], true, "{seen:#}");
    assert_eq!(run["status"], "complete");
    // Its raw requests stand in the run directory, where run.json says.
    let kept = folder.run_directory().join(text(seen, "/requests_file"));
    let bytes = std::fs::read(kept).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    // A complete run has no rung left to measure: resumed with --verify, it is replayed again and nothing else.
    let again = folder
        .plimsoll(&[
            "resume",
            folder.run_directory().to_str().unwrap(),
            "--verify",
            "--json",
        ])
        .expect_code(0)
        .json();
    assert_eq!(again["rungs"], run["rungs"]);
    assert_eq!(again["verification"]["held"], true, "{again:#}");
    assert_ne!(again["verification"]["latency"], seen["latency"]);
    let printed = folder
        .plimsoll(&["report", folder.run_directory().to_str().unwrap()])
        .expect_code(0);
    assert!(printed.stdout.contains("Verified"), "{}", printed.stdout);
}

#[test]
fn what_has_no_safe_rate_is_not_verified() {
    let server = Scripted::start(Script::default().ttft(ms(100)).slots(8)).unwrap();
    let folder = Folder::new();
    let url = server.url();
    let run = folder
        .plimsoll(&[
            "sweep",
            &url,
            "--levels",
            "2",
            "--rung-time",
            "2s",
            "--warmup",
            "0",
            "--input-tokens",
            "32",
            "--output-tokens",
            "4",
            "--sla",
            "e2e.p95<=10ms",
            "--verify",
            "--json",
        ])
        .expect_code(3)
        .json();
    assert!(run["verification"]["held"].is_null());
    assert!(run["verification"]["rate_per_s"].is_null());
    assert!(text(&run, "/verification/reason").contains("Not verified"));
}

#[test]
fn the_demand_is_kept_and_asked_again() {
    let folder = Folder::new();
    // Pairs every second for two minutes: two a second, cv2 near 1.
    let trace: String = (0..240).map(|n| format!("{}\n", n / 2)).collect();
    std::fs::write(folder.path().join("trace.txt"), format!("timestamp\n{trace}")).unwrap();
    let run = folder
        .plimsoll(&[
            "predict",
            "--json",
            "--peak-trace",
            "trace.txt",
            "--routing",
            "random",
            "--growth",
            "0.03",
            "--startup",
            "10m",
            "--scaling-efficiency",
            "0.9",
            "--failures",
            "1",
        ])
        .expect_code(0)
        .json();
    assert_eq!(run["peak"], "2rps");
    let demand = &run["demand"];
    assert!((number(demand, "/arrival_cv2") - 1.0).abs() < 0.05, "{demand:#}");
    assert_eq!(demand["routing"], "random");
    assert_eq!(number(demand, "/startup_s"), 600.0);
    assert_eq!(demand["trace"], "trace.txt");
    // 3 % a minute for ten minutes.
    let peak = number(&run, "/plan/instances/peak_per_s");
    assert!((peak - 2.0 * 1.03_f64.powi(10)).abs() < 1e-6, "{peak}");
    // The saved run keeps it: planning again without flags gives the same count, another burstiness another.
    let saved = folder.path().join("saved");
    std::fs::create_dir(&saved).unwrap();
    std::fs::write(saved.join("run.json"), run.to_string()).unwrap();
    let again = folder
        .plimsoll(&["plan", "saved", "--json"])
        .expect_code(0)
        .json();
    assert_eq!(again["plan"]["instances"], run["plan"]["instances"]);
    let bursty = folder
        .plimsoll(&["plan", "saved", "--json", "--burstiness", "10"])
        .expect_code(0)
        .json();
    assert!(
        number(&bursty, "/plan/instances/per_instance_per_s")
            < number(&run, "/plan/instances/per_instance_per_s")
    );
}

#[test]
fn a_bad_trace_or_flag_is_a_usage_error_that_names_the_place() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("bad.txt"), "1\n2\noops\n").unwrap();
    for (arguments, expected) in [
        (vec!["--peak-trace", "bad.txt"], "line 3"),
        (vec!["--peak-trace", "none.txt"], "none.txt"),
        (vec!["--burstiness", "1001"], "squared coefficient"),
        (vec!["--routing", "randon"], "did you mean `random`"),
        (vec!["--growth", "x"], "fraction a minute"),
        (vec!["--scaling-efficiency", "0"], "0.01 to 1"),
        (vec!["--peak", "4rps", "--peak-trace", "bad.txt"], "bad.txt"),
    ] {
        let mut all = vec!["predict"];
        all.extend(&arguments);
        let finished = folder.plimsoll(&all).expect_code(2);
        assert!(finished.stderr.contains(expected), "{finished:#?}");
    }
    std::fs::write(folder.path().join("plimsoll.toml"), "[peak]\nburstines = 4\n").unwrap();
    let finished = folder.plimsoll(&["sweep", "sim", "--quiet"]).expect_code(2);
    assert!(
        finished.stderr.contains("did you mean `burstiness`"),
        "{finished:#?}"
    );
    std::fs::write(folder.path().join("plimsoll.toml"), "[peak]\nburstiness = -4\n").unwrap();
    let finished = folder.plimsoll(&["sweep", "sim", "--quiet"]).expect_code(2);
    assert!(finished.stderr.contains("squared coefficient"), "{finished:#?}");
}
