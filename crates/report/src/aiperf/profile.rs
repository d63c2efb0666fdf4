//! One level in the shape of AIPerf's `profile_export_aiperf.json`.

use plimsoll_run::document::{Run, Status};
use plimsoll_run::rung::RungReport;
use serde_json::{Map, Value, json};

use super::metrics;

/// The rung as AIPerf writes a run of one level.
#[must_use]
pub fn aiperf_profile(run: &Run, rung: &RungReport) -> String {
    let mut document = Map::new();
    document.insert("schema_version".to_owned(), "1.4".into());
    // The version of the tool that the shape is of; who wrote it stands beside it.
    document.insert("aiperf_version".to_owned(), "0.13.0".into());
    document.insert("plimsoll_version".to_owned(), run.version.as_str().into());
    if let Value::Object(metrics) = metrics(rung) {
        document.extend(metrics);
    }
    let errors: Vec<Value> = rung
        .requests
        .by_class
        .iter()
        .map(|(class, count)| {
            let message = rung
                .requests
                .samples
                .get(class)
                .map_or(class.as_str(), String::as_str);
            json!({"error_details": {"type": class, "message": message}, "count": count})
        })
        .collect();
    let models: Vec<Value> = run
        .target
        .model
        .iter()
        .map(|model| json!({"name": model}))
        .collect();
    document.insert(
        "input_config".to_owned(),
        json!({
            "models": {"items": models},
            "endpoint": {"urls": [run.target.url], "streaming": run.workload.streaming},
            "loadgen": {"concurrency": rung.concurrency},
        }),
    );
    document.insert(
        "was_cancelled".to_owned(),
        (run.status == Status::Interrupted).into(),
    );
    document.insert("error_summary".to_owned(), errors.into());
    document.insert("start_time".to_owned(), run.started_at.as_str().into());
    document.insert("end_time".to_owned(), run.ended_at.clone().into());
    let mut text = serde_json::to_string_pretty(&Value::Object(document)).unwrap_or_default();
    text.push('\n');
    text
}
