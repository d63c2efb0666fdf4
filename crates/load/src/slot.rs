//! A slot: sends its next request the moment its last one ends.

mod arrival;

pub(crate) use arrival::{Bounds, Due, send_all};

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use bytes::Bytes;
use plimsoll_prompts::{Outline, RungPrompts, SlotPrompts, Which};
use plimsoll_run::request::{FailureClass, RequestRecord};

use crate::backoff::{Backoff, retry_after};
use crate::board::Board;
use crate::connect::Wire;
use crate::dialect::Template;
use crate::exchange::exchange;
use crate::flight::{Buffers, Ending, Flight, Tail};
use crate::line::Line;
use crate::reader::Landed;

/// What all requests of a rung have in common.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    pub line: Line,
    pub template: Template,
    pub prompts: Arc<RungPrompts>,
    pub seed: u64,
    pub rung: u32,
}

/// What the slots of one load thread share.
pub(crate) struct Crew {
    pub orders: Arc<Orders>,
    pub board: Arc<Board>,
    pub origin: Instant,
    pub thread: usize,
    pub landed: Sender<Landed>,
    pub buffers: Receiver<Buffers>,
}

/// A request ready to be sent.
struct Ready {
    body: Bytes,
    input_tokens: u32,
    output_tokens: u32,
}

impl Ready {
    fn nothing() -> Self {
        Ready {
            body: Bytes::new(),
            input_tokens: 0,
            output_tokens: 0,
        }
    }
}

impl Crew {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A number that no other prompt of the run has.
    fn id(&self, slot: u32, nth: u64) -> u64 {
        Which {
            seed: self.orders.seed,
            rung: self.orders.rung,
            slot,
            nth,
        }
        .hash()
    }

    /// A request by itself.
    fn draw(&self, nth: u64) -> Ready {
        self.write(self.orders.prompts.alone(self.id(0, nth)))
    }

    fn write(&self, outline: Outline) -> Ready {
        let orders = &self.orders;
        let drawn = outline.drawn(orders.prompts.calibration());
        Ready {
            body: orders.template.body(&drawn.turns, drawn.output_tokens),
            input_tokens: drawn.input_tokens,
            output_tokens: drawn.output_tokens,
        }
    }
}

/// A request in flight that cannot get lost: dropped unfinished, it is a failure or forgotten as the board says.
struct Airborne<'a> {
    crew: &'a Crew,
    flight: Option<Flight>,
    slot: u32,
}

impl Airborne<'_> {
    fn land(&mut self, ending: Ending) {
        let Some(flight) = self.flight.take() else {
            return;
        };
        self.crew.board.landed(self.slot);
        // The reader outlives the load threads.
        let _ = self.crew.landed.send(Landed {
            flight,
            ending,
            thread: self.crew.thread,
        });
    }
}

impl Drop for Airborne<'_> {
    fn drop(&mut self) {
        let crew = self.crew;
        match &mut self.flight {
            Some(flight) if crew.board.kept(flight.record.sent) => {
                flight.record.ended = crew.now();
                self.land(Ending::Failed(
                    FailureClass::Deadline,
                    "still running when the rung ended".to_owned(),
                ));
            }
            Some(_) => crew.board.landed(self.slot),
            None => {}
        }
    }
}

/// Runs a slot from `start` after the rung's start until the board says stop.
pub(crate) async fn run(crew: Rc<Crew>, slot: u32, start: Duration) {
    tokio::time::sleep_until((crew.origin + start).into()).await;
    let mut kept = Kept::default();
    let mut backoff = Backoff::default();
    let mut nth = 0;
    let mut id = || {
        nth += 1;
        crew.id(slot, nth)
    };
    let mut prompts = SlotPrompts::new(&crew.orders.prompts);
    prompts.look_ahead(start, &mut id);
    let mut scheduled = start;
    while crew.board.issuing() {
        let ready = crew.write(prompts.next(crew.now(), &mut id));
        let now = crew.now();
        let mut record = RequestRecord::begun(0, slot, scheduled, now);
        record.input_asked = ready.input_tokens;
        record.output_asked = ready.output_tokens;
        let buffers = crew.buffers.try_recv().unwrap_or_default();
        crew.board.took_off(slot, now);
        let mut airborne = Airborne {
            crew: &crew,
            flight: Some(Flight::new(
                record,
                buffers,
                crew.origin,
                &crew.orders.line.speaker,
            )),
            slot,
        };
        let Some(flight) = &mut airborne.flight else { break };
        let ending = fly(&crew, slot, &mut kept, ready.body, flight, &mut || {
            prompts.look_ahead(crew.now(), &mut id);
        })
        .await;
        flight.record.ended = crew.now();
        let took = flight.record.ended.saturating_sub(flight.record.sent);
        let well = well(flight, &ending);
        let wait = wait(&mut backoff, flight, well, took);
        prompts.ended(flight.record.ended, well);
        airborne.land(ending);
        drop(airborne);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        scheduled = crew.now();
    }
}

/// Whether a request looks well as far as its bytes tell.
fn well(flight: &Flight, ending: &Ending) -> bool {
    let status = flight.record.status.unwrap_or(0);
    // An error inside a 200 stream has no finish reason either. A reply that is not a stream says by its status.
    let unfinished = flight.unfinished();
    // What breaks after the last word takes nothing from a reply, as in its verdict.
    let broken = matches!(ending, Ending::Failed(..)) && flight.tail < Tail::Counted;
    (200..300).contains(&status) && !unfinished && !broken
}

/// How long to wait before the next request: nothing after one that looks well.
fn wait(backoff: &mut Backoff, flight: &Flight, well: bool, took: Duration) -> Duration {
    if well {
        backoff.reset();
        return Duration::ZERO;
    }
    let asked = flight
        .head
        .as_ref()
        .filter(|_| matches!(flight.record.status, Some(429 | 503)))
        .and_then(|head| retry_after(&head.headers));
    backoff.after(took, asked)
}

/// The slot's connection between requests.
#[derive(Default)]
struct Kept {
    wire: Option<Wire>,
    /// Connections in a row that died idle after a single reply.
    died_after_one: u32,
}

impl Kept {
    /// A connection that can take a request; `None` when there is none and one must be opened.
    async fn take(&mut self) -> Option<Wire> {
        let mut wire = self.wire.take()?;
        if wire.ready().await {
            return Some(wire);
        }
        self.died(&wire);
        None
    }

    fn died(&mut self, wire: &Wire) {
        self.died_after_one = if wire.replies == 1 {
            self.died_after_one + 1
        } else {
            0
        };
    }

    /// Keeps a connection whose reply was taken in whole, unless the server has a way of closing it unannounced after
    /// every reply: then the next request would only run into a closing door.
    fn keep(&mut self, mut wire: Wire) {
        wire.replies += 1;
        if wire.replies > 1 {
            self.died_after_one = 0;
        }
        if self.died_after_one < 2 {
            self.wire = Some(wire);
        }
    }
}

/// Sends one request and takes in its reply, on the slot's connection or a fresh one.
async fn fly(
    crew: &Crew,
    slot: u32,
    kept: &mut Kept,
    body: Bytes,
    flight: &mut Flight,
    after_send: &mut dyn FnMut(),
) -> Ending {
    let line = &crew.orders.line;
    let mut numbered = false;
    loop {
        let idle = kept.take().await;
        let dialled = match idle {
            Some(wire) => Ok(wire),
            None => line.link.dial().await,
        };
        if !numbered {
            numbered = true;
            flight.record.index = crew.board.next_index();
        }
        let mut wire = match dialled {
            Ok(wire) => wire,
            Err(error) => return Ending::Failed(error.class, error.message),
        };
        let mut before = flight.events;
        let counter = crew.board.chunks_of(crew.thread);
        let mut count = |events: u64| {
            counter.add(events - before);
            if before == 0 {
                crew.board.began(slot);
            }
            before = events;
        };
        let ending = exchange(
            &mut wire,
            line.post(body.clone()),
            flight,
            line.patience,
            &mut *after_send,
            &mut count,
        )
        .await;
        let died_idle = matches!(
            ending,
            Ending::Failed(FailureClass::Headers | FailureClass::Write, _)
        ) && wire.replies > 0
            && !wire.clock.answered();
        if died_idle {
            kept.died(&wire);
            flight.record.retries += 1;
            continue;
        }
        if matches!(ending, Ending::Complete) {
            kept.keep(wire);
        }
        return ending;
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::target::Dialect;

    use super::*;
    use crate::dialect::Speaker;

    #[test]
    fn a_connection_cut_after_the_last_word_makes_no_slot_wait() {
        let wait_after = |tail: Tail| {
            let record = RequestRecord::begun(0, 0, Duration::ZERO, Duration::ZERO);
            let speaker = Speaker::new(Dialect::OpenaiChat, None);
            let mut flight = Flight::new(record, Buffers::default(), Instant::now(), &speaker);
            flight.record.status = Some(200);
            flight.tail = tail;
            let cut = Ending::Failed(FailureClass::Body, "cut".to_owned());
            let well = well(&flight, &cut);
            wait(&mut Backoff::default(), &flight, well, Duration::ZERO)
        };
        assert_eq!(wait_after(Tail::Counted), Duration::ZERO);
        assert_eq!(wait_after(Tail::Done), Duration::ZERO);
        assert!(wait_after(Tail::Finished) > Duration::ZERO);
        assert!(wait_after(Tail::Open) > Duration::ZERO);
    }
}
