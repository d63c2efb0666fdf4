//! Progress on stderr: one live line on a terminal, one line a rung and a sign of life elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll_run::runner::{Phase, Watch};
use plimsoll_run::units::show;

use crate::console;

/// How often the live line is drawn.
const REDRAW: Duration = Duration::from_millis(200);
/// How often a sign of life is given where there is no terminal.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// What is going on, as far as only the sweep knows it.
#[derive(Debug, Clone, Default)]
struct State {
    rung: Option<CurrentRung>,
    message: String,
}

#[derive(Debug, Clone)]
struct CurrentRung {
    order: u32,
    level: u32,
    /// Guess of the rungs still to come after this one.
    remaining: u32,
    /// Guess of the time those will take.
    remaining_time: Duration,
}

/// The progress display. Dropping it clears the live line.
#[derive(Debug)]
pub struct Display {
    quiet: bool,
    bar: ProgressBar,
    state: Arc<Mutex<State>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Display {
    /// Shows what `watch` tells, unless `quiet`.
    pub fn start(watch: Arc<Watch>, quiet: bool) -> Self {
        let live = std::io::stderr().is_terminal() && !quiet;
        let bar = if live {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        let state = Arc::new(Mutex::new(State::default()));
        let over = Arc::new(AtomicBool::new(false));
        let thread = (!quiet).then(|| {
            let (bar, state, over) = (bar.clone(), Arc::clone(&state), Arc::clone(&over));
            std::thread::spawn(move || {
                let mut last_sign = Instant::now();
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(REDRAW);
                    let state = state.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let line = line(&state, &watch);
                    if live {
                        bar.set_message(line);
                        bar.tick();
                    } else if last_sign.elapsed() >= SIGN_OF_LIFE && state.rung.is_some() {
                        last_sign = Instant::now();
                        console::say(&format!("  ... {line}"));
                    }
                }
            })
        });
        Display {
            quiet,
            bar,
            state,
            over,
            thread,
        }
    }

    /// Says what is done before and after the rungs.
    pub fn message(&self, message: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.rung = None;
        message.clone_into(&mut state.message);
    }

    /// A rung begins.
    pub fn begin(&self, order: u32, level: u32, remaining: u32, remaining_time: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.rung = Some(CurrentRung {
            order,
            level,
            remaining,
            remaining_time,
        });
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        if self.quiet {
            return;
        }
        if self.bar.is_hidden() {
            console::say(line);
        } else {
            self.bar.suspend(|| console::say(line));
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

fn line(state: &State, watch: &Watch) -> String {
    let Some(rung) = &state.rung else {
        return state.message.clone();
    };
    let (phase, progress) = watch.look();
    let phase = match phase {
        Phase::Idle => "starting",
        Phase::WarmUp => "warming up",
        Phase::Window => "measuring",
        Phase::Drain => "draining",
    };
    let mut line = format!(
        "rung {} of about {}: level {}, {phase}, {} in flight, {} done",
        rung.order,
        rung.order + rung.remaining,
        rung.level,
        progress.in_flight,
        progress.ended,
    );
    if progress.failed > 0 {
        line.push_str(&format!(", {} failed", progress.failed));
    }
    if !progress.expected.is_zero() {
        let left = progress.expected.saturating_sub(progress.elapsed) + rung.remaining_time;
        line.push_str(&format!(
            ", about {} to go",
            show(Duration::from_secs(left.as_secs().max(1)))
        ));
    }
    line
}

#[cfg(test)]
mod tests {
    use plimsoll_run::runner::Progress;

    use super::*;

    #[test]
    fn the_line_names_rung_phase_and_time_to_go() {
        let watch = Watch::new();
        watch.show(
            Phase::Window,
            &Progress {
                in_flight: 64,
                ended: 120,
                failed: 2,
                elapsed: Duration::from_secs(4),
                expected: Duration::from_secs(10),
            },
        );
        let state = State {
            rung: Some(CurrentRung {
                order: 2,
                level: 64,
                remaining: 3,
                remaining_time: Duration::from_secs(30),
            }),
            message: String::new(),
        };
        assert_eq!(
            line(&state, &watch),
            "rung 2 of about 5: level 64, measuring, 64 in flight, 120 done, 2 failed, about 36.0 s to go"
        );
    }
}
