//! `run.json` of an imported table: the shape of a run's, null wherever the table tells nothing.

use plimsoll_run::document::Run;
use serde_json::{Value, json};

use super::Imported;

/// Writes the document. What a [`Run`] of our own always has and a table may lack becomes null: dialect, workload, seed,
/// how rungs ended, numbers of requests and samples.
#[must_use]
pub fn document(run: &Run, imported: &Imported) -> String {
    let mut value = serde_json::to_value(run).unwrap_or(Value::Null);
    value["target"]["dialect"] = Value::Null;
    let length = |of: fn(&plimsoll_run::rung::Lengths) -> Option<f64>| -> Value {
        let mut lengths = run.rungs.iter().filter_map(|rung| of(&rung.lengths));
        match lengths.next() {
            Some(first) if lengths.all(|other| (other - first).abs() < 0.5) => {
                json!(first.round().to_string())
            }
            _ => Value::Null,
        }
    };
    value["workload"]["input_tokens"] = length(|lengths| lengths.input.actual);
    value["workload"]["output_tokens"] = length(|lengths| lengths.output.actual);
    value["workload"]["streaming"] = json!(imported.streaming);
    value["workload_digest"] = Value::Null;
    value["seed"] = Value::Null;
    value["client"] = Value::Null;
    value["started_at"] = Value::Null;
    if let Some(rungs) = value["rungs"].as_array_mut() {
        for rung in rungs {
            rung["stopped"] = Value::Null;
            rung["lengths"]["output_estimated"] = Value::Null;
            let requests = &rung["requests"];
            let unknown: &[&str] = match (requests["sent"] == json!(0), requests["ok"] == requests["failed"])
            {
                (true, _) => &["sent", "ok", "failed", "retried", "without_ttft"],
                // Both are 0: nothing was said of errors.
                (false, true) if requests["ok"] == json!(0) => &["ok", "failed", "retried", "without_ttft"],
                _ => &["retried", "without_ttft"],
            };
            for count in unknown {
                rung["requests"][count] = Value::Null;
            }
            if let Some(latencies) = rung["latency"].as_object_mut() {
                for (_, distribution) in latencies.iter_mut() {
                    if distribution.is_object() && distribution["n"] == json!(0) {
                        distribution["n"] = Value::Null;
                    }
                }
            }
        }
    }
    let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text.push('\n');
    text
}
