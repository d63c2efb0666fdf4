//! Reduction, judgement and examination of evidence whose truth is known in closed form.

#![expect(clippy::unwrap_used, reason = "a test may stop here")]

use std::time::Duration;

use plimsoll_plan::{Reduced, compare, found_nobody, judge, reduce};
use plimsoll_run::evidence::{ChunkLog, ClientHealth, Evidence, StampSource, StopReason, Window};
use plimsoll_run::request::{Failure, FailureClass, RequestRecord};
use plimsoll_run::rung::{RungReport, ServerSide};
use plimsoll_run::sla::Sla;
use plimsoll_run::validity::Verdict;
use plimsoll_run::workload::{TokenLength, Workload};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn sla(terms: &[&str]) -> Sla {
    Sla {
        terms: terms.iter().map(|term| term.parse().unwrap()).collect(),
    }
}

fn workload(streaming: bool) -> Workload {
    Workload {
        input_tokens: TokenLength::fixed(100),
        output_tokens: TokenLength::fixed(9),
        streaming,
        ..Workload::default()
    }
}

/// Ten slots, evenly staggered; each request takes 1 s: TTFT 200 ms, then nine tokens 100 ms apart. The window runs
/// from 2 s to 32 s, the rung to 33 s.
fn steady() -> Evidence {
    let mut evidence = Evidence {
        level: 10,
        window: Some(Window {
            opens: ms(2000),
            closes: ms(32_000),
        }),
        took: ms(33_000),
        stop: StopReason::Enough,
        requests: Vec::new(),
        chunks: ChunkLog::default(),
        client: ClientHealth {
            stamps: StampSource::Virtual,
            busiest_thread_cpu: None,
            read_delay: None,
        },
        server: ServerSide::default(),
        server_samples: Vec::new(),
    };
    let mut index = 0;
    for slot in 0..10 {
        for turn in 0..32 {
            let sent = ms(turn * 1000 + slot * 100);
            let mut record = RequestRecord::begun(index, slot as u32, sent, sent);
            index += 1;
            record.first_token = Some(sent + ms(200));
            record.first_answer = record.first_token;
            record.last_token = Some(sent + ms(1000));
            record.ended = sent + ms(1000);
            record.input_asked = 100;
            record.input_tokens = Some(101);
            record.output_asked = 9;
            record.output_tokens = Some(9);
            record.finish_reason = Some("length".to_owned());
            evidence.requests.push(record);
            evidence.chunks.push((2..=10).map(|k| ms(k * 100)));
        }
    }
    evidence
}

fn fail(record: &mut RequestRecord) {
    record.failure = Some(Failure {
        class: FailureClass::Throttled,
        message: "429 Too Many Requests".to_owned(),
    });
}

fn reduced(evidence: &Evidence) -> Reduced {
    reduce(
        evidence,
        3,
        &workload(true),
        &sla(&["ttft.p95<=250ms", "tpot.mean<=99ms"]),
    )
}

fn close(actual: Option<f64>, expected: f64) {
    let actual = actual.unwrap();
    assert!(
        (actual - expected).abs() <= 1e-6 * expected.abs().max(1.0),
        "{actual} is not {expected}"
    );
}

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
fn load_that_was_not_delivered_is_told() {
    let mut evidence = steady();
    evidence.level = 12;
    assert_eq!(
        reduced(&evidence).report.validity.verdict,
        Verdict::LoadNotDelivered
    );
    evidence.level = 9;
    let validity = reduced(&evidence).report.validity;
    assert_eq!(validity.verdict, Verdict::LoadNotDelivered);
    assert!(validity.reasons[0].contains("exceeded"));
}

#[test]
fn buffered_streams_a_busy_client_and_a_warm_cache_are_told() {
    let mut buffered = steady();
    buffered.chunks = ChunkLog::default();
    for record in &buffered.requests {
        let _ = record;
        // Two bursts of four and five chunks.
        let burst = |at: u64, n: u64| (0..n).map(move |k| Duration::from_micros(at * 1000 + k * 20));
        buffered.chunks.push(burst(200, 4).chain(burst(999, 5)));
    }
    let validity = reduced(&buffered).report.validity;
    assert_eq!(validity.verdict, Verdict::StreamBuffered, "{validity:?}");

    let mut whole = steady();
    for record in &mut whole.requests {
        record.first_token = record.last_token;
    }
    assert_eq!(reduced(&whole).report.validity.verdict, Verdict::StreamBuffered);

    let mut busy = steady();
    busy.client.busiest_thread_cpu = Some(0.95);
    assert_eq!(reduced(&busy).report.validity.verdict, Verdict::ClientLimited);

    let mut warm = steady();
    for record in &mut warm.requests {
        record.cached_tokens = Some(16);
    }
    let report = reduced(&warm).report;
    close(report.server.prefix_cache_hit_rate, 16.0 / 101.0);
    assert_eq!(report.validity.verdict, Verdict::Valid, "a template's worth");
    for record in &mut warm.requests {
        record.cached_tokens = Some(96);
    }
    assert_eq!(reduced(&warm).report.validity.verdict, Verdict::CacheWarm);
}

#[test]
fn a_server_that_slows_down_is_unsteady() {
    let mut evidence = steady();
    // From 17 s on only every second request succeeds in time: the others' tokens never come, nor do they end.
    for record in &mut evidence.requests {
        if record.sent >= ms(17_000) && record.slot % 2 == 0 {
            record.output_tokens = Some(1);
        }
    }
    let validity = reduced(&evidence).report.validity;
    assert_eq!(validity.verdict, Verdict::Unsteady, "{validity:?}");
}

#[test]
fn rungs_of_different_lengths_are_told_apart_and_taken_back() {
    let rung = |level: u32, tokens: f64| -> RungReport {
        let mut report = reduced(&steady()).report;
        report.concurrency = level;
        report.lengths.output.actual = Some(tokens);
        report
    };
    let mut rungs = vec![rung(1, 80.0), rung(2, 100.0)];
    compare(&mut rungs);
    assert_eq!(rungs[0].validity.verdict, Verdict::LengthsDiffer);
    rungs.push(rung(4, 80.0));
    compare(&mut rungs);
    let verdicts: Vec<Verdict> = rungs.iter().map(|rung| rung.validity.verdict).collect();
    assert_eq!(verdicts, [Verdict::Valid, Verdict::LengthsDiffer, Verdict::Valid]);
    assert!(rungs[0].validity.reasons.is_empty());
}

#[test]
fn itl_that_falls_as_load_rises_is_a_buffer_unless_more_decode_at_once() {
    // Curve 08 of the public collection, a proxy in Python; and the first rungs of curve 07, which speed up.
    let rung = |(level, rate, itl): (u32, f64, f64)| -> RungReport {
        let mut report = reduced(&steady()).report;
        report.concurrency = level;
        report.throughput.output_tokens_per_s = Some(rate);
        // The published tables have means only.
        report.latency.tpot_ms = None;
        let distribution = report.latency.itl_ms.as_mut().unwrap();
        (distribution.mean, distribution.p50) = (Some(itl), None);
        report
    };
    let mut proxy: Vec<RungReport> = [
        (4, 446.3, 8.43),
        (8, 704.1, 9.42),
        (32, 1557.5, 4.20),
        (128, 2961.7, 2.37),
    ]
    .map(rung)
    .into();
    compare(&mut proxy);
    assert!(proxy[1].validity.may_decide());
    assert_eq!(proxy[2].validity.verdict, Verdict::StreamBuffered);
    assert_eq!(proxy[3].validity.verdict, Verdict::StreamBuffered);
    let mut engine: Vec<RungReport> = [(1, 73.0, 13.4), (8, 570.0, 12.34), (16, 1054.0, 11.17)]
        .map(rung)
        .into();
    compare(&mut engine);
    assert!(engine.iter().all(|rung| rung.validity.may_decide()));
    // A machine that was busier during the first rung than during the second moves the mean, and not the median.
    let mut busy: Vec<RungReport> = [(16, 4486.0, 25.7), (64, 4983.0, 22.7)]
        .map(|row| {
            let mut report = rung(row);
            report.latency.itl_ms.as_mut().unwrap().p50 = Some(22.0);
            report
        })
        .into();
    compare(&mut busy);
    assert!(busy.iter().all(|rung| rung.validity.may_decide()));
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

fn refuse(record: &mut RequestRecord) {
    record.failure = Some(Failure {
        class: FailureClass::Connect,
        message: "connection refused".to_owned(),
    });
    record.ended = record.sent;
}

#[test]
fn an_outage_is_no_verdict_on_the_level() {
    // Nobody is there from 12 s to 15 s: a tenth of the window.
    let mut evidence = steady();
    for record in &mut evidence.requests {
        if (ms(12_000)..ms(15_000)).contains(&record.sent) {
            refuse(record);
        }
    }
    let report = reduced(&evidence).report;
    let validity = &report.validity;
    assert_eq!(validity.verdict, Verdict::ServerRestarted, "{validity:?}");
    assert!(validity.reasons[0].contains("went away 12.0 s"), "{validity:?}");
    assert!(validity.reasons[0].contains("back after 3.0 s"), "{validity:?}");
    assert!(found_nobody(&report));

    // A server that takes eight connections refuses the other two over and over.
    let mut evidence = steady();
    for record in &mut evidence.requests {
        if record.slot >= 8 {
            refuse(record);
        }
    }
    let validity = reduced(&evidence).report.validity;
    assert_eq!(validity.verdict, Verdict::Errors, "{validity:?}");

    let mut evidence = steady();
    evidence.server.restarted = true;
    let validity = reduced(&evidence).report.validity;
    assert_eq!(validity.verdict, Verdict::ServerRestarted, "{validity:?}");
}

#[test]
fn requests_that_wait_before_the_engine_are_no_load_on_it() {
    // The engine says that it had `inside` of the requests at most.
    let at = |level: u32, inside: u32, response_s: f64| {
        let mut report = reduced(&steady()).report;
        report.concurrency = level;
        report.in_flight.mean = Some(f64::from(level));
        let rate = f64::from(level) / response_s;
        report.throughput.requests_per_s = Some(rate);
        report.throughput.output_tokens_per_s = Some(9.0 * rate);
        report.server.output_tokens_per_s = Some(9.0 * rate);
        report.server.running_max = Some(inside);
        report.server.samples = 10;
        report
    };
    let verdicts = |rungs: Vec<RungReport>| {
        let mut rungs = rungs;
        compare(&mut rungs);
        compare(&mut rungs);
        rungs
            .into_iter()
            .map(|rung| rung.validity.verdict)
            .collect::<Vec<_>>()
    };
    let (valid, not_delivered) = (Verdict::Valid, Verdict::LoadNotDelivered);
    // A gateway lets 13 of 75 through; the others wait for theirs.
    assert_eq!(
        verdicts(vec![at(10, 10, 1.0), at(75, 13, 5.8)]),
        [valid, not_delivered]
    );
    assert_eq!(verdicts(vec![at(75, 13, 5.8)]), [not_delivered]);
    // A network far away: 150 ms of 250 ms at any level.
    assert_eq!(verdicts(vec![at(10, 4, 0.25), at(75, 30, 0.25)]), [valid, valid]);
    // One engine of four behind a load balancer sees a quarter of the tokens.
    let mut replica = at(75, 19, 5.8);
    replica.server.output_tokens_per_s = replica.server.output_tokens_per_s.map(|rate| rate / 4.0);
    assert_eq!(verdicts(vec![replica]), [valid]);
    // Those that wait inside the engine are its load.
    let mut queued = at(75, 13, 5.8);
    queued.server.waiting_max = Some(62);
    assert_eq!(verdicts(vec![queued]), [valid]);
    assert!(verdicts(Vec::new()).is_empty());
}
