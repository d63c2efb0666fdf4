//! The answer in words: the planning numbers with their interval and reason, and what to know before relying on
//! them. Shared by every format for people.

use plimsoll_run::answer::LimitStatus;
use plimsoll_run::document::{Run, Status};
use plimsoll_run::evidence::StampSource;
use plimsoll_run::peak::Peak;
use plimsoll_run::rung::RungReport;
use plimsoll_run::sla::SlaTerm;
use plimsoll_run::validity::Verdict;

use crate::conditions::subject_words;
use crate::figures::{self, NOT_MEASURED, counted, finite};

/// One number of the answer.
pub(crate) struct Headline {
    /// What it is.
    pub(crate) name: &'static str,
    /// The number, `none`, or a dash.
    pub(crate) figure: String,
    /// What it counts; empty beside a dash.
    pub(crate) unit: &'static str,
    /// Its interval or bracket.
    pub(crate) range: Option<String>,
    /// What holds at it.
    pub(crate) details: Vec<String>,
    /// Why it is what it is.
    pub(crate) reason: String,
    /// Whether the number says little without its reason, which then stands beside it where there is little room, too.
    pub(crate) explain: bool,
}

/// The three planning numbers: best concurrency, SLA limit, instances.
pub(crate) fn planning_numbers(run: &Run) -> [Headline; 3] {
    [best(run), limit(run), instances(run)]
}

fn best(run: &Run) -> Headline {
    let name = "Best concurrency";
    let unit = "requests in flight";
    let Some(best) = &run.plan.best else {
        return absent(name, not_given(run));
    };
    let mut details = Vec::new();
    let rates: Vec<String> = [
        finite(best.output_tokens_per_s).map(|rate| format!("{} output tokens/s", figures::number(rate))),
        finite(best.requests_per_s).map(|rate| format!("{} requests/s", figures::number(rate))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !rates.is_empty() {
        details.push(format!("{} at that level", rates.join(" and ")));
    }
    details.extend(low_confidence(run, Some(best.concurrency)));
    let range = figures::interval(best.interval, figures::level).map(|range| {
        if range == figures::count(best.concurrency) {
            "no other level comes within 2 %".to_owned()
        } else {
            format!("levels {range} cannot be told apart")
        }
    });
    Headline {
        name,
        figure: figures::count(best.concurrency),
        unit,
        range,
        details,
        reason: best.reason.clone(),
        explain: true,
    }
}

fn limit(run: &Run) -> Headline {
    let name = "SLA limit";
    let unit = "requests in flight";
    let Some(limit) = &run.plan.limit else {
        let reason = if run.sla.terms.is_empty() {
            "No SLA was given; name one with --sla 'ttft.p95<=500ms'.".to_owned()
        } else {
            not_given(run)
        };
        return absent(name, reason);
    };
    let low = finite(limit.interval[0]).map(figures::level);
    let high = finite(limit.interval[1]).map(figures::level);
    let (figure, unit, range) = match (limit.status, limit.concurrency) {
        (LimitStatus::Crossed, Some(level)) => {
            let low = low.unwrap_or_else(|| figures::count(level));
            let range = high.map(|high| {
                if limit.estimated {
                    // Nobody tried these levels: they bound where the line crosses.
                    format!("read between the levels tried; {low} to {high}, 95 % interval")
                } else {
                    format!("{low} passes, {high} fails")
                }
            });
            (figures::count(level), unit, range)
        }
        (LimitStatus::NotReached, Some(level)) => (
            format!("{} or more", figures::count(level)),
            unit,
            Some("every level tried passes".to_owned()),
        ),
        (LimitStatus::NeverMet, _) => {
            let range = high.map(|high| format!("{high} fails already"));
            ("none".to_owned(), "of the levels tried", range)
        }
        (_, None) => (NOT_MEASURED.to_owned(), "", None),
    };
    let mut details: Vec<String> = limit
        .binding
        .iter()
        .map(|binding| {
            let known = run.sla.terms.iter().find(|term| is_binding(run, term)).copied();
            // An SLA that names no error rate has one all the same.
            let term = known.or_else(|| binding.parse().ok());
            let name = term.map_or_else(|| binding.clone(), |term| subject_words(&term));
            format!("{name} breaks first")
        })
        .collect();
    // A limit read off a line rests on no rung of its own.
    details.extend(low_confidence(
        run,
        limit.concurrency.filter(|_| !limit.estimated),
    ));
    Headline {
        name,
        figure,
        unit,
        range,
        details,
        reason: limit.reason.clone(),
        explain: true,
    }
}

fn instances(run: &Run) -> Headline {
    let name = "Instances";
    let Some(instances) = &run.plan.instances else {
        let reason = if run.peak.is_none() {
            "No peak was given; name one with --peak 40rps or --peak 3000users:think=20s.".to_owned()
        } else {
            not_given(run)
        };
        return absent(name, reason);
    };
    let range = finite(instances.per_instance_per_s).map(|rate| {
        let share = finite(instances.safe_fraction).map_or_else(String::new, |fraction| {
            format!(
                ", {} of the throughput at the limit",
                figures::percent(Some(fraction))
            )
        });
        format!(
            "each may be given up to {} requests/s{share}",
            figures::number(rate)
        )
    });
    let mut details = Vec::new();
    if let (Some(peak), Some(Peak::Users { .. })) = (finite(instances.peak_per_s), &run.peak) {
        details.push(format!("the users send {} requests/s", figures::number(peak)));
    }
    if let Some(headroom) = finite(instances.headroom) {
        details.push(format!(
            "{} headroom at the peak",
            figures::percent(Some(headroom))
        ));
    }
    if instances.spares > 0 {
        details.push(format!(
            "{} among them",
            counted(instances.spares, "spare", "spares")
        ));
    }
    let (figure, unit) = match instances.count {
        Some(1) => ("1".to_owned(), "replica for the peak"),
        Some(count) => (figures::count(count), "replicas for the peak"),
        None => ("cannot be met".to_owned(), "at any count"),
    };
    Headline {
        name,
        figure,
        unit,
        range,
        details,
        reason: instances.reason.clone(),
        explain: true,
    }
}

/// The mark on a number whose rung had too few samples.
fn low_confidence(run: &Run, level: Option<u32>) -> Option<String> {
    let rung = run
        .rungs
        .iter()
        .rfind(|rung| Some(rung.concurrency) == level && rung.validity.may_decide())?;
    (rung.validity.verdict == Verdict::TooFewSamples)
        .then(|| "low confidence: too few samples at that level".to_owned())
}

pub(crate) fn absent(name: &'static str, reason: String) -> Headline {
    Headline {
        name,
        figure: NOT_MEASURED.to_owned(),
        unit: "",
        range: None,
        details: Vec::new(),
        reason,
        explain: true,
    }
}

/// Why a number is missing, as far as a report can tell; the plan's own warnings stand beside it.
fn not_given(run: &Run) -> String {
    if run.rungs.is_empty() {
        "No level was measured.".to_owned()
    } else if run.plan.best.is_none() && !run.rungs.iter().any(|rung| rung.validity.may_decide()) {
        "No level measured may be believed; the remarks on the levels say why.".to_owned()
    } else {
        "The levels measured do not give this number; the warnings say why.".to_owned()
    }
}

/// Whether reply tokens were counted at any level.
pub(crate) fn has_tokens(run: &Run) -> bool {
    run.rungs
        .iter()
        .any(|rung| finite(rung.throughput.output_tokens_per_s).is_some())
}

/// The unit throughput is shown in: tokens where they are known.
pub(crate) fn throughput_unit(run: &Run) -> &'static str {
    if has_tokens(run) {
        "output tokens/s"
    } else {
        "requests/s"
    }
}

/// What a reader must know before relying on the numbers: the plan's warnings, then what the measurement itself
/// limits.
pub(crate) fn warnings(run: &Run) -> Vec<String> {
    let mut warnings = run.plan.warnings.clone();
    match run.status {
        Status::Complete => {}
        Status::Interrupted => warnings.push(format!(
            "The run was interrupted: the numbers rest on the {} measured until then.",
            counted(run.rungs.len() as u64, "rung", "rungs")
        )),
        Status::Failed => warnings.push(format!(
            "The run failed: the numbers rest on the {} measured until then.",
            counted(run.rungs.len() as u64, "rung", "rungs")
        )),
    }
    if let Some(levels) = levels_where(run, |rung| rung.lengths.output_estimated) {
        warnings.push(format!(
            "Output tokens are estimates at {levels}: the server gave no usage, so chunks were counted."
        ));
    }
    if let Some(levels) = levels_where(run, |rung| {
        rung.client
            .is_some_and(|client| client.stamps == StampSource::User)
    }) {
        warnings.push(format!(
            "Time stamps at {levels} were taken by the client after each read, not by the kernel: latencies \
             include the client's own delay."
        ));
    }
    if run.rungs.iter().any(|rung| {
        rung.client
            .is_some_and(|client| client.stamps == StampSource::Virtual)
    }) {
        warnings.push("Simulated in virtual time: no endpoint was measured.".to_owned());
    }
    if let Some(speed) = engine_speed(run) {
        warnings.push(format!(
            "The simulated engine's clock ran {} times as fast as a real one: levels hold, rates and latencies \
             are those of the fast clock.",
            figures::level(speed)
        ));
    }
    warnings
}

/// How much faster than real time a simulated engine ran, where that is not 1: the serving setting `speed`.
fn engine_speed(run: &Run) -> Option<f64> {
    let speed = run.target.serving_config.get("speed")?;
    let speed = speed.as_f64().or_else(|| speed.as_str()?.parse().ok())?;
    finite(Some(speed)).filter(|speed| *speed != 1.0)
}

/// `all levels` or `levels 16 and 32`; `None` where it holds at none.
fn levels_where(run: &Run, holds: impl Fn(&RungReport) -> bool) -> Option<String> {
    let mut levels: Vec<u32> = run
        .rungs
        .iter()
        .filter(|rung| holds(rung))
        .map(|rung| rung.concurrency)
        .collect();
    if levels.is_empty() {
        None
    } else if run.rungs.iter().all(holds) {
        Some("every level".to_owned())
    } else {
        Some(name_levels(&mut levels))
    }
}

/// `level 16`, `levels 16 and 32`, `levels 16, 32 and 64`.
pub(crate) fn name_levels(levels: &mut Vec<u32>) -> String {
    levels.sort_unstable();
    levels.dedup();
    let names: Vec<String> = levels.iter().map(figures::count).collect();
    match names.split_last() {
        None => "no level".to_owned(),
        Some((only, [])) => format!("level {only}"),
        Some((last, others)) => format!("levels {} and {last}", others.join(", ")),
    }
}

/// Whether the plan names this term as the one that breaks first.
pub(crate) fn is_binding(run: &Run, term: &SlaTerm) -> bool {
    run.plan
        .limit
        .as_ref()
        .and_then(|limit| limit.binding.as_deref())
        .is_some_and(|binding| {
            binding == term.subject() || binding.parse::<SlaTerm>().is_ok_and(|read| read == *term)
        })
}
