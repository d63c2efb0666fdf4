//! The section `parameters`: AIPerf's names, as SageMaker documents them.

use plimsoll_run::ladder::{Ladder, MAX_LEVEL};
use plimsoll_run::nearest::hint;
use serde_json::Value;

use super::given::{Given, shown, whole};
use super::own::{self, Own};
use super::recipe;
use super::{Sweep, WorkloadError, short};

/// Other names that the documentation knows.
const ALIASES: [(&str, &str); 18] = [
    ("synthetic_input_tokens_mean", "prompt_input_tokens_mean"),
    ("isl", "prompt_input_tokens_mean"),
    ("synthetic_input_tokens_stddev", "prompt_input_tokens_stddev"),
    ("isl_stddev", "prompt_input_tokens_stddev"),
    ("prompt_output_tokens_mean", "output_tokens_mean"),
    ("osl", "output_tokens_mean"),
    ("prompt_output_tokens_stddev", "output_tokens_stddev"),
    ("osl_stddev", "output_tokens_stddev"),
    ("num_requests", "request_count"),
    ("arrival_pattern", "request_rate_mode"),
    ("vllm_burstiness", "arrival_smoothness"),
    ("HF_TOKEN", "hf_token"),
    ("conversation_num", "num_conversations"),
    ("num_sessions", "num_conversations"),
    ("num_warmup_requests", "warmup_request_count"),
    ("batch_size_image", "image_batch_size"),
    ("batch_size_video", "video_batch_size"),
    ("batch_size_audio", "audio_batch_size"),
];

/// What is measured by.
const KNOWN: [&str; 27] = [
    "prompt_input_tokens_mean",
    "prompt_input_tokens_stddev",
    "output_tokens_mean",
    "output_tokens_stddev",
    "concurrency",
    "request_count",
    "benchmark_duration",
    "streaming",
    "tokenizer",
    "model",
    "request_timeout_seconds",
    "random_seed",
    "extra_inputs",
    "verbose",
    "model_selection_strategy",
    "warmup_duration",
    "search_recipe",
    "ttft_sla_ms",
    "tpot_sla_ms",
    "e2e_sla_ms",
    "error_rate_sla",
    "search_stat",
    "concurrency_min",
    "concurrency_max",
    "search_max_iterations",
    "search_initial_points",
    "dataset_sampling_strategy",
];

/// What is documented and means nothing here, with what to do instead.
const NOT_HERE: [(&str, &str); 26] = [
    (
        "request_rate",
        "levels are concurrencies here; give `concurrency`",
    ),
    (
        "request_rate_mode",
        "levels are concurrencies here, without arrivals of their own",
    ),
    (
        "arrival_smoothness",
        "levels are concurrencies here, without arrivals of their own",
    ),
    (
        "max_concurrency",
        "it caps a request rate; give `concurrency`, or `concurrency_max` of a search",
    ),
    ("prefill_concurrency", "prompts are not held back; leave it out"),
    (
        "hf_token",
        "no tokenizer is downloaded; leave it out, and keep secrets out of workloads",
    ),
    (
        "goodput",
        "give the SLA as `plimsoll.sla`, such as [\"ttft.p95<=500ms\"]: goodput is counted by it",
    ),
    ("benchmark_grace_period", "a rung drains by itself; leave it out"),
    ("num_conversations", "give `request_count`"),
    (
        "warmup_request_count",
        "the warm-up is found from the data; leave it out or give `warmup_duration`",
    ),
    (
        "warmup_concurrency",
        "a level warms up at its own concurrency; leave it out",
    ),
    (
        "warmup_prefill_concurrency",
        "a level warms up at its own concurrency; leave it out",
    ),
    (
        "warmup_request_rate",
        "a level warms up at its own concurrency; leave it out",
    ),
    (
        "warmup_arrival_pattern",
        "a level warms up at its own concurrency; leave it out",
    ),
    (
        "warmup_grace_period",
        "a warm-up runs into its window without a pause; leave it out",
    ),
    (
        "num_warmup_sessions",
        "the warm-up is found from the data; leave it out or give `warmup_duration`",
    ),
    ("public_dataset", "nothing is downloaded; give token lengths"),
    (
        "custom_dataset_type",
        "this server reads no datasets; give token lengths",
    ),
    ("input_file", "this server reads no datasets; give token lengths"),
    ("image_batch_size", "prompts are text; leave it out"),
    ("image_format", "prompts are text; leave it out"),
    ("video_batch_size", "prompts are text; leave it out"),
    ("video_format", "prompts are text; leave it out"),
    ("audio_batch_size", "prompts are text; leave it out"),
    (
        "url",
        "the targets of this server are set by whoever runs it; name one as the job's endpoint",
    ),
    ("endpoint", "name it as the job's endpoint"),
];

/// Documented groups that mean nothing here as a whole.
const GROUPS_NOT_HERE: [&str; 3] = ["image_", "video_", "audio_"];

/// Reads the parameters, with Plimsoll's own section beside them.
pub(super) fn read(mut given: Given, own: Option<Given>) -> Result<Sweep, WorkloadError> {
    for (alias, name) in ALIASES {
        given.rename(alias, name)?;
    }
    refuse(&given)?;
    let own = own::read(own)?;
    let mut sweep = Sweep::default();
    lengths(&mut given, &mut sweep)?;
    let streaming = given.boolean("streaming")?.unwrap_or(true);
    if !streaming {
        sweep.flags.push("--no-stream".to_owned());
    }
    levels(&mut given, &own, streaming, &mut sweep)?;
    traffic(&mut given, &mut sweep)?;
    asked_of_the_model(&mut given, &mut sweep)?;
    if let Some(term) = own
        .sla
        .iter()
        .find(|term| !streaming && term.metric.needs_stream())
    {
        return Err(WorkloadError(format!(
            "`plimsoll.sla`: `{term}` needs a streamed reply, and `parameters.streaming` is false"
        )));
    }
    own.put(&mut sweep)?;
    given.finish(&KNOWN)?;
    Ok(sweep)
}

/// Refuses what nobody documents and what means nothing here.
fn refuse(given: &Given) -> Result<(), WorkloadError> {
    for name in given.names() {
        if KNOWN.contains(&name.as_str()) {
            continue;
        }
        if let Some((_, advice)) = NOT_HERE.iter().find(|(known, _)| *known == name) {
            return Err(given.wrong(&name, &format!("means nothing here: {advice}")));
        }
        if GROUPS_NOT_HERE.iter().any(|group| name.starts_with(group)) {
            return Err(given.wrong(
                &short(&name),
                "means nothing here: prompts are text; leave it out",
            ));
        }
        let every: Vec<&str> = KNOWN
            .into_iter()
            .chain(ALIASES.map(|(alias, _)| alias))
            .chain(NOT_HERE.map(|(name, _)| name))
            .collect();
        return Err(WorkloadError(format!(
            "`{}` is no known parameter{}",
            short(&given.path(&name)),
            hint(&name, &every)
        )));
    }
    Ok(())
}

fn lengths(given: &mut Given, sweep: &mut Sweep) -> Result<(), WorkloadError> {
    for (flag, mean, spread) in [
        (
            "input-tokens",
            "prompt_input_tokens_mean",
            "prompt_input_tokens_stddev",
        ),
        ("output-tokens", "output_tokens_mean", "output_tokens_stddev"),
    ] {
        let tokens = given.whole(mean, 1..=10_000_000)?;
        let stddev = given
            .number(spread, 0.0..=10_000_000.0)?
            .filter(|stddev| *stddev > 0.0);
        match (tokens, stddev) {
            (Some(tokens), Some(stddev)) => sweep.flag(flag, format_args!("{tokens}:{stddev}")),
            (Some(tokens), None) => sweep.flag(flag, tokens),
            (None, Some(_)) => return Err(given.wrong(spread, &format!("needs a mean; give `{mean}` too"))),
            (None, None) => {}
        }
    }
    Ok(())
}

/// The levels: those of `concurrency`, a search between bounds, or those of our own section.
fn levels(given: &mut Given, own: &Own, streaming: bool, sweep: &mut Sweep) -> Result<(), WorkloadError> {
    let concurrency = concurrency(given)?;
    let recipe = recipe::read(given, streaming, sweep)?;
    match (&concurrency, &recipe, &own.levels) {
        (Some(_), Some(_), _) => {
            return Err(given.wrong(
                "search_recipe",
                "does not go with `concurrency`: a search chooses its levels; leave out one",
            ));
        }
        (Some(_), _, Some(_)) => {
            return Err(WorkloadError(
                "`plimsoll.levels` does not go with `parameters.concurrency`; leave out one".to_owned(),
            ));
        }
        (Some(ladder), None, None) => sweep.flag("levels", ladder),
        (None, _, Some(ladder)) => sweep.flag("levels", ladder),
        (None, Some(_), None) => {}
        (None, None, None) if own.searches() => {}
        (None, None, None) => {
            sweep.flag("levels", 1);
            sweep
                .notes
                .push("No `concurrency` was given: level 1, which is AIPerf's default.".to_owned());
        }
    }
    if let Some(recipe) = recipe {
        if !own.sla.is_empty() {
            return Err(WorkloadError(
                "`plimsoll.sla` does not go with the SLAs of a `search_recipe`; leave out one".to_owned(),
            ));
        }
        recipe.put(sweep);
        sweep.recipe = Some(recipe);
    }
    Ok(())
}

/// A number, or a list in any order.
fn concurrency(given: &mut Given) -> Result<Option<Ladder>, WorkloadError> {
    let range = 1..=u64::from(MAX_LEVEL);
    let level = |value: &Value, given: &Given| {
        whole(value, &range)
            .and_then(|level| u32::try_from(level).ok())
            .ok_or_else(|| {
                given.wrong(
                    "concurrency",
                    &format!(
                        "has {} in it; write a whole number from 1 to {MAX_LEVEL}, or a list of such, as in [64, 256, 1024]",
                        shown(value)
                    ),
                )
            })
    };
    let mut levels = match given.take("concurrency") {
        None => return Ok(None),
        Some(Value::Array(levels)) => levels
            .iter()
            .map(|value| level(value, given))
            .collect::<Result<Vec<_>, _>>()?,
        Some(value) => vec![level(&value, given)?],
    };
    levels.sort_unstable();
    Ladder::new(levels)
        .map(Some)
        .map_err(|error| given.wrong("concurrency", &format!("cannot be used: {error}")))
}

fn traffic(given: &mut Given, sweep: &mut Sweep) -> Result<(), WorkloadError> {
    if let Some(requests) = given.whole("request_count", 1..=1_000_000_000)? {
        sweep.flag("requests", requests);
    }
    if let Some(seconds) = given.number("benchmark_duration", 1.0..=86_400.0)? {
        sweep.flag("rung-time", format_args!("{seconds}s"));
    }
    if let Some(seconds) = given.number("warmup_duration", 0.0..=86_400.0)? {
        if seconds == 0.0 {
            sweep.flag("warmup", 0);
        } else {
            sweep.flag("warmup", format_args!("{seconds}s"));
        }
    }
    if let Some(seconds) = given.number("request_timeout_seconds", 0.001..=86_400.0)? {
        sweep.flag("request-timeout", format_args!("{seconds}s"));
        sweep.resume_flags.push(format!("--request-timeout={seconds}s"));
    }
    Ok(())
}

fn asked_of_the_model(given: &mut Given, sweep: &mut Sweep) -> Result<(), WorkloadError> {
    if let Some(model) = given.text("model")? {
        if model.is_empty() || model.len() > 256 || model.chars().any(char::is_control) {
            return Err(given.wrong("model", "is no model's name: write 1 to 256 characters"));
        }
        sweep.flag("model", model);
    }
    if let Some(seed) = given.whole("random_seed", 0..=u64::from(u32::MAX))? {
        sweep.flag("seed", seed);
    }
    if given.text("tokenizer")?.is_some() {
        sweep.notes.push(
            "`tokenizer` is not needed: prompts are calibrated against the endpoint's own count of their tokens."
                .to_owned(),
        );
    }
    if given.boolean("verbose")? == Some(true) {
        return Err(given.wrong(
            "verbose",
            "means nothing here: the run's report holds all there is; leave it out",
        ));
    }
    for (name, only) in [
        ("model_selection_strategy", "round_robin"),
        ("dataset_sampling_strategy", "shuffle"),
    ] {
        if let Some(value) = given.text(name)?
            && value != only
        {
            return Err(given.wrong(
                name,
                "means nothing here: there is one model, and prompts are made up; leave it out",
            ));
        }
    }
    // Replies are held to their length as it is.
    match given.text("extra_inputs")?.as_deref().map(str::trim) {
        None | Some("" | "ignore_eos:true") => Ok(()),
        Some(_) => Err(given.wrong(
            "extra_inputs",
            "may say `ignore_eos:true` at most, which holds as it is: requests hold nothing else than a workload needs",
        )),
    }
}
