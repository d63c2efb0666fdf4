//! Latency against concurrency: which SLA term breaks first, and between which levels.

use std::collections::BTreeSet;

use plimsoll_run::answer::LimitStatus;
use plimsoll_run::document::Run;
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::{Metric, SlaTerm, Stat};
use plotly::common::{Anchor, DashType, Line, MarkerSymbol, Mode};
use plotly::layout::{Shape, ShapeLine, ShapeType};
use plotly::{Scatter, Trace};

use super::{Chart, axis, figure, layout, palette};
use crate::answer::is_binding;
use crate::conditions::{subject_words, term_words};
use crate::figures::{self, positive};
use crate::rows::{Row, rows};

/// One line of the chart.
struct Series {
    metric: Metric,
    stat: Stat,
    term: Option<SlaTerm>,
}

impl Series {
    fn name(&self) -> String {
        format!("{} {}", self.metric.name().to_uppercase(), self.stat.name())
    }

    fn colour(&self) -> &'static str {
        match self.metric {
            Metric::Ttft | Metric::Ttfat => palette::ORANGE,
            Metric::Tpot | Metric::Itl => palette::BLUE,
            Metric::E2e | Metric::ErrorRate => palette::GREEN,
        }
    }

    /// Tells two statistics of one metric apart.
    fn dash(&self) -> DashType {
        match self.stat {
            Stat::Mean | Stat::P50 => DashType::Dot,
            Stat::P90 | Stat::P95 => DashType::Solid,
            Stat::P99 | Stat::Max => DashType::LongDash,
        }
    }

    fn symbols(&self) -> (MarkerSymbol, MarkerSymbol) {
        match self.metric {
            Metric::Ttft => (MarkerSymbol::Circle, MarkerSymbol::CircleOpen),
            Metric::Ttfat => (MarkerSymbol::TriangleDown, MarkerSymbol::TriangleDownOpen),
            Metric::Tpot => (MarkerSymbol::Square, MarkerSymbol::SquareOpen),
            Metric::Itl => (MarkerSymbol::TriangleUp, MarkerSymbol::TriangleUpOpen),
            Metric::E2e | Metric::ErrorRate => (MarkerSymbol::Diamond, MarkerSymbol::DiamondOpen),
        }
    }

    /// What the rung showed. Where an SLA term was judged, the value it was judged by: failed requests count as
    /// slower than any success, so a percentile among them has no point.
    fn at(&self, rung: &RungReport) -> Option<f64> {
        let measured = || positive(rung.latency.of(self.metric).and_then(|d| d.stat(self.stat)));
        let Some(term) = self.term else {
            return measured();
        };
        match rung.sla.iter().find(|outcome| outcome.term == term) {
            Some(outcome) if outcome.pass.is_some() => positive(outcome.observed),
            _ => measured(),
        }
    }
}

/// The statistics the SLA names, and the p95 of whichever of TTFT, TPOT and E2E it does not.
fn series(run: &Run) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    let mut seen = BTreeSet::new();
    for term in &run.sla.terms {
        if let Some(stat) = term.stat
            && term.metric != Metric::ErrorRate
            && seen.insert((term.metric, stat))
        {
            series.push(Series {
                metric: term.metric,
                stat,
                term: Some(*term),
            });
        }
    }
    for metric in [Metric::Ttft, Metric::Tpot, Metric::E2e] {
        if !series.iter().any(|series| series.metric == metric) {
            series.push(Series {
                metric,
                stat: Stat::P95,
                term: None,
            });
        }
    }
    series.sort_by_key(|series| (series.metric, series.stat));
    series
}

pub(crate) fn latency(run: &Run) -> Chart {
    let rows = rows(run);
    let series = series(run);
    let shown: Vec<Row<'_>> = rows
        .iter()
        .filter(|row| row.rung.concurrency > 0 && series.iter().any(|series| series.at(row.rung).is_some()))
        .copied()
        .collect();
    Chart {
        id: "latency",
        title: "Latency against concurrency",
        summary: summary(run, &shown, &series),
        figure: draw(run, &shown, &series),
    }
}

fn draw(run: &Run, shown: &[Row<'_>], series: &[Series]) -> Option<String> {
    let (low, high) = super::level_range(shown)?;
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    let mut shapes: Vec<Shape> = Vec::new();
    let mut notes = Vec::new();
    let (mut lowest, mut highest) = (f64::INFINITY, 0.0_f64);
    // What a label at the left of a limit's line might run into: the first points, and the other limits.
    let mut leftmost: Vec<f64> = shown
        .iter()
        .take(2)
        .flat_map(|row| series.iter().filter_map(|series| series.at(row.rung)))
        .collect();
    leftmost.extend(
        series
            .iter()
            .filter_map(|series| series.term)
            .map(|term| term.limit),
    );
    let mut crossing = None;
    let bracket = super::limit_bracket(run, low, high);
    if let Some(bracket) = &bracket {
        shapes.push(super::vertical_band(
            bracket.low,
            bracket.high,
            palette::LIMIT_BAND,
            palette::RED,
        ));
        notes.push(super::throughput::limit_note(bracket, low, high));
    }
    for series in series {
        let mut named = false;
        for believed in [true, false] {
            let points: Vec<(&Row<'_>, f64)> = shown
                .iter()
                .filter(|row| row.rung.validity.may_decide() == believed)
                .filter_map(|row| Some((row, series.at(row.rung)?)))
                .collect();
            if points.is_empty() {
                continue;
            }
            for (_, value) in &points {
                lowest = lowest.min(*value);
                highest = highest.max(*value);
            }
            let (symbol, hollow) = series.symbols();
            traces.push(
                Scatter::new(
                    points
                        .iter()
                        .map(|(row, _)| f64::from(row.rung.concurrency))
                        .collect(),
                    points.iter().map(|(_, value)| *value).collect(),
                )
                .name(series.name())
                .legend_group(series.name())
                .show_legend(!named)
                .mode(if believed {
                    Mode::LinesMarkers
                } else {
                    Mode::Markers
                })
                .marker(super::point(symbol, hollow, believed, series.colour()))
                .line(Line::new().color(series.colour()).width(2.0).dash(series.dash()))
                .hover_text_array(
                    points
                        .iter()
                        .map(|(row, value)| {
                            format!(
                                "level {}<br>{} {}<br>{}",
                                figures::count(row.rung.concurrency),
                                series.name(),
                                figures::latency(Some(*value)),
                                row.rung.validity.verdict.name()
                            )
                        })
                        .collect(),
                )
                .hover_template("%{hovertext}<extra></extra>"),
            );
            named = true;
        }
        let Some(limit) = series.term.and_then(|term| positive(Some(term.limit))) else {
            continue;
        };
        lowest = lowest.min(limit);
        highest = highest.max(limit);
        let binding = series.term.is_some_and(|term| is_binding(run, &term));
        shapes.push(
            Shape::new()
                .shape_type(ShapeType::Line)
                .x_ref("paper")
                .x0(0.0)
                .x1(1.0)
                .y_ref("y")
                .y0(limit)
                .y1(limit)
                .line(
                    ShapeLine::new()
                        .color(series.colour())
                        .width(if binding { 2.5 } else { 1.2 })
                        .dash(if binding { DashType::Solid } else { DashType::Dash }),
                ),
        );
        let words = series.term.map(|term| term_words(&term)).unwrap_or_default();
        let words = words.replace('<', "&lt;");
        notes.push(
            super::note(
                &if binding {
                    format!("<b>{words}</b>, breaks first")
                } else {
                    words
                },
                series.colour(),
            )
            .x_ref("paper")
            .x(0.01)
            .x_anchor(Anchor::Left)
            .y_ref("y")
            .y(limit.log10())
            .y_anchor(if room_above(limit, &leftmost) {
                Anchor::Bottom
            } else {
                Anchor::Top
            }),
        );
        // The crossing: the stretch of the term's line between the passing and the failing level.
        if let (true, Some(bracket), Some(LimitStatus::Crossed)) = (
            binding,
            &bracket,
            run.plan.limit.as_ref().map(|limit| limit.status),
        ) {
            crossing = Some(
                Scatter::new(vec![bracket.low, bracket.high], vec![limit, limit])
                    .name("crossing")
                    .mode(Mode::LinesMarkers)
                    .marker(
                        plotly::common::Marker::new()
                            .symbol(MarkerSymbol::X)
                            .size(9)
                            .color(palette::RED),
                    )
                    .line(Line::new().color(palette::RED).width(5.0))
                    .hover_text(format!(
                        "crosses its limit between levels {} and {}",
                        figures::level(bracket.low),
                        figures::level(bracket.high)
                    ))
                    .hover_template("%{hovertext}<extra></extra>"),
            );
        }
    }
    if let Some(crossing) = crossing {
        traces.push(crossing);
    }
    if highest <= 0.0 {
        return None;
    }
    let layout = layout()
        .x_axis(axis::levels("concurrency (requests in flight)", low, high))
        .y_axis(axis::latencies("", lowest, highest))
        .shapes(shapes)
        .annotations(notes);
    Some(figure(traces, layout))
}

/// Whether a label that stands on a limit's line at the left is clear of the points there: none lies in the
/// stretch just above the line, or more lie just below it. The line itself is no obstacle.
fn room_above(limit: f64, points: &[f64]) -> bool {
    let near = |low: f64, high: f64| {
        points
            .iter()
            .filter(|point| **point != limit && (low..=high).contains(&(**point / limit)))
            .count()
    };
    near(1.0, 2.2) <= near(1.0 / 2.2, 1.0)
}

/// Where the limit lies, as a sentence with a space before it; empty where there is none.
pub(super) fn limit_sentence(run: &Run) -> String {
    let Some(limit) = &run.plan.limit else {
        return String::new();
    };
    let low = figures::positive(limit.interval[0]).map(figures::level);
    let high = figures::positive(limit.interval[1]).map(figures::level);
    match (limit.status, low, high) {
        (LimitStatus::Crossed, Some(low), Some(high)) if limit.estimated => {
            format!(" The SLA breaks between {low} and {high}, read between the levels tried.")
        }
        (LimitStatus::Crossed, Some(low), Some(high)) => {
            format!(" The SLA holds at {low} and breaks at {high}.")
        }
        (LimitStatus::NotReached, Some(low), _) => format!(" The SLA still holds at {low}."),
        (LimitStatus::NeverMet, _, Some(high)) => format!(" The SLA breaks already at {high}."),
        _ => String::new(),
    }
}

fn summary(run: &Run, shown: &[Row<'_>], series: &[Series]) -> String {
    let mut sentences = Vec::new();
    for series in series {
        let at: Vec<(&Row<'_>, f64)> = shown
            .iter()
            .filter_map(|row| Some((row, series.at(row.rung)?)))
            .collect();
        let (Some((first, from)), Some((last, to))) = (at.first(), at.last()) else {
            continue;
        };
        let limit = series
            .term
            .map_or_else(String::new, |term| format!(", limit {}", term.limit_text()));
        if at.len() == 1 {
            sentences.push(format!(
                "{} is {} at level {}{limit}.",
                series.name(),
                figures::latency(Some(*from)),
                figures::count(first.rung.concurrency)
            ));
            continue;
        }
        sentences.push(format!(
            "{} goes from {} at level {} to {} at level {}{limit}.",
            series.name(),
            figures::latency(Some(*from)),
            figures::count(first.rung.concurrency),
            figures::latency(Some(*to)),
            figures::count(last.rung.concurrency),
        ));
    }
    if sentences.is_empty() {
        return "No latency was measured.".to_owned();
    }
    let binding = run.sla.terms.iter().find(|term| is_binding(run, term));
    if let Some(term) = binding {
        sentences.push(format!("{} breaks first.", subject_words(term)));
    }
    let mut text = sentences.join(" ");
    text.push_str(&limit_sentence(run));
    text
}
