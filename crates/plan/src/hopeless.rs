//! Whether a rung's SLA is broken so far beyond doubt that its window need not run its whole length.
//!
//! Wald's sequential test on violations (METHOD section 1): each request that broke a term of the quantile q is worth
//! ln(p1/p0), each that held it ln((1-p1)/(1-p0)), with p0 = 1 - q the share that may break it and p1 = 2 p0; the sum,
//! divided by the design effect, decides at ln((1-beta)/alpha) = 2.944 for alpha = beta = 0.05. A violation here is a value
//! beyond 1.2 times the limit: a level that fails narrowly lies near the crossing, where every sample is wanted.
//!
//! Only failing levels are cut short. A level that holds easily is wanted for its throughput.

use std::time::Duration;

use plimsoll_run::request::RequestRecord;
use plimsoll_run::sla::{Metric, Sla};
use plimsoll_run::units::from_ms;

/// Beyond this many times the limit a value counts.
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
    broke: Vec<bool>,
    /// Of the requests in flight: known to break it, known to hold it.
    in_flight: (usize, usize),
}

/// The test over all terms that it can be made for: percentiles below the maximum.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hopeless {
    terms: Vec<Tested>,
}

impl Hopeless {
    pub(crate) fn new(sla: Option<&Sla>) -> Self {
        let terms = sla.map_or(&[][..], |sla| &sla.terms);
        Hopeless {
            terms: terms
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
                        broke: Vec::new(),
                        in_flight: (0, 0),
                    })
                })
                .collect(),
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
            } else if let Some(value) = value {
                term.broke.push(value > term.far);
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
    pub(crate) fn decided(&self) -> bool {
        self.terms.iter().any(Tested::decided)
    }
}

impl Tested {
    fn decided(&self) -> bool {
        let (broken_in_flight, held_in_flight) = self.in_flight;
        let broken = self.broke.iter().filter(|broke| **broke).count() + broken_in_flight;
        let n = self.broke.len() + broken_in_flight + held_in_flight;
        if n < LEAST {
            return false;
        }
        let p0 = 1.0 - self.quantile;
        let p1 = 2.0 * p0;
        let (broken, held) = (broken as f64, (n - broken) as f64);
        let ratio = broken * (p1 / p0).ln() + held * ((1.0 - p1).max(1e-9) / (1.0 - p0)).ln();
        ratio / self.design_effect() >= DECIDES
    }

    /// How much more the share of violations varies between batches of sqrt(n) in order than among independent
    /// requests; at least 1.
    fn design_effect(&self) -> f64 {
        let size = ((self.broke.len() as f64).sqrt() as usize).max(2);
        let shares: Vec<f64> = self
            .broke
            .chunks_exact(size)
            .map(|batch| batch.iter().filter(|broke| **broke).count() as f64 / size as f64)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(term: &str) -> Hopeless {
        Hopeless::new(Some(&Sla {
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
        assert!(!broken.decided(), "too few");
        broken.ended(&record(500));
        held.ended(&record(50));
        assert!(broken.decided() && !held.decided());
    }

    #[test]
    fn narrow_failures_are_never_hopeless() {
        let mut test = test("ttft.p95<=100ms");
        for _ in 0..500 {
            test.ended(&record(115));
        }
        assert!(!test.decided());
    }

    #[test]
    fn a_share_of_one_in_twenty_is_what_a_p95_allows() {
        let mut allowed = test("ttft.p95<=100ms");
        for at in 0..2_000 {
            allowed.ended(&record(if at % 20 == 0 { 500 } else { 50 }));
            assert!(!allowed.decided(), "{at}");
        }
    }

    #[test]
    fn requests_still_waiting_beyond_the_limit_count_already() {
        let mut test = test("ttft.p95<=100ms");
        let now = Duration::from_millis(200);
        test.in_flight(now, (0..30).map(|_| (Duration::from_millis(50), Waiting::Silent)));
        assert!(test.decided());
        test.in_flight(
            now,
            (0..30).map(|_| (Duration::from_millis(150), Waiting::Silent)),
        );
        assert!(!test.decided(), "not yet");
        // A role chunk may have come long before the token, or with it: only the end will tell.
        test.in_flight(now, (0..30).map(|_| (Duration::from_millis(50), Waiting::Begun)));
        assert!(!test.decided());
        assert!(!Hopeless::new(None).tests());
        assert!(!self::test("ttft.mean<=100ms").tests());
    }
}
