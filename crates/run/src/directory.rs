//! The run directory on disk.
//!
//! ```text
//! runs/<UTC time>-<label>/
//!   run.json             replaced atomically after every rung
//!   rungs/01-c0064/      requests.parquet, itl.hdr, timeline.csv, server.csv
//!   verification/        requests.parquet of the open-loop replay
//!   report.html
//! ```

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

use crate::document::{DocumentError, Run};
use crate::request::RequestRecord;
use crate::rung::{ServerSample, TimelineSecond};

/// A run directory that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The file system said no.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// No run of that name.
    #[error("{}: {source}; name a run directory, such as one below runs/, or its run.json", .path.display())]
    NoRun {
        /// Which file.
        path: PathBuf,
        /// What the file system said.
        source: std::io::Error,
    },
    /// No run in that file.
    #[error("{}: {source}", .path.display())]
    Document {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: DocumentError,
    },
    /// A table that could not be written or read.
    #[error("{}: {problem}", .path.display())]
    Table {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> DirectoryError + '_ {
    move |source| DirectoryError::Io {
        path: path.to_owned(),
        source,
    }
}

fn table<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> DirectoryError + '_ {
    move |error| DirectoryError::Table {
        path: path.to_owned(),
        problem: error.to_string(),
    }
}

/// The directory of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes a new directory below `parent`, named after `started` and `label`. A name that is taken gets `-2`,
    /// `-3` and so on.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn create(parent: &Path, label: &str, started: jiff::Timestamp) -> Result<Self, DirectoryError> {
        fs::create_dir_all(parent).map_err(io(parent))?;
        let stem = format!("{}-{}", started.strftime("%Y%m%dT%H%M%SZ"), slug(label));
        let mut attempt = 1;
        loop {
            let name = if attempt == 1 {
                stem.clone()
            } else {
                format!("{stem}-{attempt}")
            };
            let path = parent.join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Ok(RunDirectory { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < 1000 => {
                    attempt += 1
                }
                Err(error) => return Err(io(&path)(error)),
            }
        }
    }

    /// Opens a run by its directory or its `run.json`.
    ///
    /// # Errors
    /// When there is no run that this version reads.
    pub fn open(path: &Path) -> Result<(Self, Run), DirectoryError> {
        let (directory, file) = if path.is_dir() {
            (path.to_owned(), path.join("run.json"))
        } else {
            (
                path.parent().unwrap_or(Path::new(".")).to_owned(),
                path.to_owned(),
            )
        };
        let text = fs::read_to_string(&file).map_err(|source| DirectoryError::NoRun {
            path: file.clone(),
            source,
        })?;
        let run = Run::from_json(&text).map_err(|source| DirectoryError::Document { path: file, source })?;
        Ok((RunDirectory { path: directory }, run))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces `run.json` atomically.
    ///
    /// # Errors
    /// When it cannot be written; the old one is then still whole.
    pub fn save(&self, run: &Run) -> Result<(), DirectoryError> {
        self.replace("run.json", run.to_json().as_bytes())
    }

    /// Replaces `report.html` atomically.
    ///
    /// # Errors
    /// When it cannot be written; the old one is then still whole.
    pub fn save_report(&self, html: &str) -> Result<(), DirectoryError> {
        self.replace("report.html", html.as_bytes())
    }

    fn replace(&self, name: &str, contents: &[u8]) -> Result<(), DirectoryError> {
        let path = self.path.join(name);
        let mut file = tempfile::Builder::new()
            .prefix(&format!(".{name}-"))
            .tempfile_in(&self.path)
            .map_err(io(&path))?;
        file.write_all(contents).map_err(io(&path))?;
        file.as_file().sync_all().map_err(io(&path))?;
        // A temporary file is private by default; a run is meant to be handed on.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            file.as_file()
                .set_permissions(fs::Permissions::from_mode(0o644))
                .map_err(io(&path))?;
        }
        file.persist(&path).map_err(|error| io(&path)(error.error))?;
        Ok(())
    }

    /// The folder of a rung, such as `rungs/01-c0064`.
    #[must_use]
    pub fn rung(&self, order: u32, level: u32) -> PathBuf {
        self.path.join("rungs").join(format!("{order:02}-c{level:04}"))
    }

    /// Writes what a rung left behind: `requests.parquet`, `itl.hdr` (microseconds) and `timeline.csv`.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn save_rung(
        &self,
        order: u32,
        level: u32,
        requests: &[RequestRecord],
        itl_us: &Histogram<u64>,
        timeline: &[TimelineSecond],
    ) -> Result<(), DirectoryError> {
        let folder = self.rung(order, level);
        fs::create_dir_all(&folder).map_err(io(&folder))?;

        let path = folder.join("requests.parquet");
        crate::requests_parquet::write(&path, requests).map_err(table(&path))?;

        let path = folder.join("itl.hdr");
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(itl_us, &mut bytes)
            .map_err(table(&path))?;
        fs::write(&path, bytes).map_err(io(&path))?;

        rows(&folder.join("timeline.csv"), timeline)
    }

    /// Writes `server.csv` of a rung: what the server's metrics said as it went on. Nothing where they were not read.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save_server(
        &self,
        order: u32,
        level: u32,
        samples: &[ServerSample],
    ) -> Result<(), DirectoryError> {
        if samples.is_empty() {
            return Ok(());
        }
        let folder = self.rung(order, level);
        fs::create_dir_all(&folder).map_err(io(&folder))?;
        rows(&folder.join("server.csv"), samples)
    }

    /// Writes `requests.parquet` of the open-loop replay, in place of an earlier one's. Returns its path below the run directory.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save_replay(&self, requests: &[RequestRecord]) -> Result<String, DirectoryError> {
        const FOLDER: &str = "verification";
        const FILE: &str = "requests.parquet";
        let folder = self.path.join(FOLDER);
        fs::create_dir_all(&folder).map_err(io(&folder))?;
        let path = folder.join(FILE);
        crate::requests_parquet::write(&path, requests).map_err(table(&path))?;
        Ok(format!("{FOLDER}/{FILE}"))
    }

    /// Reads a rung's `timeline.csv`; empty where there is none.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn timeline(&self, order: u32, level: u32) -> Result<Vec<TimelineSecond>, DirectoryError> {
        let path = self.rung(order, level).join("timeline.csv");
        if !path.exists() {
            return Ok(Vec::new());
        }
        let mut reader = csv::Reader::from_path(&path).map_err(table(&path))?;
        reader
            .deserialize()
            .collect::<Result<Vec<_>, _>>()
            .map_err(table(&path))
    }
}

/// Writes rows as CSV, with a header.
fn rows<T: serde::Serialize>(path: &Path, rows: &[T]) -> Result<(), DirectoryError> {
    let mut writer = csv::Writer::from_path(path).map_err(table(path))?;
    for row in rows {
        writer.serialize(row).map_err(table(path))?;
    }
    writer.flush().map_err(io(path))
}

/// A label as part of a file name: letters, digits, `.` and `-`, at most 48 of them.
fn slug(label: &str) -> String {
    let mut slug = String::new();
    for c in label.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '.' {
            c.to_ascii_lowercase()
        } else {
            '-'
        };
        if !(c == '-' && slug.ends_with('-')) {
            slug.push(c);
        }
        if slug.len() == 48 {
            break;
        }
    }
    let slug = slug.trim_matches(['-', '.']);
    if slug.is_empty() {
        "run".to_owned()
    } else {
        slug.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn labels_become_safe_file_names() {
        assert_eq!(slug("http://127.0.0.1:8103/v1"), "http-127.0.0.1-8103-v1");
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug("///"), "run");
    }

    #[test]
    fn two_runs_in_one_second_get_two_directories() {
        let parent = tempfile::tempdir().unwrap();
        let now: jiff::Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let first = RunDirectory::create(parent.path(), "sim", now).unwrap();
        let second = RunDirectory::create(parent.path(), "sim", now).unwrap();
        assert_eq!(first.path().file_name().unwrap(), "20261130T120000Z-sim");
        assert_eq!(second.path().file_name().unwrap(), "20261130T120000Z-sim-2");
    }

    #[test]
    fn the_servers_side_is_a_table_with_blanks() {
        let parent = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(parent.path(), "sim", jiff::Timestamp::UNIX_EPOCH).unwrap();
        directory.save_server(1, 8, &[]).unwrap();
        let path = directory.rung(1, 8).join("server.csv");
        assert!(!path.exists());
        let sample = ServerSample {
            at_s: 1.5,
            in_window: true,
            running: Some(8.0),
            ..ServerSample::default()
        };
        directory.save_server(1, 8, &[sample]).unwrap();
        assert_eq!(
            fs::read_to_string(path).unwrap(),
            "at_s,in_window,running,waiting,kv_cache_usage,prefix_queried_tokens,prefix_hit_tokens,preemptions,output_tokens\n\
             1.5,true,8.0,,,,,,\n"
        );
    }

    #[test]
    fn a_rung_is_written_and_its_timeline_reads_back() {
        let parent = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(parent.path(), "sim", jiff::Timestamp::UNIX_EPOCH).unwrap();
        let timeline = vec![
            TimelineSecond {
                second: 0,
                in_flight: 3.5,
                ..TimelineSecond::default()
            },
            TimelineSecond {
                second: 1,
                in_window: true,
                ttft_p50_ms: Some(12.5),
                ..TimelineSecond::default()
            },
        ];
        let mut itl = Histogram::new(3).unwrap();
        itl.record(1000).unwrap();
        let requests = [RequestRecord::begun(0, 0, Duration::ZERO, Duration::ZERO)];
        directory.save_rung(1, 64, &requests, &itl, &timeline).unwrap();
        assert_eq!(directory.timeline(1, 64).unwrap(), timeline);
        assert!(directory.timeline(2, 64).unwrap().is_empty());
        for name in ["requests.parquet", "itl.hdr", "timeline.csv"] {
            assert!(
                directory.path().join("rungs/01-c0064").join(name).exists(),
                "{name}"
            );
        }
    }
}
