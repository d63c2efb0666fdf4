//! `/metrics` pages captured from real engines: vLLM 0.32.0 on the CPU and llama.cpp's server (b11434), both serving
//! SmolLM2-135M-Instruct. Expectations were read off the pages by hand.

use std::time::Duration;

use plimsoll_run::evidence::Window;
use plimsoll_serving::configuration::of_metrics;
use plimsoll_serving::engine::{MetricsOf, Quantity};
use plimsoll_serving::log::ServerLog;
use plimsoll_serving::reading::Reading;
use serde_json::json;

const VLLM: &str = include_str!("metrics/vllm-0.32.prom");
const UNDER_LOAD: &str = include_str!("metrics/vllm-0.32-under-load.prom");
const AFTER_PREEMPTION: &str = include_str!("metrics/vllm-0.32-after-preemption.prom");
const AFTER_SWEEP: &str = include_str!("metrics/vllm-0.32-after-sweep.prom");
const LLAMA_CPP: &str = include_str!("metrics/llama-cpp.prom");

const WINDOW: Window = Window {
    opens: Duration::from_secs(1),
    closes: Duration::from_secs(3),
};

#[expect(clippy::unwrap_used, reason = "a test may stop here")]
fn log(pages: [&str; 2]) -> ServerLog {
    let mut log = ServerLog::default();
    for (page, at) in pages.into_iter().zip([1, 3]) {
        log.push(Duration::from_secs(at), Reading::parse(page).unwrap());
    }
    log
}

#[test]
fn a_page_of_vllm_reads_as_it_stands() {
    let reading = Reading::parse(UNDER_LOAD).unwrap();
    assert_eq!(reading.engine, MetricsOf::Vllm);
    assert_eq!(reading.started, Some(1_796_071_414.72));
    assert_eq!(reading.sum(Quantity::Running), Some(1.0));
    assert_eq!(reading.sum(Quantity::Waiting), Some(0.0));
    assert_eq!(reading.max(Quantity::KvUsage), Some(0.051_282_051_282_051_32));
    assert_eq!(reading.prefix(), (Some(540.0), Some(224.0)));
    assert_eq!(reading.sum(Quantity::Preemptions), Some(0.0));
    assert_eq!(reading.sum(Quantity::OutputTokens), Some(37.0));
    assert_eq!(reading.sum(Quantity::TtftCount), Some(6.0));
    assert_eq!(reading.sum(Quantity::QueueCount), Some(5.0));
}

#[test]
fn two_pages_of_one_server_are_a_window() {
    let side = log([UNDER_LOAD, AFTER_PREEMPTION]).side(WINDOW);
    assert!(!side.restarted);
    // 224 - 224 of 2012 - 540.
    assert_eq!(side.prefix_cache_hit_rate, Some(0.0));
    assert_eq!(side.preemptions, Some(13));
    // (1572 - 37) / 2 s.
    assert_eq!(side.output_tokens_per_s, Some(767.5));
    // (429.40475940704346 - 4.792153358459473) s over 29 - 6 requests.
    assert!((side.ttft_mean_ms.unwrap() - 18_461.42).abs() < 0.01);
    // (170.48546780700235 - 0.00016319800033670617) s over 29 - 5 requests.
    assert!((side.queue_mean_ms.unwrap() - 7_103.554).abs() < 0.001);
    assert_eq!(side.kv_cache_usage_max, Some(0.051_282_051_282_051_32));
}

#[test]
fn a_server_started_anew_is_seen() {
    let side = log([AFTER_PREEMPTION, AFTER_SWEEP]).side(WINDOW);
    assert!(side.restarted);
    assert_eq!(side.preemptions, Some(0));
    // Pages of two processes in turn, as a balancer gives them.
    let mut turns = log([VLLM, AFTER_SWEEP]);
    turns.push(Duration::from_secs(3), Reading::parse(VLLM).unwrap());
    assert_eq!(turns.side(WINDOW).samples, 0);
}

#[test]
fn a_page_of_llama_cpp_reads_as_it_stands() {
    let reading = Reading::parse(LLAMA_CPP).unwrap();
    assert_eq!(reading.engine, MetricsOf::LlamaCpp);
    assert_eq!(reading.sum(Quantity::Running), Some(0.0));
    assert_eq!(reading.sum(Quantity::Waiting), Some(0.0));
    // 77 processed and 408 from the cache.
    assert_eq!(reading.prefix(), (Some(485.0), Some(408.0)));
    assert_eq!(reading.sum(Quantity::OutputTokens), Some(255.0));
    assert_eq!(reading.max(Quantity::KvUsage), None);
}

#[test]
fn the_cache_configuration_is_told_by_a_label_each() {
    let settings = of_metrics(VLLM);
    assert_eq!(
        serde_json::to_value(&settings).unwrap(),
        json!({"block_size": 128, "cache_dtype": "auto", "enable_prefix_caching": true, "gpu_memory_utilization": 0.92,
            "kv_cache_max_concurrency": 22.75, "kv_cache_memory_bytes": 1_073_741_824_i64, "kv_cache_size_tokens": 46592,
            "num_gpu_blocks": 364, "prefix_caching_hash_algo": "sha256"})
    );
    assert!(of_metrics(LLAMA_CPP).is_empty());
}
