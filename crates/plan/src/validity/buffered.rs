//! Whether something between engine and client holds the stream back.

use plimsoll_run::evidence::{Evidence, Window};
use plimsoll_run::rung::RungReport;
use plimsoll_run::validity::Verdict;

use super::percent;
use crate::distribution::each_gap;

/// A gap below this share of the TPOT is none: the chunk had been held back.
const NEAR_ZERO: f64 = 0.10;
/// More such gaps than this share (bursts of four chunks and more) mean that something buffers the stream. Engines
/// that guess ahead (speculative decoding) send two or three tokens at once and stay below it.
const BUFFERED_SHARE: f64 = 0.75;
/// A faster reader than this, seconds a token, does not exist: the reply came in one piece.
const TPOT_LEAST: f64 = 50e-6;

pub(super) fn buffered(
    report: &RungReport,
    evidence: &Evidence,
    window: Window,
) -> Option<(Verdict, String)> {
    report.latency.ttft_ms.as_ref()?;
    let advice = "Something between engine and client buffers the stream: turn off response buffering in the proxy. \
                  TTFT and ITL mean nothing here; throughput and E2E stand.";
    let (mut chunks, mut tokens, mut decode, mut replies) = (0.0, 0.0, 0.0, 0.0);
    for (at, record) in evidence.requests.iter().enumerate() {
        if !record.ok() || !window.contains(record.sent) {
            continue;
        }
        let (Some(first), Some(last), Some(count)) =
            (record.first_token, record.last_token, record.output_tokens)
        else {
            continue;
        };
        if count >= 8 {
            chunks += evidence.chunks.of(at).len() as f64;
            tokens += f64::from(count);
            decode += last.saturating_sub(first).as_secs_f64();
            replies += 1.0;
        }
    }
    if replies < 1.0 || tokens <= replies {
        return None;
    }
    let tpot = decode / (tokens - replies);
    if tpot < TPOT_LEAST {
        return Some((
            Verdict::StreamBuffered,
            format!(
                "First and last token of a reply come together ({:.0} tokens a reply). {advice}",
                tokens / replies
            ),
        ));
    }
    if chunks < 0.5 * tokens {
        return None;
    }
    let near_zero = tpot * NEAR_ZERO * 1e6;
    let (mut short, mut gaps) = (0_u64, 0_u64);
    each_gap(evidence, window, |_, us| {
        gaps += 1;
        short += u64::from(f64::from(us) < near_zero);
    });
    let share = short as f64 / (gaps.max(1)) as f64;
    (gaps >= 20 && share > BUFFERED_SHARE).then(|| {
        (
            Verdict::StreamBuffered,
            format!(
                "{} of the gaps between chunks are near zero, with long pauses between. {advice}",
                percent(share)
            ),
        )
    })
}
