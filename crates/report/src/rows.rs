//! The rung table: its rows in order of level, the marks on them, and the remarks under them.

use plimsoll_run::document::Run;
use plimsoll_run::rung::{Distribution, RungReport};
use plimsoll_run::sla::{Metric, SlaTerm, Stat};
use plimsoll_run::validity::Verdict;

use crate::answer::name_levels;
use crate::conditions::term_words;
use crate::figures::{self, NOT_MEASURED, finite};

/// One rung with its place in the answer.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    /// The rung.
    pub(crate) rung: &'a RungReport,
    /// Whether the best concurrency is this rung's.
    pub(crate) best: bool,
    /// Whether the SLA limit is this rung's.
    pub(crate) limit: bool,
}

impl Row<'_> {
    /// `best`, `limit`, both, or nothing.
    pub(crate) fn mark(&self) -> &'static str {
        match (self.best, self.limit) {
            (true, true) => "best, limit",
            (true, false) => "best",
            (false, true) => "limit",
            (false, false) => "",
        }
    }
}

/// The rungs by level; a level measured more than once keeps its order of measurement.
pub(crate) fn rows(run: &Run) -> Vec<Row<'_>> {
    let mut rungs: Vec<&RungReport> = run.rungs.iter().collect();
    rungs.sort_by_key(|rung| (rung.concurrency, rung.order));
    let best = run
        .plan
        .best
        .as_ref()
        .and_then(|best| deciding(&rungs, best.concurrency, best.output_tokens_per_s));
    let limit = run
        .plan
        .limit
        .as_ref()
        .and_then(|limit| deciding(&rungs, limit.concurrency?, None));
    rungs
        .into_iter()
        .map(|rung| Row {
            rung,
            best: best == Some(rung.order),
            limit: limit == Some(rung.order),
        })
        .collect()
}

/// Which rung at `level` an answer speaks of: the one with the answer's own throughput, else the last that may
/// decide, else the last.
fn deciding(rungs: &[&RungReport], level: u32, throughput: Option<f64>) -> Option<u32> {
    let at_level: Vec<&&RungReport> = rungs.iter().filter(|rung| rung.concurrency == level).collect();
    at_level
        .iter()
        .find(|rung| throughput.is_some() && rung.throughput.output_tokens_per_s == throughput)
        .or_else(|| at_level.iter().rfind(|rung| rung.validity.may_decide()))
        .or(at_level.last())
        .map(|rung| rung.order)
}

/// A latency column's unit: seconds once a value reaches ten of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatencyUnit {
    Milliseconds,
    Seconds,
}

impl LatencyUnit {
    /// For a column of these distributions.
    pub(crate) fn of<'a>(column: impl Iterator<Item = Option<&'a Distribution>>) -> Self {
        let largest = column
            .flatten()
            .flat_map(|known| {
                let shown = [finite(known.p50), finite(known.p95)];
                let mean = finite(known.mean).filter(|_| shown == [None, None]);
                shown.into_iter().chain([mean])
            })
            .flatten()
            .fold(0.0, f64::max);
        LatencyUnit::reaching(largest)
    }

    /// For a column of these values, milliseconds.
    pub(crate) fn of_values(values: impl Iterator<Item = Option<f64>>) -> Self {
        LatencyUnit::reaching(values.filter_map(finite).fold(0.0, f64::max))
    }

    fn reaching(largest_ms: f64) -> Self {
        if largest_ms >= 10_000.0 {
            LatencyUnit::Seconds
        } else {
            LatencyUnit::Milliseconds
        }
    }

    /// Its symbol.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            LatencyUnit::Milliseconds => "ms",
            LatencyUnit::Seconds => "s",
        }
    }

    /// A value in it, without the symbol.
    pub(crate) fn write(self, ms: Option<f64>) -> String {
        match self {
            LatencyUnit::Milliseconds => figures::maybe(ms),
            LatencyUnit::Seconds => figures::maybe(finite(ms).map(|ms| ms / 1e3)),
        }
    }

    /// These percentiles in it; one dash when none was measured. A p99 from too few samples stands with their number.
    pub(crate) fn cell(self, percentiles: Percentiles, distribution: Option<&Distribution>) -> String {
        let Some(known) = distribution else {
            return NOT_MEASURED.to_owned();
        };
        let p99 = finite(known.p99).filter(|_| percentiles == Percentiles::WithP99);
        if finite(known.p50).is_none() && finite(known.p95).is_none() && p99.is_none() {
            return NOT_MEASURED.to_owned();
        }
        let mut cell = format!("{}/{}", self.write(known.p50), self.write(known.p95));
        if percentiles == Percentiles::WithP99 {
            cell.push_str(&format!("/{}", self.write(p99)));
            if p99.is_some() && (1..P99_SAMPLES).contains(&known.n) {
                cell.push_str(&format!(" (n {})", figures::count(known.n)));
            }
        }
        cell
    }
}

/// Fewer samples than this leave a p99 undecided: what an SLA with one wants.
const P99_SAMPLES: u64 = 500;

/// Which percentiles a latency column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Percentiles {
    /// The median and the 95th.
    Usual,
    /// The 99th as well: the SLA asks for it.
    WithP99,
}

impl Percentiles {
    /// For the column of this metric.
    pub(crate) fn of(run: &Run, metric: Metric) -> Self {
        let asked = |term: &SlaTerm| term.metric == metric && term.stat == Some(Stat::P99);
        if run.sla.terms.iter().any(asked) {
            Percentiles::WithP99
        } else {
            Percentiles::Usual
        }
    }

    /// As the column's title says it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Percentiles::Usual => "p50/p95",
            Percentiles::WithP99 => "p50/p95/p99",
        }
    }
}

/// The SLA cell: `met`, `met (low confidence)` from too few samples, `fails ttft.p95`, `inconclusive ttft.p99` where a term could
/// not be decided, or a dash without an SLA.
pub(crate) fn sla_cell(rung: &RungReport) -> String {
    if rung.sla.is_empty() {
        return NOT_MEASURED.to_owned();
    }
    let with = |pass: Option<bool>| {
        let subjects: Vec<String> = rung
            .sla
            .iter()
            .filter(|outcome| outcome.pass == pass)
            .map(|outcome| outcome.term.subject())
            .collect();
        subjects.join(", ")
    };
    match rung.meets_sla() {
        Some(true) if rung.validity.verdict == Verdict::TooFewSamples => "met (low confidence)".to_owned(),
        Some(true) => "met".to_owned(),
        None => format!("inconclusive {}", with(None)),
        Some(false) => format!("fails {}", with(Some(false))),
    }
}

/// What to know about the rungs: each distinct sentence once, with the levels it holds at. Validity reasons first,
/// then failed requests with a sample, then notes on SLA terms.
pub(crate) fn remarks(run: &Run) -> Vec<String> {
    let mut remarks: Vec<(String, Vec<u32>)> = Vec::new();
    let mut say = |sentence: String, level: u32| match remarks.iter_mut().find(|(said, _)| *said == sentence)
    {
        Some((_, levels)) => levels.push(level),
        None => remarks.push((sentence, vec![level])),
    };
    let rows = rows(run);
    for Row { rung, .. } in &rows {
        for reason in &rung.validity.reasons {
            say(
                format!("{}: {reason}", rung.validity.verdict.name()),
                rung.concurrency,
            );
        }
        if rung.validity.reasons.is_empty() && !rung.validity.may_decide() {
            say(rung.validity.verdict.name().to_owned(), rung.concurrency);
        }
    }
    for Row { rung, .. } in &rows {
        for (class, count) in &rung.requests.by_class {
            let sample = rung
                .requests
                .samples
                .get(class)
                .map_or_else(String::new, |sample| format!(", such as: {sample}"));
            say(
                format!(
                    "{} failed ({class}){sample}",
                    figures::counted(*count, "request", "requests")
                ),
                rung.concurrency,
            );
        }
    }
    for Row { rung, .. } in &rows {
        for outcome in &rung.sla {
            if let Some(note) = &outcome.note {
                say(format!("{}: {note}", term_words(&outcome.term)), rung.concurrency);
            }
        }
    }
    remarks
        .into_iter()
        .map(|(sentence, mut levels)| format!("{}: {sentence}", name_levels(&mut levels)))
        .collect()
}
