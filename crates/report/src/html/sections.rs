//! The parts of the page that are plain HTML.

use plimsoll_run::document::{Run, Status};
use plimsoll_run::rung::{AskedActual, RungReport};
use plimsoll_run::sla::Metric;

use super::escape::text;
use crate::answer::{self, Headline};
use crate::charts::{Chart, RungTimeline};
use crate::conditions;
use crate::figures::{self, finite};
use crate::rows::{self, LatencyUnit, Percentiles, Row, rows, sla_cell};

/// Target, time and status under the title.
pub(super) fn subheading(run: &Run) -> String {
    let status = conditions::status_word(run.status);
    let status = if run.status == Status::Complete {
        status.to_owned()
    } else {
        format!("<strong class=\"bad\">{status}</strong>")
    };
    format!(
        "{} · <span class=\"whole\">{}</span> · {status}",
        text(&conditions::target_line(run)),
        text(&run.started_at)
    )
}

/// A number with its interval and reason.
pub(super) fn card(headline: &Headline) -> String {
    let words = headline.figure.chars().count() > 8;
    let mut html = format!(
        "<article class=\"card\"><h3>{}</h3><p class=\"figure{}\">{}</p><p class=\"unit\">{}</p>",
        headline.name,
        if words { " words" } else { "" },
        text(&headline.figure),
        headline.unit
    );
    if let Some(range) = &headline.range {
        html.push_str(&format!("<p class=\"range\">{}</p>", text(range)));
    }
    if !headline.reason.is_empty() {
        html.push_str(&format!("<p>{}</p>", text(&headline.reason)));
    }
    if !headline.details.is_empty() {
        html.push_str(&format!(
            "<p class=\"details\">{}</p>",
            text(&headline.details.join("; "))
        ));
    }
    html.push_str("</article>");
    html
}

/// What to know before relying on the numbers; nothing where there is nothing.
pub(super) fn warnings(run: &Run) -> String {
    let warnings = answer::warnings(run);
    if warnings.is_empty() {
        return String::new();
    }
    format!(
        "<section class=\"warnings\" aria-labelledby=\"warnings-title\"><h2 id=\"warnings-title\">Before you rely on \
         these numbers</h2>{}</section>",
        list("", &warnings)
    )
}

/// A chart's place, with its summary.
pub(super) fn chart(chart: &Chart) -> String {
    let Chart {
        id, title, summary, ..
    } = chart;
    let summary = text(summary);
    if chart.figure.is_none() {
        return format!("<section><h2>{title}</h2><p class=\"empty\">{summary}</p></section>");
    }
    format!(
        "<section class=\"plot\"><h2>{title}</h2><figure><div class=\"chart js-only\" id=\"{id}\" role=\"img\" \
         aria-label=\"{summary}\"></div><figcaption>{summary}</figcaption></figure></section>"
    )
}

/// The courses of the rungs: one chart, and a choice of level.
pub(super) fn timelines(timelines: &[RungTimeline]) -> String {
    const TITLE: &str = "Course of each rung";
    if timelines.is_empty() {
        return format!(
            "<section><h2>{TITLE}</h2><p class=\"empty\">No timelines were kept with this run.</p></section>"
        );
    }
    let choices: String = timelines
        .iter()
        .map(|timeline| {
            format!(
                "<label><input type=\"radio\" name=\"rung\" value=\"{}\"{}><span>{}</span></label>",
                timeline.order,
                if timeline.first { " checked" } else { "" },
                text(&timeline.label)
            )
        })
        .collect();
    let summaries: Vec<String> = timelines
        .iter()
        .map(|timeline| timeline.summary.clone())
        .collect();
    let first = timelines
        .iter()
        .find(|timeline| timeline.first)
        .map_or_else(String::new, |timeline| text(&timeline.summary));
    format!(
        "<section class=\"plot\"><h2>{TITLE}</h2><div class=\"js-only\"><fieldset><legend>Level</legend>\
         <div class=\"choices\">{choices}</div></fieldset></div><figure>\
         <div class=\"chart tall js-only\" id=\"timeline\" role=\"img\" aria-label=\"{first}\"></div>\
         <figcaption id=\"timeline-summary\" class=\"js-only\" aria-live=\"polite\">{first}</figcaption></figure>\
         <noscript>{}</noscript></section>",
        list("", &summaries)
    )
}

/// The rung table.
pub(super) fn table(run: &Run) -> String {
    let rows = rows(run);
    if rows.is_empty() {
        return "<p class=\"empty\">No rung was measured.</p>".to_owned();
    }
    let unit = |read: fn(&RungReport) -> Option<&plimsoll_run::rung::Distribution>| {
        LatencyUnit::of(rows.iter().map(|row| read(row.rung)))
    };
    let ttft = unit(|rung| rung.latency.ttft_ms.as_ref());
    let tpot = unit(|rung| rung.latency.tpot_ms.as_ref());
    let e2e = unit(|rung| rung.latency.e2e_ms.as_ref());
    let asked = [Metric::Ttft, Metric::Tpot, Metric::E2e].map(|metric| Percentiles::of(run, metric));
    let heading = |at: usize, unit: LatencyUnit| format!("{} {}", asked[at].words(), unit.symbol());
    let head: String = [
        ("level", String::new()),
        ("achieved", "in flight".to_owned()),
        ("req/s", String::new()),
        ("output", "tokens/s".to_owned()),
        ("TTFT", heading(0, ttft)),
        ("TPOT", heading(1, tpot)),
        ("E2E", heading(2, e2e)),
        ("requests", String::new()),
        ("errors", String::new()),
    ]
    .iter()
    .map(|(title, unit)| format!("<th scope=\"col\">{title}<small>{unit}</small></th>"))
    .chain(
        ["SLA", "verdict", "answer"]
            .iter()
            .map(|title| format!("<th scope=\"col\" class=\"words\">{title}<small></small></th>")),
    )
    .collect();
    let body: String = rows
        .iter()
        .map(|row| table_row(row, [ttft, tpot, e2e], asked))
        .collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"rungs-title\"><table><thead><tr>{head}\
         </tr></thead><tbody>{body}</tbody></table></div>"
    )
}

fn table_row(row: &Row<'_>, [ttft, tpot, e2e]: [LatencyUnit; 3], asked: [Percentiles; 3]) -> String {
    let rung = row.rung;
    let interval = rung
        .throughput
        .output_tokens_ci95
        .and_then(|interval| figures::interval(interval, figures::number))
        .map_or_else(String::new, |range| {
            format!("<span class=\"interval\">{range}</span>")
        });
    let class = if row.best || row.limit {
        " class=\"chosen\""
    } else if !rung.validity.may_decide() {
        " class=\"doubted\""
    } else {
        ""
    };
    let cells: String = [
        figures::maybe(rung.in_flight.mean),
        figures::maybe(rung.throughput.requests_per_s),
        format!(
            "{}{interval}",
            figures::maybe(rung.throughput.output_tokens_per_s)
        ),
        ttft.cell(asked[0], rung.latency.ttft_ms.as_ref()),
        tpot.cell(asked[1], rung.latency.tpot_ms.as_ref()),
        e2e.cell(asked[2], rung.latency.e2e_ms.as_ref()),
        figures::count(rung.requests.sent),
        figures::percent(rung.error_rate()),
    ]
    .iter()
    .map(|cell| format!("<td>{cell}</td>"))
    .collect();
    let sla_class = match rung.meets_sla() {
        Some(true) if !rung.sla.is_empty() => "words met",
        Some(false) => "words fails",
        _ => "words",
    };
    format!(
        "<tr{class}><th scope=\"row\">{}</th>{cells}<td class=\"{sla_class}\">{}</td><td class=\"words\">{}</td>\
         <td class=\"words\">{}</td></tr>",
        figures::count(rung.concurrency),
        text(&sla_cell(rung)),
        rung.validity.verdict.name(),
        row.mark()
    )
}

/// The remarks under the table.
pub(super) fn remarks(run: &Run) -> String {
    let remarks = rows::remarks(run);
    if remarks.is_empty() {
        String::new()
    } else {
        list(" class=\"remarks\"", &remarks)
    }
}

/// What the numbers hold under.
pub(super) fn conditions(run: &Run) -> String {
    let mut items: Vec<(&str, String)> = Vec::new();
    let mut item = |name: &'static str, value: String| items.push((name, text(&value)));
    item("Target", run.target.url.clone());
    item("Dialect", run.target.dialect.to_string());
    if let Some(model) = &run.target.model {
        item("Model", model.clone());
    }
    if let Some(engine) = conditions::engine(run) {
        item("Engine", engine);
    }
    for (key, value) in &run.target.serving_config {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        item("Serving configuration", format!("{key} = {value}"));
    }
    if let Some(fingerprint) = &run.target.fingerprint {
        item("Serving fingerprint", fingerprint.clone());
    }
    item("Workload", conditions::workload_line(run));
    for (name, lengths) in [
        (
            "Prompt tokens, mean of a rung",
            lengths(run, |rung| rung.lengths.input),
        ),
        (
            "Reply tokens, mean of a rung",
            lengths(run, |rung| rung.lengths.output),
        ),
    ] {
        if let Some(lengths) = lengths {
            item(name, lengths);
        }
    }
    item("Workload digest", run.workload_digest.clone());
    item("Seed", run.seed.to_string());
    item("SLA", conditions::sla_line(&run.sla));
    if let Some(peak) = conditions::peak_line(run) {
        item("Peak", peak);
    }
    if let Some(price) = finite(run.price_per_hour) {
        item(
            "Price of one replica",
            format!("{} {} an hour", figures::money(price), run.currency),
        );
    }
    item("Client", client(run));
    item("Began", run.started_at.clone());
    if let Some(ended) = &run.ended_at {
        item("Ended", ended.clone());
    }
    item("Plimsoll", run.version.clone());
    for note in &run.notes {
        item("Note", note.clone());
    }
    items.push(("Command", format!("<code>{}</code>", text(&run.command))));
    let mut html = String::from("<dl>");
    let mut last = "";
    for (name, value) in items {
        if name != last {
            html.push_str(&format!("<dt>{name}</dt>"));
        }
        html.push_str(&format!("<dd>{value}</dd>"));
        last = name;
    }
    html.push_str("</dl>");
    html
}

/// Asked against actual over the rungs; `None` where nothing was counted.
fn lengths(run: &Run, read: impl Fn(&RungReport) -> AskedActual) -> Option<String> {
    let span = |values: Vec<f64>| {
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        figures::interval([Some(low), Some(high)], figures::number)
    };
    let lengths: Vec<AskedActual> = run.rungs.iter().map(read).collect();
    let asked = span(lengths.iter().filter_map(|length| finite(length.asked)).collect());
    let actual = span(
        lengths
            .iter()
            .filter_map(|length| finite(length.actual))
            .collect(),
    );
    match (asked, actual) {
        (Some(asked), Some(actual)) => Some(format!("{actual} seen, {asked} asked for")),
        (None, Some(actual)) => Some(format!("{actual} seen")),
        (Some(asked), None) => Some(format!("{asked} asked for, none counted")),
        (None, None) => None,
    }
}

fn client(run: &Run) -> String {
    let mut parts = vec![figures::counted(u64::from(run.client.cores), "core", "cores")];
    if !run.client.platform.is_empty() {
        parts.push(run.client.platform.clone());
    }
    if let Some(ceiling) = finite(run.client.ceiling_tokens_per_s) {
        parts.push(format!("ceiling {} tokens/s", figures::number(ceiling)));
    }
    parts.join(", ")
}

fn list(attributes: &str, items: &[String]) -> String {
    let items: String = items
        .iter()
        .map(|item| format!("<li>{}</li>", text(item)))
        .collect();
    format!("<ul{attributes}>{items}</ul>")
}
