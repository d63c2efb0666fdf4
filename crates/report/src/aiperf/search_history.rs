//! A run in the shape of AIPerf's `search_history.json`: the search for the highest concurrency under an SLA.

use plimsoll_run::answer::LimitStatus;
use plimsoll_run::document::Run;
use plimsoll_run::rung::{RungReport, TermOutcome};
use plimsoll_run::sla::{Metric, Op, SlaTerm, Stat};
use serde_json::{Value, json};

use crate::figures::finite;

/// The dimension that is searched.
const CONCURRENCY: &str = "phases.profiling.concurrency";

/// The run as AIPerf writes its search `max-concurrency-under-sla`.
#[must_use]
pub fn aiperf_search_history(run: &Run) -> String {
    let levels = || run.rungs.iter().map(|rung| rung.concurrency);
    let (lo, hi) = run.search.as_ref().map_or_else(
        || (levels().min().unwrap_or(1), levels().max().unwrap_or(1)),
        |search| (search.min, search.max),
    );
    let filters: Vec<Value> = run.sla.terms.iter().map(filter).collect();
    let iterations: Vec<Value> = run
        .rungs
        .iter()
        .enumerate()
        .map(|(at, rung)| {
            json!({
                "iteration_idx": at,
                "variation_values": {CONCURRENCY: rung.concurrency},
                "objective_values": objective(rung).map(|value| [value]),
                "feasible": feasible(rung),
                "non_monotonic_warning": contradicts(rung, &run.rungs[..at]),
            })
        })
        .collect();
    let document = json!({
        "config": {
            "planner": "plimsoll",
            "objectives": [{
                "metric": "output_token_throughput", "stat": "avg", "direction": "MAXIMIZE", "threshold": null,
            }],
            "outcome_constraints": [],
            "max_iterations": run.search.as_ref().and_then(|search| search.max_rungs),
            "n_initial_points": run.search.as_ref().map(|search| search.levels.len()),
            "random_seed": run.seed,
            "search_space": [{"path": CONCURRENCY, "lo": lo, "hi": hi, "kind": "int"}],
            "sla_filters": filters,
        },
        "iterations": iterations,
        "best_trials": best_trial(run).map(|trial| [trial]),
        "boundary_summary": boundary(run),
        "recipe": "max-concurrency-under-sla",
        "convergence_reason": match run.plan.limit.as_ref().map(|limit| limit.status) {
            Some(LimitStatus::Crossed) => "plimsoll_limit_crossed",
            Some(LimitStatus::NotReached) => "plimsoll_no_failure_in_range",
            Some(LimitStatus::NeverMet) => "plimsoll_no_success_in_range",
            None => "plimsoll_no_limit",
        },
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// A rung that may be believed and meets the SLA.
fn feasible(rung: &RungReport) -> bool {
    rung.validity.may_decide() && rung.meets_sla() == Some(true)
}

fn fails(rung: &RungReport) -> bool {
    rung.validity.may_decide() && rung.meets_sla() == Some(false)
}

/// Whether a rung passes above one that failed, or fails below one that passed.
fn contradicts(rung: &RungReport, before: &[RungReport]) -> bool {
    before.iter().any(|other| {
        (feasible(rung) && fails(other) && other.concurrency < rung.concurrency)
            || (fails(rung) && feasible(other) && other.concurrency > rung.concurrency)
    })
}

fn objective(rung: &RungReport) -> Option<f64> {
    finite(rung.throughput.output_tokens_per_s)
}

/// The rung that a level's answer stands on: the last that may be believed.
fn of_level(run: &Run, level: u32) -> Option<(usize, &RungReport)> {
    let at = run
        .rungs
        .iter()
        .rposition(|rung| rung.concurrency == level && rung.validity.may_decide())?;
    Some((at, &run.rungs[at]))
}

fn best_trial(run: &Run) -> Option<Value> {
    let level = run.plan.largest_throughput_under_sla.as_ref()?.concurrency;
    let (at, rung) = of_level(run, level)?;
    Some(json!({
        "iteration_idx": at,
        "objective_values": objective(rung).map(|value| [value]),
        "variation_values": {CONCURRENCY: level},
        "feasible": true,
        "feasible_count": run.rungs.iter().filter(|rung| feasible(rung)).count(),
        "pareto_rank": 0,
    }))
}

fn boundary(run: &Run) -> Value {
    let passing = run
        .plan
        .largest_passing
        .as_ref()
        .and_then(|answer| of_level(run, answer.concurrency));
    let failing = run
        .rungs
        .iter()
        .enumerate()
        .filter(|(_, rung)| fails(rung))
        .min_by_key(|(_, rung)| rung.concurrency);
    json!({
        "swept_dim_path": CONCURRENCY,
        "feasible_max": passing.map(|(at, rung)| json!({
            "value": rung.concurrency, "iteration_idx": at, "objective_value": objective(rung),
        })),
        "infeasible_min": failing.map(|(at, rung)| json!({
            "value": rung.concurrency,
            "iteration_idx": at,
            "first_breach": rung.sla.iter().find(|outcome| outcome.pass == Some(false)).map(breach),
        })),
        "boundary_type": "concurrency",
        "binding_constraint": run.plan.limit.as_ref().and_then(|limit| limit.binding.clone()),
    })
}

fn filter(term: &SlaTerm) -> Value {
    let tag = match term.metric {
        Metric::Ttft => "time_to_first_token",
        Metric::Ttfat => "time_to_first_output_token",
        Metric::Tpot => "inter_token_latency",
        Metric::Itl => "inter_chunk_latency",
        Metric::E2e => "request_latency",
        Metric::ErrorRate => "request_error_rate",
    };
    let stat = match term.stat {
        None | Some(Stat::Mean) => "avg",
        Some(stat) => stat.name(),
    };
    let op = match term.op {
        Op::Below => "lt",
        Op::AtMost => "le",
    };
    json!({"metric_tag": tag, "stat": stat, "op": op, "threshold": scaled(term, term.limit)})
}

/// AIPerf's error rate is in percent.
fn scaled(term: &SlaTerm, value: f64) -> f64 {
    if term.metric == Metric::ErrorRate {
        value * 100.0
    } else {
        value
    }
}

fn breach(outcome: &TermOutcome) -> Value {
    let mut breach = filter(&outcome.term);
    breach["observed"] = finite(outcome.observed)
        .map(|value| scaled(&outcome.term, value))
        .into();
    breach
}
