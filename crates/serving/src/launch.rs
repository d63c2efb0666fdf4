//! What the user tells of a server's configuration: `key=value`, a container's environment, or the command that started it.
//!
//! A vLLM container on Amazon SageMaker is configured by its environment: `SM_VLLM_MAX_MODEL_LEN=8192` becomes
//! `--max-model-len 8192`, `true` or nothing a bare flag, and `false` leaves the flag out. Either way the setting is called
//! `max_model_len` here, so that a container and a command line that mean the same have the same fingerprint.

use serde_json::Value;

use crate::configuration::{Settings, plain};
use crate::secrets::redacted;

/// A configuration that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// No `=`, or nothing before it.
    #[error("`{given}` is not a setting; write key=value, such as max_num_seqs=64")]
    NotASetting {
        /// What was given, without a value.
        given: String,
    },
    /// Quotes that do not close.
    #[error("the command line does not end its quotes; write it as a shell takes it")]
    Quotes,
    /// Nothing in it.
    #[error(
        "no setting in it; write KEY=VALUE lines (SM_VLLM_MAX_MODEL_LEN=8192), a JSON object of them, or a `vllm serve` command"
    )]
    Empty,
}

const PREFIX: &str = "SM_VLLM_";

/// A setting written `key=value`. `false` and `None` are kept as they are told.
///
/// # Errors
/// When it is not one.
pub fn of_pair(text: &str) -> Result<(String, Value), LaunchError> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            let name = name.trim().trim_start_matches('-').replace('-', "_");
            let value = redacted(&name, plain(value.trim()));
            Ok((name, value))
        }
        // Without a name nobody knows whether the rest is a secret.
        Some(_) => Err(LaunchError::NotASetting {
            given: "=...".to_owned(),
        }),
        None => Err(LaunchError::NotASetting {
            given: text.trim().chars().take(40).collect(),
        }),
    }
}

/// A file with settings: `KEY=VALUE` lines of an environment, a JSON object of them (bare, or under `Environment` as
/// SageMaker's models have it), or a command line of vLLM.
///
/// # Errors
/// When it holds none.
pub fn of_file(text: &str) -> Result<Settings, LaunchError> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let settings = if let Ok(Value::Object(object)) = serde_json::from_str::<Value>(text) {
        let inner = ["Environment", "environment", "env"]
            .iter()
            .find_map(|key| object.get(*key)?.as_object());
        of_variables(inner.unwrap_or(&object).iter().map(|(name, value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            (name.clone(), text)
        }))
    } else if is_command(text) {
        of_command(text)?
    } else {
        of_variables(text.lines().filter_map(variable))
    };
    if settings.is_empty() {
        return Err(LaunchError::Empty);
    }
    Ok(settings)
}

/// A line of an environment file, as `docker run --env-file` and shells write them.
fn variable(line: &str) -> Option<(String, String)> {
    let line = line.trim().trim_end_matches('\\').trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    if line.starts_with('#') {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let value = value.trim();
    let bare = ['"', '\''].iter().find_map(|quote| {
        value
            .strip_prefix(*quote)
            .and_then(|inner| inner.strip_suffix(*quote))
    });
    Some((name.trim().to_owned(), bare.unwrap_or(value).to_owned()))
}

fn of_variables(variables: impl Iterator<Item = (String, String)>) -> Settings {
    let mut settings = Settings::new();
    let mut model = None;
    for (name, text) in variables {
        if let Some(flag) = name.strip_prefix(PREFIX) {
            let name = flag.to_ascii_lowercase();
            let value = if text.is_empty() {
                true.into()
            } else if let Ok(Value::Array(items)) = serde_json::from_str(&text) {
                // One word each on the command line, and none of an empty list.
                match <[Value; 1]>::try_from(items) {
                    Ok([only]) => only,
                    Err(items) if items.is_empty() => continue,
                    Err(items) => Value::Array(items),
                }
            } else {
                plain(&text)
            };
            settings.insert(name.clone(), redacted(&name, value));
        } else if name == "HF_MODEL_ID" {
            model = Some(redacted("model", text.into()));
        } else if !name.is_empty() {
            settings.insert(name.clone(), redacted(&name, plain(&text)));
        }
    }
    if let Some(model) = model {
        settings.entry("model".to_owned()).or_insert(model);
    }
    settings
}

/// Whether it is a command and not a list of variables: its first word that sets none is a program.
fn is_command(text: &str) -> bool {
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| {
        line.starts_with("--")
            || line.split_ascii_whitespace().any(|word| {
                word.rsplit('/').next().is_some_and(|name| name == "vllm") || word.starts_with("vllm.")
            })
    })
}

/// Short flags of `vllm serve`.
const SHORT: [(&str, &str); 6] = [
    ("-tp", "tensor_parallel_size"),
    ("-pp", "pipeline_parallel_size"),
    ("-dp", "data_parallel_size"),
    ("-ep", "enable_expert_parallel"),
    ("-q", "quantization"),
    ("-O", "optimization_level"),
];

fn of_command(text: &str) -> Result<Settings, LaunchError> {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let words = shlex::split(&joined).ok_or(LaunchError::Quotes)?;
    let mut settings = Settings::new();
    let mut set = |name: &str, value: Value| {
        let value = redacted(name, value);
        settings.insert(name.to_owned(), value);
    };
    let mut words = words.iter().peekable();
    let mut program = true;
    while let Some(word) = words.next() {
        if program {
            // Variables before the program, and the program with its own words.
            if let Some((name, value)) = word.split_once('=').filter(|_| !word.starts_with('-')) {
                set(name, plain(value));
                continue;
            }
            if word == "serve" || word.starts_with("vllm.") {
                program = false;
                if let Some(model) = words.next_if(|word| !word.starts_with('-')) {
                    set("model", model.as_str().into());
                }
                continue;
            }
            if !word.starts_with("--") {
                continue;
            }
            program = false;
        }
        let (flag, attached) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (word.as_str(), None),
        };
        let name = match SHORT.iter().find(|(short, _)| *short == flag) {
            Some((_, name)) => (*name).to_owned(),
            None => match flag.strip_prefix("--") {
                Some(name) => name.to_ascii_lowercase().replace('-', "_"),
                None => continue,
            },
        };
        let mut values: Vec<Value> = attached.map(plain).into_iter().collect();
        if attached.is_none() {
            while let Some(value) = words.next_if(|next| !is_flag(next)) {
                values.push(plain(value));
            }
        }
        match (values.pop(), values.is_empty()) {
            (None, _) => match name.strip_prefix("no_") {
                Some(off) => set(off, false.into()),
                None => set(&name, true.into()),
            },
            (Some(only), true) => set(&name, only),
            (Some(last), false) => {
                values.push(last);
                set(&name, Value::Array(values));
            }
        }
    }
    Ok(settings)
}

/// Whether a word is a flag and not a value; negative numbers are values.
fn is_flag(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|rest| rest.starts_with(|c: char| c == '-' || c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn json_of(text: &str) -> Value {
        serde_json::to_value(of_file(text).unwrap()).unwrap()
    }

    #[test]
    fn a_containers_environment_and_the_command_it_becomes_are_the_same_settings() {
        let environment = "# vLLM on SageMaker\nSM_VLLM_MODEL=Qwen/Qwen3-8B\nexport SM_VLLM_MAX_MODEL_LEN=\"10240\"\n\
            SM_VLLM_GPU_MEMORY_UTILIZATION=0.85\nSM_VLLM_ENABLE_PREFIX_CACHING=true\nSM_VLLM_ENFORCE_EAGER=\n\
            SM_VLLM_TENSOR_PARALLEL_SIZE=1\n";
        let command = "vllm serve Qwen/Qwen3-8B \\\n  --max-model-len 10240 --gpu-memory-utilization=0.85 --enable-prefix-caching \\\n --enforce-eager -tp 1";
        let module = "python3 -m vllm.entrypoints.openai.api_server --enable-prefix-caching --enforce-eager --gpu-memory-utilization 0.85 \
            --max-model-len 10240 --model Qwen/Qwen3-8B --tensor-parallel-size 1";
        let object = "{\"Environment\": {\"SM_VLLM_MODEL\": \"Qwen/Qwen3-8B\", \"SM_VLLM_MAX_MODEL_LEN\": \"10240\",
            \"SM_VLLM_GPU_MEMORY_UTILIZATION\": \"0.85\", \"SM_VLLM_ENABLE_PREFIX_CACHING\": \"true\", \"SM_VLLM_ENFORCE_EAGER\": \"\",
            \"SM_VLLM_TENSOR_PARALLEL_SIZE\": 1}}";
        let wanted = json!({"enable_prefix_caching": true, "enforce_eager": true, "gpu_memory_utilization": 0.85,
            "max_model_len": 10240, "model": "Qwen/Qwen3-8B", "tensor_parallel_size": 1});
        for text in [environment, command, module, object] {
            assert_eq!(json_of(text), wanted, "{text}");
        }
    }

    #[test]
    fn lists_in_a_containers_environment_are_words_of_the_command() {
        let environment = "SM_VLLM_SERVED_MODEL_NAME=[\"a\", \"b\"]\nSM_VLLM_LORA_MODULES=[]\nSM_VLLM_MIDDLEWARE=[\"m\"]\nSM_VLLM_MODEL=x";
        let command = "vllm serve x --served-model-name a b --middleware m";
        assert_eq!(json_of(environment), json_of(command));
    }

    #[test]
    fn the_rest_of_a_command_is_understood_too() {
        assert_eq!(
            json_of(
                "VLLM_USE_V1=1 HF_TOKEN=hf_x /opt/bin/vllm serve --no-enable-prefix-caching --api-key sk-1 \
                     --served-model-name a b --kv-transfer-config '{\"kv_role\": \"x\"}' --seed -1"
            ),
            json!({"HF_TOKEN": "***", "VLLM_USE_V1": 1, "api_key": "***", "enable_prefix_caching": false,
                "kv_transfer_config": "{\"kv_role\": \"x\"}", "seed": -1, "served_model_name": ["a", "b"]})
        );
        assert_eq!(
            json_of(
                "HF_MODEL_ID=m/x\nHUGGING_FACE_HUB_TOKEN=t\nSM_VLLM_API_KEY=k\nSM_VLLM_ENFORCE_EAGER=false"
            ),
            json!({"HUGGING_FACE_HUB_TOKEN": "***", "api_key": "***", "enforce_eager": false, "model": "m/x"})
        );
    }

    #[test]
    fn what_is_no_configuration_is_refused_without_repeating_secrets() {
        assert_eq!(of_file(" \n"), Err(LaunchError::Empty));
        assert_eq!(of_file("hello there"), Err(LaunchError::Empty));
        assert_eq!(of_file("vllm serve 'x"), Err(LaunchError::Quotes));
        assert!(
            of_pair("max_num_seqs")
                .unwrap_err()
                .to_string()
                .contains("key=value")
        );
        assert!(!of_pair("=hunter2").unwrap_err().to_string().contains("hunter2"));
        assert_eq!(
            of_pair("--max-num-seqs=64").unwrap(),
            ("max_num_seqs".to_owned(), json!(64))
        );
        assert_eq!(
            of_pair("api-key=x").unwrap(),
            ("api_key".to_owned(), json!("***"))
        );
    }

    proptest! {
        #[test]
        fn no_file_is_too_hostile(text in "(vllm serve )?[a-zA-Z=\"'\\\\ \r\n\\{\\}:,0-9_-]{0,120}") {
            let _ = of_file(&text);
            let _ = of_pair(&text);
        }
    }
}
