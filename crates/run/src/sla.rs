//! The SLA: latency and error terms that must all hold.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::nearest::hint;
use crate::units::split_number;

/// What an SLA term looks at. Definitions are those of the vocabulary (see [`crate::rung::Latencies`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Send to first generated token in any channel.
    Ttft,
    /// Send to first answer token.
    Ttfat,
    /// (last token - first token) / (output tokens - 1).
    Tpot,
    /// Gap between token-bearing chunks.
    Itl,
    /// Send to last token.
    E2e,
    /// Failed requests over requests ended, a fraction.
    ErrorRate,
}

impl Metric {
    /// Every metric by its name in a term.
    pub const NAMES: [(&'static str, Metric); 6] = [
        ("ttft", Metric::Ttft),
        ("ttfat", Metric::Ttfat),
        ("tpot", Metric::Tpot),
        ("itl", Metric::Itl),
        ("e2e", Metric::E2e),
        ("error_rate", Metric::ErrorRate),
    ];

    /// Its name in a term.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft",
            Metric::Ttfat => "ttfat",
            Metric::Tpot => "tpot",
            Metric::Itl => "itl",
            Metric::E2e => "e2e",
            Metric::ErrorRate => "error_rate",
        }
    }

    /// Whether it can only be measured on a streamed reply.
    #[must_use]
    pub fn needs_stream(self) -> bool {
        matches!(self, Metric::Ttft | Metric::Ttfat | Metric::Tpot | Metric::Itl)
    }
}

/// Which statistic of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stat {
    /// Arithmetic mean.
    Mean,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// Largest value.
    Max,
}

impl Stat {
    /// Every statistic by its name in a term.
    pub const NAMES: [(&'static str, Stat); 6] = [
        ("mean", Stat::Mean),
        ("p50", Stat::P50),
        ("p90", Stat::P90),
        ("p95", Stat::P95),
        ("p99", Stat::P99),
        ("max", Stat::Max),
    ];

    /// Its name in a term.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stat::Mean => "mean",
            Stat::P50 => "p50",
            Stat::P90 => "p90",
            Stat::P95 => "p95",
            Stat::P99 => "p99",
            Stat::Max => "max",
        }
    }

    /// The quantile it stands for; `None` for the mean. The maximum is the quantile 1.
    #[must_use]
    pub fn quantile(self) -> Option<f64> {
        match self {
            Stat::Mean => None,
            Stat::P50 => Some(0.50),
            Stat::P90 => Some(0.90),
            Stat::P95 => Some(0.95),
            Stat::P99 => Some(0.99),
            Stat::Max => Some(1.0),
        }
    }
}

/// How observed and limit compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// `<=`
    AtMost,
    /// `<`
    Below,
}

/// One condition, such as `ttft.p95 <= 500ms` or `error_rate <= 0.01`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlaTerm {
    /// What is looked at.
    pub metric: Metric,
    /// Which statistic of it; `None` for `error_rate`, which has one value.
    pub stat: Option<Stat>,
    /// How it compares.
    pub op: Op,
    /// The limit: milliseconds for latencies (> 0), a fraction in 0..=1 for `error_rate`.
    pub limit: f64,
}

impl SlaTerm {
    /// Whether `observed` (milliseconds, or a fraction) meets the term.
    #[must_use]
    pub fn admits(&self, observed: f64) -> bool {
        match self.op {
            Op::AtMost => observed <= self.limit,
            Op::Below => observed < self.limit,
        }
    }

    /// `ttft.p95` or `error_rate`: the term without its limit.
    #[must_use]
    pub fn subject(&self) -> String {
        match self.stat {
            Some(stat) => format!("{}.{}", self.metric.name(), stat.name()),
            None => self.metric.name().to_owned(),
        }
    }

    /// The limit as a person reads it: `500 ms`, `1.50 s`, or `1 %`.
    #[must_use]
    pub fn limit_text(&self) -> String {
        if self.metric == Metric::ErrorRate {
            format!("{} %", trim(self.limit * 100.0))
        } else {
            crate::units::show_ms(self.limit)
        }
    }
}

/// A term that could not be read, with what would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("SLA term `{text}`: {problem}")]
pub struct SlaError {
    /// What was given.
    pub text: String,
    /// What is wrong with it and what would do.
    pub problem: String,
}

impl FromStr for SlaTerm {
    type Err = SlaError;

    fn from_str(text: &str) -> Result<Self, SlaError> {
        let fail = |problem: String| SlaError {
            text: text.to_owned(),
            problem,
        };
        let Some(at) = text.find('<') else {
            return Err(fail(
                "needs `<=` or `<`; write for example `ttft.p95<=500ms` or `error_rate<=0.01`".to_owned(),
            ));
        };
        let (left, right) = text.split_at(at);
        let (op, right) = match right.strip_prefix("<=") {
            Some(rest) => (Op::AtMost, rest),
            None => (Op::Below, &right[1..]),
        };
        let left = left.trim();
        let (metric_name, stat_name) = match left.split_once('.') {
            Some((metric, stat)) => (metric.trim(), Some(stat.trim())),
            None => (left, None),
        };
        let metrics: Vec<&str> = Metric::NAMES.iter().map(|(name, _)| *name).collect();
        let metric = Metric::NAMES
            .iter()
            .find(|(name, _)| *name == metric_name)
            .map(|(_, metric)| *metric)
            .ok_or_else(|| {
                fail(format!(
                    "`{metric_name}` is not a metric{}; metrics are {}",
                    hint(metric_name, &metrics),
                    metrics.join(", ")
                ))
            })?;
        let (number, unit) = split_number(right).ok_or_else(|| {
            fail(format!(
                "`{}` is not a number with a unit, such as `500ms`",
                right.trim()
            ))
        })?;
        if metric == Metric::ErrorRate {
            if let Some(stat) = stat_name {
                return Err(fail(format!(
                    "`error_rate` is one value and takes no statistic `.{stat}`; write `error_rate<=0.01`"
                )));
            }
            if !unit.is_empty() {
                return Err(fail(format!(
                    "`error_rate` is a fraction without a unit; write `error_rate<={}` for {number} %",
                    trim(number / 100.0)
                )));
            }
            if !(0.0..=1.0).contains(&number) {
                return Err(fail(format!(
                    "`error_rate` is a fraction from 0 to 1; write `error_rate<={}` for {number} %",
                    trim(number / 100.0)
                )));
            }
            return Ok(SlaTerm {
                metric,
                stat: None,
                op,
                limit: number,
            });
        }
        let stats: Vec<&str> = Stat::NAMES.iter().map(|(name, _)| *name).collect();
        let stat_name = stat_name.ok_or_else(|| {
            fail(format!(
                "needs a statistic after `{metric_name}`, such as `{metric_name}.p95`; statistics are {}",
                stats.join(", ")
            ))
        })?;
        let stat = Stat::NAMES
            .iter()
            .find(|(name, _)| *name == stat_name)
            .map(|(_, stat)| *stat)
            .ok_or_else(|| {
                fail(format!(
                    "`{stat_name}` is not a statistic{}; statistics are {}",
                    hint(stat_name, &stats),
                    stats.join(", ")
                ))
            })?;
        let limit = match unit {
            "ms" => number,
            "s" => number * 1e3,
            "" => {
                return Err(fail(format!(
                    "the limit {number} needs a unit, `{number}ms` or `{number}s`"
                )));
            }
            other => {
                return Err(fail(format!(
                    "`{other}` is not a unit{}; units are ms and s",
                    hint(other, &["ms", "s"])
                )));
            }
        };
        if !(limit > 0.0 && limit.is_finite()) {
            return Err(fail("the limit must be above 0".to_owned()));
        }
        Ok(SlaTerm {
            metric,
            stat: Some(stat),
            op,
            limit,
        })
    }
}

/// A number without trailing zeros.
fn trim(value: f64) -> String {
    let rounded = (value * 1e9).round() / 1e9;
    format!("{rounded}")
}

impl fmt::Display for SlaTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            Op::AtMost => "<=",
            Op::Below => "<",
        };
        let unit = if self.metric == Metric::ErrorRate {
            ""
        } else {
            "ms"
        };
        write!(f, "{}{op}{}{unit}", self.subject(), trim(self.limit))
    }
}

impl Serialize for SlaTerm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SlaTerm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// All terms of an SLA; every one must hold.
///
/// A failed request counts against every term. An SLA that names no `error_rate` admits no error
/// at all: see [`Sla::error_limit`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sla {
    /// The terms, in the order given.
    pub terms: Vec<SlaTerm>,
}

impl Sla {
    /// The largest share of failed requests that passes, a fraction; 0 unless a term says otherwise.
    #[must_use]
    pub fn error_limit(&self) -> SlaTerm {
        self.terms
            .iter()
            .find(|term| term.metric == Metric::ErrorRate)
            .copied()
            .unwrap_or(SlaTerm {
                metric: Metric::ErrorRate,
                stat: None,
                op: Op::AtMost,
                limit: 0.0,
            })
    }

    /// Whether any term speaks of latency.
    #[must_use]
    pub fn has_latency(&self) -> bool {
        self.terms.iter().any(|term| term.metric != Metric::ErrorRate)
    }

    /// How many samples the strictest percentile needs: 500 for p99 and max, else 200 (METHOD section 1).
    #[must_use]
    pub fn samples_wanted(&self) -> u64 {
        let strict = self
            .terms
            .iter()
            .any(|term| matches!(term.stat, Some(Stat::P99 | Stat::Max)));
        if strict { 500 } else { 200 }
    }
}

impl fmt::Display for Sla {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            if at > 0 {
                f.write_str(" and ")?;
            }
            write!(f, "{term}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(text: &str) -> Result<SlaTerm, SlaError> {
        text.parse()
    }

    #[test]
    fn terms_are_read_with_their_units() {
        let t = term(" ttft.p95 <= 0.5s ").unwrap();
        assert_eq!(
            (t.metric, t.stat, t.op, t.limit),
            (Metric::Ttft, Some(Stat::P95), Op::AtMost, 500.0)
        );
        assert_eq!(t.to_string(), "ttft.p95<=500ms");
        let t = term("e2e.mean<10s").unwrap();
        assert_eq!((t.op, t.limit), (Op::Below, 10_000.0));
        assert!(!t.admits(10_000.0));
        assert_eq!(term("error_rate<=0.05").unwrap().limit, 0.05);
    }

    #[test]
    fn misspellings_name_the_nearest() {
        for (text, expected) in [
            ("tfft.p95<=1s", "did you mean `ttft`"),
            ("ttft.p955<=1s", "did you mean `p95`"),
            ("ttft.p95<=1sec", "not a unit"),
            ("ttft.p95<=1", "needs a unit"),
            ("ttft<=1s", "needs a statistic"),
            ("ttft.p95=1s", "needs `<=`"),
            ("error_rate.p99<=1", "takes no statistic"),
            ("error_rate<=5", "0.05"),
            ("error_rate<=1%", "0.01"),
            ("ttft.p95<=-1s", "above 0"),
        ] {
            let error = term(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(error.contains(text), "{text}: {error}");
        }
    }

    #[test]
    fn an_sla_without_an_error_term_admits_no_error() {
        let sla = Sla {
            terms: vec![term("ttft.p95<=1s").unwrap()],
        };
        assert!(sla.error_limit().admits(0.0));
        assert!(!sla.error_limit().admits(0.001));
        assert_eq!(sla.samples_wanted(), 200);
        let strict = Sla {
            terms: vec![term("e2e.p99<=1s").unwrap()],
        };
        assert_eq!(strict.samples_wanted(), 500);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_reads_back(text in "(ttft|tpot|x)?\\.?(p95|mean)?(<=|<)?\\PC{0,8}") {
            if let Ok(t) = term(&text) {
                proptest::prop_assert_eq!(term(&t.to_string()).unwrap(), t);
            }
        }
    }
}
