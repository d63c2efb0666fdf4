//! What a sweep's end means for its job.

use std::time::Duration;

use plimsoll_run::document::{Run, Status as RunStatus};

use crate::executor::Ended;

/// Exit codes of `plimsoll sweep`.
const DONE: i32 = 0;
const SLA_NOT_MET: i32 = 3;
const INTERRUPTED: i32 = 130;

/// How a sweep came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was asked to stop by the job's maker.
    Asked(Ended),
    /// It was asked to stop for taking longer than this.
    Overdue(Duration),
    /// By itself.
    Alone(Ended),
    /// Before the server was started anew.
    Complete,
}

/// What becomes of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is an answer, were it that no level meets the SLA.
    Completed,
    /// Stopped as asked.
    Stopped,
    /// There is no answer, and why.
    Failed(String),
    /// Its process was ended by someone else: it is taken up again.
    Again,
}

/// The verdict. `run` is what the sweep left.
pub(super) fn verdict(ending: &Ending, run: Option<&Run>) -> Verdict {
    let complete = run.filter(|run| run.status == RunStatus::Complete);
    match ending {
        Ending::Overdue(longest) => Verdict::Failed(format!(
            "the sweep took longer than this server allows, {} s; what was measured is kept",
            longest.as_secs()
        )),
        Ending::Complete => answered(complete),
        // It may have come to its own end before it heard.
        Ending::Asked(ended) if matches!(ended.code, Some(DONE | SLA_NOT_MET)) => answered(complete),
        Ending::Asked(_) => Verdict::Stopped,
        Ending::Alone(ended) => match ended.code {
            Some(DONE | SLA_NOT_MET) => answered(complete),
            None | Some(INTERRUPTED) => Verdict::Again,
            Some(code) if ended.said.is_empty() => Verdict::Failed(match complete {
                Some(_) => NOTHING_TRUSTWORTHY.to_owned(),
                None => format!("the sweep ended with exit code {code} and said nothing"),
            }),
            Some(_) => Verdict::Failed(ended.said.clone()),
        },
    }
}

const NOTHING_TRUSTWORTHY: &str =
    "no level was measured that may be believed; the report names the reasons level by level";

fn answered(complete: Option<&Run>) -> Verdict {
    match complete {
        Some(run) if plimsoll_plan::trustworthy(run) => Verdict::Completed,
        Some(_) => Verdict::Failed(NOTHING_TRUSTWORTHY.to_owned()),
        None => Verdict::Failed("the sweep ended well and left no complete run".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: Option<i32>, said: &str) -> Ended {
        Ended {
            code,
            said: said.to_owned(),
        }
    }

    #[test]
    fn an_end_says_what_becomes_of_the_job() {
        let alone = |code, said| verdict(&Ending::Alone(ended(code, said)), None);
        assert_eq!(alone(None, ""), Verdict::Again);
        assert_eq!(alone(Some(130), "interrupted"), Verdict::Again);
        assert_eq!(
            alone(Some(5), "not ready"),
            Verdict::Failed("not ready".to_owned())
        );
        assert!(matches!(alone(Some(1), ""), Verdict::Failed(reason) if reason.contains("code 1")));
        assert!(matches!(alone(Some(0), ""), Verdict::Failed(_)));
        let asked = |code| verdict(&Ending::Asked(ended(code, "")), None);
        assert_eq!(asked(Some(130)), Verdict::Stopped);
        assert_eq!(asked(None), Verdict::Stopped);
        let overdue = verdict(&Ending::Overdue(Duration::from_secs(60)), None);
        assert!(matches!(overdue, Verdict::Failed(reason) if reason.contains("60 s")));
    }
}
