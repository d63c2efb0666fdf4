//! What all requests share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::http::ask::Limits;
use crate::http::metrics::Endings;
use crate::http::pacer::Command;
use crate::spec::EngineSpec;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub spec: EngineSpec,
    pub limits: Limits,
    pub api_key: Option<String>,
    pub commands: Sender<Command>,
    /// Seconds since 1970.
    pub started: u64,
    next_id: AtomicU64,
    stopped: AtomicU64,
    cut: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        spec: EngineSpec,
        limits: Limits,
        api_key: Option<String>,
        commands: Sender<Command>,
    ) -> Self {
        Shared {
            spec,
            limits,
            api_key,
            commands,
            started: unix_seconds(),
            next_id: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        }
    }

    /// An id that no other request has.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a reply that came to its end, by itself (`stops`) or at the length asked for.
    pub(crate) fn count_ending(&self, stops: bool) {
        let count = if stops { &self.stopped } else { &self.cut };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// How many replies came to an end.
    pub(crate) fn endings(&self) -> Endings {
        Endings {
            stop: self.stopped.load(Ordering::Relaxed),
            length: self.cut.load(Ordering::Relaxed),
        }
    }
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
