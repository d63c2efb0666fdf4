//! A server as a user starts it, and a client for it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const ROLE: &str = "arn:aws:iam::123456789012:role/Bench";

/// A running `plimsoll serve`.
pub struct Server {
    child: Child,
    /// `127.0.0.1:PORT`
    pub address: String,
    pub folder: PathBuf,
}

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

impl Server {
    /// Starts one on the data in `folder`, with two simulated targets.
    pub fn start(folder: &Path) -> Server {
        Server::start_with(
            folder,
            &["--target", "demo=sim", "--target", "other=sim:llama-3.1-8b"],
            &[],
        )
    }

    pub fn start_with(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .envs(variables.iter().copied())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("plimsoll serves at http://")
            .and_then(|rest| rest.strip_suffix('/'))
            .unwrap_or_else(|| panic!("{line:?}"))
            .to_owned();
        Server {
            child,
            address,
            folder: folder.to_owned(),
        }
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Any request at all.
    pub fn send(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = head.replace("HOST", &self.address);
        let request = format!(
            "{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        // A server that has read enough may answer and close.
        let _ = stream.write_all(body);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| {
                let (name, value) = line.split_once(": ").unwrap();
                (name.to_ascii_lowercase(), value.to_owned())
            })
            .collect();
        Answer {
            status,
            headers,
            body: body.to_owned(),
        }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: HOST"), b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(
            &format!("POST {path} HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json"),
            body.to_string().as_bytes(),
        )
    }

    /// An operation with any body.
    pub fn operation(&self, operation: &str, body: &[u8]) -> Answer {
        self.send(
            &format!(
                "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/x-amz-json-1.1\r\nX-Amz-Target: SageMaker.{operation}"
            ),
            body,
        )
    }

    /// An operation that does well.
    #[track_caller]
    pub fn call(&self, operation: &str, input: &Value) -> Value {
        let answer = self.operation(operation, input.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{operation}: {answer:#?}");
        answer.json()
    }

    /// An operation that is refused: the code and what is said.
    #[track_caller]
    pub fn refused(&self, operation: &str, input: &Value) -> (String, String) {
        let answer = self.operation(operation, input.to_string().as_bytes());
        assert_eq!(answer.status, 400, "{operation}: {answer:#?}");
        let body = answer.json();
        let code = body["__type"].as_str().unwrap().to_owned();
        assert_eq!(answer.headers["x-amzn-errortype"], code);
        assert!(answer.headers.contains_key("x-amzn-requestid"));
        (code, body["Message"].as_str().unwrap().to_owned())
    }

    /// Makes a config and a job of one name.
    #[track_caller]
    pub fn create(&self, name: &str, parameters: &Value) {
        self.call("CreateAIWorkloadConfig", &config(name, parameters));
        self.call("CreateAIBenchmarkJob", &job(name));
    }

    pub fn describe(&self, name: &str) -> Value {
        self.call("DescribeAIBenchmarkJob", &json!({"AIBenchmarkJobName": name}))
    }

    /// Polls, as clients do, until the job has ended; fails the test after 60 s.
    #[track_caller]
    pub fn until_ended(&self, name: &str) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let job = self.describe(name);
            let status = job["AIBenchmarkJobStatus"].as_str().unwrap();
            if !["InProgress", "Stopping"].contains(&status) {
                return job;
            }
            assert!(Instant::now() < deadline, "waited 60 s for {name}: {job:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Rungs that a job's run holds by now.
    pub fn rungs(&self, id: u32) -> usize {
        let runs = self.folder.join(format!("plimsoll-data/jobs/{id:06}/runs"));
        let Some(run) = std::fs::read_dir(runs).ok().and_then(|mut runs| runs.next()) else {
            return 0;
        };
        let text = std::fs::read_to_string(run.unwrap().path().join("run.json")).unwrap_or_default();
        let run: Value = serde_json::from_str(&text).unwrap_or_default();
        run["rungs"].as_array().map_or(0, Vec::len)
    }

    /// Waits until a job's run holds so many rungs.
    #[track_caller]
    pub fn until_rungs(&self, id: u32, rungs: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.rungs(id) < rungs {
            assert!(Instant::now() < deadline, "waited 60 s for {rungs} rungs");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The files in the archive at a job's output location: names, and the text of those that are text.
    #[track_caller]
    pub fn archive(&self, job: &Value) -> BTreeMap<String, String> {
        let location = job["OutputConfig"]["S3OutputLocation"].as_str().unwrap();
        let place = self
            .folder
            .join("plimsoll-data/s3")
            .join(location.strip_prefix("s3://").unwrap())
            .join("output/output.tar.gz");
        let file = std::fs::File::open(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(
                entry.path().unwrap().to_string_lossy().into_owned(),
                String::from_utf8_lossy(&bytes).into_owned(),
            );
        }
        files
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A config of short rungs; `parameters` say the rest.
pub fn config(name: &str, parameters: &Value) -> Value {
    let mut all = json!({"isl": 64, "osl": 4, "benchmark_duration": 1});
    for (key, value) in parameters.as_object().unwrap() {
        all[key] = value.clone();
    }
    let inline = json!({"benchmark": {"type": "aiperf"}, "parameters": all}).to_string();
    json!({"AIWorkloadConfigName": name, "AIWorkloadConfigs": {"WorkloadSpec": {"Inline": inline}}})
}

/// A job on `demo` with the config of its own name.
pub fn job(name: &str) -> Value {
    json!({
        "AIBenchmarkJobName": name,
        "BenchmarkTarget": {"Endpoint": {"Identifier": "demo"}},
        "OutputConfig": {"S3OutputLocation": "s3://bucket/sweeps/"},
        "AIWorkloadConfigIdentifier": name,
        "RoleArn": ROLE,
    })
}
