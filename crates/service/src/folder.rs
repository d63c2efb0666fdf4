//! The folder of a job: its run directory and its log.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_run::directory::RunDirectory;
use plimsoll_run::document::Run;

/// The folders of all jobs.
#[derive(Debug, Clone)]
pub struct Folders(PathBuf);

impl Folders {
    /// Below the server's data folder.
    #[must_use]
    pub fn below(data: &Path) -> Self {
        Folders(data.join("jobs"))
    }

    /// That of a job, by its number.
    #[must_use]
    pub fn of(&self, id: i64) -> PathBuf {
        self.0.join(format!("{id:06}"))
    }

    /// The job's run so far. Of several, such as one that was begun anew because nothing was there to go on with, the last.
    #[must_use]
    pub fn run(&self, id: i64) -> Option<(PathBuf, Run)> {
        let mut directories: Vec<PathBuf> = fs::read_dir(self.of(id).join("runs"))
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        // Their names begin with their times.
        directories.sort();
        directories.iter().rev().find_map(|path| {
            let (directory, run) = RunDirectory::open(path).ok()?;
            Some((directory.path().to_owned(), run))
        })
    }

    /// Removes the folder of a job.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    pub fn remove(&self, id: i64) -> std::io::Result<()> {
        match fs::remove_dir_all(self.of(id)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
