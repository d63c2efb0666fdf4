//! What the server tells of its configuration, in one flat list of settings.

use std::collections::BTreeMap;

use plimsoll_run::target::Engine;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::exposition::samples;
use crate::secrets::redacted;

/// Settings by name. Names are an engine's own, with underscores.
pub type Settings = BTreeMap<String, Value>;

/// Settings that bear on how fast a server is and how much it holds. Routes that tell of a server's arguments tell hundreds;
/// the others (host, port, logging, what is in flight just now) are not kept.
const TELLING: [&str; 73] = [
    "attention_backend",
    "block_size",
    "build_info",
    "cache_dtype",
    "chunked_prefill_size",
    "context_length",
    "cuda_graph_max_bs",
    "data_parallel_size",
    "disable_cuda_graph",
    "disable_radix_cache",
    "docker_label",
    "dp_size",
    "dtype",
    "enable_chunked_prefill",
    "enable_dp_attention",
    "enable_expert_parallel",
    "enable_mixed_chunk",
    "enable_prefix_caching",
    "enable_torch_compile",
    "enforce_eager",
    "ep_size",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
    "kv_cache_size_tokens",
    "long_prefill_token_threshold",
    "max_batch_total_tokens",
    "max_best_of",
    "max_client_batch_size",
    "max_concurrent_requests",
    "max_input_length",
    "max_input_tokens",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_prefill_tokens",
    "max_queued_requests",
    "max_running_requests",
    "max_total_num_tokens",
    "max_total_tokens",
    "max_waiting_tokens",
    "mem_fraction_static",
    "model",
    "model_alias",
    "model_dtype",
    "model_ftype",
    "model_id",
    "model_path",
    "model_sha",
    "n_ctx",
    "num_cpu_blocks",
    "num_gpu_blocks",
    "num_gpu_blocks_override",
    "num_speculative_tokens",
    "page_size",
    "pipeline_parallel_size",
    "pp_size",
    "prefix_caching_hash_algo",
    "quantization",
    "sampling_backend",
    "schedule_conservativeness",
    "schedule_policy",
    "served_model_name",
    "sliding_window",
    "speculative_algorithm",
    "speculative_num_draft_tokens",
    "swap_space",
    "tensor_parallel_size",
    "total_slots",
    "tp_size",
    "validation_workers",
    "waiting_served_ratio",
];

/// Settings that come out of the memory that happened to be free: the same configuration started twice may differ in them.
const MEASURED: [&str; 6] = [
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
    "kv_cache_size_tokens",
    "num_cpu_blocks",
    "num_gpu_blocks",
    "max_total_num_tokens",
];

/// Settings out of `vllm:cache_config_info`, whose labels hold them; of several engines those of the first.
#[must_use]
pub fn of_metrics(page: &str) -> Settings {
    let mut settings = Settings::new();
    let info = samples(page)
        .find(|sample| matches!(sample.name, "vllm:cache_config_info" | "vllm_cache_config_info"));
    for (name, text) in info.iter().flat_map(|sample| sample.labels()) {
        let value = plain(&text);
        if TELLING.contains(&name) && !value.is_null() {
            settings.insert(name.to_owned(), redacted(name, value));
        }
    }
    settings
}

/// Settings out of what a route such as `/server_info`, `/get_server_info`, `/info` or `/props` answers, however deep they lie.
/// Of a name that occurs twice the outermost, then the first, counts. vLLM writes its configuration as one text of `name=value`.
#[must_use]
pub fn of_answer(answer: &Value) -> Settings {
    let mut settings = Settings::new();
    let mut level = vec![answer];
    // Configurations are shallow; an answer made to be deep is not one.
    for _ in 0..8 {
        let mut below = Vec::new();
        for value in level {
            let Value::Object(map) = value else {
                below.extend(value.as_array().into_iter().flatten());
                continue;
            };
            for (name, value) in map {
                match value {
                    Value::Object(_) | Value::Array(_) => below.push(value),
                    Value::Null => {}
                    Value::String(text) if name == "vllm_config" => {
                        for (name, value) in of_text(text) {
                            settings.entry(name).or_insert(value);
                        }
                    }
                    _ if TELLING.contains(&name.as_str()) => {
                        settings
                            .entry(name.clone())
                            .or_insert_with(|| redacted(name, value.clone()));
                    }
                    _ => {}
                }
            }
        }
        level = below;
    }
    settings
}

/// `name=value` pairs of a configuration that was written as text.
fn of_text(text: &str) -> Settings {
    let mut settings = Settings::new();
    for piece in text.split([',', '(', ')', '{', '}']) {
        if let Some((name, value)) = piece.split_once('=') {
            let (name, value) = (name.trim(), plain(value.trim().trim_matches(['\'', '"'])));
            if TELLING.contains(&name) && !value.is_null() {
                settings
                    .entry(name.to_owned())
                    .or_insert_with(|| redacted(name, value));
            }
        }
    }
    settings
}

/// A setting written as text: a number, a truth value, nothing (`None`), or itself.
#[must_use]
pub fn plain(text: &str) -> Value {
    match text {
        "True" | "true" => return true.into(),
        "False" | "false" => return false.into(),
        "None" | "null" => return Value::Null,
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    match text.parse::<f64>() {
        // Not `nan`, `inf` or a model called `1e5`.
        Ok(number)
            if number.is_finite() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-') =>
        {
            number.into()
        }
        _ => text.into(),
    }
}

/// SHA-256 in hex over engine and settings, but for those that come out of the memory that happened to be free: equal
/// fingerprints mean the same server as far as is known. `None` where nothing is known.
#[must_use]
pub fn fingerprint(engine: Option<&Engine>, settings: &Settings) -> Option<String> {
    if engine.is_none() && settings.is_empty() {
        return None;
    }
    let kept: Settings = settings
        .iter()
        .filter(|(name, _)| !MEASURED.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let text = serde_json::json!({"engine": engine, "serving_config": kept}).to_string();
    Some(
        Sha256::digest(text.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_of_engines_are_flattened_and_cleaned() {
        let sglang = json!({"model_path": "m", "host": "0.0.0.0", "api_key": "k", "tp_size": 2, "disable_radix_cache": false,
            "quantization": null, "internal_states": [{"last_gen_throughput": 7.5, "max_total_num_tokens": 1000, "tp_size": 9}]});
        let settings = of_answer(&sglang);
        assert_eq!(
            serde_json::to_value(&settings).unwrap(),
            json!({"disable_radix_cache": false, "max_total_num_tokens": 1000, "model_path": "m", "tp_size": 2})
        );
        let llama =
            json!({"default_generation_settings": {"n_ctx": 2048, "params": {"seed": 1}}, "total_slots": 4});
        assert_eq!(
            serde_json::to_value(of_answer(&llama)).unwrap(),
            json!({"n_ctx": 2048, "total_slots": 4})
        );
        let vllm = json!({"vllm_config": "model='meta/x', dtype=torch.bfloat16, max_model_len=8192, tensor_parallel_size=1, quantization=None, hf_token='s'"});
        assert_eq!(
            serde_json::to_value(of_answer(&vllm)).unwrap(),
            json!({"dtype": "torch.bfloat16", "max_model_len": 8192, "model": "meta/x", "tensor_parallel_size": 1})
        );
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!({ "a": deep });
        }
        assert!(of_answer(&deep).is_empty());
    }

    #[test]
    fn a_fingerprint_is_of_the_configuration_and_not_of_free_memory() {
        let settings = |blocks: u32, length: u32| {
            Settings::from([
                ("num_gpu_blocks".to_owned(), blocks.into()),
                ("max_model_len".to_owned(), length.into()),
            ])
        };
        assert_eq!(fingerprint(None, &Settings::new()), None);
        let one = fingerprint(None, &settings(364, 2048)).unwrap();
        assert_eq!(one.len(), 64);
        assert_eq!(fingerprint(None, &settings(365, 2048)).unwrap(), one);
        assert_ne!(fingerprint(None, &settings(364, 4096)).unwrap(), one);
        let engine = Engine {
            name: Some("vllm".to_owned()),
            version: None,
        };
        assert_ne!(fingerprint(Some(&engine), &settings(364, 2048)).unwrap(), one);
    }
}
