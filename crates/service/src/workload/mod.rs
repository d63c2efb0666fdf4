//! A workload as the API writes it, `WorkloadSpec.Inline`, and what it means to a sweep.
//!
//! Every documented parameter is known. One that has no meaning here is refused by name with what to do instead, and one that
//! nobody documents with the nearest that is: nothing is ignored.

mod given;
mod own;
mod parameters;
mod recipe;

use serde_json::{Map, Value};

use given::Given;
pub use recipe::{Bound, Recipe};

/// The longest text that is read.
const LONGEST: usize = 256 * 1024;

/// A workload that cannot be measured as asked. Its text names the parameter and what would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("workload spec: {0}")]
pub struct WorkloadError(pub(crate) String);

/// What a workload means to a sweep.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sweep {
    /// Flags of `plimsoll sweep`.
    pub flags: Vec<String>,
    /// Those of them that a run does not store: `plimsoll resume` needs them again.
    pub resume_flags: Vec<String>,
    /// What to know about how it was understood.
    pub notes: Vec<String>,
    /// The search that was asked for; `None` for a list of levels.
    pub recipe: Option<Recipe>,
}

impl Sweep {
    fn flag(&mut self, name: &str, value: impl std::fmt::Display) {
        self.flags.push(format!("--{name}={value}"));
    }
}

/// Reads a workload: JSON, or YAML.
///
/// # Errors
/// When it is neither, or says something that has no meaning here.
pub fn read(text: &str) -> Result<Sweep, WorkloadError> {
    let document = document(text)?;
    let mut top = Given::of("", document);
    let benchmark = top.section("benchmark")?.ok_or_else(|| {
        WorkloadError("`benchmark` is missing; write \"benchmark\": {\"type\": \"aiperf\"}".to_owned())
    })?;
    check_benchmark(benchmark)?;
    if let Some(tooling) = top.section("tooling")? {
        check_tooling(tooling)?;
    }
    if top.take("secrets").is_some() {
        return Err(WorkloadError(
            "`secrets`: this server fetches none, and no tokenizer is downloaded; leave it out".to_owned(),
        ));
    }
    let parameters = top
        .section("parameters")?
        .unwrap_or_else(|| Given::of("parameters", Map::new()));
    let own = top.section("plimsoll")?;
    top.finish(&["benchmark", "parameters", "plimsoll", "secrets", "tooling"])?;
    parameters::read(parameters, own)
}

/// Flags of a sweep and of a resumed one.
///
/// # Errors
/// As [`read`].
pub fn flags(text: &str) -> Result<(Vec<String>, Vec<String>), String> {
    read(text)
        .map(|sweep| (sweep.flags, sweep.resume_flags))
        .map_err(|error| error.to_string())
}

fn document(text: &str) -> Result<Map<String, Value>, WorkloadError> {
    if text.len() > LONGEST {
        return Err(WorkloadError(format!(
            "it is {} characters long; at most {LONGEST} are read",
            text.len()
        )));
    }
    let value: Value = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| WorkloadError(format!("not JSON: {error}")))?
    } else {
        serde_saphyr::from_str(text).map_err(|error| {
            let error = error.to_string();
            let line = error.lines().next().unwrap_or_default();
            WorkloadError(format!("neither JSON nor YAML: {line}"))
        })?
    };
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(WorkloadError(
            "an object is needed, such as {\"benchmark\": {\"type\": \"aiperf\"}, \"parameters\": {...}}"
                .to_owned(),
        )),
    }
}

fn check_benchmark(mut benchmark: Given) -> Result<(), WorkloadError> {
    match benchmark.text("type")?.as_deref() {
        Some("aiperf") => benchmark.finish(&["type"]),
        Some(other) => Err(WorkloadError(format!(
            "`benchmark.type` is `{}`; only `aiperf` is known",
            short(other)
        ))),
        None => Err(WorkloadError(
            "`benchmark.type` is missing; write `aiperf`".to_owned(),
        )),
    }
}

fn check_tooling(mut tooling: Given) -> Result<(), WorkloadError> {
    if let Some(standard) = tooling.text("api_standard")?
        && standard != "openai"
    {
        return Err(WorkloadError(format!(
            "`tooling.api_standard` is `{}`; only `openai` is known: how a target is spoken to is settled by the server",
            short(&standard)
        )));
    }
    // Of the original tool: whichever is named, this one measures.
    tooling.text("version")?;
    tooling.finish(&["api_standard", "version"])
}

/// Text from outside as an error may quote it.
fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests;
