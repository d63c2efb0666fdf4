//! The server's own side: a table under the rung table.

use plimsoll_run::document::Run;

use super::escape::text;
use crate::server::{TITLE, columns};

/// The table under its heading; nothing where no server told anything.
pub(super) fn server(run: &Run) -> String {
    let columns = columns(run);
    let Some((levels, rest)) = columns.split_first() else {
        return String::new();
    };
    let class = |words: bool| if words { " class=\"words\"" } else { "" };
    let head: String = columns
        .iter()
        .map(|column| {
            format!(
                "<th scope=\"col\"{}>{}<small>{}</small></th>",
                class(column.words),
                column.title,
                column.unit
            )
        })
        .collect();
    let body: String = levels
        .cells
        .iter()
        .enumerate()
        .map(|(at, level)| {
            let cells: String = rest
                .iter()
                .map(|column| format!("<td{}>{}</td>", class(column.words), text(&column.cells[at])))
                .collect();
            format!("<tr><th scope=\"row\">{level}</th>{cells}</tr>")
        })
        .collect();
    format!(
        "<h3 id=\"server-title\">{TITLE}</h3><div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-labelledby=\"server-title\"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
}
