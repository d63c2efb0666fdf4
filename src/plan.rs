//! `plimsoll plan`: the planning numbers again under another SLA, peak or price. Sends nothing.

use plimsoll_run::directory::RunDirectory;

use crate::arguments::{PlanArguments, SweepFormat};
use crate::exit::{Exit, Failure, OrExit};
use crate::question::Question;

/// Answers again.
pub fn run(arguments: &PlanArguments) -> Result<Exit, Failure> {
    let (_, mut run) = RunDirectory::open(&arguments.run).or_exit(Exit::Usage)?;
    let question = Question::again(&run, &arguments.question);
    question.put_to(&mut run);
    crate::report::print(&run, SweepFormat::json_if(arguments.json))?;
    Ok(Exit::of(&run))
}
