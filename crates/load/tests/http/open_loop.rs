//! Open loop: requests leave when they are due, and waiting anywhere is latency.

use std::time::Duration;

use plimsoll_load::{HttpRunner, OpenLoop};
use plimsoll_plan::arrivals::poisson;
use plimsoll_plan::verification::{Replay, verify};
use plimsoll_run::evidence::{Evidence, StopReason};
use plimsoll_run::request::FailureClass;
use plimsoll_run::runner::Watch;
use plimsoll_run::sla::Sla;
use plimsoll_run::verification::{ArrivalSource, Verification};
use plimsoll_scripted::{Fault, Script, Scripted, When};

use crate::harness::{SEED, at, ms, prepared, server, workload};

fn replay(server: &Scripted, order: u32, arrivals: Vec<Duration>, max_in_flight: Option<u32>) -> Evidence {
    let workload = workload(16, 1);
    let closes = arrivals.last().copied().unwrap_or_default() + ms(1);
    HttpRunner::new(prepared(&at(server.url()), &workload), workload, SEED)
        .unwrap()
        .replay(
            &OpenLoop {
                arrivals,
                opens: Duration::ZERO,
                closes,
                max_in_flight,
                drain: Duration::from_secs(20),
                order,
            },
            &Watch::new(),
        )
        .unwrap()
}

fn judged(rate: f64, arrivals: &[Duration], evidence: Evidence, sla: &str) -> Verification {
    let replay = Replay {
        rate_per_s: rate,
        source: ArrivalSource::Poisson,
        arrivals: arrivals.to_vec(),
        warmup: Duration::ZERO,
        duration: arrivals.last().copied().unwrap_or_default(),
        cut: false,
    };
    let sla = Sla {
        terms: vec![sla.parse().unwrap()],
    };
    verify(&replay, evidence, &workload(16, 1), &sla)
}

fn every(gap: Duration, n: u32) -> Vec<Duration> {
    (0..n).map(|k| gap * k).collect()
}

#[test]
fn a_stalled_server_does_not_hold_up_the_schedule() {
    // One request at a time, 100 ms each, due every 20 ms: the k-th is over 100 + 80k ms after it was due.
    let server = server(Script::default().ttft(ms(100)).slots(1));
    let arrivals = every(ms(20), 20);
    let evidence = replay(&server, 1, arrivals.clone(), None);
    assert_eq!(evidence.requests.len(), 20);
    for record in &evidence.requests {
        assert!(record.ok(), "{record:?}");
        assert_eq!(record.scheduled, arrivals[record.index as usize]);
        assert!(record.sent >= record.scheduled, "{record:?}");
        // No request waits for another: only for a busy machine.
        assert!(record.sent < record.scheduled + ms(300), "{record:?}");
        let took = record.last_token.unwrap() - record.scheduled;
        assert!(took >= ms(100), "{record:?}");
    }
    let mut took: Vec<Duration> = evidence
        .requests
        .iter()
        .map(|record| record.last_token.unwrap() - record.scheduled)
        .collect();
    took.sort_unstable();
    // Mean 860 ms, largest 1620 ms by arithmetic; a busy machine may only add.
    let mean = took.iter().sum::<Duration>() / 20;
    assert!(mean > ms(855) && mean < ms(1300), "{mean:?}");
    assert!(took[19] > ms(1615) && took[19] < ms(2300), "{:?}", took[19]);
    let seen = server.seen();
    assert!(seen.max_in_flight >= 12, "{}", seen.max_in_flight);
    assert_eq!(seen.repeated_first_blocks, 0, "no prompt repeats within a replay");
}

#[test]
fn case_19_waiting_behind_a_cap_is_latency_and_dispatch_delay() {
    // The reported case: 500 ms of service, 10 requests/s, one at a time in the client. From the schedule the k-th takes
    // 500 + 400k ms: mean 1900, largest 3300 ms; from the time of sending each takes some 506 ms.
    let server = server(Script::default().ttft(ms(500)));
    let arrivals = every(ms(100), 8);
    let evidence = replay(&server, 1, arrivals.clone(), Some(1));
    assert_eq!(server.seen().max_in_flight, 1);
    let mut from_sent: Vec<Duration> = evidence.requests.iter().filter_map(|r| r.e2e()).collect();
    from_sent.sort_unstable();
    assert!(from_sent[4] >= ms(499) && from_sent[4] < ms(620), "{from_sent:?}");
    let seen = judged(10.0, &arrivals, evidence, "e2e.p95<=2s");
    let e2e = seen.latency.e2e_ms.unwrap();
    assert!((1895.0..2300.0).contains(&e2e.mean.unwrap()), "{e2e:?}");
    assert!((3295.0..4000.0).contains(&e2e.p99.unwrap()), "{e2e:?}");
    let delay = seen.dispatch_delay_ms.unwrap();
    assert!((2795.0..3500.0).contains(&delay.p99.unwrap()), "{delay:?}");
    assert_eq!(seen.held, None, "{}", seen.reason);
    assert!(seen.reason.contains("client-limited"), "{}", seen.reason);
}

#[test]
fn an_easy_rate_holds_and_an_overload_does_not() {
    // Four at once, 50 ms each: 80/s at most.
    let server = server(Script::default().ttft(ms(50)).slots(4));
    for (order, rate, held) in [(1, 20.0, true), (2, 160.0, false)] {
        let arrivals = poisson(rate, Duration::from_secs(3), 11);
        let evidence = replay(&server, order, arrivals.clone(), None);
        assert_eq!(evidence.requests.len(), arrivals.len());
        assert_eq!(evidence.stop, StopReason::Asked);
        // A wide limit, so that a busy machine's dispatch delay does not decide.
        let seen = judged(rate, &arrivals, evidence, "ttft.p95<=1s");
        assert_eq!(seen.held, Some(held), "{}", seen.reason);
        assert_eq!(seen.requests, arrivals.len() as u64);
    }
}

#[test]
fn what_never_ends_has_failed() {
    // Preparation takes some six requests; the others of the first 40 are answered.
    let server = server(Script::default().fault(When::After(40), Fault::NeverAnswers));
    let workload = workload(16, 1);
    let runner = HttpRunner::new(prepared(&at(server.url()), &workload), workload, SEED).unwrap();
    let evidence = runner
        .replay(
            &OpenLoop {
                arrivals: every(ms(10), 80),
                opens: Duration::ZERO,
                closes: ms(800),
                max_in_flight: None,
                drain: ms(500),
                order: 1,
            },
            &Watch::new(),
        )
        .unwrap();
    assert_eq!(evidence.requests.len(), 80, "every arrival is in the evidence");
    let unended = evidence
        .requests
        .iter()
        .filter_map(|record| record.failure.as_ref())
        .inspect(|failure| assert_eq!(failure.class, FailureClass::Deadline))
        .count();
    assert!((40..=79).contains(&unended), "{unended}");
}

#[test]
fn many_failures_end_it_early() {
    let server = server(Script::default().fault(When::After(40), Fault::Reset { after_tokens: 0 }));
    let arrivals = every(ms(10), 2000);
    let evidence = replay(&server, 1, arrivals, None);
    assert_eq!(evidence.stop, StopReason::Errors);
    assert!(evidence.requests.len() < 1500, "{}", evidence.requests.len());
}
