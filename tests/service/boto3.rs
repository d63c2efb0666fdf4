//! AWS's own client, where `PLIMSOLL_BOTO3` names a Python that has it, as `.ci/run` arranges; elsewhere the test says that it
//! was skipped.

use std::path::Path;
use std::process::Command;

use super::server::Server;

const KEYS: (&str, &str) = ("AKIDEXAMPLE", "0123456789abcdef0123");

#[test]
fn boto3_goes_through_the_flow_of_awss_notebooks() {
    let Some(python) = std::env::var_os("PLIMSOLL_BOTO3") else {
        assert!(
            std::env::var_os("PLIMSOLL_TEST_ALL").is_none(),
            "PLIMSOLL_BOTO3 is not set"
        );
        eprintln!(
            "skipped boto3_goes_through_the_flow_of_awss_notebooks: PLIMSOLL_BOTO3 names no Python with boto3"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let pair = format!("{}:{}", KEYS.0, KEYS.1);
    let server = Server::start_with(
        folder.path(),
        &["--target", "demo=sim", "--keys-env", "PLIMSOLL_TEST_KEYS"],
        &[("PLIMSOLL_TEST_KEYS", pair.as_str())],
    );
    let output = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/service/boto3_flow.py"))
        .arg(format!("http://{}", server.address))
        .arg(folder.path().join("plimsoll-data/s3"))
        .env("AWS_ACCESS_KEY_ID", KEYS.0)
        .env("AWS_SECRET_ACCESS_KEY", KEYS.1)
        .env_remove("AWS_SESSION_TOKEN")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
