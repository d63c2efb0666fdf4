//! What the server's own metrics say about a rung whose truth is known in closed form.

use std::time::Duration;

use plimsoll_plan::{compare, reduce};
use plimsoll_run::evidence::{ChunkLog, ClientHealth, Evidence, StampSource, StopReason, Window};
use plimsoll_run::request::RequestRecord;
use plimsoll_run::rung::{RungReport, ServerSide};
use plimsoll_run::sla::Sla;
use plimsoll_run::validity::Verdict;
use plimsoll_run::workload::{SharedPrefix, TokenLength, Workload};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Ten slots, evenly staggered; each request takes 1 s, its nine tokens 100 ms apart: 90 tokens a second. The window runs from 2 s
/// to 32 s.
fn steady(server: ServerSide) -> Evidence {
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
        server,
        server_samples: Vec::new(),
    };
    for slot in 0..10_u32 {
        for turn in 0..32 {
            let sent = ms(turn * 1000 + u64::from(slot) * 100);
            let mut record = RequestRecord::begun(u64::from(slot) * 32 + turn, slot, sent, sent);
            record.first_token = Some(sent + ms(200));
            record.first_answer = record.first_token;
            record.last_token = Some(sent + ms(1000));
            record.ended = sent + ms(1000);
            record.input_asked = 1000;
            record.input_tokens = Some(1000);
            record.output_asked = 9;
            record.output_tokens = Some(9);
            record.finish_reason = Some("length".to_owned());
            evidence.requests.push(record);
            evidence.chunks.push((2..=10).map(|k| ms(k * 100)));
        }
    }
    evidence
}

fn report(evidence: &Evidence, shared: Option<SharedPrefix>) -> RungReport {
    let workload = Workload {
        input_tokens: TokenLength::fixed(1000),
        output_tokens: TokenLength::fixed(9),
        shared_prefix: shared,
        ..Workload::default()
    };
    reduce(evidence, 1, &workload, &Sla::default()).report
}

fn verdict(server: ServerSide) -> Verdict {
    report(&steady(server), None).validity.verdict
}

/// A server that ran and queued so many at most, of eight readings, and produced so much.
fn seen(running: u32, waiting: u32, tokens_per_s: f64) -> ServerSide {
    ServerSide {
        running_max: Some(running),
        waiting_max: Some(waiting),
        output_tokens_per_s: Some(tokens_per_s),
        samples: 8,
        ..ServerSide::default()
    }
}

#[test]
fn counters_that_began_anew_are_a_restart() {
    let restarted = ServerSide {
        restarted: true,
        ..seen(10, 0, 90.0)
    };
    assert_eq!(verdict(seen(10, 0, 90.0)), Verdict::Valid);
    assert_eq!(verdict(restarted), Verdict::ServerRestarted);
}

#[test]
fn requests_that_never_reached_the_server_were_not_delivered() {
    // Ten in flight at ten a second: six of them outside the engine are 0.6 s of each request's time.
    let compared = |server| {
        let mut rungs = [report(&steady(server), None)];
        compare(&mut rungs);
        rungs[0].validity.clone()
    };
    let told = compared(seen(4, 0, 90.0));
    assert_eq!(told.verdict, Verdict::LoadNotDelivered);
    assert!(
        told.reasons[0].contains("4 at most were with the engine at once"),
        "{told:?}"
    );
    assert!(told.reasons[0].contains("0.6 s each"), "{told:?}");
    for believed in [
        // In its own queue they are delivered.
        seen(4, 6, 90.0),
        // One replica of several, whose tokens are not those that came.
        seen(4, 0, 40.0),
        // Between two readings some are always on their way.
        seen(8, 0, 90.0),
        ServerSide {
            samples: 2,
            ..seen(4, 0, 90.0)
        },
        ServerSide {
            output_tokens_per_s: None,
            ..seen(4, 0, 90.0)
        },
    ] {
        assert_eq!(compared(believed).verdict, Verdict::Valid, "{believed:?}");
    }
}

#[test]
fn reuse_is_told_by_the_metrics_and_by_the_replies() {
    let warm = ServerSide {
        prefix_cache_hit_rate: Some(0.5),
        ..seen(10, 0, 90.0)
    };
    let mut evidence = steady(warm);
    for record in &mut evidence.requests {
        // A third of the requests, half of their tokens.
        record.cached_tokens = Some(if record.index % 3 == 0 { 500 } else { 0 });
    }
    let cold = report(&evidence, None);
    assert_eq!(cold.validity.verdict, Verdict::CacheWarm);
    assert_eq!(cold.server.prefix_cache_hit_rate, Some(0.5));
    let by_usage = cold.server.usage_cached_share.unwrap();
    assert!((by_usage - 1.0 / 6.0).abs() < 0.005, "{by_usage}");
    let shared = SharedPrefix {
        tokens: 500,
        share: 1.0,
        pool: 1,
    };
    assert_eq!(report(&evidence, Some(shared)).validity.verdict, Verdict::Valid);
    // Without metrics the replies speak alone.
    evidence.server = ServerSide::default();
    assert_eq!(
        report(&evidence, None).server.prefix_cache_hit_rate,
        Some(by_usage)
    );
    assert_eq!(
        report(&steady(ServerSide::default()), None)
            .server
            .prefix_cache_hit_rate,
        None
    );
}
