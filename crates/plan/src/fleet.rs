//! How much of its throughput a replica may be given: a closed-loop sweep read as a load-dependent server under
//! open arrivals (METHOD section 3).
//!
//! A replica with N requests inside serves X(N) per second. Under arrivals at rate lambda the number inside is
//! distributed as the product over k <= N of lambda/X(k); lambda_safe is the largest rate at which the 95th percentile
//! of that number stays within the SLA limit. Burstier arrivals (squared coefficient of variation cv2 of the gaps)
//! widen the distribution: the product is raised to 1/cv2, the diffusion approximation for work of fixed size, which
//! reproduces simulated fractions (cv2 = 4: 0.75, 10: 0.58).

pub use plimsoll_run::demand::Routing;
use plimsoll_run::rung::RungReport;

use crate::levels::{Level, has_throughput, throughput};

/// The share of time in which the number inside may exceed the limit.
const OVER: f64 = 0.05;
/// Steps of the grid below the limit, and again above it.
const STEPS: f64 = 1500.0;
/// Beyond so many replicas the fraction left follows the square root law instead of being computed.
const POOL_MOST: u64 = 64;
/// Round-robin and pooling cannot make arrivals at a replica smoother than this.
const CV2_LEAST: f64 = 0.25;

/// Requests per second served with N inside: straight lines in log-log between the rungs, proportional to N below
/// the lowest (which is cautious) and constant beyond the highest.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    points: Vec<(f64, f64)>,
}

impl Server {
    /// From the levels whose requests per second can be believed.
    pub(crate) fn new(levels: &[Level]) -> Option<Self> {
        let points: Vec<(f64, f64)> = levels
            .iter()
            .filter(|level| has_throughput(level.rung))
            .filter_map(|level| Some((f64::from(level.level), throughput(level.rung, false)?)))
            .collect();
        Server::through(points)
    }

    fn through(points: Vec<(f64, f64)>) -> Option<Self> {
        (!points.is_empty()).then_some(Server { points })
    }

    /// X(N) for a real N > 0.
    pub(crate) fn rate(&self, n: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 <= n);
        match (
            after.checked_sub(1).map(|at| self.points[at]),
            self.points.get(after),
        ) {
            (None, Some(&(n0, x0))) => x0 * n / n0,
            (Some((_, x)), None) => x,
            (Some((n0, x0)), Some(&(n1, x1))) => x0 * ((n / n0).ln() / (n1 / n0).ln() * (x1 / x0).ln()).exp(),
            (None, None) => 0.0,
        }
    }

    pub(crate) fn max(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(0.0, f64::max)
    }

    fn highest(&self) -> f64 {
        self.points.last().map_or(1.0, |point| point.0)
    }

    /// Whether the 95th percentile of the number inside stays within `limit` a replica at `lambda` a replica, with
    /// `pooled` replicas that share one queue and gaps of `cv2`.
    fn holds(&self, lambda: f64, limit: f64, pooled: f64, cv2: f64) -> bool {
        // In requests a replica; one request is 1/pooled of it. Coarser steps where the fleet is large.
        let step = (1.0 / pooled).max(limit / STEPS);
        let outer = step.max((self.highest() - limit) / STEPS);
        let mut log_weight = 0.0_f64;
        let (mut within, mut beyond, mut scale) = (step, 0.0_f64, 0.0_f64);
        let mut n = 0.0;
        let end = self.highest().max(limit);
        loop {
            let width = if n + step <= limit + 1e-9 { step } else { outer };
            // Aggregating several requests into a step: their factors multiply.
            let at = if width > 1.0 / pooled {
                n + width / 2.0
            } else {
                n + width
            };
            let change = (lambda / self.rate(at)).ln() * pooled * width / cv2;
            n += width;
            log_weight += change;
            if log_weight > scale {
                let shrink = (scale - log_weight).exp();
                within *= shrink;
                beyond *= shrink;
                scale = log_weight;
            }
            let weight = (log_weight - scale).exp() * width;
            if n <= limit + 1e-9 {
                within += weight;
            } else {
                beyond += weight;
            }
            if n >= end {
                // The rest is geometric, at the last rung's rate.
                let change = (lambda / self.rate(end)).ln() * pooled * width / cv2;
                if change >= 0.0 {
                    return false;
                }
                let ratio = change.exp();
                beyond += weight * ratio / (1.0 - ratio);
                return beyond <= OVER * (within + beyond);
            }
        }
    }

    /// lambda_safe over X(limit), a fraction in 0..=1: see the module.
    fn fraction(&self, limit: f64, pooled: f64, cv2: f64) -> f64 {
        let at_limit = self.rate(limit);
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..30 {
            let middle = (low + high) / 2.0;
            if self.holds(middle * at_limit, limit, pooled, cv2) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The fraction of X(limit) that each of `replicas` may be given.
    ///
    /// Least-outstanding routing pools the replicas. Random routing thins the arrivals (cv2 falls towards 1), round-robin
    /// smooths them (cv2/n, no smoother than four replicas' worth); neither pools. Two choices are taken to get half of
    /// what pooling adds over random.
    pub(crate) fn safe_fraction(&self, limit: u32, replicas: u64, cv2: f64, routing: Routing) -> f64 {
        let limit = f64::from(limit);
        let cv2 = cv2.max(CV2_LEAST);
        let n = replicas.max(1) as f64;
        let random = || self.fraction(limit, 1.0, 1.0 + (cv2 - 1.0) / n);
        match routing {
            _ if replicas <= 1 => self.fraction(limit, 1.0, cv2),
            Routing::Random => random(),
            Routing::RoundRobin => self.fraction(limit, 1.0, (cv2 / n).max(CV2_LEAST)),
            Routing::LeastOutstanding => self.pooled(limit, replicas, cv2),
            Routing::PowerOfTwo => (random() + self.pooled(limit, replicas, cv2)) / 2.0,
        }
    }

    fn pooled(&self, limit: f64, replicas: u64, cv2: f64) -> f64 {
        let computed = replicas.min(POOL_MOST);
        let fraction = self.fraction(limit, computed as f64, cv2);
        // Fluctuations a replica shrink with the square root of the pool.
        1.0 - (1.0 - fraction) * (computed as f64 / replicas as f64).sqrt()
    }
}

/// Replicas for `peak` at `each` a replica; a peak that divides exactly needs no further one, and none is one.
#[must_use]
pub(crate) fn replicas(peak: f64, each: f64) -> Option<u64> {
    let exact = peak / each;
    // Below 2^53, so that the cast is exact.
    (exact.is_finite() && (0.0..9e15).contains(&exact)).then(|| ((exact - 1e-9).ceil() as u64).max(1))
}

/// The smallest n for which `n * each(n) >= peak`, where `each` does not fall with n.
pub(crate) fn smallest(peak: f64, each: impl Fn(u64) -> f64) -> Option<u64> {
    let enough = |n: u64| replicas(peak, each(n)).is_some_and(|needed| needed <= n);
    // With one replica's share the count is an upper bound.
    let mut high = replicas(peak, each(1))?;
    while !enough(high) {
        high = high.checked_mul(2).filter(|high| *high < 1 << 52)?;
    }
    let mut low = 0;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// The cautious throughput of a rung: the lower end of the one-sided 90 % interval of its requests per second, from its
/// two-sided 95 % one (normal quantiles 1.282 and 1.960).
#[must_use]
pub(crate) fn cautious_rate(rung: &RungReport) -> Option<f64> {
    let rate = throughput(rung, false)?;
    let low = rung
        .throughput
        .requests_ci95
        .and_then(|[low, _]| low)
        .filter(|low| *low <= rate)
        .unwrap_or(rate);
    Some(rate - (rate - low) * 1.2816 / 1.9600)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server of the worked example: 7.96 a second with 72 inside, at most 9.46 (with 256); a step time affine in
    /// the batch, R = 2.0 + 0.098 N seconds.
    pub(crate) fn worked() -> Server {
        let points = [1, 4, 16, 32, 64, 72, 128, 256]
            .map(|n| (f64::from(n), f64::from(n) / (1.9955 + 0.097_914 * f64::from(n))));
        Server::through(points.to_vec()).unwrap()
    }

    fn near(actual: f64, expected: f64) {
        assert!((actual - expected).abs() <= 0.02, "{actual} is not {expected}");
    }

    #[test]
    fn safe_fractions_are_those_confirmed_by_simulation() {
        let server = worked();
        assert!((server.rate(72.0) - 7.96).abs() < 0.01);
        assert!((server.max() - 9.46).abs() < 0.01);
        let routing = Routing::LeastOutstanding;
        near(server.safe_fraction(72, 1, 1.0, routing), 0.885);
        near(server.safe_fraction(72, 1, 4.0, routing), 0.75);
        near(server.safe_fraction(72, 1, 10.0, routing), 0.58);
        near(server.safe_fraction(72, 4, 1.0, routing), 0.94);
        near(server.safe_fraction(72, 16, 1.0, routing), 0.97);
    }

    #[test]
    fn one_replica_of_constant_rate_is_the_textbook_queue() {
        // X(N) = 1 for N >= 1 is M/M/1: P(N > c) = rho^(c+1), so rho = 0.05^(1/(c+1)).
        let server = Server::through(vec![(1.0, 1.0), (100.0, 1.0)]).unwrap();
        let expected = 0.05_f64.powf(1.0 / 21.0);
        let found = server.safe_fraction(20, 1, 1.0, Routing::LeastOutstanding);
        assert!((found - expected).abs() < 0.002, "{found} {expected}");
        // X(N) = N is M/M/infinity: N is Poisson; P(N <= 30) = 0.95 at a mean of 22.4.
        let server = Server::through(vec![(1.0, 1.0), (1000.0, 1000.0)]).unwrap();
        let found = server.safe_fraction(30, 1, 1.0, Routing::Random) * 30.0;
        assert!((found - 22.44).abs() < 0.1, "{found}");
    }

    #[test]
    fn coarse_steps_agree_with_fine_ones() {
        // At 5,000 the grid is coarser than a request; M/M/infinity has its 95th percentile at mean + 1.645 sqrt(mean).
        let server = Server::through(vec![(1.0, 1.0), (20_000.0, 20_000.0)]).unwrap();
        let mean = server.safe_fraction(5000, 1, 1.0, Routing::Random) * 5000.0;
        assert!((mean + 1.645 * mean.sqrt() - 5000.0).abs() < 8.0, "{mean}");
    }

    #[test]
    fn better_routing_and_more_replicas_never_hurt() {
        let server = worked();
        let of = |n, routing| server.safe_fraction(72, n, 4.0, routing);
        for n in [2, 8, 64, 1000] {
            assert!(of(n, Routing::Random) <= of(n, Routing::PowerOfTwo) + 1e-6);
            assert!(of(n, Routing::PowerOfTwo) <= of(n, Routing::LeastOutstanding) + 1e-6);
            assert!(of(n, Routing::LeastOutstanding) <= of(2 * n, Routing::LeastOutstanding) + 1e-6);
        }
        assert!(of(4, Routing::RoundRobin) > of(4, Routing::Random));
        assert!(of(1_000_000_000, Routing::LeastOutstanding) < 1.0);
    }

    #[test]
    fn an_exact_division_needs_no_further_replica() {
        assert_eq!(replicas(20.0, 2.0), Some(10));
        assert_eq!(replicas(20.1, 2.0), Some(11));
        assert_eq!(replicas(0.0, 2.0), Some(1));
        assert_eq!(replicas(1.0, 0.0), None);
        assert_eq!(replicas(f64::NAN, 1.0), None);
        assert_eq!(smallest(20.0, |_| 2.0), Some(10));
        assert_eq!(smallest(1e9, |_| 1.0), Some(1_000_000_000));
        assert_eq!(smallest(0.3 * 3.0, |_| 0.3), Some(3));
    }
}
