//! The rung table, fitted to the terminal's width.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use plimsoll_run::document::Run;
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::Metric;

use super::Style;
use super::text::{Paint, plain, wrapped};
use crate::figures::{self, NOT_MEASURED, finite};
use crate::rows::{LatencyUnit, Percentiles, Row, remarks, rows, sla_cell};

/// A rule under the header and one under the table, nothing else.
const RULED: TableStyle = TableStyle::new()
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Lines of the drawn table before its first row: two of header and a rule.
const HEADER_LINES: usize = 3;

/// One column of a table.
pub(super) struct Column {
    /// First header line: what it is.
    pub(super) title: &'static str,
    /// Second header line: its unit or statistics.
    pub(super) unit: String,
    /// One cell a row.
    pub(super) cells: Vec<String>,
    /// The higher, the sooner a narrow terminal does without it; 0 stays.
    pub(super) sacrifice: u8,
    /// Words read from the left, figures from the right.
    pub(super) align: CellAlignment,
}

/// The rung table, sorted by level, and under it one line for each distinct remark on the rungs.
///
/// p50 and p95 stand in one cell. A terminal too narrow does without, in this order and only as far as needed: the
/// achieved concurrency, requests per second, errors where there are none, the names of failing SLA terms, E2E and
/// TPOT where no SLA term speaks of them.
#[must_use]
pub(super) fn table(run: &Run, style: &Style) -> String {
    let rows = rows(run);
    if rows.is_empty() {
        return "No rung was measured.\n".to_owned();
    }
    let mut columns = columns(run, &rows);
    let mut text = draw(&columns);
    if let Some(width) = style.width {
        while widest(&text) > usize::from(width) && narrow(&mut columns) {
            text = draw(&columns);
        }
    }
    if style.colour {
        text = colour_rows(&text, &rows);
    }
    for remark in remarks(run) {
        text.push_str(&wrapped("", "    ", &plain(&remark), style.width));
    }
    text
}

fn columns(run: &Run, rows: &[Row<'_>]) -> Vec<Column> {
    let figures_column = |title, unit: &str, sacrifice, write: &dyn Fn(&RungReport) -> String| Column {
        title,
        unit: unit.to_owned(),
        cells: rows.iter().map(|row| write(row.rung)).collect(),
        sacrifice,
        align: CellAlignment::Right,
    };
    let latency = |title, metric: Metric, sacrifice| {
        let in_sla = run.sla.terms.iter().any(|term| term.metric == metric);
        let column = || rows.iter().map(|row| row.rung.latency.of(metric));
        // Tables that others published often have nothing but means.
        let only_means = column()
            .flatten()
            .all(|known| finite(known.p50).is_none() && finite(known.p95).is_none())
            && column().flatten().any(|known| finite(known.mean).is_some());
        let unit = LatencyUnit::of(column());
        let percentiles = Percentiles::of(run, metric);
        let cells = column()
            .map(|known| match known {
                Some(known) if only_means => unit.write(known.mean),
                known => unit.cell(percentiles, known),
            })
            .collect();
        Column {
            title,
            unit: format!(
                "{} {}",
                if only_means { "mean" } else { percentiles.words() },
                unit.symbol()
            ),
            cells,
            sacrifice: if in_sla { 0 } else { sacrifice },
            align: CellAlignment::Right,
        }
    };
    let words = |title, cells: Vec<String>| Column {
        title,
        unit: String::new(),
        cells,
        sacrifice: 0,
        align: CellAlignment::Left,
    };
    let any_error = rows.iter().any(|row| row.rung.requests.failed > 0);
    let mut columns = vec![
        figures_column("level", "", 0, &|rung| figures::count(rung.concurrency)),
        figures_column("achieved", "in flight", 6, &|rung| {
            figures::maybe(rung.in_flight.mean)
        }),
        figures_column("req/s", "", 5, &|rung| {
            figures::maybe(rung.throughput.requests_per_s)
        }),
        figures_column("out", "tok/s", 0, &|rung| {
            figures::maybe(rung.throughput.output_tokens_per_s)
        }),
        latency("TTFT", Metric::Ttft, 0),
        latency("TPOT", Metric::Tpot, 1),
        latency("E2E", Metric::E2e, 2),
        figures_column("errors", "", if any_error { 0 } else { 4 }, &|rung| {
            figures::percent(rung.error_rate())
        }),
    ];
    if !run.sla.terms.is_empty() || rows.iter().any(|row| !row.rung.sla.is_empty()) {
        columns.push(Column {
            sacrifice: 3,
            ..words("SLA", rows.iter().map(|row| sla_cell(row.rung)).collect())
        });
    }
    columns.push(words(
        "verdict",
        rows.iter()
            .map(|row| row.rung.validity.verdict.name().to_owned())
            .collect(),
    ));
    if rows.iter().any(|row| !row.mark().is_empty()) {
        columns.push(words("", rows.iter().map(|row| row.mark().to_owned()).collect()));
    }
    if rows.iter().all(|row| row.rung.client.is_none()) {
        // An imported table: what it does not have, it does not show.
        columns.retain(|column| column.cells.iter().any(|cell| cell != NOT_MEASURED));
    }
    columns
}

/// Draws the table: every row is exactly one line.
pub(super) fn draw(columns: &[Column]) -> String {
    let mut table = Table::new();
    table.load_style(RULED);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let header: Vec<String> = columns
        .iter()
        .map(|column| format!("{}\n{}", column.title, column.unit))
        .collect();
    table.set_header(header);
    let rows = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..rows {
        table.add_row(columns.iter().map(|column| column.cells[row].clone()));
    }
    for (at, column) in columns.iter().enumerate() {
        if let Some(drawn) = table.column_mut(at) {
            drawn.set_cell_alignment(column.align);
            drawn.set_padding((0, 1));
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Gives up the column that is missed least, or the longer words of its cells; `false` when nothing is left to give.
fn narrow(columns: &mut Vec<Column>) -> bool {
    let least = (0..columns.len())
        .filter(|at| columns[*at].sacrifice > 0)
        .max_by_key(|at| columns[*at].sacrifice);
    match least {
        None => return false,
        Some(at) if columns[at].title == "SLA" => {
            shorten(&mut columns[at].cells);
            columns[at].sacrifice = 0;
        }
        Some(at) => {
            columns.remove(at);
        }
    }
    true
}

/// Leaves the first word of each cell: `fails` of `fails ttft.p95`.
fn shorten(cells: &mut [String]) {
    for cell in cells {
        if let Some((first, _)) = cell.split_once(' ') {
            *cell = first.to_owned();
        }
    }
}

pub(super) fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Colours whole lines: the best level green, levels that fail the SLA or may not decide dim.
fn colour_rows(text: &str, rows: &[Row<'_>]) -> String {
    let mut out = String::new();
    for (at, line) in text.lines().enumerate() {
        let row = at.checked_sub(HEADER_LINES).and_then(|at| rows.get(at));
        let paint = match row {
            None if at < HEADER_LINES => Paint::Bold,
            None => Paint::Plain,
            Some(row) if row.best || row.limit => Paint::Green,
            Some(row) if !row.rung.validity.may_decide() => Paint::Dim,
            Some(_) => Paint::Plain,
        };
        out.push_str(&paint.over(line, true));
        out.push('\n');
    }
    out
}
