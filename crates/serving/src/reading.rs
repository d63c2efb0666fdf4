//! One reading of the metrics: counters by series, gauges summed or at their largest.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::engine::{MetricsOf, Quantity, meaning};
use crate::exposition::{Sample, samples};

/// Labels that only tell apart views of the same engine: a model split over several devices reports from each of them.
const VIEWS: [&str; 5] = ["tp_rank", "pp_rank", "moe_ep_rank", "pid", "rank"];

/// A counter of one engine: what it counts, which part of it, and a digest of the labels that tell it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// What it measures.
    pub quantity: Quantity,
    part: u8,
    identity: u64,
}

/// What a page of metrics said.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Whose names it has.
    pub engine: MetricsOf,
    /// When the process that answered had started, seconds since 1970, where it says so.
    pub started: Option<f64>,
    series: BTreeMap<Series, f64>,
}

impl Reading {
    /// Reads a page; `None` where it has no metric of an engine that is understood.
    #[must_use]
    pub fn parse(page: &str) -> Option<Reading> {
        let mut found = None;
        let mut started = None;
        let mut series: BTreeMap<Series, f64> = BTreeMap::new();
        for sample in samples(page) {
            if sample.name == "process_start_time_seconds" {
                started = Some(sample.value);
            }
            let Some((engine, quantity, part)) = meaning(sample.name) else {
                continue;
            };
            if !sample.value.is_finite() || sample.value < 0.0 || of_one_priority(&sample) {
                continue;
            }
            found.get_or_insert(engine);
            let key = Series {
                quantity,
                part,
                identity: identity(&sample),
            };
            // Views of one engine, and an old name beside its new one, say the same: the largest has seen most.
            let value = series.entry(key).or_insert(0.0);
            *value = value.max(sample.value);
        }
        found.map(|engine| Reading {
            engine,
            started,
            series,
        })
    }

    /// The sum over all engines and models; `None` where it is not told.
    #[must_use]
    pub fn sum(&self, quantity: Quantity) -> Option<f64> {
        self.of(quantity).reduce(|a, b| a + b)
    }

    /// The largest of all engines and models; `None` where it is not told.
    #[must_use]
    pub fn max(&self, quantity: Quantity) -> Option<f64> {
        self.of(quantity).reduce(f64::max)
    }

    fn of(&self, quantity: Quantity) -> impl Iterator<Item = f64> + '_ {
        self.series
            .iter()
            .filter(move |(series, _)| series.quantity == quantity)
            .map(|(_, value)| *value)
    }

    /// The counters by series.
    pub fn counters(&self) -> impl Iterator<Item = (Series, f64)> + '_ {
        self.series
            .iter()
            .filter(|(series, _)| !series.quantity.is_gauge())
            .map(|(series, value)| (*series, *value))
    }

    /// Prompt tokens looked up in the prefix cache and found there, since the server's start.
    #[must_use]
    pub fn prefix(&self) -> (Option<f64>, Option<f64>) {
        prefix(|quantity| self.sum(quantity))
    }
}

/// Tokens looked up and found out of the sums of single quantities.
pub(crate) fn prefix(sum: impl Fn(Quantity) -> Option<f64>) -> (Option<f64>, Option<f64>) {
    let queries = sum(Quantity::PrefixQueries);
    match sum(Quantity::PrefixHitsApart) {
        Some(apart) => (queries.map(|queries| queries + apart), Some(apart)),
        None => (queries, sum(Quantity::PrefixHits)),
    }
}

/// SGLang repeats its gauges for each priority beside the total, whose priority is empty.
fn of_one_priority(sample: &Sample<'_>) -> bool {
    sample
        .label("priority")
        .is_some_and(|priority| !priority.is_empty())
}

fn identity(sample: &Sample<'_>) -> u64 {
    let mut labels: Vec<_> = sample
        .labels()
        .filter(|(name, _)| !VIEWS.contains(name))
        .collect();
    labels.sort_unstable();
    let mut hasher = DefaultHasher::new();
    labels.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_add_up_and_views_of_one_do_not() {
        let page = "sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\",priority=\"\"} 5\n\
                    sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"1\",priority=\"\"} 5\n\
                    sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\",priority=\"7\"} 2\n\
                    sglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"0\",priority=\"\"} 3\n\
                    sglang:token_usage{dp_rank=\"0\"} 0.25\nsglang:token_usage{dp_rank=\"1\"} 0.5\n\
                    sglang:prompt_tokens_total{is_streaming=\"true\"} 300\nsglang:prompt_tokens_total{is_streaming=\"false\"} 100\n\
                    sglang:cached_tokens_total{cache_source=\"device\"} 60\nsglang:cached_tokens_total{cache_source=\"host\"} 40\n\
                    sglang:cached_tokens_created{cache_source=\"host\"} 1.7e9\n";
        let reading = Reading::parse(page).unwrap();
        assert_eq!(reading.engine, MetricsOf::Sglang);
        assert_eq!(reading.sum(Quantity::Running), Some(8.0));
        assert_eq!(reading.max(Quantity::KvUsage), Some(0.5));
        assert_eq!(reading.prefix(), (Some(400.0), Some(100.0)));
        assert_eq!(reading.sum(Quantity::Waiting), None);
    }

    #[test]
    fn an_old_name_beside_its_new_one_counts_once() {
        let page = "vllm:gpu_prefix_cache_queries_total{engine=\"0\"} 540\nvllm:prefix_cache_queries_total{engine=\"0\"} 540\n\
                    vllm:prefix_cache_queries_total{engine=\"1\"} 60\nvllm:prefix_cache_hits_total{engine=\"0\"} 240\n\
                    vllm:external_prefix_cache_hits_total{engine=\"0\"} 60\n";
        let reading = Reading::parse(page).unwrap();
        assert_eq!(reading.prefix(), (Some(600.0), Some(300.0)));
    }

    #[test]
    fn a_page_without_an_engine_is_no_reading() {
        assert_eq!(Reading::parse(""), None);
        assert_eq!(Reading::parse("<html>not found</html>"), None);
        assert_eq!(
            Reading::parse("process_start_time_seconds 5\npython_info{x=\"1\"} 1\n"),
            None
        );
        assert_eq!(Reading::parse("vllm:num_requests_running NaN\n"), None);
    }
}
