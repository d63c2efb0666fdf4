//! Replays whose latencies follow from arithmetic.

use plimsoll_run::evidence::{ClientHealth, StampSource, Window};
use plimsoll_run::request::RequestRecord;
use plimsoll_run::rung::ServerSide;
use plimsoll_run::workload::TokenLength;

use super::*;

/// A queue in order of arrival before `slots` servers that each take `service`. Where `inside_client` the queue is the
/// client's: requests are sent when a server is free.
fn fifo(arrivals: &[Duration], service: Duration, slots: usize, inside_client: bool) -> Evidence {
    let mut free = vec![Duration::ZERO; slots];
    let mut requests = Vec::new();
    let mut chunks = ChunkLog::default();
    for (index, due) in (0..).zip(arrivals) {
        let next = free.iter_mut().min().unwrap();
        let begins = (*next).max(*due);
        *next = begins + service;
        let sent = if inside_client { begins } else { *due };
        let mut record = RequestRecord::begun(index, 0, *due, sent);
        record.first_token = Some(begins + service);
        record.last_token = record.first_token;
        record.first_answer = record.first_token;
        record.ended = begins + service;
        record.output_tokens = Some(1);
        chunks.push([begins + service - sent]);
        requests.push(record);
    }
    let end = arrivals.last().copied().unwrap_or_default() + Duration::from_nanos(1);
    Evidence {
        level: 0,
        window: Some(Window {
            opens: Duration::ZERO,
            closes: end,
        }),
        took: end,
        stop: StopReason::Asked,
        requests,
        chunks,
        client: ClientHealth {
            stamps: StampSource::Virtual,
            busiest_thread_cpu: None,
            read_delay: None,
        },
        server: ServerSide::default(),
        server_samples: Vec::new(),
    }
}

fn workload() -> Workload {
    Workload {
        input_tokens: TokenLength::fixed(1),
        output_tokens: TokenLength::fixed(1),
        streaming: true,
        ..Workload::default()
    }
}

fn sla(terms: &[&str]) -> Sla {
    Sla {
        terms: terms.iter().map(|term| term.parse().unwrap()).collect(),
    }
}

fn replay(rate: f64, arrivals: Vec<Duration>) -> Replay {
    Replay {
        rate_per_s: rate,
        source: ArrivalSource::Poisson,
        arrivals,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(60),
        cut: false,
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn waiting_behind_a_cap_counts_from_the_schedule() {
    // Service of 500 ms behind a cap of 1, 10 requests/s, evenly: the k-th (from 0) is due at 100k ms, sent at 500k ms
    // and over at 500(k + 1) ms, 500 + 400k ms after it was due. Eight of them: mean 1900, largest 3300 ms; from the
    // time of sending each would take 500 ms.
    let arrivals: Vec<Duration> = (0..8).map(|k| 100 * k * MS).collect();
    let evidence = fifo(&arrivals, 500 * MS, 1, true);
    for record in &evidence.requests {
        assert_eq!(record.e2e(), Some(500 * MS), "from the time of sending");
    }
    let seen = verify(
        &replay(10.0, arrivals),
        evidence,
        &workload(),
        &sla(&["e2e.p95<=1s"]),
    );
    let e2e = seen.latency.e2e_ms.as_ref().unwrap();
    assert_eq!(e2e.n, 8);
    assert!((e2e.mean.unwrap() - 1900.0).abs() < 1e-6, "{e2e:?}");
    assert!((e2e.p99.unwrap() - 3300.0).abs() < 1e-6, "{e2e:?}");
    let delay = seen.dispatch_delay_ms.as_ref().unwrap();
    assert!((delay.mean.unwrap() - 1400.0).abs() < 1e-6, "{delay:?}");
    assert!((delay.max.unwrap() - 2800.0).abs() < 1e-6, "{delay:?}");
    // It waited in the client, so nothing is said of the target.
    assert_eq!(seen.held, None);
    assert!(seen.reason.contains("client-limited"), "{}", seen.reason);
}

#[test]
fn a_queue_in_the_target_is_the_targets() {
    let arrivals: Vec<Duration> = (0..8).map(|k| 100 * k * MS).collect();
    let seen = verify(
        &replay(10.0, arrivals.clone()),
        fifo(&arrivals, 500 * MS, 1, false),
        &workload(),
        &sla(&["e2e.p95<=1s"]),
    );
    assert_eq!(seen.held, Some(false), "{}", seen.reason);
    assert!(
        seen.reason.contains("e2e.p95<=1000ms (3.30 s)"),
        "{}",
        seen.reason
    );
    assert_eq!(seen.dispatch_delay_ms.unwrap().max, Some(0.0));
}

#[test]
fn random_arrivals_wait_as_pollaczek_and_khinchine_say() {
    // M/D/1 at a load of 0.8: the mean wait is rho/(2(1 - rho)) services, so E2E is 3 services.
    let arrivals = crate::arrivals::poisson(8.0, Duration::from_secs(20_000), 5);
    let seen = verify(
        &replay(8.0, arrivals.clone()),
        fifo(&arrivals, 100 * MS, 1, false),
        &workload(),
        &sla(&["e2e.p95<=1s"]),
    );
    let mean = seen.latency.e2e_ms.unwrap().mean.unwrap();
    assert!((mean / 300.0 - 1.0).abs() < 0.05, "{mean}");
    assert_eq!(seen.held, Some(true), "{}", seen.reason);
    // Little's law on what is outstanding: 8/s for 0.3 s.
    let outstanding = seen.in_flight.mean.unwrap();
    assert!((outstanding / 2.4 - 1.0).abs() < 0.06, "{outstanding}");
}

#[test]
fn what_cannot_be_said_is_null() {
    let arrivals: Vec<Duration> = (0..50).map(|k| 100 * k * MS).collect();
    let of = |terms: &[&str], stop| {
        let mut evidence = fifo(&arrivals, 50 * MS, 1, false);
        evidence.stop = stop;
        verify(
            &replay(10.0, arrivals.clone()),
            evidence,
            &workload(),
            &sla(terms),
        )
    };
    assert_eq!(of(&["e2e.p95<=1s"], StopReason::Asked).held, Some(true));
    let few = of(&["e2e.p99<=1s"], StopReason::Asked);
    assert_eq!(few.held, None, "50 are too few for a p99: {}", few.reason);
    assert_eq!(of(&["e2e.p95<=1s"], StopReason::Interrupted).held, None);
    let nothing = verify(
        &replay(1.0, Vec::new()),
        fifo(&[], MS, 1, false),
        &workload(),
        &sla(&["e2e.p95<=1s"]),
    );
    assert_eq!((nothing.held, nothing.requests), (None, 0));
}

#[test]
fn a_replay_lasts_until_there_is_evidence_or_no_time() {
    let sla95 = sla(&["e2e.p95<=1s"]);
    let sla99 = sla(&["e2e.p99<=1s"]);
    let demand = DemandTerms::default();
    let terms = ReplayTerms {
        rate_per_s: 20.0,
        demand: &demand,
        trace: None,
        sla: &sla95,
        response: Duration::from_secs(2),
        exactly: None,
        left: None,
        seed: 1,
    };
    let seconds = |terms: &ReplayTerms<'_>| lay_out(terms).map(|replay| replay.duration.as_secs_f64());
    assert_eq!(seconds(&terms), Some(60.0));
    let slow = ReplayTerms {
        rate_per_s: 2.0,
        ..terms
    };
    assert_eq!(seconds(&slow), Some(100.0), "200 arrivals");
    assert_eq!(seconds(&ReplayTerms { sla: &sla99, ..slow }), Some(250.0), "500");
    let hurried = ReplayTerms {
        left: Some(Duration::from_secs(30)),
        ..terms
    };
    let laid = lay_out(&hurried).unwrap();
    assert_eq!((laid.warmup.as_secs(), laid.duration.as_secs()), (4, 26));
    assert!(laid.cut && laid.source == ArrivalSource::Poisson);
    assert!(laid.arrivals.last().unwrap() < &Duration::from_secs(30));
    assert_eq!(
        seconds(&ReplayTerms {
            left: Some(Duration::from_secs(4)),
            ..terms
        }),
        None
    );
    let trace = [0.0, 1.0, 2.0, 3.0];
    let laid = lay_out(&ReplayTerms {
        trace: Some(&trace),
        exactly: Some(Duration::from_secs(5)),
        ..terms
    })
    .unwrap();
    assert_eq!(laid.source, ArrivalSource::Trace);
    assert_eq!(laid.arrivals[1], 50 * MS);
    assert_eq!(laid.arrivals.len(), 180);
}
