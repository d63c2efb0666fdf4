//! `plimsoll probe`: what an endpoint speaks and accepts, what serves it, and the request it is sent. A handful of short requests.

use std::fmt::Write;

use plimsoll_load::{Asked, Prepared, SentRequest, TriedRoute, highest_level};
use plimsoll_run::document::Client;
use plimsoll_run::target::Target;
use plimsoll_run::units::{show, to_ms};
use plimsoll_run::workload::{TokenLength, Workload};
use serde::Serialize;

use crate::access::idle_trust;
use crate::arguments::ProbeArguments;
use crate::console;
use crate::exit::{Exit, Failure, OrExit};
use crate::serving_arguments::file_and_pairs;
use crate::settings::{DEFAULT_SEED, Subject, subject};
use crate::sweep::{Session, client, start};
use crate::sweep_file::SweepFile;

/// The schema of the document.
const SCHEMA: &str = "plimsoll.probe/1";
/// Lengths of the one request of a workload's kind: enough to see how the endpoint counts, quickly answered.
const INPUT_TOKENS: u32 = 64;
const OUTPUT_TOKENS: u32 = 16;

/// What was found. What the endpoint does not tell is null.
#[derive(Debug, Serialize)]
struct Found {
    schema: &'static str,
    target: Target,
    /// Whether the dialect was found by asking.
    detected: bool,
    /// Routes that were asked before and did not speak.
    tried: Vec<TriedRoute>,
    models: Option<Vec<String>>,
    /// Optional request fields.
    takes: Vec<String>,
    refuses: Vec<String>,
    streams: bool,
    /// Whether it counts the tokens of its replies.
    counts: bool,
    /// Where the server's own metrics are.
    metrics_url: Option<String>,
    /// E2E of one small request on the idle endpoint, milliseconds.
    first_response_ms: f64,
    client: Client,
    /// The highest level that this machine's limit of open files allows.
    highest_level: Option<u32>,
    request: SentRequest,
    notes: Vec<String>,
}

impl Found {
    fn of(prepared: &Prepared, notes: Vec<String>) -> Found {
        let probed = prepared.probed().clone();
        Found {
            schema: SCHEMA,
            target: prepared.target.clone(),
            detected: probed.detected,
            tried: probed.tried,
            models: probed.models,
            takes: probed.takes,
            refuses: probed.refuses,
            streams: probed.streams,
            counts: probed.counts,
            metrics_url: prepared.metrics_url(),
            first_response_ms: to_ms(prepared.first_response),
            client: client(),
            highest_level: highest_level(),
            request: probed.request,
            notes: notes.into_iter().chain(prepared.notes.iter().cloned()).collect(),
        }
    }
}

/// Asks and prints.
pub fn run(arguments: &ProbeArguments) -> Result<Exit, Failure> {
    let (config, pairs) = file_and_pairs(&arguments.config).or_exit(Exit::Usage)?;
    let file = SweepFile::find(config.as_deref()).or_exit(Exit::Usage)?;
    let subject =
        subject(&arguments.target, &arguments.endpoint, None, &pairs, &file).or_exit(Exit::Usage)?;
    let workload = Workload {
        input_tokens: TokenLength::fixed(INPUT_TOKENS),
        output_tokens: TokenLength::fixed(OUTPUT_TOKENS),
        streaming: !arguments.no_stream,
        ..Workload::default()
    };
    let notes = match &subject {
        Subject::Endpoint(options) => idle_trust(options).into_iter().collect(),
        Subject::Simulated { .. } => Vec::new(),
    };
    let session = Session::begin(true)?;
    // The engine lives as long as this handle.
    let (options, _engine) = start(&subject)?;
    let prepared = session.prepare(&options, &workload, Asked::default(), DEFAULT_SEED)?;
    let found = Found::of(&prepared, notes);
    console::put(&if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&found)?)
    } else {
        for_a_person(&found, &prepared)
    })?;
    Ok(Exit::Done)
}

fn for_a_person(found: &Found, prepared: &Prepared) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<12}{}", console::plain(value));
    };
    let target = &found.target;
    line("Endpoint", &target.url);
    let how = if found.detected { " (found by asking)" } else { "" };
    let streams = match (
        found.streams,
        prepared.probed().request.body.contains("\"stream\":true"),
    ) {
        (true, _) => "streamed",
        (false, true) => "not streamed although asked to",
        (false, false) => "not streamed",
    };
    line("Dialect", &format!("{}{how}, {streams}", target.dialect));
    for route in &found.tried {
        line("", &format!("not {}: {}", route.dialect, route.answer));
    }
    line("Model", target.model.as_deref().unwrap_or("requests name none"));
    if let Some(models) = found.models.as_ref().filter(|models| models.len() > 1) {
        line("", &format!("of {}", models.join(", ")));
    }
    let engine = target.engine.as_ref();
    let words: Vec<&str> = engine
        .into_iter()
        .flat_map(|engine| [engine.name.as_deref(), engine.version.as_deref()])
        .flatten()
        .collect();
    let known = if words.is_empty() {
        "it does not tell".to_owned()
    } else {
        words.join(" ")
    };
    line("Engine", &known);
    let listed = |fields: &[String], none: &str| {
        if fields.is_empty() {
            none.to_owned()
        } else {
            fields.join(", ")
        }
    };
    line("Takes", &listed(&found.takes, "no optional field"));
    line("Refuses", &listed(&found.refuses, "nothing that was tried"));
    line(
        "Counts",
        if found.counts {
            "the tokens of each reply"
        } else {
            "no tokens: they will be estimated from the chunks of a stream"
        },
    );
    line(
        "Metrics",
        found
            .metrics_url
            .as_deref()
            .unwrap_or("none found; name them with --metrics-url where they stand elsewhere"),
    );
    line(
        "Responds",
        &format!(
            "in {} to a prompt of {INPUT_TOKENS} tokens with a reply of {OUTPUT_TOKENS}",
            show(prepared.first_response)
        ),
    );
    let level = found.highest_level.map_or_else(String::new, |level| {
        format!(", levels up to {level} by its limit of open files")
    });
    line(
        "Client",
        &format!("{} cores, {}{level}", found.client.cores, found.client.platform),
    );
    for note in &found.notes {
        line("Note", note);
    }
    if !target.serving_config.is_empty() {
        text.push_str("\nServing configuration\n");
        for (name, value) in &target.serving_config {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(text, "  {} = {}", console::plain(name), console::plain(&value));
        }
        if let Some(fingerprint) = &target.fingerprint {
            let _ = writeln!(text, "  fingerprint {fingerprint}");
        }
    }
    let request = &found.request;
    let _ = writeln!(
        text,
        "\nThe request it answered\n  {} {}",
        request.method,
        console::plain(&request.url)
    );
    for (name, value) in &request.headers {
        let _ = writeln!(text, "  {name}: {}", console::plain(value));
    }
    let _ = writeln!(text, "\n  {}", console::plain(&request.body));
    text
}
