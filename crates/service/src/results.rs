//! What a job leaves in its output location: `output/output.tar.gz`, with the files that readers of AIPerf's results know and our
//! own beside them.
//!
//! ```text
//! profile_export_aiperf.json                          of a job of one level
//! sweep_aggregate/profile_export_aiperf_sweep.json    all levels
//! search_history.json                                 of a search
//! concurrency_N/profile_export_aiperf.json            a level
//! run.json, report.html, rungs/, verification/        the run directory
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use plimsoll_report::{aiperf, aiperf_profile, aiperf_search_history, html};
use plimsoll_run::directory::RunDirectory;
use plimsoll_run::document::Run;
use plimsoll_run::rung::RungReport;
use tar::{Builder, Header};

use crate::api::output_location;
use crate::conductor::Results;
use crate::job::Job;
use crate::store::now_ms;
use crate::workload;

/// Where the archive of a job lies within its place.
const ARCHIVE: [&str; 2] = ["output", "output.tar.gz"];

/// Buckets as folders: `s3://bucket/key` is `ROOT/bucket/key`.
#[derive(Debug, Clone)]
pub struct LocalS3(PathBuf);

impl LocalS3 {
    /// Buckets below `root`.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        LocalS3(root)
    }

    /// The archive of a job; it is there once the job has ended with something measured.
    #[must_use]
    pub fn archive(&self, job: &Job) -> Option<PathBuf> {
        let mut path = output_location(job)?.below(&self.0);
        path.extend(ARCHIVE);
        Some(path)
    }
}

impl Results for LocalS3 {
    fn keep(&self, job: &Job, directory: &Path, run: &Run) -> Result<(), String> {
        let path = self
            .archive(job)
            .ok_or_else(|| "the job has no output location".to_owned())?;
        let search = workload::read(&job.made.workload).is_ok_and(|sweep| sweep.recipe.is_some());
        write_whole(&path, directory, run, search)
            .map_err(|error| format!("the results cannot be written to {}: {error}", path.display()))
    }
}

/// Writes the archive beside its place and moves it there: nobody reads half of one.
fn write_whole(path: &Path, directory: &Path, run: &Run, search: bool) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let unfinished = path.with_extension("unfinished");
    let file = write(File::create(&unfinished)?, directory, run, search)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

fn write<W: Write>(out: W, directory: &Path, run: &Run, search: bool) -> io::Result<W> {
    let mut archive = Builder::new(GzEncoder::new(out, Compression::default()));
    let mut put = |name: &str, text: &str| {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(u64::try_from(now_ms() / 1000).unwrap_or(0));
        archive.append_data(&mut header, name, text.as_bytes())
    };
    let levels = run.rung_of_each_level();
    // Some readers take the first profile they find.
    if let [rung] = levels[..] {
        put("profile_export_aiperf.json", &aiperf_profile(run, rung))?;
    }
    put("sweep_aggregate/profile_export_aiperf_sweep.json", &aiperf(run))?;
    if search {
        put("search_history.json", &aiperf_search_history(run))?;
    }
    for rung in levels {
        let name = format!("concurrency_{}/profile_export_aiperf.json", rung.concurrency);
        put(&name, &aiperf_profile(run, rung))?;
    }
    put("run.json", &run.to_json())?;
    put("report.html", &report(directory, run))?;
    for name in ["rungs", "verification"] {
        add_folder(&mut archive, &directory.join(name), Path::new(name))?;
    }
    archive.into_inner()?.finish()
}

/// The report as the sweep left it; one is written where it could not.
pub(crate) fn report(directory: &Path, run: &Run) -> String {
    fs::read_to_string(directory.join("report.html")).unwrap_or_else(|_| fresh_report(directory, run))
}

/// The report of the rungs so far.
pub(crate) fn fresh_report(directory: &Path, run: &Run) -> String {
    let timelines: Vec<_> = RunDirectory::open(directory)
        .map(|(directory, _)| {
            let of = |rung: &RungReport| {
                let timeline = directory.timeline(rung.order, rung.concurrency).ok()?;
                (!timeline.is_empty()).then_some((rung.order, timeline))
            };
            run.rungs.iter().filter_map(of).collect()
        })
        .unwrap_or_default();
    html(run, &timelines)
}

/// Adds the files of a folder; links in it are left out.
fn add_folder<W: Write>(archive: &mut Builder<W>, folder: &Path, name: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (kind, path) = (entry.file_type()?, entry.path());
        let name = name.join(entry.file_name());
        if kind.is_dir() {
            add_folder(archive, &path, &name)?;
        } else if kind.is_file() {
            archive.append_file(&name, &mut File::open(&path)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use flate2::read::GzDecoder;
    use plimsoll_report::import::import;
    use plimsoll_run::document::Status;
    use serde_json::{Value, json};

    use super::*;
    use crate::job::{NewJob, Status as JobStatus};
    use crate::made_up;

    fn job(parameters: &Value) -> Job {
        let workload = json!({"benchmark": {"type": "aiperf"}, "parameters": parameters});
        Job {
            id: 7,
            made: NewJob {
                name: "a".to_owned(),
                target: "prod".to_owned(),
                config: "c".to_owned(),
                workload: workload.to_string(),
                request: json!({"OutputConfig": {"S3OutputLocation": "s3://bucket/x/"}}),
            },
            status: JobStatus::InProgress,
            created_ms: 0,
            started_ms: None,
            ended_ms: None,
            failure: None,
            idle_starts: 0,
            idle_deaths: 0,
            rungs_at_start: 0,
        }
    }

    /// Keeps a run and reads the archive.
    fn kept(parameters: &Value, run: &Run) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("run");
        fs::create_dir_all(directory.join("rungs/01-c0002")).unwrap();
        fs::write(directory.join("run.json"), run.to_json()).unwrap();
        fs::write(directory.join("rungs/01-c0002/requests.parquet"), "PAR1").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.join("rungs/link")).unwrap();
        let root = folder.path().join("s3");
        let store = LocalS3::new(root.clone());
        // Twice, as after a crash.
        for _ in 0..2 {
            store.keep(&job(parameters), &directory, run).unwrap();
        }
        let place = root.join("bucket/x/a-000007/output");
        assert_eq!(
            fs::read_dir(&place).unwrap().count(),
            1,
            "nothing unfinished is left"
        );
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(place.join("output.tar.gz")).unwrap()));
        archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let name = entry.path().unwrap().to_string_lossy().into_owned();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                (name, text)
            })
            .collect()
    }

    #[test]
    fn a_list_of_levels_is_archived_as_its_readers_expect_it() {
        let run = made_up::run(&[2, 4, 8], Status::Complete, &[]);
        let files = kept(&json!({"concurrency": [2, 4, 8]}), &run);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "sweep_aggregate/profile_export_aiperf_sweep.json",
                "concurrency_2/profile_export_aiperf.json",
                "concurrency_4/profile_export_aiperf.json",
                "concurrency_8/profile_export_aiperf.json",
                "run.json",
                "report.html",
                "rungs/01-c0002/requests.parquet",
            ]
        );
        let files: BTreeMap<String, String> = files.iter().cloned().collect();
        let sweep: Value = serde_json::from_str(&files[names[0]]).unwrap();
        let combination = &sweep["per_combination_metrics"][1];
        assert_eq!(combination["parameters"]["concurrency"], 4);
        assert_eq!(combination["metrics"]["request_throughput"]["mean"], 4.0);
        assert_eq!(combination["metrics"]["request_latency"]["p99"], 400.0);
        let profiles = names[1..4]
            .iter()
            .map(|name| ((*name).to_owned(), files[*name].clone().into_bytes()))
            .collect::<Vec<_>>();
        let imported = import(&profiles[1..2], None).unwrap();
        assert_eq!(imported.rungs[0].concurrency, 4);
        assert_eq!(Run::from_json(&files["run.json"]).unwrap(), run);
        assert!(files["report.html"].contains("<html"));
    }

    #[test]
    fn one_level_has_its_profile_at_the_root() {
        let run = made_up::run(&[2], Status::Complete, &[]);
        let files = kept(&json!({"concurrency": 2}), &run);
        assert_eq!(files[0].0, "profile_export_aiperf.json");
        let profile: Value = serde_json::from_str(&files[0].1).unwrap();
        assert_eq!(profile["output_token_throughput"]["avg"], 200.0);
        assert_eq!(profile["request_latency"]["p99"], 200.0);
    }

    #[test]
    fn a_search_has_its_history() {
        let run = made_up::run(
            &[2, 8, 4],
            Status::Complete,
            &["e2e.p99<500ms", "error_rate<=0.01"],
        );
        let files: BTreeMap<String, String> = kept(
            &json!({"search_recipe": "max-concurrency-under-sla", "e2e_sla_ms": 500}),
            &run,
        )
        .into_iter()
        .collect();
        let history: Value = serde_json::from_str(&files["search_history.json"]).unwrap();
        let summary = &history["boundary_summary"];
        assert_eq!(summary["feasible_max"]["value"], 4);
        assert_eq!(summary["feasible_max"]["iteration_idx"], 2);
        assert_eq!(summary["infeasible_min"]["value"], 8);
        let breach = &summary["infeasible_min"]["first_breach"];
        assert_eq!(breach["metric_tag"], "request_latency");
        assert_eq!(
            (
                &breach["stat"],
                &breach["op"],
                &breach["threshold"],
                &breach["observed"]
            ),
            (&json!("p99"), &json!("lt"), &json!(500.0), &json!(800.0))
        );
        assert_eq!(
            history["config"]["sla_filters"][1]["threshold"], 1.0,
            "in percent"
        );
        let feasible: Vec<&Value> = history["iterations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|iteration| &iteration["feasible"])
            .collect();
        assert_eq!(feasible, [true, false, true]);
        assert_eq!(
            history["best_trials"][0]["variation_values"]["phases.profiling.concurrency"],
            4
        );
        assert_eq!(history["convergence_reason"], "plimsoll_limit_crossed");
        let read = import(
            &[(
                "search_history.json".to_owned(),
                files["search_history.json"].clone().into_bytes(),
            )],
            None,
        )
        .unwrap();
        assert_eq!(read.rungs.len(), 3);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("s3");
        fs::write(&root, "a file where a folder should be").unwrap();
        let run = made_up::run(&[2], Status::Complete, &[]);
        let error = LocalS3::new(root)
            .keep(&job(&json!({})), folder.path(), &run)
            .unwrap_err();
        assert!(error.contains("output.tar.gz"), "{error}");
    }
}
