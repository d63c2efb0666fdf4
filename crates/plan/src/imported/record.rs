//! Tables that say which levels passed, and give no value to tell it by.

use plimsoll_run::answer::{LevelAnswer, Limit, LimitStatus, Plan};
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::Sla;

use crate::answer::{Demand, answer};

/// The answer where the table says which levels passed, and nothing by which to tell: best, limit, instances and cost are
/// those of the passing levels below the lowest failing one.
pub(super) fn put_record(
    plan: &mut Plan,
    usable: &[RungReport],
    recorded: &[Option<bool>],
    sla: &Sla,
    demand: &Demand,
) {
    let said: Vec<(&RungReport, bool)> = usable
        .iter()
        .zip(recorded)
        .filter(|(rung, _)| rung.validity.may_decide())
        .filter_map(|(rung, pass)| Some((rung, (*pass)?)))
        .collect();
    let levels = |passing: bool| {
        said.iter()
            .filter(move |(_, pass)| *pass == passing)
            .map(|(rung, _)| rung.concurrency)
    };
    let fail = levels(false).min();
    let below = |level: u32| fail.is_none_or(|fail| level < fail);
    let pass = levels(true).filter(|level| below(*level)).max();
    let above = levels(true).filter(|level| !below(*level)).max();
    let passing: Vec<RungReport> = said
        .iter()
        .filter(|(rung, pass)| *pass && below(rung.concurrency))
        .map(|(rung, _)| (*rung).clone())
        .collect();
    let of_passing = answer(&passing, &Sla::default(), demand);
    plan.best = of_passing.best;
    let said_so = |row: LevelAnswer| LevelAnswer {
        reason: format!(
            "{} By what the table says of its levels, without a value.",
            row.reason.replace(" tried", " said to pass")
        ),
        ..row
    };
    plan.largest_throughput_under_sla = of_passing.largest_throughput_under_sla.map(said_so);
    plan.largest_passing = of_passing.largest_passing.map(|row| LevelAnswer {
        reason: match fail {
            Some(fail) => format!(
                "The table says that {} passed, and that {fail} is the lowest that did not.",
                row.concurrency
            ),
            None => format!(
                "The table says that every level up to {} passed.",
                row.concurrency
            ),
        },
        ..row
    });
    plan.instances = of_passing.instances;
    plan.cost = of_passing.cost;
    let status = match (pass, fail) {
        (Some(_), Some(_)) => LimitStatus::Crossed,
        (Some(_), None) => LimitStatus::NotReached,
        (None, Some(_)) => LimitStatus::NeverMet,
        (None, None) => {
            plan.limit = None;
            return;
        }
    };
    let all: Vec<RungReport> = said.iter().map(|(rung, _)| (*rung).clone()).collect();
    let Some(base) = answer(&all, &Sla::default(), demand).limit else {
        return;
    };
    plan.limit = Some(Limit {
        concurrency: pass,
        interval: [pass.map(f64::from), fail.map(f64::from)],
        status,
        binding: match sla.terms.as_slice() {
            [only] => Some(only.to_string()),
            _ => None,
        },
        reason: match (pass, fail) {
            (Some(pass), Some(fail)) => format!(
                "The table says that {pass} passed and {fail}, the lowest that did not, failed; it gives no value."
            ),
            (Some(pass), None) => format!(
                "The table says that every level up to {pass} passed, the highest; it gives no value. The limit lies \
                 at or beyond it."
            ),
            _ => "The table says that the lowest level judged failed; it gives no value.".to_owned(),
        },
        ..base
    });
    if let (Some(fail), Some(above)) = (fail, above) {
        plan.warnings.insert(
            0,
            format!("{fail} fails the SLA although {above} above it passes: the answer stays below the lowest failing level."),
        );
    }
}
