//! What must be refused, and leaves the server as it was.

use std::process::Command;

use serde_json::json;

use super::server::{Server, config, job};

#[test]
fn nothing_bad_is_stored_or_run_and_the_server_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.call(
        "CreateAIWorkloadConfig",
        &config("good", &json!({"concurrency": 1})),
    );
    let code = |body: &[u8]| {
        let answer = server.operation("CreateAIBenchmarkJob", body);
        assert_eq!(answer.status, 400, "{answer:#?}");
        answer.json()["__type"].as_str().unwrap().to_owned()
    };
    for body in [
        &b"{"[..],
        b"[1]",
        b"\xff\xfe\x00",
        b"{\"AIBenchmarkJobName\":",
        &[b'['; 50_000],
    ] {
        assert_eq!(code(body), "SerializationException");
    }
    let with = |member: &str, value: serde_json::Value| {
        let mut job = job("good");
        job[member] = value;
        code(job.to_string().as_bytes())
    };
    for (member, value) in [
        ("AIBenchmarkJobName", json!("x".repeat(64))),
        ("AIBenchmarkJobName", json!(["x"])),
        ("AIBenchmarkJobName", json!("../../etc/passwd")),
        ("BenchmarkTarget", json!({"Endpoint": {"Identifier": "nobody"}})),
        (
            "BenchmarkTarget",
            json!({"Endpoint": {"Identifier": "http://169.254.169.254/"}}),
        ),
        (
            "OutputConfig",
            json!({"S3OutputLocation": "s3://bucket/../../../tmp/x"}),
        ),
        ("OutputConfig", json!({"S3OutputLocation": "s3://../x"})),
        ("OutputConfig", json!("s3://bucket/x")),
        ("RoleArn", json!("arn:aws:iam::1:role/x")),
        ("Unknown", json!(1)),
    ] {
        assert_eq!(
            with(member, value.clone()),
            "ValidationException",
            "{member}: {value}"
        );
    }
    for parameters in [
        json!({"concurrency": "8"}),
        json!({"concurency": 8}),
        json!({"request_rate": 5}),
    ] {
        let (code, message) = server.refused("CreateAIWorkloadConfig", &config("bad", &parameters));
        assert_eq!(code, "ValidationException");
        assert!(message.contains("parameters."), "{message}");
    }
    assert_eq!(
        server.refused("CreateTrainingJob", &json!({})).0,
        "UnknownOperationException"
    );
    let large = server.operation("CreateAIWorkloadConfig", &vec![b' '; 10 << 20]);
    assert_eq!(large.status, 413, "{large:#?}");
    let untargeted = server.post("/", &json!({}));
    assert_eq!(untargeted.json()["__type"], "UnknownOperationException");
    assert_eq!(server.get("/nowhere").status, 404);
    // A page of another site that has its name point here, and one that posts from where it is.
    let rebound = server.send(
        "POST / HTTP/1.1\r\nHost: evil.example\r\nX-Amz-Target: SageMaker.ListAIBenchmarkJobs",
        b"{}",
    );
    assert_eq!(
        (rebound.status, rebound.json()["__type"].as_str()),
        (403, Some("AccessDeniedException"))
    );
    let foreign = server.send(
        "POST / HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example\r\nX-Amz-Target: SageMaker.ListAIBenchmarkJobs",
        b"{}",
    );
    assert_eq!(foreign.status, 403);
    assert_eq!(
        server.call("ListAIBenchmarkJobs", &json!({}))["AIBenchmarkJobs"],
        json!([])
    );
    assert!(
        !folder.path().join("plimsoll-data/jobs").exists(),
        "nothing was run"
    );
    assert_eq!(
        server.call("ListAIWorkloadConfigs", &json!({}))["AIWorkloadConfigs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_server_that_should_not_be_does_not_begin() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .arg("serve")
            .args(arguments)
            .current_dir(folder.path())
            .env("PLIMSOLL_TEST_SHORT", "hunter2")
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    std::fs::write(
        folder.path().join("mixed.toml"),
        "[targets.a]\nurl = \"http://h\"\n[sla]\nterms = []\n",
    )
    .unwrap();
    for (arguments, expected) in [
        (
            &["--target", "a=sim", "--listen", "0.0.0.0:0"][..],
            "not loopback",
        ),
        (&[], "no target"),
        (&["--target", "http://h"], "NAME=URL"),
        (&["--target", "a_b=http://h"], "target name `a_b`"),
        (&["--target", "a=http://me:hunter2@h"], "holds credentials"),
        (&["--target", "a=sim", "--target", "a=sim"], "named twice"),
        (
            &["--target", "a=sim", "--keys-env", "PLIMSOLL_TEST_NONE"],
            "`PLIMSOLL_TEST_NONE`",
        ),
        (
            &["--target", "a=sim", "--keys-env", "PLIMSOLL_TEST_SHORT"],
            "--keys-env",
        ),
        (
            &["--target", "a=sim", "--token-env", "PLIMSOLL_TEST_SHORT"],
            "--token-env",
        ),
        (&["--config", "mixed.toml"], "[sla]"),
        (&["--config", "none.toml"], "none.toml"),
        (&["--target", "a=sim", "--account", "12"], "twelve digits"),
        (&["--target", "a=sim", "--data", "mixed.toml"], "--data"),
    ] {
        let (code, said) = serve(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let server = Server::start(folder.path());
    let (code, said) = serve(&["--target", "a=sim", "--listen", "127.0.0.1:0"]);
    assert!(code == Some(2) && said.contains("another server"), "{said}");
    let (code, said) = serve(&[
        "--target",
        "a=sim",
        "--data",
        "other",
        "--listen",
        &server.address,
    ]);
    assert!(code == Some(2) && said.contains("--listen"), "{said}");
}

#[test]
fn with_keys_only_signed_requests_come_in() {
    use plimsoll_aws::credentials::Credentials;
    use plimsoll_aws::signature::Signer;

    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(
        folder.path(),
        &["--target", "demo=sim", "--keys-env", "PLIMSOLL_TEST_KEYS"],
        &[(
            "PLIMSOLL_TEST_KEYS",
            "AKIDFIRST:0123456789abcdef,AKIDSECOND:fedcba9876543210",
        )],
    );
    let signed = |id: &str, secret: &str, body: &[u8], sent: &[u8]| {
        let credentials = Credentials {
            access_key_id: id.to_owned(),
            secret_access_key: secret.to_owned(),
            session_token: None,
        };
        let mut headers = http::HeaderMap::new();
        headers.insert("host", server.address.parse().unwrap());
        headers.insert("content-type", "application/x-amz-json-1.1".parse().unwrap());
        headers.insert("x-amz-target", "SageMaker.ListAIBenchmarkJobs".parse().unwrap());
        let url = format!("http://{}/", server.address);
        Signer::new(&credentials, "us-east-1", "sagemaker")
            .sign(
                &http::Method::POST,
                &url,
                &mut headers,
                body,
                std::time::SystemTime::now(),
            )
            .unwrap();
        let lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        server.send(&format!("POST / HTTP/1.1\r\n{}", lines.join("\r\n")), sent)
    };
    for (id, secret) in [
        ("AKIDFIRST", "0123456789abcdef"),
        ("AKIDSECOND", "fedcba9876543210"),
    ] {
        assert_eq!(signed(id, secret, b"{}", b"{}").status, 200);
    }
    let changed = json!({"MaxResults": 1}).to_string();
    for answer in [
        signed("AKIDFIRST", "fedcba9876543210", b"{}", b"{}"),
        signed("AKIDOTHER", "0123456789abcdef", b"{}", b"{}"),
        signed("AKIDFIRST", "0123456789abcdef", b"{}", changed.as_bytes()),
        server.operation("ListAIBenchmarkJobs", b"{}"),
    ] {
        assert_eq!(answer.status, 403, "{answer:#?}");
        assert_eq!(answer.json()["__type"], "AccessDeniedException");
        assert!(!answer.body.contains("0123456789abcdef"));
    }
}
