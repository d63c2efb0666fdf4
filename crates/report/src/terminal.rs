//! What a person reads in a terminal: the rung table, a line as each rung finishes, and the answer.
//!
//! Strings from outside (model names, error messages) lose their control characters here, so that none can move
//! the cursor or change colours.

mod comparison;
mod rung_table;
mod server_table;
mod text;

use plimsoll_run::document::Run;
use plimsoll_run::rung::RungReport;
use plimsoll_run::validity::Verdict;

use crate::answer::{self, Headline};
use crate::conditions;
use crate::figures::{self, finite};
use crate::other_answers::other_answers;
use crate::rows::sla_cell;
use crate::verified::verified;

use text::{Paint, plain, wrapped};

pub use comparison::comparison;

/// How to write for a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether to colour with ANSI escapes.
    pub colour: bool,
    /// Columns to fit into, where known; `None` leaves everything in and wraps nothing.
    pub width: Option<u16>,
}

/// One finished rung in one line, to scroll by as a sweep goes on.
#[must_use]
pub fn rung_line(rung: &RungReport) -> String {
    let mut parts = vec![format!("level {}", figures::count(rung.concurrency))];
    if let Some(mean) = finite(rung.in_flight.mean) {
        parts.push(format!("{} in flight", figures::number(mean)));
    }
    if let Some(rate) = finite(rung.throughput.requests_per_s) {
        parts.push(format!("{} req/s", figures::number(rate)));
    }
    if let Some(rate) = finite(rung.throughput.output_tokens_per_s) {
        parts.push(format!("{} output tok/s", figures::number(rate)));
    }
    for (name, distribution) in [
        ("TTFT", &rung.latency.ttft_ms),
        ("TPOT", &rung.latency.tpot_ms),
        ("E2E", &rung.latency.e2e_ms),
    ] {
        if let Some(p95) = distribution
            .as_ref()
            .and_then(|distribution| finite(distribution.p95))
        {
            parts.push(format!("{name} p95 {}", figures::latency(Some(p95))));
        }
    }
    if rung.requests.failed > 0 {
        parts.push(format!("{} errors", figures::percent(rung.error_rate())));
    }
    if !rung.sla.is_empty() {
        parts.push(match rung.meets_sla() {
            Some(true) => "meets the SLA".to_owned(),
            Some(false) => sla_cell(rung),
            None => format!("SLA {}", sla_cell(rung)),
        });
    }
    if rung.validity.verdict != Verdict::Valid {
        parts.push(rung.validity.verdict.name().to_owned());
    }
    format!("rung {}: {}", rung.order, parts.join(", "))
}

/// The rung table with the remarks on it, and under it what the server's own metrics said.
#[must_use]
pub fn table(run: &Run, style: &Style) -> String {
    rung_table::table(run, style) + &server_table::server_table(run, style)
}

/// The answer: what was measured, the three planning numbers with their intervals and reasons, briefly what else the rungs
/// answer, and what to know before relying on them. A table that someone else measured has neither dialect nor seed, and its
/// workload is not known.
#[must_use]
pub fn answer(run: &Run, style: &Style) -> String {
    if let Some(table) = &run.table {
        let kind = table.formats.join(", ");
        let mut measured = vec![("Table", format!("{} ({kind})", run.target.url))];
        measured.extend(run.target.model.iter().map(|model| ("Model", model.clone())));
        measured.extend(asked(run));
        return written(run, &measured, style);
    }
    let mut measured = vec![
        ("Target", conditions::target_line(run)),
        ("Workload", conditions::workload_line(run)),
    ];
    measured.extend(asked(run));
    measured.push(("Seed", run.seed.to_string()));
    measured.extend(run.notes.iter().map(|note| ("Note", note.clone())));
    written(run, &measured, style)
}

fn asked(run: &Run) -> Vec<(&'static str, String)> {
    let mut asked = vec![("SLA", conditions::sla_line(&run.sla))];
    asked.extend(conditions::peak_line(run).map(|peak| ("Peak", peak)));
    asked
}

fn written(run: &Run, conditions: &[(&str, String)], style: &Style) -> String {
    let mut text = String::new();
    for (name, value) in conditions {
        text.push_str(&wrapped(
            &format!("{name:<10}"),
            "          ",
            &plain(value),
            style.width,
        ));
    }
    text.push('\n');
    for headline in answer::planning_numbers(run) {
        text.push_str(&write_headline(&headline, Paint::Bold, style));
    }
    text.push('\n');
    let rest = other_answers(run).into_iter().chain(verified(run));
    for headline in rest {
        text.push_str(&write_briefly(&headline, style));
    }
    let warnings = answer::warnings(run);
    if !warnings.is_empty() {
        text.push('\n');
        for warning in warnings {
            let lead = Paint::Yellow.over("Warning   ", style.colour);
            let lines = wrapped("          ", "          ", &plain(&warning), style.width);
            text.push_str(&lead);
            text.push_str(lines.strip_prefix("          ").unwrap_or(&lines));
        }
    }
    text
}

/// Width of the column that holds the names of the numbers.
const NAME_WIDTH: usize = 18;

/// In one line where it fits: the reason stands in the other formats, and here only where the number says little without it.
fn write_briefly(headline: &Headline, style: &Style) -> String {
    let indent = " ".repeat(NAME_WIDTH);
    let mut line = format!("{} {}", plain(&headline.figure), headline.unit)
        .trim_end()
        .to_owned();
    if let Some(range) = &headline.range {
        line.push_str(&format!(" ({})", plain(range)));
    }
    if !headline.details.is_empty() {
        line.push_str(&format!("; {}", plain(&headline.details.join("; "))));
    }
    let name = format!("{:<NAME_WIDTH$}", headline.name);
    let mut text = wrapped(&name, &indent, &line, style.width);
    if headline.explain && !headline.reason.is_empty() {
        text.push_str(&wrapped(&indent, &indent, &plain(&headline.reason), style.width));
    }
    text
}

fn write_headline(headline: &Headline, paint: Paint, style: &Style) -> String {
    let indent = " ".repeat(NAME_WIDTH);
    let name = format!("{:<NAME_WIDTH$}", headline.name);
    let figure = plain(&headline.figure);
    let mut first = format!("{figure} {}", headline.unit).trim_end().to_owned();
    if let Some(range) = &headline.range {
        first.push_str(&format!(" ({})", plain(range)));
    }
    let mut text = wrapped(&indent, &indent, &first, style.width);
    // Painted after wrapping: escapes have no width.
    text = text.replacen(&indent, &paint.over(&name, style.colour), 1);
    if style.colour {
        text = text.replacen(&figure, &paint.over(&figure, true), 1);
    }
    if !headline.details.is_empty() {
        let details = plain(&headline.details.join("; "));
        text.push_str(&wrapped(&indent, &indent, &details, style.width));
    }
    if !headline.reason.is_empty() {
        text.push_str(&wrapped(&indent, &indent, &plain(&headline.reason), style.width));
    }
    text
}
