//! `plimsoll resume`: finishes an interrupted run. The search is a function of the rungs so far, so it asks for what
//! an uninterrupted run would have asked for next.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use plimsoll_load::check_descriptors;
use plimsoll_run::directory::RunDirectory;
use plimsoll_run::document::{Run, Status};
use plimsoll_run::nearest::hint;
use plimsoll_sim::preset::preset;

use crate::access::{Access, idle_trust};
use crate::arguments::{ResumeArguments, SweepFormat};
use crate::course::Course;
use crate::demand::PeakTrace;
use crate::exit::{Exit, Failure, OrExit};
use crate::question::Question;
use crate::settings::Subject;
use crate::sweep::{Session, prompt_seed, start};
use crate::sweep_file::{SweepFile, TargetTable};
use crate::workload_arguments::reload;

/// Goes on where the run was.
pub fn run(arguments: &ResumeArguments) -> Result<Exit, Failure> {
    let (directory, mut run) = RunDirectory::open(&arguments.run).or_exit(Exit::Usage)?;
    let mut question = Question::again(&run, &arguments.question);
    let course = course(&run, &question, arguments).or_exit(Exit::Usage)?;
    question.put_to(&mut run);
    let subject = subject(&run, arguments).or_exit(Exit::Usage)?;
    let asked = reload(&run.workload).or_exit(Exit::Usage)?;
    check_descriptors(course.search.max)
        .map_err(anyhow::Error::msg)
        .or_exit(Exit::Usage)?;

    let session = Session::begin(arguments.quiet)?;
    if arguments.verify {
        replay_trace(&mut question, &session);
    }
    if let Subject::Endpoint(options) = &subject
        && let Some(idle) = idle_trust(options)
    {
        session.display.say(&format!("  {idle}"));
    }
    // The engine lives as long as this handle.
    let (options, _engine) = start(&subject)?;
    run.resumed += 1;
    let prepared = session.prepare(&options, &run.workload, asked, prompt_seed(&run))?;
    let engine = &prepared.target.engine;
    if *engine != run.target.engine {
        session
            .display
            .say("  the endpoint now tells of another engine than the rungs so far were measured on");
        run.notes
            .push("The engine changed before the run was resumed; its rungs are of two engines.".to_owned());
    }
    run.status = Status::Interrupted;
    run.ended_at = None;
    let format = SweepFormat::json_if(arguments.json);
    session.climb(
        prepared,
        course,
        &question,
        run,
        &directory,
        format,
        arguments.verify,
    )
}

/// A run keeps the name of its peak's trace, not the trace; without the file, arrivals at random stand for it.
fn replay_trace(question: &mut Question, session: &Session) {
    let Some(name) = question.terms.trace.as_ref().filter(|_| question.trace.is_none()) else {
        return;
    };
    match PeakTrace::read(name) {
        Ok(trace) => question.trace = Some(trace.times_s),
        Err(problem) => session.display.say(&format!(
            "  the peak's trace cannot be read ({problem:#}): random arrivals of its burstiness are replayed; give it again \
             with --peak-trace"
        )),
    }
}

fn course(run: &Run, question: &Question, arguments: &ResumeArguments) -> anyhow::Result<Course> {
    let terms = run.search.as_ref().ok_or_else(|| {
        anyhow!(
            "{} holds no search to go on with; sweep again",
            arguments.run.display()
        )
    })?;
    Course::stored(terms, question.sla.clone(), arguments.max_time)
        .with_context(|| arguments.run.display().to_string())
}

fn subject(run: &Run, arguments: &ResumeArguments) -> anyhow::Result<Subject> {
    if let Some(name) = run
        .target
        .serving_config
        .get("preset")
        .and_then(|name| name.as_str())
    {
        let speed = run
            .target
            .serving_config
            .get("speed")
            .and_then(serde_json::Value::as_f64);
        let target = if name.starts_with("sim") { name } else { "sim" };
        return Ok(Subject::Simulated {
            preset: Box::new(preset(target)?),
            speed: speed.unwrap_or(1.0),
        });
    }
    if !run.target.url.contains("://") {
        bail!("{} names no endpoint to go on with", arguments.run.display());
    }
    let table = match &arguments.target {
        Some(name) => table(name, arguments.config.as_deref())?,
        None => TargetTable::default(),
    };
    let access = Access::settle(&arguments.access, &table)?;
    Ok(Subject::Endpoint(Box::new(plimsoll_load::TargetOptions {
        url: run.target.url.clone(),
        dialect: Some(run.target.dialect),
        custom: run.target.custom.clone(),
        model: run.target.model.clone(),
        metrics_url: arguments.metrics_url.clone().or(table.metrics_url),
        ..access.options()
    })))
}

/// What the sweep file says of a target. A run stores none of it: it says how to get in.
fn table(name: &str, file: Option<&Path>) -> anyhow::Result<TargetTable> {
    let mut file = SweepFile::find(file)?;
    file.targets.remove(name).ok_or_else(|| {
        let known: Vec<&str> = file.targets.keys().map(String::as_str).collect();
        anyhow!(
            "--target `{name}` is not in [targets] of the sweep file{}",
            hint(name, &known)
        )
    })
}
