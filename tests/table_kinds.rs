//! Tables of the kinds that misled other tools, made from a server that is known: it serves 40 requests at once, each in
//! two seconds, 100 tokens in reply.

#![expect(clippy::unwrap_used, reason = "a test may stop here")]

mod harness;

use harness::{Folder, number, text};
use serde_json::Value;

const LEVELS: [u32; 8] = [1, 4, 8, 16, 32, 64, 128, 256];

/// Requests/s with so many in flight.
fn rate(level: u32) -> f64 {
    f64::from(level.min(40)) / 2.0
}

/// Mean E2E, ms.
fn e2e(level: u32) -> f64 {
    f64::from(level) / rate(level) * 1e3
}

/// TTFT, ms: 100 and the wait for a slot.
fn ttft(level: u32) -> f64 {
    100.0 + e2e(level) - 2000.0
}

/// A table of these columns with a row a level.
fn table(columns: &str, row: impl Fn(u32) -> String) -> String {
    let mut text = format!("{columns}\n");
    for level in LEVELS {
        text.push_str(&format!("{level},{}\n", row(level)));
    }
    text
}

const COLUMNS: &str = "concurrency,throughput_tok_s,req_s,ttft_p95_ms,itl_mean_ms,e2e_mean_ms";

fn clean() -> String {
    table(COLUMNS, |level| {
        let x = rate(level);
        format!("{},{x},{},19,{}", 100.0 * x, ttft(level), e2e(level))
    })
}

fn analyze(rows: &str, sla: &[&str]) -> (i32, Value) {
    let folder = Folder::new();
    std::fs::write(folder.path().join("t.csv"), rows).unwrap();
    let mut arguments = vec!["analyze", "t.csv", "--json", "--peak", "20rps"];
    for term in sla {
        arguments.extend(["--sla", term]);
    }
    let finished = folder.plimsoll(&arguments);
    (finished.code, finished.json())
}

fn verdict_at(document: &Value, level: u32) -> &str {
    let rungs = document["rungs"].as_array().unwrap();
    let rung = rungs.iter().find(|rung| rung["concurrency"] == level).unwrap();
    text(rung, "/validity/verdict")
}

fn at<'a>(document: &'a Value, answer: &str) -> &'a Value {
    &document["plan"][answer]["concurrency"]
}

#[test]
fn a_clean_table_is_read_as_the_server_is() {
    let (code, document) = analyze(&clean(), &["ttft.p95<=500ms"]);
    assert_eq!(code, 0);
    // TTFT breaks 500 ms at 48, and 38 requests give 95 % of the plateau.
    assert_eq!(number(&document, "/plan/limit/interval/0"), 32.0);
    assert_eq!(number(&document, "/plan/limit/interval/1"), 64.0);
    let knee = &document["plan"]["knee"];
    assert!(
        number(knee, "/interval/0") <= 38.01 && number(knee, "/interval/1") >= 38.0,
        "{knee}"
    );
    assert_eq!(at(&document, "efficient_point"), 32);
    assert_eq!(at(&document, "largest_passing"), 32);
    assert_eq!(at(&document, "largest_throughput_under_sla"), 32);
    let (_, document) = analyze(&clean(), &["e2e.mean<=4s"]);
    assert_eq!(at(&document, "limit"), 64);
    assert_eq!(document["plan"]["decline"], Value::Null);
}

#[test]
fn the_order_of_rows_and_repeated_rows_change_nothing() {
    let (_, expected) = analyze(&clean(), &["ttft.p95<=500ms"]);
    let mut lines: Vec<String> = clean().lines().map(str::to_owned).collect();
    lines[1..].reverse();
    lines.push(lines[3].clone());
    let (_, document) = analyze(&lines.join("\n"), &["ttft.p95<=500ms"]);
    for answer in [
        "best",
        "limit",
        "knee",
        "largest_passing",
        "efficient_point",
        "instances",
    ] {
        assert_eq!(document["plan"][answer], expected["plan"][answer], "{answer}");
    }
}

#[test]
fn blank_cells_follow_from_the_others_where_they_can() {
    let (_, expected) = analyze(&clean(), &["ttft.p95<=500ms"]);
    let holes = clean()
        .replace("\n32,1600,16,", "\n32,1600,,")
        .replace("\n16,800,8,", "\n16,,8,");
    let (code, document) = analyze(&holes, &["ttft.p95<=500ms"]);
    assert_eq!(code, 0);
    for answer in ["best", "limit", "knee", "instances"] {
        assert_eq!(document["plan"][answer], expected["plan"][answer], "{answer}");
    }
    let warnings = document["plan"]["warnings"].to_string();
    assert!(
        warnings.contains("At 16, 32 only one of requests/s and tokens/s"),
        "{warnings}"
    );
}

#[test]
fn fifty_prompts_do_not_hold_more_than_fifty() {
    let held = |level: u32| f64::from(level.min(50)) / 2.0;
    for rows in [
        table(
            "concurrency,throughput_tok_s,req_s,ttft_mean_ms,itl_mean_ms,e2e_mean_ms,n_requests",
            |level| format!("{},{},100,19,2000,50", 100.0 * held(level), held(level)),
        ),
        table(
            "concurrency,throughput_tok_s,req_s,ttft_mean_ms,itl_mean_ms,e2e_mean_ms",
            |level| format!("{},{},100,19,2000", 100.0 * held(level), held(level)),
        ),
        table("concurrency,throughput_tok_s,ttft_mean_ms,itl_mean_ms", |level| {
            format!("{},100,19", 100.0 * held(level))
        }),
    ] {
        let (code, document) = analyze(&rows, &["ttft.mean<=500ms"]);
        assert_eq!(code, 0);
        for level in [128, 256] {
            assert_eq!(
                verdict_at(&document, level),
                "load-not-delivered",
                "{level} of {rows}"
            );
        }
        assert_eq!(text(&document, "/plan/knee/status"), "not_saturated");
        assert_eq!(text(&document, "/plan/limit/status"), "not_reached");
        assert!(number(&document, "/plan/limit/concurrency") <= 64.0);
    }
}

#[test]
fn behind_a_buffer_only_throughput_and_e2e_are_answered() {
    for rows in [
        // TTFT is the whole E2E, with and without an ITL.
        table(COLUMNS, |level| {
            let x = rate(level);
            format!("{},{x},{},0.01,{}", 100.0 * x, e2e(level) - 1.0, e2e(level))
        }),
        table(
            "concurrency,throughput_tok_s,req_s,ttft_p95_ms,e2e_p95_ms,e2e_mean_ms",
            |level| {
                let x = rate(level);
                format!(
                    "{},{x},{},{},{}",
                    100.0 * x,
                    1.2 * e2e(level) - 1.0,
                    1.2 * e2e(level),
                    e2e(level)
                )
            },
        ),
    ] {
        let (_, document) = analyze(&rows, &["ttft.p95<=500ms"]);
        assert!(
            LEVELS
                .iter()
                .all(|level| verdict_at(&document, *level) == "stream-buffered"),
            "{rows}"
        );
        for refused in [
            "limit",
            "largest_passing",
            "largest_throughput_under_sla",
            "instances",
        ] {
            assert_eq!(document["plan"][refused], Value::Null, "{refused}");
        }
        assert_eq!(text(&document, "/plan/knee/status"), "saturated");
        let (code, document) = analyze(&rows, &["e2e.mean<=4s"]);
        assert_eq!((code, at(&document, "limit")), (0, &64.into()));
    }
}

#[test]
fn failures_and_empty_replies_bound_the_limit() {
    // Beyond 32 the server refuses, fast; or "succeeds" without a token, faster still.
    for rows in [
        table(
            "concurrency,throughput_tok_s,req_s,e2e_mean_ms,error_rate,n_requests",
            |level| match level {
                0..=32 => format!("{},{},2000,0,1000", 50 * level, rate(level)),
                _ => format!("1600,16,{},0.4,1000", 2000),
            },
        ),
        table(
            "concurrency,throughput_tok_s,req_s,e2e_mean_ms,error_rate,n_requests",
            |level| match level {
                0..=32 => format!("{},{},2000,0,1000", 50 * level, rate(level)),
                _ => format!("0,{},50,0,1000", 20 * level),
            },
        ),
        table(
            "concurrency,req_s,e2e_mean_ms,n_requests,output_tokens_mean",
            |level| match level {
                0..=32 => format!("{},2000,1000,100", rate(level)),
                _ => format!("{},50,1000,0", 20 * level),
            },
        ),
    ] {
        let (code, document) = analyze(&rows, &["e2e.mean<=3s"]);
        assert_eq!(code, 0, "{rows}");
        assert_eq!(number(&document, "/plan/limit/interval/0"), 32.0);
        assert_eq!(number(&document, "/plan/limit/interval/1"), 64.0);
        assert!(text(&document, "/plan/limit/binding").starts_with("error_rate"));
        assert_eq!(at(&document, "best"), 32);
    }
    // Everywhere: none passes, and nothing is to be trusted.
    let rows = table("concurrency,throughput_tok_s,req_s,error_rate,n_requests", |_| {
        "0,0,1,1000".to_owned()
    });
    let (code, document) = analyze(&rows, &[]);
    assert_eq!((code, text(&document, "/plan/limit/status")), (5, "never_met"));
}

#[test]
fn shorter_replies_are_not_a_faster_server() {
    let rows = table(
        "concurrency,throughput_tok_s,req_s,e2e_mean_ms",
        |level| match level {
            0..=32 => format!("{},{:.2},2000", 50 * level, rate(level)),
            _ => format!("{},{},{}", 100 * level, 5 * level, 200),
        },
    );
    let (_, document) = analyze(&rows, &["e2e.mean<=4s"]);
    assert_eq!(verdict_at(&document, 64), "lengths-differ");
    assert_eq!(at(&document, "best"), 32);
    assert_eq!(number(&document, "/plan/knee/interval/0"), 32.0);
}

#[test]
fn one_row_and_rows_without_a_figure_claim_nothing_beyond_them() {
    let (code, document) = analyze(
        "concurrency,throughput_tok_s,req_s,ttft_p95_ms\n32,1600,16,120\n",
        &["ttft.p95<=500ms"],
    );
    assert_eq!((code, text(&document, "/plan/limit/status")), (0, "not_reached"));
    assert_eq!(document["plan"]["knee"], Value::Null);
    for rows in [
        table(COLUMNS, |_| ",,,,".to_owned()),
        // A mean says nothing of a p95, and TTFT nothing of throughput.
        table("concurrency,ttft_mean_ms", |level| ttft(level).to_string()),
    ] {
        for sla in [&[][..], &["ttft.p95<=500ms"]] {
            let (code, document) = analyze(&rows, sla);
            assert_eq!(code, 5, "{rows}");
            for answer in [
                "best",
                "limit",
                "knee",
                "largest_passing",
                "largest_throughput_under_sla",
            ] {
                assert_eq!(document["plan"][answer], Value::Null, "{answer}");
            }
        }
    }
}
