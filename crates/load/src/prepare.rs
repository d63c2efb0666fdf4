//! Before any load: is the endpoint ready, what is it, what does it take, and how does it count?

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_prompts::{Calibration, Rows};
use plimsoll_run::request::FailureClass;
use plimsoll_run::target::{Dialect, Target};
use plimsoll_run::workload::Workload;
use plimsoll_serving::configuration::fingerprint;

use crate::ask::Asker;
use crate::calibrate::calibrate;
use crate::capability;
use crate::error::PrepareError;
use crate::line::Line;
use crate::models::{Introduction, introduce};
use crate::options::TargetOptions;
use crate::probed::{Probed, TriedRoute};
use crate::server_side::{self, MetricsSource};
use crate::shape::{Field, Shape};

/// A broken endpoint is found out within this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for the resolver.
const RESOLVE: Duration = Duration::from_secs(5);

/// An endpoint that is ready to be measured.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// What is measured, for the record.
    pub target: Target,
    /// Sentences on what was found, dropped or estimated.
    pub notes: Vec<String>,
    /// E2E of one request of the workload's mean lengths on the idle endpoint: the stagger of the first rung.
    pub first_response: Duration,
    probed: Probed,
    pub(crate) line: Line,
    pub(crate) shape: Shape,
    pub(crate) calibration: Calibration,
    pub(crate) rows: Option<Arc<Rows>>,
    pub(crate) metrics: Option<MetricsSource>,
}

impl Prepared {
    /// What was found out about the endpoint.
    #[must_use]
    pub fn probed(&self) -> &Probed {
        &self.probed
    }

    /// Where the server's own metrics are read, without query; `None` where none were found.
    #[must_use]
    pub fn metrics_url(&self) -> Option<String> {
        self.metrics.as_ref().map(MetricsSource::url)
    }
}

/// Checks that the endpoint is ready, finds its model, probes what it takes and calibrates the prompts. Blocks.
///
/// An endpoint that is closed, silent, or does not speak the dialect is found out within 10 s; one that works takes
/// some four short requests and one of the workload's own lengths.
///
/// # Errors
/// When the endpoint cannot be measured: one line that names cause and remedy.
pub fn prepare(options: &TargetOptions, workload: &Workload, seed: u64) -> Result<Prepared, PrepareError> {
    prepare_from(options, workload, Asked::default(), seed)
}

/// What comes with a workload from files of the user's.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The rows of its source, which are then what is sent.
    pub rows: Option<Arc<Rows>>,
    /// How a tokenizer of the user's counts, for an endpoint that does not.
    pub counting: Option<Calibration>,
}

/// The same with what comes from files.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_from(
    options: &TargetOptions,
    workload: &Workload,
    asked: Asked,
    seed: u64,
) -> Result<Prepared, PrepareError> {
    let began = Instant::now();
    let line = Line::new(options, RESOLVE)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| PrepareError::Client(error.to_string()))?;
    // A LocalSet for the side tasks of HTTP/2.
    tokio::task::LocalSet::new().block_on(&runtime, all(line, options, workload, asked, seed, began))
}

async fn all(
    mut line: Line,
    options: &TargetOptions,
    workload: &Workload,
    asked: Asked,
    seed: u64,
    began: Instant,
) -> Result<Prepared, PrepareError> {
    let mut notes = Vec::new();
    if line.endpoint.had_user_info() {
        notes.push(
            "the user info in the URL is not sent; give credentials with --api-key or --header".to_owned(),
        );
    }
    if options.insecure && line.endpoint.https() {
        notes.push("TLS certificates are not checked (--insecure)".to_owned());
    }
    if let Some(proxy) = &line.link.proxy {
        notes.push(proxy.note());
    }
    if options.http2 {
        notes.push(
            "HTTP/2: a time stamp dates a read, which may hold the frames of several tokens; gaps between tokens are coarser than over HTTP/1.1"
                .to_owned(),
        );
    }
    let Discovery {
        introduction,
        model,
        found,
        tried,
        notes: more,
    } = discover(&mut line, options, workload, seed, began).await?;
    notes.extend(more);
    let detected = !line.endpoint.named();
    if !tried.is_empty() {
        notes.push(format!(
            "the endpoint speaks {} ({} does not answer)",
            line.endpoint.dialect(),
            tried
                .iter()
                .map(|tried| tried.dialect.name())
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    notes.extend(found.notes.iter().cloned());
    let mut asker = Asker::new(&line);
    let calibrated = calibrate(&mut asker, &found.shape, workload, &asked, seed, &found.reply).await?;
    notes.extend(calibrated.notes);
    let full = &calibrated.full;
    if full.failure.is_some() {
        // Said already; what it lacks says nothing.
    } else if full.output_tokens.is_none() || full.output_estimated {
        notes.push(if workload.streaming {
            "the endpoint gives no usage: reply tokens are counted from chunks, an estimate".to_owned()
        } else {
            "the endpoint gives no usage: reply tokens are not known".to_owned()
        });
    } else if let Some(tokens) = full.output_tokens
        && f64::from(tokens) < 0.9 * f64::from(calibrated.output_asked)
    {
        notes.push(format!(
            "a reply had {tokens} tokens where {} were asked: the endpoint does not hold replies to their length",
            calibrated.output_asked
        ));
    }
    let first_response = full.last_token.unwrap_or(full.ended).saturating_sub(full.sent);
    let serving_config = model
        .as_ref()
        .and_then(|model| introduction.settings.get(model))
        .cloned()
        .unwrap_or_default();
    let told =
        server_side::ask_about(&mut asker, options, introduction.engine.as_ref(), serving_config).await?;
    notes.extend(told.notes);
    let dialect = line.endpoint.dialect();
    let probed = Probed {
        dialect,
        detected,
        tried,
        model: model.clone(),
        models: introduction.models,
        engine: told.engine.clone(),
        serving_config: told.settings.clone(),
        takes: names(&found.shape.fields),
        refuses: names(&found.refused),
        streams: workload.streaming && found.streamed,
        counts: found.reply.output_tokens.is_some() && !found.reply.output_estimated,
        request: line.shown(&found.body),
        reply: found.reply,
    };
    let target = Target {
        url: line.endpoint.url(),
        dialect,
        custom: options.custom.clone().filter(|_| dialect == Dialect::Custom),
        model,
        fingerprint: fingerprint(told.engine.as_ref(), &told.settings),
        engine: told.engine,
        serving_config: told.settings,
    };
    let (shape, calibration) = (found.shape, calibrated.calibration);
    drop(asker);
    Ok(Prepared {
        target,
        notes,
        first_response,
        probed,
        line,
        shape,
        calibration,
        rows: asked.rows,
        metrics: told.metrics,
    })
}

fn names(fields: &[Field]) -> Vec<String> {
    fields.iter().map(|field| field.name().to_owned()).collect()
}

/// What was found of an endpoint and its dialect.
struct Discovery {
    introduction: Introduction,
    model: Option<String>,
    found: capability::Found,
    tried: Vec<TriedRoute>,
    notes: Vec<String>,
}

/// The dialects that are tried where nobody says which it is, the likeliest first.
const CANDIDATES: [Dialect; 6] = [
    Dialect::OpenaiChat,
    Dialect::OpenaiCompletions,
    Dialect::OpenaiResponses,
    Dialect::AnthropicMessages,
    Dialect::Tgi,
    Dialect::Ollama,
];

/// Finds the dialect where nobody says which it is, and what the endpoint takes. From then on `line` speaks it.
async fn discover(
    line: &mut Line,
    options: &TargetOptions,
    workload: &Workload,
    seed: u64,
    began: Instant,
) -> Result<Discovery, PrepareError> {
    let named = [line.endpoint.dialect()];
    let candidates: &[Dialect] = if line.endpoint.named() {
        &named
    } else {
        &CANDIDATES
    };
    let mut tried = Vec::new();
    let mut first_error = None;
    let mut introduction = None;
    for dialect in candidates {
        line.speak(*dialect, workload.streaming, options.custom.as_ref());
        if matches!(dialect, Dialect::Tgi | Dialect::Ollama) {
            // They list their models elsewhere.
            introduction = None;
        }
        let error = match attempt(line, options, workload, seed, began, &mut introduction).await {
            Ok(found) => return Ok(Discovery { tried, ..found }),
            Err(error) => error,
        };
        let first = first_error.is_none();
        match &error {
            PrepareError::ChooseModel { .. } | PrepareError::NoModel { .. } => return Err(error),
            _ if first && !speaks_another(&error) => return Err(error),
            _ => tried.push(TriedRoute {
                dialect: *dialect,
                answer: error.to_string(),
            }),
        }
        first_error.get_or_insert(error);
        if began.elapsed() > PATIENCE {
            break;
        }
    }
    Err(first_error.unwrap_or_else(|| PrepareError::Client("no dialect to try".to_owned())))
}

/// Whether an endpoint that answers so may speak another dialect.
fn speaks_another(error: &PrepareError) -> bool {
    match error {
        PrepareError::NoRoute { .. } => true,
        PrepareError::Failed { class, .. } => *class == FailureClass::Malformed,
        // What vLLM says of a model that was not made for chat.
        PrepareError::Refused { message, .. } => message.contains("chat template"),
        _ => false,
    }
}

/// Tries the dialect that `line` speaks. An introduction that was had before is used again.
async fn attempt(
    line: &Line,
    options: &TargetOptions,
    workload: &Workload,
    seed: u64,
    began: Instant,
    known: &mut Option<Introduction>,
) -> Result<Discovery, PrepareError> {
    let mut asker = Asker::new(line);
    let introduction = match known.take() {
        Some(introduction) => introduction,
        None => introduce(&mut asker).await?,
    };
    *known = Some(introduction.clone());
    let mut notes = Vec::new();
    let dialect = line.endpoint.dialect();
    let model = match dialect {
        // Their requests need name none.
        Dialect::Sagemaker | Dialect::Custom => options.model.clone(),
        Dialect::Tgi if introduction.models.is_none() => options.model.clone(),
        _ => choose_model(line, options.model.as_deref(), &introduction, &mut notes)?,
    };
    let full = Shape::full(
        dialect,
        options.custom.as_ref(),
        model.clone(),
        workload.streaming,
        introduction.llama_cpp(),
    );
    let within = PATIENCE
        .saturating_sub(began.elapsed())
        .saturating_sub(Duration::from_millis(500))
        .max(Duration::from_secs(3));
    let found = capability::probe(&mut asker, full, seed, within)
        .await
        .map_err(|error| with_models(error, &introduction))?;
    Ok(Discovery {
        introduction,
        model,
        found,
        tried: Vec::new(),
        notes,
    })
}

fn choose_model(
    line: &Line,
    asked: Option<&str>,
    introduction: &Introduction,
    notes: &mut Vec<String>,
) -> Result<Option<String>, PrepareError> {
    let url = line.endpoint.models_url();
    match (asked, introduction.models.as_deref()) {
        (Some(model), Some(models)) => {
            if !models.iter().any(|known| known == model) {
                notes.push(format!(
                    "`{model}` is not among the models that {url} lists; it was taken all the same"
                ));
            }
            Ok(Some(model.to_owned()))
        }
        (Some(model), None) => Ok(Some(model.to_owned())),
        (None, Some([only])) => Ok(Some(only.clone())),
        (None, Some([])) => {
            notes.push(format!("{url} lists no model: requests name none"));
            Ok(None)
        }
        (None, Some(models)) => Err(PrepareError::ChooseModel {
            url: line.endpoint.url(),
            models: listed(models),
        }),
        (None, None) => {
            notes.push(format!(
                "{url} lists no models ({}): requests name none; if the endpoint needs one, give --model",
                introduction.missing.as_deref().unwrap_or("no reason given")
            ));
            Ok(None)
        }
    }
}

/// Up to a dozen names.
fn listed(models: &[String]) -> String {
    let shown: Vec<&str> = models.iter().take(12).map(String::as_str).collect();
    let mut text = shown.join(", ");
    if models.len() > shown.len() {
        text.push_str(&format!(" and {} more", models.len() - shown.len()));
    }
    text
}

/// Adds to an unknown model what the endpoint has in its place.
fn with_models(error: PrepareError, introduction: &Introduction) -> PrepareError {
    match (error, introduction.models.as_deref()) {
        (
            PrepareError::NoModel {
                url, model, message, ..
            },
            Some(models),
        ) if !models.is_empty() => {
            let near = models
                .iter()
                .map(|known| (strsim::jaro_winkler(known, &model), known))
                .filter(|(likeness, _)| *likeness > 0.8)
                .max_by(|a, b| a.0.total_cmp(&b.0));
            PrepareError::NoModel {
                hint: near.map_or_else(String::new, |(_, known)| format!(" (did you mean `{known}`?)")),
                known: format!("it serves {}", listed(models)),
                url,
                model,
                message,
            }
        }
        (error, _) => error,
    }
}
