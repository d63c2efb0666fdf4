//! `plimsoll compare`: runs of one workload side by side. Sends nothing.

use anyhow::bail;
use plimsoll_plan::regression::changes;
use plimsoll_report::terminal;
use plimsoll_run::comparison::{Change, Outcome};
use plimsoll_run::directory::RunDirectory;
use plimsoll_run::document::Run;
use serde::Serialize;
use serde_json::Value;

use crate::arguments::CompareArguments;
use crate::console;
use crate::exit::{Exit, Failure, OrExit};
use crate::question::Question;

/// The schema of the document.
const SCHEMA: &str = "plimsoll.comparison/1";

#[derive(Debug, Serialize)]
struct Comparison {
    schema: &'static str,
    /// What the others are compared with.
    baseline: String,
    tolerance: f64,
    runs: Vec<Compared>,
}

#[derive(Debug, Serialize)]
struct Compared {
    run: String,
    /// Whether anything became worse.
    regressed: bool,
    changes: Vec<Change>,
}

/// Compares and prints.
pub fn run(arguments: &CompareArguments) -> Result<Exit, Failure> {
    let mut runs = Vec::new();
    for path in &arguments.runs {
        let (_, run) = RunDirectory::open(path).or_exit(Exit::Usage)?;
        runs.push((path.display().to_string(), run));
    }
    let Some(((baseline, first), others)) = runs.split_first_mut() else {
        return Ok(Exit::Done);
    };
    // What the first run asked is asked of all: the numbers then answer one question.
    let question = Question::of(first);
    let mut comparison = Comparison {
        schema: SCHEMA,
        baseline: baseline.clone(),
        tolerance: arguments.tolerance,
        runs: Vec::new(),
    };
    let mut trusted = plimsoll_plan::trustworthy(first);
    for (name, other) in others {
        same_workload(baseline, first, name, other).or_exit(Exit::Usage)?;
        if other.sla != first.sla || other.peak != first.peak || other.demand != first.demand {
            console::say(&format!(
                "{name} was asked for another SLA or peak; it is answered for those of {baseline} here"
            ));
            question.put_to(other);
        }
        if let Some(changed) = changed_server(first, other) {
            console::say(&format!("{name} was measured on another server: {changed}"));
        }
        trusted &= plimsoll_plan::trustworthy(other);
        let changes = changes(first, other, arguments.tolerance);
        comparison.runs.push(Compared {
            run: name.clone(),
            regressed: changes.iter().any(|change| change.outcome == Outcome::Worse),
            changes,
        });
    }
    console::put(&if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&comparison)?)
    } else {
        side_by_side(&comparison)
    })?;
    if !arguments.gate {
        return Ok(Exit::Done);
    }
    if comparison.runs.iter().any(|run| run.regressed) {
        console::say("plimsoll: a figure became worse by more than --tolerance and more than noise");
        return Ok(Exit::Regression);
    }
    // A gate passes nothing that nobody measured.
    Ok(if trusted { Exit::Done } else { Exit::Invalid })
}

fn side_by_side(comparison: &Comparison) -> String {
    let names: Vec<String> = std::iter::once(&comparison.baseline)
        .chain(comparison.runs.iter().map(|run| &run.run))
        .cloned()
        .collect();
    let changes: Vec<Vec<Change>> = comparison.runs.iter().map(|run| run.changes.clone()).collect();
    terminal::comparison(&names, &changes, &crate::report::style())
}

/// Numbers of different workloads do not compare.
fn same_workload(baseline: &str, first: &Run, name: &str, other: &Run) -> anyhow::Result<()> {
    let blank = |run: &Run| run.table.is_some() || run.workload_digest.is_empty();
    if blank(first) || blank(other) {
        let which = if blank(first) { baseline } else { name };
        bail!(
            "{which} is a table that says nothing of its workload, so it cannot be compared; compare runs of `plimsoll sweep`"
        );
    }
    if first.workload_digest == other.workload_digest {
        return Ok(());
    }
    bail!(
        "{name} has another workload than {baseline}: {}; sweep both with the same workload",
        differences(&as_value(&first.workload), &as_value(&other.workload))
    );
}

fn as_value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// The keys whose values differ, with both.
fn differences(one: &Value, other: &Value) -> String {
    let (Value::Object(one), Value::Object(other)) = (one, other) else {
        return format!("{one} against {other}");
    };
    let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let shown = |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), Value::to_string);
    let differing: Vec<String> = keys
        .into_iter()
        .filter(|key| one.get(*key) != other.get(*key))
        .map(|key| format!("{key} {} against {}", shown(one.get(key)), shown(other.get(key))))
        .collect();
    if differing.is_empty() {
        "their digests differ".to_owned()
    } else {
        differing.join(", ")
    }
}

/// How the servers differ; `None` where nothing says that they do.
fn changed_server(first: &Run, other: &Run) -> Option<String> {
    let (before, after) = (&first.target, &other.target);
    if before.model != after.model {
        let name = |model: &Option<String>| model.clone().unwrap_or_else(|| "unnamed".to_owned());
        return Some(format!(
            "model {} against {}",
            name(&before.model),
            name(&after.model)
        ));
    }
    if before.engine != after.engine {
        return Some("the engine or its version changed".to_owned());
    }
    (before.serving_config != after.serving_config).then(|| {
        differences(
            &as_value(&before.serving_config),
            &as_value(&after.serving_config),
        )
    })
}
