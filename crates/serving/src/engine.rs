//! Engines by the names of their metrics, and what those names mean.
//!
//! Names of vLLM 0.6 to 0.32, SGLang 0.4 and 0.5, Text Generation Inference 2 and 3, llama.cpp's server. Twins named
//! `..._created` hold times of creation and are none of these.

/// An engine whose metrics are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricsOf {
    /// vLLM, and whatever takes its names.
    Vllm,
    /// SGLang.
    Sglang,
    /// Hugging Face's Text Generation Inference.
    Tgi,
    /// llama.cpp's server.
    LlamaCpp,
}

impl MetricsOf {
    /// The engine's name, as a target's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MetricsOf::Vllm => "vllm",
            MetricsOf::Sglang => "sglang",
            MetricsOf::Tgi => "tgi",
            MetricsOf::LlamaCpp => "llama.cpp",
        }
    }
}

/// What a metric measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Requests running: a gauge.
    Running,
    /// Requests waiting: a gauge.
    Waiting,
    /// Share of KV blocks in use, a fraction: a gauge.
    KvUsage,
    /// Prefix cache hit rate as the engine itself smooths it, a fraction: a gauge, for want of counters.
    HitRate,
    /// Prompt tokens looked up in the prefix cache.
    PrefixQueries,
    /// Prompt tokens found there.
    PrefixHits,
    /// Prompt tokens found there, of an engine that counts those it did not find apart.
    PrefixHitsApart,
    /// Preemptions; retractions in SGLang's words.
    Preemptions,
    /// Reply tokens.
    OutputTokens,
    /// Sum of TTFT, seconds.
    TtftSum,
    /// Requests in that sum.
    TtftCount,
    /// Sum of the time spent in the engine's queue, seconds.
    QueueSum,
    /// Requests in that sum.
    QueueCount,
}

impl Quantity {
    /// Whether it goes up and down; else it only grows until the server restarts.
    #[must_use]
    pub fn is_gauge(self) -> bool {
        matches!(
            self,
            Quantity::Running | Quantity::Waiting | Quantity::KvUsage | Quantity::HitRate
        )
    }
}

/// What a metric of this name means: whose it is, what it measures, and which of several metrics that add up to it this is.
/// Two names of the same thing have the same number.
#[must_use]
pub fn meaning(name: &str) -> Option<(MetricsOf, Quantity, u8)> {
    let (engine, rest) = if let Some(rest) = after(name, "vllm") {
        (MetricsOf::Vllm, rest)
    } else if let Some(rest) = after(name, "sglang") {
        (MetricsOf::Sglang, rest)
    } else if let Some(rest) = after(name, "llamacpp") {
        (MetricsOf::LlamaCpp, rest)
    } else {
        (MetricsOf::Tgi, name.strip_prefix("tgi_")?)
    };
    let meant = match engine {
        MetricsOf::Vllm => vllm(rest),
        MetricsOf::Sglang => sglang(rest),
        MetricsOf::Tgi => tgi(rest),
        MetricsOf::LlamaCpp => llama_cpp(rest),
    };
    meant.map(|(quantity, part)| (engine, quantity, part))
}

/// Collectors replace the colon, which is theirs by convention, with an underscore.
fn after<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix)?.strip_prefix([':', '_'])
}

fn vllm(name: &str) -> Option<(Quantity, u8)> {
    // Client libraries add `_total` to counters; older ones did not.
    let counter = name.strip_suffix("_total").unwrap_or(name);
    Some(match counter {
        "num_requests_running" => (Quantity::Running, 0),
        "num_requests_waiting" => (Quantity::Waiting, 0),
        "kv_cache_usage_perc" | "gpu_cache_usage_perc" => (Quantity::KvUsage, 0),
        "gpu_prefix_cache_hit_rate" => (Quantity::HitRate, 0),
        "prefix_cache_queries" | "gpu_prefix_cache_queries" => (Quantity::PrefixQueries, 0),
        "prefix_cache_hits" | "gpu_prefix_cache_hits" => (Quantity::PrefixHits, 0),
        // Asked only for what the engine's own cache did not have.
        "external_prefix_cache_hits" => (Quantity::PrefixHits, 1),
        "num_preemptions" => (Quantity::Preemptions, 0),
        "generation_tokens" => (Quantity::OutputTokens, 0),
        "time_to_first_token_seconds_sum" => (Quantity::TtftSum, 0),
        "time_to_first_token_seconds_count" => (Quantity::TtftCount, 0),
        "request_queue_time_seconds_sum" => (Quantity::QueueSum, 0),
        "request_queue_time_seconds_count" => (Quantity::QueueCount, 0),
        _ => return None,
    })
}

fn sglang(name: &str) -> Option<(Quantity, u8)> {
    Some(match name {
        "num_running_reqs" => (Quantity::Running, 0),
        "num_queue_reqs" => (Quantity::Waiting, 0),
        "token_usage" => (Quantity::KvUsage, 0),
        "cache_hit_rate" => (Quantity::HitRate, 0),
        "prompt_tokens_total" => (Quantity::PrefixQueries, 0),
        "cached_tokens_total" => (Quantity::PrefixHits, 0),
        // Not `num_retracted_reqs`, which is the last batch's.
        "num_retracted_requests_total" => (Quantity::Preemptions, 0),
        "generation_tokens_total" => (Quantity::OutputTokens, 0),
        "time_to_first_token_seconds_sum" => (Quantity::TtftSum, 0),
        "time_to_first_token_seconds_count" => (Quantity::TtftCount, 0),
        "queue_time_seconds_sum" => (Quantity::QueueSum, 0),
        "queue_time_seconds_count" => (Quantity::QueueCount, 0),
        _ => return None,
    })
}

fn tgi(name: &str) -> Option<(Quantity, u8)> {
    Some(match name {
        "batch_current_size" => (Quantity::Running, 0),
        "queue_size" => (Quantity::Waiting, 0),
        "request_generated_tokens_sum" => (Quantity::OutputTokens, 0),
        "request_queue_duration_sum" => (Quantity::QueueSum, 0),
        "request_queue_duration_count" => (Quantity::QueueCount, 0),
        _ => return None,
    })
}

fn llama_cpp(name: &str) -> Option<(Quantity, u8)> {
    Some(match name {
        "requests_processing" => (Quantity::Running, 0),
        "requests_deferred" => (Quantity::Waiting, 0),
        "kv_cache_usage_ratio" => (Quantity::KvUsage, 0),
        // Without those found in the cache.
        "prompt_tokens_total" => (Quantity::PrefixQueries, 0),
        "prompt_tokens_cached_total" => (Quantity::PrefixHitsApart, 0),
        "tokens_predicted_total" => (Quantity::OutputTokens, 0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_names_mean_the_same() {
        for (new, old) in [
            ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits"),
            ("vllm:num_preemptions_total", "vllm_num_preemptions_total"),
            ("sglang:token_usage", "sglang_token_usage"),
        ] {
            assert!(meaning(new).is_some(), "{new}");
            assert_eq!(meaning(new), meaning(old), "{old}");
        }
    }

    #[test]
    fn twins_and_strangers_mean_nothing() {
        for name in [
            "vllm:prefix_cache_queries_created",
            "vllm:time_to_first_token_seconds_bucket",
            "vllm:request_num_preemptions_sum",
            "vllmx:num_requests_running",
            "num_requests_running",
            "sglang:num_retracted_reqs",
            "",
        ] {
            assert_eq!(meaning(name), None, "{name}");
        }
    }
}
