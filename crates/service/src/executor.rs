//! What carries a sweep out: a process of its own, so that load and API never share one, or in tests something else.

use std::path::PathBuf;

use crate::target::Target;

/// A sweep to carry out.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The target.
    pub target: Target,
    /// The folder of the job. Run directories go into its folder `runs`.
    pub folder: PathBuf,
    /// Flags of `plimsoll sweep` that say what to measure.
    pub flags: Vec<String>,
    /// Those of them that a run does not store, as `plimsoll resume` takes them.
    pub resume_flags: Vec<String>,
    /// The run directory to go on with; `None` begins a new one.
    pub resume: Option<PathBuf>,
}

/// How a sweep ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code of `plimsoll sweep`; `None` where a signal ended it.
    pub code: Option<i32>,
    /// The last thing it said.
    pub said: String,
}

/// Starts sweeps.
pub trait Executor: Send + Sync {
    /// Starts one.
    ///
    /// # Errors
    /// When it cannot be started at all.
    fn start(&self, order: &Order) -> Result<Box<dyn Sweep>, String>;
}

/// A sweep that goes on.
pub trait Sweep: Send {
    /// How it ended; `None` while it goes on.
    fn ended(&mut self) -> Option<Ended>;
    /// Asks for an orderly stop: no new requests, and what was measured is kept.
    fn stop(&mut self);
    /// Ends it at once.
    fn kill(&mut self);
}
