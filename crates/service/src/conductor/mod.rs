//! The queue: which job is measured when, and what becomes of it.
//!
//! One thread looks at the jobs that have not ended and at the sweeps that run for them. Everything it needs to go on stands in
//! the store and in the run directories, so a server that was killed takes up its jobs where they were: a run that is
//! complete is kept, one that is not is resumed.

mod verdict;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_run::document::{Run, Status as RunStatus};

use crate::executor::{Executor, Order, Sweep};
use crate::folder::Folders;
use crate::job::{Job, Status};
use crate::store::{Store, StoreError};
use crate::target::Targets;

use verdict::{Ending, Verdict, verdict};

/// So often may something end a job's sweep without a further rung, and the job is given up.
const MOST_IDLE_DEATHS: u32 = 6;
/// So often may it be begun without a further rung. Mostly the server died, for which the job need not be to blame; but it may
/// take the machine down each time.
const MOST_IDLE_STARTS: u32 = 50;

/// Keeps what a job measured where its maker wants it.
pub trait Results: Send + Sync {
    /// Keeps a run; called again after a crash, it replaces what it wrote before.
    ///
    /// # Errors
    /// When that cannot be done.
    fn keep(&self, job: &Job, directory: &Path, run: &Run) -> Result<(), String>;
}

/// Flags of `plimsoll sweep` for a job's workload, and those of them that a resumed run needs again.
pub type Flags = fn(&str) -> Result<(Vec<String>, Vec<String>), String>;

/// What the conductor works with.
pub struct Means {
    /// The jobs.
    pub store: Arc<Store>,
    /// Their folders.
    pub folders: Folders,
    /// What they may measure.
    pub targets: Targets,
    /// What measures.
    pub executor: Box<dyn Executor>,
    /// What keeps the results.
    pub results: Arc<dyn Results>,
    /// What a workload means to a sweep.
    pub flags: Flags,
    /// No job may take longer.
    pub longest: Duration,
    /// How long a sweep may take to stop in good order before it is killed.
    pub patience: Duration,
}

/// A job that is being seen to.
struct Active {
    address: String,
    phase: Phase,
    /// When it was asked to stop, by its maker or for taking too long.
    asked: Option<Instant>,
    began: Instant,
    overdue: bool,
}

enum Phase {
    Sweeping(Box<dyn Sweep>),
    Keeping(JoinHandle<Result<(), String>>, Verdict),
}

/// The thread that conducts. It ends when this is dropped; sweeps then end with the server.
pub struct Conductor {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// Rings when there is something to look at.
#[derive(Debug, Default)]
pub struct Bell {
    state: Mutex<(bool, bool)>,
    rung: Condvar,
}

impl Bell {
    /// Something has changed.
    pub fn ring(&self) {
        self.set(|state| state.0 = true);
    }

    fn end(&self) {
        self.set(|state| *state = (true, true));
    }

    fn set(&self, change: impl FnOnce(&mut (bool, bool))) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.rung.notify_all();
    }

    /// Waits for a ring, at most so long; says whether to go on.
    fn wait(&self, most: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut state, _) = self
            .rung
            .wait_timeout_while(state, most, |state| !state.0)
            .unwrap_or_else(PoisonError::into_inner);
        state.0 = false;
        !state.1
    }
}

impl Conductor {
    /// Starts conducting.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(means: Means) -> std::io::Result<Conductor> {
        let bell = Arc::new(Bell::default());
        let heard = Arc::clone(&bell);
        let thread = std::thread::Builder::new()
            .name("conductor".to_owned())
            .spawn(move || {
                let mut desk = Desk {
                    means,
                    active: HashMap::new(),
                };
                loop {
                    if let Err(error) = desk.look() {
                        // A full disk, say: it may pass.
                        say_once(&error);
                    }
                    let pause = if desk.active.is_empty() { 1000 } else { 50 };
                    if !heard.wait(Duration::from_millis(pause)) {
                        return;
                    }
                }
            })?;
        Ok(Conductor {
            bell,
            thread: Some(thread),
        })
    }

    /// To tell the conductor that a job was made or asked to stop.
    #[must_use]
    pub fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        self.bell.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Says what is wrong with the store, and not again the same a moment later.
fn say_once(error: &StoreError) {
    use std::io::Write;
    static SAID: Mutex<String> = Mutex::new(String::new());
    let text = error.to_string();
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if *said != text {
        let _ = writeln!(std::io::stderr().lock(), "plimsoll: {text}");
        *said = text;
    }
}

struct Desk {
    means: Means,
    active: HashMap<i64, Active>,
}

impl Desk {
    /// Looks at every job once.
    fn look(&mut self) -> Result<(), StoreError> {
        for job in self.means.store.open_jobs()? {
            match self.active.remove(&job.id) {
                Some(active) => self.attend(&job, active)?,
                None => self.take_up(&job)?,
            }
        }
        Ok(())
    }

    /// A job that nobody sees to: it is new, or the server was started anew.
    fn take_up(&mut self, job: &Job) -> Result<(), StoreError> {
        let target = match self.means.targets.find(&job.made.target) {
            Ok(target) => target.clone(),
            Err(error) => return self.end(job, Verdict::Failed(error.to_string())),
        };
        let run = self.means.folders.run(job.id);
        if job.status == Status::Stopping {
            return self.keep(job, Verdict::Stopped, target.address());
        }
        if let Some((_, run)) = &run
            && run.status == RunStatus::Complete
        {
            return self.keep(job, verdict(&Ending::Complete, Some(run)), target.address());
        }
        let busy = |active: &Active| {
            matches!(active.phase, Phase::Sweeping(_)) && active.address == target.address()
        };
        if self.active.values().any(busy) {
            return Ok(());
        }
        let dead = job.idle_deaths >= MOST_IDLE_DEATHS;
        if dead || job.idle_starts >= MOST_IDLE_STARTS {
            let reason = format!(
                "the sweep was begun {} times in a row and no further rung came of it; the job's folder has its log",
                job.idle_starts + 1
            );
            return self.keep(job, Verdict::Failed(reason), target.address());
        }
        let (flags, resume_flags) = match (self.means.flags)(&job.made.workload) {
            Ok(flags) => flags,
            Err(problem) => return self.end(job, Verdict::Failed(problem)),
        };
        self.means.store.begin_job(job.id, rungs(run.as_ref()))?;
        let address = target.address().to_owned();
        let order = Order {
            target,
            folder: self.means.folders.of(job.id),
            flags,
            resume_flags,
            resume: run.map(|(directory, _)| directory),
        };
        match self.means.executor.start(&order) {
            Ok(sweep) => {
                self.active.insert(
                    job.id,
                    Active {
                        address,
                        phase: Phase::Sweeping(sweep),
                        asked: None,
                        began: Instant::now(),
                        overdue: false,
                    },
                );
                Ok(())
            }
            Err(problem) => self.end(job, Verdict::Failed(problem)),
        }
    }

    /// A job that is being seen to.
    fn attend(&mut self, job: &Job, mut active: Active) -> Result<(), StoreError> {
        match active.phase {
            Phase::Keeping(thread, verdict) if thread.is_finished() => {
                let kept = thread
                    .join()
                    .unwrap_or_else(|_| Err("the results were not written: a defect".to_owned()));
                let verdict = match (verdict, kept) {
                    (verdict, Ok(())) => verdict,
                    (Verdict::Failed(reason), Err(problem)) => {
                        Verdict::Failed(format!("{reason}; {problem}"))
                    }
                    (_, Err(problem)) => Verdict::Failed(problem),
                };
                return self.end(job, verdict);
            }
            Phase::Keeping(..) => {}
            Phase::Sweeping(ref mut sweep) => {
                if let Some(ended) = sweep.ended() {
                    let ending = if active.overdue {
                        Ending::Overdue(self.means.longest)
                    } else if job.status == Status::Stopping {
                        Ending::Asked(ended)
                    } else {
                        Ending::Alone(ended)
                    };
                    let run = self.means.folders.run(job.id);
                    return match verdict(&ending, run.as_ref().map(|(_, run)| run)) {
                        // Taken up again at the next look.
                        Verdict::Again => self.means.store.note_death(job.id, rungs(run.as_ref())),
                        verdict => self.keep(job, verdict, &active.address),
                    };
                }
                active.overdue |= active.began.elapsed() > self.means.longest;
                if (active.overdue || job.status == Status::Stopping) && active.asked.is_none() {
                    sweep.stop();
                    active.asked = Some(Instant::now());
                }
                if active
                    .asked
                    .is_some_and(|asked| asked.elapsed() > self.means.patience)
                {
                    sweep.kill();
                }
            }
        }
        self.active.insert(job.id, active);
        Ok(())
    }

    /// Keeps what there is, in a thread of its own, and then ends the job.
    fn keep(&mut self, job: &Job, verdict: Verdict, address: &str) -> Result<(), StoreError> {
        let kept: Option<(PathBuf, Run)> = self
            .means
            .folders
            .run(job.id)
            .filter(|(_, run)| !run.rungs.is_empty());
        let Some((directory, run)) = kept else {
            return self.end(job, verdict);
        };
        let results = Arc::clone(&self.means.results);
        let kept_job = job.clone();
        let thread = std::thread::Builder::new()
            .name("results".to_owned())
            .spawn(move || results.keep(&kept_job, &directory, &run));
        match thread {
            Ok(thread) => {
                let active = Active {
                    address: address.to_owned(),
                    phase: Phase::Keeping(thread, verdict),
                    asked: None,
                    began: Instant::now(),
                    overdue: false,
                };
                self.active.insert(job.id, active);
                Ok(())
            }
            Err(error) => self.end(
                job,
                Verdict::Failed(format!("the results were not written: {error}")),
            ),
        }
    }

    fn end(&mut self, job: &Job, verdict: Verdict) -> Result<(), StoreError> {
        let (status, reason) = match verdict {
            Verdict::Completed => (Status::Completed, None),
            Verdict::Stopped => (Status::Stopped, None),
            Verdict::Failed(reason) => (Status::Failed, Some(reason)),
            Verdict::Again => return Ok(()),
        };
        self.means.store.move_to(job.id, status, reason.as_deref())?;
        Ok(())
    }
}

/// Rungs of a run.
fn rungs(run: Option<&(PathBuf, Run)>) -> u32 {
    run.map_or(0, |(_, run)| u32::try_from(run.rungs.len()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
