//! The server's own side through the real binary: the simulated engine's `/metrics` tells what was asked of it.

#![expect(clippy::unwrap_used, reason = "a test may stop here")]

mod harness;

use std::net::{Ipv4Addr, SocketAddr};

use harness::{Folder, text};
use plimsoll_scripted::{Page, Script, Scripted};
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

/// The body of a page captured from a real engine, headers and all.
fn captured(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/load/tests/fixtures/captured");
    let page = std::fs::read_to_string(folder.join(name))
        .unwrap()
        .replace("\r\n", "\n");
    page.split_once("\n\n").unwrap().1.to_owned()
}

#[test]
fn what_real_engines_tell_of_themselves_is_read() {
    let page = |name: &str| Page::json(200, captured(name));
    let vllm = Script::default()
        .models(["smollm2"])
        .route("/v1/models", page("vllm/get-v1_models.txt"))
        .route("/version", page("vllm/get-version.txt"));
    let llama = Script::default()
        .models(["smollm2"])
        .route("/v1/models", page("llama-cpp/get-v1_models.txt"))
        .route("/props", page("llama-cpp/get-props.txt"));
    for (script, engine, version, settings) in [
        (
            vllm,
            "vllm",
            Some("0.32.0"),
            vec![("max_model_len", Value::from(2048))],
        ),
        (
            llama,
            "llama.cpp",
            Some("b0-unknown"),
            vec![
                ("n_ctx", 2048.into()),
                ("total_slots", 4.into()),
                ("model_ftype", "Q4_1".into()),
            ],
        ),
    ] {
        let server = Scripted::start(script).unwrap();
        let found = Folder::new()
            .plimsoll(&["probe", &server.url(), "--json"])
            .expect_code(0)
            .json();
        assert_eq!(text(&found, "/target/engine/name"), engine);
        assert_eq!(found["target"]["engine"]["version"].as_str(), version);
        assert_eq!(text(&found, "/target/model"), "smollm2");
        for (name, value) in settings {
            assert_eq!(
                found["target"]["serving_config"][name], value,
                "{engine}: {found:#}"
            );
        }
    }
}

#[test]
fn metrics_on_another_origin_are_read_and_never_see_the_key() {
    let page = "# TYPE vllm:num_requests_running gauge\n\
        vllm:num_requests_running{engine=\"0\"} 4.0\n\
        # TYPE vllm:kv_cache_usage_perc gauge\n\
        vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n";
    let metrics = Scripted::start(
        Script::default()
            .route(
                "/fleet/metrics",
                Page::new(200, "text/plain; version=0.0.4", page),
            )
            .keep_requests(100),
    )
    .unwrap();
    let gateway = Scripted::start(
        Script::default()
            .api_key("sk-hunter2")
            .ttft(std::time::Duration::from_millis(20)),
    )
    .unwrap();
    let folder = Folder::new();
    let at = format!("{}/fleet/metrics", metrics.url());
    let extra = ["--metrics-url", &at, "--api-key", "sk-hunter2"];
    let run = sweep(&folder, &gateway.url(), &extra);
    let server = &run["rungs"][0]["server"];
    assert_eq!(
        (&server["running_max"], &server["kv_cache_usage_max"]),
        (&4.into(), &0.25.into()),
        "{server}"
    );
    assert_eq!(text(&run, "/target/engine/name"), "vllm");
    let seen = metrics.seen().last;
    assert!(
        seen.iter()
            .filter(|request| request.path == "/fleet/metrics")
            .count()
            >= 4
    );
    for request in seen {
        assert!(
            request
                .headers
                .iter()
                .all(|(_, value)| !value.contains("hunter2")),
            "{request:?}"
        );
    }
}
