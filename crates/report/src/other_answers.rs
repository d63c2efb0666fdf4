//! What the rungs answer besides the three planning numbers: where throughput stops growing and where requests start to wait,
//! the levels that other questions lead to, and what it costs.

use plimsoll_run::answer::{KneeStatus, LevelAnswer};
use plimsoll_run::document::Run;

use crate::answer::{Headline, absent, throughput_unit};
use crate::figures::{self, NOT_MEASURED, finite};
use crate::server::bound;

/// All of them that are known, in the order in which they are shown. A level that is also the best, or the limit, is not named
/// twice.
pub(crate) fn other_answers(run: &Run) -> Vec<Headline> {
    let plan = &run.plan;
    let best = plan.best.as_ref().map(|best| best.concurrency);
    let limit = plan
        .limit
        .as_ref()
        .filter(|limit| !limit.estimated)
        .and_then(|limit| limit.concurrency);
    let unless = |answer: &'_ Option<LevelAnswer>, known: &[Option<u32>]| {
        answer
            .as_ref()
            .filter(|answer| !known.contains(&Some(answer.concurrency)))
            .cloned()
    };
    [
        Some(knee(run)),
        decline(run),
        queue_onset(run),
        bound(run),
        unless(&plan.largest_throughput_under_sla, &[best])
            .map(|answer| level("Most throughput", "under the SLA", answer)),
        unless(&plan.largest_passing, &[limit, best])
            .map(|answer| level("Largest passing", "of the levels tried", answer)),
        plan.efficient_point
            .clone()
            .map(|answer| level("Efficient point", "requests in flight", answer)),
        cost(run),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn level(name: &'static str, unit: &'static str, answer: LevelAnswer) -> Headline {
    let rate = match finite(answer.output_tokens_per_s) {
        Some(rate) => Some(format!("{} output tokens/s", figures::number(rate))),
        None => finite(answer.requests_per_s).map(|rate| format!("{} requests/s", figures::number(rate))),
    };
    Headline {
        name,
        figure: figures::count(answer.concurrency),
        unit,
        range: rate,
        details: Vec::new(),
        reason: answer.reason,
        explain: false,
    }
}

/// Where throughput stops growing.
fn knee(run: &Run) -> Headline {
    let name = "Knee";
    let unit = "requests in flight";
    let Some(knee) = &run.plan.knee else {
        return absent(
            name,
            "Too few levels to see where throughput stops growing.".to_owned(),
        );
    };
    let Some(at) = finite(Some(knee.concurrency)).map(figures::level) else {
        return absent(name, knee.reason.clone());
    };
    let (figure, range) = match knee.status {
        KneeStatus::Saturated => (
            at,
            figures::interval(knee.interval, figures::number).map(|range| format!("{range}, 90 % interval")),
        ),
        KneeStatus::NotSaturated => (
            format!("above {at}"),
            Some("throughput still grew at the highest level".to_owned()),
        ),
    };
    let details = finite(knee.plateau)
        .map(|plateau| format!("plateau {} {}", figures::number(plateau), throughput_unit(run)))
        .into_iter()
        .collect();
    Headline {
        name,
        figure,
        unit,
        range,
        details,
        reason: knee.reason.clone(),
        explain: false,
    }
}

/// Where throughput falls again, where it does.
fn decline(run: &Run) -> Option<Headline> {
    let decline = run.plan.decline.as_ref()?;
    Some(Headline {
        name: "Decline",
        figure: figures::percent(Some(decline.loss)),
        unit: "less throughput",
        range: Some(format!(
            "at {} than at {}",
            figures::count(decline.to),
            figures::count(decline.from)
        )),
        details: Vec::new(),
        reason: decline.reason.clone(),
        explain: false,
    })
}

/// Where requests start to wait, where it is known.
fn queue_onset(run: &Run) -> Option<Headline> {
    let onset = run.plan.queue_onset.as_ref()?;
    Some(Headline {
        name: "Queue onset",
        figure: finite(Some(onset.concurrency)).map_or_else(|| NOT_MEASURED.to_owned(), figures::number),
        unit: "requests in flight",
        range: None,
        details: Vec::new(),
        reason: onset.reason.clone(),
        explain: false,
    })
}

/// What the answer costs, where a price was given.
fn cost(run: &Run) -> Option<Headline> {
    let cost = run.plan.cost.as_ref()?;
    let mut details = Vec::new();
    if let (Some(price), Some(load)) = (finite(cost.per_million_at_mean_load), finite(cost.mean_load)) {
        details.push(format!(
            "{} {} at the mean load, taken as {} of the peak (--mean-load)",
            figures::money(price),
            cost.currency,
            figures::percent(Some(load))
        ));
    }
    if let Some(price) = finite(cost.fleet_per_hour) {
        details.push(format!(
            "{} {} an hour for all replicas",
            figures::money(price),
            cost.currency
        ));
    }
    Some(Headline {
        name: "Cost",
        figure: finite(cost.per_million_output_tokens).map_or_else(
            || NOT_MEASURED.to_owned(),
            |price| format!("{} {}", figures::money(price), cost.currency),
        ),
        unit: "per million output tokens, each replica at its safe rate",
        range: None,
        details,
        reason: String::new(),
        explain: false,
    })
}
