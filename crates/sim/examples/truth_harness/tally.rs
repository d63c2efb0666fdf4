//! What many runs of one strategy came to, against the truth.

use plimsoll_run::rung::{Interval, RungReport};
use plimsoll_run::sla::Stat;

use crate::scenario::Scenario;
use crate::strategy::{Outcome, Strategy};

/// An answer whose true statistic is this far beyond the limit overshoots.
const OVERSHOOT: f64 = 1.02;

/// Hits out of tries.
#[derive(Debug, Clone, Copy, Default)]
pub struct Share {
    pub hits: usize,
    pub of: usize,
}

impl Share {
    fn add(&mut self, hit: bool) {
        self.hits += usize::from(hit);
        self.of += 1;
    }

    pub fn value(self) -> f64 {
        if self.of == 0 {
            f64::NAN
        } else {
            self.hits as f64 / self.of as f64
        }
    }
}

/// Sums over the runs of one strategy.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub name: String,
    pub runs: usize,
    pub rungs: f64,
    pub seconds: f64,
    squares: f64,
    bias: f64,
    pub unanswered: usize,
    pub overshoot: Share,
    /// A level is the answer although its last believable rung failed.
    pub failing_reported: usize,
    pub out_of_bounds: usize,
    pub limit_covered: Share,
    pub throughput_covered: Share,
    pub ttft_covered: Share,
    pub tpot_covered: Share,
}

fn covers(interval: Interval, truth: f64) -> bool {
    interval[0].is_none_or(|low| low <= truth) && interval[1].is_none_or(|high| truth <= high)
}

impl Tally {
    /// Runs a strategy once for every seed, on two threads.
    pub fn of(strategy: &Strategy, scenario: &Scenario, seeds: std::ops::Range<u64>) -> Self {
        let half = |parity: u64| -> Vec<Outcome> {
            seeds
                .clone()
                .filter(|seed| seed % 2 == parity)
                .map(|seed| strategy.run(scenario, 1_000 + seed))
                .collect()
        };
        let outcomes = std::thread::scope(|scope| {
            let odd = scope.spawn(|| half(1));
            let mut all = half(0);
            all.extend(odd.join().unwrap());
            all
        });
        let mut tally = Tally {
            name: strategy.name(),
            ..Tally::default()
        };
        for outcome in &outcomes {
            tally.add(outcome, scenario);
        }
        tally
    }

    fn add(&mut self, outcome: &Outcome, scenario: &Scenario) {
        self.runs += 1;
        self.rungs += outcome.rungs.len() as f64;
        self.seconds += outcome.seconds;
        self.out_of_bounds += usize::from(outcome.out_of_bounds);
        match outcome.limit {
            None => self.unanswered += 1,
            Some(level) => {
                let error = f64::from(level) / scenario.limit - 1.0;
                self.squares += error * error;
                self.bias += error;
                self.overshoot
                    .add(scenario.excess(f64::from(level)) > OVERSHOOT.ln());
                let last = outcome
                    .rungs
                    .iter()
                    .rfind(|rung| rung.concurrency == level && rung.validity.may_decide());
                self.failing_reported +=
                    usize::from(last.is_some_and(|rung| rung.meets_sla() == Some(false)));
            }
        }
        // A level is a whole number: the limit lies between the last that holds and the next.
        let [low, high] = outcome.interval;
        self.limit_covered.add(
            low.is_none_or(|low| low <= scenario.limit) && high.is_none_or(|high| high >= scenario.limit),
        );
        for rung in &outcome.rungs {
            self.add_rung(rung, scenario);
        }
    }

    fn add_rung(&mut self, rung: &RungReport, scenario: &Scenario) {
        if !rung.validity.may_decide() {
            return;
        }
        let level = f64::from(rung.concurrency);
        if let Some(interval) = rung.throughput.output_tokens_ci95 {
            let truth = scenario.at(level, |point| point.output_tokens_per_s);
            self.throughput_covered.add(covers(interval, truth));
        }
        let p95 = Stat::P95.name();
        if let Some(interval) = rung.latency.ttft_ms.as_ref().and_then(|d| d.ci95.get(p95)) {
            let truth = scenario.at(level, |point| point.ttft.p95_ms);
            self.ttft_covered.add(covers(*interval, truth));
        }
        if let Some(interval) = rung.latency.tpot_ms.as_ref().and_then(|d| d.ci95.get(p95)) {
            let truth = scenario.at(level, |point| point.tpot.p95_ms);
            self.tpot_covered.add(covers(*interval, truth));
        }
    }

    pub fn mean_rungs(&self) -> f64 {
        self.rungs / self.runs as f64
    }

    pub fn mean_seconds(&self) -> f64 {
        self.seconds / self.runs as f64
    }

    /// Root mean square error of the limit, a fraction.
    pub fn rmse(&self) -> f64 {
        (self.squares / (self.runs - self.unanswered).max(1) as f64).sqrt()
    }

    pub fn header() -> String {
        format!(
            "{:<22} {:>5} {:>6} {:>6} {:>6} {:>6} {:>5} {:>5} {:>5}   {:>6} {:>6} {:>6} {:>6}",
            "strategy",
            "rungs",
            "sim s",
            "RMSE",
            "bias",
            "over",
            "none",
            "fail",
            "bound",
            "X",
            "TTFT",
            "TPOT",
            "limit"
        )
    }

    pub fn row(&self) -> String {
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        format!(
            "{:<22} {:>5.1} {:>6.0} {:>6} {:>6} {:>6} {:>5} {:>5} {:>5}   {:>6} {:>6} {:>6} {:>6}",
            self.name,
            self.mean_rungs(),
            self.mean_seconds(),
            percent(self.rmse()),
            percent(self.bias / (self.runs - self.unanswered).max(1) as f64),
            percent(self.overshoot.value()),
            self.unanswered,
            self.failing_reported,
            self.out_of_bounds,
            percent(self.throughput_covered.value()),
            percent(self.ttft_covered.value()),
            percent(self.tpot_covered.value()),
            percent(self.limit_covered.value()),
        )
    }
}
