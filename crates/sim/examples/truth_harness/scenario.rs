//! A server whose truth is known: the engine model with heavy-tailed replies, held for very long on a fine grid.

use plimsoll_run::sla::Sla;
use plimsoll_run::workload::{TokenLength, Workload};
use plimsoll_sim::preset::preset;
use plimsoll_sim::runner::SimRunner;
use plimsoll_sim::spec::EngineSpec;
use plimsoll_sim::truth::{HeavyTail, TruthPoint, truth_with};

/// What is searched, and the truth about it.
pub struct Scenario {
    pub name: &'static str,
    pub sla: Sla,
    /// The level, not whole, at which the true statistic reaches the limit.
    pub limit: f64,
    spec: EngineSpec,
    workload: Workload,
    statistic: fn(&TruthPoint) -> f64,
    grid: Vec<TruthPoint>,
}

const TAIL: HeavyTail = HeavyTail {
    sigma: 0.8,
    most: 640,
};

impl Scenario {
    /// A smooth crossing: TPOT grows with every further sequence in the batch. Llama-3.1-8B on ml.g7e.2xlarge; R is
    /// some 4 s at the limit.
    pub fn smooth(requests: usize) -> Self {
        Self::new(
            "smooth TPOT",
            "tpot.p95<=",
            256,
            |point| point.tpot.p95_ms,
            73,
            requests,
        )
    }

    /// A cliff: above 200 sequences requests wait for a slot, and TTFT leaps.
    pub fn cliff(requests: usize) -> Self {
        Self::new(
            "TTFT cliff",
            "ttft.p95<=",
            200,
            |point| point.ttft.p95_ms,
            207,
            requests,
        )
    }

    fn new(
        name: &'static str,
        term: &str,
        slots: u32,
        statistic: fn(&TruthPoint) -> f64,
        about: u32,
        requests: usize,
    ) -> Self {
        let mut spec = preset("sim:llama-3.1-8b@ml.g7e.2xlarge").unwrap().spec;
        spec.serving.max_num_seqs = slots;
        let workload = Workload {
            input_tokens: TokenLength::fixed(256),
            output_tokens: TokenLength::fixed(128),
            streaming: true,
            ..Workload::default()
        };
        // Every level a search is likely to ask for, within 6 % of its neighbours, and finer where it matters.
        let mut levels: Vec<u32> = (0..)
            .map(|step| (8.0 * 1.06_f64.powi(step)).round() as u32)
            .take_while(|level| *level < 1_024)
            .chain((about - about / 15..about + about / 15).step_by(2))
            .chain([64, 128, 256, 512, 1_024])
            .collect();
        levels.sort_unstable();
        levels.dedup();
        let (even, odd): (Vec<_>, Vec<_>) = levels.iter().enumerate().partition(|(at, _)| at % 2 == 0);
        let of = |levels: Vec<(usize, &u32)>| -> Vec<TruthPoint> {
            levels
                .into_iter()
                .flat_map(|(_, level)| {
                    // Four times as long where the limit is read off.
                    let near = (f64::from(*level) / f64::from(about)).ln().abs() < 0.08;
                    let requests = if near { 4 * requests } else { requests };
                    truth_with(&spec, &workload, TAIL, &[*level], requests, 11).unwrap()
                })
                .collect()
        };
        let mut grid = std::thread::scope(|scope| {
            let half = scope.spawn(|| of(even));
            let mut other = of(odd);
            other.extend(half.join().unwrap());
            other
        });
        grid.sort_by_key(|point| point.level);
        // The limit is the statistic about there, rounded to a number that a person would choose.
        let at = grid.iter().find(|point| point.level >= about).unwrap();
        let bound = statistic(at).round();
        let sla = Sla {
            terms: vec![format!("{term}{bound}ms").parse().unwrap()],
        };
        let mut scenario = Scenario {
            name,
            limit: 0.0,
            spec,
            workload,
            statistic,
            grid,
            sla,
        };
        scenario.limit = scenario.root();
        scenario
    }

    /// Where the statistic crosses its limit: a straight line in log-log by least squares through the grid points
    /// around the first crossing, since even a long run has some noise.
    fn root(&self) -> f64 {
        let bound = self.sla.terms[0].limit;
        let excess = |point: &TruthPoint| ((self.statistic)(point) / bound).ln();
        let first = self.grid.iter().position(|point| excess(point) > 0.0).unwrap();
        let near = &self.grid[first.saturating_sub(4)..(first + 4).min(self.grid.len())];
        let steep = excess(&near[near.len() - 1]) - excess(&near[0]) > 1.0;
        let near = if steep {
            &self.grid[first - 1..=first]
        } else {
            near
        };
        let points: Vec<(f64, f64)> = near
            .iter()
            .map(|point| (f64::from(point.level).ln(), excess(point)))
            .collect();
        let n = points.len() as f64;
        let (mx, my) = (
            points.iter().map(|p| p.0).sum::<f64>() / n,
            points.iter().map(|p| p.1).sum::<f64>() / n,
        );
        let slope = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>()
            / points.iter().map(|p| (p.0 - mx).powi(2)).sum::<f64>();
        (mx - my / slope).exp()
    }

    /// A true value at any level, between the grid's points by straight lines in log-log.
    pub fn at(&self, level: f64, of: impl Fn(&TruthPoint) -> f64) -> f64 {
        let after = self
            .grid
            .partition_point(|point| f64::from(point.level) < level)
            .clamp(1, self.grid.len() - 1);
        let (a, b) = (&self.grid[after - 1], &self.grid[after]);
        let share = (level / f64::from(a.level)).ln() / (f64::from(b.level) / f64::from(a.level)).ln();
        (of(a).ln() + share * (of(b) / of(a)).ln()).exp()
    }

    /// ln(true statistic / limit) at a level.
    pub fn excess(&self, level: f64) -> f64 {
        (self.at(level, self.statistic) / self.sla.terms[0].limit).ln()
    }

    /// The truth as a table on stderr.
    pub fn print(&self) {
        for point in &self.grid {
            eprintln!(
                "{:5} {:8.2} req/s {:8.1} tok/s  TTFT p95 {:9.1}  TPOT p95 {:7.2}  E2E {:9.1} ms",
                point.level,
                point.requests_per_s,
                point.output_tokens_per_s,
                point.ttft.p95_ms,
                point.tpot.p95_ms,
                point.e2e.mean_ms
            );
        }
    }

    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    pub fn runner(&self, seed: u64) -> SimRunner {
        SimRunner::new(self.spec.clone(), self.workload.clone(), seed).with_lengths(TAIL)
    }
}
