//! The course of a sweep: ladder, bounds, resolution and budgets, from flags and file.

use std::time::Duration;

use anyhow::{Context, bail};
use plimsoll_plan::SearchSettings;
use plimsoll_run::document::SearchTerms;
use plimsoll_run::ladder::Ladder;
use plimsoll_run::runner::RungLimits;
use plimsoll_run::sla::Sla;
use plimsoll_run::units::parse_duration;

use crate::arguments::ClimbArguments;
use crate::sweep_file::SweepTable;

/// The default resolution of a refined sweep.
const RESOLUTION: f64 = 0.05;

/// How to climb.
#[derive(Debug, Clone)]
pub struct Course {
    /// Ladder, bounds and resolution.
    pub search: SearchSettings,
    /// What ends a rung.
    pub limits: RungLimits,
    /// Hard bound on the sweep's time.
    pub max_time: Option<Duration>,
}

impl Course {
    /// Settles flags, file and defaults.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn settle(arguments: &ClimbArguments, file: &SweepTable, sla: Sla) -> anyhow::Result<Course> {
        Ok(Course {
            search: search(arguments, file, sla)?,
            limits: limits(arguments, file)?,
            max_time: duration_or(arguments.max_time, file.max_time.as_deref(), "max-time")?,
        })
    }

    /// As a run stores it.
    pub fn terms(&self) -> SearchTerms {
        SearchTerms {
            levels: self.search.ladder.levels().to_vec(),
            min: self.search.min,
            max: self.search.max,
            resolution: self.search.refine,
            max_rungs: self.search.max_rungs,
            rung_time_s: self.limits.rung_time.map(|time| time.as_secs_f64()),
            requests: self.limits.requests,
            warmup_s: self.limits.warmup.map(|time| time.as_secs_f64()),
        }
    }

    /// From what a run stores.
    ///
    /// # Errors
    /// When the levels in it are none.
    pub fn stored(terms: &SearchTerms, sla: Sla, max_time: Option<Duration>) -> anyhow::Result<Course> {
        let seconds =
            |seconds: Option<f64>| seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Course {
            search: SearchSettings {
                ladder: Ladder::new(terms.levels.clone()).context("`search.levels` in run.json")?,
                refine: terms.resolution,
                min: terms.min,
                max: terms.max,
                max_rungs: terms.max_rungs,
                sla,
            },
            limits: ending(
                seconds(terms.rung_time_s),
                terms.requests,
                seconds(terms.warmup_s),
            ),
            max_time,
        })
    }
}

fn search(arguments: &ClimbArguments, file: &SweepTable, sla: Sla) -> anyhow::Result<SearchSettings> {
    let named = match (&arguments.levels, &file.levels) {
        (Some(ladder), _) => Some(ladder.clone()),
        (None, Some(levels)) => {
            Some(Ladder::new(levels.clone()).context("`sweep.levels` in the sweep file")?)
        }
        (None, None) => None,
    };
    let resolution = match (arguments.resolution, file.resolution) {
        (Some(resolution), _) => Some(resolution),
        (None, Some(resolution)) if (0.001..=1.0).contains(&resolution) => Some(resolution),
        (None, Some(resolution)) => {
            bail!("`sweep.resolution` in the sweep file is {resolution}; write a fraction from 0.001 to 1")
        }
        (None, None) => None,
    };
    let min = arguments.min.or(file.min);
    let max = arguments.max.or(file.max);
    let max_rungs = arguments.max_rungs.or(file.max_rungs);
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        bail!("--min {min} is above --max {max}");
    }
    let (ladder, refine) = match named {
        Some(ladder) => {
            for (flag, bound, outside) in [
                ("--min", min, min.is_some_and(|min| ladder.lowest() < min)),
                ("--max", max, max.is_some_and(|max| ladder.highest() > max)),
            ] {
                if outside {
                    bail!(
                        "levels {ladder} go beyond {flag} {}; leave out one of the two",
                        bound.unwrap_or(0)
                    );
                }
            }
            (ladder, resolution)
        }
        None => (default_ladder(min, max)?, Some(resolution.unwrap_or(RESOLUTION))),
    };
    // Levels that the user named bound the search, unless --min or --max open it further.
    let user_named = arguments.levels.is_some() || file.levels.is_some();
    let lowest = if user_named { ladder.lowest() } else { 1 };
    let highest = ladder.highest();
    Ok(SearchSettings {
        min: min.unwrap_or(lowest),
        max: max.unwrap_or(highest),
        ladder,
        refine,
        max_rungs,
        sla,
    })
}

/// The standard ladder where it fits the bounds; else factors of four from the lower bound, ending on the upper.
fn default_ladder(min: Option<u32>, max: Option<u32>) -> anyhow::Result<Ladder> {
    const TOP: u32 = 1024;
    let top = max.unwrap_or(TOP.max(min.unwrap_or(1)));
    let mut level = min.unwrap_or(64).min(top);
    let mut levels = Vec::new();
    while level < top {
        levels.push(level);
        level = level.saturating_mul(4);
    }
    levels.push(top);
    // A last step of less than a factor of 1.5 would tell little.
    if let [.., before, last] = levels[..]
        && levels.len() > 2
        && f64::from(last) / f64::from(before) < 1.5
    {
        levels.remove(levels.len() - 2);
    }
    Ok(Ladder::new(levels)?)
}

fn limits(arguments: &ClimbArguments, file: &SweepTable) -> anyhow::Result<RungLimits> {
    let rung_time = duration_or(arguments.rung_time, file.rung_time.as_deref(), "rung-time")?;
    let warmup = match (arguments.warmup, file.warmup.as_deref()) {
        (Some(warmup), _) => Some(warmup),
        (None, Some("0")) => Some(Duration::ZERO),
        (None, text) => duration_or(None, text, "warmup")?,
    };
    Ok(ending(rung_time, arguments.requests.or(file.requests), warmup))
}

/// What ends a rung. Who asks for a longer window than the cap means it.
fn ending(rung_time: Option<Duration>, requests: Option<u64>, warmup: Option<Duration>) -> RungLimits {
    let limits = RungLimits {
        rung_time,
        requests,
        warmup,
        ..RungLimits::default()
    };
    let cap = limits.cap.max(rung_time.unwrap_or_default().saturating_mul(2));
    RungLimits { cap, ..limits }
}

fn duration_or(flag: Option<Duration>, file: Option<&str>, key: &str) -> anyhow::Result<Option<Duration>> {
    match (flag, file) {
        (Some(duration), _) => Ok(Some(duration)),
        (None, Some(text)) => Ok(Some(
            parse_duration(text).with_context(|| format!("`sweep.{key}` in the sweep file"))?,
        )),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(min: Option<u32>, max: Option<u32>) -> Vec<u32> {
        default_ladder(min, max).unwrap().levels().to_vec()
    }

    #[test]
    fn the_default_ladder_keeps_to_the_bounds() {
        assert_eq!(levels(None, None), [64, 256, 1024]);
        assert_eq!(levels(Some(1), Some(200)), [1, 4, 16, 64, 200]);
        assert_eq!(levels(None, Some(512)), [64, 256, 512]);
        assert_eq!(levels(None, Some(300)), [64, 300]);
        assert_eq!(levels(None, Some(16)), [16]);
        assert_eq!(levels(Some(2000), None), [2000]);
        assert_eq!(levels(Some(5), Some(5)), [5]);
    }
}
