//! Three ways to look for the limit, on the same server and seeds.

use std::time::Duration;

use plimsoll_plan::{Demand, Next, Search, SearchSettings, answer, compare, expected_response, reduce};
use plimsoll_run::ladder::Ladder;
use plimsoll_run::rung::{Interval, RungReport};
use plimsoll_run::runner::{Rung, RungLimits, Runner, Watch};
use plimsoll_sim::runner::SimRunner;

use crate::scenario::Scenario;

/// What one run came to.
pub struct Outcome {
    pub rungs: Vec<RungReport>,
    pub seconds: f64,
    pub limit: Option<u32>,
    pub interval: Interval,
    pub out_of_bounds: bool,
}

pub const MIN: u32 = 1;
pub const MAX: u32 = 1_024;
pub const MAX_RUNGS: u32 = 16;
pub const RESOLUTION: f64 = 0.05;
const FIRST_RESPONSE: Duration = Duration::from_secs(3);

/// A way to look for the limit.
#[derive(Debug, Clone)]
pub enum Strategy {
    /// Plimsoll's, from this ladder.
    Search(&'static str),
    /// Double until a level fails, then bisect to 5 %, each verdict taken as it comes.
    Doubling(u32),
    /// A ladder of factor 4 and nothing else.
    Ladder(u32),
}

impl Strategy {
    pub fn name(&self) -> String {
        match self {
            Strategy::Search(ladder) => format!("search {ladder}"),
            Strategy::Doubling(from) => format!("doubling {from}.."),
            Strategy::Ladder(from) => format!("ladder x4 {from}.."),
        }
    }

    pub fn run(&self, scenario: &Scenario, seed: u64) -> Outcome {
        let bench = Bench {
            scenario,
            runner: scenario.runner(seed),
            rungs: Vec::new(),
            seconds: 0.0,
        };
        match self {
            Strategy::Search(ladder) => bench.search(ladder),
            Strategy::Doubling(from) => bench.doubling(*from),
            Strategy::Ladder(from) => bench.ladder(*from),
        }
    }
}

/// Plimsoll's search of a scenario's limit, from this ladder.
pub fn search(scenario: &Scenario, ladder: &str) -> Search {
    let ladder: Ladder = ladder.parse().unwrap();
    Search::new(SearchSettings {
        ladder,
        refine: Some(RESOLUTION),
        min: MIN,
        max: MAX,
        max_rungs: Some(MAX_RUNGS),
        sla: scenario.sla.clone(),
    })
}

struct Bench<'a> {
    scenario: &'a Scenario,
    runner: SimRunner,
    rungs: Vec<RungReport>,
    seconds: f64,
}

impl Bench<'_> {
    fn order(&self) -> u32 {
        self.rungs.len() as u32 + 1
    }

    fn measure(&mut self, rung: &Rung) {
        let evidence = self.runner.measure(rung, &Watch::new()).unwrap();
        self.seconds += evidence.took.as_secs_f64();
        let reduced = reduce(
            &evidence,
            rung.order,
            self.scenario.workload(),
            &self.scenario.sla,
        );
        self.rungs.push(reduced.report);
        compare(&mut self.rungs);
    }

    fn search(mut self, ladder: &str) -> Outcome {
        let search = search(self.scenario, ladder);
        while let Next::Measure { level, why } = search.next(&self.rungs) {
            let rung = search.rung(
                &self.rungs,
                level,
                self.order(),
                FIRST_RESPONSE,
                RungLimits::default(),
            );
            self.measure(&rung);
            if std::env::var_os("HARNESS_TRACE").is_some() {
                let last = self.rungs.last().unwrap();
                eprintln!(
                    "  {level} ({why}) {:.0}s {:?} {:?} {:?} {:?}",
                    last.window_s.unwrap_or(0.0),
                    last.stopped,
                    last.validity.verdict,
                    last.sla.iter().map(|o| (o.observed, o.interval)).next(),
                    last.throughput.output_tokens_per_s
                );
            }
        }
        let plan = answer(&self.rungs, &self.scenario.sla, &Demand::default());
        if std::env::var_os("HARNESS_TRACE").is_some() {
            eprintln!("{:?}\n{:?}", plan.limit, plan.knee);
        }
        let found = plan.limit.as_ref();
        let limit = found.and_then(|limit| limit.concurrency);
        let interval = found.map_or([None, None], |limit| limit.interval);
        self.outcome(limit, interval)
    }

    fn passes(&mut self, level: u32) -> bool {
        let rung = Rung {
            level,
            order: self.order(),
            expected_response: Some(expected_response(&self.rungs, level).unwrap_or(FIRST_RESPONSE)),
            samples_wanted: self.scenario.sla.samples_wanted(),
            limits: RungLimits::default(),
        };
        self.measure(&rung);
        self.rungs.last().and_then(RungReport::meets_sla) == Some(true)
    }

    fn doubling(mut self, from: u32) -> Outcome {
        let (mut low, mut high) = (None, None);
        let mut level = from;
        while high.is_none() && level <= MAX {
            if self.passes(level) {
                low = Some(level);
            } else {
                high = Some(level);
            }
            level *= 2;
        }
        while let (Some(l), Some(h)) = (low, high)
            && f64::from(h) / f64::from(l) > 1.0 + RESOLUTION
        {
            let middle = (f64::from(l) * f64::from(h)).sqrt().round() as u32;
            if middle <= l || middle >= h {
                break;
            }
            if self.passes(middle) {
                low = Some(middle);
            } else {
                high = Some(middle);
            }
        }
        self.outcome(low, [low.map(f64::from), high.map(f64::from)])
    }

    fn ladder(mut self, from: u32) -> Outcome {
        let (mut low, mut high, mut level) = (None, None, from);
        while high.is_none() && level <= MAX {
            if self.passes(level) {
                low = Some(level);
            } else {
                high = Some(level);
            }
            level *= 4;
        }
        self.outcome(low, [low.map(f64::from), high.map(f64::from)])
    }

    fn outcome(self, limit: Option<u32>, interval: Interval) -> Outcome {
        Outcome {
            out_of_bounds: self.rungs.len() > MAX_RUNGS as usize
                || self
                    .rungs
                    .iter()
                    .any(|rung| !(MIN..=MAX).contains(&rung.concurrency)),
            rungs: self.rungs,
            seconds: self.seconds,
            limit,
            interval,
        }
    }
}
