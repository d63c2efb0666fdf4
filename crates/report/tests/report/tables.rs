//! The CSV and Markdown that others read on.

use std::collections::HashMap;

use plimsoll_report::{csv, markdown};
use plimsoll_run::document::Run;
use plimsoll_run::validity::Verdict;

use crate::fixture;

#[test]
fn csv_has_the_agreed_columns_and_one_row_a_rung() {
    let run = fixture::run();
    let text = csv(&run).unwrap();
    let header = text.lines().next().unwrap();
    assert!(
        header.starts_with(
            "concurrency,throughput_tok_s,req_s,ttft_p50_ms,ttft_p95_ms,ttft_p99_ms,itl_mean_ms,e2e_mean_ms,\
             error_rate,ttft_mean_ms,e2e_p50_ms,e2e_p90_ms,e2e_p95_ms,e2e_p99_ms,itl_p95_ms,itl_p99_ms,n_requests,\
             in_flight_mean,tpot_p50_ms,tpot_p95_ms,tpot_p99_ms,verdict,sla_pass,order"
        ),
        "{header}"
    );
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<HashMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    assert_eq!(rows.len(), run.rungs.len());
    for (row, rung) in rows.iter().zip(&run.rungs) {
        assert_eq!(row["concurrency"], rung.concurrency.to_string());
        assert_eq!(row["order"], rung.order.to_string());
        // A number reads back as it was, to the last bit.
        let tokens: f64 = row["throughput_tok_s"].parse().unwrap();
        assert_eq!(Some(tokens), rung.throughput.output_tokens_per_s);
        let ttft: f64 = row["ttft_p95_ms"].parse().unwrap();
        assert_eq!(Some(ttft), rung.latency.ttft_ms.as_ref().unwrap().p95);
    }
    assert_eq!(rows[2]["verdict"], "load-not-delivered");
    assert_eq!(rows[2]["sla_pass"], "false");
    assert_eq!(rows[0]["sla_pass"], "true");
}

#[test]
fn what_was_not_measured_is_blank() {
    let mut run = fixture::run();
    let rung = &mut run.rungs[0];
    rung.latency.ttft_ms = None;
    rung.throughput.output_tokens_per_s = Some(f64::NAN);
    rung.in_flight.mean = Some(f64::INFINITY);
    rung.sla.clear();
    let text = csv(&run).unwrap();
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<HashMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    for column in [
        "ttft_p50_ms",
        "ttft_mean_ms",
        "throughput_tok_s",
        "in_flight_mean",
        "sla_pass",
    ] {
        assert_eq!(rows[0][column], "", "{column}");
    }
    assert_ne!(rows[1]["ttft_p50_ms"], "");
}

#[test]
fn markdown_is_the_answer_and_the_table() {
    let shown = markdown(&fixture::run());
    let expected = include_str!("golden/report.md");
    assert!(shown == expected, "shown:\n{shown}\nexpected:\n{expected}");
}

#[test]
fn of_a_level_measured_again_the_last_believed_rung_stands() {
    let mut run = fixture::run();
    run.rungs.truncate(2);
    run.rungs.reverse();
    let (first, mut again) = (run.rungs[0].clone(), run.rungs[0].clone());
    again.order = 9;
    run.rungs.push(again);
    let orders = |run: &Run| -> Vec<u32> { run.rung_of_each_level().iter().map(|rung| rung.order).collect() };
    let other = run.rungs[1].order;
    assert!(run.rungs[1].concurrency < first.concurrency);
    assert_eq!(orders(&run), [other, 9]);
    run.rungs[2].validity.verdict = Verdict::Unsteady;
    assert_eq!(orders(&run), [other, first.order]);
    run.rungs[0].validity.verdict = Verdict::Unsteady;
    assert_eq!(orders(&run), [other, 9]);
}
