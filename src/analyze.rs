//! `plimsoll analyze`: planning numbers from tables that someone else measured. Sends nothing.

use std::path::Path;

use anyhow::{Context, bail};
use plimsoll_plan::Demand;
use plimsoll_plan::imported::answer_table;
use plimsoll_report::import::{Imported, import};
use plimsoll_run::answer::Plan;
use plimsoll_run::document::{Client, Run, SCHEMA, Status};
use plimsoll_run::sla::Sla;
use plimsoll_run::target::{Dialect, Target};
use plimsoll_run::workload::{TokenLength, Workload};

use crate::arguments::{AnalyzeArguments, SweepFormat};
use crate::exit::{Exit, Failure, OrExit};
use crate::settings::settle_question;
use crate::sweep_file::SweepFile;

/// No benchmark's summary is larger; one with every request in it may be.
const LARGEST_FILE: u64 = 1 << 30;

/// Reads, examines, answers and prints.
pub fn run(arguments: &AnalyzeArguments) -> Result<Exit, Failure> {
    let files = arguments
        .files
        .iter()
        .map(|path| Ok((path.display().to_string(), read(path)?)))
        .collect::<anyhow::Result<Vec<_>>>()
        .or_exit(Exit::Usage)?;
    let imported = import(&files, arguments.output_tokens).or_exit(Exit::Usage)?;
    let asked = &arguments.question;
    let sla = if asked.sla.is_empty() {
        imported.table.sla.clone()
    } else {
        Sla {
            terms: asked.sla.clone(),
        }
    };
    let question = settle_question(asked, &SweepFile::default(), sla.clone(), None);
    let demand = question.demand();
    let mut rungs = imported.rungs.clone();
    let plan = answer_table(&mut rungs, &imported.table, &sla, &demand);
    let mut run = as_run(&imported, &files, sla, &demand);
    run.demand = Some(question.terms.clone());
    run.notes.extend(question.note.clone());
    run.rungs = rungs;
    run.plan = plan;
    crate::report::print(&run, SweepFormat::json_if(arguments.json))?;
    Ok(Exit::of(&run))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let name = || path.display().to_string();
    let about = std::fs::metadata(path).with_context(name)?;
    if about.is_dir() {
        bail!("{}: a folder; name the file in it", name());
    }
    if about.len() > LARGEST_FILE {
        bail!(
            "{}: larger than 1 GiB; give the benchmark's summary, not its records",
            name()
        );
    }
    std::fs::read(path).with_context(name)
}

/// The document around the rungs. What a table never has is left blank here and null in the JSON.
fn as_run(imported: &Imported, files: &[(String, Vec<u8>)], sla: Sla, demand: &Demand) -> Run {
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let workload = Workload {
        input_tokens: TokenLength::fixed(1),
        output_tokens: TokenLength::fixed(1),
        streaming: imported.table.streaming.unwrap_or(true),
        ..Workload::default()
    };
    Run {
        schema: SCHEMA.to_owned(),
        status: Status::Complete,
        started_at: String::new(),
        ended_at: None,
        command: format!("plimsoll analyze {}", names.join(" ")),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        target: Target {
            url: names.join(", "),
            dialect: Dialect::OpenaiChat,
            custom: None,
            model: imported.model.clone(),
            engine: None,
            serving_config: std::collections::BTreeMap::new(),
            fingerprint: None,
        },
        workload,
        workload_digest: String::new(),
        seed: 0,
        sla,
        peak: demand.peak,
        price_per_hour: demand.price_per_hour,
        currency: demand.currency.clone(),
        demand: None,
        resumed: 0,
        search: None,
        client: Client::default(),
        notes: Vec::new(),
        rungs: Vec::new(),
        plan: Plan::default(),
        verification: None,
        table: Some(imported.table.clone()),
    }
}
