//! `plimsoll sweep`: climbs the ladder over HTTP, and answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Context;
use jiff::Timestamp;
use plimsoll_load::{Asked, HttpRunner, Prepared, TargetOptions, check_descriptors, prepare_from};
use plimsoll_run::directory::RunDirectory;
use plimsoll_run::document::{Client, Run, SCHEMA, Status};
use plimsoll_run::runner::{Stop, Watch};
use plimsoll_sim::http::{ServeOptions, ServerHandle, serve};

use crate::arguments::{SweepArguments, SweepFormat};
use crate::climb::{Climb, Clock, End};
use crate::command::command_without_secrets;
use crate::console;
use crate::course::Course;
use crate::exit::{Exit, Failure, OrExit};
use crate::interrupt::{self, UnderLoad};
use crate::progress::Display;
use crate::question::Question;
use crate::settings::{Settings, Subject};
use crate::verify::Verify;

/// Sweeps and prints the answer.
pub fn run(arguments: SweepArguments) -> Result<Exit, Failure> {
    let mut settings = Settings::settle(arguments).or_exit(Exit::Usage)?;
    let descriptors = check_descriptors(settings.course.search.max);
    settings
        .notes
        .extend(descriptors.map_err(anyhow::Error::msg).or_exit(Exit::Usage)?);
    if !settings.prefix_shares.is_empty() {
        return crate::shares::run(settings);
    }
    let session = Session::begin(settings.quiet)?;
    // The engine lives as long as this handle.
    let (options, _engine) = start(&settings.subject)?;
    let prepared = session.prepare(
        &options,
        &settings.workload,
        settings.asked.clone(),
        settings.seed,
    )?;
    let run = document(&settings, &prepared);
    for note in &run.notes {
        session.display.say(&format!("  {note}"));
    }
    let directory = RunDirectory::create(&settings.out, &settings.label, Timestamp::now())
        .context("cannot make a run directory; name a folder that can be written with --out")?;
    session.climb(
        prepared,
        settings.course,
        &settings.question,
        run,
        &directory,
        settings.format,
        settings.verify,
    )
}

/// What every sweep over HTTP shares: progress, Ctrl-C, and how it comes to its end.
pub struct Session {
    /// Where progress goes.
    pub display: Display,
    watch: Arc<Watch>,
    under_load: UnderLoad,
    quiet: bool,
}

impl Session {
    /// Starts the display and listens to Ctrl-C.
    pub fn begin(quiet: bool) -> anyhow::Result<Session> {
        let watch = Arc::new(Watch::new());
        let under_load = UnderLoad::default();
        interrupt::listen(Arc::clone(&watch), Arc::clone(&under_load))?;
        let display = Display::start(Arc::clone(&watch), quiet);
        Ok(Session {
            display,
            watch,
            under_load,
            quiet,
        })
    }

    /// Checks the endpoint and calibrates the prompts.
    pub fn prepare(
        &self,
        options: &TargetOptions,
        workload: &plimsoll_run::workload::Workload,
        asked: Asked,
        seed: u64,
    ) -> Result<Prepared, Failure> {
        self.display.message("checking the endpoint");
        let prepared = prepare_from(options, workload, asked, seed).map_err(|error| Failure {
            exit: if error.is_usage() {
                Exit::Usage
            } else {
                Exit::Invalid
            },
            error: error.into(),
        })?;
        self.display.say(&format!("sweeping {}", prepared.target.url));
        Ok(prepared)
    }

    /// Measures as [`Session::measure`] does, and prints the answer.
    #[expect(clippy::too_many_arguments, reason = "all that a sweep is, once")]
    pub fn climb(
        self,
        prepared: Prepared,
        course: Course,
        question: &Question,
        run: Run,
        directory: &RunDirectory,
        format: SweepFormat,
        verify: bool,
    ) -> Result<Exit, Failure> {
        let (run, climbed) = self.measure(prepared, course, question, run, directory, verify)?;
        drop(self.display);
        let end = climbed?;
        crate::report::print(&run, format)?;
        if !self.quiet {
            console::say(&format!(
                "saved in {} (report.html opens in a browser)",
                directory.path().display()
            ));
        }
        if let End::WentAway(level) = end {
            return Err(went_away(level, directory));
        }
        Ok(Exit::of(&run))
    }

    /// Climbs from the rungs that `run` holds, stores each, replays arrivals at the safe rate where `verify` asks for it,
    /// and stores the report. How the climb ended is its own result: what was measured is there either way.
    pub fn measure(
        &self,
        prepared: Prepared,
        course: Course,
        question: &Question,
        mut run: Run,
        directory: &RunDirectory,
        verify: bool,
    ) -> Result<(Run, anyhow::Result<End>), Failure> {
        directory.save(&run)?;
        let began = Instant::now();
        let first_response = prepared.first_response;
        let mut runner = HttpRunner::new(prepared, run.workload.clone(), prompt_seed(&run))?;
        let climb = Climb {
            search: course.search,
            limits: course.limits.clone(),
            max_time: course.max_time,
            clock: Clock::Wall,
            question,
            first_response,
            watch: &self.watch,
            display: &self.display,
        };
        self.under_load.store(true, Ordering::SeqCst);
        let climbed = climb.go(&mut runner, &mut run, &mut |evidence, reduced, run| {
            let (order, level) = (reduced.report.order, reduced.report.concurrency);
            directory.save_rung(
                order,
                level,
                &evidence.requests,
                &reduced.itl_us,
                &reduced.timeline,
            )?;
            directory.save_server(order, level, &evidence.server_samples)?;
            Ok(directory.save(run)?)
        });
        let climbed = match climbed {
            Ok(End::Found) if verify => {
                let replay = Verify {
                    runner: &runner,
                    question,
                    limits: &course.limits,
                    directory,
                    left: course.max_time.map(|most| most.saturating_sub(began.elapsed())),
                    watch: &self.watch,
                    display: &self.display,
                };
                replay.go(&run).map(|verification| {
                    run.verification = Some(verification);
                    if self.watch.stop() == Stop::No {
                        End::Found
                    } else {
                        End::Interrupted
                    }
                })
            }
            climbed => climbed,
        };
        self.under_load.store(false, Ordering::SeqCst);
        run.ended_at = Some(now());
        run.status = match &climbed {
            Ok(End::Found) => Status::Complete,
            Ok(End::Interrupted) => Status::Interrupted,
            Ok(End::WentAway(_)) | Err(_) => Status::Failed,
        };
        run.plan.warnings.extend(runner.prompt_warnings());
        self.display.message("writing the report");
        directory.save(&run)?;
        directory.save_report(&crate::report::html(directory, &run)?)?;
        Ok((run, climbed))
    }
}

/// The endpoint left in the middle of a sweep.
pub fn went_away(level: u32, directory: &RunDirectory) -> Failure {
    anyhow::anyhow!(
        "the endpoint went away at level {level} and did not come back; start it again and go on with `plimsoll resume {}`",
        directory.path().display()
    )
    .into()
}

/// The seed of a run's prompts: a rung taken up again must not meet its own prompts in a warm cache.
pub fn prompt_seed(run: &Run) -> u64 {
    run.seed
        .wrapping_add(u64::from(run.resumed).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The endpoint to sweep; the simulated engine is started on a free loopback port.
pub fn start(subject: &Subject) -> anyhow::Result<(TargetOptions, Option<ServerHandle>)> {
    match subject {
        Subject::Endpoint(options) => Ok((TargetOptions::clone(options), None)),
        Subject::Simulated { preset, speed } => {
            let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let options = ServeOptions {
                listen,
                speed: *speed,
                api_key: None,
            };
            let handle = serve(&preset.spec, &options)
                .map_err(|error| anyhow::anyhow!("cannot start the simulated engine: {error}"))?;
            let options = TargetOptions {
                url: handle.url(),
                ..TargetOptions::default()
            };
            Ok((options, Some(handle)))
        }
    }
}

/// The document before any rung. While the sweep goes on it says `interrupted`: if the process is killed, that
/// is what happened.
pub fn document(settings: &Settings, prepared: &Prepared) -> Run {
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
        demand: Some(settings.question.terms.clone()),
        resumed: 0,
        search: Some(settings.course.terms()),
        client: client(),
        notes: settings.notes.iter().chain(&prepared.notes).cloned().collect(),
        rungs: Vec::new(),
        plan: plimsoll_run::answer::Plan::default(),
        verification: None,
        table: None,
    }
}

/// This machine as a client.
pub fn client() -> Client {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Client {
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        ceiling_tokens_per_s: None,
    }
}

/// The time as it labels a run.
pub fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
