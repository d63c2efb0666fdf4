//! `plimsoll sweep`: climbs the ladder over HTTP, and answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use plimsoll_load::{HttpRunner, Prepared, TargetOptions, check_descriptors, prepare};
use plimsoll_plan::{Demand, answer};
use plimsoll_plan::{Next, Search, compare, expected_response, reduce};
use plimsoll_report::terminal;
use plimsoll_run::directory::RunDirectory;
use plimsoll_run::document::{Client, Run, SCHEMA, Status};
use plimsoll_run::evidence::StopReason;
use plimsoll_run::runner::{Rung, Runner, Watch};
use plimsoll_sim::http::{ServeOptions, ServerHandle, serve};

use crate::arguments::{SweepArguments, SweepFormat};
use crate::exit::{Exit, Failure, OrExit};
use crate::interrupt::{self, UnderLoad};
use crate::progress::Display;
use crate::settings::{Question, Settings, Subject, command_without_secrets};

/// Sweeps and prints the answer.
pub fn run(arguments: SweepArguments) -> Result<Exit, Failure> {
    let mut settings = Settings::settle(arguments).or_exit(Exit::Usage)?;
    if let Some(note) = check_descriptors(settings.search.max)
        .map_err(anyhow::Error::msg)
        .or_exit(Exit::Usage)?
    {
        settings.notes.push(note);
    }
    let watch = Arc::new(Watch::new());
    let under_load = UnderLoad::default();
    interrupt::listen(Arc::clone(&watch), Arc::clone(&under_load))?;

    let display = Display::start(Arc::clone(&watch), settings.quiet);
    // The engine lives as long as this handle.
    let (options, engine) = target(&settings)?;
    display.message("checking the endpoint");
    let prepared = prepare(&options, &settings.workload, settings.seed).or_exit(Exit::Invalid)?;
    display.say(&format!("sweeping {}", prepared.target.url));

    let mut run = document(&settings, &prepared);
    for note in &run.notes {
        display.say(&format!("  {note}"));
    }
    let directory = RunDirectory::create(&settings.out, &settings.label, Timestamp::now())?;
    directory.save(&run)?;
    let first_response = prepared.first_response;
    let mut runner = HttpRunner::new(prepared, settings.workload.clone(), settings.seed)?;
    under_load.store(true, Ordering::SeqCst);
    let climbed = climb(
        &mut runner,
        &settings,
        first_response,
        &mut run,
        &directory,
        &watch,
        &display,
    );
    under_load.store(false, Ordering::SeqCst);
    drop(engine);

    run.ended_at = Some(now());
    run.status = match &climbed {
        Ok(End::Found) => Status::Complete,
        Ok(End::Interrupted) => Status::Interrupted,
        Err(_) => Status::Failed,
    };
    display.message("writing the report");
    directory.save(&run)?;
    directory.save_report(&crate::report::html(&directory, &run)?)?;
    drop(display);
    climbed?;
    print(&run, settings.format)?;
    if !settings.quiet {
        eprintln!(
            "saved in {} (report.html opens in a browser)",
            directory.path().display()
        );
    }
    Ok(Exit::of(&run))
}

/// How a climb ended.
enum End {
    /// The search had all it wanted, or its budget was spent.
    Found,
    /// The user stopped it.
    Interrupted,
}

/// Measures the levels that the search asks for. Each rung is on disk before the next starts.
fn climb(
    runner: &mut dyn Runner,
    settings: &Settings,
    first_response: Duration,
    run: &mut Run,
    directory: &RunDirectory,
    watch: &Watch,
    display: &Display,
) -> anyhow::Result<End> {
    let search = Search::new(settings.search.clone());
    let demand = demand(&settings.question);
    let started = Instant::now();
    let mut longest_rung = Duration::ZERO;
    let mut budget_spent = None;
    while let Next::Measure { level, why } = search.next(&run.rungs) {
        let order = u32::try_from(run.rungs.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let mut limits = settings.limits.clone();
        if let Some(max_time) = settings.max_time {
            let left = max_time.saturating_sub(started.elapsed());
            if left < longest_rung.max(Duration::from_secs(1)) {
                budget_spent = Some(format!(
                    "--max-time ended the sweep before level {level} was measured, so the brackets are wider than asked"
                ));
                break;
            }
            limits.cap = limits.cap.min(left);
            limits.drain = limits.drain.min(left);
        }
        let remaining = search.remaining(&run.rungs).saturating_sub(1);
        let mean_rung = started.elapsed() / order.saturating_sub(1).max(1);
        display.begin(order, level, remaining, mean_rung * remaining);
        display.say(&format!("rung {order}: level {level} ({why})"));
        watch.begin_rung();
        let rung = Rung {
            level,
            order,
            expected_response: Some(expected_response(&run.rungs, level).unwrap_or(first_response)),
            samples_wanted: settings.question.sla.samples_wanted(),
            limits,
        };
        let evidence = runner.measure(&rung, watch)?;
        if evidence.stop == StopReason::Interrupted {
            return Ok(End::Interrupted);
        }
        longest_rung = longest_rung.max(evidence.took);
        let reduced = reduce(&evidence, order, &settings.workload, &settings.question.sla);
        directory.save_rung(
            order,
            level,
            &evidence.requests,
            &reduced.itl_us,
            &reduced.timeline,
        )?;
        display.say(&format!("  {}", terminal::rung_line(&reduced.report)));
        run.rungs.push(reduced.report);
        compare(&mut run.rungs);
        run.plan = answer(&run.rungs, &run.sla, &demand);
        directory.save(run)?;
    }
    run.plan.warnings.extend(budget_spent);
    Ok(End::Found)
}

/// What the planning numbers are asked for.
pub fn demand(question: &Question) -> Demand {
    Demand {
        peak: question.peak,
        price_per_hour: question.price,
        currency: question.currency.clone(),
        spares: question.spares,
        ..Demand::default()
    }
}

/// The endpoint to sweep; the simulated engine is started on a free loopback port.
fn target(settings: &Settings) -> anyhow::Result<(TargetOptions, Option<ServerHandle>)> {
    match &settings.subject {
        Subject::Endpoint(options) => Ok((options.clone(), None)),
        Subject::Simulated { preset, speed } => {
            let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let handle = serve(
                &preset.spec,
                &ServeOptions {
                    listen,
                    speed: *speed,
                    api_key: None,
                },
            )
            .map_err(|error| anyhow::anyhow!("cannot start the simulated engine: {error}"))?;
            let options = TargetOptions {
                url: format!("http://{}", handle.addr()),
                ..TargetOptions::default()
            };
            Ok((options, Some(handle)))
        }
    }
}

/// The document before any rung. While the sweep goes on it says `interrupted`: if the process is killed, that
/// is what happened.
fn document(settings: &Settings, prepared: &Prepared) -> Run {
    let mut target = prepared.target.clone();
    if let Subject::Simulated { preset, speed } = &settings.subject {
        target
            .serving_config
            .insert("preset".to_owned(), preset.name.clone().into());
        target.serving_config.insert("speed".to_owned(), (*speed).into());
    }
    Run {
        schema: SCHEMA.to_owned(),
        status: Status::Interrupted,
        started_at: now(),
        ended_at: None,
        command: command_without_secrets(std::env::args()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        target,
        workload: settings.workload.clone(),
        workload_digest: settings.workload.digest(),
        seed: settings.seed,
        sla: settings.question.sla.clone(),
        peak: settings.question.peak,
        price_per_hour: settings.question.price,
        currency: settings.question.currency.clone(),
        client: Client {
            cores: std::thread::available_parallelism()
                .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1)),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            ceiling_tokens_per_s: None,
        },
        notes: settings.notes.iter().chain(&prepared.notes).cloned().collect(),
        rungs: Vec::new(),
        plan: plimsoll_run::answer::Plan::default(),
    }
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn print(run: &Run, format: SweepFormat) -> anyhow::Result<()> {
    match format {
        SweepFormat::Table => {
            let style = crate::report::style();
            println!(
                "{}\n{}",
                terminal::table(run, &style),
                terminal::answer(run, &style)
            );
        }
        SweepFormat::Json => print!("{}", run.to_json()),
        SweepFormat::Csv => print!("{}", plimsoll_report::csv(run)?),
        SweepFormat::Markdown => print!("{}", plimsoll_report::markdown(run)),
    }
    Ok(())
}
