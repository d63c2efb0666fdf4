//! `plimsoll predict`: a whole sweep in virtual time.

mod harness;

use harness::{Folder, number, text};

#[test]
fn the_published_sweep_is_predicted_and_repeats_to_the_letter() {
    let folder = Folder::new();
    let arguments = [
        "predict",
        "--model",
        "nemotron-3-nano",
        "--instance",
        "ml.g7e.2xlarge",
        "--json",
    ];
    let first = folder.plimsoll(&arguments).expect_code(0).json();
    // AWS measured 2,823 output tokens/s at 256 users, its highest, and an expert reads the knee as 190 to 256. Its p95
    // TTFT is that of a burst of 1,024 requests and not to be met here.
    let plateau = number(&first, "/plan/knee/plateau");
    assert!((plateau / 2823.0 - 1.0).abs() < 0.08, "{:#}", first["plan"]);
    let knee = number(&first, "/plan/knee/concurrency");
    assert!((190.0..=256.0).contains(&knee), "{:#}", first["plan"]);
    assert_eq!(text(&first, "/plan/limit/status"), "crossed");
    let second = folder.plimsoll(&arguments).expect_code(0).json();
    assert_eq!(first["rungs"], second["rungs"]);
    assert_eq!(first["plan"], second["plan"]);
    assert!(folder.files().is_empty(), "nothing is stored");
}
