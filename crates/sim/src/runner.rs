//! The runner that drives the engine in virtual time: a sweep of a quarter of an hour takes about a second.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_plan::conduct::{Conduct, Step, Waiting};
use plimsoll_prompts::Rows;
use plimsoll_run::evidence::{ChunkLog, ClientHealth, Evidence, StampSource, StopReason, Window};
use plimsoll_run::request::{Failure, FailureClass, RequestRecord};
use plimsoll_run::rung::ServerSide;
use plimsoll_run::runner::{Phase, Progress, Rung, Runner, RunnerError, Stop, Watch};
use plimsoll_run::workload::Workload;

use crate::closed_loop::{ClosedLoop, Exchange};
use crate::prompts::{Asking, HeavyTail, mix};
use crate::spec::EngineSpec;

/// How often the conduct of the rung is asked, in virtual time.
const TICK: Duration = Duration::from_millis(20);

/// Drives the simulated engine. Equal rungs of equal order give equal evidence.
#[derive(Debug, Clone)]
pub struct SimRunner {
    spec: EngineSpec,
    asking: Asking,
    seed: u64,
}

impl SimRunner {
    /// Users who ask `workload` of this engine. Every rung meets a fresh engine.
    #[must_use]
    pub fn new(spec: EngineSpec, workload: Workload, seed: u64) -> Self {
        SimRunner {
            spec,
            asking: Asking::from(&workload),
            seed,
        }
    }

    /// The same users with replies of a heavy tail around the workload's mean length.
    #[must_use]
    pub fn with_lengths(mut self, tail: HeavyTail) -> Self {
        self.asking = self.asking.with_tail(tail);
        self
    }

    /// The same users asking what a dataset or trace holds.
    #[must_use]
    pub fn with_rows(mut self, rows: Option<Arc<Rows>>) -> Self {
        self.asking.rows = rows;
        self
    }
}

impl Runner for SimRunner {
    fn measure(&mut self, rung: &Rung, watch: &Watch) -> Result<Evidence, RunnerError> {
        let refuse = |problem: String| RunnerError {
            level: rung.level,
            problem,
        };
        if rung.level == 0 {
            return Err(refuse("a level needs at least one request in flight".to_owned()));
        }
        watch.begin_rung();
        let mut conduct = Conduct::new(rung);
        let starts: Vec<Duration> = (0..rung.level).map(|slot| conduct.start_of(slot)).collect();
        let seed = mix(self.seed, u64::from(rung.order));
        let mut users = ClosedLoop::new(&self.spec, self.asking.clone(), seed, &starts);
        let mut ended: Vec<Exchange> = Vec::new();
        let mut now = Duration::ZERO;
        let stop = loop {
            now += TICK;
            let newly = users.advance(now).map_err(|error| refuse(error.to_string()))?;
            for exchange in newly {
                conduct.on_end(exchange.sent, exchange.ended().unwrap_or(now), true);
                conduct.on_outcome(&self.record(&exchange, now));
                ended.push(exchange);
            }
            let window = conduct.window();
            let window_in_flight = users
                .in_flight()
                .filter(|exchange| window.is_some_and(|window| window.contains(exchange.sent)))
                .count() as u64;
            if let Some(window) = window.filter(|_| conduct.wants_in_flight()) {
                let waiting = users
                    .in_flight()
                    .filter(|exchange| window.contains(exchange.sent))
                    .map(|exchange| {
                        let first = exchange.tokens.first();
                        (
                            exchange.sent,
                            first.map_or(Waiting::Silent, |at| Waiting::Speaking(*at)),
                        )
                    });
                conduct.on_in_flight(now, waiting);
            }
            let step = conduct.tick(now, users.tokens(), window_in_flight);
            let phase = match step {
                Step::Hold(phase) => phase,
                Step::Finish => Phase::Drain,
            };
            watch.show(
                phase,
                &Progress {
                    in_flight: u32::try_from(users.in_flight().count()).unwrap_or(u32::MAX),
                    ended: ended.len() as u64,
                    failed: 0,
                    elapsed: now,
                    expected: conduct.expected(),
                },
            );
            if step == Step::Finish {
                break conduct.stopped();
            }
            // Virtual time needs no drain: either stop ends the rung here.
            if watch.stop() != Stop::No {
                break StopReason::Interrupted;
            }
        };
        let window = closed_window(conduct.window(), now);
        Ok(self.evidence(rung, &users, ended, window, now, stop))
    }
}

/// The window, closed at the rung's end where it was still open; `None` where it never opened.
fn closed_window(window: Option<Window>, now: Duration) -> Option<Window> {
    let window = window?;
    let closes = window.closes.min(now);
    (window.opens < closes).then_some(Window { closes, ..window })
}

impl SimRunner {
    fn evidence(
        &self,
        rung: &Rung,
        users: &ClosedLoop,
        mut exchanges: Vec<Exchange>,
        window: Option<Window>,
        took: Duration,
        stop: StopReason,
    ) -> Evidence {
        // Requests still in flight that were sent after the window were only there to keep the load up.
        exchanges.extend(
            users
                .in_flight()
                .filter(|exchange| window.is_none_or(|window| exchange.sent < window.closes))
                .cloned(),
        );
        exchanges.sort_unstable_by_key(|exchange| exchange.index);
        let mut chunks = ChunkLog::default();
        let mut requests = Vec::with_capacity(exchanges.len());
        for exchange in &exchanges {
            if self.asking.workload.streaming {
                chunks.push(exchange.tokens.iter().map(|at| *at - exchange.sent));
            } else {
                chunks.push([]);
            }
            requests.push(self.record(exchange, took));
        }
        let counters = users.engine().counters();
        let peaks = users.peaks();
        Evidence {
            level: rung.level,
            window,
            took,
            stop,
            requests,
            chunks,
            client: ClientHealth {
                stamps: StampSource::Virtual,
                busiest_thread_cpu: None,
                read_delay: None,
            },
            server: ServerSide {
                prefix_cache_hit_rate: (counters.prefix_queries > 0)
                    .then(|| counters.prefix_hits as f64 / counters.prefix_queries as f64),
                kv_cache_usage_max: Some(peaks.kv_usage),
                running_max: Some(peaks.running),
                waiting_max: Some(peaks.waiting),
                preemptions: Some(counters.preemptions),
                ..ServerSide::default()
            },
            server_samples: Vec::new(),
        }
    }

    fn record(&self, exchange: &Exchange, took: Duration) -> RequestRecord {
        let streaming = self.asking.workload.streaming;
        let first = exchange.tokens.first().copied();
        let mut record = RequestRecord::begun(exchange.index, exchange.slot, exchange.sent, exchange.sent);
        record.input_asked = exchange.prompt_tokens;
        record.output_asked = exchange.output_tokens;
        if streaming {
            record.headers = first;
            record.first_byte = first;
            record.first_token = first;
            record.first_answer = first;
            record.last_token = exchange.tokens.last().copied();
            record.status = first.map(|_| 200);
        }
        match exchange.ended() {
            Some(ended) => {
                record.ended = ended;
                record.headers = record.headers.or(Some(ended));
                record.first_byte = record.first_byte.or(Some(ended));
                record.last_token = Some(ended);
                record.status = Some(200);
                record.input_tokens = Some(exchange.prompt_tokens);
                record.cached_tokens = Some(exchange.cached_tokens);
                record.output_tokens = Some(exchange.output_tokens);
                record.finish_reason = Some("length".to_owned());
            }
            None => {
                record.ended = took.max(exchange.tokens.last().copied().unwrap_or(took));
                record.failure = Some(Failure {
                    class: FailureClass::Deadline,
                    message: "still running at the end of the drain".to_owned(),
                });
            }
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::{preset, quick};
    use crate::truth::truth;
    use plimsoll_run::runner::RungLimits;

    fn rung(level: u32, order: u32, expected_ms: u64) -> Rung {
        Rung {
            level,
            order,
            expected_response: Some(Duration::from_millis(expected_ms)),
            samples_wanted: 200,
            limits: RungLimits::default(),
        }
    }

    #[test]
    fn the_evidence_agrees_with_the_truth() {
        let quick = quick();
        let mut runner = SimRunner::new(quick.spec.clone(), quick.workload.clone(), 3);
        let truths = truth(&quick.spec, &quick.workload, &[64, 200], 1).unwrap();
        for (point, expected_ms) in truths.iter().zip([300, 600]) {
            let evidence = runner
                .measure(&rung(point.level, 1, expected_ms), &Watch::new())
                .unwrap();
            assert_eq!(evidence.stop, StopReason::Enough);
            let window = evidence.window.unwrap();
            let in_window = evidence
                .requests
                .iter()
                .filter(|request| window.contains(request.ended))
                .count();
            let rate = in_window as f64 / window.length().as_secs_f64();
            assert!(
                (rate / point.requests_per_s - 1.0).abs() < 0.05,
                "{rate} against {point:?}"
            );
            assert!(evidence.requests.iter().all(RequestRecord::ok));
            assert_eq!(evidence.requests.len(), evidence.chunks.len());
            assert_eq!(evidence.server.running_max, Some(point.level.min(128)));
            assert_eq!(evidence.server.prefix_cache_hit_rate, Some(0.0));
        }
    }

    #[test]
    fn equal_rungs_give_equal_evidence_and_another_order_does_not() {
        let quick = quick();
        let mut runner = SimRunner::new(quick.spec, quick.workload, 3);
        let mut run = |order| runner.measure(&rung(20, order, 250), &Watch::new()).unwrap();
        let first = run(1);
        assert_eq!(first, run(1));
        assert_ne!(first.requests, run(2).requests);
    }

    #[test]
    fn a_stop_ends_the_rung_with_what_there_is() {
        let watch = Watch::new();
        watch.ask_to_stop();
        let quick = quick();
        let mut runner = SimRunner::new(quick.spec, quick.workload, 3);
        let evidence = runner.measure(&rung(20, 1, 250), &watch).unwrap();
        assert_eq!(evidence.stop, StopReason::Interrupted);
        assert_eq!(evidence.window, None);
    }

    #[test]
    fn a_workload_that_the_engine_cannot_hold_is_an_error() {
        let mut quick = quick();
        quick.workload.input_tokens = plimsoll_run::workload::TokenLength::fixed(5_000);
        let mut runner = SimRunner::new(quick.spec, quick.workload, 3);
        let error = runner.measure(&rung(20, 1, 250), &Watch::new()).unwrap_err();
        assert!(error.to_string().contains("exceed the 4096"), "{error}");
    }

    #[test]
    fn replies_that_are_not_streamed_have_no_first_token() {
        let mut quick = quick();
        quick.workload.streaming = false;
        let mut runner = SimRunner::new(quick.spec, quick.workload, 3);
        let evidence = runner.measure(&rung(5, 1, 250), &Watch::new()).unwrap();
        assert!(evidence.requests[0].ok());
        assert_eq!(evidence.requests[0].ttft(), None);
        assert!(evidence.requests[0].e2e().is_some());
        assert!(evidence.chunks.of(0).is_empty());
    }

    #[test]
    fn ten_minutes_of_a_large_engine_take_seconds() {
        let preset = preset("sim:nemotron-3-nano").unwrap();
        let mut runner = SimRunner::new(preset.spec, preset.workload, 3);
        let began = std::time::Instant::now();
        let mut virtual_time = Duration::ZERO;
        for (order, (level, expected_ms)) in (1..).zip([(64, 11_000), (256, 23_000)]) {
            let evidence = runner
                .measure(&rung(level, order, expected_ms), &Watch::new())
                .unwrap();
            virtual_time += evidence.took;
        }
        eprintln!("{virtual_time:?} in {:?}", began.elapsed());
        assert!(virtual_time > Duration::from_secs(250), "{virtual_time:?}");
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
