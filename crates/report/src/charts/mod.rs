//! The charts of a run, each with a summary in words for whoever cannot see it.
//!
//! Colours are names such as `@blue`: the page replaces them by the reader's light or dark palette.

mod axis;
mod interactivity;
mod latency;
mod throughput;
mod timeline;

use plimsoll_run::answer::LimitStatus;
use plimsoll_run::document::Run;
use plimsoll_run::rung::RungReport;
use plotly::common::{DashType, Font, Line, Marker, MarkerSymbol, Orientation};
use plotly::layout::{
    Annotation, HoverMode, ItemClick, Layout, Legend, Margin, Shape, ShapeLayer, ShapeLine, ShapeType,
};
use plotly::{Plot, Trace};

pub(crate) use interactivity::interactivity;
pub(crate) use latency::latency;
pub(crate) use throughput::throughput;
pub(crate) use timeline::{RungTimeline, timelines};

use crate::figures::positive;
use crate::rows::Row;

/// One chart.
pub(crate) struct Chart {
    /// Names its place in the page.
    pub(crate) id: &'static str,
    /// What it shows.
    pub(crate) title: &'static str,
    /// The same in words.
    pub(crate) summary: String,
    /// The figure, as the plotting script reads it; `None` where there is nothing to show.
    pub(crate) figure: Option<String>,
}

/// Palette names that the page resolves.
mod palette {
    pub(super) const INK: &str = "@ink";
    pub(super) const MUTED: &str = "@muted";
    pub(super) const GRID: &str = "@grid";
    pub(super) const SURFACE: &str = "@surface";
    pub(super) const BLUE: &str = "@blue";
    pub(super) const ORANGE: &str = "@orange";
    pub(super) const GREEN: &str = "@green";
    pub(super) const PURPLE: &str = "@purple";
    pub(super) const RED: &str = "@red";
    pub(super) const KNEE_BAND: &str = "@knee-band";
    pub(super) const LIMIT_BAND: &str = "@limit-band";
    pub(super) const WINDOW_BAND: &str = "@window-band";
    pub(super) const CLEAR: &str = "rgba(0,0,0,0)";
}

/// A layout in the page's own type and colours.
fn layout() -> Layout {
    Layout::new()
        .auto_size(true)
        .font(
            Font::new()
                .family("system-ui, sans-serif")
                .size(13)
                .color(palette::INK),
        )
        .paper_background_color(palette::CLEAR)
        .plot_background_color(palette::CLEAR)
        .hover_mode(HoverMode::Closest)
        .show_legend(true)
        .margin(Margin::new().left(62).right(18).top(34).bottom(52))
        .legend(
            Legend::new()
                .orientation(Orientation::Horizontal)
                .x(0.0)
                .item_click(ItemClick::False)
                .item_double_click(ItemClick::False),
        )
}

/// The figure as the plotting script reads it.
fn figure(traces: Vec<Box<dyn Trace>>, layout: Layout) -> String {
    let mut plot = Plot::new();
    plot.add_traces(traces);
    plot.set_layout(layout);
    plot.to_json()
}

/// The ring around the best level's point.
fn best_ring() -> Marker {
    Marker::new()
        .symbol(MarkerSymbol::CircleOpen)
        .size(18)
        .color(palette::GREEN)
        .line(Line::new().width(3.0).color(palette::GREEN))
}

/// A marker, hollow where the rung may not be believed.
fn point(symbol: MarkerSymbol, hollow: MarkerSymbol, believed: bool, colour: &'static str) -> Marker {
    Marker::new()
        .symbol(if believed { symbol } else { hollow })
        .size(9)
        .color(colour)
        .line(Line::new().width(if believed { 0.0 } else { 2.0 }).color(colour))
}

/// A note without an arrow. On a logarithmic axis its coordinate is the logarithm.
fn note(text: &str, colour: &'static str) -> Annotation {
    Annotation::new()
        .text(text)
        .show_arrow(false)
        .font(Font::new().size(12).color(colour))
}

/// Levels that two sides enclose, drawn from top to bottom of the chart.
fn vertical_band(low: f64, high: f64, fill: &'static str, edge: &'static str) -> Shape {
    Shape::new()
        .shape_type(ShapeType::Rect)
        .layer(ShapeLayer::Below)
        .x_ref("x")
        .x0(low)
        .x1(high)
        .y_ref("paper")
        .y0(0.0)
        .y1(1.0)
        .fill_color(fill)
        .line(ShapeLine::new().color(edge).width(1.0).dash(DashType::Dot))
}

/// The bracket of the SLA limit, as far as it can be drawn; an open side reaches the edge of the chart.
struct LimitBracket {
    low: f64,
    high: f64,
    label: String,
}

fn limit_bracket(run: &Run, low: f64, high: f64) -> Option<LimitBracket> {
    let limit = run.plan.limit.as_ref()?;
    let (left, right) = axis::log_edges(low, high);
    let from = positive(limit.interval[0]).or_else(|| limit.concurrency.map(f64::from).filter(|l| *l > 0.0));
    let to = positive(limit.interval[1]);
    match limit.status {
        LimitStatus::Crossed => Some(LimitBracket {
            low: from?,
            high: to.or(from)?,
            label: "SLA limit".to_owned(),
        }),
        LimitStatus::NotReached => Some(LimitBracket {
            low: from?,
            high: right,
            label: "SLA limit here or beyond".to_owned(),
        }),
        LimitStatus::NeverMet => Some(LimitBracket {
            low: left,
            high: to?,
            label: "SLA limit below".to_owned(),
        }),
    }
}

/// The levels of rows that can stand on a logarithmic axis, lowest and highest.
fn level_range(rows: &[Row<'_>]) -> Option<(f64, f64)> {
    let levels = || {
        rows.iter()
            .map(|row| row.rung.concurrency)
            .filter(|level| *level > 0)
    };
    Some((f64::from(levels().min()?), f64::from(levels().max()?)))
}

/// Tokens per second where they are known at any level, else requests per second.
fn throughput_of(rung: &RungReport, tokens: bool) -> Option<f64> {
    positive(if tokens {
        rung.throughput.output_tokens_per_s
    } else {
        rung.throughput.requests_per_s
    })
}
