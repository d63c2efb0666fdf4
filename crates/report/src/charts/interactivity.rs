//! Throughput against interactivity: what the endpoint yields against how fast each user reads.

use plimsoll_run::document::Run;
use plimsoll_run::rung::RungReport;
use plotly::common::{Font, Line, MarkerSymbol, Mode, Position};
use plotly::layout::{Axis, AxisRange};
use plotly::{Scatter, Trace};

use super::{Chart, axis, figure, layout, palette};
use crate::figures::{self, positive};
use crate::rows::{Row, rows};

/// Tokens per second that one user sees: 1000 over the median TPOT in milliseconds.
fn per_user(rung: &RungReport) -> Option<f64> {
    let tpot = positive(rung.latency.tpot_ms.as_ref().and_then(|tpot| tpot.p50))?;
    positive(Some(1000.0 / tpot))
}

/// A rung in the plane of the chart.
struct Point<'a> {
    row: Row<'a>,
    x: f64,
    y: f64,
}

pub(crate) fn interactivity(run: &Run) -> Chart {
    let points: Vec<Point<'_>> = rows(run)
        .into_iter()
        .filter_map(|row| {
            Some(Point {
                row,
                x: per_user(row.rung)?,
                y: super::throughput_of(row.rung, true)?,
            })
        })
        .collect();
    Chart {
        id: "interactivity",
        title: "Throughput against interactivity",
        summary: summary(&points),
        figure: draw(&points),
    }
}

fn draw(points: &[Point<'_>]) -> Option<String> {
    let right = points.iter().map(|point| point.x).reduce(f64::max)?;
    let top = points.iter().map(|point| point.y).fold(0.0, f64::max);
    let labelled = labelled(points, right, top);
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    for believed in [true, false] {
        let chosen: Vec<(&Point<'_>, bool)> = points
            .iter()
            .zip(labelled.iter().copied())
            .filter(|(point, _)| point.row.rung.validity.may_decide() == believed)
            .collect();
        if chosen.is_empty() {
            continue;
        }
        traces.push(
            Scatter::new(
                chosen.iter().map(|(point, _)| point.x).collect(),
                chosen.iter().map(|(point, _)| point.y).collect(),
            )
            .name(if believed {
                "rung, labelled by level"
            } else {
                "rung not to be believed"
            })
            .mode(if believed {
                Mode::LinesMarkersText
            } else {
                Mode::MarkersText
            })
            .marker(super::point(
                MarkerSymbol::Circle,
                MarkerSymbol::CircleOpen,
                believed,
                palette::BLUE,
            ))
            .line(Line::new().color(palette::BLUE).width(1.5))
            .text_array(
                chosen
                    .iter()
                    .map(|(point, labelled)| {
                        if *labelled {
                            figures::count(point.row.rung.concurrency)
                        } else {
                            String::new()
                        }
                    })
                    .collect(),
            )
            .text_position(Position::TopRight)
            .text_font(Font::new().size(12).color(palette::MUTED))
            .clip_on_axis(false)
            .hover_text_array(chosen.iter().map(|(point, _)| hover(point)).collect())
            .hover_template("%{hovertext}<extra></extra>"),
        );
    }
    if let Some(best) = points.iter().find(|point| point.row.best) {
        traces.push(
            Scatter::new(vec![best.x], vec![best.y])
                .name(format!(
                    "best concurrency, {}",
                    figures::count(best.row.rung.concurrency)
                ))
                .mode(Mode::Markers)
                .marker(super::best_ring())
                .hover_info(plotly::common::HoverInfo::Skip),
        );
    }
    let x: Axis = axis::axis("tokens/s per user (1000 / TPOT p50)")
        .range(AxisRange::new(0.0, right * 1.12))
        .n_ticks(7);
    let layout = layout().x_axis(x).y_axis(axis::from_zero("output tokens/s", top));
    Some(figure(traces, layout))
}

/// Which points have room for their label: the best always, any other unless a labelled one is near.
fn labelled(points: &[Point<'_>], right: f64, top: f64) -> Vec<bool> {
    let mut labelled: Vec<bool> = points.iter().map(|point| point.row.best).collect();
    for at in 0..points.len() {
        let crowded = (0..points.len()).any(|other| {
            other != at
                && labelled[other]
                && ((points[at].x - points[other].x) / right).abs() < 0.06
                && ((points[at].y - points[other].y) / top).abs() < 0.06
        });
        labelled[at] |= !crowded;
    }
    labelled
}

fn hover(point: &Point<'_>) -> String {
    format!(
        "level {}<br>{} tokens/s per user<br>{} output tokens/s<br>{}",
        figures::count(point.row.rung.concurrency),
        figures::number(point.x),
        figures::number(point.y),
        point.row.rung.validity.verdict.name()
    )
}

fn summary(points: &[Point<'_>]) -> String {
    let say = |point: &Point<'_>| {
        format!(
            "at level {} each user sees {} tokens/s and the endpoint yields {} output tokens/s",
            figures::count(point.row.rung.concurrency),
            figures::number(point.x),
            figures::number(point.y)
        )
    };
    match (points.first(), points.last()) {
        (Some(first), Some(last)) => {
            let best = points
                .iter()
                .find(|point| point.row.best)
                .map_or_else(String::new, |best| format!(" Best: {}.", say(best)));
            let mut text = say(first);
            if points.len() > 1 {
                text.push_str(&format!("; {}", say(last)));
            }
            text.replace_range(..1, "A");
            format!("{text}.{best}")
        }
        _ => "Tokens per second per user were not measured.".to_owned(),
    }
}
