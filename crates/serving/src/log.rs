//! Several readings, and what they say of a window.
//!
//! Rates are differences of counters between the reading nearest to the window's opening and the one nearest to its close.
//! A counter that falls began anew: its server restarted, and what it counts now is all since then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_run::evidence::Window;
use plimsoll_run::rung::{ServerSample, ServerSide};

use crate::engine::Quantity;
use crate::reading::{Reading, Series, prefix};

/// A reading further from an end of the window than this, or than a tenth of the window, tells of other requests than the window's.
const NEAR: Duration = Duration::from_secs(2);

/// A server restarts once in a rung, perhaps twice. Counters that fall more often are those of several servers in turn.
const MOST_RESTARTS: usize = 2;

/// The readings of a rung, in order, each with its time since the rung's start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerLog {
    readings: Vec<(Duration, Reading)>,
}

/// What counters grew by.
struct Growth {
    by: BTreeMap<Quantity, f64>,
    restarts: usize,
}

impl Growth {
    fn of(&self, quantity: Quantity) -> Option<f64> {
        self.by.get(&quantity).copied()
    }

    /// A mean out of its sum and count, in thousandths.
    fn mean_ms(&self, sum: Quantity, count: Quantity) -> Option<f64> {
        let count = self.of(count).filter(|count| *count > 0.0)?;
        self.of(sum).map(|sum| sum / count * 1e3)
    }
}

impl ServerLog {
    /// Adds a reading; its time is not before that of the last.
    pub fn push(&mut self, at: Duration, reading: Reading) {
        self.readings.push((at, reading));
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty()
    }

    /// What the readings say of the window. Nothing at all where they come from several servers in turn (a balancer before
    /// them), whose counters have nothing to do with each other.
    #[must_use]
    pub fn side(&self, window: Window) -> ServerSide {
        let Some((first, last)) = self.span(window) else {
            return ServerSide::default();
        };
        let inside = &self.readings[first..=last];
        let growth = growth(inside);
        if self.several_servers() || growth.restarts > MOST_RESTARTS {
            return ServerSide::default();
        }
        let each = |read: &dyn Fn(&Reading) -> Option<f64>| -> Vec<f64> {
            inside.iter().filter_map(|(_, reading)| read(reading)).collect()
        };
        let largest = |values: &[f64]| values.iter().copied().reduce(f64::max);
        let mean =
            |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let running = each(&|reading| reading.sum(Quantity::Running));
        let waiting = each(&|reading| reading.sum(Quantity::Waiting));
        let took = inside[inside.len() - 1]
            .0
            .saturating_sub(inside[0].0)
            .as_secs_f64();
        let (queries, hits) = prefix(|quantity| growth.of(quantity));
        let counted = queries
            .filter(|queries| *queries > 0.0)
            .and_then(|queries| hits.map(|hits| (hits / queries).min(1.0)));
        ServerSide {
            prefix_cache_hit_rate: counted.or_else(|| {
                mean(&each(&|reading| reading.max(Quantity::HitRate))).filter(|_| hits.is_none())
            }),
            usage_cached_share: None,
            kv_cache_usage_max: largest(&each(&|reading| reading.max(Quantity::KvUsage))),
            running_max: largest(&running).map(|most| most as u32),
            waiting_max: largest(&waiting).map(|most| most as u32),
            preemptions: growth.of(Quantity::Preemptions).map(|count| count as u64),
            running_mean: mean(&running),
            waiting_mean: mean(&waiting),
            ttft_mean_ms: growth.mean_ms(Quantity::TtftSum, Quantity::TtftCount),
            queue_mean_ms: growth.mean_ms(Quantity::QueueSum, Quantity::QueueCount),
            output_tokens_per_s: growth
                .of(Quantity::OutputTokens)
                .filter(|_| took > 0.0)
                .map(|tokens| tokens / took),
            samples: u32::try_from(inside.len()).unwrap_or(u32::MAX),
            restarted: growth.restarts > 0,
        }
    }

    /// Every reading as a row of `server.csv`.
    #[must_use]
    pub fn rows(&self, window: Option<Window>) -> Vec<ServerSample> {
        self.readings
            .iter()
            .map(|(at, reading)| {
                let (prefix_queried_tokens, prefix_hit_tokens) = reading.prefix();
                ServerSample {
                    at_s: (at.as_secs_f64() * 1e3).round() / 1e3,
                    in_window: window.is_some_and(|window| window.contains(*at)),
                    running: reading.sum(Quantity::Running),
                    waiting: reading.sum(Quantity::Waiting),
                    kv_cache_usage: reading.max(Quantity::KvUsage),
                    prefix_queried_tokens,
                    prefix_hit_tokens,
                    preemptions: reading.sum(Quantity::Preemptions),
                    output_tokens: reading.sum(Quantity::OutputTokens),
                }
            })
            .collect()
    }

    /// The readings nearest to the window's two ends; `None` where one end has none near.
    fn span(&self, window: Window) -> Option<(usize, usize)> {
        let reach = NEAR.max(window.length() / 10);
        let nearest = |time: Duration| {
            let distance = |at: &usize| self.readings[*at].0.abs_diff(time);
            (0..self.readings.len())
                .min_by_key(distance)
                .filter(|at| distance(at) <= reach)
        };
        let (first, last) = (nearest(window.opens)?, nearest(window.closes)?);
        (first <= last).then_some((first, last))
    }

    /// Whether a process that had been replaced by another answers again.
    fn several_servers(&self) -> bool {
        let mut before = BTreeSet::new();
        let mut current = None;
        for started in self.readings.iter().filter_map(|(_, reading)| reading.started) {
            let started = started.to_bits();
            if current != Some(started) {
                if !before.insert(started) {
                    return true;
                }
                current = Some(started);
            }
        }
        false
    }
}

fn growth(readings: &[(Duration, Reading)]) -> Growth {
    let mut by: BTreeMap<Quantity, f64> = BTreeMap::new();
    let mut known: BTreeMap<Series, f64> = BTreeMap::new();
    let mut restarts = 0;
    let mut started = None;
    if readings.len() < 2 {
        // What grew takes two looks.
        return Growth { by, restarts };
    }
    for (at, (_, reading)) in readings.iter().enumerate() {
        let mut fell = started.is_some() && reading.started.is_some() && reading.started != started;
        if fell {
            known.clear();
        }
        started = reading.started.or(started);
        for (series, value) in reading.counters() {
            let grown = by.entry(series.quantity).or_insert(0.0);
            // A series that was not there before had nothing to count yet.
            let last = known.insert(series, value).unwrap_or(0.0);
            if at == 0 {
                continue;
            }
            if value < last {
                fell = true;
                *grown += value;
            } else {
                *grown += value - last;
            }
        }
        restarts += usize::from(fell);
    }
    Growth { by, restarts }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        opens: Duration::from_secs(10),
        closes: Duration::from_secs(12),
    };

    fn page(running: u32, waiting: u32, kv: f64, queries: u32, hits: u32) -> String {
        format!(
            "vllm:num_requests_running{{engine=\"0\"}} {running}\nvllm:num_requests_waiting{{engine=\"0\"}} {waiting}\n\
             vllm:kv_cache_usage_perc{{engine=\"0\"}} {kv}\nvllm:prefix_cache_queries_total{{engine=\"0\"}} {queries}\n\
             vllm:prefix_cache_hits_total{{engine=\"0\"}} {hits}\nvllm:generation_tokens_total {queries}\n\
             vllm:time_to_first_token_seconds_sum {}\nvllm:time_to_first_token_seconds_count {}\n",
            f64::from(queries) / 1000.0,
            queries / 100
        )
    }

    fn log(pages: &[(f64, String)]) -> ServerLog {
        let mut log = ServerLog::default();
        for (at, page) in pages {
            log.push(Duration::from_secs_f64(*at), Reading::parse(page).unwrap());
        }
        log
    }

    #[test]
    fn a_window_is_what_grew_between_its_ends() {
        let log = log(&[
            (9.0, page(64, 9, 0.99, 0, 0)),
            (10.02, page(4, 0, 0.25, 1000, 900)),
            (11.0, page(8, 2, 0.5, 1400, 1000)),
            (12.02, page(6, 1, 0.375, 2000, 1400)),
            (13.0, page(1, 0, 0.1, 9000, 9000)),
        ]);
        let side = log.side(WINDOW);
        // 500 of 1000 tokens; means and extremes of the three readings 10 to 12.
        assert_eq!(side.prefix_cache_hit_rate, Some(0.5));
        assert_eq!((side.running_max, side.waiting_max), (Some(8), Some(2)));
        assert_eq!((side.running_mean, side.waiting_mean), (Some(6.0), Some(1.0)));
        assert_eq!(side.kv_cache_usage_max, Some(0.5));
        assert_eq!(side.output_tokens_per_s, Some(500.0));
        // One second over ten requests.
        assert_eq!(side.ttft_mean_ms, Some(100.0));
        assert_eq!(side.preemptions, None);
        assert_eq!(side.samples, 3);
        assert!(!side.restarted);
        let rows = log.rows(Some(WINDOW));
        assert_eq!(
            rows.iter().map(|row| row.in_window).collect::<Vec<_>>(),
            [false, true, true, false, false]
        );
        assert_eq!(rows[4].prefix_hit_tokens, Some(9000.0));
    }

    #[test]
    fn counters_that_fall_began_anew() {
        let log = log(&[
            (10.0, page(4, 0, 0.1, 1000, 500)),
            (11.0, page(4, 0, 0.1, 100, 0)),
            (12.0, page(4, 0, 0.1, 400, 300)),
        ]);
        let side = log.side(WINDOW);
        assert!(side.restarted);
        assert_eq!(side.prefix_cache_hit_rate, Some(0.75));
    }

    #[test]
    fn several_servers_in_turn_say_nothing() {
        let of = |started: u32, queries| {
            format!(
                "process_start_time_seconds {started}\n{}",
                page(4, 0, 0.1, queries, 0)
            )
        };
        let turns = log(&[(10.0, of(7, 1000)), (11.0, of(9, 10)), (12.0, of(7, 1000))]);
        assert_eq!(turns.side(WINDOW), ServerSide::default());
        let unnamed = log(&[
            (10.0, page(4, 0, 0.1, 1000, 0)),
            (10.5, page(4, 0, 0.1, 10, 0)),
            (11.0, page(4, 0, 0.1, 1100, 0)),
            (11.2, page(4, 0, 0.1, 20, 0)),
            (11.5, page(4, 0, 0.1, 1200, 0)),
            (12.0, page(4, 0, 0.1, 30, 0)),
        ]);
        assert_eq!(unnamed.side(WINDOW), ServerSide::default());
    }

    #[test]
    fn without_readings_nothing_is_known() {
        assert_eq!(ServerLog::default().side(WINDOW), ServerSide::default());
        let page = format!("{}vllm:num_preemptions_total 7\n", page(4, 0, 0.1, 1000, 500));
        let one = log(&[(11.0, page.clone())]);
        let side = one.side(WINDOW);
        assert_eq!(side.prefix_cache_hit_rate, None);
        assert_eq!(side.running_max, Some(4));
        assert_eq!(side.output_tokens_per_s, None);
        assert_eq!(side.preemptions, None, "one reading tells no growth");
        // Readings of the warm-up and of the drain say nothing of a window between them.
        let around = log(&[(7.0, page.clone()), (15.0, page)]);
        assert_eq!(around.side(WINDOW), ServerSide::default());
    }

    #[test]
    fn tokens_found_and_not_found_apart_are_looked_up_together() {
        let of = |uncached, cached| {
            format!("llamacpp:prompt_tokens_total {uncached}\nllamacpp:prompt_tokens_cached_total {cached}\n")
        };
        let log = log(&[(10.0, of(77, 408)), (12.0, of(177, 708))]);
        assert_eq!(log.side(WINDOW).prefix_cache_hit_rate, Some(0.75));
    }
}
