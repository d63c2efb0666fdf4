//! The main job as a newcomer runs it: `plimsoll sweep sim`, over real HTTP, against the engine's own truth.

#![expect(clippy::unwrap_used, reason = "a test fails where its helpers do")]

mod harness;

use harness::{Folder, number, text};
use plimsoll_sim::preset::quick;
use plimsoll_sim::truth::{TruthPoint, truth};
use serde_json::Value;

/// Where a value that grows with the level crosses `limit`, between the points by straight lines.
fn crossing(points: &[TruthPoint], value: impl Fn(&TruthPoint) -> f64, limit: f64) -> f64 {
    let at = points.iter().position(|point| value(point) >= limit).unwrap();
    let (before, after) = (&points[at - 1], &points[at]);
    let share = (limit - value(before)) / (value(after) - value(before));
    f64::from(before.level) + share * f64::from(after.level - before.level)
}

/// The knee and the limit of the same model, computed in virtual time on a fine grid.
fn engine_truth() -> (f64, f64) {
    let preset = quick();
    let levels: Vec<u32> = (64..=272).step_by(4).collect();
    let points = truth(&preset.spec, &preset.workload, &levels, 7).unwrap();
    let plateau = points
        .iter()
        .map(|point| point.output_tokens_per_s)
        .fold(0.0, f64::max);
    let knee = crossing(&points, |point| point.output_tokens_per_s, 0.95 * plateau);
    // Of the preset's SLA only the TTFT term crosses; TPOT levels off below its limit.
    assert_eq!(preset.sla.to_string(), "ttft.p95<=250ms and tpot.p95<=30ms");
    assert!(points.iter().all(|point| point.tpot.p95_ms < 30.0));
    let limit = crossing(&points, |point| point.ttft.p95_ms, 250.0);
    (knee, limit)
}

#[test]
fn the_first_sweep_finds_knee_and_limit_of_the_engine_itself() {
    let (knee, limit) = engine_truth();
    let folder = Folder::new();
    let finished = folder.plimsoll(&["sweep", "sim", "--json"]).expect_code(0);
    let run = finished.json();
    assert_eq!(run, folder.run_json());

    let found = number(&run, "/plan/knee/concurrency");
    assert_eq!(text(&run, "/plan/knee/status"), "saturated");
    assert!(
        (found / knee - 1.0).abs() <= 0.10,
        "knee {found}, in truth {knee}: {:#}",
        run["plan"]
    );
    let found = number(&run, "/plan/limit/concurrency");
    assert_eq!(text(&run, "/plan/limit/status"), "crossed");
    assert!(
        (found / limit - 1.0).abs() <= 0.10,
        "limit {found}, in truth {limit}: {:#}",
        run["plan"]
    );
    let bracket = number(&run, "/plan/limit/interval/1") / number(&run, "/plan/limit/interval/0");
    // The search goes on until 1.645 standard errors are 5 %; the interval is 1.96 of them to either side.
    assert!(
        bracket <= 1.06 / 0.94,
        "known within 5 %: {:#}",
        run["plan"]["limit"]
    );

    let best = number(&run, "/plan/best/concurrency");
    assert!(best <= found && best >= 0.9 * knee, "{:#}", run["plan"]);
    assert!(
        number(&run, "/plan/instances/count") >= 3.0,
        "1000 requests/s at some 340 each"
    );
    for answer in ["best", "limit", "knee", "instances"] {
        assert!(!text(&run, &format!("/plan/{answer}/reason")).is_empty());
    }
    let rungs = run["rungs"].as_array().unwrap();
    assert!(rungs.len() <= 11, "{} rungs", rungs.len());
    let levels: Vec<&Value> = rungs.iter().map(|rung| &rung["concurrency"]).collect();
    assert_eq!(levels[..3], [64, 256, 1024], "the ladder comes first");
    assert!(folder.run_directory().join("report.html").exists());
}
