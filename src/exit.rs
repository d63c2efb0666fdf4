//! Exit codes, which scripts rely on.

use std::process::ExitCode;

use plimsoll_run::answer::LimitStatus;
use plimsoll_run::document::{Run, Status};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// The tool itself failed.
    Failed,
    /// Usage or configuration.
    Usage,
    /// No tested level meets the SLA.
    SlaNotMet,
    /// A gate found a regression.
    Regression,
    /// Nothing trustworthy was measured.
    Invalid,
    /// Interrupted; partial results are saved.
    Interrupted,
}

impl Exit {
    /// The number a shell sees.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::SlaNotMet => 3,
            Exit::Regression => 4,
            Exit::Invalid => 5,
            Exit::Interrupted => 130,
        }
    }

    /// What a run's document comes to. Nothing trustworthy goes before what it seems to say: where too many requests fail at
    /// every level, no level meets an SLA, and the reason to look at is the failures.
    pub fn of(run: &Run) -> Exit {
        let never_met = run
            .plan
            .limit
            .as_ref()
            .is_some_and(|limit| limit.status == LimitStatus::NeverMet);
        if run.status == Status::Interrupted {
            Exit::Interrupted
        } else if !plimsoll_plan::trustworthy(run) {
            Exit::Invalid
        } else if never_met {
            Exit::SlaNotMet
        } else {
            Exit::Done
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// An error with the exit code it calls for.
#[derive(Debug)]
pub struct Failure {
    /// What happened, for a person.
    pub error: anyhow::Error,
    /// How the program ends.
    pub exit: Exit,
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure {
            error: error.into(),
            exit: Exit::Failed,
        }
    }
}

/// Gives an error another exit code than 1.
pub trait OrExit<T> {
    /// On error, end with `exit`.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure {
            error: error.into(),
            exit,
        })
    }
}
