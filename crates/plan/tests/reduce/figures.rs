//! What the figures of a rung are, and how they stand to an SLA.

use plimsoll_plan::{Reduced, judge, reduce};
use plimsoll_run::evidence::{ChunkLog, Window};
use plimsoll_run::validity::Verdict;

use crate::steady::{close, fail, ms, reduced, sla, steady, workload};

#[test]
fn a_steady_closed_loop_has_its_closed_form_numbers() {
    let Reduced {
        report,
        timeline,
        itl_us,
    } = reduced(&steady());
    assert_eq!((report.concurrency, report.order), (10, 3));
    assert_eq!(report.requests.sent, 300);
    assert_eq!(report.requests.ok, 300);
    close(report.throughput.requests_per_s, 10.0);
    close(report.throughput.output_tokens_per_s, 90.0);
    close(report.throughput.total_tokens_per_s, 90.0 + 1010.0);
    close(report.throughput.goodput_per_s, 0.0);
    close(report.throughput.relative_se, 0.0);
    close(report.in_flight.mean, 10.0);
    assert_eq!(report.in_flight.max, Some(10));
    close(report.latency.ttft_ms.as_ref().unwrap().p95, 200.0);
    close(report.latency.tpot_ms.as_ref().unwrap().mean, 100.0);
    close(report.latency.itl_ms.as_ref().unwrap().p50, 100.0);
    close(report.latency.e2e_ms.as_ref().unwrap().max, 1000.0);
    assert!(report.latency.ttfat_ms.is_none());
    // Eight gaps a request, ten requests a second.
    let gaps = report.latency.itl_ms.as_ref().unwrap().n;
    assert_eq!(gaps, 30 * 80);
    assert_eq!(itl_us.len(), gaps);
    assert_eq!(report.lengths.input.actual, Some(101.0));
    assert_eq!(report.lengths.finish_reasons["length"], 300);
    assert_eq!(report.validity.verdict, Verdict::Valid, "{:?}", report.validity);
    assert_eq!(report.sla[0].pass, Some(true));
    assert_eq!(report.sla[1].pass, Some(false));
    assert_eq!(report.sla[2].term.to_string(), "error_rate<=0");
    assert_eq!(report.sla[2].pass, Some(true));

    assert_eq!(timeline.len(), 33);
    assert!(
        !timeline[1].in_window && timeline[2].in_window && timeline[31].in_window && !timeline[32].in_window
    );
    close(Some(timeline[5].in_flight), 10.0);
    close(Some(timeline[5].output_tokens), 90.0);
    assert_eq!((timeline[5].sent, timeline[5].ok), (10, 10));
    close(timeline[5].ttft_p50_ms, 200.0);
    let whole: f64 = timeline.iter().map(|second| second.in_flight).sum();
    close(Some(whole), 320.0);
}

#[test]
fn replies_that_are_not_streamed_count_at_their_end() {
    let mut evidence = steady();
    evidence.chunks = ChunkLog::default();
    for record in &mut evidence.requests {
        record.first_token = None;
        record.first_answer = None;
    }
    let report = reduce(
        &evidence,
        1,
        &workload(false),
        &sla(&["ttft.p95<=1s", "e2e.p95<=1s"]),
    )
    .report;
    close(report.throughput.output_tokens_per_s, 90.0);
    assert!(report.latency.ttft_ms.is_none() && report.latency.itl_ms.is_none());
    assert_eq!(report.sla[0].pass, None);
    assert!(report.sla[0].note.as_ref().unwrap().contains("not streamed"));
    assert_eq!(report.sla[1].pass, Some(true));
    assert_eq!(report.meets_sla(), None);
    assert_eq!(report.requests.without_ttft, 0);
    assert_eq!(report.validity.verdict, Verdict::Valid, "{:?}", report.validity);
}

#[test]
fn failures_count_against_every_percentile_and_the_error_rate() {
    let mut evidence = steady();
    // Every twelfth of the window fails: 25 of 300.
    for (n, record) in evidence
        .requests
        .iter_mut()
        .filter(|record| record.sent >= ms(2000))
        .enumerate()
    {
        if n % 12 == 0 {
            fail(record);
        }
    }
    let terms = sla(&[
        "ttft.p90<=250ms",
        "ttft.p95<=250ms",
        "ttft.mean<=250ms",
        "error_rate<=0.1",
    ]);
    let report = reduce(&evidence, 1, &workload(true), &terms).report;
    assert_eq!((report.requests.ok, report.requests.failed), (275, 25));
    assert_eq!(report.requests.by_class["throttled"], 25);
    assert!(report.requests.samples["throttled"].contains("429"));
    let pass: Vec<Option<bool>> = report.sla.iter().map(|outcome| outcome.pass).collect();
    assert_eq!(pass, [Some(true), Some(false), Some(true), Some(true)]);
    assert_eq!(
        report.sla.len(),
        4,
        "an SLA that names the error rate gets no second term"
    );
    assert_eq!(report.sla[1].observed, None);
    assert!(report.sla[1].note.as_ref().unwrap().contains("25 of 300"));
    close(report.sla[3].observed, 25.0 / 300.0);
    // Tokens of failed requests do not count.
    close(report.throughput.requests_per_s, 275.0 / 30.0);
    assert_eq!(report.validity.verdict, Verdict::Valid, "{:?}", report.validity);
}

#[test]
fn a_rung_where_all_failed_is_an_error_and_fails() {
    let mut evidence = steady();
    evidence.requests.iter_mut().for_each(fail);
    let report = reduced(&evidence).report;
    assert_eq!(report.validity.verdict, Verdict::Errors);
    assert!(report.validity.reasons[0].contains("429"));
    assert_eq!(report.meets_sla(), Some(false));
    close(report.throughput.requests_per_s, 0.0);
    assert_eq!(report.throughput.output_tokens_per_s, None);
}

#[test]
fn a_rung_without_a_window_says_nothing_and_is_no_evidence() {
    let mut evidence = steady();
    evidence.window = None;
    let report = reduced(&evidence).report;
    assert!(!report.validity.may_decide());
    assert_eq!(report.throughput.requests_per_s, None);
    assert_eq!(report.meets_sla(), None);

    evidence.window = Some(Window {
        opens: ms(2000),
        closes: ms(12_000),
    });
    evidence.requests.clear();
    evidence.chunks = ChunkLog::default();
    let report = reduced(&evidence).report;
    assert_eq!(report.validity.verdict, Verdict::Errors, "nothing ended");
    assert!(!serde_json::to_string(&report).unwrap().contains("NaN"));
}

#[test]
fn requests_count_by_when_they_were_sent() {
    let mut evidence = steady();
    evidence.window = Some(Window {
        opens: ms(2050),
        closes: ms(31_950),
    });
    // The request sent at 2.0 s is out, that sent at 31.9 s is in.
    assert_eq!(reduced(&evidence).report.requests.sent, 299);
}

#[test]
fn tpot_and_p99_from_too_few_samples_decide_nothing() {
    let mut evidence = steady();
    for record in &mut evidence.requests {
        if record.index % 20 != 0 {
            record.output_tokens = Some(1);
        }
    }
    let report = reduce(&evidence, 1, &workload(true), &sla(&["tpot.p95<=99ms"])).report;
    assert!(report.latency.tpot_ms.as_ref().unwrap().n < 20);
    assert_eq!(report.sla[0].pass, None);

    let mut short = steady();
    short.window = Some(Window {
        opens: ms(2000),
        closes: ms(10_000),
    });
    let report = reduce(&short, 1, &workload(true), &sla(&["ttft.p99<=250ms"])).report;
    assert_eq!((report.requests.ok, report.sla[0].pass), (80, None));
    assert_eq!(report.validity.verdict, Verdict::TooFewSamples);
    assert!(report.validity.may_decide());
    let hopeless = reduce(&short, 1, &workload(true), &sla(&["ttft.p99<=100ms"])).report;
    assert_eq!(
        hopeless.sla[0].pass,
        Some(false),
        "its p90 breaks the limit already"
    );
}

#[test]
fn an_imported_table_is_taken_at_its_word() {
    let mut report = reduced(&steady()).report;
    let ttft = report.latency.ttft_ms.as_mut().unwrap();
    (ttft.n, ttft.p99, ttft.p95) = (0, Some(400.0), None);
    let outcomes = judge(&report, &sla(&["ttft.p99<=500ms", "ttft.p95<=500ms"]));
    assert_eq!(outcomes[0].pass, Some(true));
    assert_eq!(outcomes[1].pass, None);
}
