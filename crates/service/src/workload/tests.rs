use serde_json::json;

use super::*;

fn with(parameters: &Value) -> Result<Sweep, WorkloadError> {
    read(&json!({"benchmark": {"type": "aiperf"}, "parameters": parameters}).to_string())
}

fn own(parameters: &Value, plimsoll: &Value) -> Result<Sweep, WorkloadError> {
    let document = json!({"benchmark": {"type": "aiperf"}, "parameters": parameters, "plimsoll": plimsoll});
    read(&document.to_string())
}

#[track_caller]
fn refused(sweep: Result<Sweep, WorkloadError>, expected: &str) {
    let error = sweep.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn the_published_list_is_understood() {
    let sweep = with(&json!({
        "tokenizer": "nvidia/x", "streaming": true, "prompt_input_tokens_mean": 1024, "output_tokens_mean": 256,
        "concurrency": [64, 256, 1024], "request_count": 1024
    }))
    .unwrap();
    assert_eq!(
        sweep.flags,
        [
            "--input-tokens=1024",
            "--output-tokens=256",
            "--levels=64,256,1024",
            "--requests=1024"
        ]
    );
    assert_eq!(sweep.notes.len(), 1);
    assert_eq!(sweep.recipe, None);
}

#[test]
fn the_published_search_is_understood() {
    let sweep = with(&json!({
        "tokenizer": "x", "prompt_input_tokens_mean": 1024, "output_tokens_mean": 256,
        "search_recipe": "max-concurrency-under-sla", "e2e_sla_ms": 50000, "ttft_sla_ms": 1500, "concurrency_min": 16,
        "concurrency_max": 4096, "search_max_iterations": 10, "search_initial_points": 512, "request_count": 1024
    }))
    .unwrap();
    assert_eq!(
        sweep.flags[2..],
        [
            "--min=16",
            "--max=4096",
            "--max-rungs=10",
            "--sla=ttft.p95<1500ms",
            "--sla=e2e.p99<50000ms",
            "--requests=1024"
        ]
    );
    assert_eq!(sweep.recipe.unwrap().bounds.len(), 2);
    let sweep = with(&json!({
        "search_recipe": "max-concurrency-under-sla", "tpot_sla_ms": 50, "error_rate_sla": 0.01, "search_stat": "avg"
    }))
    .unwrap();
    assert_eq!(
        sweep.flags,
        [
            "--min=1",
            "--max=1000",
            "--sla=tpot.mean<50ms",
            "--sla=error_rate<=0.01"
        ]
    );
}

#[test]
fn yaml_aliases_and_our_own_section_are_understood() {
    let sweep = read(
        "benchmark:\n  type: aiperf\ntooling: {api_standard: openai, version: 0.8.0}\nparameters:\n  isl: 100\n  isl_stddev: 10.5\n  osl: 20\n  num_requests: 50\n  \
         warmup_duration: 0\n  request_timeout_seconds: 30\n  random_seed: 7\nplimsoll:\n  levels: [1, 4]\n  resolution: 0.1\n  sla: [\"e2e.p95<=2s\"]\n  \
         peak: 40rps\n  price: 4.2\n  max_time: 15m\n",
    )
    .unwrap();
    assert_eq!(
        sweep.flags,
        [
            "--input-tokens=100:10.5",
            "--output-tokens=20",
            "--levels=1,4",
            "--requests=50",
            "--warmup=0",
            "--request-timeout=30s",
            "--seed=7",
            "--resolution=0.1",
            "--max-time=900s",
            "--sla=e2e.p95<=2000ms",
            "--peak=40rps",
            "--price=4.2"
        ]
    );
    assert_eq!(sweep.resume_flags, ["--request-timeout=30s", "--max-time=900s"]);
}

#[test]
fn levels_come_as_a_number_a_list_in_any_order_or_not_at_all() {
    let levels = |parameters| with(&parameters).unwrap().flags;
    assert_eq!(levels(json!({"concurrency": 8})), ["--levels=8"]);
    assert_eq!(levels(json!({"concurrency": [8, 2, 4.0]})), ["--levels=2,4,8"]);
    assert_eq!(levels(json!({})), ["--levels=1"]);
    for bad in [
        json!([]),
        json!([2, 2]),
        json!(0),
        json!("8"),
        json!([1.5]),
        json!(-1),
        json!({"a": 1}),
        json!([[1]]),
    ] {
        refused(with(&json!({"concurrency": bad})), "`parameters.concurrency`");
    }
    refused(
        own(&json!({"concurrency": 8}), &json!({"levels": [1]})),
        "leave out one",
    );
    assert_eq!(own(&json!({}), &json!({"max": 64})).unwrap().flags, ["--max=64"]);
}

#[test]
fn what_nobody_knows_is_refused_with_the_nearest_known() {
    refused(with(&json!({"concurency": 8})), "did you mean `concurrency`");
    refused(
        with(&json!({"<script>": 8})),
        "`parameters.<script>` is no known parameter",
    );
    refused(
        own(&json!({}), &json!({"reslution": 0.1})),
        "did you mean `resolution`",
    );
    refused(
        read(r#"{"benchmark":{"type":"aiperf"},"parametrs":{}}"#),
        "did you mean `parameters`",
    );
    refused(read(r#"{"benchmark":{"type":"genai"}}"#), "only `aiperf`");
    refused(read(r#"{"parameters":{}}"#), "`benchmark` is missing");
    refused(
        with(&json!({"search_recipe": "max-concurency-under-sla"})),
        "did you mean `max-concurrency-under-sla`",
    );
}

#[test]
fn what_means_nothing_here_is_refused_by_name_and_never_ignored() {
    for name in [
        "request_rate",
        "goodput",
        "public_dataset",
        "hf_token",
        "HF_TOKEN",
        "vllm_burstiness",
        "url",
    ] {
        refused(with(&json!({name: "x"})), "means nothing here");
    }
    for name in [
        "image_width_mean",
        "video_fps",
        "video_audio_depth",
        "batch_size_image",
    ] {
        refused(with(&json!({name: 1})), "prompts are text");
    }
    refused(with(&json!({"verbose": true})), "verbose");
    refused(with(&json!({"extra_inputs": "temperature:0"})), "ignore_eos:true");
    with(&json!({"extra_inputs": "ignore_eos:true", "verbose": false})).unwrap();
    refused(
        read(r#"{"benchmark":{"type":"aiperf"},"secrets":{"hf_token":"arn:x"}}"#),
        "secrets",
    );
    refused(
        read(r#"{"benchmark":{"type":"aiperf"},"tooling":{"api_standard":"kserve"}}"#),
        "api_standard",
    );
}

#[test]
fn contradictions_and_wrong_types_are_named() {
    refused(
        with(&json!({"isl": 1, "prompt_input_tokens_mean": 1})),
        "stands twice",
    );
    refused(with(&json!({"isl_stddev": 4})), "needs a mean");
    refused(with(&json!({"isl": "100"})), "is \"100\"; write a whole number");
    refused(with(&json!({"streaming": "yes"})), "write true or false");
    refused(with(&json!({"request_count": 0})), "from 1");
    refused(with(&json!({"ttft_sla_ms": 5})), "plimsoll.sla");
    refused(with(&json!({"concurrency_min": 5})), "goes with a search");
    let search = |more: &[(&str, Value)]| {
        let mut parameters = json!({"search_recipe": "max-concurrency-under-sla", "ttft_sla_ms": 100});
        for (name, value) in more {
            parameters[*name] = value.clone();
        }
        parameters
    };
    refused(with(&search(&[("concurrency", json!(4))])), "leave out one");
    refused(with(&search(&[("streaming", json!(false))])), "streaming");
    refused(
        with(&search(&[("concurrency_min", json!(2000))])),
        "above `concurrency_max`",
    );
    refused(with(&search(&[("search_stat", json!("p98"))])), "search_stat");
    refused(
        own(&search(&[]), &json!({"sla": ["e2e.p95<=1s"]})),
        "leave out one",
    );
    refused(own(&search(&[]), &json!({"min": 1})), "own bounds");
    refused(
        with(&json!({"search_recipe": "max-concurrency-under-sla"})),
        "needs an SLA",
    );
    refused(
        own(&json!({}), &json!({"sla": ["tfft.p95<=1s"]})),
        "did you mean `ttft`",
    );
    refused(
        own(&json!({"streaming": false}), &json!({"sla": ["ttft.p95<=1s"]})),
        "streamed",
    );
    refused(own(&json!({}), &json!({"peak": "40"})), "plimsoll.peak");
    refused(own(&json!({}), &json!({"max_time": "0s"})), "plimsoll.max_time");
    refused(own(&json!({}), &json!({"currency": "--x"})), "plimsoll.currency");
    refused(
        own(&json!({}), &json!({"min": 9, "max": 2})),
        "above `plimsoll.max`",
    );
}

#[test]
fn text_that_is_no_document_is_refused() {
    for text in [
        "",
        "{",
        "[1]",
        "just words",
        "a: [",
        "a: b: c",
        "\u{0}",
        "{\"a\":1}{\"b\":2}",
    ] {
        assert!(read(text).is_err(), "{text:?}");
    }
    refused(read(&"x".repeat(LONGEST + 1)), "characters long");
    // Aliases that would unfold to a billion entries.
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (name, before) in "bcdefghij".chars().zip("abcdefghi".chars()) {
        let list = vec![format!("*{before}"); 9].join(",");
        bomb.push_str(&format!("{name}: &{name} [{list}]\n"));
    }
    assert!(read(&bomb).is_err());
    assert!(read(&"[".repeat(100_000)).is_err());
    assert!(read(&format!("{{\"a\":{}", "[".repeat(100_000))).is_err());
}
