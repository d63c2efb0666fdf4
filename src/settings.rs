//! What the command line and the sweep file mean together: one validated set of settings.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use plimsoll_load::{Asked, TargetOptions};
use plimsoll_prompts::Rows;
use plimsoll_run::demand::DemandTerms;
use plimsoll_run::peak::Peak;
use plimsoll_run::sla::Sla;
use plimsoll_run::workload::Workload;
use plimsoll_sim::preset::{Preset, preset};

use crate::access::idle_trust;
use crate::arguments::{QuestionArguments, SweepArguments, SweepFormat};
use crate::course::Course;
use crate::demand::PeakTrace;
use crate::endpoint_arguments::EndpointArguments;
use crate::question::Question;
use crate::serving_arguments::file_and_pairs;
use crate::sweep_file::SweepFile;

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
        let subject = subject(
            &arguments.target,
            &arguments.endpoint,
            arguments.speed,
            &pairs,
            &file,
        )?;
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
        if let Subject::Endpoint(options) = &subject {
            notes.extend(idle_trust(options));
        }
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

/// What a target names: the simulated engine, or an endpoint of the sweep file or a URL.
///
/// # Errors
/// When it names neither, or something about it cannot be used. Nothing has been sent then.
pub fn subject(
    target: &str,
    endpoint: &EndpointArguments,
    speed: Option<f64>,
    pairs: &[String],
    file: &SweepFile,
) -> anyhow::Result<Subject> {
    let target = target.trim();
    if !file.targets.contains_key(target) && (target == "sim" || target.starts_with("sim:")) {
        let preset = preset(target)?;
        endpoint.refuse_with_sim(pairs)?;
        return Ok(Subject::Simulated {
            preset: Box::new(preset),
            speed: speed.unwrap_or(1.0),
        });
    }
    if speed.is_some() {
        bail!(
            "--speed goes with the simulated engine (`plimsoll sweep sim`); a real endpoint has its own clock"
        );
    }
    Ok(Subject::Endpoint(Box::new(endpoint.settle(target, pairs, file)?)))
}
