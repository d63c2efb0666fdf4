//! Runs the binary as a user would, in a folder of its own.

// Each test file uses its own part of this.
#![allow(dead_code)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails where its harness does"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// What a finished command left.
#[derive(Debug)]
pub struct Finished {
    /// Exit code.
    pub code: i32,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub stderr: String,
    /// Wall time.
    pub took: Duration,
}

impl Finished {
    fn of(output: &Output, took: Duration) -> Self {
        Finished {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            took,
        }
    }

    /// stdout as the one JSON document that it must be.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON document: {error}\n{self:#?}"))
    }

    /// Fails the test, showing everything, unless the command ended with `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

/// A folder to run commands in.
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// A new, empty one.
    pub fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command
            .args(arguments)
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs `plimsoll` to its end.
    pub fn plimsoll(&self, arguments: &[&str]) -> Finished {
        let started = Instant::now();
        let output = self.command(arguments).output().unwrap();
        Finished::of(&output, started.elapsed())
    }

    /// Runs `plimsoll` with environment variables set.
    pub fn plimsoll_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Finished {
        let started = Instant::now();
        let output = self
            .command(arguments)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        Finished::of(&output, started.elapsed())
    }

    /// Starts `plimsoll` and lets it run.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let child = self
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Running {
            child,
            started: Instant::now(),
        }
    }

    /// The one run directory below `runs`.
    pub fn run_directory(&self) -> PathBuf {
        let mut found: Vec<PathBuf> = std::fs::read_dir(self.path().join("runs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    /// Its `run.json`.
    pub fn run_json(&self) -> Value {
        let text = std::fs::read_to_string(self.run_directory().join("run.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Every file below the folder with its bytes.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn walk(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    found.push((path, bytes));
                }
            }
        }
        let mut found = Vec::new();
        walk(self.path(), &mut found);
        found
    }
}

/// A command that runs.
pub struct Running {
    child: Child,
    started: Instant,
}

impl Running {
    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) {
        let status = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for its end.
    pub fn finish(self) -> Finished {
        let output = self.child.wait_with_output().unwrap();
        Finished::of(&output, self.started.elapsed())
    }
}

/// Waits until `ready` says yes; fails the test after 60 s.
#[track_caller]
pub fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready() {
        assert!(Instant::now() < deadline, "waited 60 s for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The file of a published curve by its number.
pub fn curve(number: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/curves");
    let mut files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let begins = format!("{number}_");
    files
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(&begins))
        })
        .unwrap()
}

/// A number in a JSON document by its path.
#[track_caller]
pub fn number(document: &Value, pointer: &str) -> f64 {
    document
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("{pointer} is not a number in {document:#}"))
}

/// A text in a JSON document by its path.
#[track_caller]
pub fn text<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{pointer} is not a text in {document:#}"))
}
