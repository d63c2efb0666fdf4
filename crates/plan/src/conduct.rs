//! The conduct of a rung: when slots start, when the window opens and closes, when the rung is done.
//!
//! A pure state machine, driven by whoever holds the level: in wall time against a real endpoint, in virtual
//! time against the simulated engine. All times are since the rung's start.
//!
//! R is the mean response time. The warm-up lasts 1R at least, until the in-flight population has been replaced
//! once and MSER-5 finds no transient left in the token rate; then the window stays open for 8R at least and until the
//! samples are there (METHOD section 1). A rung whose SLA is broken far beyond doubt may close it after 3R, one whose SLA is
//! held far beyond doubt after 8R, whatever samples it has by then.

use std::time::Duration;

use plimsoll_run::evidence::{StopReason, Window};
use plimsoll_run::request::RequestRecord;
use plimsoll_run::runner::{Phase, Rung};

pub use crate::doubt::Waiting;

use crate::doubt::Doubt;
use crate::steady::{Cumulative, halves_differ, mser};

/// The window lasts this many response times at least.
const WINDOW_RESPONSES: f64 = 8.0;
/// Even a hopeless level is held for so many, for its throughput.
const HOPELESS_RESPONSES: f64 = 3.0;
/// A block that unequal halves earn, in response times, and how many they may earn.
const BLOCK_RESPONSES: f64 = 2.0;
const BLOCKS: u32 = 3;
/// MSER-5 may ask for this many response times of warm-up at most.
const WARMUP_RESPONSES_MAX: f64 = 4.0;
/// No warm-up or window shorter than this: a timer's tick would show in it.
const WARMUP_LEAST: Duration = Duration::from_millis(200);
const WINDOW_LEAST: Duration = Duration::from_secs(1);
/// The share of the cap that a warm-up found from the data may take.
const WARMUP_SHARE: f64 = 1.0 / 3.0;
/// Requests of the window are waited for at least twice as long as the longest of the rung took, and for this many times that
/// long where it was quick: within these bounds, unless the rung's limit is shorter.
const DRAIN_TIMES: u32 = 20;
const DRAIN_LEAST: Duration = Duration::from_secs(10);
const DRAIN_MOST: Duration = Duration::from_secs(60);
/// Stagger no longer than this.
const STAGGER_MAX: Duration = Duration::from_secs(10);
/// More than this share of failures over at least so many requests ends the rung.
const ERROR_SHARE: f64 = 0.10;
const ERROR_REQUESTS: u64 = 20;
/// Halves of the window that differ by less are not worth more time.
const HALVES_LEAST: f64 = 0.02;

/// What the runner must do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Keep the level in flight: every slot sends its next request the moment its last one ends. The phase is
    /// for showing; during [`Phase::Drain`] the load goes on until the window's requests have ended.
    Hold(Phase),
    /// The rung is over: send nothing more and drop what is still in flight.
    Finish,
}

/// Mean response time of some successes.
#[derive(Debug, Clone, Copy, Default)]
struct Responses {
    count: u64,
    seconds: f64,
}

impl Responses {
    fn add(&mut self, response: Duration) {
        self.count += 1;
        self.seconds += response.as_secs_f64();
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.seconds / self.count as f64)
    }
}

/// The conduct of one rung.
#[derive(Debug)]
pub struct Conduct {
    rung: Rung,
    now: Duration,
    opens: Option<Duration>,
    closes: Option<Duration>,
    stop: StopReason,
    finished: bool,
    ended: u64,
    failed: u64,
    in_window_ended: u64,
    in_window_ok: u64,
    responses: Responses,
    responses_in_window: Responses,
    longest: Duration,
    tokens: Cumulative,
    endings: Cumulative,
    blocks: u32,
    earned: Duration,
    doubt: Doubt,
}

impl Conduct {
    /// For this rung.
    #[must_use]
    pub fn new(rung: &Rung) -> Self {
        let spacing = (rung.limits.cap / 50_000).max(Duration::from_millis(5));
        Conduct {
            rung: rung.clone(),
            now: Duration::ZERO,
            // A warm-up of fixed length is known from the start.
            opens: rung.limits.warmup.map(|warmup| warmup.min(rung.limits.cap)),
            closes: None,
            stop: StopReason::Enough,
            finished: false,
            ended: 0,
            failed: 0,
            in_window_ended: 0,
            in_window_ok: 0,
            responses: Responses::default(),
            longest: Duration::ZERO,
            responses_in_window: Responses::default(),
            tokens: Cumulative::new(spacing),
            endings: Cumulative::new(spacing),
            blocks: 0,
            earned: Duration::ZERO,
            doubt: Doubt::new(rung.limits.early.as_ref()),
        }
    }

    /// When `slot` (from 0) sends its first request. Starts are staggered over one expected response time and at
    /// most 10 s, so that the first prefills do not come as a herd.
    #[must_use]
    pub fn start_of(&self, slot: u32) -> Duration {
        self.stagger()
            .mul_f64(f64::from(slot) / f64::from(self.rung.level.max(1)))
    }

    fn stagger(&self) -> Duration {
        self.rung
            .expected_response
            .unwrap_or(Duration::ZERO)
            .min(STAGGER_MAX)
    }

    /// A request ended. `ok` is whether it succeeded.
    pub fn on_end(&mut self, sent: Duration, ended: Duration, ok: bool) {
        self.ended += 1;
        let response = ended.saturating_sub(sent);
        if ok {
            self.responses.add(response);
            self.longest = self.longest.max(response);
        } else {
            self.failed += 1;
        }
        let Some(opens) = self.opens else { return };
        if ok && ended >= opens {
            self.responses_in_window.add(response);
        }
        if sent >= opens && self.closes.is_none_or(|closes| sent < closes) {
            self.in_window_ended += 1;
            self.in_window_ok += u64::from(ok);
        }
    }

    /// What became of a request that ended, beside [`Conduct::on_end`]. Without it no rung is cut short as hopeless.
    pub fn on_outcome(&mut self, record: &RequestRecord) {
        if self.doubt.tests() && self.window().is_some_and(|window| window.contains(record.sent)) {
            self.doubt.ended(record);
        }
    }

    /// Whether [`Conduct::on_in_flight`] would be of any use now.
    #[must_use]
    pub fn wants_in_flight(&self) -> bool {
        self.doubt.tests() && self.closes.is_none() && self.opens.is_some_and(|opens| opens < self.now)
    }

    /// The requests in flight that were sent inside the window: when each was sent, and how far it has come. One that is
    /// older than a limit breaks it already.
    pub fn on_in_flight(&mut self, now: Duration, requests: impl IntoIterator<Item = (Duration, Waiting)>) {
        self.doubt.in_flight(now, requests.into_iter());
    }

    /// Call some 20 to 100 times a second with the time, the token-bearing chunks received so far in the rung,
    /// and the number of requests in flight that were sent inside the window.
    pub fn tick(&mut self, now: Duration, tokens: u64, window_in_flight: u64) -> Step {
        self.now = self.now.max(now);
        self.tokens.push(self.now, tokens);
        self.endings.push(self.now, self.ended);
        if self.finished {
            return Step::Finish;
        }
        let was_open = self.closes.is_none();
        if was_open {
            if self.too_many_errors() {
                // Before the window: take the whole rung so far, so that the failures are in evidence.
                self.opens = Some(
                    self.opens
                        .filter(|opens| *opens < self.now)
                        .unwrap_or(Duration::ZERO),
                );
                self.close(self.now, StopReason::Errors);
            } else if self.opens.is_none() && self.settled() {
                self.opens = Some(self.now.min(self.rung.limits.cap));
            }
        }
        if self.closes.is_none()
            && let Some(opens) = self.opens
        {
            if self.now < opens {
                return Step::Hold(Phase::WarmUp);
            }
            self.close_when_due(opens);
        }
        match (self.opens, self.closes) {
            (None, _) => Step::Hold(Phase::WarmUp),
            (Some(_), None) => Step::Hold(Phase::Window),
            (Some(_), Some(closes)) => {
                let limit = closes.saturating_add(self.drain_limit());
                // The number in flight is that of the window as it was known before this tick.
                if !was_open && (window_in_flight == 0 || self.now >= limit) {
                    self.finished = true;
                    Step::Finish
                } else {
                    Step::Hold(Phase::Drain)
                }
            }
        }
    }

    /// The window, as far as it has been decided: while it is open it closes at [`Duration::MAX`].
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        self.opens.map(|opens| Window {
            opens,
            closes: self.closes.unwrap_or(Duration::MAX),
        })
    }

    /// Why the rung ended; meaningful once [`Conduct::tick`] returned [`Step::Finish`].
    #[must_use]
    pub fn stopped(&self) -> StopReason {
        self.stop
    }

    /// The best guess of the rung's whole length, drain included; zero while unknown.
    #[must_use]
    pub fn expected(&self) -> Duration {
        if self.finished {
            return self.now;
        }
        let limits = &self.rung.limits;
        let response = self.response();
        let warmup = match self.opens {
            Some(opens) => opens,
            None => {
                let Some(response) = response else {
                    return Duration::ZERO;
                };
                self.stagger().max(response.mul_f64(1.75)).max(WARMUP_LEAST)
            }
        };
        let asked = limits.requests.unwrap_or_else(|| self.samples_wanted());
        let samples =
            response.map(|response| response.mul_f64(asked as f64 / f64::from(self.rung.level.max(1))));
        let window = match (limits.rung_time, limits.requests) {
            (Some(time), _) => time,
            (None, Some(_)) => match samples {
                Some(samples) => samples,
                None => return Duration::ZERO,
            },
            (None, None) => match (response, samples) {
                (Some(response), Some(samples)) => self.least_window(response).max(samples),
                _ => return Duration::ZERO,
            },
        };
        let closes = self
            .closes
            .unwrap_or_else(|| warmup.saturating_add(window).min(limits.cap));
        let drain = response.unwrap_or(Duration::ZERO).min(limits.drain);
        closes.saturating_add(drain).max(self.now)
    }

    fn too_many_errors(&self) -> bool {
        self.ended >= ERROR_REQUESTS && self.failed as f64 > ERROR_SHARE * self.ended as f64
    }

    fn close(&mut self, at: Duration, why: StopReason) {
        self.closes = Some(at);
        self.stop = why;
    }

    /// After errors there is little to wait for: a server that refuses everything would be hammered meanwhile.
    fn drain_limit(&self) -> Duration {
        let limit = self.rung.limits.drain;
        if self.stop == StopReason::Errors {
            let patience = self.response().map_or(Duration::from_secs(10), |response| {
                (response * 2).max(Duration::from_secs(1))
            });
            limit.min(patience)
        } else {
            // Long replies that are well under way are no failures, and one that got stuck would hold up the sweep.
            let patience = self
                .longest
                .saturating_mul(DRAIN_TIMES)
                .clamp(DRAIN_LEAST, DRAIN_MOST);
            limit.min(patience.max(self.longest * 2))
        }
    }

    /// R: of the window once it is open, else of the rung so far, else as expected.
    fn response(&self) -> Option<Duration> {
        self.responses_in_window
            .mean()
            .or(self.responses.mean())
            .map(Duration::from_secs_f64)
            .or(self.rung.expected_response)
    }

    /// Whether the warm-up is over.
    fn settled(&self) -> bool {
        let stagger = self.stagger();
        if self.now < stagger || self.now < WARMUP_LEAST {
            return false;
        }
        if self.now >= self.latest_opening().max(stagger) {
            return true;
        }
        let level = u64::from(self.rung.level.max(1));
        // Without a stagger the first wave is a herd, and so is the second, which it starts.
        let turnover = if stagger.is_zero() {
            level.saturating_mul(2)
        } else {
            level - level / 4
        };
        let (Some(mean), true) = (self.responses.mean(), self.ended >= turnover) else {
            return false;
        };
        // The first responses are the short ones; by Little's law R is the level over the rate of endings.
        let half = self.now / 2;
        let recent = self.endings.latest() as f64 - self.endings.at(half);
        let by_little = if recent > 0.0 {
            level as f64 * half.as_secs_f64() / recent
        } else {
            return false;
        };
        let response = mean.max(by_little);
        let elapsed = self.now.as_secs_f64();
        if elapsed < response {
            return false;
        }
        elapsed >= WARMUP_RESPONSES_MAX * response || !self.transient(response)
    }

    /// Whether MSER-5 still sees a transient: five observations a batch, five batches a response time.
    fn transient(&self, response: f64) -> bool {
        let batches = (self.now.as_secs_f64() / (response / 5.0).max(0.05)).floor() as u32;
        if batches < 4 {
            return false;
        }
        let series = self
            .rate_series()
            .bins(Duration::ZERO, self.now, batches.min(400));
        // The criterion looks no further than 3/4; a cut that ends there has found no steady tail yet.
        mser(&series) >= series.len() * 3 / 4
    }

    /// Tokens, or the endings of requests that are not streamed.
    fn rate_series(&self) -> &Cumulative {
        if self.tokens.latest() > 0 {
            &self.tokens
        } else {
            &self.endings
        }
    }

    /// The window must get its time before the cap.
    fn latest_opening(&self) -> Duration {
        let limits = &self.rung.limits;
        let share = limits.cap.mul_f64(WARMUP_SHARE);
        match limits.rung_time {
            Some(time) => share.min(limits.cap.saturating_sub(time)),
            None => share,
        }
    }

    fn samples_wanted(&self) -> u64 {
        self.rung
            .samples_wanted
            .saturating_mul(u64::from(self.rung.limits.lengthen.max(1)))
    }

    fn least_window(&self, response: Duration) -> Duration {
        response
            .mul_f64(WINDOW_RESPONSES * f64::from(self.rung.limits.lengthen.max(1)))
            .max(WINDOW_LEAST)
            .saturating_add(self.earned)
    }

    fn close_when_due(&mut self, opens: Duration) {
        let limits = &self.rung.limits;
        let (cap, requests) = (limits.cap, limits.requests);
        if let Some(time) = limits.rung_time {
            let closes = opens.saturating_add(time);
            if self.now >= closes && closes <= cap {
                return self.close(closes, StopReason::Asked);
            }
        }
        if requests.is_some_and(|requests| self.in_window_ended >= requests) && self.now <= cap {
            return self.close(self.now, StopReason::Asked);
        }
        if self.now >= cap {
            return self.close(cap, StopReason::Cap);
        }
        if limits.rung_time.is_some() || requests.is_some() {
            return;
        }
        let Some(response) = self.responses_in_window.mean().map(Duration::from_secs_f64) else {
            return;
        };
        let length = self.now.saturating_sub(opens);
        if self.doubt.tests()
            && length >= response.mul_f64(HOPELESS_RESPONSES).max(WINDOW_LEAST)
            && self.doubt.broken()
        {
            return self.close(self.now, StopReason::Hopeless);
        }
        let samples = self.in_window_ok >= self.samples_wanted();
        if length < self.least_window(response) || !(samples || self.easy()) {
            return;
        }
        let bins = self.rate_series().bins(opens, self.now, 16);
        if self.blocks < BLOCKS && halves_differ(&bins, HALVES_LEAST) {
            self.blocks += 1;
            self.earned = length
                .saturating_sub(self.least_window(response).saturating_sub(self.earned))
                .saturating_add(response.mul_f64(BLOCK_RESPONSES));
            return;
        }
        let why = if samples {
            StopReason::Enough
        } else {
            StopReason::Easy
        };
        self.close(self.now, why);
    }

    /// Whether more samples would tell nothing new. A rung that was asked to run longer is one in doubt.
    fn easy(&self) -> bool {
        self.rung.limits.lengthen <= 1 && self.doubt.held()
    }
}
