//! When bytes were received: the kernel's stamp on the monotonic clock, and how far behind it this thread reads.

use std::cell::RefCell;
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;
use plimsoll_run::evidence::{ReadDelay, StampSource};

/// How often the offset between the clocks is measured anew.
const REFRESH: Duration = Duration::from_secs(1);
/// Readings of which the tightest counts.
const READINGS: usize = 32;
/// A stamp further in the future than this, or older than a minute, is of a clock that was set meanwhile.
const SLACK_NS: i128 = 2_000_000;
const OLDEST_NS: i128 = 60_000_000_000;
/// The longest delay that is told from a longer one, ns.
const LONGEST_NS: u64 = 60_000_000_000;

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
struct Offset {
    monotonic: Instant,
    real_ns: i128,
}

impl Offset {
    /// The tightest of some readings of the wall clock between two of the monotonic one.
    fn measure() -> Self {
        let mut best: Option<(Duration, Offset)> = None;
        for _ in 0..READINGS {
            let before = Instant::now();
            let real = SystemTime::now();
            let gap = before.elapsed();
            if best.is_none_or(|(tightest, _)| gap < tightest) {
                let offset = Offset {
                    monotonic: before + gap / 2,
                    real_ns: nanoseconds(real),
                };
                best = Some((gap, offset));
            }
        }
        best.map_or_else(
            || Offset {
                monotonic: Instant::now(),
                real_ns: nanoseconds(SystemTime::now()),
            },
            |(_, offset)| offset,
        )
    }

    /// Wall time `real_ns` as monotonic time, no later than `now`; `None` when the wall clock was set since.
    fn convert(&self, real_ns: i128, now: Instant) -> Option<Instant> {
        let now_ns = self.real_ns + now.saturating_duration_since(self.monotonic).as_nanos() as i128;
        let age = now_ns - real_ns;
        if !(-SLACK_NS..=OLDEST_NS).contains(&age) {
            return None;
        }
        // In range by the check above.
        now.checked_sub(Duration::from_nanos(age.max(0) as u64))
    }
}

fn nanoseconds(time: SystemTime) -> i128 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

/// What a load thread knows of the times of its reads.
struct Receipts {
    offset: Offset,
    refresh_at: Instant,
    delays: Option<Histogram<u64>>,
    reads: u64,
    stamped: u64,
}

thread_local! {
    static RECEIPTS: RefCell<Receipts> = RefCell::new(Receipts::new());
}

impl Receipts {
    fn new() -> Self {
        let offset = Offset::measure();
        Receipts {
            refresh_at: offset.monotonic + REFRESH,
            offset,
            // The bounds are constants that the histogram takes: it is never missing.
            delays: Histogram::new_with_bounds(1, LONGEST_NS, 2).ok(),
            reads: 0,
            stamped: 0,
        }
    }

    fn note(&mut self, kernel_ns: Option<i128>, now: Instant) -> Instant {
        self.reads += 1;
        let Some(kernel_ns) = kernel_ns else { return now };
        if now >= self.refresh_at {
            self.offset = Offset::measure();
            self.refresh_at = now + REFRESH;
        }
        let received = self.offset.convert(kernel_ns, now).or_else(|| {
            self.offset = Offset::measure();
            self.offset.convert(kernel_ns, now)
        });
        let Some(received) = received else { return now };
        self.stamped += 1;
        if let Some(delays) = &mut self.delays {
            let delay = now.saturating_duration_since(received).as_nanos() as u64;
            delays.saturating_record(delay.max(1));
        }
        received
    }
}

/// A read returned now; the kernel had its bytes at `kernel_ns` of the wall clock, where it says so. Gives the time of
/// receipt, and notes how late the read was.
pub(crate) fn received(kernel_ns: Option<i128>) -> Instant {
    let now = Instant::now();
    RECEIPTS.with_borrow_mut(|receipts| receipts.note(kernel_ns, now))
}

/// The reads of one thread over a rung.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadTimes {
    delays: Option<Histogram<u64>>,
    reads: u64,
    stamped: u64,
}

impl ReadTimes {
    /// What this thread noted since it last asked.
    pub(crate) fn take() -> Self {
        RECEIPTS.with_borrow_mut(|receipts| {
            let fresh = Receipts::new();
            let old = std::mem::replace(receipts, fresh);
            ReadTimes {
                delays: old.delays,
                reads: old.reads,
                stamped: old.stamped,
            }
        })
    }

    /// Adds another thread's.
    pub(crate) fn merge(&mut self, other: Self) {
        self.reads += other.reads;
        self.stamped += other.stamped;
        match (&mut self.delays, other.delays) {
            // Both have the same bounds: adding cannot fail.
            (Some(delays), Some(more)) => {
                let _ = delays.add(more);
            }
            (delays @ None, more) => *delays = more,
            (Some(_), None) => {}
        }
    }

    /// Whose stamps the rung's times are: the kernel's when nearly all reads had one.
    pub(crate) fn source(&self) -> StampSource {
        if self.stamped > 0 && self.stamped * 100 >= self.reads * 99 {
            StampSource::Kernel
        } else {
            StampSource::User
        }
    }

    /// How late reads were; `None` where the kernel stamped nothing.
    pub(crate) fn delay(&self) -> Option<ReadDelay> {
        let delays = self.delays.as_ref().filter(|delays| !delays.is_empty())?;
        let us = |ns: u64| ns as f64 / 1e3;
        Some(ReadDelay {
            p50_us: us(delays.value_at_quantile(0.50)),
            p99_us: us(delays.value_at_quantile(0.99)),
            max_us: us(delays.max()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_is_put_on_the_monotonic_clock() {
        let offset = Offset::measure();
        let now = Instant::now();
        let real = nanoseconds(SystemTime::now());
        let received = offset.convert(real - 5_000_000, now).unwrap();
        let age = now.duration_since(received);
        // The two clocks were read one after the other: give a busy machine time between them.
        assert!(
            age > Duration::from_millis(3) && age <= Duration::from_millis(5),
            "{age:?}"
        );
        // A stamp from the near future is now; one from a clock that was set is none.
        assert_eq!(offset.convert(real + 1_000_000, now), Some(now));
        assert_eq!(offset.convert(real + 10_000_000_000, now), None);
        assert_eq!(offset.convert(real - 100_000_000_000, now), None);
    }

    #[test]
    fn the_delays_of_threads_are_pooled() {
        let note = |ages_us: &[u64], unstamped: u64| {
            let ages = ages_us.to_vec();
            std::thread::spawn(move || {
                for age in ages {
                    received(Some(nanoseconds(SystemTime::now()) - i128::from(age) * 1000));
                }
                (0..unstamped).for_each(|_| {
                    received(None);
                });
                ReadTimes::take()
            })
            .join()
            .unwrap()
        };
        let mut all = note(&[10_000; 98], 0);
        all.merge(note(&[50_000, 50_000], 0));
        assert_eq!(all.source(), StampSource::Kernel);
        let delay = all.delay().unwrap();
        assert!((9_900.0..15_000.0).contains(&delay.p50_us), "{delay:?}");
        assert!((49_000.0..70_000.0).contains(&delay.p99_us), "{delay:?}");
        assert!(delay.max_us >= delay.p99_us);
        all.merge(note(&[], 2));
        assert_eq!(all.source(), StampSource::User);
        assert_eq!(ReadTimes::default().delay(), None);
    }
}
