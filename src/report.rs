//! `plimsoll report`: a saved run in another format.

use std::io::IsTerminal;

use anyhow::Context;
use plimsoll_report::terminal::{self, Style};
use plimsoll_run::directory::RunDirectory;
use plimsoll_run::document::Run;
use plimsoll_run::rung::TimelineSecond;

use crate::arguments::{ReportArguments, ReportFormat, SweepFormat};
use crate::console;
use crate::exit::{Exit, Failure, OrExit};

/// Prints or writes the report.
pub fn run(arguments: &ReportArguments) -> Result<Exit, Failure> {
    let (directory, run) = RunDirectory::open(&arguments.run).or_exit(Exit::Usage)?;
    let text = match arguments.format {
        ReportFormat::Table => table(&run),
        ReportFormat::Json => run.to_json(),
        ReportFormat::Csv => plimsoll_report::csv(&run)?,
        ReportFormat::Markdown => plimsoll_report::markdown(&run),
        ReportFormat::Html => html(&directory, &run)?,
        ReportFormat::Junit => plimsoll_report::junit(&run)?,
        ReportFormat::Aiperf => plimsoll_report::aiperf(&run),
    };
    match &arguments.output {
        Some(path) => std::fs::write(path, text).with_context(|| path.display().to_string())?,
        None => console::put(&text)?,
    }
    Ok(Exit::Done)
}

/// The page of a run, with the timelines that its directory holds.
pub fn html(directory: &RunDirectory, run: &Run) -> anyhow::Result<String> {
    let timelines = run
        .rungs
        .iter()
        .map(|rung| Ok((rung.order, directory.timeline(rung.order, rung.concurrency)?)))
        .collect::<anyhow::Result<Vec<(u32, Vec<TimelineSecond>)>>>()?;
    Ok(plimsoll_report::html(run, &timelines))
}

/// Prints a run on stdout.
pub fn print(run: &Run, format: SweepFormat) -> anyhow::Result<()> {
    console::put(&match format {
        SweepFormat::Table => table(run),
        SweepFormat::Json => run.to_json(),
        SweepFormat::Csv => plimsoll_report::csv(run)?,
        SweepFormat::Markdown => plimsoll_report::markdown(run),
    })
}

/// Table and answer for a person.
fn table(run: &Run) -> String {
    let style = style();
    format!(
        "{}\n{}\n",
        terminal::table(run, &style),
        terminal::answer(run, &style)
    )
}

/// Colours only on a terminal, and not where NO_COLOR says so.
pub fn style() -> Style {
    let stdout = std::io::stdout();
    let terminal = stdout.is_terminal();
    Style {
        colour: terminal && std::env::var_os("NO_COLOR").is_none(),
        width: None,
    }
}
