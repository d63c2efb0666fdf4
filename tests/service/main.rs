//! `plimsoll serve` through the real binary, with the simulated engine as its targets: AWS's flow from config to archive, stop
//! and delete, `kill -9` in the middle, and what must be refused.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails where its helpers do"
)]

mod boto3;
mod credentials;
mod refused;
mod server;
mod watched;

use std::time::Duration;

use serde_json::{Value, json};
use server::{Server, config, job};

#[test]
fn a_list_of_levels_from_config_to_archive() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.create(
        "list",
        &json!({"concurrency": [2, 4, 8], "tokenizer": "any/thing"}),
    );
    let ended = server.until_ended("list");
    assert_eq!(ended["AIBenchmarkJobStatus"], "Completed", "{ended:#}");
    assert!(ended["EndTime"].as_f64() > ended["StartTime"].as_f64());
    let files = server.archive(&ended);
    let sweep: Value =
        serde_json::from_str(&files["sweep_aggregate/profile_export_aiperf_sweep.json"]).unwrap();
    let levels: Vec<&Value> = sweep["per_combination_metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|combination| {
            let metrics = &combination["metrics"];
            assert!(metrics["request_throughput"]["mean"].as_f64().unwrap() > 0.0);
            for metric in ["request_latency", "time_to_first_token"] {
                assert!(metrics[metric]["p50"].is_number() && metrics[metric]["p99"].is_number());
            }
            &combination["parameters"]["concurrency"]
        })
        .collect();
    assert_eq!(levels, [2, 4, 8]);
    for name in [
        "concurrency_8/profile_export_aiperf.json",
        "run.json",
        "report.html",
        "rungs/03-c0008/requests.parquet",
    ] {
        assert!(files.contains_key(name), "{name}: {:?}", files.keys());
    }
    assert!(!files.contains_key("search_history.json"));

    server.call("DeleteAIBenchmarkJob", &json!({"AIBenchmarkJobName": "list"}));
    server.call("DeleteAIWorkloadConfig", &json!({"AIWorkloadConfigName": "list"}));
    assert!(!folder.path().join("plimsoll-data/jobs/000001").exists());
    server.archive(&ended);
}

#[test]
fn a_search_leaves_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    // The engine holds so easy an SLA at every level.
    let search = json!({
        "search_recipe": "max-concurrency-under-sla", "e2e_sla_ms": 60000, "concurrency_min": 2, "concurrency_max": 6,
        "search_max_iterations": 3, "search_initial_points": 4, "search_stat": "p50"
    });
    server.create("search", &search);
    let ended = server.until_ended("search");
    assert_eq!(ended["AIBenchmarkJobStatus"], "Completed", "{ended:#}");
    let history: Value = serde_json::from_str(&server.archive(&ended)["search_history.json"]).unwrap();
    assert_eq!(
        history["boundary_summary"]["feasible_max"]["value"], 6,
        "{history:#}"
    );
    assert_eq!(history["boundary_summary"]["infeasible_min"], Value::Null);
    assert_eq!(history["config"]["search_space"][0]["lo"], 2);
}

#[test]
fn a_job_that_is_stopped_keeps_what_it_measured_and_the_next_on_its_target_waits() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.create("long", &json!({"concurrency": [2, 3, 4, 5, 6, 7, 8, 9]}));
    server.create("next", &json!({"concurrency": 2}));
    server.until_rungs(1, 1);
    assert!(
        server.describe("next").get("StartTime").is_none(),
        "one at a time on a target"
    );
    let name = json!({"AIBenchmarkJobName": "long"});
    assert_eq!(
        server.refused("DeleteAIBenchmarkJob", &name).0,
        "ValidationException"
    );
    server.call("StopAIBenchmarkJob", &name);
    let ended = server.until_ended("long");
    assert_eq!(ended["AIBenchmarkJobStatus"], "Stopped");
    let run: Value = serde_json::from_str(&server.archive(&ended)["run.json"]).unwrap();
    let rungs = run["rungs"].as_array().unwrap().len();
    assert!((1..8).contains(&rungs), "{rungs} rungs");
    assert_eq!(
        server.refused("StopAIBenchmarkJob", &name).0,
        "ValidationException"
    );
    assert_eq!(server.until_ended("next")["AIBenchmarkJobStatus"], "Completed");
}

#[test]
fn killed_in_the_middle_the_server_takes_its_job_up_again_and_loses_no_rung() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    server.create("job", &json!({"concurrency": [2, 4, 6, 8]}));
    for rungs in [1, 2] {
        server.until_rungs(1, rungs);
        // Into the next rung.
        std::thread::sleep(Duration::from_millis(300));
        server.kill();
        server = Server::start(folder.path());
        assert!(server.rungs(1) >= rungs, "no finished rung is lost");
        assert_eq!(server.describe("job")["AIBenchmarkJobStatus"], "InProgress");
    }
    let ended = server.until_ended("job");
    assert_eq!(ended["AIBenchmarkJobStatus"], "Completed", "{ended:#}");
    let run: Value = serde_json::from_str(&server.archive(&ended)["run.json"]).unwrap();
    let rungs = run["rungs"].as_array().unwrap();
    let measured: Vec<&Value> = rungs.iter().map(|rung| &rung["concurrency"]).collect();
    assert_eq!(measured, [2, 4, 6, 8]);
    assert_eq!((&run["status"], &run["resumed"]), (&json!("complete"), &json!(2)));
}

#[test]
fn a_target_that_is_not_there_fails_the_job_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let closed = plimsoll_scripted::closed_port().unwrap();
    let target = format!("demo=http://{closed}/v1");
    let server = Server::start_with(folder.path(), &["--target", &target], &[]);
    server.create("nobody", &json!({"concurrency": 2}));
    let ended = server.until_ended("nobody");
    assert_eq!(ended["AIBenchmarkJobStatus"], "Failed");
    let reason = ended["FailureReason"].as_str().unwrap();
    assert!(reason.contains(&closed.to_string()), "{reason}");
    let listed = server.call("ListAIBenchmarkJobs", &json!({"StatusEquals": "Failed"}));
    assert_eq!(listed["AIBenchmarkJobs"][0]["AIBenchmarkJobName"], "nobody");
}

#[test]
fn lists_come_in_pages_and_tags_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for n in 0..5 {
        server.call(
            "CreateAIWorkloadConfig",
            &config(&format!("config-{n}"), &json!({"concurrency": 1})),
        );
    }
    let mut input = json!({"MaxResults": 2, "SortBy": "Name", "SortOrder": "Ascending"});
    let mut names = Vec::new();
    loop {
        let page = server.call("ListAIWorkloadConfigs", &input);
        for config in page["AIWorkloadConfigs"].as_array().unwrap() {
            names.push(config["AIWorkloadConfigName"].as_str().unwrap().to_owned());
        }
        match page.get("NextToken") {
            Some(token) => input["NextToken"] = token.clone(),
            None => break,
        }
    }
    assert_eq!(
        names,
        ["config-0", "config-1", "config-2", "config-3", "config-4"]
    );
    let arn = "arn:aws:sagemaker:us-east-1:000000000000:ai-workload-config/config-0";
    let tag = json!([{"Key": "<b>", "Value": "<script>alert('é')</script>"}]);
    server.call("AddTags", &json!({"ResourceArn": arn, "Tags": tag}));
    assert_eq!(server.call("ListTags", &json!({"ResourceArn": arn}))["Tags"], tag);
    server.call("DeleteTags", &json!({"ResourceArn": arn, "TagKeys": ["<b>"]}));
    assert_eq!(
        server.call("ListTags", &json!({"ResourceArn": arn}))["Tags"],
        json!([])
    );
    let mut wrong = job("config-0");
    wrong["AIWorkloadConfigIdentifier"] = "config-9".into();
    assert_eq!(
        server.refused("CreateAIBenchmarkJob", &wrong).0,
        "ResourceNotFound"
    );
    let taken = config("config-0", &json!({"concurrency": 1}));
    assert_eq!(
        server.refused("CreateAIWorkloadConfig", &taken).0,
        "ResourceInUse"
    );
}
