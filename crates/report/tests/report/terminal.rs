//! The words of the terminal, in full: whoever changes them sees here what a person will read.

use plimsoll_report::terminal::{Style, answer, rung_line, table};
use plimsoll_run::answer::{LimitStatus, Plan};
use plimsoll_run::document::Status;
use plimsoll_run::evidence::StampSource;

use crate::fixture;

const WIDE: Style = Style {
    colour: false,
    width: Some(120),
};
const NARROW: Style = Style {
    colour: false,
    width: Some(80),
};

fn compare(shown: &str, expected: &str) {
    assert!(
        shown == expected.trim_start_matches('\n'),
        "shown:\n{shown}\nexpected:{expected}"
    );
}

#[test]
fn the_table_has_every_column_in_120() {
    compare(
        &table(&fixture::run(), &WIDE),
        include_str!("golden/table-120.txt"),
    );
}

#[test]
fn the_table_does_without_in_80() {
    let shown = table(&fixture::run(), &NARROW);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    compare(&shown, include_str!("golden/table-80.txt"));
}

#[test]
fn the_answer_says_everything_with_its_unit() {
    compare(
        &answer(&fixture::run(), &WIDE),
        include_str!("golden/answer-120.txt"),
    );
    let narrow = answer(&fixture::run(), &NARROW);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
}

#[test]
fn a_rung_scrolls_by_in_one_line() {
    let run = fixture::run();
    assert_eq!(
        rung_line(&run.rungs[1]),
        "rung 2: level 256, 256 in flight, 11.0 req/s, 2,823 output tok/s, TTFT p95 1.23 s, TPOT p95 89.8 ms, \
         E2E p95 24.1 s, meets the SLA"
    );
    assert_eq!(
        rung_line(&run.rungs[2]),
        "rung 3: level 512, 470 in flight, 10.9 req/s, 2,782 output tok/s, TTFT p95 30.7 s, TPOT p95 91.2 ms, \
         E2E p95 49.0 s, 0.3 % errors, fails ttft.p95, load-not-delivered"
    );
}

#[test]
fn colour_changes_nothing_but_colour() {
    let run = fixture::run();
    let painted = Style { colour: true, ..WIDE };
    let strip = |text: String| {
        ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[32m", "\u{1b}[33m"]
            .iter()
            .fold(text, |text, escape| text.replace(escape, ""))
    };
    assert!(table(&run, &painted).contains("\u{1b}[32m"));
    assert_eq!(strip(table(&run, &painted)), table(&run, &WIDE));
    assert_eq!(strip(answer(&run, &painted)), answer(&run, &WIDE));
}

#[test]
fn what_limits_the_measurement_is_said() {
    let mut run = fixture::run();
    run.rungs[0].lengths.output_estimated = true;
    for rung in &mut run.rungs {
        if let Some(client) = &mut rung.client {
            client.stamps = StampSource::User;
        }
    }
    run.target.serving_config.insert("speed".to_owned(), 10.into());
    run.status = Status::Interrupted;
    let shown = answer(&run, &Style::default());
    for sentence in [
        "Output tokens are estimates at level 64: the server gave no usage, so chunks were counted.",
        "Time stamps at every level were taken by the client after each read, not by the kernel",
        "The simulated engine's clock ran 10 times as fast as a real one",
        "The run was interrupted: the numbers rest on the 8 rungs measured until then.",
    ] {
        assert!(shown.contains(sentence), "{sentence}\n{shown}");
    }
}

#[test]
fn numbers_that_could_not_be_given_say_why() {
    let mut run = fixture::run();
    run.plan = Plan::default();
    run.peak = None;
    run.sla.terms.clear();
    let shown = answer(&run, &Style::default());
    for sentence in [
        "Best concurrency  –\n",
        "No SLA was given; name one with --sla",
        "No peak was given; name one with --peak",
    ] {
        assert!(shown.contains(sentence), "{sentence}\n{shown}");
    }
}

#[test]
fn open_limits_say_on_which_side() {
    let mut run = fixture::run();
    let limit = run.plan.limit.as_mut().unwrap();
    limit.status = LimitStatus::NotReached;
    limit.interval = [Some(512.0), None];
    limit.concurrency = Some(512);
    let shown = answer(&run, &Style::default());
    assert!(
        shown.contains("SLA limit         512 or more requests in flight (every level tried passes)"),
        "{shown}"
    );

    let limit = run.plan.limit.as_mut().unwrap();
    limit.status = LimitStatus::NeverMet;
    limit.interval = [None, Some(16.0)];
    limit.concurrency = None;
    let shown = answer(&run, &Style::default());
    assert!(
        shown.contains("SLA limit         none of the levels tried (16 fails already)"),
        "{shown}"
    );
}

#[test]
fn an_error_rate_that_the_sla_does_not_name_may_break_first() {
    let mut run = fixture::run();
    run.plan.limit.as_mut().unwrap().binding = Some("error_rate<=0".to_owned());
    let shown = answer(&run, &Style::default());
    assert!(shown.contains("error rate breaks first"), "{shown}");
}

#[test]
fn answers_to_other_questions_stand_below_the_three() {
    let mut run = fixture::run();
    let level = |concurrency, reason: &str| {
        Some(plimsoll_run::answer::LevelAnswer {
            concurrency,
            requests_per_s: Some(27.8),
            output_tokens_per_s: Some(2781.8),
            reason: reason.to_owned(),
        })
    };
    let best = run.plan.best.as_ref().unwrap().concurrency;
    run.plan.largest_passing = level(best + 64, "It is the highest that passes.");
    run.plan.largest_throughput_under_sla = level(best, "As the best.");
    run.plan.efficient_point = level(40, "Kleinrock says so.");
    run.plan.cost = Some(plimsoll_run::answer::Cost {
        per_million_output_tokens: Some(0.69),
        per_million_at_mean_load: Some(2.77),
        mean_load: Some(0.35),
        fleet_per_hour: Some(42.0),
        currency: "USD".to_owned(),
    });
    let text = answer(&run, &WIDE);
    let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        squeezed.contains(&format!("Largest passing {}", best + 64)),
        "{text}"
    );
    assert!(!squeezed.contains("Most throughput"), "it is the best: {text}");
    assert!(
        squeezed.contains("Efficient point 40 requests in flight (2,782 output tokens/s)"),
        "{text}"
    );
    assert!(squeezed.contains("0.69 USD per million output tokens"), "{text}");
    assert!(
        squeezed.contains("2.77 USD at the mean load, taken as 35 % of the peak"),
        "{text}"
    );
}
