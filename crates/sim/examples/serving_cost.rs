//! What serving costs: `cargo run --release -p plimsoll-sim --example serving_cost` (Linux).
//!
//! Holds many streams of about 10,000 tokens a second in all and prints the CPU that the server's two threads took,
//! and how late the tokens of one lone stream were.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a measurement that cannot go on has failed"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use plimsoll_run::workload::{TokenLength, Workload};
use plimsoll_sim::http::{ServeOptions, serve};
use plimsoll_sim::preset::quick;
use plimsoll_sim::spec::EngineSpec;
use plimsoll_sim::truth::truth;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// CPU time of the threads whose name begins so, seconds.
fn cpu_of(name: &str) -> f64 {
    let mut ticks = 0.0;
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else {
            continue;
        };
        let (head, tail) = stat.rsplit_once(") ").unwrap();
        if head.split_once('(').unwrap().1.starts_with(name) {
            let fields: Vec<&str> = tail.split(' ').collect();
            ticks += fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        }
    }
    ticks / 100.0
}

/// An engine that runs `sequences` at once in steps of `step_ms`.
fn engine(sequences: u32, step_ms: f64) -> EngineSpec {
    let mut spec = quick().spec;
    spec.cost.fixed_s = step_ms / 1e3;
    spec.cost.sequence_s = 0.0;
    spec.cost.prefill_token_s = 0.0;
    spec.serving.max_num_seqs = sequences;
    spec.serving.max_num_batched_tokens = 1 << 20;
    spec.kv_blocks = 200_000;
    spec
}

/// A request for `tokens` tokens with a prompt of 64 that no other has.
fn request(tokens: u32) -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"{serial:09} {}"}}],"max_tokens":{tokens},"ignore_eos":true,"stream":true}}"#,
        "word ".repeat(53)
    );
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// One slot: a reply after another on one connection, counting events and timing first tokens.
async fn slot(addr: SocketAddr, starts: Duration, until: Instant, tokens: u32) -> (u64, Vec<Duration>) {
    tokio::time::sleep(starts).await;
    let mut stream = tokio::net::TcpStream::connect(addr).await.unwrap();
    let mut events = 0;
    let mut first_tokens = Vec::new();
    let mut buffer = vec![0; 16_384];
    while Instant::now() < until {
        let request = request(tokens);
        let sent = Instant::now();
        let before = events;
        stream.write_all(request.as_bytes()).await.unwrap();
        loop {
            let read = stream.read(&mut buffer).await.unwrap();
            let got = &buffer[..read];
            let seen = got
                .windows(11)
                .filter(|window| window == b"\"token_ids\"")
                .count() as u64;
            if events == before && seen > 0 {
                first_tokens.push(sent.elapsed());
            }
            events += seen;
            if read == 0 || got.ends_with(b"\r\n0\r\n\r\n") {
                break;
            }
        }
    }
    (events, first_tokens)
}

/// Starts are spread over `response`.
fn throughput(spec: &EngineSpec, streams: u32, tokens: u32, response: Duration) {
    let server = serve(spec, &ServeOptions::default()).expect("a free port");
    let addr = server.addr();
    let seconds = 8.0;
    let client = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        runtime.block_on(async {
            let slots: Vec<_> = (0..streams)
                .map(|at| tokio::spawn(slot(addr, response * at / streams, until, tokens)))
                .collect();
            let mut events = 0;
            let mut first_tokens = Vec::new();
            for slot in slots {
                let (more, firsts) = slot.await.unwrap();
                events += more;
                first_tokens.extend(firsts);
            }
            first_tokens.sort_unstable();
            (events, first_tokens)
        })
    });
    let began = Instant::now();
    let (http, pacer) = (cpu_of("sim-http"), cpu_of("sim-engine"));
    let (events, first_tokens) = client.join().unwrap();
    let took = began.elapsed().as_secs_f64();
    println!(
        "{streams:5} streams: {:7.0} tokens/s, TTFT p50 {:6.1} ms, sim-http {:4.1} % of a core, sim-engine {:4.1} %",
        events as f64 / took,
        first_tokens[first_tokens.len() / 2].as_secs_f64() * 1e3,
        (cpu_of("sim-http") - http) / took * 100.0,
        (cpu_of("sim-engine") - pacer) / took * 100.0,
    );
}

/// How much later than its schedule each token of a lone stream came, less the earliest.
fn punctuality() {
    let server = serve(&engine(8, 20.0), &ServeOptions::default()).expect("a free port");
    let mut stream = std::net::TcpStream::connect(server.addr()).unwrap();
    stream.write_all(request(300).as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stamps = Vec::new();
    let mut line = String::new();
    while stamps.len() < 300 {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if line.contains("\"token_ids\"") {
            stamps.push(Instant::now());
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
    let _ = reader.read_to_string(&mut line);
    let mut late: Vec<f64> = (0_u32..)
        .zip(&stamps)
        .map(|(index, at)| (*at - stamps[0]).as_secs_f64() * 1e6 - f64::from(index) * 20e3)
        .collect();
    late.sort_by(f64::total_cmp);
    println!(
        "a lone stream of 300 tokens, later than the earliest: p50 {:.0} us, p99 {:.0} us, most {:.0} us",
        late[150] - late[0],
        late[297] - late[0],
        late[299] - late[0]
    );
}

fn main() {
    punctuality();
    throughput(&engine(256, 25.6), 256, 64, Duration::from_millis(1_600));
    throughput(&engine(1_024, 102.4), 1_024, 32, Duration::from_millis(3_300));
    // The quick preset beside what it should give.
    let quick = quick();
    let workload = Workload {
        input_tokens: TokenLength::fixed(64),
        output_tokens: TokenLength::fixed(16),
        streaming: true,
        ..Workload::default()
    };
    for point in truth(&quick.spec, &workload, &[64, 128, 200], 1).unwrap() {
        let response = Duration::from_secs_f64(point.e2e.mean_ms / 1e3);
        throughput(&quick.spec, point.level, 16, response);
        println!(
            "         in truth: {:7.0} tokens/s, TTFT p50 {:6.1} ms",
            point.output_tokens_per_s, point.ttft.p50_ms
        );
    }
}
