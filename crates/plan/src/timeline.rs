//! A rung second by second.

use plimsoll_run::evidence::Evidence;
use plimsoll_run::rung::TimelineSecond;
use plimsoll_run::units::to_ms;

use crate::interval::rank;
use crate::tokens;

/// No timeline is longer, whatever the evidence says: a day.
const MOST_SECONDS: u64 = 86_400;

/// The whole rung, warm-up and drain included. Requests count where they were sent or ended, tokens where they came.
#[must_use]
pub(crate) fn timeline(evidence: &Evidence) -> Vec<TimelineSecond> {
    let whole = evidence.took.as_secs() + u64::from(evidence.took.subsec_nanos() > 0);
    let length = whole.min(MOST_SECONDS) as usize;
    let mut seconds: Vec<TimelineSecond> = (0..length as u32)
        .map(|second| TimelineSecond {
            second,
            in_window: evidence.window.is_some_and(|window| {
                window.opens.as_secs_f64() <= f64::from(second)
                    && f64::from(second) + 1.0 <= window.closes.as_secs_f64()
            }),
            ..TimelineSecond::default()
        })
        .collect();
    // Requests that cover a whole second are counted by differences: long requests touch many seconds.
    let mut whole = vec![0_i64; length + 1];
    let mut ttft: Vec<Vec<f64>> = vec![Vec::new(); length];
    let mut e2e: Vec<Vec<f64>> = vec![Vec::new(); length];
    for record in &evidence.requests {
        let (from, to) = (record.sent.as_secs_f64(), record.ended.as_secs_f64());
        let (first, last) = (from as usize, to as usize);
        if let Some(second) = seconds.get_mut(first) {
            second.sent += 1;
            second.in_flight += to.min(first as f64 + 1.0) - from;
            if record.ok() {
                ttft[first].extend(record.ttft().map(to_ms));
                e2e[first].extend(record.e2e().map(to_ms));
            }
        }
        if last > first {
            whole[(first + 1).min(length)] += 1;
            whole[last.min(length)] -= 1;
            if let Some(second) = seconds.get_mut(last) {
                second.in_flight += to - last as f64;
            }
        }
        if let Some(second) = seconds.get_mut(last) {
            if record.ok() {
                second.ok += 1;
            } else {
                second.failed += 1;
            }
        }
    }
    let mut covering = 0;
    for (at, second) in seconds.iter_mut().enumerate() {
        covering += whole[at];
        second.in_flight += covering as f64;
        second.ttft_p50_ms = median(&mut ttft[at]);
        second.e2e_p50_ms = median(&mut e2e[at]);
    }
    tokens::each(evidence, |at, weight| {
        if let Some(second) = seconds.get_mut(at.as_secs() as usize) {
            second.output_tokens += weight;
        }
    });
    seconds
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(rank(0.5, values.len() as f64) - 1).copied()
}
