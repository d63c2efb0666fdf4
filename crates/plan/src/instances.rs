//! How many replicas the peak needs, and what that costs.

use plimsoll_run::answer::{Cost, Instances};
use plimsoll_run::peak::Peak;

use crate::fleet::{Routing, Server, cautious_rate, replicas, smallest};
use crate::levels::{Level, throughput};
use crate::wording::{figure, percent};

/// What the replicas must carry, and how they are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// The load at the peak.
    pub peak: Option<Peak>,
    /// Price of one replica, an hour, above zero.
    pub price_per_hour: Option<f64>,
    /// The currency of the price.
    pub currency: String,
    /// Replicas kept beyond what the load needs.
    pub spares: u64,
    /// Squared coefficient of variation of the gaps between arrivals: 1 for Poisson, more for bursts.
    pub arrival_cv2: f64,
    /// How requests are spread over the replicas.
    pub routing: Routing,
    /// Throughput of n replicas over n times that of one, a fraction above 0; applies from two replicas on.
    pub scaling_efficiency: f64,
    /// How fast the load grows while a replica starts, a fraction a minute.
    pub growth_per_minute: f64,
    /// How long a replica takes to start, minutes.
    pub startup_minutes: f64,
    /// Replicas that may fail at once with every request still served, though not within the SLA.
    pub failures: u64,
    /// Mean load over the peak, a fraction above 0; `None` takes 0.35.
    pub mean_load: Option<f64>,
}

/// Mean load over the peak where nothing is said.
const MEAN_LOAD: f64 = 0.35;

impl Default for Demand {
    /// No peak, Poisson arrivals, least-outstanding routing (what load balancers for inference offer), no spares.
    fn default() -> Self {
        Demand {
            peak: None,
            price_per_hour: None,
            currency: "USD".to_owned(),
            spares: 0,
            arrival_cv2: 1.0,
            routing: Routing::LeastOutstanding,
            scaling_efficiency: 1.0,
            growth_per_minute: 0.0,
            startup_minutes: 0.0,
            failures: 0,
            mean_load: None,
        }
    }
}

impl Demand {
    /// The peak in requests per second before growth. Users send one request each R + Z seconds; `None` when R is
    /// unknown or zero together with Z.
    fn rate(&self, response_s: Option<f64>) -> Option<f64> {
        match self.peak? {
            Peak::Rate(rate) => Some(rate),
            Peak::Users { users: 0.0, .. } => Some(0.0),
            Peak::Users { users, think } => {
                let cycle = response_s? + think.as_secs_f64();
                (cycle > 0.0).then(|| users / cycle)
            }
        }
    }

    /// Mean load over the peak.
    fn mean_load(&self) -> f64 {
        self.mean_load
            .filter(|load| load.is_finite() && *load > 0.0)
            .unwrap_or(MEAN_LOAD)
    }

    fn growth(&self) -> f64 {
        (1.0 + self.growth_per_minute.max(0.0)).powf(self.startup_minutes.max(0.0))
    }

    fn efficiency(&self, replicas: u64) -> f64 {
        if replicas > 1 && self.scaling_efficiency > 0.0 {
            self.scaling_efficiency
        } else {
            1.0
        }
    }
}

/// The replicas; `None` without a peak. `limit` is the highest level that meets the SLA, `judged` whether any level
/// could be judged at all.
#[must_use]
pub(crate) fn instances(
    levels: &[Level],
    limit: Option<&Level>,
    judged: bool,
    demand: &Demand,
) -> Option<Instances> {
    demand.peak?;
    let server = Server::new(levels);
    let response = limit
        .and_then(|limit| limit.rung.latency.e2e_ms.as_ref()?.mean)
        .map(|ms| ms / 1e3);
    let peak = demand.rate(response).map(|rate| rate * demand.growth());
    let naive_count = peak
        .zip(server.as_ref())
        .and_then(|(peak, server)| replicas(peak, server.max()));
    let none = |reason: &str| {
        Some(Instances {
            count: None,
            per_instance_per_s: None,
            safe_fraction: None,
            headroom: None,
            spares: demand.spares,
            naive_count,
            peak_per_s: peak,
            reason: reason.to_owned(),
        })
    };
    let Some(limit) = limit else {
        return none(if judged {
            "The SLA cannot be met at any count: no level tried meets it on one replica."
        } else {
            "No level could be judged, so nothing is known of what a replica can carry."
        });
    };
    let (Some(server), Some(at_limit), Some(low)) =
        (server, throughput(limit.rung, false), cautious_rate(limit.rung))
    else {
        return none("The throughput at the limit is not known.");
    };
    let Some(peak) = peak else {
        return none(
            "The peak is given in users, and the response time at the limit is not known; give it as a rate.",
        );
    };
    let each = |n: u64| {
        server.safe_fraction(limit.level, n, demand.arrival_cv2, demand.routing) * low * demand.efficiency(n)
    };
    let counted = smallest(peak, each).and_then(|loaded| {
        let spared = loaded.checked_add(demand.spares)?;
        let failing = replicas(peak, at_limit * demand.efficiency(loaded))?.checked_add(demand.failures)?;
        let failing = if demand.failures > 0 { failing } else { 0 };
        Some((loaded, spared.max(failing)))
    });
    let Some((loaded, count)) = counted else {
        return none("The peak is beyond any count that makes sense.");
    };
    let safe = each(count);
    let fleet = safe * count as f64;
    Some(Instances {
        count: Some(count),
        per_instance_per_s: Some(safe),
        safe_fraction: Some(safe / at_limit),
        headroom: (fleet > 0.0).then(|| 1.0 - peak / fleet),
        spares: demand.spares,
        naive_count,
        peak_per_s: Some(peak),
        reason: explain(
            limit,
            loaded,
            count,
            peak,
            safe,
            at_limit,
            naive_count.map(|naive| (naive, server.max())),
            demand,
        ),
    })
}

#[expect(clippy::too_many_arguments, reason = "one sentence that names them all")]
fn explain(
    limit: &Level,
    loaded: u64,
    count: u64,
    peak: f64,
    safe: f64,
    at_limit: f64,
    naive: Option<(u64, f64)>,
    demand: &Demand,
) -> String {
    let arrivals = if demand.arrival_cv2 == 1.0 {
        "Arrivals at random".to_owned()
    } else {
        format!("Arrivals in bursts (cv2 {})", figure(demand.arrival_cv2))
    };
    let mut reason = format!(
        "{arrivals} fluctuate where a sweep does not: to keep 95 % of the time within {} in flight, a replica may be \
         given {} requests/s, {} of the {} measured there",
        limit.level,
        figure(safe),
        percent(safe / at_limit),
        figure(at_limit)
    );
    if count > 1 {
        reason.push_str(&format!(" ({} routing)", demand.routing.name()));
    }
    reason.push_str(&format!("; the peak of {} requests/s", figure(peak)));
    if demand.growth() > 1.0 {
        reason.push_str(&format!(
            " ({} times today's, which it reaches while a replica starts)",
            figure(demand.growth())
        ));
    }
    reason.push_str(&format!(" needs {loaded}"));
    if count > loaded {
        reason.push_str(&format!(", with spares and failures {count}"));
    }
    reason.push('.');
    if let Some((naive, largest)) = naive {
        reason.push_str(&against_naive(naive, largest, count, at_limit, loaded));
    }
    reason
}

/// What dividing by the largest throughput says, and why it is another number.
fn against_naive(naive: u64, largest: f64, count: u64, at_limit: f64, loaded: u64) -> String {
    let said = format!(
        " Dividing the peak by the largest throughput, {} requests/s, would say {naive}",
        figure(largest)
    );
    if naive == count {
        return format!("{said} too: at this peak the room that fluctuation needs costs no further replica.");
    }
    let broken = if largest > at_limit * (1.0 + 1e-9) {
        "that rate breaks the SLA, and "
    } else {
        ""
    };
    let apart = if count > loaded && naive == loaded {
        "it leaves nothing for spares and failures"
    } else {
        "it leaves no room for arrivals that come together"
    };
    format!("{said}: {broken}{apart}.")
}

/// Price for a million output tokens: `replicas` at `price` an hour that make `tokens_per_s` together.
#[must_use]
pub(crate) fn per_million(price: f64, replicas: f64, tokens_per_s: f64) -> Option<f64> {
    let cost = price * replicas / (tokens_per_s * 3600.0) * 1e6;
    (tokens_per_s > 0.0 && cost.is_finite()).then_some(cost)
}

/// The cost; `None` without a price.
#[must_use]
pub(crate) fn cost(
    levels: &[Level],
    limit: Option<&Level>,
    instances: Option<&Instances>,
    demand: &Demand,
) -> Option<Cost> {
    let price = demand.price_per_hour.filter(|price| price.is_finite())?;
    let safe = instances
        .and_then(|instances| instances.per_instance_per_s)
        .or_else(|| {
            let limit = limit?;
            let fraction =
                Server::new(levels)?.safe_fraction(limit.level, 1, demand.arrival_cv2, demand.routing);
            Some(fraction * cautious_rate(limit.rung)?)
        });
    let tokens = limit.and_then(|limit| {
        let rung = limit.rung;
        let rates = throughput(rung, true).zip(throughput(rung, false));
        rung.lengths
            .output
            .actual
            .or(rates.map(|(tokens, requests)| tokens / requests))
    });
    // Replicas are paid for by the peak and used by the mean; growth is what may come, not what is.
    let growth = demand.growth();
    let at_mean = instances.and_then(|instances| {
        let mean = demand.mean_load() * instances.peak_per_s? / growth;
        per_million(price, instances.count? as f64, mean * tokens?)
    });
    Some(Cost {
        per_million_output_tokens: safe
            .zip(tokens)
            .and_then(|(safe, tokens)| per_million(price, 1.0, safe * tokens)),
        per_million_at_mean_load: at_mean,
        mean_load: at_mean.map(|_| demand.mean_load()),
        fleet_per_hour: instances
            .and_then(|instances| instances.count)
            .map(|count| count as f64 * price),
        currency: demand.currency.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_run::rung::RungReport;
    use plimsoll_run::sla::Sla;

    use super::*;
    use crate::levels::levels;
    use crate::table::{rung, with_e2e};

    /// The worked example: limit 72, X 7.96 there (low 7.7), at most 9.46.
    fn worked() -> Vec<RungReport> {
        [1, 4, 16, 32, 64, 72, 128, 256]
            .map(|n| {
                let response = 1.9955 + 0.097_914 * f64::from(n);
                let rate = f64::from(n) / response;
                let mut rung = with_e2e(rung(n, rate, rate * 200.0), response * 1e3);
                // The one-sided 90 % bound of 7.7 from this 95 % interval.
                let half = (7.96 - 7.7) * 1.96 / 1.2816;
                rung.throughput.requests_ci95 = Some([Some(rate - half), Some(rate + half)]);
                rung
            })
            .into()
    }

    fn answer(demand: &Demand) -> Instances {
        let rungs = worked();
        let levels = levels(&rungs, &Sla::default());
        let limit = levels.iter().find(|level| level.level == 72);
        instances(&levels, limit, true, demand).unwrap()
    }

    fn peak(rate: f64) -> Demand {
        Demand {
            peak: Some(Peak::Rate(rate)),
            ..Demand::default()
        }
    }

    #[test]
    fn the_worked_example_is_5_6_7_and_9() {
        let bursty = Demand {
            arrival_cv2: 4.0,
            ..peak(40.0)
        };
        let found = answer(&bursty);
        assert_eq!((found.naive_count, found.count), (Some(5), Some(6)));
        assert!(found.reason.contains("would say 5"), "{}", found.reason);
        let spare = Demand { spares: 1, ..bursty };
        assert_eq!(answer(&spare).count, Some(7));
        let growing = Demand {
            growth_per_minute: 0.03,
            startup_minutes: 10.0,
            ..spare
        };
        assert_eq!(answer(&growing).count, Some(9));
    }

    #[test]
    fn a_peak_of_nothing_is_one_replica() {
        let found = answer(&peak(0.0));
        assert_eq!(found.count, Some(1));
        assert_eq!(found.headroom, Some(1.0));
    }

    #[test]
    fn users_send_a_request_each_response_and_think_time() {
        // R at 72 is 9.045 s.
        let users = Demand {
            peak: Some(Peak::Users {
                users: 400.0,
                think: Duration::from_secs(20),
            }),
            ..Demand::default()
        };
        let rate = answer(&users).peak_per_s.unwrap();
        assert!((rate - 400.0 / 29.045).abs() < 0.01, "{rate}");
    }

    #[test]
    fn the_fleet_survives_failures() {
        // 40/s at 7.96 needs six that live.
        let demand = Demand {
            failures: 3,
            ..peak(40.0)
        };
        assert_eq!(answer(&demand).count, Some(9));
    }

    #[test]
    fn what_is_not_known_is_none() {
        let rungs = worked();
        let levels = levels(&rungs, &Sla::default());
        assert!(instances(&levels, levels.last(), true, &Demand::default()).is_none());
        let never = instances(&levels, None, true, &peak(4.0)).unwrap();
        assert_eq!(never.count, None);
        assert!(never.reason.contains("cannot be met at any count"));
        assert_eq!(instances(&[], None, false, &peak(4.0)).unwrap().count, None);
    }

    #[test]
    fn cost_falls_with_use() {
        // One replica at capacity makes a million tokens for $0.69; seven at 35 % of the peak of 40/s for $2.77.
        let tokens = 7.96 * 256.0;
        let price = 0.69 * tokens * 3600.0 / 1e6;
        assert!((per_million(price, 1.0, tokens).unwrap() - 0.69).abs() < 1e-9);
        let mean = per_million(price, 7.0, 0.35 * 40.0 * 256.0).unwrap();
        assert!((mean - 2.77).abs() < 0.03, "{mean}");
        assert_eq!(per_million(1.0, 1.0, 0.0), None);

        let rungs = worked();
        let levels = levels(&rungs, &Sla::default());
        let limit = levels.iter().find(|level| level.level == 72);
        let demand = Demand {
            price_per_hour: Some(4.0),
            ..peak(40.0)
        };
        let instances = instances(&levels, limit, true, &demand);
        let cost = cost(&levels, limit, instances.as_ref(), &demand).unwrap();
        assert_eq!(cost.fleet_per_hour, Some(4.0 * 6.0));
        let safe = instances.unwrap().per_instance_per_s.unwrap();
        let expected = 4.0 / (safe * 200.0 * 3600.0) * 1e6;
        assert!((cost.per_million_output_tokens.unwrap() - expected).abs() < 1e-9);
        // Six replicas at $4.0 serve 0.35 * 40/s * 200 tokens on average.
        let at_mean = 4.0 * 6.0 / (0.35 * 40.0 * 200.0 * 3600.0) * 1e6;
        assert!((cost.per_million_at_mean_load.unwrap() - at_mean).abs() < 1e-9);
        assert_eq!(cost.mean_load, Some(0.35));
    }
}
