//! Arrivals: each request leaves when it is due, whatever is outstanding. The load-thread side of an open loop.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use plimsoll_run::request::{FailureClass, RequestRecord};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Airborne, Crew, Kept, Ready, fly};
use crate::flight::{Ending, Flight};

/// A request that is due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// Which arrival it is, from 0.
    pub number: u32,
    /// When it was scheduled, since the start.
    pub scheduled: Duration,
}

/// What bounds the requests outstanding, shared by all load threads.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// At most so many in flight: those beyond wait their turn, in order of arrival.
    pub turns: Option<Semaphore>,
    /// Connections that the system allows.
    pub most_connections: u32,
    /// Requests that hold one now.
    pub connected: AtomicU32,
}

/// One request's use of a connection.
struct Connected<'a>(&'a Bounds);

impl<'a> Connected<'a> {
    /// `None` when the system allows no more.
    fn one_more(bounds: &'a Bounds) -> Option<Self> {
        let before = bounds.connected.fetch_add(1, Ordering::Relaxed);
        let held = Connected(bounds);
        (before < bounds.most_connections).then_some(held)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place to send from: at most one connection, kept between requests.
struct Place {
    number: u32,
    kept: Kept,
}

/// The places of one load thread that are free; those with a connection last, the one used last at the very end, so that
/// what is not needed falls idle.
#[derive(Default)]
struct Places {
    free: VecDeque<Place>,
    made: u32,
}

impl Places {
    fn take(&mut self) -> Place {
        self.free.pop_back().unwrap_or_else(|| {
            self.made += 1;
            Place {
                number: self.made - 1,
                kept: Kept::default(),
            }
        })
    }

    fn give_back(&mut self, place: Place) {
        if place.kept.wire.is_some() {
            self.free.push_back(place);
        } else {
            self.free.push_front(place);
        }
    }
}

/// Sends what is due on this thread, each request in a task of its own, until there is no more to come. The arrivals of
/// this thread are `thread`, `thread + threads`, and so on: the next prompt is drawn before it is due.
pub(crate) async fn send_all(
    crew: Rc<Crew>,
    bounds: Arc<Bounds>,
    threads: usize,
    mut due: UnboundedReceiver<Due>,
) {
    let places = Rc::new(RefCell::new(Places::default()));
    let mut next = crew.thread as u64;
    let mut ready = crew.draw(next);
    while let Some(arrival) = due.recv().await {
        next += threads as u64;
        let request = one(
            Rc::clone(&crew),
            Arc::clone(&bounds),
            Rc::clone(&places),
            arrival,
            std::mem::replace(&mut ready, Ready::nothing()),
        );
        tokio::task::spawn_local(request);
        // The task just spawned goes first: drawing a prompt can wait.
        tokio::task::yield_now().await;
        ready = crew.draw(next);
    }
}

async fn one(crew: Rc<Crew>, bounds: Arc<Bounds>, places: Rc<RefCell<Places>>, arrival: Due, ready: Ready) {
    let mut record = RequestRecord::begun(u64::from(arrival.number), 0, arrival.scheduled, crew.now());
    record.input_asked = ready.input_tokens;
    record.output_asked = ready.output_tokens;
    let buffers = crew.buffers.try_recv().unwrap_or_default();
    crew.board.took_off(arrival.number, record.sent);
    let mut airborne = Airborne {
        crew: &crew,
        flight: Some(Flight::new(
            record,
            buffers,
            crew.origin,
            &crew.orders.line.speaker,
        )),
        slot: arrival.number,
    };
    let turn = match &bounds.turns {
        // It is never closed: an error cannot come.
        Some(turns) => turns.acquire().await.ok(),
        None => None,
    };
    let Some(flight) = &mut airborne.flight else {
        return;
    };
    flight.record.sent = crew.now();
    let Some(connected) = Connected::one_more(&bounds) else {
        flight.record.ended = flight.record.sent;
        let message = format!(
            "not sent: {} requests were outstanding and the limit of open files allows no further connection; raise it \
             (`ulimit -n`), or ask for a lower rate",
            bounds.most_connections
        );
        airborne.land(Ending::Failed(FailureClass::Connect, message));
        return;
    };
    let mut place = places.borrow_mut().take();
    flight.record.slot = place.number;
    let ending = fly(
        &crew,
        arrival.number,
        &mut place.kept,
        ready.body,
        flight,
        &mut || {},
    )
    .await;
    flight.record.index = u64::from(arrival.number);
    flight.record.ended = crew.now();
    places.borrow_mut().give_back(place);
    drop(connected);
    drop(turn);
    airborne.land(ending);
}
