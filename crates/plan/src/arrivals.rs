//! Arrivals of an open loop: when requests come, whatever became of those before them.
//!
//! Made at random for a rate, or read from a trace of what a service has seen.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp1, Gamma};

/// The window over which a peak is the mean (METHOD section 3): shorter ones are noise, longer ones hide it.
pub const PEAK_WINDOW_S: f64 = 60.0;
/// Gaps this even are drawn as equal.
const CV2_EVEN: f64 = 1e-3;

/// Arrival times of a Poisson process of `rate` per second, ascending, all before `duration`. Empty unless the rate is
/// finite and above 0.
#[must_use]
pub fn poisson(rate: f64, duration: Duration, seed: u64) -> Vec<Duration> {
    renewal(rate, duration, seed, |rng| Exp1.sample(rng))
}

/// Arrival times of a renewal process of `rate` per second whose gaps are gamma distributed with the squared coefficient
/// of variation `cv2`: 1 is Poisson, more is bursts, 0 is even. A `cv2` that is no number counts as 1.
#[must_use]
pub fn bursty(rate: f64, cv2: f64, duration: Duration, seed: u64) -> Vec<Duration> {
    if cv2 <= CV2_EVEN {
        return renewal(rate, duration, seed, |_| 1.0);
    }
    // Gamma(shape k, scale 1/k) has mean 1 and cv2 1/k.
    match Gamma::new(1.0 / cv2, cv2) {
        Ok(gamma) if cv2 != 1.0 => renewal(rate, duration, seed, |rng| gamma.sample(rng)),
        _ => poisson(rate, duration, seed),
    }
}

/// Arrivals whose gaps are `gap` (of mean 1) over the rate.
fn renewal(
    rate: f64,
    duration: Duration,
    seed: u64,
    mut gap: impl FnMut(&mut StdRng) -> f64,
) -> Vec<Duration> {
    let mut arrivals = Vec::new();
    if !(rate.is_finite() && rate > 0.0) {
        return arrivals;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let end = duration.as_secs_f64();
    let mut at = 0.0;
    loop {
        at += gap(&mut rng) / rate;
        match Duration::try_from_secs_f64(at) {
            Ok(arrival) if at < end => arrivals.push(arrival),
            _ => return arrivals,
        }
    }
}

/// The busiest window of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracePeak {
    /// Arrivals per second, the largest mean over any [`PEAK_WINDOW_S`]; over the whole trace where it is shorter.
    pub rate_per_s: f64,
    /// Squared coefficient of variation of the gaps within that window; `None` from fewer than three arrivals.
    pub cv2: Option<f64>,
    /// When it opens, by the trace's clock, seconds.
    pub opens_s: f64,
    /// Its length, seconds.
    pub length_s: f64,
}

/// The busiest window of these arrival times, in seconds and ascending; the earliest of several. `None` when there are
/// fewer than two arrivals, or all come at once.
#[must_use]
pub fn peak_of_trace(times_s: &[f64]) -> Option<TracePeak> {
    let (first, last) = (*times_s.first()?, *times_s.last()?);
    let span = last - first;
    if !(span.is_finite() && span > 0.0) {
        return None;
    }
    if span < PEAK_WINDOW_S {
        // What came after the last arrival is not known: n arrivals enclose n - 1 gaps.
        return Some(TracePeak {
            rate_per_s: (times_s.len() - 1) as f64 / span,
            cv2: cv2_of_gaps(times_s),
            opens_s: first,
            length_s: span,
        });
    }
    // A window with the most arrivals can be moved until it opens on one.
    let (mut best, mut best_count, mut end) = (0, 0, 0);
    for (start, opens) in times_s.iter().enumerate() {
        while times_s.get(end).is_some_and(|at| *at < opens + PEAK_WINDOW_S) {
            end += 1;
        }
        if end - start > best_count {
            (best, best_count) = (start, end - start);
        }
    }
    Some(TracePeak {
        rate_per_s: best_count as f64 / PEAK_WINDOW_S,
        cv2: cv2_of_gaps(&times_s[best..best + best_count]),
        opens_s: times_s[best],
        length_s: PEAK_WINDOW_S,
    })
}

/// Variance over squared mean of the gaps between ascending times; the sample variance.
fn cv2_of_gaps(times_s: &[f64]) -> Option<f64> {
    let gaps: Vec<f64> = times_s.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if gaps.len() < 2 {
        return None;
    }
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean > 0.0).then(|| variance / (mean * mean))
}

/// The busiest window of a trace, stretched or squeezed to `rate` per second and repeated until `duration`; its bursts keep
/// their shape. Empty when the trace has no such window or the rate is not finite and above 0.
#[must_use]
pub fn replayed(times_s: &[f64], rate: f64, duration: Duration) -> Vec<Duration> {
    let mut arrivals = Vec::new();
    let Some(peak) = peak_of_trace(times_s).filter(|_| rate.is_finite() && rate > 0.0) else {
        return arrivals;
    };
    let stretch = peak.rate_per_s / rate;
    let opens = peak.opens_s;
    let from = times_s.partition_point(|at| *at < opens);
    // As many as the rate counts; at least the one on which the window opens.
    let to = (from + (peak.rate_per_s * peak.length_s).round() as usize).min(times_s.len());
    let end = duration.as_secs_f64();
    for round in 0_u32.. {
        let base = f64::from(round) * peak.length_s;
        for at in &times_s[from..to] {
            let at = (base + (at - opens)) * stretch;
            match Duration::try_from_secs_f64(at) {
                Ok(arrival) if at < end => arrivals.push(arrival),
                _ => return arrivals,
            }
        }
    }
    arrivals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(arrivals: &[Duration]) -> Vec<f64> {
        arrivals.iter().map(Duration::as_secs_f64).collect()
    }

    #[test]
    fn poisson_arrivals_have_mean_and_variance_of_their_law() {
        let arrivals = poisson(50.0, Duration::from_secs(2000), 7);
        // The count of 100,000 has a standard deviation of 316.
        let n = arrivals.len() as f64;
        assert!((n - 100_000.0).abs() < 4.0 * 316.0, "{n}");
        assert!(arrivals.is_sorted());
        // Exponential gaps have cv2 1; its estimate from n gaps has a standard error of sqrt(8/n).
        let cv2 = cv2_of_gaps(&seconds(&arrivals)).unwrap();
        assert!((cv2 - 1.0).abs() < 4.0 * (8.0 / n).sqrt(), "{cv2}");
        assert_eq!(arrivals, poisson(50.0, Duration::from_secs(2000), 7));
        assert_ne!(arrivals[0], poisson(50.0, Duration::from_secs(2000), 8)[0]);
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(poisson(rate, Duration::from_secs(1), 1).is_empty());
        }
    }

    #[test]
    fn bursts_have_the_cv2_asked_for() {
        for asked in [0.25, 4.0] {
            let arrivals = bursty(50.0, asked, Duration::from_secs(4000), 3);
            let cv2 = cv2_of_gaps(&seconds(&arrivals)).unwrap();
            assert!((cv2 / asked - 1.0).abs() < 0.06, "{cv2}, {asked} asked");
            let rate = arrivals.len() as f64 / 4000.0;
            assert!((rate / 50.0 - 1.0).abs() < 0.02, "{rate}");
        }
        let even = bursty(10.0, 0.0, Duration::from_secs(10), 1);
        assert!((99..=100).contains(&even.len()));
        assert!(cv2_of_gaps(&seconds(&even)).unwrap() < 1e-9);
        let second = Duration::from_secs(9);
        assert_eq!(bursty(10.0, f64::NAN, second, 1), poisson(10.0, second, 1));
    }

    #[test]
    fn the_peak_is_the_busiest_minute_wherever_it_lies() {
        // One a second for an hour, and five a second from 1000 s to 1060 s.
        let mut times: Vec<f64> = (0..3600).map(f64::from).collect();
        times.extend((0..240).map(|n| 1000.1 + f64::from(n) / 4.0));
        times.sort_by(f64::total_cmp);
        let peak = peak_of_trace(&times).unwrap();
        assert!((peak.rate_per_s - 5.0).abs() < 1e-9, "{peak:?}");
        assert!((peak.opens_s - 1000.0).abs() <= 0.2, "{peak:?}");
        // Even arrivals: no variation, one a second.
        let even: Vec<f64> = (0..600).map(f64::from).collect();
        let peak = peak_of_trace(&even).unwrap();
        assert_eq!((peak.rate_per_s, peak.cv2), (1.0, Some(0.0)));
        // Pairs at once every two seconds: gaps 0, 2, 0, 2, ... of mean 1 and variance 1.
        let pairs: Vec<f64> = (0..600).map(|n| f64::from(n / 2 * 2)).collect();
        let cv2 = peak_of_trace(&pairs).unwrap().cv2.unwrap();
        assert!((cv2 - 1.0).abs() < 0.06, "{cv2}");
    }

    #[test]
    fn a_short_trace_is_rated_over_its_own_span() {
        let peak = peak_of_trace(&[10.0, 10.5, 11.0, 11.5, 12.0]).unwrap();
        assert_eq!((peak.rate_per_s, peak.cv2), (2.0, Some(0.0)));
        assert_eq!(peak_of_trace(&[1.0, 2.0]).unwrap().cv2, None);
        for none in [&[][..], &[1.0], &[3.0, 3.0, 3.0], &[0.0, f64::INFINITY]] {
            assert_eq!(peak_of_trace(none), None);
        }
    }

    #[test]
    fn a_replayed_trace_keeps_its_shape_at_another_rate() {
        // Two a second, in pairs, for two minutes: replayed at half the rate the pairs stay pairs, twice as far apart.
        let times: Vec<f64> = (0..240).map(|n| f64::from(n / 2)).collect();
        let arrivals = replayed(&times, 1.0, Duration::from_secs(300));
        assert!((299..=300).contains(&arrivals.len()), "{}", arrivals.len());
        assert_eq!(arrivals[0], Duration::ZERO);
        assert_eq!(arrivals[1], Duration::ZERO);
        assert_eq!(arrivals[2], Duration::from_secs(2));
        assert!(arrivals.is_sorted());
        assert!(replayed(&[], 1.0, Duration::from_secs(1)).is_empty());
        assert!(replayed(&times, 0.0, Duration::from_secs(1)).is_empty());
    }
}
