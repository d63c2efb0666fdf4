//! The threads of a rung: load threads that share nothing, and the reader of what they bring in.

use std::rc::Rc;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use plimsoll_run::evidence::{ChunkLog, ClientHealth, Evidence, StopReason, Window};
use plimsoll_run::request::RequestRecord;
use plimsoll_run::rung::ServerSide;
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::board::Board;
use crate::cpu::ThreadId;
use crate::flight::Buffers;
use crate::reader::{Landed, Notice, read_all};
use crate::receipt::ReadTimes;
use crate::slot::{Crew, Orders};

/// A rung in progress.
pub(super) struct Held {
    pub board: Arc<Board>,
    pub origin: Instant,
    pub notices: mpsc::Receiver<Notice>,
    /// Load threads that have not yet said who they are are missing.
    ids: Vec<Arc<OnceLock<ThreadId>>>,
    stop: watch::Sender<bool>,
    load: Vec<JoinHandle<ReadTimes>>,
    reader: JoinHandle<(Vec<RequestRecord>, ChunkLog)>,
}

/// How a rung ended, as its driver saw it.
pub(super) struct Driven {
    pub window: Option<Window>,
    pub stop: StopReason,
    pub busiest: Option<f64>,
}

/// Starts the reader and `threads` load threads, whose runtimes exist before the rung's time begins to run. `work` gives each
/// thread, by its number, what spawns its tasks.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn crew<W>(
    threads: usize,
    board: Board,
    orders: Orders,
    mut work: impl FnMut(usize) -> W,
) -> std::io::Result<Held>
where
    W: FnOnce(Rc<Crew>, &LocalSet) + Send + 'static,
{
    let (board, orders) = (Arc::new(board), Arc::new(orders));
    let (stop, stopped) = watch::channel(false);
    let (landed, landing) = mpsc::channel::<Landed>();
    let (noticed, notices) = mpsc::channel();
    let (give_back, back): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel::<Buffers>()).unzip();
    let reader = {
        let board = Arc::clone(&board);
        let redactor = orders.line.redactor.clone();
        Builder::new()
            .name("plimsoll-reader".to_owned())
            .spawn(move || read_all(&landing, &give_back, &noticed, &board, &redactor))?
    };
    let runtimes = (0..threads)
        .map(|_| tokio::runtime::Builder::new_current_thread().enable_all().build())
        .collect::<std::io::Result<Vec<_>>>()?;
    let origin = Instant::now();
    let mut load = Vec::with_capacity(threads + 1);
    let mut ids = Vec::with_capacity(threads);
    for (thread, (runtime, buffers)) in runtimes.into_iter().zip(back).enumerate() {
        let (orders, board, landed) = (Arc::clone(&orders), Arc::clone(&board), landed.clone());
        let (mut stopped, work) = (stopped.clone(), work(thread));
        let id = Arc::new(OnceLock::new());
        ids.push(Arc::clone(&id));
        let body = move || {
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
            work(crew, &local);
            // Dropping the set drops what is in flight: see `Airborne`. An error means the driver is gone, which is as
            // good a reason to stop.
            runtime.block_on(local.run_until(async {
                let _ = stopped.wait_for(|stop| *stop).await;
            }));
            drop(local);
            ReadTimes::take()
        };
        load.push(
            Builder::new()
                .name(format!("plimsoll-load-{thread}"))
                .spawn(body)?,
        );
    }
    Ok(Held {
        board,
        origin,
        notices,
        ids,
        stop,
        load,
        reader,
    })
}

impl Held {
    /// The load threads, once all of them have said who they are.
    pub(super) fn thread_ids(&self) -> Option<Vec<ThreadId>> {
        self.ids.iter().map(|id| id.get().copied()).collect()
    }

    /// One more thread, which reads nothing from the network, to be waited for at the end.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn add(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            body();
            ReadTimes::default()
        })?;
        self.load.push(thread);
        Ok(())
    }

    /// Stops the load, waits for all threads and hands over what they saw.
    ///
    /// # Errors
    /// A sentence, when a thread broke down.
    pub(super) fn gather(self, level: u32, driven: Driven) -> Result<Evidence, String> {
        // Nobody may be there to hear it when every load thread has ended by itself.
        let _ = self.stop.send(true);
        self.board.stop_issuing();
        let mut reads = ReadTimes::default();
        for thread in self.load {
            let of_thread = thread
                .join()
                .map_err(|_| "a load thread broke down: this is a defect of plimsoll".to_owned())?;
            reads.merge(of_thread);
        }
        let (requests, chunks) = self
            .reader
            .join()
            .map_err(|_| "the reader broke down: this is a defect of plimsoll".to_owned())?;
        Ok(Evidence {
            level,
            window: driven.window,
            took: self.origin.elapsed(),
            stop: driven.stop,
            requests,
            chunks,
            client: ClientHealth {
                stamps: reads.source(),
                busiest_thread_cpu: driven.busiest,
                read_delay: reads.delay(),
            },
            server: ServerSide::default(),
            server_samples: Vec::new(),
        })
    }
}
