//! Runs side by side: the first is what the others are compared with.

use comfy_table::CellAlignment;
use plimsoll_run::comparison::{Change, Outcome};

use super::Style;
use super::rung_table::{Column, draw};
use super::text::{Paint, plain};
use crate::figures;

/// Runs side by side, one row a figure. `names[0]` is the first run's, `names[1..]` those of the runs whose changes these are, all
/// of them against the first.
#[must_use]
pub fn comparison(names: &[String], changes: &[Vec<Change>], style: &Style) -> String {
    let rows = changes.first().map_or(&[][..], Vec::as_slice);
    let words = |title, cells| Column {
        title,
        unit: String::new(),
        cells,
        sacrifice: 0,
        align: CellAlignment::Left,
    };
    let mut columns = vec![
        words(
            "what",
            rows.iter()
                .map(|row| match row.level {
                    Some(level) => format!("{} at {}", row.what, figures::count(level)),
                    None => row.what.to_owned(),
                })
                .collect(),
        ),
        Column {
            title: "1",
            align: CellAlignment::Right,
            ..words("", rows.iter().map(|row| figure(row, row.before)).collect())
        },
    ];
    const NUMBERS: [&str; 8] = ["2", "3", "4", "5", "6", "7", "8", "9"];
    for (number, run) in NUMBERS.iter().chain(std::iter::repeat(&"")).zip(changes) {
        columns.push(Column {
            title: number,
            align: CellAlignment::Right,
            ..words("", run.iter().map(|row| figure(row, row.after)).collect())
        });
        columns.push(words("", run.iter().map(judged).collect()));
    }
    let mut text = String::new();
    for (number, name) in (1..).zip(names) {
        text.push_str(&format!("{number}  {}\n", plain(name)));
    }
    text.push('\n');
    for line in draw(&columns).lines() {
        let paint = if line.contains(" worse") {
            Paint::Yellow
        } else {
            Paint::Plain
        };
        text.push_str(&paint.over(line, style.colour));
        text.push('\n');
    }
    text
}

fn figure(row: &Change, value: Option<f64>) -> String {
    if row.what == "error rate" {
        figures::percent(value)
    } else {
        value.map_or_else(|| figures::NOT_MEASURED.to_owned(), figures::level)
    }
}

/// `-12 % worse`, `+3.0 %`, `-8 % within noise`.
fn judged(row: &Change) -> String {
    let change = row.change.map_or_else(String::new, |change| {
        let sign = if change > 0.0 { "+" } else { "" };
        format!("{sign}{} ", figures::percent(Some(change)))
    });
    let word = match row.outcome {
        Outcome::Same => "",
        Outcome::Better => "better",
        Outcome::Worse => "worse",
        Outcome::Unclear => "within noise",
        Outcome::Missing => "not measured",
    };
    format!("{change}{word}").trim_end().to_owned()
}
