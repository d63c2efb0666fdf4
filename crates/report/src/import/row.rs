//! A row of any table: one level with whatever was published of it.

use plimsoll_run::evidence::StopReason;
use plimsoll_run::rung::{
    AskedActual, Distribution, InFlight, Latencies, Lengths, RequestCounts, RungReport, ServerSide,
    Throughput,
};
use plimsoll_run::sla::Stat;
use plimsoll_run::table::{ImportedRow, parts};
use plimsoll_run::validity::{Validity, Verdict};

/// One level. Times in milliseconds, rates per second, shares as fractions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Row {
    /// Where it stands in its file, to be named in messages.
    pub(super) place: String,
    pub(super) level: u32,
    pub(super) requests_per_s: Option<f64>,
    pub(super) output_tokens_per_s: Option<f64>,
    pub(super) total_tokens_per_s: Option<f64>,
    pub(super) goodput_per_s: Option<f64>,
    pub(super) latency: [Distribution; 5],
    /// Requests that ended, well or not.
    pub(super) requests: Option<u64>,
    pub(super) failed: Option<u64>,
    pub(super) error_rate: Option<f64>,
    pub(super) in_flight: Option<f64>,
    pub(super) input_tokens: Option<f64>,
    pub(super) output_tokens: Option<f64>,
    pub(super) window_s: Option<f64>,
    /// Whether requests per second were counted, not computed from the latency.
    pub(super) counted: bool,
    /// Whether the row is said to have met an SLA.
    pub(super) met: Option<bool>,
    /// A verdict of our own that the table brings along.
    pub(super) verdict: Option<Verdict>,
}

/// Places in [`Row::latency`].
pub(super) const TTFT: usize = 0;
pub(super) const TTFAT: usize = 1;
pub(super) const TPOT: usize = 2;
pub(super) const ITL: usize = 3;
pub(super) const E2E: usize = 4;

pub(super) fn set(distribution: &mut Distribution, stat: Stat, value: Option<f64>) {
    let place = match stat {
        Stat::Mean => &mut distribution.mean,
        Stat::P50 => &mut distribution.p50,
        Stat::P90 => &mut distribution.p90,
        Stat::P95 => &mut distribution.p95,
        Stat::P99 => &mut distribution.p99,
        Stat::Max => &mut distribution.max,
    };
    *place = value.or(*place);
}

fn known(distribution: &Distribution) -> bool {
    Stat::NAMES
        .iter()
        .any(|(_, stat)| distribution.stat(*stat).is_some())
}

impl Row {
    pub(super) fn says_the_same(&self, other: &Row) -> bool {
        let nowhere = |row: &Row| Row {
            place: String::new(),
            ..row.clone()
        };
        nowhere(self) == nowhere(other)
    }

    /// Completes requests and tokens per second, and the mean E2E, from a mean reply length given by the user.
    pub(super) fn complete(&mut self, tokens: f64) {
        let tokens = *self.output_tokens.get_or_insert(tokens);
        if self.requests_per_s.is_none() {
            self.requests_per_s = self.output_tokens_per_s.map(|rate| rate / tokens);
        } else if self.output_tokens_per_s.is_none() {
            self.output_tokens_per_s = self.requests_per_s.map(|rate| rate * tokens);
        }
        if !known(&self.latency[E2E])
            && let (Some(ttft), Some(tpot)) = (self.latency[TTFT].mean, self.latency[TPOT].mean)
        {
            self.latency[E2E].mean = Some(ttft + tpot * (tokens - 1.0).max(0.0));
        }
    }

    /// (ended, failed); parts of a round number where only the rate is known; `None` where nothing is said of errors.
    fn counts(&self) -> Option<(u64, u64)> {
        match (self.requests, self.failed, self.error_rate) {
            (Some(all), Some(failed), _) => Some((all, failed.min(all))),
            (Some(all), None, Some(rate)) => Some((all, (rate * all as f64).round() as u64)),
            (None, _, Some(rate)) => Some(parts(rate)),
            (_, None, None) | (None, ..) => None,
        }
    }

    /// What goes beside the rung.
    pub(super) fn beside(&self) -> ImportedRow {
        ImportedRow {
            counted: self.counted,
            met: self.met,
            verdict: self.verdict,
            error_rate: self.error_rate.filter(|_| self.requests.is_none()),
        }
    }

    /// The rung, not yet examined.
    pub(super) fn report(&self, order: u32) -> RungReport {
        let (all, failed) = self.counts().unwrap_or((0, 0));
        let ok = all - failed;
        let share = failed as f64 / all.max(1) as f64;
        let samples = self.requests.map_or(0, |all| all - failed.min(all));
        let distribution = |at: usize| {
            let mut distribution = self.latency[at].clone();
            distribution.n = samples;
            if failed > 0 {
                // With failed requests slower than any success, these percentiles lie among them; of the others the
                // table does not tell how far they move.
                for (name, stat) in Stat::NAMES {
                    if stat.quantile().is_some_and(|q| share > 1.0 - q) && distribution.stat(stat).is_some() {
                        distribution.counting_failures.insert(name.to_owned(), None);
                    }
                }
            }
            known(&distribution).then_some(distribution)
        };
        let actual = |actual: Option<f64>| AskedActual { asked: None, actual };
        RungReport {
            concurrency: self.level,
            order,
            validity: Validity::valid(),
            stopped: StopReason::Asked,
            warmup_s: None,
            window_s: self.window_s,
            in_flight: InFlight {
                mean: self.in_flight,
                max: None,
            },
            requests: RequestCounts {
                sent: self.requests.unwrap_or(0),
                ok,
                failed,
                ..RequestCounts::default()
            },
            lengths: Lengths {
                input: actual(self.input_tokens),
                output: actual(self.output_tokens),
                ..Lengths::default()
            },
            throughput: Throughput {
                requests_per_s: self.requests_per_s,
                output_tokens_per_s: self.output_tokens_per_s,
                total_tokens_per_s: self.total_tokens_per_s,
                goodput_per_s: self.goodput_per_s,
                ..Throughput::default()
            },
            latency: Latencies {
                ttft_ms: distribution(TTFT),
                ttfat_ms: distribution(TTFAT),
                tpot_ms: distribution(TPOT),
                itl_ms: distribution(ITL),
                e2e_ms: distribution(E2E),
            },
            sla: Vec::new(),
            server: ServerSide::default(),
            client: None,
        }
    }
}

/// Where a table has ITL and no TPOT, or the reverse, one stands in for the other: their means agree, and tools call
/// both by either name.
pub(super) fn stand_ins(rows: &mut [Row]) -> Vec<String> {
    let has = |rows: &[Row], at: usize| rows.iter().any(|row| known(&row.latency[at]));
    let mut remarks = Vec::new();
    for (missing, there, sentence) in [
        (TPOT, ITL, "The table has no TPOT: its ITL stands in for it."),
        (ITL, TPOT, "The table has no ITL: its TPOT stands in for it."),
    ] {
        if !has(rows, missing) && has(rows, there) {
            for row in rows.iter_mut() {
                row.latency[missing] = row.latency[there].clone();
            }
            remarks.push(sentence.to_owned());
        }
    }
    remarks
}

/// Lengths of replies that differ by no more than this between rows are one length.
const ONE_LENGTH: f64 = 0.03;

/// Where some rows have requests per second and others tokens per second, one follows from the other if the rows with
/// both show replies of one length.
pub(super) fn fill_rates(rows: &mut [Row]) -> Option<String> {
    let lengths: Vec<f64> = rows
        .iter()
        .filter_map(|row| Some(row.output_tokens_per_s? / row.requests_per_s.filter(|rate| *rate > 0.0)?))
        .filter(|length| *length > 0.0)
        .collect();
    let most = lengths.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = lengths.iter().copied().fold(f64::INFINITY, f64::min);
    if lengths.len() < 2 || most > (1.0 + ONE_LENGTH) * least {
        return None;
    }
    let length = lengths.iter().sum::<f64>() / lengths.len() as f64;
    let mut filled = Vec::new();
    for row in rows.iter_mut() {
        match (row.requests_per_s, row.output_tokens_per_s) {
            (None, Some(tokens)) => row.requests_per_s = Some(tokens / length),
            (Some(requests), None) => row.output_tokens_per_s = Some(requests * length),
            _ => continue,
        }
        filled.push(row.level.to_string());
    }
    (!filled.is_empty()).then(|| {
        format!(
            "At {} only one of requests/s and tokens/s is given; the other follows from the {length:.0} tokens a reply \
             has elsewhere.",
            filled.join(", ")
        )
    })
}
