//! The search `max-concurrency-under-sla`: its bounds and its SLAs.

use plimsoll_run::ladder::MAX_LEVEL;
use plimsoll_run::nearest::hint;
use plimsoll_run::sla::{Metric, Op, SlaTerm, Stat};

use super::given::Given;
use super::{Sweep, WorkloadError, short};

const NAME: &str = "max-concurrency-under-sla";

/// What belongs to a search and to nothing else.
const OWN: [&str; 9] = [
    "ttft_sla_ms",
    "tpot_sla_ms",
    "e2e_sla_ms",
    "error_rate_sla",
    "search_stat",
    "concurrency_min",
    "concurrency_max",
    "search_max_iterations",
    "search_initial_points",
];

/// Statistics by AIPerf's names.
const STATS: [(&str, Stat); 5] = [
    ("avg", Stat::Mean),
    ("p50", Stat::P50),
    ("p90", Stat::P90),
    ("p95", Stat::P95),
    ("p99", Stat::P99),
];

/// The search that a job asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Its SLAs; all must hold.
    pub bounds: Vec<Bound>,
    /// No level below.
    pub min: u32,
    /// No level above.
    pub max: u32,
    /// At most so many rungs.
    pub max_iterations: Option<u32>,
}

/// One of its SLAs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// As a term of ours.
    pub term: SlaTerm,
}

impl Recipe {
    /// Puts it into a sweep. Without `--levels` the ladder climbs from bound to bound, and is refined.
    pub(super) fn put(&self, sweep: &mut Sweep) {
        sweep.flag("min", self.min);
        sweep.flag("max", self.max);
        if let Some(most) = self.max_iterations {
            sweep.flag("max-rungs", most);
        }
        for bound in &self.bounds {
            sweep.flag("sla", bound.term);
        }
    }
}

/// Reads the search where there is one.
pub(super) fn read(
    given: &mut Given,
    streaming: bool,
    sweep: &mut Sweep,
) -> Result<Option<Recipe>, WorkloadError> {
    match given.text("search_recipe")?.as_deref() {
        Some(NAME) => {}
        Some(other) => {
            return Err(given.wrong(
                "search_recipe",
                &format!(
                    "is `{}`; the one known is `{NAME}`{}",
                    short(other),
                    hint(other, &[NAME])
                ),
            ));
        }
        None => {
            return match OWN.iter().find(|name| given.has(name)) {
                None => Ok(None),
                Some(name) if name.contains("sla") => Err(given.wrong(
                    name,
                    &format!(
                        "goes with a search; give `search_recipe`: `{NAME}`, or the SLA as `plimsoll.sla`"
                    ),
                )),
                Some(name) => Err(given.wrong(
                    name,
                    &format!("goes with a search; give `search_recipe`: `{NAME}`, or leave it out"),
                )),
            };
        }
    }
    let stat = stat(given)?;
    let mut bounds = Vec::new();
    for (name, metric, default) in [
        ("ttft_sla_ms", Metric::Ttft, Stat::P95),
        ("tpot_sla_ms", Metric::Tpot, Stat::P95),
        ("e2e_sla_ms", Metric::E2e, Stat::P99),
    ] {
        if let Some(limit) = given.number(name, 0.001..=86_400_000.0)? {
            if metric.needs_stream() && !streaming {
                return Err(given.wrong(name, "needs streamed replies, and `streaming` is false"));
            }
            bounds.push(Bound {
                term: SlaTerm {
                    metric,
                    stat: Some(stat.unwrap_or(default)),
                    op: Op::Below,
                    limit,
                },
            });
        }
    }
    if let Some(limit) = given.number("error_rate_sla", 0.0..=1.0)? {
        // Not below: 0 would never hold.
        bounds.push(Bound {
            term: SlaTerm {
                metric: Metric::ErrorRate,
                stat: None,
                op: Op::AtMost,
                limit,
            },
        });
    }
    if bounds.is_empty() {
        return Err(given.wrong(
            "search_recipe",
            "needs an SLA: give `ttft_sla_ms`, `tpot_sla_ms`, `e2e_sla_ms` or `error_rate_sla`",
        ));
    }
    let range = 1..=u64::from(MAX_LEVEL);
    let mut level = |name: &str, default: u32| -> Result<u32, WorkloadError> {
        let level = given.whole(name, range.clone())?;
        Ok(level
            .and_then(|level| u32::try_from(level).ok())
            .unwrap_or(default))
    };
    let (min, max) = (level("concurrency_min", 1)?, level("concurrency_max", 1000)?);
    if min > max {
        return Err(given.wrong(
            "concurrency_min",
            &format!("is {min}, above `concurrency_max`, {max}"),
        ));
    }
    let most = given.whole("search_max_iterations", 1..=10_000)?;
    if given
        .whole("search_initial_points", 1..=u64::from(MAX_LEVEL))?
        .is_some()
    {
        sweep.notes.push(format!(
            "`search_initial_points` has no part in this search, which begins with a ladder from {min} to {max}."
        ));
    }
    if stat.is_some() {
        sweep
            .notes
            .push("`search_stat` holds for every latency SLA, in place of p95 and p99.".to_owned());
    }
    Ok(Some(Recipe {
        bounds,
        min,
        max,
        max_iterations: most.and_then(|most| u32::try_from(most).ok()),
    }))
}

fn stat(given: &mut Given) -> Result<Option<Stat>, WorkloadError> {
    let Some(name) = given.text("search_stat")? else {
        return Ok(None);
    };
    let known = STATS.map(|(name, _)| name);
    let found = STATS.iter().find(|(known, _)| *known == name);
    found.map(|(_, stat)| Some(*stat)).ok_or_else(|| {
        given.wrong(
            "search_stat",
            &format!(
                "is `{}`; write {}{}",
                short(&name),
                known.join(", "),
                hint(&name, &known)
            ),
        )
    })
}
