//! What the driver of a rung and its load threads tell one another while it runs. Written a few times a request,
//! read a few dozen times a second.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_plan::conduct::Waiting;

/// A counter on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

/// The shared state of one rung.
#[derive(Debug)]
pub(crate) struct Board {
    issuing: AtomicBool,
    next_index: AtomicU64,
    /// By slot: 0 when idle, else twice (1 + the microseconds after the rung's start at which its request was sent), and one
    /// more once something of its reply has come.
    slots: Vec<AtomicU64>,
    /// Chunks received, by load thread; the last counter is the reader's.
    chunks: Vec<Counter>,
    /// Requests sent before this, microseconds, and unfinished at the end are failures; later ones are forgotten.
    kept_before_us: AtomicU64,
}

/// How many requests are in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub all: u32,
    /// Of those, sent inside the window.
    pub of_window: u64,
}

impl Board {
    pub(crate) fn new(level: u32, threads: usize) -> Self {
        Board {
            issuing: AtomicBool::new(true),
            next_index: AtomicU64::new(0),
            slots: (0..level).map(|_| AtomicU64::new(0)).collect(),
            chunks: (0..=threads).map(|_| Counter::default()).collect(),
            kept_before_us: AtomicU64::new(0),
        }
    }

    /// Whether slots may send more.
    pub(crate) fn issuing(&self) -> bool {
        self.issuing.load(Ordering::Relaxed)
    }

    /// Slots send nothing more.
    pub(crate) fn stop_issuing(&self) {
        self.issuing.store(false, Ordering::Relaxed);
    }

    /// The number of the next request, in the order of sending.
    pub(crate) fn next_index(&self) -> u64 {
        self.next_index.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn took_off(&self, slot: u32, at: Duration) {
        if let Some(state) = self.slots.get(slot as usize) {
            state.store(2 * (1 + us(at)), Ordering::Relaxed);
        }
    }

    /// Something of the slot's reply has come.
    pub(crate) fn began(&self, slot: u32) {
        if let Some(state) = self.slots.get(slot as usize) {
            state.fetch_or(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn landed(&self, slot: u32) {
        if let Some(state) = self.slots.get(slot as usize) {
            state.store(0, Ordering::Relaxed);
        }
    }

    /// Counts what is in flight; `window` is open from its first time to its second.
    pub(crate) fn in_flight(&self, window: Option<(Duration, Duration)>) -> InFlight {
        let window = window.map(|(opens, closes)| us(opens)..us(closes));
        let mut count = InFlight { all: 0, of_window: 0 };
        for slot in &self.slots {
            if let Some(sent) = (slot.load(Ordering::Relaxed) / 2).checked_sub(1) {
                count.all += 1;
                if window.as_ref().is_some_and(|window| window.contains(&sent)) {
                    count.of_window += 1;
                }
            }
        }
        count
    }

    /// When each request in flight was sent, and whether anything of its reply has come.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Duration, Waiting)> {
        self.slots.iter().filter_map(|slot| {
            let state = slot.load(Ordering::Relaxed);
            let sent = Duration::from_micros((state / 2).checked_sub(1)?);
            Some((
                sent,
                if state % 2 == 1 {
                    Waiting::Begun
                } else {
                    Waiting::Silent
                },
            ))
        })
    }

    /// The chunk counter of a load thread, or of the reader for the number of threads.
    pub(crate) fn chunks_of(&self, thread: usize) -> &Counter {
        &self.chunks[thread.min(self.chunks.len() - 1)]
    }

    /// Chunks received so far.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks
            .iter()
            .map(|counter| counter.0.load(Ordering::Relaxed))
            .sum()
    }

    /// From now on, unfinished requests sent before `at` are failures.
    pub(crate) fn keep_before(&self, at: Duration) {
        self.kept_before_us.store(us(at), Ordering::SeqCst);
    }

    /// Whether an unfinished request sent then is a failure rather than forgotten.
    pub(crate) fn kept(&self, sent: Duration) -> bool {
        us(sent) < self.kept_before_us.load(Ordering::SeqCst)
    }
}

/// No rung lasts 100,000 years.
const LATEST: u64 = u64::MAX / 4;

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(LATEST).min(LATEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_flight_is_counted_by_when_it_was_sent() {
        let at = Duration::from_secs;
        let board = Board::new(3, 1);
        board.took_off(0, Duration::ZERO);
        board.took_off(1, at(5));
        board.took_off(2, at(9));
        let count = |window| {
            let count = board.in_flight(window);
            (count.all, count.of_window)
        };
        assert_eq!(count(None), (3, 0));
        assert_eq!(count(Some((at(5), at(9)))), (3, 1));
        assert_eq!(count(Some((at(5), Duration::MAX))), (3, 2));
        board.began(1);
        assert_eq!(count(None), (3, 0));
        assert_eq!(
            board.waiting().collect::<Vec<_>>(),
            [
                (at(0), Waiting::Silent),
                (at(5), Waiting::Begun),
                (at(9), Waiting::Silent)
            ]
        );
        board.landed(1);
        assert_eq!(count(Some((at(0), at(9)))), (2, 1));
        assert!(!board.kept(at(1)));
        board.keep_before(at(2));
        assert!(board.kept(at(1)) && !board.kept(at(2)));
    }
}
