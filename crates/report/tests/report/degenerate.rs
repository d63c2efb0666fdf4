//! Runs that nobody wishes for: every report is written, and what was not measured is a dash.

use plimsoll_report::terminal::{Style, answer, rung_line, table};
use plimsoll_report::{csv, html, markdown};
use plimsoll_run::answer::{KneeStatus, LimitStatus, Plan};
use plimsoll_run::document::{Run, Status};
use plimsoll_run::evidence::StopReason;
use plimsoll_run::rung::{
    Distribution, InFlight, Latencies, Lengths, RequestCounts, RungReport, ServerSide, Throughput,
    TimelineSecond,
};
use plimsoll_run::validity::{Validity, Verdict};
use proptest::prelude::*;

use crate::fixture;
use crate::page::figures;

/// Writes every report and checks what holds of any: no NaN, no infinity, JSON that reads.
fn write_all(run: &Run, timelines: &[(u32, Vec<TimelineSecond>)]) -> String {
    let mut all = String::new();
    for width in [None, Some(0), Some(20), Some(80), Some(200)] {
        let style = Style { colour: false, width };
        all.push_str(&table(run, &style));
        all.push_str(&answer(run, &style));
        let painted = Style { colour: true, width };
        all.push_str(&table(run, &painted));
        all.push_str(&answer(run, &painted));
    }
    for rung in &run.rungs {
        let line = rung_line(rung);
        assert!(!line.contains('\n'));
        all.push_str(&line);
    }
    all.push_str(&markdown(run));
    all.push_str(&csv(run).unwrap());
    let page = html(run, timelines);
    let figures = figures(&page);
    assert!(figures["charts"].is_object());
    let body = &page[..page.find("<script type=\"text/javascript\">").unwrap()];
    all.push_str(body);
    for word in ["NaN", " inf", "-inf", "infinity"] {
        assert!(!all.contains(word), "{word} in\n{all}");
    }
    all
}

/// A rung of which nothing was measured.
fn blank(level: u32, order: u32) -> RungReport {
    RungReport {
        concurrency: level,
        order,
        validity: Validity {
            verdict: Verdict::Errors,
            reasons: Vec::new(),
        },
        stopped: StopReason::Errors,
        warmup_s: None,
        window_s: None,
        in_flight: InFlight::default(),
        requests: RequestCounts::default(),
        lengths: Lengths::default(),
        throughput: Throughput::default(),
        latency: Latencies::default(),
        sla: Vec::new(),
        server: ServerSide::default(),
        client: None,
    }
}

#[test]
fn a_run_without_rungs_is_reported() {
    let mut run = fixture::run();
    run.rungs.clear();
    run.plan = Plan::default();
    run.status = Status::Failed;
    let all = write_all(&run, &[]);
    assert!(all.contains("No rung was measured."));
    assert!(all.contains("No level was measured."));
    assert!(all.contains("No timelines were kept with this run."));
    assert!(all.contains("Best concurrency  –"));
}

#[test]
fn a_run_of_nulls_is_reported() {
    let mut run = fixture::run();
    run.rungs = vec![blank(64, 1), blank(64, 2), blank(0, 3), blank(u32::MAX, 4)];
    run.plan = Plan::default();
    run.target.model = None;
    run.target.engine = None;
    let all = write_all(&run, &[(1, Vec::new()), (9, vec![TimelineSecond::default()])]);
    assert!(all.contains("No throughput was measured."));
    assert!(all.contains("No latency was measured."));
    assert!(all.contains("No level measured may be believed"));
}

#[test]
fn a_run_before_its_first_window_is_reported() {
    let mut run = fixture::run();
    run.rungs = vec![blank(64, 1)];
    let seconds = vec![TimelineSecond {
        second: u32::MAX,
        in_window: true,
        in_flight: f64::NAN,
        output_tokens: f64::INFINITY,
        ..TimelineSecond::default()
    }];
    write_all(&run, &[(1, seconds)]);
}

#[test]
fn limits_of_every_kind_are_reported() {
    for status in [
        LimitStatus::Crossed,
        LimitStatus::NotReached,
        LimitStatus::NeverMet,
    ] {
        for concurrency in [None, Some(0), Some(64)] {
            for low in [None, Some(f64::NAN), Some(0.0), Some(64.0)] {
                for high in [None, Some(f64::INFINITY), Some(-1.0), Some(320.0)] {
                    let mut run = fixture::run();
                    let limit = run.plan.limit.as_mut().unwrap();
                    limit.status = status;
                    limit.concurrency = concurrency;
                    limit.interval = [low, high];
                    let style = Style::default();
                    let shown = answer(&run, &style) + &table(&run, &style) + &markdown(&run);
                    assert!(!shown.contains("NaN") && !shown.contains("inf "), "{shown}");
                }
            }
        }
    }
}

/// Any float a file or a bug could bring.
fn any_float() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        Just(None),
        Just(Some(0.0)),
        Just(Some(f64::NAN)),
        Just(Some(f64::INFINITY)),
        Just(Some(f64::NEG_INFINITY)),
        Just(Some(f64::MAX)),
        Just(Some(f64::MIN_POSITIVE)),
        any::<f64>().prop_map(Some),
        (0.0..1e6_f64).prop_map(Some),
    ]
}

fn any_rung() -> impl Strategy<Value = RungReport> {
    let floats = proptest::collection::vec(any_float(), 12);
    (any::<u32>(), any::<u32>(), floats, any::<u64>(), any::<bool>()).prop_map(
        |(level, order, f, n, believed)| {
            let distribution = Distribution {
                n,
                mean: f[0],
                p50: f[1],
                p95: f[2],
                p99: f[3],
                ..Distribution::default()
            };
            let mut rung = blank(level, order);
            if believed {
                rung.validity = Validity::valid();
            }
            rung.in_flight.mean = f[4];
            rung.throughput.requests_per_s = f[5];
            rung.throughput.output_tokens_per_s = f[6];
            rung.throughput.output_tokens_ci95 = Some([f[7], f[8]]);
            rung.latency.ttft_ms = Some(distribution.clone());
            rung.latency.tpot_ms = f[9].map(|_| distribution.clone());
            rung.latency.e2e_ms = Some(distribution);
            rung.lengths.output.actual = f[10];
            rung.lengths.input.asked = f[11];
            rung.requests.sent = n;
            rung.requests.ok = n / 2;
            rung.requests.failed = n / 3;
            rung
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn case_17_no_infinity_breaks_a_report(
        rungs in proptest::collection::vec(any_rung(), 0..5),
        plan in proptest::collection::vec(any_float(), 16),
        saturated: bool,
    ) {
        let mut run = fixture::run();
        run.rungs = rungs;
        let best = run.plan.best.as_mut().unwrap();
        (best.interval, best.requests_per_s, best.output_tokens_per_s) = ([plan[0], plan[1]], plan[2], plan[3]);
        let knee = run.plan.knee.as_mut().unwrap();
        (knee.concurrency, knee.interval, knee.plateau) = (plan[4].unwrap_or(f64::NAN), [plan[5], plan[6]], plan[7]);
        if !saturated {
            knee.status = KneeStatus::NotSaturated;
        }
        let limit = run.plan.limit.as_mut().unwrap();
        limit.interval = [plan[8], plan[9]];
        let instances = run.plan.instances.as_mut().unwrap();
        instances.per_instance_per_s = plan[10];
        instances.safe_fraction = plan[11];
        instances.headroom = plan[12];
        let cost = run.plan.cost.as_mut().unwrap();
        (cost.per_million_output_tokens, cost.fleet_per_hour) = (plan[13], plan[14]);
        run.price_per_hour = plan[15];
        let timelines = fixture::timelines(&run);
        write_all(&run, &timelines);
    }
}
