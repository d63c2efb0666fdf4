//! A sweep as a child process: this executable's own `sweep` and `resume`.
//!
//! The child holds the reading end of a pipe and ends when that closes, which it does however the server ends: no load goes on
//! that nobody watches.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::executor::{Ended, Executor, Order, Sweep};
use crate::target::Place;

/// The variable that makes `plimsoll sweep` and `plimsoll resume` end with their stdin.
pub const END_WITH_STDIN: &str = "PLIMSOLL_END_WITH_STDIN";

/// What a child says is read from the end of its log.
const LOG: &str = "log.txt";
const LAST_WORDS: u64 = 4096;

/// Starts children of one executable.
#[derive(Debug, Clone)]
pub struct Processes {
    executable: PathBuf,
    /// Variables that the server's own secrets come from, which no child needs.
    hidden: Vec<String>,
}

impl Processes {
    /// Children of `executable`, without the environment variables `hidden`.
    #[must_use]
    pub fn new(executable: PathBuf, hidden: Vec<String>) -> Self {
        Processes { executable, hidden }
    }
}

impl Executor for Processes {
    fn start(&self, order: &Order) -> Result<Box<dyn Sweep>, String> {
        let log = order.folder.join(LOG);
        let open = || {
            fs::create_dir_all(&order.folder)?;
            let file = OpenOptions::new().create(true).append(true).open(&log)?;
            // What stands there already was said by an earlier child.
            let begin = file.metadata()?.len();
            Ok((file, begin))
        };
        let (stderr, begin) =
            open().map_err(|error: std::io::Error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(&self.executable);
        command
            .args(arguments(order))
            .env(END_WITH_STDIN, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(stderr)
            // Ctrl-C at the server's terminal is for the server.
            .process_group(0);
        for name in &self.hidden {
            command.env_remove(name);
        }
        let child = command
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", self.executable.display()))?;
        Ok(Box::new(Running { child, log, begin }))
    }
}

/// The command line of an order.
fn arguments(order: &Order) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut arguments: Vec<String> = Vec::new();
    match &order.resume {
        Some(run) => {
            arguments.extend(["resume".to_owned(), text(run)]);
            if let Place::Filed { file, .. } = &order.target.place {
                arguments.push(format!("--config={}", text(file)));
                arguments.push(format!("--target={}", order.target.name));
            }
            arguments.extend(order.resume_flags.iter().cloned());
        }
        None => {
            arguments.push("sweep".to_owned());
            match &order.target.place {
                // No sweep file: one that lies where the server was started would mix with what the job asks for.
                Place::Address(address) => {
                    arguments.extend([address.clone(), "--config=/dev/null".to_owned()])
                }
                Place::Filed { file, .. } => {
                    arguments.push(order.target.name.clone());
                    arguments.push(format!("--config={}", text(file)));
                }
            }
            arguments.push(format!("--out={}", text(&order.folder.join("runs"))));
            arguments.extend(order.flags.iter().cloned());
        }
    }
    arguments.extend(["--json".to_owned(), "--quiet".to_owned()]);
    arguments
}

struct Running {
    child: Child,
    log: PathBuf,
    /// Where its own words begin in the log.
    begin: u64,
}

impl Sweep for Running {
    fn ended(&mut self) -> Option<Ended> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(Ended {
                code: status.code(),
                said: last_line(&self.log, self.begin),
            }),
            Err(error) => Some(Ended {
                code: None,
                said: format!("the sweep's process cannot be watched: {error}"),
            }),
        }
    }

    fn stop(&mut self) {
        // Once it was waited for, its id may be another's.
        if let Ok(None) = self.child.try_wait()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // It may have ended in between: then there is nothing to stop.
            let _ = kill_process(pid, Signal::INT);
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

/// The last line of a log that says something, from `begin` on.
fn last_line(log: &Path, begin: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS).max(begin)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or_default()
        .trim()
        .trim_start_matches("plimsoll: ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::target::Target;

    fn order(place: Place, resume: Option<&str>, folder: &Path) -> Order {
        Order {
            target: Target {
                name: "prod".to_owned(),
                place,
            },
            folder: folder.to_owned(),
            flags: vec!["--levels=2,4".to_owned()],
            resume_flags: vec!["--request-timeout=5s".to_owned()],
            resume: resume.map(PathBuf::from),
        }
    }

    #[test]
    fn command_lines_name_target_folder_and_flags() {
        let address = Place::Address("http://h/v1".to_owned());
        let filed = Place::Filed {
            file: "p.toml".into(),
            url: "http://h/v1".to_owned(),
        };
        let line =
            |place: &Place, resume| arguments(&order(place.clone(), resume, Path::new("/d/7"))).join(" ");
        assert_eq!(
            line(&address, None),
            "sweep http://h/v1 --config=/dev/null --out=/d/7/runs --levels=2,4 --json --quiet"
        );
        assert_eq!(
            line(&filed, None),
            "sweep prod --config=p.toml --out=/d/7/runs --levels=2,4 --json --quiet"
        );
        assert_eq!(
            line(&address, Some("/d/7/runs/r")),
            "resume /d/7/runs/r --request-timeout=5s --json --quiet"
        );
        assert_eq!(
            line(&filed, Some("/d/7/runs/r")),
            "resume /d/7/runs/r --config=p.toml --target=prod --request-timeout=5s --json --quiet"
        );
    }

    /// A script in place of the executable.
    fn run(script: &str, act: impl Fn(&mut dyn Sweep)) -> Ended {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("plimsoll");
        fs::write(&executable, format!("#!/bin/sh\n{script}\n")).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
        let processes = Processes::new(executable, vec!["PATH_TO_NOWHERE".to_owned()]);
        let order = order(Place::Address("sim".to_owned()), None, &folder.path().join("job"));
        // Another test's child may still hold the script open for writing as it forks.
        let mut sweep = loop {
            match processes.start(&order) {
                Ok(sweep) => break sweep,
                Err(error) => assert!(error.contains("busy"), "{error}"),
            }
        };
        act(&mut *sweep);
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(ended) = sweep.ended() {
                return ended;
            }
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_child_ends_with_its_code_and_its_last_words() {
        let ended = run(
            "echo one >&2; echo 'plimsoll: cannot reach it' >&2; echo >&2; exit 5",
            |_| (),
        );
        assert_eq!(
            ended,
            Ended {
                code: Some(5),
                said: "cannot reach it".to_owned()
            }
        );
    }

    #[test]
    fn a_child_can_be_killed() {
        assert_eq!(run("exec sleep 60", |sweep| sweep.kill()).code, None);
    }

    #[test]
    fn what_cannot_be_started_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let processes = Processes::new(folder.path().join("none"), vec![]);
        let order = order(Place::Address("sim".to_owned()), None, folder.path());
        let error = processes.start(&order).err().unwrap();
        assert!(error.contains("none"), "{error}");
    }
}
