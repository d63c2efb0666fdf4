use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::executor::Ended;
use crate::job::NewJob;
use crate::made_up;
use crate::target::Place;

/// What the sweeps of a test do, told from outside.
#[derive(Default)]
struct Script {
    /// Orders in the order in which they came.
    orders: Mutex<Vec<Order>>,
    /// Ends for sweeps, by the name of the target.
    ends: Mutex<HashMap<String, Ended>>,
    stops: AtomicUsize,
    kills: AtomicUsize,
    kept: Mutex<Vec<(String, usize)>>,
    /// Whether a sweep that is asked to stop does.
    obedient: bool,
}

struct Scripted(Arc<Script>);

struct ScriptedSweep {
    script: Arc<Script>,
    target: String,
    stopped: bool,
}

impl Executor for Scripted {
    fn start(&self, order: &Order) -> Result<Box<dyn Sweep>, String> {
        self.0.orders.lock().unwrap().push(order.clone());
        Ok(Box::new(ScriptedSweep {
            script: Arc::clone(&self.0),
            target: order.target.name.clone(),
            stopped: false,
        }))
    }
}

impl Sweep for ScriptedSweep {
    fn ended(&mut self) -> Option<Ended> {
        if self.stopped {
            return Some(ended(Some(130)));
        }
        self.script.ends.lock().unwrap().remove(&self.target)
    }

    fn stop(&mut self) {
        self.script.stops.fetch_add(1, Ordering::SeqCst);
        self.stopped = self.script.obedient;
    }

    fn kill(&mut self) {
        self.script.kills.fetch_add(1, Ordering::SeqCst);
        self.stopped = true;
    }
}

impl Results for Script {
    fn keep(&self, job: &Job, _directory: &Path, run: &Run) -> Result<(), String> {
        if job.made.name.starts_with("unkept") {
            return Err("the bucket is full".to_owned());
        }
        self.kept
            .lock()
            .unwrap()
            .push((job.made.name.clone(), run.rungs.len()));
        Ok(())
    }
}

fn ended(code: Option<i32>) -> Ended {
    Ended {
        code,
        said: "last words".to_owned(),
    }
}

struct House {
    folder: tempfile::TempDir,
    script: Arc<Script>,
    desk: Desk,
}

impl House {
    fn new(script: Script) -> House {
        let folder = tempfile::tempdir().unwrap();
        let script = Arc::new(script);
        let desk = House::desk(folder.path(), &script, Duration::from_secs(3600));
        House { folder, script, desk }
    }

    fn desk(folder: &Path, script: &Arc<Script>, longest: Duration) -> Desk {
        let mut targets = Targets::default();
        for (name, address) in [
            ("a", "http://a/v1"),
            ("same", "http://a/v1/"),
            ("b", "http://b/v1"),
        ] {
            targets.add(name, Place::Address(address.to_owned())).unwrap();
        }
        Desk {
            means: Means {
                store: Arc::new(Store::open(&folder.join("jobs.sqlite")).unwrap()),
                folders: Folders::below(folder),
                targets,
                executor: Box::new(Scripted(Arc::clone(script))),
                results: Arc::clone(script) as Arc<dyn Results>,
                flags: |workload| match workload {
                    "bad" => Err("that workload is none".to_owned()),
                    _ => Ok((vec!["--levels=2".to_owned()], vec![])),
                },
                longest,
                patience: Duration::from_millis(20),
            },
            active: HashMap::new(),
        }
    }

    /// The server is killed and started anew.
    fn restart(&mut self) {
        self.desk = House::desk(self.folder.path(), &self.script, Duration::from_secs(3600));
    }

    fn job(&self, name: &str, target: &str) -> i64 {
        let job = NewJob {
            name: name.to_owned(),
            target: target.to_owned(),
            config: "c".to_owned(),
            workload: if name == "bad" { "bad" } else { "{}" }.to_owned(),
            request: serde_json::json!({}),
        };
        self.desk.means.store.create_job(&job, name, &[]).unwrap()
    }

    /// Puts a run into a job's folder.
    fn run(&self, id: i64, levels: &[u32], status: RunStatus) {
        let directory = self.desk.means.folders.of(id).join("runs/20261130T120000Z-a");
        fs::create_dir_all(&directory).unwrap();
        fs::write(
            directory.join("run.json"),
            made_up::run(levels, status, &[]).to_json(),
        )
        .unwrap();
    }

    fn end(&self, target: &str, code: Option<i32>) {
        self.script
            .ends
            .lock()
            .unwrap()
            .insert(target.to_owned(), ended(code));
    }

    fn look(&mut self) {
        self.desk.look().unwrap();
    }

    fn orders(&self) -> Vec<Order> {
        self.script.orders.lock().unwrap().clone()
    }

    #[track_caller]
    fn until(&mut self, name: &str, status: Status) -> Job {
        for _ in 0..1000 {
            self.look();
            let job = self.desk.means.store.job(name).unwrap();
            if job.status == status {
                return job;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("{name}: {:?}", self.desk.means.store.job(name));
    }
}

fn obedient() -> Script {
    Script {
        obedient: true,
        ..Script::default()
    }
}

#[test]
fn one_job_at_a_time_on_an_address_and_others_beside_it() {
    let mut house = House::new(obedient());
    let first = house.job("first", "a");
    house.job("second", "same");
    house.job("third", "b");
    house.look();
    let names = |house: &House| -> Vec<String> {
        house
            .orders()
            .into_iter()
            .map(|order| order.target.name)
            .collect()
    };
    assert_eq!(names(&house), ["a", "b"]);
    assert_eq!(house.orders()[0].folder, house.desk.means.folders.of(first));
    house.run(first, &[2, 4], RunStatus::Complete);
    house.end("a", Some(0));
    house.until("first", Status::Completed);
    house.look();
    assert_eq!(names(&house), ["a", "b", "same"]);
    assert_eq!(house.script.kept.lock().unwrap()[0], ("first".to_owned(), 2));
}

#[test]
fn a_stopped_job_keeps_what_it_has_and_a_queued_one_stops_at_once() {
    let mut house = House::new(obedient());
    let id = house.job("running", "a");
    house.job("queued", "a");
    house.look();
    house.run(id, &[2], RunStatus::Interrupted);
    for name in ["running", "queued"] {
        house.desk.means.store.ask_to_stop(name).unwrap();
    }
    house.until("queued", Status::Stopped);
    let job = house.until("running", Status::Stopped);
    assert!(job.failure.is_none() && job.ended_ms.is_some());
    assert_eq!(house.script.stops.load(Ordering::SeqCst), 1);
    assert_eq!(*house.script.kept.lock().unwrap(), [("running".to_owned(), 1)]);
    assert_eq!(house.orders().len(), 1);
}

#[test]
fn a_sweep_that_does_not_stop_is_killed() {
    let mut house = House::new(Script::default());
    house.job("deaf", "a");
    house.look();
    house.desk.means.store.ask_to_stop("deaf").unwrap();
    house.until("deaf", Status::Stopped);
    assert!(house.script.kills.load(Ordering::SeqCst) >= 1);
}

#[test]
fn after_a_crash_a_run_is_resumed_or_kept_and_a_stop_is_remembered() {
    let mut house = House::new(obedient());
    let (half, whole) = (house.job("half", "a"), house.job("whole", "b"));
    house.look();
    house.run(half, &[2], RunStatus::Interrupted);
    house.run(whole, &[2, 4, 8], RunStatus::Complete);
    house.restart();
    house.until("whole", Status::Completed);
    let orders = house.orders();
    assert_eq!(orders.len(), 3, "half twice, whole once: {orders:#?}");
    assert!(orders[0].resume.is_none());
    let resumed = orders[2].resume.clone().unwrap();
    assert!(resumed.ends_with("runs/20261130T120000Z-a"), "{resumed:?}");
    house.desk.means.store.ask_to_stop("half").unwrap();
    house.restart();
    house.until("half", Status::Stopped);
    assert_eq!(house.script.kept.lock().unwrap().last().unwrap().0, "half");
}

#[test]
fn a_killed_sweep_is_taken_up_again_but_not_for_ever() {
    let mut house = House::new(obedient());
    house.job("unlucky", "a");
    for _ in 0..MOST_IDLE_DEATHS {
        house.look();
        house.end("a", None);
        house.look();
    }
    let job = house.until("unlucky", Status::Failed);
    assert!(job.failure.unwrap().contains("6 times in a row"));
    assert_eq!(house.orders().len(), 6);
}

#[test]
fn deaths_of_the_server_are_no_fault_of_the_job() {
    let mut house = House::new(obedient());
    let id = house.job("innocent", "a");
    for _ in 0..10 {
        house.look();
        house.restart();
    }
    house.look();
    assert_eq!(house.orders().len(), 11);
    house.run(id, &[2], RunStatus::Complete);
    house.end("a", Some(0));
    house.until("innocent", Status::Completed);
}

#[test]
fn failures_say_why() {
    let mut house = House::new(obedient());
    let id = house.job("unkept", "b");
    house.job("failed", "a");
    house.job("bad", "same");
    house.job("gone", "nowhere");
    house.look();
    house.end("a", Some(1));
    house.run(id, &[2], RunStatus::Complete);
    house.end("b", Some(0));
    let mut reason = |name: &str| house.until(name, Status::Failed).failure.unwrap();
    assert_eq!(reason("failed"), "last words");
    assert_eq!(reason("bad"), "that workload is none");
    assert!(reason("gone").contains("`nowhere` is no target"));
    assert_eq!(reason("unkept"), "the bucket is full");
}

#[test]
fn a_job_that_takes_too_long_is_stopped_and_has_failed() {
    let mut house = House::new(obedient());
    let id = house.job("long", "a");
    house.desk.means.longest = Duration::ZERO;
    house.look();
    house.run(id, &[2], RunStatus::Interrupted);
    let job = house.until("long", Status::Failed);
    assert!(job.failure.unwrap().contains("longer than this server allows"));
    assert_eq!(house.script.kept.lock().unwrap().len(), 1);
}

#[test]
fn the_thread_takes_jobs_up_when_the_bell_rings() {
    let house = House::new(obedient());
    let store = Arc::clone(&house.desk.means.store);
    let script = Arc::clone(&house.script);
    let conductor = Conductor::start(house.desk.means).unwrap();
    let job = NewJob {
        name: "x".to_owned(),
        target: "a".to_owned(),
        config: "c".to_owned(),
        workload: String::new(),
        request: serde_json::json!({}),
    };
    store.create_job(&job, "x", &[]).unwrap();
    conductor.bell().ring();
    let deadline = Instant::now() + Duration::from_secs(10);
    while script.orders.lock().unwrap().is_empty() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(conductor);
}
