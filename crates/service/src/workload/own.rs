//! The section `plimsoll`: what a sweep can do and the API has no words for.

use plimsoll_run::ladder::{Ladder, MAX_LEVEL};
use plimsoll_run::peak::Peak;
use plimsoll_run::sla::SlaTerm;
use plimsoll_run::units::parse_duration;
use serde_json::Value;

use super::given::{Given, shown, whole};
use super::{Sweep, WorkloadError};

const KNOWN: [&str; 12] = [
    "levels",
    "resolution",
    "min",
    "max",
    "max_rungs",
    "max_time",
    "sla",
    "peak",
    "price",
    "currency",
    "spares",
    "verify",
];

/// The section.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// The ladder.
    pub(super) levels: Option<Ladder>,
    /// The SLA.
    pub(super) sla: Vec<SlaTerm>,
    resolution: Option<f64>,
    min: Option<u64>,
    max: Option<u64>,
    max_rungs: Option<u64>,
    max_time: Option<String>,
    peak: Option<Peak>,
    price: Option<f64>,
    currency: Option<String>,
    spares: Option<u64>,
    verify: bool,
}

impl Own {
    /// Whether the ladder is chosen between bounds.
    pub(super) fn searches(&self) -> bool {
        self.resolution.is_some() || self.min.is_some() || self.max.is_some()
    }

    /// Puts it into a sweep.
    pub(super) fn put(&self, sweep: &mut Sweep) -> Result<(), WorkloadError> {
        let searched = sweep.recipe.is_some();
        for (name, given) in [
            ("min", self.min.is_some()),
            ("max", self.max.is_some()),
            ("max_rungs", self.max_rungs.is_some()),
        ] {
            if searched && given {
                return Err(WorkloadError(format!(
                    "`plimsoll.{name}` does not go with a `search_recipe`, which has its own bounds; leave out one"
                )));
            }
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            return Err(WorkloadError(format!(
                "`plimsoll.min` is {min}, above `plimsoll.max`, {max}"
            )));
        }
        for (flag, value) in [
            ("min", self.min),
            ("max", self.max),
            ("max-rungs", self.max_rungs),
        ] {
            if let Some(value) = value {
                sweep.flag(flag, value);
            }
        }
        if let Some(resolution) = self.resolution {
            sweep.flag("resolution", resolution);
        }
        if let Some(time) = &self.max_time {
            sweep.flag("max-time", time);
            sweep.resume_flags.push(format!("--max-time={time}"));
        }
        for term in &self.sla {
            sweep.flag("sla", term);
        }
        if let Some(peak) = &self.peak {
            sweep.flag("peak", peak);
        }
        if let Some(price) = self.price {
            sweep.flag("price", price);
        }
        if let Some(currency) = &self.currency {
            sweep.flag("currency", currency);
        }
        if let Some(spares) = self.spares {
            sweep.flag("spares", spares);
        }
        if self.verify {
            sweep.flags.push("--verify".to_owned());
            sweep.resume_flags.push("--verify".to_owned());
        }
        Ok(())
    }
}

/// Reads the section where there is one.
pub(super) fn read(given: Option<Given>) -> Result<Own, WorkloadError> {
    let Some(mut given) = given else {
        return Ok(Own::default());
    };
    let level = 1..=u64::from(MAX_LEVEL);
    let own = Own {
        levels: levels(&mut given)?,
        sla: sla(&mut given)?,
        resolution: given.number("resolution", 0.001..=1.0)?,
        min: given.whole("min", level.clone())?,
        max: given.whole("max", level)?,
        max_rungs: given.whole("max_rungs", 1..=10_000)?,
        max_time: time(&mut given)?,
        peak: given.parsed("peak")?,
        price: given.number("price", 0.0..=1e9)?,
        currency: currency(&mut given)?,
        spares: given.whole("spares", 0..=1_000_000)?,
        verify: given.boolean("verify")?.unwrap_or(false),
    };
    given.finish(&KNOWN)?;
    Ok(own)
}

fn levels(given: &mut Given) -> Result<Option<Ladder>, WorkloadError> {
    let range = 1..=u64::from(MAX_LEVEL);
    let Some(value) = given.take("levels") else {
        return Ok(None);
    };
    let list = value.as_array().and_then(|levels| {
        let levels = levels
            .iter()
            .map(|level| u32::try_from(whole(level, &range)?).ok());
        levels.collect::<Option<Vec<u32>>>()
    });
    let Some(levels) = list else {
        return Err(given.wrong(
            "levels",
            &format!(
                "is {}; write a list of levels, such as [64, 256, 1024]",
                shown(&value)
            ),
        ));
    };
    Ladder::new(levels)
        .map(Some)
        .map_err(|error| given.wrong("levels", &format!("cannot be used: {error}")))
}

fn sla(given: &mut Given) -> Result<Vec<SlaTerm>, WorkloadError> {
    let terms = match given.take("sla") {
        None => return Ok(Vec::new()),
        Some(Value::Array(terms)) => terms,
        Some(term) => vec![term],
    };
    terms
        .iter()
        .map(|term| match term {
            Value::String(text) => text
                .parse()
                .map_err(|error| given.wrong("sla", &format!("cannot be used: {error}"))),
            other => Err(given.wrong(
                "sla",
                &format!(
                    "has {} in it; write terms such as \"ttft.p95<=500ms\"",
                    shown(other)
                ),
            )),
        })
        .collect()
}

fn time(given: &mut Given) -> Result<Option<String>, WorkloadError> {
    let Some(text) = given.text("max_time")? else {
        return Ok(None);
    };
    match parse_duration(&text) {
        Ok(time) if !time.is_zero() => Ok(Some(format!("{}s", time.as_secs_f64()))),
        Ok(_) => Err(given.wrong("max_time", "is 0; write a time above 0, such as 15m")),
        Err(error) => Err(given.wrong("max_time", &format!("cannot be used: {error}"))),
    }
}

fn currency(given: &mut Given) -> Result<Option<String>, WorkloadError> {
    match given.text("currency")? {
        Some(code) if !(2..=8).contains(&code.len()) || !code.chars().all(|c| c.is_ascii_alphabetic()) => {
            Err(given.wrong("currency", "is no currency; write its code, such as USD"))
        }
        code => Ok(code),
    }
}
