//! The open loop: requests leave at scheduled times, whatever became of those before them.
//!
//! One thread keeps the schedule and wakes the load threads; they share nothing but bounds on what is outstanding. No
//! request waits for another, unless the user caps what may be in flight; then the wait shows as dispatch delay.

use std::rc::Rc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use plimsoll_run::evidence::{ClientHealth, Evidence, StopReason, Window};
use plimsoll_run::rung::ServerSide;
use plimsoll_run::runner::{Phase, Progress, RunnerError, Stop, Watch};
use tokio::sync::{Semaphore, mpsc as wake, watch};
use tokio::task::LocalSet;

use super::{Held, HttpRunner};
use crate::board::Board;
use crate::cpu::{Reading, ThreadId};
use crate::descriptors::{check_descriptors, most_connections};
use crate::flight::Buffers;
use crate::reader::{Landed, Notice, read_all};
use crate::receipt::ReadTimes;
use crate::slot::{Bounds, Crew, Due, Orders, send_all};

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
        let (stop, busiest) = attend(plan, &held, watch);
        let _ = held.stop.send(true);
        held.board.stop_issuing();
        let mut reads = ReadTimes::default();
        for thread in held.load {
            let of_thread = thread
                .join()
                .map_err(|_| fail("a load thread broke down: this is a defect of plimsoll".to_owned()))?;
            reads.merge(of_thread);
        }
        let (requests, chunks) = held
            .reader
            .join()
            .map_err(|_| fail("the reader broke down: this is a defect of plimsoll".to_owned()))?;
        Ok(Evidence {
            level: 0,
            window: Some(Window {
                opens: plan.opens,
                closes: plan.closes,
            }),
            took: held.origin.elapsed(),
            stop,
            requests,
            chunks,
            client: ClientHealth {
                stamps: reads.source(),
                busiest_thread_cpu: busiest,
                read_delay: reads.delay(),
            },
            server: ServerSide::default(),
            server_samples: Vec::new(),
        })
    }

    fn start_open(&self, plan: &OpenLoop, most_connections: u32) -> std::io::Result<Held> {
        let threads = self.threads.min(plan.arrivals.len()).max(1);
        let slots = u32::try_from(plan.arrivals.len()).unwrap_or(u32::MAX);
        let board = Arc::new(Board::new(slots, threads));
        let orders = Arc::new(Orders {
            rung: plan.order,
            prompts: self.prompts.rung(plan.order),
            ..self.orders.clone()
        });
        let bounds = Arc::new(Bounds {
            turns: plan
                .max_in_flight
                .map(|most| Semaphore::new(most.max(1) as usize)),
            most_connections,
            connected: AtomicU32::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        let (landed, landing) = mpsc::channel::<Landed>();
        let (noticed, notices) = mpsc::channel();
        let (give_back, back): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel::<Buffers>()).unzip();
        let (waking, woken): (Vec<_>, Vec<_>) =
            (0..threads).map(|_| wake::unbounded_channel::<Due>()).unzip();
        let reader = {
            let board = Arc::clone(&board);
            let redactor = orders.line.redactor.clone();
            std::thread::Builder::new()
                .name("plimsoll-reader".to_owned())
                .spawn(move || read_all(&landing, &give_back, &noticed, &board, &redactor))?
        };
        let runtimes = (0..threads)
            .map(|_| tokio::runtime::Builder::new_current_thread().enable_all().build())
            .collect::<std::io::Result<Vec<_>>>()?;
        let origin = Instant::now();
        let mut load = Vec::with_capacity(threads + 1);
        let mut thread_ids = Vec::with_capacity(threads);
        for (thread, ((runtime, buffers), due)) in runtimes.into_iter().zip(back).zip(woken).enumerate() {
            let (orders, board, landed) = (Arc::clone(&orders), Arc::clone(&board), landed.clone());
            let (mut stopped, bounds) = (stopped.clone(), Arc::clone(&bounds));
            let id = Arc::new(OnceLock::new());
            thread_ids.push(Arc::clone(&id));
            load.push(
                std::thread::Builder::new()
                    .name(format!("plimsoll-load-{thread}"))
                    .spawn(move || {
                        if let Some(own) = ThreadId::own() {
                            let _ = id.set(own);
                        }
                        let crew = Rc::new(Crew {
                            orders,
                            board,
                            origin,
                            thread,
                            landed,
                            buffers,
                        });
                        let local = LocalSet::new();
                        local.spawn_local(send_all(crew, bounds, threads, due));
                        // As in a closed loop, dropping the set lands what is in flight as failures.
                        runtime.block_on(local.run_until(async {
                            let _ = stopped.wait_for(|stop| *stop).await;
                        }));
                        drop(local);
                        ReadTimes::take()
                    })?,
            );
        }
        drop(landed);
        let (arrivals, schedule_board) = (plan.arrivals.clone(), Arc::clone(&board));
        load.push(
            std::thread::Builder::new()
                .name("plimsoll-schedule".to_owned())
                .spawn(move || {
                    keep_schedule(&arrivals, origin, &schedule_board, &waking);
                    // It reads nothing.
                    ReadTimes::default()
                })?,
        );
        Ok(Held {
            board,
            origin,
            stop,
            load,
            reader,
            notices,
            thread_ids,
        })
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
fn attend(plan: &OpenLoop, held: &Held, watch: &Watch) -> (StopReason, Option<f64>) {
    let mut progress = Progress {
        expected: plan.closes,
        ..Progress::default()
    };
    let began = Reading::take(&held.thread_ids());
    let mut began = (!held.thread_ids().is_empty()).then_some(began);
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
        if began.is_none() && held.thread_ids().len() == held.thread_ids.len() {
            began = Some(Reading::take(&held.thread_ids()));
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
    let busiest = began.and_then(|began| began.busiest_until(&Reading::take(&held.thread_ids())));
    (stop, busiest)
}
