//! The server's own side of a rung: its metrics, read once a second by a thread with a connection of its own, and what it tells
//! of its configuration before any load.
//!
//! Nothing here can hold up a rung or make it fail: what is not there, or does not answer in time, is simply not known.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_run::target::{Dialect, Engine};
use plimsoll_serving::configuration::{self, Settings};
use plimsoll_serving::log::ServerLog;
use plimsoll_serving::reading::Reading;
use plimsoll_serving::secrets::HIDDEN;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use url::Url;

use crate::ask::Asker;
use crate::endpoint::resolve;
use crate::error::PrepareError;
use crate::line::Line;
use crate::options::TargetOptions;

/// How often the metrics are read.
const EVERY: Duration = Duration::from_secs(1);
/// A page that takes longer is not waited for.
const FETCH: Duration = Duration::from_secs(2);
/// Neither the search for the metrics nor the question about the configuration may hold up the start for longer.
const START: Duration = Duration::from_secs(1);
/// After so many failures in a row there is nobody to ask.
const PATIENCE: u32 = 5;
/// How long the end of a rung waits for the last reading.
const FINISH: Duration = Duration::from_millis(250);

/// Where metrics are read.
#[derive(Debug, Clone)]
pub(crate) struct MetricsSource {
    line: Line,
    target: String,
}

impl MetricsSource {
    /// Where that is, without query.
    pub(crate) fn url(&self) -> String {
        let path = self.target.split('?').next().unwrap_or_default();
        format!("{}{path}", self.line.endpoint.origin())
    }

    /// Reads a page; `None` when there is none in time.
    async fn page(&self, asker: &mut Asker<'_>) -> Option<String> {
        let answer = asker
            .ask(|| self.line.get(&self.target), FETCH, FETCH)
            .await
            .ok()?;
        answer
            .ok()
            .then(|| String::from_utf8_lossy(&answer.body).into_owned())
    }
}

/// What a server told of itself.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The engine by the names of its metrics, with the version where a route tells it.
    pub engine: Option<Engine>,
    /// Its configuration, with what the user gave.
    pub settings: Settings,
    /// Where its metrics are, if it has any that are understood.
    pub metrics: Option<MetricsSource>,
    /// Sentences on what was not as expected.
    pub notes: Vec<String>,
}

/// Asks the server about itself. `known` is the engine as far as the list of models told, `settings` what that list told of the
/// model.
///
/// Takes at most a second for the metrics and another for the configuration.
///
/// # Errors
/// Only for a `--metrics-url` that is no URL or whose host is not known.
pub(crate) async fn ask_about(
    asker: &mut Asker<'_>,
    options: &TargetOptions,
    known: Option<&Engine>,
    settings: Settings,
) -> Result<Told, PrepareError> {
    let mut told = Told {
        engine: known.cloned(),
        settings,
        ..Told::default()
    };
    let sources = sources(options, asker.line)?;
    let found = tokio::time::timeout(START, find(&sources)).await;
    if let Ok(Some((source, page, reading))) = found {
        told.metrics = Some(source.clone());
        let engine = told.engine.get_or_insert(Engine {
            name: None,
            version: None,
        });
        engine
            .name
            .get_or_insert_with(|| reading.engine.name().to_owned());
        merge(&mut told.settings, configuration::of_metrics(&page));
    } else if let Some(url) = &options.metrics_url {
        told.notes.push(format!(
            "{} gives no metrics of vLLM, SGLang, TGI or llama.cpp now; each rung asks again",
            shown(url)
        ));
        told.metrics = sources.into_iter().next();
    }
    // What it does not tell in time stays unknown.
    let _ = tokio::time::timeout(START, describe(asker, &mut told)).await;
    for (name, value) in &options.serving {
        match told.settings.get(name) {
            Some(says) if says != value && value != HIDDEN => told.notes.push(format!(
                "{name} is {says} by the server and {value} by what was given; the server's is kept"
            )),
            _ => {
                told.settings.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    Ok(told)
}

/// The first source that has metrics of an engine, with the page and what it says.
async fn find(sources: &[MetricsSource]) -> Option<(&MetricsSource, String, Reading)> {
    for source in sources {
        let page = source.page(&mut Asker::new(&source.line)).await;
        if let Some((page, reading)) = page.and_then(|page| Reading::parse(&page).map(|read| (page, read))) {
            return Some((source, page, reading));
        }
    }
    None
}

/// What is known first stays.
fn merge(settings: &mut Settings, more: Settings) {
    for (name, value) in more {
        settings.entry(name).or_insert(value);
    }
}

/// Asks the route that the engine describes itself on.
async fn describe(asker: &mut Asker<'_>, told: &mut Told) {
    let name = told.engine.as_ref().and_then(|engine| engine.name.clone());
    let routes: &[&str] = match name.as_deref() {
        Some("vllm") => &["/server_info"],
        Some("sglang") => &["/get_server_info", "/server_info"],
        Some("tgi") => &["/info"],
        Some("llama.cpp") => &["/props"],
        Some(_) => &[],
        None if asker.line.endpoint.dialect() == Dialect::Tgi => &["/info"],
        None => &[],
    };
    let line = asker.line;
    for route in routes {
        let target = line.endpoint.beside(route);
        let answer = match asker.ask(|| line.get(&target), FETCH, FETCH).await {
            Ok(answer) => answer,
            // Where one route is silent the next would be too.
            Err(_) => return,
        };
        let Some(value) = Some(answer)
            .filter(|answer| answer.ok())
            .and_then(|answer| serde_json::from_slice::<Value>(&answer.body).ok())
        else {
            continue;
        };
        merge(&mut told.settings, configuration::of_answer(&value));
        let version = ["version", "build_info"]
            .iter()
            .find_map(|key| value.get(*key)?.as_str());
        if let (Some(version), Some(engine)) = (version, &mut told.engine) {
            engine.version.get_or_insert_with(|| line.redactor.line(version));
        }
        return;
    }
}

/// Where metrics may be, the likeliest first. Only the endpoint's own origin is sent the user's credentials.
fn sources(options: &TargetOptions, line: &Line) -> Result<Vec<MetricsSource>, PrepareError> {
    let Some(given) = &options.metrics_url else {
        if line.endpoint.dialect() == Dialect::Sagemaker {
            // Requests there are signed one by one, and there is no such route.
            return Ok(Vec::new());
        }
        let mut targets = vec![line.endpoint.beside("/metrics"), "/metrics".to_owned()];
        targets.dedup();
        return Ok(targets
            .into_iter()
            .map(|target| MetricsSource {
                line: line.clone(),
                target,
            })
            .collect());
    };
    let other = resolve(given, None, None)?;
    let line = if other.origin() == line.endpoint.origin() {
        line.clone()
    } else {
        let stranger = TargetOptions {
            url: other.origin(),
            dialect: None,
            endpoint_path: None,
            api_key: None,
            headers: Vec::new(),
            http2: false,
            ..options.clone()
        };
        Line::new(&stranger, START)?
    };
    // `resolve` has let only URLs through.
    let target = Url::parse(given.trim()).map_or_else(
        |_| "/metrics".to_owned(),
        |url| match (url.path(), url.query()) {
            ("" | "/", None) => "/metrics".to_owned(),
            (path, None) => path.to_owned(),
            (path, Some(query)) => format!("{path}?{query}"),
        },
    );
    Ok(vec![MetricsSource { line, target }])
}

/// A URL without what may be secret.
fn shown(url: &str) -> String {
    let shown = crate::endpoint::without_user_info(url.trim());
    shown
        .split(['?', '#'])
        .next()
        .map_or_else(String::new, str::to_owned)
}

/// Reads the metrics through one rung, from its start until it is finished or dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    now: UnboundedSender<()>,
    log: Arc<Mutex<ServerLog>>,
    done: mpsc::Receiver<()>,
}

impl Sampler {
    /// Starts the thread; `None` where it cannot be started.
    pub(crate) fn start(source: &MetricsSource, origin: Instant) -> Option<Sampler> {
        let source = source.clone();
        let log = Arc::new(Mutex::new(ServerLog::default()));
        let (now, orders) = unbounded_channel();
        let (ended, done) = mpsc::channel();
        let own = Arc::clone(&log);
        std::thread::Builder::new()
            .name("plimsoll-metrics".to_owned())
            .spawn(move || {
                if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                    let set = tokio::task::LocalSet::new();
                    set.block_on(&runtime, read(&source, origin, orders, &own));
                }
                // Nobody waits any more when the rung is long over.
                let _ = ended.send(());
            })
            .ok()?;
        Some(Sampler { now, log, done })
    }

    /// Has the metrics read at once: the window opens or closes.
    pub(crate) fn now(&self) {
        let _ = self.now.send(());
    }

    /// Reads once more and hands over what there is, after a quarter of a second at the latest.
    pub(crate) fn finish(self) -> ServerLog {
        self.now();
        drop(self.now);
        let _ = self.done.recv_timeout(FINISH);
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn read(
    source: &MetricsSource,
    origin: Instant,
    mut orders: UnboundedReceiver<()>,
    log: &Mutex<ServerLog>,
) {
    let mut asker = Asker::new(&source.line);
    let mut failures = 0;
    while failures < PATIENCE {
        let asked = origin.elapsed();
        let next = tokio::time::Instant::now() + EVERY;
        let reading = source
            .page(&mut asker)
            .await
            .and_then(|page| Reading::parse(&page));
        match reading {
            Some(reading) => {
                failures = 0;
                // The server looked at its counters somewhere between.
                let at = asked + origin.elapsed().saturating_sub(asked) / 2;
                log.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(at, reading);
            }
            None => failures += 1,
        }
        tokio::select! {
            order = orders.recv() => if order.is_none() { return },
            () = tokio::time::sleep_until(next) => {}
        }
    }
}
