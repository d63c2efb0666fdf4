//! The open loop: requests leave at scheduled times, whatever became of those before them.
//!
//! One thread keeps the schedule and wakes the load threads; they share nothing but bounds on what is outstanding. No
//! request waits for another, unless the user caps what may be in flight; then the wait shows as dispatch delay.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use plimsoll_run::evidence::{Evidence, StopReason, Window};
use plimsoll_run::runner::{Phase, Progress, RunnerError, Stop, Watch};
use tokio::sync::{Semaphore, mpsc as wake};
use tokio::task::LocalSet;

use super::crew::{Driven, Held, crew};
use super::{HttpRunner, reading};
use crate::board::Board;
use crate::descriptors::{check_descriptors, most_connections};
use crate::reader::Notice;
use crate::slot::{Bounds, Crew, Due, send_all};

/// How often the driver looks.
const TICK: Duration = Duration::from_millis(50);
/// The longest sleep of the schedule before it looks whether to stop.
const NAP: Duration = Duration::from_millis(100);
/// More failures than one in so many, over at least [`ENDED_LEAST`], end it.
const FAILED_ONE_IN: u64 = 10;
const ENDED_LEAST: u64 = 20;

/// Arrivals to send, and what bounds them.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenLoop {
    /// When requests are due, since the start, ascending.
    pub arrivals: Vec<Duration>,
    /// The window of the evidence opens then; earlier arrivals are the warm-up.
    pub opens: Duration,
    /// It closes then.
    pub closes: Duration,
    /// At most so many in flight; `None` sends everything when it is due.
    pub max_in_flight: Option<u32>,
    /// The longest wait for what is outstanding after the last arrival; what is left then has failed.
    pub drain: Duration,
    /// Prompts are seeded with it: no rung of the run may have the same.
    pub order: u32,
}

impl HttpRunner {
    /// Sends the arrivals and takes in what comes. `scheduled` of each request is when it was due, `sent` when its first
    /// byte left; [`Evidence::level`] is 0, and every arrival is in the evidence, sent or not.
    ///
    /// # Errors
    /// When the load threads cannot start, or the system allows no connections.
    pub fn replay(&self, plan: &OpenLoop, watch: &Watch) -> Result<Evidence, RunnerError> {
        watch.begin_rung();
        let fail = |problem: String| RunnerError { level: 0, problem };
        let wanted = u32::try_from(plan.arrivals.len())
            .unwrap_or(u32::MAX)
            .min(plan.max_in_flight.unwrap_or(u32::MAX))
            .max(1);
        let most = most_connections(wanted);
        if most == 0 {
            // Names the limit and the remedy.
            check_descriptors(1).map_err(fail)?;
        }
        let held = self.start_open(plan, most).map_err(|error| {
            fail(format!(
                "the load threads cannot start: {error}; free memory or lower the rate"
            ))
        })?;
        // Before anything is dropped: every arrival counts.
        held.board.keep_before(Duration::MAX);
        let driven = attend(plan, &held, watch);
        held.gather(0, driven).map_err(fail)
    }

    fn start_open(&self, plan: &OpenLoop, most_connections: u32) -> std::io::Result<Held> {
        let threads = self.threads.min(plan.arrivals.len()).max(1);
        let slots = u32::try_from(plan.arrivals.len()).unwrap_or(u32::MAX);
        let bounds = Arc::new(Bounds {
            turns: plan
                .max_in_flight
                .map(|most| Semaphore::new(most.max(1) as usize)),
            most_connections,
            connected: AtomicU32::new(0),
        });
        let mut waking = Vec::with_capacity(threads);
        let mut held = crew(
            threads,
            Board::new(slots, threads),
            self.orders_for(plan.order),
            |_| {
                let (wake, due) = wake::unbounded_channel::<Due>();
                waking.push(wake);
                let bounds = Arc::clone(&bounds);
                move |crew: Rc<Crew>, local: &LocalSet| {
                    local.spawn_local(send_all(crew, bounds, threads, due));
                }
            },
        )?;
        let (arrivals, origin, board) = (plan.arrivals.clone(), held.origin, Arc::clone(&held.board));
        held.add("plimsoll-schedule", move || {
            keep_schedule(&arrivals, origin, &board, &waking);
        })?;
        Ok(held)
    }
}

/// Wakes a load thread for each arrival in turn. A thread that sleeps is woken within some 0.1 ms, where a timer of the
/// load threads' runtime would be a millisecond coarse.
fn keep_schedule(
    arrivals: &[Duration],
    origin: Instant,
    board: &Board,
    waking: &[wake::UnboundedSender<Due>],
) {
    for (number, scheduled) in (0_u32..).zip(arrivals) {
        loop {
            if !board.issuing() {
                return;
            }
            let left = scheduled.saturating_sub(origin.elapsed());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(NAP));
        }
        let thread = &waking[number as usize % waking.len()];
        // A load thread is gone only when the replay is over.
        let _ = thread.send(Due {
            number,
            scheduled: *scheduled,
        });
    }
}

/// Watches until all arrivals have been answered, the drain is over, too many fail, or the user stops it.
fn attend(plan: &OpenLoop, held: &Held, watch: &Watch) -> Driven {
    let mut progress = Progress {
        expected: plan.closes,
        ..Progress::default()
    };
    let mut began = reading(held);
    let (mut stop, mut last_sent_by) = (StopReason::Asked, plan.closes);
    loop {
        while let Ok(Notice(record)) = held.notices.try_recv() {
            progress.ended += 1;
            progress.failed += u64::from(!record.ok());
        }
        let now = held.origin.elapsed();
        progress.in_flight = held.board.in_flight(None).all;
        progress.elapsed = now;
        let phase = if now < plan.opens {
            Phase::WarmUp
        } else if now < last_sent_by {
            Phase::Window
        } else {
            Phase::Drain
        };
        watch.show(phase, &progress);
        if began.is_none() {
            began = reading(held);
        }
        if stop == StopReason::Asked {
            let ill = progress.ended >= ENDED_LEAST && progress.failed * FAILED_ONE_IN > progress.ended;
            if watch.stop() != Stop::No {
                stop = StopReason::Interrupted;
            } else if ill {
                stop = StopReason::Errors;
            }
            if stop != StopReason::Asked {
                held.board.stop_issuing();
                last_sent_by = now;
            }
        }
        let idle = progress.in_flight == 0 && now >= last_sent_by;
        if idle || now >= last_sent_by + plan.drain || watch.stop() == Stop::Now {
            break;
        }
        std::thread::sleep(TICK);
    }
    Driven {
        window: Some(Window {
            opens: plan.opens,
            closes: plan.closes,
        }),
        stop,
        busiest: began.and_then(|began| began.busiest_until(&reading(held)?)),
    }
}
