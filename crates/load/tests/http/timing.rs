//! Latencies against the truth of the server's own clock.

use std::time::Duration;

#[cfg(target_os = "linux")]
use plimsoll_run::evidence::StampSource;
use plimsoll_scripted::{Script, Usage};

use crate::harness::{at, measure, ms, prepared, rung, server, workload};

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
fn ttft_and_tpot_are_those_of_the_script() {
    let server = server(Script::default().ttft(ms(60)).itl(ms(20)));
    let workload = workload(16, 6);
    let evidence = measure(
        prepared(&at(server.url()), &workload),
        &workload,
        &rung(8, 1, ms(200), ms(1000)),
    );
    let ok: Vec<_> = evidence.requests.iter().filter(|r| r.ok()).collect();
    assert!(ok.len() >= 40, "{}", ok.len());
    for (position, record) in evidence.requests.iter().enumerate() {
        // The server sends its role chunk at once: it is the first byte, not the first token.
        assert!(record.ttft().unwrap() >= ms(59), "{record:?}");
        assert!(record.e2e().unwrap() >= ms(159), "{record:?}");
        assert_eq!(evidence.chunks.of(position).len(), 6);
        assert_eq!(record.first_answer, record.first_token);
        assert!(record.headers.unwrap() <= record.first_byte.unwrap());
        assert!(record.first_byte.unwrap() <= record.first_token.unwrap());
    }
    let ttft = median(ok.iter().filter_map(|r| r.ttft()).collect());
    let tpot = median(ok.iter().filter_map(|r| r.tpot()).collect());
    assert!(ttft < ms(85), "{ttft:?}");
    assert!(tpot > ms(16) && tpot < ms(28), "{tpot:?}");
    let early = median(
        ok.iter()
            .filter_map(|r| Some(r.first_byte?.saturating_sub(r.sent)))
            .collect(),
    );
    assert!(early < ms(40), "{early:?}");
}

/// The gaps between tokens are those between the server's own writes, however late we came to read.
#[cfg(target_os = "linux")]
#[test]
fn the_kernel_says_when_tokens_came() {
    let server = server(Script::default().ttft(ms(20)).itl(ms(5)));
    let workload = workload(16, 20);
    let evidence = measure(
        prepared(&at(server.url()), &workload),
        &workload,
        &rung(8, 1, ms(0), ms(600)),
    );
    assert_eq!(evidence.client.stamps, StampSource::Kernel);
    let delay = evidence.client.read_delay.unwrap();
    assert!(delay.p50_us > 0.0 && delay.p50_us <= delay.p99_us && delay.p99_us <= delay.max_us);

    let gaps = |times: Vec<f64>| times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
    let mut truth: Vec<f64> = server
        .stop()
        .served
        .iter()
        .filter(|served| !served.abandoned && served.tokens.len() == 20)
        .flat_map(|served| {
            let first = served.tokens[0];
            gaps(
                served
                    .tokens
                    .iter()
                    .map(|at| at.duration_since(first).as_secs_f64() * 1e3)
                    .collect(),
            )
        })
        .collect();
    let mut seen: Vec<f64> = (0..evidence.requests.len())
        .filter(|&position| evidence.requests[position].ok())
        .flat_map(|position| {
            let times = evidence.chunks.of(position);
            gaps(times.iter().map(|&us| f64::from(us) / 1e3).collect())
        })
        .collect();
    truth.sort_by(f64::total_cmp);
    seen.sort_by(f64::total_cmp);
    assert!(seen.len() > 500, "{}", seen.len());
    let at = |sorted: &[f64], share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    for share in [0.1, 0.5, 0.9] {
        let (truth, seen) = (at(&truth, share), at(&seen, share));
        assert!(
            (truth - seen).abs() < 0.5,
            "at {share}: {truth} ms sent, {seen} ms seen"
        );
    }
}

#[test]
fn several_tokens_a_chunk_are_counted_by_the_server() {
    let server = server(
        Script::default()
            .ttft(ms(10))
            .itl(ms(14))
            .tokens_per_chunk(4)
            .usage(Usage::Cumulative),
    );
    let workload = workload(16, 40);
    let evidence = measure(
        prepared(&at(server.url()), &workload),
        &workload,
        &rung(2, 1, ms(0), ms(500)),
    );
    for (position, record) in evidence.requests.iter().enumerate().filter(|(_, r)| r.ok()) {
        assert_eq!(record.output_tokens, Some(40));
        assert!(!record.output_estimated);
        assert_eq!(evidence.chunks.of(position).len(), 10);
        // Nine gaps of 14 ms over 39 tokens.
        let tpot = record.tpot().unwrap().as_secs_f64();
        assert!(tpot > 0.0029 && tpot < 0.006, "{tpot}");
    }
}

#[test]
fn reasoning_comes_before_the_answer() {
    let server = server(Script::default().ttft(ms(20)).itl(ms(10)).reasoning_tokens(3));
    let workload = workload(16, 5);
    let evidence = measure(
        prepared(&at(server.url()), &workload),
        &workload,
        &rung(1, 1, ms(0), ms(300)),
    );
    let record = evidence.requests.iter().find(|r| r.ok()).unwrap();
    assert_eq!(record.output_tokens, Some(5));
    let gap = record.ttfat().unwrap() - record.ttft().unwrap();
    assert!(gap >= ms(25), "{gap:?}");
}
