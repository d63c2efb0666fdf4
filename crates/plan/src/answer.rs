//! From the rungs of a run to its planning numbers.

use plimsoll_run::answer::{KneeStatus, Plan};
use plimsoll_run::document::Run;
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::Sla;
use plimsoll_run::validity::Verdict;

pub use crate::fleet::Routing;
pub use crate::instances::Demand;

use crate::bound::bound;
use crate::instances::{cost, instances};
use crate::knee::{despite_failures, knee};
use crate::levels::{Curve, Level, Standing, curve, curve_despite_failures, levels};
use crate::limit::{best, crossing, find, limit};
use crate::onset::onset;
use crate::outlier::outlier;
use crate::rows::{decline, efficient, largest_passing, largest_throughput};
use crate::wording::{figure, percent};

/// The planning numbers that follow from the rungs, judged against this SLA (not the one they were measured under),
/// with reasons and warnings as plain sentences. What could not be given is `None`.
///
/// Only rungs that may be believed decide, with two exceptions: the throughput of a buffered stream counts for the
/// knee, and a level at which too many requests fail counts as failing the SLA.
#[must_use]
pub fn answer(rungs: &[RungReport], sla: &Sla, demand: &Demand) -> Plan {
    answer_for(rungs, sla, Some(demand))
}

/// The same; `None` asks for no instances.
pub(crate) fn answer_for(rungs: &[RungReport], sla: &Sla, demand: Option<&Demand>) -> Plan {
    let levels = levels(rungs, sla);
    let curve = curve(&levels);
    let queue_onset = onset(&levels);
    let at_limit = find(&levels, rungs, sla).row;
    let judged = levels
        .iter()
        .any(|level| matches!(level.standing, Standing::Passes | Standing::Fails));
    let instances = demand.and_then(|demand| instances(&levels, at_limit, judged, demand));
    let cost = demand.and_then(|demand| cost(&levels, at_limit, instances.as_ref(), demand));
    let knee = knee(&curve).or_else(|| despite_failures(&curve_despite_failures(&levels)));
    let mut plan = Plan {
        best: best(&levels, sla, curve.tokens),
        limit: limit(&levels, rungs, sla, queue_onset.as_ref()),
        bound: bound(&levels, knee.as_ref()),
        knee,
        queue_onset,
        decline: decline(&curve),
        largest_passing: largest_passing(&levels, sla),
        largest_throughput_under_sla: largest_throughput(&levels, sla, curve.tokens),
        efficient_point: efficient(&levels),
        instances,
        cost,
        warnings: Vec::new(),
    };
    plan.warnings = warnings(&plan, &levels, &curve, rungs, demand);
    plan
}

/// Whether a run's answer may be relied upon: a rung may decide, or one stands behind something that buffers the stream and
/// the question did not need the stream; and the rungs tell what the SLA asks, or without one anything at all. (Of an imported table, terms that it cannot
/// tell are left out of the answer with a warning.) That a level fails because too many requests do is no measurement of it.
#[must_use]
pub fn trustworthy(run: &Run) -> bool {
    let plan = &run.plan;
    let buffered = |rung: &RungReport| rung.validity.verdict == Verdict::StreamBuffered;
    let believed = run.rungs.iter().any(|rung| rung.validity.may_decide())
        || (run.rungs.iter().any(buffered) && (plan.best.is_some() || plan.limit.is_some()));
    let answered = if run.sla.terms.is_empty() || run.table.is_some() {
        plan.limit.is_some() || plan.best.is_some() || plan.knee.is_some()
    } else {
        plan.limit.is_some()
    };
    believed && answered
}

fn warnings(
    plan: &Plan,
    levels: &[Level],
    curve: &Curve,
    rungs: &[RungReport],
    demand: Option<&Demand>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if let (Some(fail), Some(above)) = (crossing(levels).fail, crossing(levels).above) {
        warnings.push(format!(
            "{} fails the SLA although {} above it passes: the answer stays below the lowest failing level.",
            fail.level, above.level
        ));
    }
    if plan.limit.is_none() {
        warnings.push(if levels.is_empty() {
            "Nothing was measured.".to_owned()
        } else {
            "No level could be judged against the SLA; see the verdicts of the rungs.".to_owned()
        });
    }
    let buffered: Vec<String> = levels
        .iter()
        .filter(|level| level.rung.validity.verdict == Verdict::StreamBuffered)
        .map(|level| level.level.to_string())
        .collect();
    if !buffered.is_empty() {
        warnings.push(format!(
            "Something buffers the stream at {}: TTFT, TPOT and ITL are not used there, throughput and E2E are.",
            buffered.join(", ")
        ));
    }
    for level in levels {
        match level.standing {
            Standing::Unknown => {
                let note = level
                    .outcomes
                    .iter()
                    .filter(|outcome| outcome.pass.is_none())
                    .find_map(|outcome| {
                        Some(format!("{}: {}", outcome.term.subject(), outcome.note.as_ref()?))
                    });
                warnings.push(format!(
                    "{} counts neither as passing nor as failing ({}).",
                    level.level,
                    note.unwrap_or_else(|| "a term could not be evaluated".to_owned())
                ));
            }
            Standing::Invalid => warnings.push(format!(
                "{} decides nothing: {}.",
                level.level,
                level.rung.validity.verdict.name()
            )),
            Standing::Passes | Standing::Fails => {}
        }
        if level.times > 1 {
            warnings.extend(disagreement(level, rungs));
        }
    }
    if let Some(outlier) = outlier(curve) {
        warnings.push(format!(
            "Throughput at {} lies far {} what its neighbours suggest; measure it again before trusting what lies around it.",
            outlier.level,
            outlier.side()
        ));
    }
    warnings.extend(plan.decline.as_ref().map(|decline| decline.reason.clone()));
    if let Some(knee) = &plan.knee
        && knee.status == KneeStatus::NotSaturated
        && plan
            .limit
            .as_ref()
            .is_some_and(|limit| limit.interval[1].is_none())
    {
        warnings.push(format!(
            "Neither throughput nor the SLA was exhausted at {}; higher levels would tell more.",
            figure(knee.concurrency)
        ));
    }
    let Some(demand) = demand else {
        return warnings;
    };
    match &plan.instances {
        None => warnings
            .push("The number of instances needs a peak; give --peak, such as --peak 40rps.".to_owned()),
        Some(instances) if instances.count.is_some_and(|count| count > 1) => {
            warnings.push(format!(
                "The count takes {} of linear scaling for granted; four replicas have been seen to do the work of 2.9 to \
                 3.5.",
                percent(demand.scaling_efficiency)
            ));
        }
        Some(_) => {}
    }
    warnings
}

/// A level whose believable rungs pass and fail.
fn disagreement(level: &Level, rungs: &[RungReport]) -> Option<String> {
    let sla = Sla {
        terms: level.outcomes.iter().map(|outcome| outcome.term).collect(),
    };
    let standings: Vec<Standing> = rungs
        .iter()
        .filter(|rung| rung.concurrency == level.level)
        .filter_map(|rung| {
            let alone = levels(std::slice::from_ref(rung), &sla);
            Some(alone.first()?.standing)
        })
        .collect();
    (standings.contains(&Standing::Passes) && standings.contains(&Standing::Fails)).then(|| {
        format!(
            "{} was measured {} times and both passed and failed; it stands by the last.",
            level.level, level.times
        )
    })
}
