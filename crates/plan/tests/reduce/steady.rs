//! Evidence of a steady closed loop.

use std::time::Duration;

use plimsoll_plan::{Reduced, reduce};
use plimsoll_run::evidence::{ChunkLog, ClientHealth, Evidence, StampSource, StopReason, Window};
use plimsoll_run::request::{Failure, FailureClass, RequestRecord};
use plimsoll_run::rung::ServerSide;
use plimsoll_run::sla::Sla;
use plimsoll_run::workload::{TokenLength, Workload};

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn sla(terms: &[&str]) -> Sla {
    Sla {
        terms: terms.iter().map(|term| term.parse().unwrap()).collect(),
    }
}

pub fn workload(streaming: bool) -> Workload {
    Workload {
        input_tokens: TokenLength::fixed(100),
        output_tokens: TokenLength::fixed(9),
        streaming,
        ..Workload::default()
    }
}

/// Ten slots, evenly staggered; each request takes 1 s: TTFT 200 ms, then nine tokens 100 ms apart. The window runs
/// from 2 s to 32 s, the rung to 33 s.
pub fn steady() -> Evidence {
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

pub fn fail(record: &mut RequestRecord) {
    record.failure = Some(Failure {
        class: FailureClass::Throttled,
        message: "429 Too Many Requests".to_owned(),
    });
}

pub fn reduced(evidence: &Evidence) -> Reduced {
    reduce(
        evidence,
        3,
        &workload(true),
        &sla(&["ttft.p95<=250ms", "tpot.mean<=99ms"]),
    )
}

pub fn close(actual: Option<f64>, expected: f64) {
    let actual = actual.unwrap();
    assert!(
        (actual - expected).abs() <= 1e-6 * expected.abs().max(1.0),
        "{actual} is not {expected}"
    );
}
