//! The conduct of a rung: when slots start, when the window opens and closes, when the rung is done.
//!
//! A pure state machine, driven by whoever holds the level: in wall time against a real endpoint, in virtual
//! time against the simulated engine. All times are since the rung's start.

use std::time::Duration;

use plimsoll_run::evidence::{StopReason, Window};
use plimsoll_run::runner::{Phase, Rung};

/// What the runner must do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Keep the level in flight: every slot sends its next request the moment its last one ends. The phase is
    /// for showing; during [`Phase::Drain`] the load goes on until the window's requests have ended.
    Hold(Phase),
    /// The rung is over: send nothing more and drop what is still in flight.
    Finish,
}

/// The conduct of one rung.
#[derive(Debug)]
pub struct Conduct {
    rung: Rung,
}

impl Conduct {
    /// For this rung.
    #[must_use]
    pub fn new(rung: &Rung) -> Self {
        Conduct { rung: rung.clone() }
    }

    /// When `slot` (from 0) sends its first request. Starts are staggered over one expected response time and at
    /// most 10 s, so that the first prefills do not come as a herd.
    #[must_use]
    pub fn start_of(&self, slot: u32) -> Duration {
        let spread = self
            .rung
            .expected_response
            .unwrap_or(Duration::ZERO)
            .min(Duration::from_secs(10));
        spread.mul_f64(f64::from(slot) / f64::from(self.rung.level.max(1)))
    }

    /// A request ended. `e2e` is `None` for a failure.
    pub fn on_end(&mut self, _sent: Duration, _ended: Duration, _ok: bool) {}

    /// Call some 20 to 100 times a second with the time, the token-bearing chunks received so far in the rung,
    /// and the number of requests in flight that were sent inside the window.
    pub fn tick(&mut self, _now: Duration, _tokens: u64, _window_in_flight: u64) -> Step {
        Step::Finish
    }

    /// The window, as far as it has been decided: while it is open it closes at [`Duration::MAX`].
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        None
    }

    /// Why the rung ended; meaningful once [`Conduct::tick`] returned [`Step::Finish`].
    #[must_use]
    pub fn stopped(&self) -> StopReason {
        StopReason::Enough
    }

    /// The best guess of the rung's whole length, drain included; zero while unknown.
    #[must_use]
    pub fn expected(&self) -> Duration {
        Duration::ZERO
    }
}
