use super::*;
use crate::job::Status;
use crate::target::Place;
use serde_json::json;

const ROLE: &str = "arn:aws:iam::123456789012:role/Bench";

struct House {
    _folder: tempfile::TempDir,
    api: Api,
}

impl House {
    fn new() -> House {
        let folder = tempfile::tempdir().unwrap();
        let mut targets = Targets::default();
        targets
            .add("prod", Place::Address("http://h/v1".to_owned()))
            .unwrap();
        let api = Api {
            store: Arc::new(Store::open(&folder.path().join("jobs.sqlite")).unwrap()),
            folders: Folders::below(folder.path()),
            targets,
            arns: Arns::default(),
            bell: Arc::default(),
        };
        House { _folder: folder, api }
    }

    fn call(&self, operation: &str, input: &Value) -> Result<Value, ApiError> {
        self.api.call(operation, input.to_string().as_bytes())
    }

    #[track_caller]
    fn ok(&self, operation: &str, input: &Value) -> Value {
        self.call(operation, input).unwrap()
    }

    #[track_caller]
    fn refused(&self, operation: &str, input: &Value, code: Code, expected: &str) {
        let error = self.call(operation, input).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(expected), "{error}");
    }

    fn config(&self, name: &str) -> Value {
        self.ok("CreateAIWorkloadConfig", &config(name))
    }
}

fn config(name: &str) -> Value {
    let inline = r#"{"benchmark":{"type":"aiperf"},"parameters":{"concurrency":[2,4,8]}}"#;
    json!({"AIWorkloadConfigName": name, "AIWorkloadConfigs": {"WorkloadSpec": {"Inline": inline}}})
}

fn job(name: &str) -> Value {
    json!({
        "AIBenchmarkJobName": name,
        "BenchmarkTarget": {"Endpoint": {"Identifier": "prod"}},
        "OutputConfig": {"S3OutputLocation": "s3://bucket/sweeps"},
        "AIWorkloadConfigIdentifier": "chat",
        "RoleArn": ROLE,
    })
}

/// A request with another value at a pointer.
fn but(mut input: Value, pointer: &str, value: Value) -> Value {
    *input.pointer_mut(pointer).unwrap() = value;
    input
}

#[test]
fn a_job_from_its_config_to_its_end() {
    let house = House::new();
    let arn = house.config("chat")["AIWorkloadConfigArn"].clone();
    assert_eq!(
        arn,
        "arn:aws:sagemaker:us-east-1:000000000000:ai-workload-config/chat"
    );
    let described = house.ok("DescribeAIWorkloadConfig", &json!({"AIWorkloadConfigName": arn}));
    assert_eq!(
        described["AIWorkloadConfigs"],
        config("chat")["AIWorkloadConfigs"]
    );
    assert!(described["CreationTime"].as_f64().unwrap() > 1.7e9);

    house.ok(
        "CreateAIBenchmarkJob",
        &but(job("a"), "/AIWorkloadConfigIdentifier", arn.clone()),
    );
    let described = house.ok("DescribeAIBenchmarkJob", &json!({"AIBenchmarkJobName": "a"}));
    assert_eq!(described["AIBenchmarkJobStatus"], "InProgress");
    assert_eq!(
        described["OutputConfig"]["S3OutputLocation"],
        "s3://bucket/sweeps/a-000001/"
    );
    assert_eq!(described["BenchmarkTarget"], job("a")["BenchmarkTarget"]);
    assert_eq!(described["AIWorkloadConfigIdentifier"], arn);
    assert!(described.get("EndTime").is_none() && described.get("FailureReason").is_none());

    house.refused(
        "CreateAIBenchmarkJob",
        &job("a"),
        Code::InUse,
        "`a` exists already",
    );
    let by_config = json!({"AIWorkloadConfigName": "chat"});
    house.refused("DeleteAIWorkloadConfig", &by_config, Code::InUse, "job `a`");
    let by_name = json!({"AIBenchmarkJobName": "a"});
    house.refused("DeleteAIBenchmarkJob", &by_name, Code::Validation, "InProgress");
    house.ok("StopAIBenchmarkJob", &by_name);
    let id = house.api.store.job("a").unwrap().id;
    house
        .api
        .store
        .move_to(id, Status::Failed, Some("it broke"))
        .unwrap();
    house.refused("StopAIBenchmarkJob", &by_name, Code::Validation, "is Failed");
    let described = house.ok("DescribeAIBenchmarkJob", &by_name);
    assert_eq!(described["FailureReason"], "it broke");
    assert!(described["EndTime"].is_number());
    house.ok("DeleteAIBenchmarkJob", &by_name);
    for operation in [
        "DescribeAIBenchmarkJob",
        "StopAIBenchmarkJob",
        "DeleteAIBenchmarkJob",
    ] {
        house.refused(operation, &by_name, Code::NotFound, "no job `a`");
    }
    house.ok("DeleteAIWorkloadConfig", &by_config);
    house.refused(
        "DeleteAIWorkloadConfig",
        &by_config,
        Code::NotFound,
        "no workload config",
    );
}

#[test]
fn what_is_wrong_with_a_job_is_named_and_nothing_is_stored() {
    let house = House::new();
    house.config("chat");
    let wrong = |pointer: &str, value: Value, expected: &str| {
        house.refused(
            "CreateAIBenchmarkJob",
            &but(job("a"), pointer, value),
            Code::Validation,
            expected,
        );
    };
    for name in [
        "x".repeat(64),
        String::new(),
        "-a".into(),
        "a-".into(),
        "../a".into(),
        "<b>".into(),
    ] {
        wrong("/AIBenchmarkJobName", name.into(), "`AIBenchmarkJobName`");
    }
    wrong("/AIBenchmarkJobName", json!(5), "is not a string");
    wrong("/AIBenchmarkJobName", Value::Null, "is missing");
    wrong("/BenchmarkTarget", json!("prod"), "is not an object");
    wrong(
        "/BenchmarkTarget/Endpoint/Identifier",
        json!("prd"),
        "did you mean `prod`",
    );
    wrong(
        "/BenchmarkTarget/Endpoint/Identifier",
        json!("http://elsewhere/v1"),
        "no target of this server",
    );
    wrong(
        "/BenchmarkTarget/Endpoint",
        json!({"Identifier": "prod", "InferenceComponents": [{"Identifier": "x"}]}),
        "means nothing here",
    );
    for location in ["s3://bucket/../../etc", "/etc", "https://bucket/x", "s3://b/x"] {
        wrong(
            "/OutputConfig/S3OutputLocation",
            location.into(),
            "`OutputConfig.S3OutputLocation`",
        );
    }
    wrong(
        "/AIWorkloadConfigIdentifier",
        json!("a b"),
        "`AIWorkloadConfigIdentifier`",
    );
    wrong(
        "/AIWorkloadConfigIdentifier",
        json!("chat-"),
        "`AIWorkloadConfigIdentifier`",
    );
    wrong("/RoleArn", json!("arn:aws:iam::1234567:role/x"), "`RoleArn`");
    let mut misspelt = job("a");
    misspelt["RoleAnr"] = ROLE.into();
    house.refused(
        "CreateAIBenchmarkJob",
        &misspelt,
        Code::Validation,
        "did you mean `RoleArn`",
    );
    let mut networked = job("a");
    networked["NetworkConfig"] = json!({});
    house.refused(
        "CreateAIBenchmarkJob",
        &networked,
        Code::Validation,
        "NetworkConfig",
    );
    let unknown = but(job("a"), "/AIWorkloadConfigIdentifier", json!("other"));
    house.refused("CreateAIBenchmarkJob", &unknown, Code::NotFound, "`other`");
    for tags in [
        json!("x"),
        json!([1]),
        json!([{"Key": "k"}]),
        json!([{"Key": "", "Value": ""}]),
        json!([{"Key": "k", "Value": "v"}, {"Key": "k", "Value": "w"}]),
    ] {
        let mut tagged = job("a");
        tagged["Tags"] = tags;
        house.refused("CreateAIBenchmarkJob", &tagged, Code::Validation, "Tags");
    }
    assert_eq!(
        house.ok("ListAIBenchmarkJobs", &json!({}))["AIBenchmarkJobs"],
        json!([])
    );

    house.refused(
        "CreateAIWorkloadConfig",
        &config("chat"),
        Code::InUse,
        "exists already",
    );
    let inline = "/AIWorkloadConfigs/WorkloadSpec/Inline";
    let bad = but(
        config("b"),
        inline,
        r#"{"benchmark":{"type":"aiperf"},"parameters":{"concurency":1}}"#.into(),
    );
    house.refused(
        "CreateAIWorkloadConfig",
        &bad,
        Code::Validation,
        "did you mean `concurrency`",
    );
    house.refused(
        "CreateAIWorkloadConfig",
        &but(config("b"), inline, json!({})),
        Code::Validation,
        "not a string",
    );
    let mut dataset = config("b");
    dataset["DatasetConfig"] = json!({});
    house.refused(
        "CreateAIWorkloadConfig",
        &dataset,
        Code::Validation,
        "DatasetConfig",
    );
    // Valid in the API, and of no use to a job.
    house.ok(
        "CreateAIWorkloadConfig",
        &json!({"AIWorkloadConfigName": "empty"}),
    );
    let empty = but(job("a"), "/AIWorkloadConfigIdentifier", json!("empty"));
    house.refused("CreateAIBenchmarkJob", &empty, Code::Validation, "Inline");
}

#[test]
fn bodies_and_operations_that_are_none_are_refused() {
    let house = House::new();
    for body in [&b"{"[..], b"[]", b"5", b"\xff\xfe", &[b'['; 100_000]] {
        let error = house.api.call("ListAIBenchmarkJobs", body).unwrap_err();
        assert_eq!(error.code, Code::Serialization, "{error}");
    }
    house.api.call("ListAIBenchmarkJobs", b"").unwrap();
    let error = house.api.call("CreateAIBenchmarkJobs", b"{}").unwrap_err();
    assert_eq!(error.code, Code::UnknownOperation);
    assert!(
        error.message.contains("did you mean `CreateAIBenchmarkJob`"),
        "{error}"
    );
}

#[test]
fn lists_come_in_pages_sorted_and_filtered() {
    let house = House::new();
    house.config("chat");
    for n in 0..5 {
        house.ok("CreateAIBenchmarkJob", &job(&format!("job-{n}")));
    }
    let names = |answer: &Value| -> Vec<String> {
        let jobs = answer["AIBenchmarkJobs"].as_array().unwrap().iter();
        jobs.map(|job| job["AIBenchmarkJobName"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut input = json!({"MaxResults": 2, "SortBy": "Name", "SortOrder": "Ascending"});
    let mut seen = Vec::new();
    loop {
        let answer = house.ok("ListAIBenchmarkJobs", &input);
        seen.extend(names(&answer));
        match answer.get("NextToken") {
            Some(token) => input["NextToken"] = token.clone(),
            None => break,
        }
    }
    assert_eq!(seen, ["job-0", "job-1", "job-2", "job-3", "job-4"]);
    assert_eq!(
        names(&house.ok("ListAIBenchmarkJobs", &json!({})))[0],
        "job-4",
        "the newest first"
    );
    let found = house.ok(
        "ListAIBenchmarkJobs",
        &json!({"NameContains": "-3", "StatusEquals": "InProgress", "CreationTimeAfter": 0}),
    );
    assert_eq!(names(&found), ["job-3"]);
    assert!(names(&house.ok("ListAIBenchmarkJobs", &json!({"CreationTimeBefore": 1.5e9}))).is_empty());
    let other = but(input.clone(), "/SortOrder", json!("Descending"));
    house.refused("ListAIBenchmarkJobs", &other, Code::Validation, "NextToken");
    for (member, value) in [
        ("MaxResults", json!(0)),
        ("MaxResults", json!(101)),
        ("MaxResults", json!("5")),
        ("NextToken", json!("zz")),
        ("NextToken", json!("é")),
        ("SortBy", json!("Colour")),
        ("SortOrder", json!("ascending")),
        ("StatusEquals", json!("Running")),
        ("CreationTimeAfter", json!("yesterday")),
        ("NameContains", json!("x".repeat(64))),
    ] {
        let input = json!({member: value});
        house.refused("ListAIBenchmarkJobs", &input, Code::Validation, member);
    }
    house.refused(
        "ListAIWorkloadConfigs",
        &json!({"SortBy": "Status"}),
        Code::Validation,
        "SortBy",
    );
    let configs = house.ok("ListAIWorkloadConfigs", &json!({"SortBy": "Name"}));
    assert_eq!(configs["AIWorkloadConfigs"][0]["AIWorkloadConfigName"], "chat");
}

#[test]
fn tags_are_added_listed_and_deleted() {
    let house = House::new();
    let mut tagged = config("chat");
    tagged["Tags"] = json!([{"Key": "team", "Value": "<script>alert(1)</script>"}]);
    let arn = house.ok("CreateAIWorkloadConfig", &tagged)["AIWorkloadConfigArn"].clone();
    let added = house.ok(
        "AddTags",
        &json!({"ResourceArn": arn, "Tags": [{"Key": "a", "Value": ""}]}),
    );
    assert_eq!(added["Tags"].as_array().unwrap().len(), 2);
    house.ok(
        "DeleteTags",
        &json!({"ResourceArn": arn, "TagKeys": ["a", "none"]}),
    );
    let listed = house.ok("ListTags", &json!({"ResourceArn": arn, "MaxResults": 50}));
    assert_eq!(listed["Tags"], tagged["Tags"]);
    let many: Vec<Value> = (0..51)
        .map(|n| json!({"Key": n.to_string(), "Value": ""}))
        .collect();
    house.refused(
        "AddTags",
        &json!({"ResourceArn": arn, "Tags": many}),
        Code::Validation,
        "50 tags",
    );
    for bad in [
        "x",
        "arn:aws:sagemaker:us-east-1:000000000000:ai-workload-config/other",
    ] {
        house.refused(
            "ListTags",
            &json!({"ResourceArn": bad}),
            Code::Validation,
            "`ResourceArn`",
        );
    }
    house.refused("AddTags", &json!({"ResourceArn": arn}), Code::Validation, "Tags");
    house.refused(
        "DeleteTags",
        &json!({"ResourceArn": arn, "TagKeys": []}),
        Code::Validation,
        "TagKeys",
    );
}
