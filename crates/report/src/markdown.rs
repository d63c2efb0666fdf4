//! The answer and the rung table as GitHub-flavoured Markdown, ready for a design document or a pull request.

use std::fmt::Write;

use plimsoll_run::document::Run;
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::Metric;

use crate::answer::{self, Headline};
use crate::conditions;
use crate::figures::{self, NOT_MEASURED};
use crate::other_answers::other_answers;
use crate::rows::{LatencyUnit, Percentiles, remarks, rows, sla_cell};
use crate::verified::verified;

/// The answer and the rung table as Markdown.
#[must_use]
pub fn markdown(run: &Run) -> String {
    let mut text = String::new();
    let model = run.target.model.as_deref().unwrap_or(&run.target.url);
    line(&mut text, format!("## Load line of {}", escaped(model)));
    line(&mut text, String::new());
    numbers(&mut text, run);
    let warnings = answer::warnings(run);
    if !warnings.is_empty() {
        line(&mut text, String::new());
        for warning in warnings {
            line(&mut text, format!("> **Warning:** {}", escaped(&warning)));
            line(&mut text, ">".to_owned());
        }
        // No blank quoted line after the last.
        text.truncate(text.trim_end_matches(">\n").len());
    }
    line(&mut text, String::new());
    line(&mut text, "### Levels measured".to_owned());
    line(&mut text, String::new());
    table(&mut text, run);
    line(&mut text, String::new());
    line(&mut text, "### Conditions".to_owned());
    line(&mut text, String::new());
    conditions(&mut text, run);
    text
}

fn numbers(text: &mut String, run: &Run) {
    line(text, "| | | interval | why |".to_owned());
    line(text, "|---|---|---|---|".to_owned());
    let planning = answer::planning_numbers(run);
    let rest = other_answers(run).into_iter().chain(verified(run));
    for (headline, bold) in planning
        .into_iter()
        .map(|headline| (headline, "**"))
        .chain(rest.map(|headline| (headline, "")))
    {
        let Headline {
            name,
            figure,
            unit,
            range,
            details,
            reason,
            explain: _,
        } = headline;
        let mut why = details;
        if !reason.is_empty() {
            why.push(reason);
        }
        line(
            text,
            format!(
                "| {bold}{name}{bold} | {bold}{}{bold} {unit} | {} | {} |",
                escaped(&figure),
                escaped(range.as_deref().unwrap_or(NOT_MEASURED)),
                escaped(&why.join("; ")),
            ),
        );
    }
}

fn table(text: &mut String, run: &Run) {
    let rows = rows(run);
    if rows.is_empty() {
        line(text, "No rung was measured.".to_owned());
        return;
    }
    let unit = |read: fn(&RungReport) -> Option<&plimsoll_run::rung::Distribution>| {
        LatencyUnit::of(rows.iter().map(|row| read(row.rung)))
    };
    let ttft = unit(|rung| rung.latency.ttft_ms.as_ref());
    let tpot = unit(|rung| rung.latency.tpot_ms.as_ref());
    let e2e = unit(|rung| rung.latency.e2e_ms.as_ref());
    let asked = [Metric::Ttft, Metric::Tpot, Metric::E2e].map(|metric| Percentiles::of(run, metric));
    line(
        text,
        format!(
            "| level | achieved | req/s | out tok/s | TTFT {} {} | TPOT {} {} | E2E {} {} | errors | SLA | verdict | |",
            asked[0].words(),
            ttft.symbol(),
            asked[1].words(),
            tpot.symbol(),
            asked[2].words(),
            e2e.symbol()
        ),
    );
    line(text, "|--:|--:|--:|--:|--:|--:|--:|--:|---|---|---|".to_owned());
    for row in &rows {
        let rung = row.rung;
        line(
            text,
            format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                figures::count(rung.concurrency),
                figures::maybe(rung.in_flight.mean),
                figures::maybe(rung.throughput.requests_per_s),
                figures::maybe(rung.throughput.output_tokens_per_s),
                ttft.cell(asked[0], rung.latency.ttft_ms.as_ref()),
                tpot.cell(asked[1], rung.latency.tpot_ms.as_ref()),
                e2e.cell(asked[2], rung.latency.e2e_ms.as_ref()),
                figures::percent(rung.error_rate()),
                sla_cell(rung),
                rung.validity.verdict.name(),
                row.mark(),
            ),
        );
    }
    let remarks = remarks(run);
    if !remarks.is_empty() {
        line(text, String::new());
        for remark in remarks {
            line(text, format!("- {}", escaped(&remark)));
        }
    }
    server(text, run);
}

fn server(text: &mut String, run: &Run) {
    let columns = crate::server::columns(run);
    let Some(levels) = columns.first() else {
        return;
    };
    line(text, format!("\n#### {}\n", crate::server::TITLE));
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let heading =
        |column: &crate::server::Column| format!("{} {}", column.title, column.unit).trim_end().to_owned();
    line(text, row(columns.iter().map(heading).collect()));
    let rule = |column: &crate::server::Column| if column.words { "---" } else { "--:" }.to_owned();
    line(text, row(columns.iter().map(rule).collect()));
    for at in 0..levels.cells.len() {
        line(
            text,
            row(columns.iter().map(|column| escaped(&column.cells[at])).collect()),
        );
    }
}

fn conditions(text: &mut String, run: &Run) {
    let mut item = |name: &str, value: &str| line(text, format!("- {name}: {}", escaped(value)));
    item("Target", &conditions::target_line(run));
    item("Workload", &conditions::workload_line(run));
    item("SLA", &conditions::sla_line(&run.sla));
    if let Some(peak) = conditions::peak_line(run) {
        item("Peak", &peak);
    }
    item("Seed", &run.seed.to_string());
    item(
        "Measured",
        &format!("{}, {}", run.started_at, conditions::status_word(run.status)),
    );
    item("Command", &run.command);
    item("Plimsoll", &run.version);
    for note in &run.notes {
        item("Note", note);
    }
}

fn line(text: &mut String, line: String) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

/// Text that Markdown shows as it stands: no table break, no tag, no emphasis, no link.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() => {}
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '~' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
