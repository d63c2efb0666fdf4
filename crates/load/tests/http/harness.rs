//! What the tests share: a target, a workload, and a rung held against it.

use std::time::Duration;

use plimsoll_load::{HttpRunner, PrepareError, Prepared, TargetOptions, prepare};
use plimsoll_run::evidence::Evidence;
use plimsoll_run::runner::{Rung, RungLimits, Runner, Watch};
use plimsoll_run::workload::{TokenLength, Workload};
use plimsoll_scripted::{Script, Scripted};

pub const SEED: u64 = 42;

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn server(script: Script) -> Scripted {
    Scripted::start(script).unwrap()
}

pub fn at(url: impl Into<String>) -> TargetOptions {
    TargetOptions {
        url: url.into(),
        ..TargetOptions::default()
    }
}

pub fn workload(input: u32, output: u32) -> Workload {
    Workload {
        input_tokens: TokenLength::fixed(input),
        output_tokens: TokenLength::fixed(output),
        streaming: true,
        ..Workload::default()
    }
}

/// A rung with a fixed warm-up and window.
pub fn rung(level: u32, order: u32, warmup: Duration, window: Duration) -> Rung {
    Rung {
        level,
        order,
        expected_response: None,
        samples_wanted: 20,
        limits: RungLimits {
            rung_time: Some(window),
            warmup: Some(warmup),
            cap: Duration::from_secs(20),
            drain: Duration::from_secs(5),
            ..RungLimits::default()
        },
    }
}

pub fn prepared(options: &TargetOptions, workload: &Workload) -> Prepared {
    prepare(options, workload, SEED).unwrap()
}

/// Prepares, and says why that was not possible.
pub fn refusal(options: &TargetOptions) -> PrepareError {
    let error = prepare(options, &workload(16, 4), SEED).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    error
}

pub fn measure(prepared: Prepared, workload: &Workload, rung: &Rung) -> Evidence {
    HttpRunner::new(prepared, workload.clone(), SEED)
        .unwrap()
        .measure(rung, &Watch::new())
        .unwrap()
}
