//! What a person or a machine reads of a run.
//!
//! Every format is an arrangement of the same [`Run`](plimsoll_run::document::Run); none computes a number that the
//! plan decides. The words are shared, so that all formats say the same:
//!
//! | what it says | module |
//! |---|---|
//! | how a figure is written | `figures` |
//! | the planning numbers and caveats in words | `answer` |
//! | target, workload, SLA and peak in words | `conditions` |
//! | the rung table, its marks and remarks | `rows` |
//! | the charts and their text summaries | `charts` |
//!
//! | for whom | function |
//! |---|---|
//! | a terminal | [`terminal::table`], [`terminal::rung_line`], [`terminal::answer`] |
//! | a design document or pull request | [`markdown()`] |
//! | a spreadsheet | [`csv()`] |
//! | a browser, offline | [`html()`], in parts [`fragments`] |
//! | a CI system | [`junit()`] |
//! | tools that read AIPerf's files | [`aiperf()`], [`aiperf_profile`], [`aiperf_search_history`] |
//! | runs side by side | [`terminal::comparison`] |
//!
//! Tables that someone else measured come in by [`import`](mod@import).
//!
//! Percent appears only on screen; files keep fractions. What was not measured is a dash on screen and blank in a
//! file.

mod aiperf;
mod answer;
mod charts;
mod conditions;
mod figures;
mod html;
pub mod import;
mod junit;
mod markdown;
mod other_answers;
mod rows;
mod rung_csv;
mod server;
pub mod terminal;
mod verified;

pub use aiperf::{aiperf, aiperf_profile, aiperf_search_history};
pub use html::{Fragments, STYLE, fragments, html, html_text};
pub use junit::junit;
pub use markdown::markdown;
pub use rung_csv::csv;

/// A report that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The table would not become CSV.
    #[error("rung table as CSV: {0}; report this as a bug with the run.json")]
    Csv(#[from] ::csv::Error),
    /// The CSV could not be finished.
    #[error("rung table as CSV: {0}; report this as a bug with the run.json")]
    Unfinished(String),
    /// The tests would not become XML.
    #[error("tests as JUnit XML: {0}; report this as a bug with the run.json")]
    Junit(String),
}
