//! What the command line and the sweep file mean together: one validated set of settings.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use plimsoll_load::{Asked, TargetOptions};
use plimsoll_prompts::Rows;
use plimsoll_run::demand::DemandTerms;
use plimsoll_run::nearest::hint;
use plimsoll_run::peak::Peak;
use plimsoll_run::sla::Sla;
use plimsoll_run::workload::Workload;
use plimsoll_sim::preset::{Preset, preset};

use crate::access::Access;
use crate::arguments::{QuestionArguments, SweepArguments, SweepFormat};
use crate::course::Course;
use crate::demand::PeakTrace;
use crate::question::Question;
use crate::serving_arguments::file_and_pairs;
use crate::sweep_file::{SweepFile, TargetTable};

/// The seed of a run that names none.
pub const DEFAULT_SEED: u64 = 42;

/// What is swept.
#[derive(Debug)]
pub enum Subject {
    /// An endpoint that is there already.
    Endpoint(Box<TargetOptions>),
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
    /// What comes with it from files.
    pub asked: Asked,
    /// Shares of shared prefixes to repeat the sweep with; none for a single sweep.
    pub prefix_shares: Vec<f64>,
    /// Seed of the run.
    pub seed: u64,
    /// How to climb.
    pub course: Course,
    /// The question.
    pub question: Question,
    /// Whether to replay arrivals at the safe rate after the sweep.
    pub verify: bool,
    /// Where run directories go.
    pub out: PathBuf,
    /// What to print.
    pub format: SweepFormat,
    /// No progress.
    pub quiet: bool,
    /// Things to tell the user beside the numbers.
    pub notes: Vec<String>,
}

impl Settings {
    /// Settles flags, file and defaults.
    ///
    /// # Errors
    /// When they contradict each other or name something unknown. Nothing has been sent then.
    pub fn settle(arguments: SweepArguments) -> anyhow::Result<Settings> {
        let (config, pairs) = file_and_pairs(&arguments.config)?;
        let file = SweepFile::find(config.as_deref())?;
        let subject = subject(&arguments, &pairs, &file)?;
        let defaults = match &subject {
            Subject::Simulated { preset, .. } => Defaults {
                workload: preset.workload.clone(),
                sla: preset.sla.clone(),
                peak: Some(preset.peak),
            },
            Subject::Endpoint(_) => Defaults {
                workload: Workload::default(),
                sla: Sla::default(),
                peak: None,
            },
        };
        let mut requests = arguments.workload.clone().over(&file.workload);
        if arguments.no_stream {
            requests.stream = Some(false);
        }
        let seed = requests.seed.unwrap_or(DEFAULT_SEED);
        let settled = requests.settle(defaults.workload)?;
        let workload = settled.workload;
        let arrivals = settled.asked.rows.as_deref().and_then(arrivals);
        let asked = with_arrivals(&arguments.question, &file, &workload, arrivals)?;
        let question = settle_question(&asked, &file, defaults.sla, defaults.peak);
        if !workload.streaming
            && let Some(term) = question.sla.terms.iter().find(|term| term.metric.needs_stream())
        {
            bail!(
                "SLA term `{term}` needs a streamed reply; leave out --no-stream, or ask for e2e.{} instead",
                term.stat.map_or("p95", |stat| stat.name())
            );
        }
        let course = Course::settle(&arguments.climb, &file.sweep, question.sla.clone())?;
        let mut notes: Vec<String> = question.note.clone().into_iter().collect();
        notes.extend(settled.notes);
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
            asked: settled.asked,
            prefix_shares: settled.prefix_shares,
            seed,
            course,
            question,
            verify: arguments.verify || file.sweep.verify.unwrap_or(false),
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

/// When the requests of a trace arrived, seconds.
fn arrivals(rows: &Rows) -> Option<Vec<f64>> {
    match rows {
        Rows::Trace(trace) => Some(trace.times_s()),
        Rows::Dataset(_) => None,
    }
}

/// The question with the arrivals of the workload's trace as its peak, where no other peak is given.
fn with_arrivals(
    arguments: &QuestionArguments,
    file: &SweepFile,
    workload: &Workload,
    arrivals: Option<Vec<f64>>,
) -> anyhow::Result<QuestionArguments> {
    let mut asked = arguments.clone();
    let given = asked.peak.is_some()
        || asked.demand.peak_trace.is_some()
        || file.peak.load.is_some()
        || file.peak.trace.is_some();
    if let (Some(times_s), Some(source), false) = (arrivals, &workload.source, given)
        && times_s.first() != times_s.last()
    {
        asked.demand.peak_trace = Some(PeakTrace::of(&source.named.file, times_s, "")?);
    }
    Ok(asked)
}

/// Flags win over the file, the file over the defaults.
pub fn settle_question(
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
    let rate = |trace: &PeakTrace| Peak::Rate(trace.peak.rate_per_s);
    let flagged = arguments.demand.peak_trace.as_ref().map(rate);
    let mut demand = arguments.demand.over(&file.peak.demand());
    if arguments.peak.is_some() {
        // A peak on the command line replaces the file's, whichever way that was given.
        demand.peak_trace = None;
    }
    let trace = demand.peak_trace.as_ref();
    Question {
        sla,
        peak: arguments
            .peak
            .or(flagged)
            .or(file.peak.load)
            .or(trace.map(rate))
            .or(peak),
        terms: demand.or(&DemandTerms {
            spares: arguments.spares.or(file.peak.spares).unwrap_or(0),
            ..DemandTerms::default()
        }),
        trace: trace.map(|trace| Arc::clone(&trace.times_s)),
        note: trace.map(|trace| trace.note.clone()),
        price: arguments.price.or(file.peak.price),
        currency: arguments
            .currency
            .clone()
            .or_else(|| file.peak.currency.clone())
            .unwrap_or_else(|| "USD".to_owned()),
    }
}

fn subject(arguments: &SweepArguments, pairs: &[String], file: &SweepFile) -> anyhow::Result<Subject> {
    let target = arguments.target.trim();
    let named = file.targets.get(target);
    if named.is_none() && (target == "sim" || target.starts_with("sim:")) {
        let preset = preset(target)?;
        refuse_endpoint_flags(arguments, pairs)?;
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
            // What stands before an `@` is a credential, with or without a scheme.
            let shown = target.rsplit_once('@').map_or(target, |(_, host)| host);
            bail!(
                "`{shown}` is neither a URL nor a known target{}; write http://HOST:PORT, `sim`, or a name from \
                 [targets] in the sweep file",
                hint(target, &known)
            );
        }
    };
    if table.url.is_empty() {
        bail!("target `{target}` in the sweep file has no `url`");
    }
    let access = Access::settle(&arguments.access, &table)?;
    let options = arguments.serving.settle(pairs, &table, access.options())?;
    Ok(Subject::Endpoint(Box::new(TargetOptions {
        url: table.url,
        dialect: arguments.dialect.or(table.dialect),
        model: arguments.model.clone().or(table.model),
        endpoint_path: arguments.endpoint_path.clone().or(table.endpoint_path),
        ..options
    })))
}

/// Flags that mean nothing to the simulated engine are refused, not ignored.
fn refuse_endpoint_flags(arguments: &SweepArguments, pairs: &[String]) -> anyhow::Result<()> {
    let given = [
        ("--model", arguments.model.is_some()),
        ("--api-key", arguments.access.api_key.is_some()),
        ("--api-key-env", arguments.access.api_key_env.is_some()),
        ("--header", !arguments.access.headers.is_empty()),
        ("--endpoint-path", arguments.endpoint_path.is_some()),
        ("--insecure", arguments.access.insecure),
        ("--ca-file", arguments.access.ca_file.is_some()),
        ("--config KEY=VALUE", !pairs.is_empty()),
    ];
    let travel = arguments.access.connection.given();
    let serving = arguments.serving.given();
    match given
        .iter()
        .chain(&travel)
        .chain(&serving)
        .find(|(_, given)| *given)
    {
        Some(("--model", _)) => {
            bail!("--model does not go with `sim`; name the model in the target, such as sim:llama-3.1-8b")
        }
        Some((flag, _)) => {
            bail!("{flag} does not go with `sim`, which is started and stopped by the sweep itself")
        }
        None => Ok(()),
    }
}
