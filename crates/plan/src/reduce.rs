//! From the evidence of one rung to its report.
//!
//! The dispatch rule: a request counts for latency and for the request counts if and only if it was sent inside the
//! window. Tokens count by their own time stamps inside the window, whoever they belong to, unless their request
//! failed.

use hdrhistogram::Histogram;
use plimsoll_run::evidence::{Evidence, Window};
use plimsoll_run::request::RequestRecord;
use plimsoll_run::rung::{
    AskedActual, InFlight, Latencies, Lengths, RequestCounts, RungReport, ServerSide, Throughput,
    TimelineSecond,
};
use plimsoll_run::sla::{Metric, Sla};
use plimsoll_run::units::to_ms;
use plimsoll_run::validity::{Validity, Verdict};
use plimsoll_run::workload::{TokenLength, Workload};

use crate::bootstrap::doubt;
use crate::distribution::{Samples, distribution, gaps};
use crate::interval::{mean_of_batches, standard_error, time_batches};
use crate::judge::{judge, judge_again};
use crate::tokens::{self, WindowBins};
use crate::validity::examine;

/// What a rung's evidence says.
#[derive(Debug, Clone)]
pub struct Reduced {
    /// The report as it stands in `run.json`.
    pub report: RungReport,
    /// The whole rung, second by second.
    pub timeline: Vec<TimelineSecond>,
    /// Gaps between token-bearing chunks inside the window, microseconds.
    pub itl_us: Histogram<u64>,
}

/// Reduces a rung's evidence to its report, judged against the SLA and examined for validity. `order` is the rung's
/// number within the run, from 1.
#[must_use]
pub fn reduce(evidence: &Evidence, order: u32, workload: &Workload, sla: &Sla) -> Reduced {
    let window = evidence.window;
    let mut inside: Vec<usize> = (0..evidence.requests.len())
        .filter(|at| window.is_some_and(|window| window.contains(evidence.requests[*at].sent)))
        .collect();
    inside.sort_by_key(|at| evidence.requests[*at].sent);
    let (ok, failed): (Vec<usize>, Vec<usize>) = inside.iter().partition(|at| evidence.requests[**at].ok());

    let length = window.map_or(0.0, |window| window.length().as_secs_f64());
    let response = mean(
        ok.iter()
            .filter_map(|at| evidence.requests[*at].e2e()?.as_secs_f64().into()),
    );
    let batches = response.map_or(0, |response| time_batches(length, response));

    let (latency, itl_us) = latencies(evidence, workload, &ok, failed.len(), batches);
    let good = ok
        .iter()
        .filter(|at| meets_alone(&evidence.requests[**at], evidence.chunks.of(**at), sla))
        .count();
    let throughput = window
        .filter(|window| !window.length().is_zero())
        .map(|window| throughput(evidence, window, batches, ok.len(), good))
        .unwrap_or_default();

    let mut report = RungReport {
        concurrency: evidence.level,
        order,
        validity: Validity::valid(),
        stopped: evidence.stop,
        warmup_s: window.map(|window| window.opens.as_secs_f64()),
        window_s: window.map(|window| window.length().as_secs_f64()),
        in_flight: window
            .map(|window| in_flight(evidence, window))
            .unwrap_or_default(),
        requests: counts(evidence, workload, &inside),
        lengths: lengths(evidence, workload, &ok),
        throughput,
        latency,
        sla: Vec::new(),
        server: server(evidence, &ok),
        client: Some(evidence.client),
    };
    report.sla = judge(&report, sla);
    report.validity = examine(&report, evidence, workload.is_cold());
    if report.validity.may_decide()
        && let Some(reason) = doubt(&report, evidence, response)
    {
        report.validity.verdict = Verdict::TooFewSamples;
        report.validity.reasons.push(reason);
    }
    judge_again(&mut report);
    Reduced {
        timeline: crate::timeline::timeline(evidence),
        report,
        itl_us,
    }
}

pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values
        .into_iter()
        .fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

fn latencies(
    evidence: &Evidence,
    workload: &Workload,
    ok: &[usize],
    failed: usize,
    batches: u32,
) -> (Latencies, Histogram<u64>) {
    let window = evidence.window.unwrap_or(Window {
        opens: evidence.took,
        closes: evidence.took,
    });
    let of = |metric: &dyn Fn(&RequestRecord) -> Option<std::time::Duration>| {
        let mut samples = Samples::default();
        for at in ok {
            let record = &evidence.requests[*at];
            if let Some(value) = metric(record) {
                samples.push(to_ms(value), tokens::bin_of(window, record.sent, batches));
            }
        }
        samples
    };
    let mut latency = Latencies {
        e2e_ms: distribution(&of(&RequestRecord::e2e).in_send_order(), failed as f64),
        ..Latencies::default()
    };
    let itl = gaps(evidence, window, batches);
    if workload.streaming {
        latency.ttft_ms = distribution(&of(&RequestRecord::ttft).in_send_order(), failed as f64);
        let differs = ok.iter().any(|at| {
            let record = &evidence.requests[*at];
            record.first_answer != record.first_token
        });
        if differs {
            latency.ttfat_ms = distribution(&of(&RequestRecord::ttfat).in_send_order(), failed as f64);
        }
        latency.tpot_ms = distribution(&of(&RequestRecord::tpot).in_send_order(), failed as f64);
        // A failed request would have had as many gaps as the others.
        let each = if ok.is_empty() {
            0.0
        } else {
            itl.samples.len() as f64 / ok.len() as f64
        };
        latency.itl_ms = distribution(&itl.samples, failed as f64 * each);
    }
    (latency, itl.histogram)
}

/// Whether a success meets every latency term that it can meet on its own; ITL by its mean.
fn meets_alone(record: &RequestRecord, chunks: &[u32], sla: &Sla) -> bool {
    sla.terms.iter().all(|term| {
        let value = match term.metric {
            Metric::Ttft => record.ttft(),
            Metric::Ttfat => record.ttfat().or(record.ttft()),
            Metric::Tpot => record.tpot(),
            Metric::E2e => record.e2e(),
            Metric::ErrorRate => None,
            Metric::Itl => {
                return match (chunks.first(), chunks.last()) {
                    (Some(first), Some(last)) if chunks.len() > 1 => {
                        let gaps = (chunks.len() - 1) as f64;
                        term.admits(f64::from(last.saturating_sub(*first)) / gaps / 1e3)
                    }
                    _ => true,
                };
            }
        };
        value.is_none_or(|value| term.admits(to_ms(value)))
    })
}

fn throughput(evidence: &Evidence, window: Window, batches: u32, ok: usize, good: usize) -> Throughput {
    let length = window.length().as_secs_f64();
    let ended = || {
        evidence
            .requests
            .iter()
            .filter(|record| record.ok() && window.contains(record.ended))
    };
    let mut endings = WindowBins::new(window, batches);
    for record in ended() {
        endings.add(record.ended, 1.0);
    }
    let output = tokens::in_window(evidence, window, batches);
    let output_tokens_per_s = output.as_ref().map(|output| output.total / length);
    let output_rates = output.map(|output| output.rates()).unwrap_or_default();
    let requests_per_s = endings.total / length;
    let prompts: Vec<f64> = ended()
        .filter_map(|record| record.input_tokens.map(f64::from))
        .collect();
    let input_tokens_per_s = (!prompts.is_empty()).then(|| prompts.iter().sum::<f64>() / length);
    // A share of the throughput, so that it never exceeds it: the good ones were sent in the window, and not all of
    // them ended in it.
    let good = if ok > 0 { good as f64 / ok as f64 } else { 0.0 };
    Throughput {
        requests_per_s: Some(requests_per_s),
        output_tokens_per_s,
        total_tokens_per_s: input_tokens_per_s
            .zip(output_tokens_per_s)
            .map(|(input, output)| input + output),
        goodput_per_s: Some(requests_per_s * good),
        relative_se: standard_error(&output_rates)
            .zip(output_tokens_per_s)
            .filter(|(_, rate)| *rate > 0.0)
            .map(|(error, rate)| error / rate),
        requests_ci95: mean_of_batches(&endings.rates()),
        output_tokens_ci95: mean_of_batches(&output_rates),
    }
}

/// Time-weighted mean and largest number of requests in flight inside the window.
fn in_flight(evidence: &Evidence, window: Window) -> InFlight {
    let length = window.length().as_secs_f64();
    if length <= 0.0 {
        return InFlight::default();
    }
    let mut busy = 0.0;
    let mut changes: Vec<(std::time::Duration, i32)> = Vec::new();
    for record in &evidence.requests {
        let (from, to) = (record.sent.max(window.opens), record.ended.min(window.closes));
        if from < to {
            busy += (to - from).as_secs_f64();
            changes.push((from, 1));
            changes.push((to, -1));
        }
    }
    // An end at the moment of a start comes first: a slot sends its next request when its last one ends.
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    InFlight {
        mean: Some(busy / length),
        max: u32::try_from(most).ok(),
    }
}

fn counts(evidence: &Evidence, workload: &Workload, inside: &[usize]) -> RequestCounts {
    let mut counts = RequestCounts::default();
    for at in inside {
        let record = &evidence.requests[*at];
        counts.sent += 1;
        counts.retried += u64::from(record.retries);
        match &record.failure {
            None => {
                counts.ok += 1;
                counts.without_ttft += u64::from(workload.streaming && record.first_token.is_none());
            }
            Some(failure) => {
                counts.failed += 1;
                *counts
                    .by_class
                    .entry(failure.class.name().to_owned())
                    .or_default() += 1;
                counts
                    .samples
                    .entry(failure.class.name().to_owned())
                    .or_insert_with(|| failure.message.clone());
            }
        }
    }
    counts
}

fn lengths(evidence: &Evidence, workload: &Workload, ok: &[usize]) -> Lengths {
    let records = || ok.iter().map(|at| &evidence.requests[*at]);
    let asked = |of: fn(&RequestRecord) -> u32, otherwise: &TokenLength| {
        mean(records().map(of).filter(|asked| *asked > 0).map(f64::from)).or(Some(otherwise.mean()))
    };
    let mut lengths = Lengths {
        input: AskedActual {
            asked: asked(|record| record.input_asked, &workload.input_tokens),
            actual: mean(records().filter_map(|record| record.input_tokens.map(f64::from))),
        },
        output: AskedActual {
            asked: asked(|record| record.output_asked, &workload.output_tokens),
            actual: mean(records().filter_map(|record| record.output_tokens.map(f64::from))),
        },
        output_estimated: records().any(|record| record.output_estimated),
        ..Lengths::default()
    };
    for record in records() {
        if let Some(reason) = &record.finish_reason {
            *lengths.finish_reasons.entry(reason.clone()).or_default() += 1;
        }
    }
    lengths
}

/// The server's own metrics, and the prefix cache hit rate by the usage in its replies, which stands in where the metrics have
/// none.
fn server(evidence: &Evidence, ok: &[usize]) -> ServerSide {
    let mut server = evidence.server;
    let (mut cached, mut prompts) = (0.0, 0.0);
    for at in ok {
        let record = &evidence.requests[*at];
        if let (Some(hit), Some(input)) = (record.cached_tokens, record.input_tokens) {
            cached += f64::from(hit);
            prompts += f64::from(input);
        }
    }
    server.usage_cached_share = (prompts > 0.0).then(|| cached / prompts);
    server.prefix_cache_hit_rate = server.prefix_cache_hit_rate.or(server.usage_cached_share);
    server
}
