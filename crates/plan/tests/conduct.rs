//! The conduct of a rung against a scripted closed loop in virtual time.

#![expect(clippy::unwrap_used, reason = "a test may stop here")]

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_plan::conduct::{Conduct, Step};
use plimsoll_run::evidence::{StopReason, Window};
use plimsoll_run::runner::{Phase, Rung, RungLimits};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const TICK: Duration = Duration::from_millis(20);
const TOKENS: u64 = 50;

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

fn rung(level: u32, expected: Option<f64>) -> Rung {
    Rung {
        level,
        order: 1,
        expected_response: expected.map(seconds),
        samples_wanted: 200,
        limits: RungLimits::default(),
    }
}

struct Outcome {
    window: Option<Window>,
    took: Duration,
    stop: StopReason,
    sent_in_window: u64,
    ended_in_window: u64,
    phases: Vec<Phase>,
    last_expected: Duration,
}

impl Outcome {
    fn length(&self) -> f64 {
        self.window.unwrap().length().as_secs_f64()
    }
    fn opens(&self) -> f64 {
        self.window.unwrap().opens.as_secs_f64()
    }
}

/// A closed loop of `rung.level` slots. `service(n, t)` says how long the n-th request, sent at t, takes and whether
/// it succeeds; `None` means never. Tokens come evenly over each request.
fn drive(rung: &Rung, mut service: impl FnMut(u64, f64) -> Option<(f64, bool)>) -> Outcome {
    struct Request {
        sent: Duration,
        ends: Option<Duration>,
        ok: bool,
    }
    let mut conduct = Conduct::new(rung);
    let mut starts: BTreeMap<Duration, u32> = BTreeMap::new();
    for slot in 0..rung.level {
        *starts.entry(conduct.start_of(slot)).or_default() += 1;
    }
    let mut flying: Vec<Request> = Vec::new();
    let mut sent_times: Vec<Duration> = Vec::new();
    let mut ended_times: Vec<(Duration, Duration)> = Vec::new();
    let mut done_tokens = 0;
    let mut phases = Vec::new();
    let mut n = 0;
    let mut now = Duration::ZERO;
    loop {
        let mut send = |at: Duration, flying: &mut Vec<Request>| {
            let fate = service(n, at.as_secs_f64());
            n += 1;
            sent_times.push(at);
            flying.push(Request {
                sent: at,
                ends: fate.map(|(takes, _)| at + seconds(takes)),
                ok: fate.is_some_and(|(_, ok)| ok),
            });
        };
        while let Some((&at, &count)) = starts.first_key_value().filter(|(at, _)| **at <= now) {
            starts.remove(&at);
            for _ in 0..count {
                send(at, &mut flying);
            }
        }
        // Endings in order of time; each frees its slot at once.
        while let Some(at) = (0..flying.len())
            .filter(|i| flying[*i].ends.is_some_and(|ends| ends <= now))
            .min_by_key(|i| flying[*i].ends)
        {
            let request = flying.swap_remove(at);
            let ends = request.ends.unwrap();
            conduct.on_end(request.sent, ends, request.ok);
            ended_times.push((request.sent, ends));
            done_tokens += if request.ok { TOKENS } else { 0 };
            send(ends, &mut flying);
        }
        let tokens: u64 = flying
            .iter()
            .filter(|request| request.ok)
            .filter_map(|request| {
                let whole = (request.ends? - request.sent).as_secs_f64();
                let share = (now.saturating_sub(request.sent)).as_secs_f64() / whole;
                Some((share * TOKENS as f64) as u64)
            })
            .sum();
        let window = conduct.window();
        let inside = |at: &Duration| window.is_some_and(|window| window.contains(*at));
        let window_in_flight = flying.iter().filter(|request| inside(&request.sent)).count();
        match conduct.tick(now, done_tokens + tokens, window_in_flight as u64) {
            Step::Hold(phase) => {
                if phases.last() != Some(&phase) {
                    phases.push(phase);
                }
            }
            Step::Finish => break,
        }
        assert!(now < seconds(2000.0), "never finishes");
        now += TICK;
    }
    let window = conduct.window();
    let inside = |at: &Duration| window.is_some_and(|window| window.contains(*at));
    Outcome {
        window,
        took: now,
        stop: conduct.stopped(),
        sent_in_window: sent_times.iter().filter(|at| inside(at)).count() as u64,
        ended_in_window: ended_times.iter().filter(|(sent, _)| inside(sent)).count() as u64,
        phases,
        last_expected: conduct.expected(),
    }
}

/// Service time by processor sharing beyond `knee`: R = R0 * max(1, C / knee), with noise.
fn noisy(mean: f64, seed: u64) -> impl FnMut(u64, f64) -> Option<(f64, bool)> {
    let mut random = StdRng::seed_from_u64(seed);
    move |_, _| Some((mean * random.random_range(0.7..1.3), true))
}

#[test]
fn a_steady_server_gets_eight_responses_and_little_more() {
    for (level, response) in [(64, 0.2), (64, 1.0), (256, 4.0)] {
        for expected in [Some(response), None] {
            for seed in 0..5 {
                let outcome = drive(&rung(level, expected), noisy(response, seed));
                assert_eq!(outcome.stop, StopReason::Enough);
                let (opens, length) = (outcome.opens() / response, outcome.length() / response);
                assert!(
                    (1.0..=3.0).contains(&opens),
                    "C={level} R={response} opens {opens} R"
                );
                assert!(
                    (7.9..=14.5).contains(&length),
                    "C={level} R={response} T {length} R"
                );
                assert!(outcome.took.as_secs_f64() < (opens + length + 1.6) * response);
                assert_eq!(outcome.phases, [Phase::WarmUp, Phase::Window, Phase::Drain]);
                assert_eq!(outcome.last_expected, outcome.took);
            }
        }
    }
}

#[test]
fn deterministic_service_is_not_held_up() {
    let outcome = drive(&rung(64, Some(1.0)), |_, _| Some((1.0, true)));
    assert!((7.9..=8.2).contains(&outcome.length()), "{}", outcome.length());
    let herd = drive(&rung(64, None), |_, _| Some((1.0, true)));
    assert!((2.0..=4.2).contains(&herd.opens()), "{}", herd.opens());
}

#[test]
fn a_low_level_waits_for_its_samples() {
    let outcome = drive(&rung(4, Some(0.5)), noisy(0.5, 1));
    assert_eq!(outcome.stop, StopReason::Enough);
    assert!(outcome.ended_in_window >= 200);
    assert!((24.0..=30.0).contains(&outcome.length()), "{}", outcome.length());
}

#[test]
fn a_queue_that_builds_up_is_inside_the_warm_up() {
    // First in, first out at 10/s: beyond the first few, requests wait for C/X = 6.4 s.
    let mut free = 0.0_f64;
    let outcome = drive(&rung(64, Some(1.0)), move |_, at| {
        free = free.max(at) + 0.1;
        Some((free - at, true))
    });
    assert!((6.3..=12.9).contains(&outcome.opens()), "{}", outcome.opens());
    assert!(
        (8.0 * 6.4 - 1.0..=8.0 * 6.4 + 15.0).contains(&outcome.length()),
        "{}",
        outcome.length()
    );
}

#[test]
fn the_cap_is_kept() {
    let mut slow = rung(8, None);
    slow.limits.cap = seconds(30.0);
    let outcome = drive(&slow, noisy(12.0, 1));
    assert_eq!(outcome.stop, StopReason::Cap);
    let window = outcome.window.unwrap();
    assert_eq!(window.closes, seconds(30.0));
    assert!(window.opens <= seconds(10.1));
    assert!(outcome.took <= seconds(30.0 + 16.0));
}

#[test]
fn a_server_that_never_answers_ends_at_cap_and_drain() {
    for expected in [None, Some(2.0)] {
        let mut silent = rung(16, expected);
        silent.limits.cap = seconds(30.0);
        silent.limits.drain = seconds(5.0);
        let outcome = drive(&silent, |_, _| None);
        assert_eq!(outcome.stop, StopReason::Cap);
        assert!(outcome.took <= seconds(35.0) + TICK);
        // Everything was sent before the window opened, so there is nothing to drain.
        assert_eq!(outcome.sent_in_window, 0);
        let mut off = silent.clone();
        off.limits.warmup = Some(Duration::ZERO);
        let outcome = drive(&off, |_, _| None);
        assert_eq!(outcome.sent_in_window, 16);
        assert!(outcome.took >= seconds(35.0) && outcome.took <= seconds(35.0) + TICK);
    }
}

#[test]
fn a_warm_up_of_fixed_length_is_exact() {
    for fixed in [0.0, 0.7, 3.0] {
        let mut asked = rung(64, Some(1.0));
        asked.limits.warmup = Some(seconds(fixed));
        let outcome = drive(&asked, noisy(1.0, 2));
        assert_eq!(outcome.window.unwrap().opens, seconds(fixed));
    }
}

#[test]
fn rung_time_and_requests_fix_the_window() {
    let mut timed = rung(64, Some(1.0));
    timed.limits.rung_time = Some(seconds(3.21));
    let outcome = drive(&timed, noisy(1.0, 3));
    assert_eq!(outcome.window.unwrap().length(), seconds(3.21));
    assert_eq!(outcome.stop, StopReason::Asked);

    let mut counted = rung(10, Some(1.0));
    counted.limits.requests = Some(40);
    let outcome = drive(&counted, noisy(1.0, 4));
    assert_eq!(outcome.stop, StopReason::Asked);
    assert!(
        (40..=60).contains(&outcome.ended_in_window),
        "{}",
        outcome.ended_in_window
    );
    assert!(outcome.length() < 7.0, "{}", outcome.length());

    timed.limits.rung_time = Some(seconds(400.0));
    let outcome = drive(&timed, noisy(1.0, 5));
    assert_eq!(outcome.stop, StopReason::Cap);
    assert!(outcome.window.unwrap().closes <= timed.limits.cap);
}

#[test]
fn errors_end_the_rung_and_are_in_evidence() {
    let all = drive(&rung(64, Some(2.0)), |_, _| Some((0.05, false)));
    assert_eq!(all.stop, StopReason::Errors);
    assert!(all.took < seconds(4.0));
    assert_eq!(all.window.unwrap().opens, Duration::ZERO);
    assert!(all.ended_in_window >= 20);

    let late = drive(&rung(64, Some(1.0)), |_, at| Some((1.0, at < 4.0)));
    assert_eq!(late.stop, StopReason::Errors);
    let window = late.window.unwrap();
    assert!(window.opens > Duration::ZERO && window.closes < seconds(7.0));

    let few = drive(&rung(64, Some(1.0)), |n, _| Some((1.0, n % 20 != 0)));
    assert_eq!(few.stop, StopReason::Enough);
}

#[test]
fn a_longer_rung_gets_a_longer_window() {
    let mut twice = rung(64, Some(1.0));
    twice.limits.lengthen = 2;
    // Without noise, so that no unequal halves earn more.
    let steady = |_, _| Some((1.0, true));
    let (once, twice) = (drive(&rung(64, Some(1.0)), steady), drive(&twice, steady));
    let ratio = twice.length() / once.length();
    assert!((1.8..=2.2).contains(&ratio), "{ratio}");
}

#[test]
fn the_drain_is_bounded() {
    let mut stuck = rung(64, Some(1.0));
    stuck.limits.drain = seconds(5.0);
    let outcome = drive(&stuck, |n, _| if n == 400 { None } else { Some((1.0, true)) });
    let closes = outcome.window.unwrap().closes;
    assert!(outcome.took >= closes + seconds(5.0) && outcome.took <= closes + seconds(5.0) + TICK);
}

#[test]
fn drifting_throughput_earns_at_most_three_blocks() {
    let outcome = drive(&rung(64, Some(1.0)), |_, at| Some((1.0 + 0.05 * at, true)));
    let response = 1.0 + 0.05 * outcome.opens();
    assert!(outcome.length() > 9.5 * response, "{}", outcome.length());
    assert!(
        outcome.length() < 14.0 * (1.0 + 0.05 * outcome.took.as_secs_f64()),
        "{}",
        outcome.length()
    );
}

#[test]
fn long_replies_are_waited_for_and_stuck_ones_are_not_for_ever() {
    let s = Duration::from_secs;
    // The longest so far, and how long after the window's end one of it may still come: twice that, or 20 times within 10 s
    // to 60 s.
    for (longest, patience) in [(50.0, 100), (5.0, 60), (1.0, 20), (0.1, 10)] {
        let mut conduct = Conduct::new(&Rung {
            level: 2,
            order: 1,
            expected_response: None,
            samples_wanted: 200,
            limits: RungLimits {
                rung_time: Some(s(100)),
                warmup: Some(Duration::ZERO),
                ..RungLimits::default()
            },
        });
        conduct.on_end(s(1), s(1) + seconds(longest), true);
        assert_eq!(conduct.tick(s(99), 10, 1), Step::Hold(Phase::Window));
        assert_eq!(conduct.tick(s(101), 10, 1), Step::Hold(Phase::Drain));
        let closes = conduct.window().unwrap().closes;
        let just_before = closes + s(patience) - TICK;
        assert_eq!(conduct.tick(just_before, 10, 1), Step::Hold(Phase::Drain));
        assert_eq!(conduct.tick(closes + s(patience), 10, 1), Step::Finish);
    }
}
