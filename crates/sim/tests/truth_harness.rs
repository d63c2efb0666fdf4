//! A small truth harness; the large one is `cargo run --release -p plimsoll-sim --example truth_harness`.

#![expect(clippy::unwrap_used, reason = "a test may stop here")]
#![allow(dead_code, reason = "the harness prints more than is asserted here")]

#[path = "../examples/truth_harness/scenario.rs"]
mod scenario;
#[path = "../examples/truth_harness/strategy.rs"]
mod strategy;
#[path = "../examples/truth_harness/tally.rs"]
mod tally;

use std::time::Duration;

use plimsoll_plan::reduce;
use plimsoll_run::runner::{Rung, RungLimits, Runner, Watch};
use plimsoll_sim::runner::SimRunner;
use scenario::Scenario;
use strategy::{MAX_RUNGS, Strategy};
use tally::Tally;

const SEEDS: u64 = 4;

/// What must never happen, exactly; what holds on average, with room for four seeds.
fn check(tally: &Tally, rungs: f64, error: f64) {
    println!("{}\n{}", Tally::header(), tally.row());
    assert_eq!(
        tally.failing_reported, 0,
        "a failing level is reported as passing"
    );
    assert_eq!(tally.out_of_bounds, 0, "bounds and budgets are hard");
    assert_eq!(tally.unanswered, 0);
    assert!(tally.mean_rungs() <= rungs && tally.mean_rungs() <= f64::from(MAX_RUNGS));
    assert!(tally.mean_seconds() <= 850.0, "{} s", tally.mean_seconds());
    assert!(tally.rmse() <= error, "{}", tally.rmse());
    assert!(tally.overshoot.value() <= 0.25, "{:?}", tally.overshoot);
    for covered in [
        tally.limit_covered,
        tally.throughput_covered,
        tally.ttft_covered,
        tally.tpot_covered,
    ] {
        assert!(covered.value() >= 0.7, "{covered:?}");
    }
}

#[test]
fn a_smooth_limit_is_near_its_truth() {
    let scenario = Scenario::smooth(1_500);
    check(
        &Tally::of(&Strategy::Search("64,256,1024"), &scenario, 0..SEEDS),
        10.0,
        0.06,
    );
}

#[test]
fn a_cliff_is_near_its_truth() {
    let scenario = Scenario::cliff(1_500);
    check(
        &Tally::of(&Strategy::Search("64,256,1024"), &scenario, 0..SEEDS),
        11.0,
        0.08,
    );
}

/// 64 prefills at once at the start and a load that fades at the end would both sit in a window that took in all
/// requests: p99 TTFT several times the steady one, throughput too low.
#[test]
fn neither_the_start_nor_the_end_of_the_load_is_in_the_window() {
    let quick = plimsoll_sim::preset::quick();
    let truth = &plimsoll_sim::truth::truth(&quick.spec, &quick.workload, &[64], 5).unwrap()[0];
    let mut runner = SimRunner::new(quick.spec.clone(), quick.workload.clone(), 9);
    let rung = Rung {
        level: 64,
        order: 1,
        expected_response: Some(Duration::from_millis(300)),
        samples_wanted: 200,
        limits: RungLimits {
            requests: Some(3 * 64),
            ..RungLimits::default()
        },
    };
    let evidence = runner.measure(&rung, &Watch::new()).unwrap();
    let report = reduce(&evidence, 1, &quick.workload, &quick.sla).report;
    let ttft = report.latency.ttft_ms.unwrap();
    for (seen, true_value) in [
        (ttft.mean.unwrap(), truth.ttft.mean_ms),
        (ttft.p95.unwrap(), truth.ttft.p95_ms),
        (
            report.throughput.output_tokens_per_s.unwrap(),
            truth.output_tokens_per_s,
        ),
        (report.in_flight.mean.unwrap(), 64.0),
    ] {
        assert!((seen / true_value - 1.0).abs() < 0.05, "{seen} for {true_value}");
    }
}

#[test]
fn an_interrupted_search_asks_for_the_same_levels() {
    let scenario = Scenario::smooth(500);
    let whole = Strategy::Search("64,256,1024").run(&scenario, 7);
    let again = Strategy::Search("64,256,1024").run(&scenario, 7);
    let levels = |outcome: &strategy::Outcome| -> Vec<u32> {
        outcome.rungs.iter().map(|rung| rung.concurrency).collect()
    };
    assert_eq!(levels(&whole), levels(&again));
    // The search has no memory: from any prefix of the rungs it asks for the next one that was asked for.
    let search = strategy::search(&scenario, "64,256,1024");
    for length in 0..whole.rungs.len() {
        let mut prefix = whole.rungs[..length].to_vec();
        plimsoll_plan::compare(&mut prefix);
        match search.next(&prefix) {
            plimsoll_plan::Next::Measure { level, .. } => {
                assert_eq!(level, whole.rungs[length].concurrency, "after {length} rungs");
            }
            plimsoll_plan::Next::Finished { why } => panic!("finished after {length} rungs: {why}"),
        }
    }
}
