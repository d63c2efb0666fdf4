//! Strings from outside stay strings.

use plimsoll_report::terminal::{Style, answer, rung_line, table};
use plimsoll_report::{html, markdown};
use plimsoll_run::document::Run;

use crate::fixture;

const HOSTILE: &str =
    "</script><script>alert('x')</script><img src=x onerror=alert(1)>|`\u{1b}[2J\u{7}{{css}}";

/// The fixture with a hostile string wherever a string comes from outside.
fn hostile() -> Run {
    let mut run = fixture::run();
    run.target.model = Some(HOSTILE.to_owned());
    run.target.url = HOSTILE.to_owned();
    run.target
        .serving_config
        .insert(HOSTILE.to_owned(), HOSTILE.into());
    run.target.fingerprint = Some(HOSTILE.to_owned());
    if let Some(engine) = &mut run.target.engine {
        engine.name = Some(HOSTILE.to_owned());
        engine.version = Some(HOSTILE.to_owned());
    }
    run.command = HOSTILE.to_owned();
    run.version = HOSTILE.to_owned();
    run.started_at = HOSTILE.to_owned();
    run.ended_at = Some(HOSTILE.to_owned());
    run.currency = HOSTILE.to_owned();
    run.workload_digest = HOSTILE.to_owned();
    run.client.platform = HOSTILE.to_owned();
    run.notes = vec![HOSTILE.to_owned()];
    run.plan.warnings = vec![HOSTILE.to_owned()];
    if let Some(best) = &mut run.plan.best {
        best.reason = HOSTILE.to_owned();
    }
    if let Some(limit) = &mut run.plan.limit {
        limit.reason = HOSTILE.to_owned();
        limit.binding = Some(HOSTILE.to_owned());
    }
    if let Some(knee) = &mut run.plan.knee {
        knee.reason = HOSTILE.to_owned();
    }
    if let Some(onset) = &mut run.plan.queue_onset {
        onset.reason = HOSTILE.to_owned();
    }
    if let Some(instances) = &mut run.plan.instances {
        instances.reason = HOSTILE.to_owned();
    }
    if let Some(cost) = &mut run.plan.cost {
        cost.currency = HOSTILE.to_owned();
    }
    for rung in &mut run.rungs {
        rung.validity.reasons = vec![HOSTILE.to_owned()];
        rung.requests.failed = 1;
        rung.requests.by_class.insert(HOSTILE.to_owned(), 1);
        rung.requests
            .samples
            .insert(HOSTILE.to_owned(), HOSTILE.to_owned());
        for outcome in &mut rung.sla {
            outcome.note = Some(HOSTILE.to_owned());
        }
    }
    run
}

#[test]
fn a_page_holds_no_markup_from_outside() {
    let run = hostile();
    let page = html(&run, &fixture::timelines(&run));
    let tame = html(&fixture::run(), &fixture::timelines(&fixture::run()));
    assert!(!page.contains("alert('x')"));
    assert!(!page.contains("<img"));
    // As many scripts open and close as without a hostile string.
    for tag in ["<script", "</script", "<style", "</style"] {
        assert_eq!(page.matches(tag).count(), tame.matches(tag).count(), "{tag}");
    }
    // And a slot's name in a value is not filled.
    assert!(page.contains("{{css}}"));
}

#[test]
fn markdown_holds_no_markup_from_outside() {
    let shown = markdown(&hostile());
    assert!(!shown.contains("<script"));
    assert!(!shown.contains("<img"));
    for row in shown.lines().filter(|line| line.starts_with("| **")) {
        let separators = row.replace("\\|", "").matches('|').count();
        assert_eq!(separators, 5, "{row}");
    }
}

#[test]
fn no_control_character_reaches_the_terminal() {
    let run = hostile();
    let style = Style::default();
    let shown = [
        table(&run, &style),
        answer(&run, &style),
        rung_line(&run.rungs[0]),
    ]
    .concat();
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
}
