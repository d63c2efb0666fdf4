//! Servers in closed form, and a search run to its end on one.

use plimsoll_plan::{Next, Search, SearchSettings, compare, judge};
use plimsoll_run::evidence::StopReason;
use plimsoll_run::rung::{
    Distribution, InFlight, Latencies, Lengths, RequestCounts, RungReport, ServerSide, Throughput,
};
use plimsoll_run::sla::Sla;
use plimsoll_run::validity::Validity;

pub fn sla(terms: &[&str]) -> Sla {
    Sla {
        terms: terms.iter().map(|term| term.parse().unwrap()).collect(),
    }
}

pub fn settings(sla: Sla) -> SearchSettings {
    SearchSettings {
        ladder: "64,256,1024".parse().unwrap(),
        refine: Some(0.05),
        min: 1,
        max: 1024,
        max_rungs: None,
        sla,
    }
}

/// A batching engine of `slots` sequences: a step of `step + each * running` ms makes a token for each, replies are
/// 100 tokens long, and what finds no slot waits.
#[derive(Clone, Copy)]
pub struct Engine {
    pub slots: f64,
    pub step: f64,
    pub each: f64,
}

pub const OUTPUT: f64 = 100.0;

impl Engine {
    /// TPOT ms, TTFT ms, E2E s, requests/s.
    pub fn at(&self, level: f64) -> (f64, f64, f64, f64) {
        let running = level.min(self.slots);
        let tpot = self.step + self.each * running;
        let unqueued = 3.0 * tpot;
        let service = (unqueued + (OUTPUT - 1.0) * tpot) / 1e3;
        let rate = running / service;
        let waiting = (level - running) / rate;
        (tpot, unqueued + waiting * 1e3, service + waiting, rate)
    }

    pub fn rung(&self, level: u32, noise: impl FnMut() -> f64) -> RungReport {
        let mut noise = noise;
        let (tpot, ttft, e2e, rate) = self.at(f64::from(level));
        let mut distribution = |value: f64| {
            let mean = value * noise();
            Some(Distribution {
                n: 1000,
                mean: Some(mean),
                p95: Some(mean),
                ..Distribution::default()
            })
        };
        let latency = Latencies {
            ttft_ms: distribution(ttft),
            tpot_ms: distribution(tpot),
            itl_ms: distribution(tpot),
            e2e_ms: distribution(e2e * 1e3),
            ..Latencies::default()
        };
        let rate = rate * noise();
        rung(level, rate, latency)
    }

    /// The highest whole level that meets the SLA.
    pub fn truth(&self, sla: &Sla) -> u32 {
        (1..=1024)
            .take_while(|level| {
                judge(&self.rung(*level, || 1.0), sla)
                    .iter()
                    .all(|outcome| outcome.pass == Some(true))
            })
            .last()
            .unwrap_or(0)
    }
}

pub fn rung(level: u32, rate: f64, latency: Latencies) -> RungReport {
    RungReport {
        concurrency: level,
        order: 1,
        validity: Validity::valid(),
        stopped: StopReason::Enough,
        warmup_s: None,
        window_s: Some(60.0),
        in_flight: InFlight::default(),
        requests: RequestCounts {
            sent: 1000,
            ok: 1000,
            ..RequestCounts::default()
        },
        lengths: Lengths::default(),
        throughput: Throughput {
            requests_per_s: Some(rate),
            output_tokens_per_s: Some(rate * OUTPUT),
            relative_se: Some(0.01),
            ..Throughput::default()
        },
        latency,
        sla: Vec::new(),
        server: ServerSide::default(),
        client: None,
    }
}

/// Runs a search to its end.
pub fn run(settings: &SearchSettings, mut measure: impl FnMut(u32) -> RungReport) -> Vec<RungReport> {
    let search = Search::new(settings.clone());
    let mut rungs: Vec<RungReport> = Vec::new();
    loop {
        match search.next(&rungs) {
            Next::Measure { level, .. } => {
                assert!(
                    search.remaining(&rungs) > 0 || rungs.len() > 12,
                    "more to come after none"
                );
                rungs.push(measure(level));
            }
            Next::Finished { why } => {
                assert!(!why.is_empty());
                assert_eq!(search.remaining(&rungs), 0);
                return rungs;
            }
        }
        compare(&mut rungs);
        assert!(rungs.len() < 200, "never ends");
    }
}

pub const ENGINES: [Engine; 6] = [
    Engine {
        slots: 207.0,
        step: 10.0,
        each: 0.05,
    },
    Engine {
        slots: 16.0,
        step: 20.0,
        each: 1.0,
    },
    Engine {
        slots: 300.0,
        step: 8.0,
        each: 0.1,
    },
    Engine {
        slots: 87.0,
        step: 18.0,
        each: 0.85,
    },
    Engine {
        slots: 900.0,
        step: 12.0,
        each: 0.02,
    },
    Engine {
        slots: 64.0,
        step: 15.0,
        each: 0.4,
    },
];

pub const SLAS: [&[&str]; 5] = [
    &["ttft.p95<=500ms"],
    &["tpot.p95<=25ms"],
    &["e2e.p95<=5s"],
    &["ttft.p95<=2s", "tpot.p95<=60ms"],
    &["e2e.mean<=30s"],
];
