//! `plimsoll plan`: the planning numbers again under another SLA, peak or price. Sends nothing.

use plimsoll_plan::{answer, judge};
use plimsoll_report::terminal;
use plimsoll_run::directory::RunDirectory;
use plimsoll_run::sla::Sla;

use crate::arguments::PlanArguments;
use crate::exit::{Exit, Failure, OrExit};
use crate::settings::Question;
use crate::sweep::demand;

/// Answers again.
pub fn run(arguments: &PlanArguments) -> Result<Exit, Failure> {
    let (_, mut run) = RunDirectory::open(&arguments.run).or_exit(Exit::Usage)?;
    let asked = &arguments.question;
    if !asked.sla.is_empty() {
        run.sla = Sla {
            terms: asked.sla.clone(),
        };
        for rung in &mut run.rungs {
            rung.sla = judge(rung, &run.sla);
            // Goodput was counted request by request under the old SLA.
            rung.throughput.goodput_per_s = None;
        }
    }
    run.peak = asked.peak.or(run.peak);
    run.price_per_hour = asked.price.or(run.price_per_hour);
    run.currency = asked.currency.clone().unwrap_or(run.currency);
    let question = Question {
        sla: run.sla.clone(),
        peak: run.peak,
        price: run.price_per_hour,
        currency: run.currency.clone(),
        spares: asked
            .spares
            .unwrap_or_else(|| run.plan.instances.as_ref().map_or(0, |found| found.spares)),
    };
    run.plan = answer(&run.rungs, &run.sla, &demand(&question));
    if arguments.json {
        print!("{}", run.to_json());
    } else {
        let style = crate::report::style();
        println!(
            "{}\n{}",
            terminal::table(&run, &style),
            terminal::answer(&run, &style)
        );
    }
    Ok(Exit::of(&run))
}
