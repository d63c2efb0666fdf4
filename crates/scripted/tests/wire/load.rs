//! Many clients at once: slots, capacity, latency that grows with load, and the count of what is in flight.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_scripted::{Overload, Script, Scripted};

use crate::client::{Client, streamed};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// So many clients, each with `each` requests one after the other; the statuses they got.
fn clients(addr: SocketAddr, clients: usize, each: usize, tokens: u32) -> Vec<u16> {
    let threads: Vec<_> = (0..clients)
        .map(|c| {
            thread::spawn(move || {
                let mut client = Client::connect(addr);
                let one = |i| {
                    client
                        .chat(&streamed(tokens, &format!("client {c} request {i}")))
                        .unwrap()
                        .status
                };
                (0..each).map(one).collect::<Vec<_>>()
            })
        })
        .collect();
    threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect()
}

#[test]
fn a_closed_loop_is_never_seen_above_its_level() {
    let server = Scripted::start(Script::default().ttft(ms(3)).itl(ms(1))).unwrap();
    clients(server.addr(), 16, 20, 3);
    let seen = server.seen();
    assert_eq!((seen.requests, seen.max_in_flight, seen.in_flight), (320, 16, 0));
    assert_eq!(
        (
            seen.connections,
            seen.repeated_prompts,
            seen.repeated_first_blocks
        ),
        (16, 0, 0)
    );
    clients(server.addr(), 1, 2, 1);
    assert_eq!(
        server.seen().repeated_prompts,
        2,
        "prompts of the first round again"
    );
}

#[test]
fn two_hundred_streams_keep_the_schedule() {
    let server = Scripted::start(Script::default().ttft(ms(100)).itl(ms(25))).unwrap();
    clients(server.addr(), 200, 1, 20);
    let seen = server.seen();
    assert_eq!(seen.served.len(), 200);
    let mut late: Vec<Duration> = Vec::new();
    for served in &seen.served {
        let due = |i: usize| served.arrived + ms(100 + 25 * i as u64);
        late.extend(
            served
                .tokens
                .iter()
                .enumerate()
                .map(|(i, at)| at.saturating_duration_since(due(i))),
        );
        assert!(
            served.tokens.iter().enumerate().all(|(i, at)| *at >= due(i)),
            "a token came early"
        );
    }
    late.sort();
    assert_eq!(late.len(), 4000);
    let median = late[late.len() / 2];
    assert!(median < ms(100), "tokens are {median:?} late at the median");
}

#[test]
fn requests_beyond_the_slots_wait_their_turn() {
    let server = Scripted::start(Script::default().slots(4).ttft(ms(40)).itl(ms(20))).unwrap();
    let begin = Instant::now();
    clients(server.addr(), 12, 1, 4); // three rounds of 40 + 3 x 20 ms
    let took = begin.elapsed();
    assert!(took >= ms(300) && took < ms(1500), "{took:?}");
    let seen = server.seen();
    assert_eq!(seen.max_in_flight, 12);
    let mut served = seen.served.clone();
    served.sort_by_key(|s| s.arrived);
    let starts: Vec<_> = served.iter().map(|s| s.started.unwrap()).collect();
    assert!(starts.is_sorted(), "first come, first served");
    let mut ttfts: Vec<_> = served.iter().map(|s| s.tokens[0] - s.arrived).collect();
    ttfts.sort();
    assert!(ttfts[11] >= ms(200), "the last waits two rounds: {ttfts:?}");
}

#[test]
fn above_its_capacity_the_server_refuses_at_once() {
    let script = Script::default().ttft(ms(300)).capacity(8, Overload::Unavailable);
    let server = Scripted::start(script).unwrap();
    let statuses = clients(server.addr(), 20, 1, 1);
    assert_eq!(statuses.iter().filter(|s| **s == 200).count(), 8);
    assert_eq!(statuses.iter().filter(|s| **s == 503).count(), 12);
    assert_eq!(server.seen().max_in_flight, 8);

    let overload = Overload::TooManyRequests {
        retry_after_s: Some(7),
    };
    let server = Scripted::start(Script::default().capacity(0, overload)).unwrap();
    let refused = Client::connect(server.addr()).chat(&streamed(1, "x")).unwrap();
    assert_eq!(refused.status, 429);
    assert!(refused.head.contains("retry-after: 7\r\n"));
    let after = refused.chunks[0].0 - refused.sent;
    assert!(after >= ms(2) && after < ms(200), "{after:?}");
}

#[test]
fn latency_may_follow_the_load() {
    let by_load = |in_flight: usize| ms(20 + 10 * in_flight as u64);
    let server = Scripted::start(Script::default().ttft_by_load(by_load)).unwrap();
    clients(server.addr(), 1, 1, 1);
    clients(server.addr(), 10, 3, 1);
    let served = server.seen().served;
    let ttft = |i: usize| served[i].tokens[0] - served[i].arrived;
    assert!(ttft(0) >= ms(30) && ttft(0) < ms(110), "{:?}", ttft(0));
    let last = served.iter().map(|s| s.tokens[0] - s.arrived).max().unwrap();
    assert!(last >= ms(110), "with ten in flight: {last:?}");
}
