//! `report.html`: one self-contained file that opens offline.
//!
//! The page reads without its script: numbers, summaries of the charts, table and conditions are plain HTML. The
//! script draws the charts from figures that stand in the page as JSON.

mod escape;
mod sections;
mod server;

use plimsoll_run::document::Run;
use plimsoll_run::rung::TimelineSecond;

use crate::answer;
use crate::charts::{Chart, RungTimeline, interactivity, latency, throughput, timelines as courses};
use crate::other_answers::other_answers;
use crate::verified::verified;

/// The report as one HTML file. `timelines` holds `(order, seconds)` for each rung whose timeline was kept.
#[must_use]
pub fn html(run: &Run, timelines: &[(u32, Vec<TimelineSecond>)]) -> String {
    let charts = [throughput(run), latency(run), interactivity(run)];
    let timelines = courses(run, timelines);
    let heading = format!(
        "Load line of {}",
        run.target.model.as_deref().unwrap_or(&run.target.url)
    );
    let cards: String = answer::planning_numbers(run).iter().map(sections::card).collect();
    let minor_cards: String = other_answers(run)
        .iter()
        .chain(&verified(run))
        .map(sections::card)
        .collect();
    escape::fill(
        include_str!("page.html"),
        &[
            ("title", &escape::text(&format!("{heading}: Plimsoll"))),
            ("heading", &escape::text(&heading)),
            ("subheading", &sections::subheading(run)),
            ("version", &escape::text(&run.version)),
            ("css", include_str!("page.css")),
            ("cards", &cards),
            ("minor_cards", &minor_cards),
            ("warnings", &sections::warnings(run)),
            ("charts", &charts.iter().map(sections::chart).collect::<String>()),
            ("timelines", &sections::timelines(&timelines)),
            ("table", &sections::table(run)),
            ("remarks", &(sections::remarks(run) + &server::server(run))),
            ("conditions", &sections::conditions(run)),
            ("plotting_script", &plotting_script()),
            ("figures", &escape::json(&figures(&charts, &timelines))),
            ("js", include_str!("page.js")),
        ],
    )
}

/// Parts of the report for a page that shows a run among other things. They need [`STYLE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragments {
    /// The three planning numbers, each in a few characters.
    pub numbers: [String; 3],
    /// The same as cards, with intervals and reasons.
    pub cards: String,
    /// What to know before relying on them; empty where there is nothing.
    pub warnings: String,
    /// The rung table and the remarks under it. It is labelled by an element `rungs-title`.
    pub rungs: String,
}

/// The style of the report.
pub const STYLE: &str = include_str!("page.css");

/// The parts of a run's report that are plain HTML.
#[must_use]
pub fn fragments(run: &Run) -> Fragments {
    let numbers = answer::planning_numbers(run);
    Fragments {
        cards: numbers.iter().map(sections::card).collect(),
        numbers: numbers.map(|headline| headline.figure),
        warnings: sections::warnings(run),
        rungs: sections::table(run) + &sections::remarks(run),
    }
}

/// Text from outside as HTML shows it, in an element or in a quoted attribute.
#[must_use]
pub fn html_text(text: &str) -> String {
    escape::text(text)
}

/// The figures as one JSON object: `charts` by id, `timelines` by the order of their rung.
fn figures(charts: &[Chart], timelines: &[RungTimeline]) -> String {
    let charts: Vec<String> = charts
        .iter()
        .filter_map(|chart| Some(format!("\"{}\":{}", chart.id, chart.figure.as_ref()?)))
        .collect();
    let timelines: Vec<String> = timelines
        .iter()
        .map(|timeline| {
            let summary = serde_json::Value::from(timeline.summary.as_str());
            format!(
                "\"{}\":{{\"summary\":{summary},\"figure\":{}}}",
                timeline.order, timeline.figure
            )
        })
        .collect();
    format!(
        "{{\"charts\":{{{}}},\"timelines\":{{{}}}}}",
        charts.join(","),
        timelines.join(",")
    )
}

/// The plotting script in its element. The crate hands it out followed by one for formulas, of which the page has
/// none.
fn plotting_script() -> String {
    const END: &str = "</script>";
    let mut scripts = plotly::Plot::offline_js_sources();
    if let Some(at) = scripts.find(END) {
        scripts.truncate(at + END.len());
    }
    scripts
}
