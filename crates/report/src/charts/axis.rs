//! Axes with ticks a person would choose.

use plotly::common::{Font, Title};
use plotly::layout::{Axis, AxisRange, AxisType};

use super::palette;

/// An axis in the page's colours.
pub(super) fn axis(title: &str) -> Axis {
    let axis = Axis::new()
        .grid_color(palette::GRID)
        .line_color(palette::GRID)
        .zero_line(false)
        .auto_margin(true)
        .fixed_range(false);
    if title.is_empty() {
        axis
    } else {
        axis.title(Title::with_text(title).font(Font::new().size(13).color(palette::MUTED)))
    }
}

/// A linear axis from 0 with room above `high`, thousands separated.
pub(super) fn from_zero(title: &str, high: f64) -> Axis {
    let top = if high.is_finite() && high > 0.0 {
        high * 1.15
    } else {
        1.0
    };
    axis(title)
        .range(AxisRange::new(0.0, top))
        .tick_format(if top < 10.0 { "," } else { ",.0f" })
        .n_ticks(7)
}

/// The range of a logarithmic axis around `low..=high` (both above zero), with a little air, as logarithms.
pub(super) fn log_range(low: f64, high: f64) -> (f64, f64) {
    let (low, high) = (low.log10(), high.log10());
    let air = ((high - low) * 0.07).max(0.1);
    (low - air, high + air)
}

/// The values at the edges of a logarithmic axis around `low..=high`.
pub(super) fn log_edges(low: f64, high: f64) -> (f64, f64) {
    let (from, to) = log_range(low, high);
    (10_f64.powf(from), 10_f64.powf(to))
}

/// A logarithmic axis of levels: powers of two, as many as have room.
pub(super) fn levels(title: &str, low: f64, high: f64) -> Axis {
    let (from, to) = log_range(low, high);
    let first = low.log2().floor().max(0.0);
    let last = high.log2().ceil();
    // Eight labels fit on a phone.
    let step = ((last - first) / 7.0).ceil().max(1.0);
    let mut values = Vec::new();
    let mut exponent = first;
    while exponent <= last {
        values.push(exponent.exp2());
        exponent += step;
    }
    let text = values.iter().map(|level| crate::figures::level(*level)).collect();
    axis(title)
        .type_(AxisType::Log)
        .range(AxisRange::new(from, to))
        .tick_values(values)
        .tick_text(text)
}

/// A logarithmic axis of latencies in milliseconds: decades, with 2 and 5 between them where there are few.
pub(super) fn latencies(title: &str, low: f64, high: f64) -> Axis {
    let (from, to) = log_range(low, high);
    let steps: &[f64] = if to - from < 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let mut values = Vec::new();
    let mut decade = from.floor();
    while decade <= to.ceil() {
        for step in steps {
            values.push(step * 10_f64.powf(decade));
        }
        decade += 1.0;
    }
    let text = values.iter().map(|ms| tick(*ms)).collect();
    axis(title)
        .type_(AxisType::Log)
        .range(AxisRange::new(from, to))
        .tick_values(values)
        .tick_text(text)
}

/// A round latency: `20 ms`, `5 s`.
fn tick(ms: f64) -> String {
    let (value, unit) = if ms < 0.9 {
        (ms * 1e3, "us")
    } else if ms < 900.0 {
        (ms, "ms")
    } else {
        (ms / 1e3, "s")
    };
    if value < 0.9 {
        format!("{value:.1e} {unit}")
    } else {
        format!("{} {unit}", crate::figures::level(value.round()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        for (ms, text) in [
            (0.5, "500 us"),
            (1.0, "1 ms"),
            (200.0, "200 ms"),
            (1000.0, "1 s"),
            (5e6, "5,000 s"),
        ] {
            assert_eq!(tick(ms), text);
        }
    }

    #[test]
    fn a_single_level_still_has_a_range() {
        let (from, to) = log_range(64.0, 64.0);
        assert!(from < to);
    }
}
