//! A table that someone else measured, as the document of a run.
//!
//! The document has the shape of a run's own, null wherever the table tells nothing: dialect, workload, seed, how rungs
//! ended, numbers of requests and samples. In memory those places hold blanks, which nobody may read; what answers need
//! beside the rungs stands in [`ImportedTable`].

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::sla::Sla;
use crate::validity::Verdict;

/// What the files of an imported run say beside the figures of its rungs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportedTable {
    /// What kinds of files these were, such as `AIPerf sweep`.
    pub formats: Vec<String>,
    /// The SLA that the files themselves name.
    pub sla: Sla,
    /// Whether replies were streamed, where a file tells.
    pub streaming: Option<bool>,
    /// What to know about how the files were read, in sentences.
    pub remarks: Vec<String>,
    /// One for each rung of the run, in their order.
    pub rows: Vec<ImportedRow>,
}

/// What a row of a table says beside the figures of its rung.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportedRow {
    /// Whether the requests per second were counted, not computed from the latency.
    pub counted: bool,
    /// Whether the row is said to have met an SLA: [`ImportedTable::sla`], where that has terms.
    pub met: Option<bool>,
    /// A verdict of ours that the table brings along.
    pub verdict: Option<Verdict>,
    /// Failed over ended requests, a fraction, where the table gives it without a number of requests.
    pub error_rate: Option<f64>,
}

/// An error rate without a number of requests stands as parts of this number.
const PARTS: f64 = 1_000_000.0;

/// (ended, failed) requests that stand for an error rate (a fraction) whose number of requests is not known.
#[must_use]
pub fn parts(error_rate: f64) -> (u64, u64) {
    // Within range: the rate is clamped.
    (PARTS as u64, (error_rate.clamp(0.0, 1.0) * PARTS).round() as u64)
}

/// Counts of requests that a table may lack, all of them.
const COUNTS: [&str; 5] = ["sent", "ok", "failed", "retried", "without_ttft"];

/// Puts null into the document of an imported run wherever its table tells nothing.
pub(crate) fn put_nulls(document: &mut Value, table: &ImportedTable) {
    let lengths = |of: &str| -> Value {
        let mut lengths = document["rungs"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|rung| rung["lengths"][of]["actual"].as_f64());
        match lengths.next() {
            // A token length, as it is written everywhere.
            Some(first) if first >= 0.5 && lengths.all(|other| (other - first).abs() < 0.5) => {
                json!(format!("{first:.0}"))
            }
            _ => Value::Null,
        }
    };
    let (input, output) = (lengths("input"), lengths("output"));
    document["workload"]["input_tokens"] = input;
    document["workload"]["output_tokens"] = output;
    document["workload"]["streaming"] = json!(table.streaming);
    document["target"]["dialect"] = Value::Null;
    for name in ["workload_digest", "seed", "client", "started_at"] {
        document[name] = Value::Null;
    }
    let rungs = document["rungs"].as_array_mut();
    for rung in rungs.into_iter().flatten() {
        rung["stopped"] = Value::Null;
        rung["lengths"]["output_estimated"] = Value::Null;
        let requests = &mut rung["requests"];
        let unknown: &[&str] = if requests["sent"] == json!(0) {
            &COUNTS
        } else if requests["ok"] == json!(0) && requests["failed"] == json!(0) {
            // Nothing was said of errors.
            &COUNTS[1..]
        } else {
            &COUNTS[3..]
        };
        for count in unknown {
            requests[*count] = Value::Null;
        }
        for distribution in distributions(rung) {
            if distribution["n"] == json!(0) {
                distribution["n"] = Value::Null;
            }
        }
    }
}

/// Puts blanks where [`put_nulls`] put null. Anything that is not null stays.
pub(crate) fn put_blanks(document: &mut Value) {
    let blank = |place: &mut Value, with: Value| {
        if place.is_null() {
            *place = with;
        }
    };
    let rows = document["table"]["rows"].as_array().cloned().unwrap_or_default();
    for (pointer, with) in [
        ("/workload/input_tokens", json!("1")),
        ("/workload/output_tokens", json!("1")),
        ("/workload/streaming", json!(true)),
        ("/target/dialect", json!("openai-chat")),
        ("/workload_digest", json!("")),
        ("/started_at", json!("")),
        ("/seed", json!(0)),
        ("/client", json!(crate::document::Client::default())),
    ] {
        if let Some(place) = document.pointer_mut(pointer) {
            blank(place, with);
        }
    }
    let rungs = document.get_mut("rungs").and_then(Value::as_array_mut);
    for (at, rung) in rungs.into_iter().flatten().enumerate() {
        if !rung.is_object() {
            continue;
        }
        for (pointer, with) in [
            ("/stopped", json!("asked")),
            ("/lengths/output_estimated", json!(false)),
        ] {
            if let Some(place) = rung.pointer_mut(pointer) {
                blank(place, with);
            }
        }
        let rate = rows.get(at).and_then(|row| row["error_rate"].as_f64());
        if let Some(requests) = rung.get_mut("requests").filter(|requests| requests.is_object()) {
            if let (true, Some(rate)) = (requests["ok"].is_null(), rate) {
                let (ended, failed) = parts(rate);
                requests["ok"] = json!(ended - failed);
                requests["failed"] = json!(failed);
            }
            for count in COUNTS {
                blank(&mut requests[count], json!(0));
            }
        }
        for distribution in distributions(rung) {
            blank(&mut distribution["n"], json!(0));
        }
    }
}

fn distributions(rung: &mut Value) -> impl Iterator<Item = &mut Value> {
    rung.get_mut("latency")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(|latencies| latencies.values_mut())
        .filter(|distribution| distribution.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_rate_without_a_number_of_requests_comes_back() {
        let mut document = json!({
            "table": {"rows": [{"error_rate": 0.46}, {"error_rate": null}]},
            "seed": null,
            "rungs": [
                {"requests": {"sent": null, "ok": null, "failed": null}, "latency": {"e2e_ms": {"n": null}, "ttft_ms": null}},
                {"requests": {"sent": null, "ok": null, "failed": null}, "latency": {}},
            ],
        });
        put_blanks(&mut document);
        assert_eq!(document["seed"], json!(0));
        assert_eq!(document["rungs"][0]["requests"]["ok"], json!(540_000));
        assert_eq!(document["rungs"][0]["requests"]["failed"], json!(460_000));
        assert_eq!(document["rungs"][0]["latency"]["e2e_ms"]["n"], json!(0));
        assert_eq!(document["rungs"][0]["latency"]["ttft_ms"], Value::Null);
        assert_eq!(document["rungs"][1]["requests"]["failed"], json!(0));
    }

    #[test]
    fn documents_of_any_shape_are_left_to_the_reader_to_refuse() {
        for mut document in [
            json!({"rungs": [null, 3, {"requests": 7, "latency": [1], "lengths": null}], "table": 5}),
            json!({"rungs": "none", "workload": [], "target": null}),
            json!({}),
        ] {
            put_blanks(&mut document);
        }
    }
}
