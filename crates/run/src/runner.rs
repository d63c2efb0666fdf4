//! The seam between the search and whatever it drives.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::evidence::Evidence;
use crate::sla::Sla;

/// How long a rung may take and what ends it.
#[derive(Debug, Clone, PartialEq)]
pub struct RungLimits {
    /// A window of exactly this length, where the user asked for one.
    pub rung_time: Option<Duration>,
    /// End the window once this many requests sent inside it have ended, where the user asked for it.
    pub requests: Option<u64>,
    /// Warm-up of exactly this length (zero turns it off); `None` finds it from the data.
    pub warmup: Option<Duration>,
    /// Warm-up and window together never last longer.
    pub cap: Duration,
    /// The drain never lasts longer.
    pub drain: Duration,
    /// How many times the usual window and samples, at least 1; what the user asked for by time or by requests stays
    /// as it is.
    pub lengthen: u32,
    /// Close the window early once one of these terms is broken, or all are held, far beyond doubt; `None` never does.
    pub early: Option<Sla>,
}

impl Default for RungLimits {
    fn default() -> Self {
        RungLimits {
            rung_time: None,
            requests: None,
            warmup: None,
            cap: Duration::from_secs(300),
            drain: Duration::from_secs(300),
            lengthen: 1,
            early: None,
        }
    }
}

/// One rung to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Rung {
    /// Requests in flight.
    pub level: u32,
    /// Which rung of the run this is, from 1. Prompts are seeded with it, so a repeated level gets new ones.
    pub order: u32,
    /// One response time to expect at this level, where an earlier rung tells.
    pub expected_response: Option<Duration>,
    /// Successful requests that the statistics need (200 for a p95, 500 for a p99).
    pub samples_wanted: u64,
    /// What ends it.
    pub limits: RungLimits,
}

/// What a rung is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing yet.
    Idle,
    /// Slots start one after another, and the system settles.
    WarmUp,
    /// The measured window is open.
    Window,
    /// The window is closed; its requests run to their end.
    Drain,
}

/// How hard the user wants to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Not at all.
    No,
    /// Issue nothing more, drain for a bounded time.
    Drain,
    /// At once.
    Now,
}

/// The shared view of a running rung: the runner writes the progress, anyone writes the stop.
///
/// All counters are of the current rung. Reads are relaxed: this is for eyes, not for arithmetic.
#[derive(Debug, Default)]
pub struct Watch {
    stop: AtomicU8,
    phase: AtomicU8,
    in_flight: AtomicU32,
    ended: AtomicU64,
    failed: AtomicU64,
    elapsed_ms: AtomicU64,
    expected_ms: AtomicU64,
}

impl Watch {
    /// A fresh one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a stop; a second call asks for an immediate one.
    pub fn ask_to_stop(&self) {
        let _ = self
            .stop
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |stop| Some((stop + 1).min(2)));
    }

    /// How hard the user wants to stop.
    #[must_use]
    pub fn stop(&self) -> Stop {
        match self.stop.load(Ordering::SeqCst) {
            0 => Stop::No,
            1 => Stop::Drain,
            _ => Stop::Now,
        }
    }

    /// Clears the progress of the last rung, not the stop.
    pub fn begin_rung(&self) {
        self.show(Phase::Idle, &Progress::default());
    }

    /// Publishes progress.
    pub fn show(&self, phase: Phase, progress: &Progress) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.in_flight.store(progress.in_flight, Ordering::Relaxed);
        self.ended.store(progress.ended, Ordering::Relaxed);
        self.failed.store(progress.failed, Ordering::Relaxed);
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.elapsed_ms.store(ms(progress.elapsed), Ordering::Relaxed);
        self.expected_ms.store(ms(progress.expected), Ordering::Relaxed);
    }

    /// The phase and progress last published.
    #[must_use]
    pub fn look(&self) -> (Phase, Progress) {
        let phase = match self.phase.load(Ordering::Relaxed) {
            1 => Phase::WarmUp,
            2 => Phase::Window,
            3 => Phase::Drain,
            _ => Phase::Idle,
        };
        let progress = Progress {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            elapsed: Duration::from_millis(self.elapsed_ms.load(Ordering::Relaxed)),
            expected: Duration::from_millis(self.expected_ms.load(Ordering::Relaxed)),
        };
        (phase, progress)
    }
}

/// How far a rung has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests in flight now.
    pub in_flight: u32,
    /// Requests ended, warm-up included.
    pub ended: u64,
    /// Of those, failed.
    pub failed: u64,
    /// Time since the rung's start.
    pub elapsed: Duration,
    /// The best guess of the rung's whole time, drain included; zero while unknown.
    pub expected: Duration,
}

/// A rung that could not be measured at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("level {level}: {problem}")]
pub struct RunnerError {
    /// The level.
    pub level: u32,
    /// What went wrong and what to do about it.
    pub problem: String,
}

/// Whatever can hold a level and say what happened: real traffic, the simulated engine, a recorded run.
pub trait Runner {
    /// Holds `rung.level` requests in flight until its limits are met, `watch` asks to stop, or too many
    /// requests fail.
    ///
    /// # Errors
    /// When the level cannot be held at all, for example for want of file descriptors.
    fn measure(&mut self, rung: &Rung, watch: &Watch) -> Result<Evidence, RunnerError>;

    /// Whether there is anyone left to load; asked when most requests of a rung found nobody.
    ///
    /// # Errors
    /// What happens to whoever tries to reach the target now.
    fn reach(&mut self) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_request_to_stop_is_harder_than_the_first() {
        let watch = Watch::new();
        assert_eq!(watch.stop(), Stop::No);
        watch.ask_to_stop();
        assert_eq!(watch.stop(), Stop::Drain);
        watch.ask_to_stop();
        watch.ask_to_stop();
        assert_eq!(watch.stop(), Stop::Now);
        watch.begin_rung();
        assert_eq!(watch.stop(), Stop::Now);
    }
}
