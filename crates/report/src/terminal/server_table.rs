//! The server's own side as a second, smaller table.

use comfy_table::CellAlignment;
use plimsoll_run::document::Run;

use super::Style;
use super::rung_table::{Column, draw, widest};
use super::text::{Paint, plain};
use crate::server;

/// The table under a line with its name; nothing where no server told anything. A terminal too narrow does without the last
/// columns but one, which says what binds.
pub(super) fn server_table(run: &Run, style: &Style) -> String {
    let mut columns: Vec<Column> = server::columns(run)
        .into_iter()
        .map(|column| Column {
            title: column.title,
            unit: column.unit,
            cells: column.cells.iter().map(|cell| plain(cell)).collect(),
            sacrifice: 0,
            align: if column.words {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            },
        })
        .collect();
    if columns.is_empty() {
        return String::new();
    }
    let mut text = draw(&columns);
    if let Some(width) = style.width {
        while widest(&text) > usize::from(width) && columns.len() > 3 {
            columns.remove(columns.len() - 2);
            text = draw(&columns);
        }
    }
    format!("\n{}\n{text}", Paint::Bold.over(server::TITLE, style.colour))
}
