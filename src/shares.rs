//! `plimsoll sweep --prefix-shares`: the same sweep with one share of shared prefixes after the other, and how the answers
//! move with reuse. Each is a run of its own.

use std::time::Instant;

use anyhow::Context;
use jiff::Timestamp;
use plimsoll_load::check_descriptors;
use plimsoll_run::directory::RunDirectory;
use plimsoll_run::document::{Run, Status};
use serde::Serialize;

use crate::arguments::SweepFormat;
use crate::climb::End;
use crate::console;
use crate::exit::{Exit, Failure, OrExit};
use crate::settings::Settings;
use crate::sweep::{Session, document, start, went_away};

/// The schema of the table.
const SCHEMA: &str = "plimsoll.shares/1";

/// The answers of one sweep. What was not measured is null.
#[derive(Debug, Serialize)]
struct Row {
    /// Share of the requests with a shared prefix that was asked for.
    share: f64,
    /// Share of the prompt tokens that the prefix cache served at the best level, as far as the server tells.
    prefix_cache_hit_rate: Option<f64>,
    knee: Option<f64>,
    best: Option<u32>,
    limit: Option<u32>,
    /// At the best level.
    output_tokens_per_s: Option<f64>,
    instances: Option<u64>,
    /// Where the run is.
    run: String,
}

#[derive(Debug, Serialize)]
struct Table {
    schema: &'static str,
    shares: Vec<Row>,
}

impl Row {
    fn of(share: f64, run: &Run, directory: &RunDirectory) -> Row {
        let plan = &run.plan;
        let best = plan.best.as_ref().map(|best| best.concurrency);
        Row {
            share,
            prefix_cache_hit_rate: best
                .and_then(|level| run.rungs.iter().rfind(|rung| rung.concurrency == level))
                .and_then(|rung| rung.server.prefix_cache_hit_rate),
            knee: plan.knee.as_ref().map(|knee| knee.concurrency),
            best,
            limit: plan.limit.as_ref().and_then(|limit| limit.concurrency),
            output_tokens_per_s: plan.best.as_ref().and_then(|best| best.output_tokens_per_s),
            instances: plan.instances.as_ref().and_then(|instances| instances.count),
            run: directory.path().display().to_string(),
        }
    }

    fn cells(&self) -> [String; 8] {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            self.share.to_string(),
            or_none(self.prefix_cache_hit_rate.map(|rate| format!("{rate:.3}"))),
            or_none(self.knee.map(|knee| format!("{knee:.0}"))),
            or_none(self.best.map(|best| best.to_string())),
            or_none(self.limit.map(|limit| limit.to_string())),
            or_none(self.output_tokens_per_s.map(|rate| format!("{rate:.1}"))),
            or_none(self.instances.map(|count| count.to_string())),
            self.run.clone(),
        ]
    }
}

const TITLES: [&str; 8] = [
    "share",
    "cache hits",
    "knee",
    "best",
    "limit",
    "output tok/s",
    "instances",
    "run",
];

/// Sweeps once for each share, and prints how the answers move.
pub fn run(mut settings: Settings) -> Result<Exit, Failure> {
    let session = Session::begin(settings.quiet)?;
    // The engine lives as long as this handle.
    let (options, _engine) = start(&settings.subject)?;
    let shares = std::mem::take(&mut settings.prefix_shares);
    let (seed, label, notes) = (settings.seed, settings.label.clone(), settings.notes.clone());
    let began = Instant::now();
    let mut table = Table {
        schema: SCHEMA,
        shares: Vec::new(),
    };
    let mut exit = Exit::Done;
    for (at, share) in shares.iter().enumerate() {
        if let Some(prefix) = &mut settings.workload.shared_prefix {
            prefix.share = *share;
        }
        // Prompts of one sweep must not be found in the cache by the next.
        settings.seed = seed.wrapping_add(at as u64);
        settings.label = format!("{label}-share-{share}");
        settings.notes.clone_from(&notes);
        settings.notes.push(format!(
            "Sweep {} of {} with different shares of shared prefixes; this one has {share}.",
            at + 1,
            shares.len()
        ));
        session.display.say(&format!("share {share}"));
        let mut course = settings.course.clone();
        // What is left of the budget is for this sweep and those after it alike.
        course.max_time = course.max_time.map(|most| {
            let sweeps = u32::try_from(shares.len() - at).unwrap_or(u32::MAX);
            most.saturating_sub(began.elapsed()) / sweeps
        });
        check_descriptors(course.search.max)
            .map_err(anyhow::Error::msg)
            .or_exit(Exit::Usage)?;
        let prepared = session.prepare(
            &options,
            &settings.workload,
            settings.asked.clone(),
            settings.seed,
        )?;
        let run = document(&settings, &prepared);
        let directory = RunDirectory::create(&settings.out, &settings.label, Timestamp::now())
            .context("cannot make a run directory; name a folder that can be written with --out")?;
        let (run, climbed) = session.measure(
            prepared,
            course,
            &settings.question,
            run,
            &directory,
            settings.verify,
        )?;
        if let End::WentAway(level) = climbed? {
            return Err(went_away(level, &directory));
        }
        let row = Row::of(*share, &run, &directory);
        session.display.say(&format!("  saved in {}", row.run));
        table.shares.push(row);
        exit = worse(exit, Exit::of(&run));
        if run.status == Status::Interrupted {
            break;
        }
    }
    drop(session);
    console::put(&written(&table, settings.format)?)?;
    Ok(exit)
}

/// The one that a script must not miss.
fn worse(one: Exit, other: Exit) -> Exit {
    let rank = |exit| match exit {
        Exit::Interrupted => 6,
        Exit::Regression => 5,
        Exit::Failed | Exit::Usage => 4,
        Exit::Invalid => 3,
        Exit::SlaNotMet => 2,
        Exit::Done => 0,
    };
    if rank(other) > rank(one) { other } else { one }
}

fn written(table: &Table, format: SweepFormat) -> anyhow::Result<String> {
    let rows: Vec<[String; 8]> = table.shares.iter().map(Row::cells).collect();
    Ok(match format {
        SweepFormat::Json => format!("{}\n", serde_json::to_string_pretty(table)?),
        // Only a folder's name may need quotes.
        SweepFormat::Csv => lines(&rows, |cells| {
            let quoted = cells.iter().map(|cell| match cell.contains([',', '"']) {
                true => format!("\"{}\"", cell.replace('"', "\"\"")),
                false => cell.clone(),
            });
            quoted.collect::<Vec<_>>().join(",")
        }),
        SweepFormat::Markdown => {
            let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
            let text = lines(&rows, line);
            let (titles, rest) = text.split_once('\n').unwrap_or((&text, ""));
            format!("{titles}\n{}|\n{rest}", "|---".repeat(TITLES.len()))
        }
        SweepFormat::Table => {
            let widths: Vec<usize> = (0..TITLES.len())
                .map(|column| {
                    let cells = rows.iter().map(|row| row[column].chars().count());
                    cells.max().unwrap_or(0).max(TITLES[column].len())
                })
                .collect();
            lines(&rows, |cells| {
                let last = cells.len() - 1;
                let padded = cells.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
                    if at == last {
                        cell.clone()
                    } else {
                        format!("{cell:>width$}")
                    }
                });
                padded.collect::<Vec<_>>().join("  ")
            })
        }
    })
}

/// The titles and the rows, a line each.
fn lines(rows: &[[String; 8]], line: impl Fn(&[String]) -> String) -> String {
    let titles = TITLES.map(str::to_owned);
    std::iter::once(&titles)
        .chain(rows)
        .map(|cells| line(cells) + "\n")
        .collect()
}
