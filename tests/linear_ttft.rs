//! A limit between the rungs, over real HTTP: TTFT is 50 ms up to 10 users and 12.5 ms more for each user beyond, so a limit of
//! 500 ms is reached at 46. (A quarter of the times of the case as reported: 200 ms, 50 ms and 2 s.)

mod harness;

use std::time::Duration;

use harness::{Folder, number, text};
use plimsoll_scripted::{Script, Scripted};

#[test]
fn the_last_level_below_a_linear_ttft_is_found_within_eleven_rungs() {
    let script = Script::default()
        .itl(Duration::from_millis(2))
        .ttft_by_load(|load| {
            let beyond = u32::try_from(load.saturating_sub(10)).unwrap_or(u32::MAX);
            Duration::from_millis(50) + Duration::from_micros(12_500) * beyond
        });
    let server = Scripted::start(script).unwrap();
    let folder = Folder::new();
    let url = server.url();
    let run = folder
        .plimsoll(&[
            "sweep",
            &url,
            "--input-tokens=32",
            "--output-tokens=8",
            "--sla=ttft.p95<500ms",
            "--min=1",
            "--max=200",
            "--json",
        ])
        .expect_code(0)
        .json();
    let limit = number(&run, "/plan/limit/concurrency");
    assert!((43.0..=45.0).contains(&limit), "{:#}", run["plan"]["limit"]);
    assert_eq!(text(&run, "/plan/limit/status"), "crossed");
    let rungs = run["rungs"].as_array().unwrap();
    assert!(rungs.len() <= 11, "{}", rungs.len());
    // No level that failed is at or below the answer.
    for rung in rungs {
        let level = rung["concurrency"].as_f64().unwrap();
        assert!(level > limit || rung["sla"][0]["pass"] != false, "{level}");
    }
}
