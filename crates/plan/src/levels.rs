//! The rungs of a run as one row a level.
//!
//! A level that was measured more than once stands by its last rung that can be believed: a later measurement
//! supersedes an earlier one, and every figure beside an answer comes from one row.

use plimsoll_run::rung::{RungReport, TermOutcome};
use plimsoll_run::sla::{Metric, Sla};
use plimsoll_run::validity::Verdict;

use crate::estimate::relative_error;
use crate::judge::judge;

/// A statistic nearer to its limit than so many of its standard errors may as well lie on the other side.
const NEAR: f64 = 2.5;

/// How a level stands to the SLA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Every term holds.
    Passes,
    /// A term does not hold; or so many requests failed that none can.
    Fails,
    /// A term could not be evaluated and none fails.
    Unknown,
    /// No rung of it can be believed.
    Invalid,
}

/// One level.
#[derive(Debug, Clone)]
pub(crate) struct Level<'a> {
    pub(crate) level: u32,
    /// The row it stands by.
    pub(crate) rung: &'a RungReport,
    pub(crate) outcomes: Vec<TermOutcome>,
    pub(crate) standing: Standing,
    /// Whether it stands as it does by less than the noise: |ln(statistic/limit)| < 2.5 sigma for the term that decides. Never
    /// where no term tells how sure it is.
    pub(crate) near: bool,
    /// How often it was measured.
    pub(crate) times: usize,
}

impl Level<'_> {
    /// The outcome furthest beyond its limit (or nearest to it), and ln(observed/limit). A statistic that lies
    /// among the failures, and an error where none is allowed, are infinitely far beyond.
    pub(crate) fn worst(&self) -> Option<(&TermOutcome, f64)> {
        self.outcomes
            .iter()
            .filter_map(|outcome| Some((outcome, excess(outcome)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn excess(outcome: &TermOutcome) -> Option<f64> {
    match (outcome.observed, outcome.pass) {
        (None, Some(false)) => Some(f64::INFINITY),
        (Some(observed), _) if observed > 0.0 => Some((observed / outcome.term.limit).ln()),
        _ => None,
    }
}

/// The levels in ascending order, judged against the SLA.
#[must_use]
pub(crate) fn levels<'a>(rungs: &'a [RungReport], sla: &Sla) -> Vec<Level<'a>> {
    let mut names: Vec<u32> = rungs.iter().map(|rung| rung.concurrency).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter_map(|level| {
            let of_level = || rungs.iter().rev().filter(|rung| rung.concurrency == level);
            let believable = |rung: &&RungReport| rung.validity.may_decide() || failed(rung);
            let rung = of_level()
                .find(believable)
                .or_else(|| of_level().find(|rung| has_throughput(rung)))
                .or_else(|| of_level().next())?;
            let outcomes = judge(rung, sla);
            let standing = if failed(rung) {
                Standing::Fails
            } else if !has_throughput(rung) {
                Standing::Invalid
            } else if outcomes.iter().any(|outcome| outcome.pass == Some(false)) {
                Standing::Fails
            } else if outcomes.iter().any(|outcome| outcome.pass.is_none()) {
                Standing::Unknown
            } else {
                Standing::Passes
            };
            Some(Level {
                level,
                rung,
                near: near(standing, &outcomes),
                outcomes,
                standing,
                times: of_level().count(),
            })
        })
        .collect()
}

fn near(standing: Standing, outcomes: &[TermOutcome]) -> bool {
    let near = |outcome: &TermOutcome| {
        excess(outcome)
            .zip(relative_error(outcome))
            .is_some_and(|(y, error)| y.abs() < NEAR * error)
            && outcome.term.metric != Metric::ErrorRate
    };
    match standing {
        Standing::Passes => outcomes.iter().any(near),
        // One term that fails for certain is enough.
        Standing::Fails => {
            let mut failing = outcomes
                .iter()
                .filter(|outcome| outcome.pass == Some(false))
                .peekable();
            failing.peek().is_some() && failing.all(near)
        }
        Standing::Unknown | Standing::Invalid => false,
    }
}

/// Too many failures are no measurement, but they do say that the level cannot be served.
pub(crate) fn failed(rung: &RungReport) -> bool {
    rung.validity.verdict == Verdict::Errors
}

/// Throughput against level, of the levels whose throughput can be believed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Curve {
    /// Level, throughput, relative standard error.
    pub(crate) points: Vec<(f64, f64, f64)>,
    /// Whether throughput is output tokens per second, or requests per second where tokens are unknown.
    pub(crate) tokens: bool,
}

impl Curve {
    /// What is counted.
    pub(crate) fn unit(&self) -> &'static str {
        if self.tokens {
            "output tokens/s"
        } else {
            "requests/s"
        }
    }
}

/// Throughput is never known better than this.
const LEAST_ERROR: f64 = 0.01;

/// A buffered stream spoils TTFT, TPOT and ITL (which [`judge`] refuses then), not the throughput nor E2E.
pub(crate) fn has_throughput(rung: &RungReport) -> bool {
    rung.validity.may_decide() || rung.validity.verdict == Verdict::StreamBuffered
}

/// The throughput curve; tokens where every rung knows them.
#[must_use]
pub(crate) fn curve(levels: &[Level]) -> Curve {
    curve_of(levels, has_throughput)
}

/// The curve of what succeeded, at levels where many requests failed as well: no measurement, and at best a lower bound.
#[must_use]
pub(crate) fn curve_despite_failures(levels: &[Level]) -> Curve {
    curve_of(levels, |rung| has_throughput(rung) || failed(rung))
}

fn curve_of(levels: &[Level], counts: impl Fn(&RungReport) -> bool) -> Curve {
    let usable: Vec<&Level> = levels
        .iter()
        .filter(|level| counts(level.rung))
        .filter(|level| {
            throughput(level.rung, true)
                .or(throughput(level.rung, false))
                .is_some()
        })
        .collect();
    let tokens = usable.iter().all(|level| throughput(level.rung, true).is_some());
    Curve {
        points: usable
            .iter()
            .filter_map(|level| {
                let error = level.rung.throughput.relative_se.unwrap_or(0.0).max(LEAST_ERROR);
                Some((f64::from(level.level), throughput(level.rung, tokens)?, error))
            })
            .collect(),
        tokens,
    }
}

/// A rung's throughput where it is above zero.
#[must_use]
pub(crate) fn throughput(rung: &RungReport, tokens: bool) -> Option<f64> {
    let rate = if tokens {
        rung.throughput.output_tokens_per_s
    } else {
        rung.throughput.requests_per_s
    };
    rate.filter(|rate| *rate > 0.0 && rate.is_finite())
}
