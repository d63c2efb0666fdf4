//! Any bytes as a file or word that a user hands over: a benchmark's table and the answer to it, a dataset, a trace,
//! an SLA, a peak, lengths, a ladder. No panic; what is taken says itself in words that are taken again.
//!
//! The first byte chooses which.

#![no_main]

use std::io::Write;
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use plimsoll_plan::Demand;
use plimsoll_plan::imported::answer_table;
use plimsoll_prompts::{DatasetOptions, load_dataset, load_trace};
use plimsoll_report::import::import;
use plimsoll_run::ladder::Ladder;
use plimsoll_run::peak::Peak;
use plimsoll_run::sla::{Sla, SlaTerm};
use plimsoll_run::workload::TokenLength;

fuzz_target!(|input: &[u8]| {
    let [which, body @ ..] = input else {
        return;
    };
    match which % 4 {
        0 => table(body),
        1 => with_file(body, |file| drop(load_dataset(file, &DatasetOptions::default()))),
        2 => with_file(body, |file| drop(load_trace(file, None))),
        _ => {
            if let Ok(text) = std::str::from_utf8(body) {
                words(text);
            }
        }
    }
});

fn table(body: &[u8]) {
    let Ok(imported) = import(&[("table".to_owned(), body.to_vec())], Some(256.0)) else {
        return;
    };
    let terms = ["ttft.p95<=500ms", "e2e.p99<50s"].map(|term| term.parse().expect("a term of the manual"));
    let sla = Sla {
        terms: terms.to_vec(),
    };
    let demand = Demand {
        peak: Some("40rps".parse().expect("a peak of the manual")),
        ..Demand::default()
    };
    let mut rungs = imported.rungs.clone();
    let plan = answer_table(&mut rungs, &imported.table, &sla, &demand);
    // No level that failed an SLA term is the best one.
    if let Some(best) = &plan.best {
        assert!(
            rungs
                .iter()
                .filter(|rung| rung.concurrency == best.concurrency)
                .any(|rung| rung.sla.iter().all(|outcome| outcome.pass != Some(false))),
            "{best:?}"
        );
    }
}

fn with_file(body: &[u8], read: impl Fn(&str)) {
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").expect("room for a small file");
    file.write_all(body).expect("room for a small file");
    read(file.path().to_str().expect("a temporary file's name is plain"));
}

fn words(text: &str) {
    if let Ok(term) = SlaTerm::from_str(text) {
        assert_eq!(Ok(&term), SlaTerm::from_str(&term.to_string()).as_ref());
    }
    if let Ok(length) = TokenLength::from_str(text) {
        assert!(length.mean_tokens() >= 1 && length.mean().is_finite() && length.stddev().is_finite());
    }
    let _ = Peak::from_str(text);
    let _ = Ladder::from_str(text);
}
