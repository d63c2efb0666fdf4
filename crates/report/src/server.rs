//! The server's own side: what its metrics said of each rung beside what the client saw, and what binds by them. Shared by every
//! format for people.

use plimsoll_run::document::Run;
use plimsoll_run::rung::RungReport;

use crate::answer::Headline;
use crate::figures::{self, NOT_MEASURED, finite};
use crate::rows::{LatencyUnit, rows};

/// The table's name.
pub(crate) const TITLE: &str = "The server's own side";

/// One column of the table.
pub(crate) struct Column {
    /// What it is.
    pub(crate) title: &'static str,
    /// Its unit or statistics.
    pub(crate) unit: String,
    /// One cell a rung, in order of level.
    pub(crate) cells: Vec<String>,
    /// Whether its cells are words.
    pub(crate) words: bool,
}

/// The columns that any rung has something for, behind that of the levels; none at all where no server told anything.
pub(crate) fn columns(run: &Run) -> Vec<Column> {
    let rows = rows(run);
    let column = |title, unit: &str, write: &dyn Fn(&RungReport) -> String| Column {
        title,
        unit: unit.to_owned(),
        cells: rows.iter().map(|row| write(row.rung)).collect(),
        words: false,
    };
    let client = |rung: &RungReport| rung.latency.ttft_ms.as_ref().and_then(|ttft| ttft.mean);
    let unit = LatencyUnit::of_values(
        rows.iter()
            .flat_map(|row| [client(row.rung), row.rung.server.ttft_mean_ms]),
    );
    let mut columns = vec![
        column("running", "mean/max", &|rung| {
            mean_and_max(rung.server.running_mean, rung.server.running_max)
        }),
        column("waiting", "mean/max", &|rung| {
            mean_and_max(rung.server.waiting_mean, rung.server.waiting_max)
        }),
        column("KV cache", "most used", &|rung| {
            figures::percent(rung.server.kv_cache_usage_max)
        }),
        column("prefix", "cache hits", &|rung| {
            figures::percent(rung.server.prefix_cache_hit_rate)
        }),
        column("cached", "by usage", &|rung| {
            figures::percent(rung.server.usage_cached_share)
        }),
        column("preemptions", "", &|rung| {
            rung.server
                .preemptions
                .map_or_else(|| NOT_MEASURED.to_owned(), figures::count)
        }),
        column("queue", &format!("mean {}", unit.symbol()), &|rung| {
            unit.write(rung.server.queue_mean_ms)
        }),
        column("TTFT there", &format!("mean {}", unit.symbol()), &|rung| {
            unit.write(rung.server.ttft_mean_ms)
        }),
    ];
    columns.retain(|column| column.cells.iter().any(|cell| cell != NOT_MEASURED));
    if columns.is_empty() {
        return columns;
    }
    if rows.iter().any(|row| row.rung.server.ttft_mean_ms.is_some()) {
        columns.push(column("TTFT here", &format!("mean {}", unit.symbol()), &|rung| {
            unit.write(client(rung))
        }));
    }
    if let Some(bound) = &run.plan.bound {
        let binds = column("binds", "", &|rung| {
            bound
                .levels
                .iter()
                .find(|level| level.concurrency == rung.concurrency)
                .map_or_else(|| NOT_MEASURED.to_owned(), |level| level.by.name().to_owned())
        });
        columns.push(Column { words: true, ..binds });
    }
    let level = column("level", "", &|rung| figures::count(rung.concurrency));
    columns.insert(0, level);
    columns
}

fn mean_and_max(mean: Option<f64>, max: Option<u32>) -> String {
    match (finite(mean), max) {
        (Some(mean), Some(max)) => format!("{}/{}", figures::number(mean), figures::count(max)),
        (None, Some(max)) => figures::count(max),
        (mean, None) => figures::maybe(mean),
    }
}

/// What keeps throughput from growing, where the server tells.
pub(crate) fn bound(run: &Run) -> Option<Headline> {
    let bound = run.plan.bound.as_ref()?;
    Some(Headline {
        name: "Bound by",
        figure: bound.by.name().to_owned(),
        unit: "by the server's own metrics",
        range: Some(format!("seen at {}", figures::count(bound.concurrency))),
        details: Vec::new(),
        reason: bound.reason.clone(),
        explain: true,
    })
}
