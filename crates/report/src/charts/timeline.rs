//! The course of a rung, second by second: requests in flight, tokens per second, median TTFT.

use plimsoll_run::document::Run;
use plimsoll_run::rung::TimelineSecond;
use plotly::common::{Anchor, DashType, Line, LineShape, Mode};
use plotly::layout::{AxisRange, Shape, ShapeLayer, ShapeLine, ShapeType};
use plotly::{Scatter, Trace};

use super::{axis, figure, layout, palette};
use crate::figures::{self, finite};
use crate::rows::rows;

/// The course of one rung.
pub(crate) struct RungTimeline {
    /// Which rung, from 1.
    pub(crate) order: u32,
    /// What to call it in a list.
    pub(crate) label: String,
    /// Whether it is the one to show first.
    pub(crate) first: bool,
    /// The same in words.
    pub(crate) summary: String,
    /// The figure, as the plotting script reads it.
    pub(crate) figure: String,
}

/// The courses of all rungs that have one, by level. The best level's comes first to the eye.
pub(crate) fn timelines(run: &Run, timelines: &[(u32, Vec<TimelineSecond>)]) -> Vec<RungTimeline> {
    let rows = rows(run);
    let mut drawn: Vec<RungTimeline> = Vec::new();
    for row in &rows {
        let course = timelines
            .iter()
            .find(|(order, seconds)| *order == row.rung.order && !seconds.is_empty());
        let Some((order, seconds)) = course else { continue };
        let again = rows.iter().any(|other| {
            other.rung.concurrency == row.rung.concurrency && other.rung.order != row.rung.order
        });
        let mut label = figures::count(row.rung.concurrency);
        if again {
            label.push_str(&format!(" (rung {order})"));
        }
        if !row.mark().is_empty() {
            label.push_str(&format!(", {}", row.mark()));
        }
        drawn.push(RungTimeline {
            order: *order,
            label,
            first: row.best,
            summary: summary(row.rung.concurrency, seconds),
            figure: draw(row.rung.concurrency, seconds),
        });
    }
    if !drawn.iter().any(|timeline| timeline.first)
        && let Some(timeline) = drawn.first_mut()
    {
        timeline.first = true;
    }
    drawn
}

/// Seconds of the window: the first and the end of the last that lie wholly in it.
fn window(seconds: &[TimelineSecond]) -> Option<(u32, u32)> {
    let inside = || seconds.iter().filter(|second| second.in_window);
    let opens = inside().map(|second| second.second).min()?;
    let closes = inside().map(|second| second.second).max()?;
    Some((opens, closes.saturating_add(1)))
}

fn draw(level: u32, seconds: &[TimelineSecond]) -> String {
    // Three panels, the first on top.
    let panels = [
        ("requests in flight", "y", [0.72, 0.97], palette::BLUE),
        ("output tokens/s", "y2", [0.37, 0.62], palette::GREEN),
        ("TTFT p50, ms", "y3", [0.02, 0.27], palette::ORANGE),
    ];
    let read: [fn(&TimelineSecond) -> Option<f64>; 3] = [
        |second| finite(Some(second.in_flight)),
        |second| finite(Some(second.output_tokens)),
        |second| finite(second.ttft_p50_ms),
    ];
    let x: Vec<u32> = seconds.iter().map(|second| second.second).collect();
    let end = x.iter().max().map_or(1, |last| last.saturating_add(1));
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    let mut shapes = Vec::new();
    let mut notes = Vec::new();
    let mut axes = Vec::new();
    if let Some((opens, closes)) = window(seconds) {
        shapes.push(
            Shape::new()
                .shape_type(ShapeType::Rect)
                .layer(ShapeLayer::Below)
                .x_ref("x")
                .x0(opens)
                .x1(closes)
                .y_ref("paper")
                .y0(0.0)
                .y1(1.0)
                .fill_color(palette::WINDOW_BAND)
                .line(ShapeLine::new().width(0.0)),
        );
    }
    shapes.push(
        Shape::new()
            .shape_type(ShapeType::Line)
            .x_ref("paper")
            .x0(0.0)
            .x1(1.0)
            .y_ref("y")
            .y0(level)
            .y1(level)
            .line(
                ShapeLine::new()
                    .color(palette::MUTED)
                    .width(1.0)
                    .dash(DashType::Dot),
            ),
    );
    for ((name, y_axis, domain, colour), read) in panels.into_iter().zip(read) {
        let values: Vec<Option<f64>> = seconds.iter().map(read).collect();
        let mut top = values.iter().flatten().copied().fold(0.0, f64::max);
        if y_axis == "y" {
            top = top.max(f64::from(level));
        }
        let mode = if y_axis == "y3" {
            Mode::LinesMarkers
        } else {
            Mode::Lines
        };
        traces.push(
            Scatter::new(x.clone(), values)
                .name(name)
                .mode(mode)
                .line(Line::new().color(colour).width(1.8).shape(LineShape::Linear))
                .marker(plotly::common::Marker::new().size(4).color(colour))
                .x_axis("x")
                .y_axis(y_axis)
                .show_legend(false)
                .hover_template(format!("second %{{x}}<br>%{{y:,.4~g}} {name}<extra></extra>")),
        );
        notes.push(
            super::note(name, colour)
                .x_ref("paper")
                .x(0.0)
                .x_anchor(Anchor::Left)
                .y_ref("paper")
                .y(domain[1])
                .y_anchor(Anchor::Bottom),
        );
        axes.push(axis::from_zero("", top).domain(&domain).n_ticks(4));
    }
    let mut axes = axes.into_iter();
    let mut next = || axes.next().unwrap_or_default();
    let layout = layout()
        .x_axis(
            axis::axis("seconds since the rung began")
                .range(AxisRange::new(0.0, f64::from(end)))
                .n_ticks(8)
                .anchor("y3"),
        )
        .y_axis(next())
        .y_axis2(next())
        .y_axis3(next())
        .shapes(shapes)
        .annotations(notes);
    figure(traces, layout)
}

fn summary(level: u32, seconds: &[TimelineSecond]) -> String {
    let last = seconds.iter().map(|second| second.second).max().unwrap_or(0);
    let course = match window(seconds) {
        Some((opens, closes)) => {
            format!("the measured window, shaded, runs from second {opens} to {closes}")
        }
        None => "no measured window opened".to_owned(),
    };
    let failed: u64 = seconds.iter().map(|second| u64::from(second.failed)).sum();
    let failures = if failed == 0 {
        String::new()
    } else {
        format!(" {} failed.", figures::counted(failed, "request", "requests"))
    };
    format!(
        "Level {}, {} long: {course}.{failures}",
        figures::count(level),
        figures::counted(u64::from(last).saturating_add(1), "second", "seconds")
    )
}
