//! Throughput against concurrency: where it stops growing, where it is best, where the SLA breaks.

use plimsoll_run::answer::KneeStatus;
use plimsoll_run::document::Run;
use plimsoll_run::rung::Interval;
use plotly::Scatter;
use plotly::Trace;
use plotly::common::{Anchor, DashType, ErrorData, ErrorType, HoverInfo, Line, MarkerSymbol, Mode};
use plotly::layout::{Annotation, Shape};

use super::{Chart, LimitBracket, axis, figure, layout, palette};
use crate::answer::{has_tokens, throughput_unit};
use crate::figures::{self, finite, positive};
use crate::rows::{Row, rows};

pub(crate) fn throughput(run: &Run) -> Chart {
    let rows = rows(run);
    let tokens = has_tokens(run);
    let shown: Vec<Row<'_>> = rows
        .iter()
        .filter(|row| row.rung.concurrency > 0 && super::throughput_of(row.rung, tokens).is_some())
        .copied()
        .collect();
    Chart {
        id: "throughput",
        title: "Throughput against concurrency",
        summary: summary(run, &shown, tokens),
        figure: draw(run, &shown, tokens),
    }
}

fn draw(run: &Run, shown: &[Row<'_>], tokens: bool) -> Option<String> {
    let (low, high) = super::level_range(shown)?;
    let unit = throughput_unit(run);
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    for believed in [true, false] {
        let points: Vec<&Row<'_>> = shown
            .iter()
            .filter(|row| row.rung.validity.may_decide() == believed)
            .collect();
        if points.is_empty() {
            continue;
        }
        let (name, mode) = if believed {
            ("rung, with 95 % interval", Mode::LinesMarkers)
        } else {
            ("rung not to be believed", Mode::Markers)
        };
        let errors: Vec<(f64, f64)> = points.iter().map(|row| error(row, tokens)).collect();
        traces.push(
            Scatter::new(
                points.iter().map(|row| f64::from(row.rung.concurrency)).collect(),
                points
                    .iter()
                    .map(|row| super::throughput_of(row.rung, tokens))
                    .collect(),
            )
            .name(name)
            .mode(mode)
            .marker(super::point(
                MarkerSymbol::Circle,
                MarkerSymbol::CircleOpen,
                believed,
                palette::BLUE,
            ))
            .line(Line::new().color(palette::BLUE).width(2.0))
            .error_y(
                ErrorData::new(ErrorType::Data)
                    .symmetric(false)
                    .array(errors.iter().map(|(_, above)| *above).collect())
                    .array_minus(errors.iter().map(|(below, _)| *below).collect())
                    .color(palette::BLUE)
                    .thickness(1.5)
                    .width(4),
            )
            .hover_text_array(points.iter().map(|row| hover(row, unit, tokens)).collect())
            .hover_template("%{hovertext}<extra></extra>"),
        );
    }
    let (mut shapes, mut notes) = knee_band(run, axis::log_edges(low, high).1);
    if let Some(best) = shown.iter().find(|row| row.best) {
        let at = f64::from(best.rung.concurrency);
        let value = super::throughput_of(best.rung, tokens);
        traces.push(
            Scatter::new(vec![at], vec![value])
                .name("best concurrency")
                .mode(Mode::Markers)
                .marker(super::best_ring())
                .hover_info(HoverInfo::Skip),
        );
        let label = if best.limit { "best, limit" } else { "best" };
        notes.push(
            super::note(
                &format!("<b>{label} {}</b>", figures::count(best.rung.concurrency)),
                palette::GREEN,
            )
            .background_color(palette::SURFACE)
            .x_ref("x")
            .x(at.log10())
            .y_ref("y")
            .y(value.unwrap_or(0.0))
            .y_anchor(Anchor::Bottom)
            .y_shift(14.0),
        );
    }
    if let Some(bracket) = super::limit_bracket(run, low, high) {
        shapes.push(super::vertical_band(
            bracket.low,
            bracket.high,
            palette::LIMIT_BAND,
            palette::RED,
        ));
        notes.push(limit_note(&bracket, low, high));
    }
    let top = shown
        .iter()
        .filter_map(|row| super::throughput_of(row.rung, tokens))
        .fold(0.0, f64::max);
    let layout = layout()
        .x_axis(axis::levels("concurrency (requests in flight)", low, high))
        .y_axis(axis::from_zero(unit, top * 1.12))
        .shapes(shapes)
        .annotations(notes);
    Some(figure(traces, layout))
}

/// How far the interval reaches below and above the point; 0 where a side is open.
fn error(row: &Row<'_>, tokens: bool) -> (f64, f64) {
    let (Some(value), Some(interval)) = (super::throughput_of(row.rung, tokens), interval(row, tokens))
    else {
        return (0.0, 0.0);
    };
    let reach = |side: Option<f64>, away: fn(f64, f64) -> f64| {
        finite(side).map_or(0.0, |side| away(side, value).max(0.0))
    };
    (
        reach(interval[0], |side, value| value - side),
        reach(interval[1], |side, value| side - value),
    )
}

fn interval(row: &Row<'_>, tokens: bool) -> Option<Interval> {
    if tokens {
        row.rung.throughput.output_tokens_ci95
    } else {
        row.rung.throughput.requests_ci95
    }
}

fn hover(row: &Row<'_>, unit: &str, tokens: bool) -> String {
    let value = figures::maybe(super::throughput_of(row.rung, tokens));
    let interval = interval(row, tokens)
        .and_then(|interval| figures::interval(interval, figures::number))
        .map_or_else(String::new, |range| format!("<br>{range} (95 %)"));
    format!(
        "level {}<br>{value} {unit}{interval}<br>{}",
        figures::count(row.rung.concurrency),
        row.rung.validity.verdict.name()
    )
}

/// The knee with its interval, or from where it may lie to the chart's right `edge`, labelled at the foot of the chart.
fn knee_band(run: &Run, edge: f64) -> (Vec<Shape>, Vec<Annotation>) {
    let Some(knee) = &run.plan.knee else {
        return (Vec::new(), Vec::new());
    };
    let Some(at) = positive(Some(knee.concurrency)) else {
        return (Vec::new(), Vec::new());
    };
    let (from, to, label) = match knee.status {
        KneeStatus::Saturated => (
            positive(knee.interval[0]).unwrap_or(at),
            positive(knee.interval[1]).unwrap_or(at),
            format!("knee {}", figures::number(at)),
        ),
        KneeStatus::NotSaturated => (at, edge.max(at), "knee beyond".to_owned()),
    };
    let band = super::vertical_band(from, to, palette::KNEE_BAND, palette::PURPLE);
    let line = super::vertical_band(at, at, palette::KNEE_BAND, palette::PURPLE).line(
        plotly::layout::ShapeLine::new()
            .color(palette::PURPLE)
            .width(1.5)
            .dash(DashType::Dash),
    );
    let label = super::note(&label, palette::PURPLE)
        .x_ref("x")
        .x(from.log10())
        .x_anchor(Anchor::Right)
        .x_shift(-4.0)
        .y_ref("paper")
        .y(0.02)
        .y_anchor(Anchor::Bottom);
    (vec![band, line], vec![label])
}

/// The limit's label above the chart, reaching into it rather than out of it.
pub(super) fn limit_note(bracket: &LimitBracket, low: f64, high: f64) -> Annotation {
    let middle = (bracket.low * bracket.high).sqrt();
    let right = middle > (low * high).sqrt();
    super::note(&bracket.label, palette::RED)
        .x_ref("x")
        .x((if right { bracket.high } else { bracket.low }).log10())
        .x_anchor(if right { Anchor::Right } else { Anchor::Left })
        .y_ref("paper")
        .y(1.0)
        .y_anchor(Anchor::Bottom)
}

fn summary(run: &Run, shown: &[Row<'_>], tokens: bool) -> String {
    let unit = throughput_unit(run);
    let (Some(first), Some(last)) = (shown.first(), shown.last()) else {
        return "No throughput was measured.".to_owned();
    };
    let say = |row: &Row<'_>| {
        format!(
            "{} {unit} at level {}",
            figures::maybe(super::throughput_of(row.rung, tokens)),
            figures::count(row.rung.concurrency)
        )
    };
    let mut text = if shown.len() == 1 {
        format!("Throughput is {}.", say(first))
    } else {
        format!("Throughput goes from {} to {}.", say(first), say(last))
    };
    if let Some(best) = shown.iter().find(|row| row.best) {
        text.push_str(&format!(" It is best with {}.", say(best)));
    }
    if let Some(knee) = &run.plan.knee {
        let at = figures::maybe(Some(knee.concurrency));
        text.push_str(&match knee.status {
            KneeStatus::Saturated => format!(" It stops growing at the knee, {at}."),
            KneeStatus::NotSaturated => {
                format!(" It still grew at the highest level; the knee is above {at}.")
            }
        });
    }
    text.push_str(&super::latency::limit_sentence(run));
    text
}
