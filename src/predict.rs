//! `plimsoll predict`: a whole sweep of the simulated engine in virtual time.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_run::document::{Run, SCHEMA, Status};
use plimsoll_run::runner::Watch;
use plimsoll_run::target::{Dialect, Engine, Target};
use plimsoll_sim::preset::Preset;
use plimsoll_sim::runner::SimRunner;

use crate::arguments::{PredictArguments, SweepFormat};
use crate::climb::{Climb, Clock};
use crate::command::command_without_secrets;
use crate::course::Course;
use crate::exit::{Exit, Failure, OrExit};
use crate::progress::Display;
use crate::settings::{DEFAULT_SEED, settle_question};
use crate::simulate::engine;
use crate::sweep::{client, now};
use crate::sweep_file::SweepFile;

/// Sweeps the model and prints the answer; nothing is stored.
pub fn run(arguments: PredictArguments) -> Result<Exit, Failure> {
    let preset = engine(arguments.model.as_deref(), arguments.instance.as_deref()).or_exit(Exit::Usage)?;
    let file = SweepFile::default();
    let question = settle_question(&arguments.question, &file, preset.sla.clone(), Some(preset.peak));
    let course = Course::settle(&arguments.climb, &file.sweep, question.sla.clone()).or_exit(Exit::Usage)?;
    let seed = arguments.workload.seed.unwrap_or(DEFAULT_SEED);
    let settled = arguments
        .workload
        .settle(preset.workload.clone())
        .or_exit(Exit::Usage)?;
    if !settled.prefix_shares.is_empty() {
        let problem = "--prefix-shares goes with `sweep`; predict each share by itself, with --share";
        return Err(anyhow::anyhow!(problem)).or_exit(Exit::Usage);
    }
    let workload = settled.workload;
    let mut run = Run {
        schema: SCHEMA.to_owned(),
        status: Status::Complete,
        started_at: now(),
        ended_at: None,
        command: command_without_secrets(std::env::args()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        target: target(&preset),
        workload_digest: workload.digest(),
        workload,
        seed,
        sla: question.sla.clone(),
        peak: question.peak,
        price_per_hour: question.price,
        currency: question.currency.clone(),
        demand: Some(question.terms.clone()),
        resumed: 0,
        search: Some(course.terms()),
        client: client(),
        notes: std::iter::once(
            "Predicted by the engine model in virtual time; no request was sent.".to_owned(),
        )
        .chain(question.note.clone())
        .chain(settled.notes)
        .collect(),
        rungs: Vec::new(),
        plan: plimsoll_run::answer::Plan::default(),
        verification: None,
        table: None,
    };
    let watch = Arc::new(Watch::new());
    let display = Display::start(Arc::clone(&watch), true);
    let mut runner =
        SimRunner::new(preset.spec.clone(), run.workload.clone(), seed).with_rows(settled.asked.rows);
    let climb = Climb {
        search: course.search,
        limits: course.limits,
        max_time: course.max_time,
        clock: Clock::Rungs,
        question: &question,
        // The model's users start as a herd would not: one second apart from first to last.
        first_response: Duration::from_secs(1),
        watch: &watch,
        display: &display,
    };
    climb.go(&mut runner, &mut run, &mut |_, _, _| Ok(()))?;
    run.ended_at = Some(now());
    crate::report::print(&run, SweepFormat::json_if(arguments.json))?;
    Ok(Exit::of(&run))
}

fn target(preset: &Preset) -> Target {
    Target {
        url: preset.name.clone(),
        dialect: Dialect::OpenaiChat,
        custom: None,
        model: None,
        engine: Some(Engine {
            name: Some("plimsoll-sim".to_owned()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
        serving_config: [("preset".to_owned(), preset.name.clone().into())].into(),
        fingerprint: None,
    }
}
