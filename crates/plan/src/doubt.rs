//! Whether a rung's SLA is broken or held so far beyond doubt that its window need not run its whole length.
//!
//! Wald's sequential test on violations (METHOD section 1): each request that broke a term of the quantile q is worth
//! ln(p1/p0), each that held it ln((1-p1)/(1-p0)), with p0 = 1 - q the share that may break it and p1 = 2 p0; the sum,
//! divided by the design effect, decides at ln((1-beta)/alpha) = 2.944 for alpha = beta = 0.05: broken at or above it, held at
//! or below its negative. A violation is a value beyond 1.2 times the limit where the question is whether the term is broken,
//! and beyond 1/1.2 of it where it is whether the term is held: a level that does either narrowly lies near the crossing, where
//! every sample is wanted.

use std::time::Duration;

use plimsoll_run::request::RequestRecord;
use plimsoll_run::sla::{Metric, Sla};
use plimsoll_run::units::from_ms;

/// This many times the limit is far beyond it, and the limit over it far below.
const FAR: f64 = 1.2;
/// ln((1 - 0.05) / 0.05).
const DECIDES: f64 = 2.944;
/// From fewer requests nothing is decided.
const LEAST: usize = 20;

/// How far a request in flight has come, as far as whoever drives the load can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing of its reply has come.
    Silent,
    /// Something has come; whether that was a token is not known yet.
    Begun,
    /// Its first token came at this time.
    Speaking(Duration),
}

/// One percentile term and the requests sent in the window so far, in the order in which they ended.
#[derive(Debug, Clone)]
struct Tested {
    metric: Metric,
    quantile: f64,
    far: Duration,
    safe: Duration,
    /// Whether each broke it by far.
    broke: Vec<bool>,
    /// Whether each failed to hold it by far.
    strained: Vec<bool>,
    /// Of the requests in flight: known to break it, known to hold it.
    in_flight: (usize, usize),
}

/// The test over all terms that it can be made for: percentiles below the maximum.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doubt {
    terms: Vec<Tested>,
    /// Terms on latency that cannot be tested: while there are any, nothing is held beyond doubt.
    untested: usize,
}

impl Doubt {
    pub(crate) fn new(sla: Option<&Sla>) -> Self {
        let asked = sla.map_or(&[][..], |sla| &sla.terms);
        let terms: Vec<Tested> = asked
            .iter()
            .filter_map(|term| {
                let quantile = term
                    .stat?
                    .quantile()
                    .filter(|quantile| (0.5..1.0).contains(quantile))?;
                matches!(
                    term.metric,
                    Metric::Ttft | Metric::Ttfat | Metric::Tpot | Metric::E2e
                )
                .then(|| Tested {
                    metric: term.metric,
                    quantile,
                    far: from_ms(FAR * term.limit),
                    safe: from_ms(term.limit / FAR),
                    broke: Vec::new(),
                    strained: Vec::new(),
                    in_flight: (0, 0),
                })
            })
            .collect();
        let latency = asked
            .iter()
            .filter(|term| term.metric != Metric::ErrorRate)
            .count();
        Doubt {
            untested: latency - terms.len(),
            terms,
        }
    }

    /// Whether there is anything to test.
    pub(crate) fn tests(&self) -> bool {
        !self.terms.is_empty()
    }

    /// A request sent in the window has ended.
    pub(crate) fn ended(&mut self, record: &RequestRecord) {
        for term in &mut self.terms {
            let value = match term.metric {
                Metric::Ttft => record.ttft(),
                Metric::Ttfat => record.ttfat().or(record.ttft()),
                Metric::Tpot => record.tpot(),
                _ => record.e2e(),
            };
            if !record.ok() {
                // A failed request counts against every term.
                term.broke.push(true);
                term.strained.push(true);
            } else if let Some(value) = value {
                term.broke.push(value > term.far);
                term.strained.push(value > term.safe);
            }
        }
    }

    /// The requests sent in the window and still in flight: when each was sent, and how far it has come.
    pub(crate) fn in_flight(&mut self, now: Duration, requests: impl Iterator<Item = (Duration, Waiting)>) {
        for term in &mut self.terms {
            term.in_flight = (0, 0);
        }
        for (sent, waiting) in requests {
            let age = now.saturating_sub(sent);
            for term in &mut self.terms {
                let (broken, held) = &mut term.in_flight;
                match (term.metric, waiting) {
                    (Metric::Ttft, Waiting::Speaking(first)) if first.saturating_sub(sent) <= term.far => {
                        *held += 1;
                    }
                    (Metric::Ttft, Waiting::Speaking(_)) => *broken += 1,
                    // Right-censored: whatever it becomes, it is beyond the limit already.
                    (Metric::Ttft | Metric::Ttfat, Waiting::Silent) if age > term.far => *broken += 1,
                    (Metric::E2e, _) if age > term.far => *broken += 1,
                    _ => {}
                }
            }
        }
    }

    /// Whether some term is broken beyond doubt.
    pub(crate) fn broken(&self) -> bool {
        self.terms.iter().any(Tested::broken)
    }

    /// Whether every term is held beyond doubt.
    pub(crate) fn held(&self) -> bool {
        !self.terms.is_empty() && self.untested == 0 && self.terms.iter().all(Tested::held)
    }
}

impl Tested {
    fn broken(&self) -> bool {
        let (broken_in_flight, held_in_flight) = self.in_flight;
        let broken = self.broke.iter().filter(|broke| **broke).count() + broken_in_flight;
        let n = self.broke.len() + broken_in_flight + held_in_flight;
        self.ratio(broken, n) / design_effect(&self.broke) >= DECIDES
    }

    fn held(&self) -> bool {
        // One in flight that is beyond the limit is a violation now; of the others nothing is known.
        let (late, _) = self.in_flight;
        let strained = self.strained.iter().filter(|strained| **strained).count() + late;
        self.ratio(strained, self.strained.len() + late) / design_effect(&self.strained) <= -DECIDES
    }

    /// Wald's sum for so many violations in n; 0, which decides nothing, for too few.
    fn ratio(&self, violations: usize, n: usize) -> f64 {
        if n < LEAST {
            return 0.0;
        }
        let p0 = 1.0 - self.quantile;
        let p1 = 2.0 * p0;
        let (broken, held) = (violations as f64, (n - violations) as f64);
        broken * (p1 / p0).ln() + held * ((1.0 - p1).max(1e-9) / (1.0 - p0)).ln()
    }
}

/// How much more the share of violations varies between batches of sqrt(n) in order than among independent requests; at
/// least 1.
fn design_effect(violations: &[bool]) -> f64 {
    let size = ((violations.len() as f64).sqrt() as usize).max(2);
    let shares: Vec<f64> = violations
        .chunks_exact(size)
        .map(|batch| batch.iter().filter(|violation| **violation).count() as f64 / size as f64)
        .collect();
    let k = shares.len() as f64;
    if shares.len() < 2 {
        return 1.0;
    }
    let p = shares.iter().sum::<f64>() / k;
    let simple = p * (1.0 - p) / size as f64;
    if simple <= 0.0 {
        return 1.0;
    }
    let between = shares.iter().map(|share| (share - p).powi(2)).sum::<f64>() / (k - 1.0);
    (between / simple).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(term: &str) -> Doubt {
        Doubt::new(Some(&Sla {
            terms: vec![term.parse().unwrap()],
        }))
    }

    fn record(ttft_ms: u64) -> RequestRecord {
        let mut record = RequestRecord::begun(0, 0, Duration::ZERO, Duration::ZERO);
        record.first_token = Some(Duration::from_millis(ttft_ms));
        record.last_token = Some(Duration::from_millis(ttft_ms + 100));
        record.ended = Duration::from_millis(ttft_ms + 100);
        record.output_tokens = Some(11);
        record
    }

    #[test]
    fn a_term_broken_by_all_is_decided_and_one_held_by_all_is_not() {
        let (mut broken, mut held) = (test("ttft.p95<=100ms"), test("ttft.p95<=100ms"));
        for _ in 0..19 {
            broken.ended(&record(500));
            held.ended(&record(50));
        }
        assert!(!broken.broken(), "too few");
        broken.ended(&record(500));
        held.ended(&record(50));
        assert!(broken.broken() && !held.broken());
    }

    #[test]
    fn a_term_held_by_all_needs_55_requests_and_a_margin() {
        let (mut easy, mut narrow) = (test("ttft.p95<=100ms"), test("ttft.p95<=100ms"));
        // ln(0.9/0.95) = -0.0541 each: 55 make -2.974.
        for n in 1..=55 {
            easy.ended(&record(50));
            narrow.ended(&record(90));
            assert_eq!(easy.held(), n == 55, "{n}");
        }
        assert!(!narrow.held());
        // One far beyond costs the worth of 13.
        easy.ended(&record(500));
        assert!(!easy.held());
        let now = Duration::from_millis(200);
        let mut waiting = test("ttft.p95<=100ms");
        (0..60).for_each(|_| waiting.ended(&record(50)));
        waiting.in_flight(now, std::iter::once((Duration::ZERO, Waiting::Silent)));
        assert!(!waiting.held(), "one in flight is late already");
    }

    #[test]
    fn what_cannot_be_tested_is_never_easy() {
        let mut mixed = Doubt::new(Some(&Sla {
            terms: vec![
                "ttft.p95<=100ms".parse().unwrap(),
                "e2e.mean<=1s".parse().unwrap(),
            ],
        }));
        (0..100).for_each(|_| mixed.ended(&record(50)));
        assert!(!mixed.held());
        assert!(!Doubt::new(None).held());
    }

    #[test]
    fn narrow_failures_are_never_hopeless() {
        let mut test = test("ttft.p95<=100ms");
        for _ in 0..500 {
            test.ended(&record(115));
        }
        assert!(!test.broken());
    }

    #[test]
    fn a_share_of_one_in_twenty_is_what_a_p95_allows() {
        let mut allowed = test("ttft.p95<=100ms");
        for at in 0..2_000 {
            allowed.ended(&record(if at % 20 == 0 { 500 } else { 50 }));
            assert!(!allowed.broken(), "{at}");
        }
    }

    #[test]
    fn requests_still_waiting_beyond_the_limit_count_already() {
        let mut test = test("ttft.p95<=100ms");
        let now = Duration::from_millis(200);
        test.in_flight(now, (0..30).map(|_| (Duration::from_millis(50), Waiting::Silent)));
        assert!(test.broken());
        test.in_flight(
            now,
            (0..30).map(|_| (Duration::from_millis(150), Waiting::Silent)),
        );
        assert!(!test.broken(), "not yet");
        // A role chunk may have come long before the token, or with it: only the end will tell.
        test.in_flight(now, (0..30).map(|_| (Duration::from_millis(50), Waiting::Begun)));
        assert!(!test.broken());
        assert!(!Doubt::new(None).tests());
        assert!(!self::test("ttft.mean<=100ms").tests());
    }
}
