//! A target behind a key: each sweep gets it from the environment, a resumed one too, and it stands nowhere.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::server::Server;

const KEY: &str = "sk-very-secret-key-of-the-engine";

/// A simulated engine that asks for a key.
struct Engine {
    child: Child,
    url: String,
}

impl Engine {
    fn start() -> Engine {
        let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args([
                "simulate",
                "--listen",
                "127.0.0.1:0",
                "--api-key-env",
                "PLIMSOLL_TEST_ENGINE_KEY",
            ])
            .env("PLIMSOLL_TEST_ENGINE_KEY", KEY)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line.split_whitespace().last().unwrap().to_owned();
        assert!(url.starts_with("http://"), "{line}");
        Engine { child, url }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_key_reaches_the_endpoint_after_a_crash_too_and_stands_in_no_file() {
    let engine = Engine::start();
    let folder = tempfile::tempdir().unwrap();
    let table = format!(
        "[targets.demo]\nurl = \"{}\"\napi-key-env = \"PLIMSOLL_TEST_ENGINE_KEY\"\n",
        engine.url
    );
    std::fs::write(folder.path().join("targets.toml"), table).unwrap();
    // With what is in the folder by chance nothing mixes.
    std::fs::write(
        folder.path().join("plimsoll.toml"),
        "[sla]\nterms = [\"ttft.p95<=1ms\"]\n",
    )
    .unwrap();
    let start = || {
        Server::start_with(
            folder.path(),
            &["--config", "targets.toml"],
            &[("PLIMSOLL_TEST_ENGINE_KEY", KEY)],
        )
    };
    let server = start();
    server.create("keyed", &json!({"concurrency": [2, 4]}));
    server.until_rungs(1, 1);
    server.kill();
    let server = start();
    let ended = server.until_ended("keyed");
    assert_eq!(ended["AIBenchmarkJobStatus"], "Completed", "{ended:#}");
    let files = server.archive(&ended);
    let run: serde_json::Value = serde_json::from_str(&files["run.json"]).unwrap();
    assert_eq!((&run["resumed"], &run["sla"]), (&json!(1), &json!([])));
    assert!(files.values().all(|text| !text.contains(KEY)));
    for file in ["jobs.sqlite", "jobs.sqlite-wal", "jobs/000001/log.txt"] {
        let bytes = std::fs::read(folder.path().join("plimsoll-data").join(file)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "{file}");
    }
    let unknown = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["resume", "--config", "targets.toml", "--target", "dmo"])
        .arg(
            std::fs::read_dir(folder.path().join("plimsoll-data/jobs/000001/runs"))
                .unwrap()
                .next()
                .unwrap()
                .unwrap()
                .path(),
        )
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        unknown.status.code() == Some(2) && said.contains("did you mean `demo`"),
        "{said}"
    );
}
