//! Whether a rung may be believed.

use std::time::Duration;

use plimsoll_plan::{compare, found_nobody};
use plimsoll_run::evidence::ChunkLog;
use plimsoll_run::request::{Failure, FailureClass, RequestRecord};
use plimsoll_run::rung::RungReport;
use plimsoll_run::validity::Verdict;

use crate::steady::{close, ms, reduced, steady};

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

/// One of ten slots waits 8 s of the window's first half for a time-out: 5.3 % less, and none of it the server's pace.
#[test]
fn a_slot_that_waits_for_a_stuck_request_is_no_change_of_pace() {
    let mut evidence = steady();
    let mut chunks = ChunkLog::default();
    let mut requests = Vec::new();
    for (at, record) in evidence.requests.iter().enumerate() {
        let mut record = record.clone();
        let hung = record.slot == 3 && (ms(4_000)..ms(12_000)).contains(&record.sent);
        if hung && requests.iter().any(|other: &RequestRecord| !other.ok()) {
            continue;
        }
        if hung {
            record.headers = None;
            record.first_token = None;
            record.last_token = None;
            record.output_tokens = None;
            record.ended = record.sent + ms(8_000);
            record.failure = Some(Failure {
                class: FailureClass::Deadline,
                message: "not finished after 8 s".to_owned(),
            });
            chunks.push([]);
        } else {
            let times = evidence.chunks.of(at).iter();
            chunks.push(times.map(|after| Duration::from_micros(u64::from(*after))));
        }
        requests.push(record);
    }
    evidence.requests = requests;
    evidence.chunks = chunks;
    let report = reduced(&evidence).report;
    assert_eq!(report.requests.failed, 1);
    assert_eq!(report.validity.verdict, Verdict::Valid, "{:?}", report.validity);
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
