//! What the command line and the sweep file mean together: one validated set of settings.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use plimsoll_load::{Secret, TargetOptions};
use plimsoll_plan::search::SearchSettings;
use plimsoll_run::ladder::Ladder;
use plimsoll_run::nearest::hint;
use plimsoll_run::peak::Peak;
use plimsoll_run::runner::RungLimits;
use plimsoll_run::sla::Sla;
use plimsoll_run::units::parse_duration;
use plimsoll_run::workload::{TokenLength, Workload};
use plimsoll_sim::preset::{Preset, preset};

use crate::arguments::{QuestionArguments, SweepArguments, SweepFormat};
use crate::sweep_file::{SweepFile, TargetTable};

/// What is swept.
#[derive(Debug)]
pub enum Subject {
    /// An endpoint that is there already.
    Endpoint(TargetOptions),
    /// The simulated engine, to be started; the options lack only its URL.
    Simulated {
        /// Model, instance and defaults.
        preset: Box<Preset>,
        /// How many times faster its clock runs.
        speed: f64,
    },
}

/// Everything a sweep needs to know.
#[derive(Debug)]
pub struct Settings {
    /// What is swept.
    pub subject: Subject,
    /// Short name of the subject for the run directory.
    pub label: String,
    /// What one request looks like.
    pub workload: Workload,
    /// Seed of the run.
    pub seed: u64,
    /// Ladder, bounds and resolution.
    pub search: SearchSettings,
    /// What ends a rung.
    pub limits: RungLimits,
    /// Hard bound on the sweep's time.
    pub max_time: Option<Duration>,
    /// The question.
    pub question: Question,
    /// Where run directories go.
    pub out: PathBuf,
    /// What to print.
    pub format: SweepFormat,
    /// No progress.
    pub quiet: bool,
    /// Things to tell the user beside the numbers.
    pub notes: Vec<String>,
}

/// SLA, peak and price.
#[derive(Debug, Clone)]
pub struct Question {
    /// The SLA.
    pub sla: Sla,
    /// The peak.
    pub peak: Option<Peak>,
    /// Price of one instance, an hour.
    pub price: Option<f64>,
    /// Its currency.
    pub currency: String,
    /// Instances to keep beyond need.
    pub spares: u64,
}

/// The default resolution of a refined sweep.
const RESOLUTION: f64 = 0.05;

impl Settings {
    /// Settles flags, file and defaults.
    ///
    /// # Errors
    /// When they contradict each other or name something unknown. Nothing has been sent then.
    pub fn settle(arguments: SweepArguments) -> anyhow::Result<Settings> {
        let file = SweepFile::find(arguments.config.as_deref())?;
        let subject = subject(&arguments, &file)?;
        let defaults = match &subject {
            Subject::Simulated { preset, .. } => Defaults {
                workload: preset.workload.clone(),
                sla: preset.sla.clone(),
                peak: Some(preset.peak),
            },
            Subject::Endpoint(_) => Defaults {
                workload: Workload {
                    input_tokens: TokenLength::fixed(1024),
                    output_tokens: TokenLength::fixed(256),
                    streaming: true,
                },
                sla: Sla::default(),
                peak: None,
            },
        };
        let workload = Workload {
            input_tokens: arguments
                .input_tokens
                .or(file.workload.input_tokens)
                .unwrap_or(defaults.workload.input_tokens),
            output_tokens: arguments
                .output_tokens
                .or(file.workload.output_tokens)
                .unwrap_or(defaults.workload.output_tokens),
            streaming: !arguments.no_stream && file.workload.stream.unwrap_or(defaults.workload.streaming),
        };
        let question = settle_question(&arguments.question, &file, defaults.sla, defaults.peak);
        if !workload.streaming
            && let Some(term) = question.sla.terms.iter().find(|term| term.metric.needs_stream())
        {
            bail!(
                "SLA term `{term}` needs a streamed reply; leave out --no-stream, or ask for e2e.{} instead",
                term.stat.map_or("p95", |stat| stat.name())
            );
        }
        let search = search(&arguments, &file, question.sla.clone())?;
        let limits = limits(&arguments, &file)?;
        let max_time = duration_or(arguments.max_time, file.sweep.max_time.as_deref(), "max-time")?;
        let mut notes = Vec::new();
        if let Subject::Simulated { speed, .. } = &subject
            && *speed != 1.0
        {
            notes.push(format!(
                "the simulated engine's clock runs {speed} times faster: levels hold, rates and latencies are \
                 those of the faster clock"
            ));
        }
        Ok(Settings {
            label: label(&subject, &arguments.target),
            subject,
            workload,
            seed: arguments.seed.or(file.workload.seed).unwrap_or(42),
            search,
            limits,
            max_time,
            question,
            out: arguments
                .out
                .or(file.sweep.out)
                .unwrap_or_else(|| PathBuf::from("runs")),
            format: if arguments.json {
                SweepFormat::Json
            } else {
                arguments.format
            },
            quiet: arguments.quiet,
            notes,
        })
    }
}

struct Defaults {
    workload: Workload,
    sla: Sla,
    peak: Option<Peak>,
}

fn label(subject: &Subject, target: &str) -> String {
    match subject {
        Subject::Simulated { .. } => target.to_owned(),
        Subject::Endpoint(_) => match target.split_once("://") {
            // Only host and path: user info is a credential.
            Some((_, rest)) => rest.rsplit_once('@').map_or(rest, |(_, host)| host).to_owned(),
            None => target.to_owned(),
        },
    }
}

fn settle_question(
    arguments: &QuestionArguments,
    file: &SweepFile,
    sla: Sla,
    peak: Option<Peak>,
) -> Question {
    let sla = if !arguments.sla.is_empty() {
        Sla {
            terms: arguments.sla.clone(),
        }
    } else if !file.sla.terms.is_empty() {
        Sla {
            terms: file.sla.terms.clone(),
        }
    } else {
        sla
    };
    Question {
        sla,
        peak: arguments.peak.or(file.peak.load).or(peak),
        price: arguments.price.or(file.peak.price),
        currency: arguments
            .currency
            .clone()
            .or_else(|| file.peak.currency.clone())
            .unwrap_or_else(|| "USD".to_owned()),
        spares: arguments.spares.or(file.peak.spares).unwrap_or(0),
    }
}

fn subject(arguments: &SweepArguments, file: &SweepFile) -> anyhow::Result<Subject> {
    let target = arguments.target.trim();
    let named = file.targets.get(target);
    if named.is_none() && (target == "sim" || target.starts_with("sim:")) {
        let preset = preset(target)?;
        refuse_endpoint_flags(arguments)?;
        return Ok(Subject::Simulated {
            preset: Box::new(preset),
            speed: arguments.speed.unwrap_or(1.0),
        });
    }
    if arguments.speed.is_some() {
        bail!(
            "--speed goes with the simulated engine (`plimsoll sweep sim`); a real endpoint has its own clock"
        );
    }
    let table = match named {
        Some(table) => table.clone(),
        None if target.contains("://") => TargetTable {
            url: target.to_owned(),
            ..TargetTable::default()
        },
        None => {
            let mut known: Vec<&str> = file.targets.keys().map(String::as_str).collect();
            known.push("sim");
            bail!(
                "`{target}` is neither a URL nor a known target{}; write http://HOST:PORT, `sim`, or a name from \
                 [targets] in the sweep file",
                hint(target, &known)
            );
        }
    };
    if table.url.is_empty() {
        bail!("target `{target}` in the sweep file has no `url`");
    }
    let api_key = match (
        &arguments.api_key,
        arguments.api_key_env.as_ref().or(table.api_key_env.as_ref()),
    ) {
        (Some(key), _) => Some(Secret::new(key.clone())),
        (None, Some(name)) => Some(Secret::new(std::env::var(name).map_err(|_| {
            anyhow!("environment variable `{name}` should hold the API key and is not set")
        })?)),
        (None, None) => None,
    };
    let mut headers: Vec<(String, Secret)> = table
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), Secret::new(value.clone())))
        .collect();
    for header in &arguments.headers {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| anyhow!("--header needs `Name: value`; what was given has no colon"))?;
        headers.push((name.trim().to_owned(), Secret::new(value.trim().to_owned())));
    }
    Ok(Subject::Endpoint(TargetOptions {
        url: table.url,
        dialect: arguments.dialect.or(table.dialect),
        model: arguments.model.clone().or(table.model),
        api_key,
        headers,
        endpoint_path: arguments.endpoint_path.clone().or(table.endpoint_path),
        insecure: arguments.insecure || table.insecure,
        ca_file: arguments.ca_file.clone().or(table.ca_file),
        ..TargetOptions::default()
    }))
}

/// Flags that mean nothing to the simulated engine are refused, not ignored.
fn refuse_endpoint_flags(arguments: &SweepArguments) -> anyhow::Result<()> {
    let given = [
        ("--model", arguments.model.is_some()),
        ("--api-key", arguments.api_key.is_some()),
        ("--api-key-env", arguments.api_key_env.is_some()),
        ("--header", !arguments.headers.is_empty()),
        ("--endpoint-path", arguments.endpoint_path.is_some()),
        ("--insecure", arguments.insecure),
        ("--ca-file", arguments.ca_file.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some(("--model", _)) => {
            bail!("--model does not go with `sim`; name the model in the target, such as sim:llama-3.1-8b")
        }
        Some((flag, _)) => {
            bail!("{flag} does not go with `sim`, which is started and stopped by the sweep itself")
        }
        None => Ok(()),
    }
}

fn search(arguments: &SweepArguments, file: &SweepFile, sla: Sla) -> anyhow::Result<SearchSettings> {
    let named = match (&arguments.levels, &file.sweep.levels) {
        (Some(ladder), _) => Some(ladder.clone()),
        (None, Some(levels)) => {
            Some(Ladder::new(levels.clone()).context("`sweep.levels` in the sweep file")?)
        }
        (None, None) => None,
    };
    let resolution = match (arguments.resolution, file.sweep.resolution) {
        (Some(resolution), _) => Some(resolution),
        (None, Some(resolution)) if (0.001..=1.0).contains(&resolution) => Some(resolution),
        (None, Some(resolution)) => {
            bail!("`sweep.resolution` in the sweep file is {resolution}; write a fraction from 0.001 to 1")
        }
        (None, None) => None,
    };
    let min = arguments.min.or(file.sweep.min);
    let max = arguments.max.or(file.sweep.max);
    let max_rungs = arguments.max_rungs.or(file.sweep.max_rungs);
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
    let user_named = arguments.levels.is_some() || file.sweep.levels.is_some();
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

fn limits(arguments: &SweepArguments, file: &SweepFile) -> anyhow::Result<RungLimits> {
    let rung_time = duration_or(arguments.rung_time, file.sweep.rung_time.as_deref(), "rung-time")?;
    let warmup = match (arguments.warmup, file.sweep.warmup.as_deref()) {
        (Some(warmup), _) => Some(warmup),
        (None, Some("0")) => Some(Duration::ZERO),
        (None, text) => duration_or(None, text, "warmup")?,
    };
    let mut limits = RungLimits {
        rung_time,
        requests: arguments.requests.or(file.sweep.requests),
        warmup,
        ..RungLimits::default()
    };
    // Who asks for a longer window means it.
    if let Some(rung_time) = rung_time {
        limits.cap = limits.cap.max(rung_time.saturating_mul(2));
    }
    Ok(limits)
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

/// The command as it may be stored: credentials replaced.
#[must_use]
pub fn command_without_secrets(arguments: impl IntoIterator<Item = String>) -> String {
    const SECRET: [&str; 3] = ["--api-key", "--header", "-H"];
    let mut shown = Vec::new();
    let mut hide_next = false;
    for argument in arguments {
        let text = if std::mem::take(&mut hide_next) {
            "***".to_owned()
        } else if SECRET.contains(&argument.as_str()) {
            hide_next = true;
            argument
        } else if let Some((flag, _)) = argument.split_once('=').filter(|(flag, _)| SECRET.contains(flag)) {
            format!("{flag}=***")
        } else if argument.starts_with("-H") {
            "-H***".to_owned()
        } else {
            without_credentials(&argument)
        };
        shown.push(if text.contains([' ', '<', '>', '&', ';']) {
            format!("'{text}'")
        } else {
            text
        });
    }
    shown.join(" ")
}

/// A URL without user info and query, which often hold keys; anything else unchanged.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (rest, String::new()),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
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

    #[test]
    fn a_stored_command_holds_no_credential() {
        let command = command_without_secrets(
            [
                "plimsoll",
                "sweep",
                "https://me:pw@h/v1?key=abc",
                "--api-key",
                "sk-1",
                "--header=X: sk-2",
                "-H",
                "sk-3",
            ]
            .map(str::to_owned),
        );
        assert_eq!(
            command,
            "plimsoll sweep https://h/v1 --api-key *** --header=*** -H ***"
        );
    }
}
