//! The server's own side through the real binary: the simulated engine's `/metrics` tells what was asked of it.

#![expect(clippy::unwrap_used, reason = "a test may stop here")]

mod harness;

use std::net::{Ipv4Addr, SocketAddr};

use harness::Folder;
use plimsoll_sim::http::{ServeOptions, ServerHandle, serve};
use plimsoll_sim::preset::quick;
use serde_json::Value;

fn engine() -> ServerHandle {
    let options = ServeOptions {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        speed: 1.0,
        api_key: None,
    };
    serve(&quick().spec, &options).unwrap()
}

fn sweep(folder: &Folder, url: &str, extra: &[&str]) -> Value {
    let mut arguments = vec![
        "sweep",
        url,
        "--levels",
        "4",
        "--rung-time",
        "4s",
        "--warmup",
        "1s",
    ];
    arguments.extend([
        "--input-tokens",
        "128",
        "--output-tokens",
        "16",
        "--json",
        "--quiet",
    ]);
    arguments.extend(extra);
    folder.plimsoll(&arguments).expect_code(0).json()
}

/// Nothing is said against the rung but that it was short.
fn believed(run: &Value) -> bool {
    let verdict = &run["rungs"][0]["validity"]["verdict"];
    verdict == "valid" || verdict == "too-few-samples"
}

#[test]
fn the_hit_rate_is_the_reuse_that_was_asked_for() {
    for (share, wanted) in [("0.8", 0.8 * 64.0 / 128.0), ("0", 0.0)] {
        let (engine, folder) = (engine(), Folder::new());
        let extra = ["--shared-prefix", "64", "--share", share, "--pool", "4"];
        let run = sweep(&folder, &engine.url(), &extra);
        let server = &run["rungs"][0]["server"];
        let rate = server["prefix_cache_hit_rate"].as_f64().unwrap();
        assert!(
            (rate - wanted).abs() < 0.04,
            "{share}: {rate} in place of {wanted}"
        );
        assert_eq!(server["running_max"], 4, "{server}");
        assert!(server["samples"].as_u64().unwrap() >= 3, "{server}");
        assert!(server["ttft_mean_ms"].as_f64().unwrap() > 0.0);
        assert!(believed(&run), "{run:#}");
        let rows = std::fs::read_to_string(folder.run_directory().join("rungs/01-c0004/server.csv")).unwrap();
        assert!(rows.lines().count() > 4, "{rows}");
        assert!(rows.starts_with("at_s,in_window,running,"), "{rows}");
    }
}

#[test]
fn what_is_told_of_the_server_is_kept_without_secrets() {
    let (engine, folder) = (engine(), Folder::new());
    let environment = folder.path().join("container.env");
    std::fs::write(&environment, "SM_VLLM_MAX_NUM_SEQS=64\nHF_TOKEN=hf_hunter2\n").unwrap();
    let mut settings = vec!["--config", "gpus=2", "--serving", "api-key=hunter2"];
    settings.extend(["--config-file", "container.env"]);
    let run = sweep(&folder, &engine.url(), &settings);
    let config = &run["target"]["serving_config"];
    assert_eq!(
        (&config["gpus"], &config["max_num_seqs"]),
        (&2.into(), &64.into()),
        "{config}"
    );
    assert!(config["block_size"].is_number(), "{config}");
    assert_eq!(run["target"]["fingerprint"].as_str().unwrap().len(), 64);
    for (path, bytes) in folder.files() {
        let secret = path != environment && bytes.windows(7).any(|part| part == b"hunter2");
        assert!(!secret, "{}", path.display());
    }
}

#[test]
fn metrics_that_are_not_there_do_no_harm() {
    let (engine, folder) = (engine(), Folder::new());
    // Nobody listens on port 9 of the loopback.
    let run = sweep(
        &folder,
        &engine.url(),
        &["--metrics-url", "http://127.0.0.1:9/metrics"],
    );
    assert!(believed(&run), "{run:#}");
    assert!(run["rungs"][0]["server"]["running_max"].is_null());
    assert!(!folder.run_directory().join("rungs/01-c0004/server.csv").exists());
    assert!(
        run["notes"]
            .to_string()
            .contains("127.0.0.1:9/metrics gives no metrics"),
        "{run:#}"
    );
}
