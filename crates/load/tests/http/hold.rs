//! A level is held: exactly so many in flight, each prompt a new one, failures counted and not hammered.

use std::thread;
use std::time::{Duration, Instant};

use plimsoll_load::HttpRunner;
use plimsoll_run::evidence::StopReason;
use plimsoll_run::request::FailureClass;
use plimsoll_run::runner::{Phase, Runner, Watch};
use plimsoll_run::workload::{TokenLength, Workload};
use plimsoll_scripted::{Fault, Overload, Script, When};

use crate::harness::{SEED, at, measure, ms, prepared, rung, server, workload};

#[test]
fn exactly_the_level_is_in_flight_on_as_many_connections() {
    let server = server(Script::default().ttft(ms(15)).itl(ms(2)));
    let workload = workload(16, 6);
    let ready = prepared(&at(server.url()), &workload);
    let before = server.seen();
    let evidence = measure(ready, &workload, &rung(24, 1, ms(200), ms(800)));
    let seen = server.seen();
    assert_eq!(seen.max_in_flight, 24, "reached and never passed");
    assert_eq!(
        seen.connections - before.connections,
        24,
        "one a slot, kept alive"
    );
    assert_eq!((seen.repeated_prompts, seen.repeated_first_blocks), (0, 0));
    assert_eq!(evidence.level, 24);
    assert_eq!(evidence.stop, StopReason::Asked);
    let window = evidence.window.unwrap();
    assert!((window.length().as_secs_f64() - 0.8).abs() < 0.05, "{window:?}");
    // Time-weighted requests in flight during the window.
    let held: Duration = evidence
        .requests
        .iter()
        .map(|r| {
            r.ended
                .min(window.closes)
                .saturating_sub(r.sent.max(window.opens))
        })
        .sum();
    let mean = held.as_secs_f64() / window.length().as_secs_f64();
    assert!(mean > 0.9 * 24.0 && mean <= 24.0 + 1e-9, "{mean}");
    let mut indices: Vec<u64> = evidence.requests.iter().map(|r| r.index).collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), evidence.requests.len());
    assert!(
        evidence
            .requests
            .iter()
            .all(|r| r.ok() && r.slot < 24 && r.retries == 0)
    );
    let busy = evidence.client.busiest_thread_cpu;
    assert!(
        !cfg!(target_os = "linux") || busy.is_some_and(|share| share > 0.0 && share <= 1.0),
        "{busy:?}"
    );
}

#[test]
fn prompts_are_new_in_every_rung_of_a_sweep() {
    let server = server(Script::default().ttft(ms(3)));
    let workload = workload(32, 2);
    let mut runner = HttpRunner::new(prepared(&at(server.url()), &workload), workload.clone(), SEED).unwrap();
    for (order, level) in [(1, 2), (2, 8), (3, 8)] {
        runner
            .measure(&rung(level, order, ms(0), ms(150)), &Watch::new())
            .unwrap();
    }
    let seen = server.seen();
    assert!(seen.requests > 100, "{}", seen.requests);
    assert_eq!((seen.repeated_prompts, seen.repeated_first_blocks), (0, 0));
}

#[test]
fn lengths_follow_the_workloads_distribution() {
    let server = server(Script::default());
    let workload = Workload {
        input_tokens: TokenLength::Normal {
            mean: 60,
            stddev: 10.0,
        },
        output_tokens: TokenLength::Normal { mean: 8, stddev: 3.0 },
        streaming: true,
        ..Workload::default()
    };
    let evidence = measure(
        prepared(&at(server.url()), &workload),
        &workload,
        &rung(2, 1, ms(0), ms(400)),
    );
    let n = evidence.requests.len() as f64;
    assert!(n > 100.0);
    let mean = evidence
        .requests
        .iter()
        .map(|r| f64::from(r.input_asked))
        .sum::<f64>()
        / n;
    assert!((mean - 60.0).abs() < 5.0 * 10.0 / n.sqrt(), "{mean}");
    for record in &evidence.requests {
        assert_eq!(record.input_tokens, Some(record.input_asked));
        assert_eq!(record.output_tokens, Some(record.output_asked));
    }
}

#[test]
fn replies_that_are_not_streamed_end_with_their_body() {
    let server = server(Script::default().ttft(ms(20)).itl(ms(5)));
    let workload = Workload {
        streaming: false,
        ..workload(16, 5)
    };
    let evidence = measure(
        prepared(&at(server.url()), &workload),
        &workload,
        &rung(2, 1, ms(0), ms(300)),
    );
    for (position, record) in evidence.requests.iter().enumerate() {
        assert!(record.ok(), "{record:?}");
        assert_eq!((record.first_token, record.first_answer), (None, None));
        assert!(record.e2e().unwrap() >= ms(40), "{record:?}");
        assert_eq!((record.output_tokens, record.output_estimated), (Some(5), false));
        assert!(evidence.chunks.of(position).is_empty());
    }
}

#[test]
fn every_kind_of_failure_is_told_apart() {
    let token = || Fault::Reset { after_tokens: 2 };
    for (fault, class) in [
        (Fault::Status(500), FailureClass::HttpStatus),
        (Fault::Status(429), FailureClass::Throttled),
        (
            Fault::StreamError { after_tokens: 2 },
            FailureClass::InStreamError,
        ),
        (
            Fault::Truncated { after_tokens: 2 },
            FailureClass::TruncatedStream,
        ),
        (Fault::Closed { after_tokens: 2 }, FailureClass::Body),
        (token(), FailureClass::Body),
        (Fault::Empty, FailureClass::EmptyResponse),
        (Fault::Stalled { after_tokens: 1 }, FailureClass::Idle),
        (Fault::NeverAnswers, FailureClass::Deadline),
    ] {
        // The preparation takes a handful of requests.
        let server = server(Script::default().fault(When::After(8), fault.clone()));
        let workload = workload(16, 4);
        let mut options = at(server.url());
        options.idle_timeout = ms(150);
        options.request_timeout = ms(400);
        let evidence = measure(
            prepared(&options, &workload),
            &workload,
            &rung(2, 1, ms(0), ms(700)),
        );
        let failed: Vec<_> = evidence.requests.iter().filter(|r| !r.ok()).collect();
        assert!(!failed.is_empty(), "{fault:?}");
        for record in failed {
            let failure = record.failure.as_ref().unwrap();
            assert_eq!(failure.class, class, "{fault:?}: {record:?}");
            assert!(!failure.message.is_empty() && !failure.message.contains('\n'));
        }
    }
}

#[test]
fn a_server_that_refuses_is_not_hammered() {
    let server = server(
        Script::default()
            .ttft(ms(30))
            .itl(ms(1))
            .capacity(4, Overload::Unavailable),
    );
    let workload = workload(16, 4);
    let ready = prepared(&at(server.url()), &workload);
    let before = server.seen().requests;
    let evidence = measure(ready, &workload, &rung(16, 1, ms(600), ms(600)));
    assert_eq!(evidence.stop, StopReason::Errors);
    let sent = server.seen().requests - before;
    let throttled = evidence
        .requests
        .iter()
        .filter(|r| {
            r.failure
                .as_ref()
                .is_some_and(|f| f.class == FailureClass::Throttled)
        })
        .count();
    assert!(throttled >= 12, "{throttled}");
    // Twelve slots that spun at 2 ms would send 6000 a second.
    let rate = sent as f64 / evidence.took.as_secs_f64();
    assert!(rate < 600.0, "{rate}");
}

#[test]
fn a_server_that_goes_away_fails_every_slot_slowly() {
    let server = server(Script::default());
    let workload = workload(16, 4);
    let ready = prepared(&at(server.url()), &workload);
    server.stop();
    let evidence = measure(ready, &workload, &rung(4, 1, ms(400), ms(400)));
    assert!(evidence.requests.len() < 100, "{}", evidence.requests.len());
    for record in &evidence.requests {
        assert_eq!(record.failure.as_ref().unwrap().class, FailureClass::Connect);
    }
}

#[test]
fn a_connection_that_died_idle_is_replaced_without_a_failure() {
    for (closes_after, script) in [
        (1, Script::default().requests_per_connection(1)),
        (3, Script::default().ttft(ms(2)).requests_per_connection(3)),
    ] {
        let server = server(script);
        let workload = workload(16, 4);
        let evidence = measure(
            prepared(&at(server.url()), &workload),
            &workload,
            &rung(4, 1, ms(0), ms(300)),
        );
        assert!(evidence.requests.len() > 20);
        let retries: u32 = evidence.requests.iter().map(|r| r.retries).sum();
        // A slot learns from the first two connections that died after a single reply.
        assert!(closes_after > 1 || retries <= 2 * 4, "{retries}");
        for record in &evidence.requests {
            assert!(record.ok(), "{record:?}");
        }
    }
}

#[test]
fn a_request_still_running_at_the_end_is_a_failure_and_later_ones_are_forgotten() {
    let server = server(
        Script::default()
            .ttft(ms(5))
            .fault(When::Only(12), Fault::NeverAnswers),
    );
    let workload = workload(16, 4);
    let mut rung = rung(2, 1, ms(0), ms(400));
    rung.limits.drain = ms(300);
    let evidence = measure(prepared(&at(server.url()), &workload), &workload, &rung);
    let failed: Vec<_> = evidence.requests.iter().filter(|r| !r.ok()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    let failure = failed[0].failure.as_ref().unwrap();
    assert_eq!(failure.class, FailureClass::Deadline, "{failure:?}");
    assert!(evidence.took < Duration::from_secs(3));
    let window = evidence.window.unwrap();
    assert!(
        evidence.requests.iter().any(|r| r.sent >= window.closes),
        "load goes on in the drain"
    );
}

#[test]
fn the_first_stop_drains_and_the_second_does_not() {
    for (stops, ttft) in [(1, 150), (2, 20_000)] {
        let server = server(
            Script::default()
                .fault(When::Every(0), Fault::Empty)
                .ttft_by_load(move |c| {
                    // Quick while it is prepared, with one request at a time.
                    if c > 1 { ms(ttft) } else { ms(1) }
                }),
        );
        let workload = workload(16, 4);
        let mut runner = HttpRunner::new(prepared(&at(server.url()), &workload), workload, SEED).unwrap();
        let watch = Watch::new();
        let (evidence, took) = thread::scope(|scope| {
            let held = scope.spawn(|| {
                let evidence = runner.measure(&rung(4, 1, ms(100), ms(10_000)), &watch).unwrap();
                (evidence, Instant::now())
            });
            while watch.look().0 != Phase::Window {
                thread::sleep(ms(5));
            }
            thread::sleep(ms(100));
            assert_eq!(watch.look().1.in_flight, 4);
            let asked = Instant::now();
            for _ in 0..stops {
                watch.ask_to_stop();
            }
            let (evidence, ended) = held.join().unwrap();
            (evidence, ended - asked)
        });
        assert_eq!(evidence.stop, StopReason::Interrupted);
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert!(
            evidence.requests.iter().all(|r| r.ok()),
            "an interruption is nobody's failure"
        );
        let window = evidence.window.unwrap();
        assert!(window.closes < Duration::from_secs(8), "{window:?}");
        if stops == 1 {
            let served = server.seen().served;
            assert!(served.iter().all(|one| !one.abandoned), "the first stop drains");
        }
    }
}

#[test]
fn a_hopeless_rung_is_cut_short() {
    let server = server(Script::default().role_first(false).ttft(ms(150)).itl(ms(1)));
    let workload = workload(16, 4);
    let mut rung = rung(8, 1, ms(0), ms(0));
    rung.samples_wanted = 400;
    rung.expected_response = Some(ms(150));
    rung.limits.rung_time = None;
    rung.limits.warmup = None;
    let prepared = prepared(&at(server.url()), &workload);
    let held = |limit: &str| {
        let mut rung = rung.clone();
        rung.limits.cap = Duration::from_secs(6);
        rung.limits.early = Some(plimsoll_run::sla::Sla {
            terms: vec![limit.parse().unwrap()],
        });
        measure(prepared.clone(), &workload, &rung)
    };
    let hopeless = held("ttft.p95<=20ms");
    assert_eq!(hopeless.stop, StopReason::Hopeless);
    assert!(hopeless.took < Duration::from_secs(5), "{:?}", hopeless.took);
    assert!(hopeless.window.unwrap().length() >= ms(1000));
    // 400 replies at 8 in flight would take 7.7 s: one that is easily within its limit needs no more than 8 responses and 55
    // requests, one that is narrowly within it all the time there is.
    let easy = held("ttft.p95<=2s");
    assert_eq!(easy.stop, StopReason::Easy);
    assert!(easy.requests.len() >= 55);
    assert_eq!(held("ttft.p95<=170ms").stop, StopReason::Cap);
}
