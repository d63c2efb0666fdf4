//! The conditions in words: target, workload, SLA and peak, each in one line. Shared by every format for people.

use plimsoll_run::document::{Run, Status};
use plimsoll_run::peak::Peak;
use plimsoll_run::sla::{Op, Sla, SlaTerm};
use plimsoll_run::units;
use plimsoll_run::workload::TokenLength;

use crate::figures;

/// The target in one line: URL, model, dialect, engine.
pub(crate) fn target_line(run: &Run) -> String {
    let mut line = run.target.url.clone();
    if let Some(model) = &run.target.model {
        line.push_str(&format!(", {model}"));
    }
    line.push_str(&format!(" ({}", run.target.dialect));
    if let Some(engine) = engine(run) {
        line.push_str(&format!(", {engine}"));
    }
    line.push(')');
    line
}

/// `vllm 0.19.1`, as far as the engine tells.
pub(crate) fn engine(run: &Run) -> Option<String> {
    let engine = run.target.engine.as_ref()?;
    let words: Vec<&str> = [engine.name.as_deref(), engine.version.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The workload in one line.
pub(crate) fn workload_line(run: &Run) -> String {
    let workload = &run.workload;
    let length = |length: &TokenLength, what: &str| match length {
        TokenLength::Fixed(tokens) => format!("{} {what} tokens", figures::count(*tokens)),
        TokenLength::Normal { mean, stddev } => format!(
            "{} ± {} {what} tokens",
            figures::count(*mean),
            figures::number(*stddev)
        ),
        // Named by its form: a mean and a deviation would not say it.
        other => format!("{what}s: {}", other.words()),
    };
    let mut parts = vec![
        length(&workload.input_tokens, "prompt"),
        length(&workload.output_tokens, "reply").replace("replys", "replies"),
    ];
    parts.extend(workload.extras());
    parts.push(
        if workload.streaming {
            "streamed"
        } else {
            "not streamed"
        }
        .to_owned(),
    );
    parts.join(", ")
}

/// The SLA in one line, each limit with its unit.
pub(crate) fn sla_line(sla: &Sla) -> String {
    if sla.terms.is_empty() {
        return "none given".to_owned();
    }
    let terms: Vec<String> = sla.terms.iter().map(term_words).collect();
    terms.join(" and ")
}

/// `TTFT p95 ≤ 500 ms`.
pub(crate) fn term_words(term: &SlaTerm) -> String {
    let op = match term.op {
        Op::AtMost => "≤",
        Op::Below => "<",
    };
    format!("{} {op} {}", subject_words(term), term.limit_text())
}

/// `TTFT p95`, `error rate`.
pub(crate) fn subject_words(term: &SlaTerm) -> String {
    match term.stat {
        Some(stat) => format!("{} {}", term.metric.name().to_uppercase(), stat.name()),
        None => "error rate".to_owned(),
    }
}

/// The peak in words; `None` where none was given.
pub(crate) fn peak_line(run: &Run) -> Option<String> {
    run.peak.as_ref().map(|peak| match peak {
        Peak::Rate(rate) => format!("{} requests/s", figures::level(*rate)),
        Peak::Users { users, think } if think.is_zero() => format!("{} users", figures::level(*users)),
        Peak::Users { users, think } => format!(
            "{} users, each pausing {} between requests",
            figures::level(*users),
            units::show(*think)
        ),
    })
}

/// How the run ended, in a word.
pub(crate) fn status_word(status: Status) -> &'static str {
    match status {
        Status::Complete => "complete",
        Status::Interrupted => "interrupted",
        Status::Failed => "failed",
    }
}
