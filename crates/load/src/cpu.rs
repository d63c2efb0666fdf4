//! How busy a thread is: its CPU time by the kernel's count.

use std::time::{Duration, Instant};

/// A thread of this process, by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadId(u64);

impl ThreadId {
    /// The calling thread; `None` where there is no `/proc`.
    pub(crate) fn own() -> Option<Self> {
        let link = std::fs::read_link("/proc/thread-self").ok()?;
        link.file_name()?.to_str()?.parse().ok().map(ThreadId)
    }

    /// CPU time that the thread has used; `None` once it has ended.
    fn used(self) -> Option<Duration> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.0)).ok()?;
        text.split_ascii_whitespace()
            .next()?
            .parse()
            .ok()
            .map(Duration::from_nanos)
    }
}

/// CPU time of some threads at one moment.
#[derive(Debug)]
pub(crate) struct Reading {
    at: Instant,
    used: Vec<(ThreadId, Duration)>,
}

impl Reading {
    pub(crate) fn take(threads: &[ThreadId]) -> Self {
        Reading {
            used: threads
                .iter()
                .filter_map(|thread| thread.used().map(|used| (*thread, used)))
                .collect(),
            at: Instant::now(),
        }
    }

    /// Share of one core that the busiest thread used between two readings, 0..=1; `None` where unknown.
    pub(crate) fn busiest_until(&self, later: &Reading) -> Option<f64> {
        let wall = later.at.saturating_duration_since(self.at).as_secs_f64();
        if wall <= 0.0 {
            return None;
        }
        later
            .used
            .iter()
            .filter_map(|(thread, used)| {
                let (_, before) = self.used.iter().find(|(other, _)| other == thread)?;
                Some((used.saturating_sub(*before).as_secs_f64() / wall).min(1.0))
            })
            .reduce(f64::max)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_shows() {
        let thread = ThreadId::own().unwrap();
        let before = Reading::take(&[thread]);
        let until = Instant::now() + Duration::from_millis(60);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        let share = before.busiest_until(&Reading::take(&[thread])).unwrap();
        // Other work may have taken most of the core from us; none at all would be wrong.
        assert!(share > 0.05 && share <= 1.0, "{share}");
        assert_eq!(Reading::take(&[]).busiest_until(&Reading::take(&[])), None);
    }
}
