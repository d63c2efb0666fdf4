//! The runner: holds a level against an endpoint and says what happened.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_plan::conduct::{Conduct, Step};
use plimsoll_prompts::Prompts;
use plimsoll_run::evidence::{Evidence, StopReason, Window};
use plimsoll_run::runner::{Phase, Progress, Rung, Runner, RunnerError, Stop, Watch};
use plimsoll_run::workload::Workload;
use tokio::task::LocalSet;

use self::crew::{Driven, Held, crew};
use crate::ask;
use crate::board::Board;
use crate::cpu::Reading;
use crate::descriptors::check_descriptors;
use crate::error::PrepareError;
use crate::prepare::Prepared;
use crate::reader::Notice;
use crate::server_side::{MetricsSource, Sampler};
use crate::slot::{self, Crew, Orders};

/// How often the driver looks.
const TICK: Duration = Duration::from_millis(20);
/// How often, and how long apart, an endpoint is asked whether it is still there.
const REACH_ATTEMPTS: u32 = 4;
const REACH_PAUSE: Duration = Duration::from_secs(1);
/// The longest drain after the user has asked to stop.
const LONGEST_INTERRUPTED_DRAIN: Duration = Duration::from_secs(10);

/// Drives real traffic to a real endpoint, in wall time.
#[derive(Debug)]
pub struct HttpRunner {
    prompts: Arc<Prompts>,
    orders: Orders,
    threads: usize,
    metrics: Option<MetricsSource>,
}

impl HttpRunner {
    /// A runner for an endpoint that [`crate::prepare`] found ready. `seed` is the run's: with the rung's order it
    /// makes every prompt of the sweep a new one.
    ///
    /// # Errors
    /// None at present; the load threads are started by each rung.
    pub fn new(prepared: Prepared, workload: Workload, seed: u64) -> Result<Self, PrepareError> {
        let prompts = Arc::new(Prompts::new(&workload, prepared.rows, prepared.calibration, seed));
        Ok(HttpRunner {
            orders: Orders {
                template: prepared.shape.template(),
                line: prepared.line,
                prompts: prompts.rung(0),
                seed,
                rung: 0,
            },
            prompts,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            metrics: prepared.metrics,
        })
    }
}

impl HttpRunner {
    /// What to know of the prompts that were sent up to now, one sentence each: a dataset that was used up, and the like.
    #[must_use]
    pub fn prompt_warnings(&self) -> Vec<String> {
        self.prompts.warnings()
    }
}

impl Runner for HttpRunner {
    fn measure(&mut self, rung: &Rung, watch: &Watch) -> Result<Evidence, RunnerError> {
        watch.begin_rung();
        let fail = |problem: String| RunnerError {
            level: rung.level,
            problem,
        };
        if rung.level == 0 {
            return Err(fail("a level is at least 1 request in flight".to_owned()));
        }
        check_descriptors(rung.level).map_err(fail)?;
        let mut conduct = Conduct::new(rung);
        let held = self.start(rung, &conduct).map_err(|error| {
            fail(format!(
                "the load threads cannot start: {error}; free memory or lower the level"
            ))
        })?;
        let sampler = self
            .metrics
            .as_ref()
            .and_then(|source| Sampler::start(source, held.origin));
        let driven = drive(rung, &mut conduct, &held, watch, sampler.as_ref());
        let readings = sampler.map(Sampler::finish).unwrap_or_default();
        let mut evidence = held.gather(rung.level, driven).map_err(fail)?;
        evidence.server = evidence
            .window
            .map(|window| readings.side(window))
            .unwrap_or_default();
        evidence.server_samples = readings.rows(evidence.window);
        Ok(evidence)
    }

    fn reach(&mut self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        LocalSet::new().block_on(&runtime, async {
            let mut outcome = Ok(());
            for attempt in 0..REACH_ATTEMPTS {
                if attempt > 0 {
                    tokio::time::sleep(REACH_PAUSE).await;
                }
                outcome = ask::greet(&self.orders.line).await;
                if outcome.is_ok() {
                    break;
                }
            }
            outcome
        })
    }
}

impl HttpRunner {
    fn start(&self, rung: &Rung, conduct: &Conduct) -> std::io::Result<Held> {
        let threads = self.threads.min(rung.level as usize).max(1);
        crew(
            threads,
            Board::new(rung.level, threads),
            self.orders_for(rung.order),
            |thread| {
                let slots: Vec<(u32, Duration)> = (0..rung.level)
                    .skip(thread)
                    .step_by(threads)
                    .map(|slot| (slot, conduct.start_of(slot)))
                    .collect();
                move |crew: Rc<Crew>, local: &LocalSet| {
                    for (slot, start) in slots {
                        local.spawn_local(slot::run(Rc::clone(&crew), slot, start));
                    }
                }
            },
        )
    }

    fn orders_for(&self, order: u32) -> Orders {
        Orders {
            rung: order,
            prompts: self.prompts.rung(order),
            ..self.orders.clone()
        }
    }
}

/// What the load threads have used of their cores; `None` until all have said who they are.
fn reading(held: &Held) -> Option<Reading> {
    held.thread_ids().map(|threads| Reading::take(&threads))
}

/// Ticks the conduct until the rung is over or the user stops it.
fn drive(
    rung: &Rung,
    conduct: &mut Conduct,
    held: &Held,
    watch: &Watch,
    sampler: Option<&Sampler>,
) -> Driven {
    let mut progress = Progress::default();
    let mut opened: Option<Reading> = None;
    let mut closed: Option<Reading> = None;
    let busiest = |opened: &Option<Reading>, closed: Option<Reading>| {
        let opened = opened.as_ref()?;
        opened.busiest_until(&closed.or_else(|| reading(held))?)
    };
    let mut next = held.origin + TICK;
    let mut opening = sampler;
    loop {
        while let Ok(Notice(record)) = held.notices.try_recv() {
            progress.ended += 1;
            progress.failed += u64::from(!record.ok());
            conduct.on_end(record.sent, record.ended, record.ok());
            conduct.on_outcome(&record);
        }
        if watch.stop() != Stop::No {
            return interrupt(rung, conduct, held, watch, progress, busiest(&opened, closed));
        }
        let now = held.origin.elapsed();
        let window = conduct.window();
        let in_flight = held.board.in_flight(window.map(|w| (w.opens, w.closes)));
        if let Some(window) = window.filter(|_| conduct.wants_in_flight()) {
            conduct.on_in_flight(
                now,
                held.board.waiting().filter(|(sent, _)| window.contains(*sent)),
            );
        }
        let step = conduct.tick(now, held.board.chunks(), in_flight.of_window);
        let window = conduct.window();
        if window.is_some_and(|window| window.opens <= now)
            && let Some(sampler) = opening.take()
        {
            sampler.now();
        }
        if opened.is_none() && window.is_some_and(|window| window.opens <= now) {
            // A thread that has not yet said who it is will have at the next tick.
            opened = reading(held);
        }
        if closed.is_none() && window.is_some_and(|window| window.closes <= now) {
            if let Some(sampler) = sampler {
                sampler.now();
            }
            closed = reading(held);
        }
        progress.in_flight = in_flight.all;
        progress.elapsed = now;
        progress.expected = conduct.expected();
        match step {
            Step::Hold(phase) => watch.show(phase, &progress),
            Step::Finish => {
                let window = window.map(|window| Window {
                    opens: window.opens,
                    closes: window.closes.min(now),
                });
                // What is unfinished by now will never end, unless it was we who lost patience: after too many errors a
                // request in flight is no further failure.
                if let Some(window) = window.filter(|_| conduct.stopped() != StopReason::Errors) {
                    held.board.keep_before(window.closes);
                }
                return Driven {
                    window,
                    stop: conduct.stopped(),
                    busiest: busiest(&opened, closed),
                };
            }
        }
        next = (next + TICK).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Sends nothing more and waits for what is in flight, for a bounded time.
fn interrupt(
    rung: &Rung,
    conduct: &Conduct,
    held: &Held,
    watch: &Watch,
    mut progress: Progress,
    busiest: Option<f64>,
) -> Driven {
    held.board.stop_issuing();
    let asked = held.origin.elapsed();
    let until = asked + rung.limits.drain.min(LONGEST_INTERRUPTED_DRAIN);
    loop {
        let now = held.origin.elapsed();
        progress.in_flight = held.board.in_flight(None).all;
        progress.elapsed = now;
        progress.expected = until;
        watch.show(Phase::Drain, &progress);
        if progress.in_flight == 0 || now >= until || watch.stop() == Stop::Now {
            break;
        }
        std::thread::sleep(TICK);
    }
    Driven {
        window: conduct.window().map(|window| Window {
            opens: window.opens,
            closes: window.closes.min(asked),
        }),
        stop: StopReason::Interrupted,
        busiest,
    }
}

mod crew;
mod open_loop;

pub use open_loop::OpenLoop;

#[cfg(test)]
mod cases;
