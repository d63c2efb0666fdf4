//! `/metrics` with vLLM's names, in the Prometheus text format.

use std::fmt::Write;

use crate::counters::{Counters, Histogram};
use crate::spec::EngineSpec;

/// How requests ended, which the engine itself does not tell apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Endings {
    pub stop: u64,
    pub length: u64,
}

/// The whole text.
pub(crate) fn text(spec: &EngineSpec, counters: &Counters, endings: Endings) -> String {
    let mut page = Page {
        out: String::with_capacity(16_384),
        labels: format!("engine=\"0\",model_name=\"{}\"", spec.model),
    };
    page.single(
        "num_requests_running",
        "gauge",
        "Number of requests in model execution batches.",
        counters.running,
    );
    page.single(
        "num_requests_waiting",
        "gauge",
        "Number of requests waiting to be processed.",
        counters.waiting,
    );
    page.single(
        "kv_cache_usage_perc",
        "gauge",
        "KV-cache usage. 1 means 100 percent usage.",
        counters.kv_usage,
    );
    for (name, help, value) in [
        (
            "prefix_cache_queries_total",
            "Prefix cache queries, in terms of number of queried tokens.",
            counters.prefix_queries,
        ),
        (
            "prefix_cache_hits_total",
            "Prefix cache hits, in terms of number of cached tokens.",
            counters.prefix_hits,
        ),
        (
            "num_preemptions_total",
            "Cumulative number of preemption from the engine.",
            counters.preemptions,
        ),
        (
            "prompt_tokens_total",
            "Number of prefill tokens processed.",
            counters.prompt_tokens,
        ),
        (
            "generation_tokens_total",
            "Number of generation tokens processed.",
            counters.generation_tokens,
        ),
    ] {
        page.single(name, "counter", help, value);
    }
    page.head(
        "request_success_total",
        "counter",
        "Count of successfully processed requests.",
    );
    for (reason, value) in [
        ("stop", endings.stop),
        ("length", endings.length),
        ("abort", counters.aborted),
    ] {
        page.line(
            "request_success_total",
            &format!(",finished_reason=\"{reason}\""),
            value,
        );
    }
    for (name, help, histogram) in [
        (
            "time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            &counters.ttft,
        ),
        (
            "inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            &counters.itl,
        ),
        (
            "e2e_request_latency_seconds",
            "Histogram of e2e request latency in seconds.",
            &counters.e2e,
        ),
        (
            "request_queue_time_seconds",
            "Histogram of time spent in WAITING phase for request.",
            &counters.queue,
        ),
    ] {
        page.histogram(name, help, histogram);
    }
    page.head(
        "cache_config_info",
        "gauge",
        "Information of the LLMEngine CacheConfig.",
    );
    let serving = &spec.serving;
    let settings = format!(
        ",block_size=\"{}\",enable_prefix_caching=\"{}\",gpu_memory_utilization=\"{}\",num_gpu_blocks=\"{}\"",
        serving.block_size,
        if serving.prefix_caching { "True" } else { "False" },
        serving.gpu_memory_utilization,
        spec.kv_blocks
    );
    page.line("cache_config_info", &settings, 1);
    page.out
}

struct Page {
    out: String,
    labels: String,
}

impl Page {
    // Writing to a string cannot fail.

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
    }

    fn line(&mut self, name: &str, more_labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.out, "vllm:{name}{{{}{more_labels}}} {value}", self.labels);
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        self.line(name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.cumulative() {
            self.line(&bucket, &format!(",le=\"{bound:?}\""), count);
        }
        self.line(&bucket, ",le=\"+Inf\"", histogram.count());
        self.line(&format!("{name}_sum"), "", histogram.sum());
        self.line(&format!("{name}_count"), "", histogram.count());
    }
}
