//! What the endpoint says of itself: models, engine, settings.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_run::target::{Dialect, Engine};
use serde_json::Value;

use crate::ask::{Answer, Asker};
use crate::error::PrepareError;

/// Longest waits for the list of models and for the version.
const LIST: Duration = Duration::from_secs(4);
const VERSION: Duration = Duration::from_secs(2);

/// What the endpoint says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Introduction {
    /// The models it lists; `None` when it lists none at all, with the reason in `missing`.
    pub models: Option<Vec<String>>,
    /// Why there is no list.
    pub missing: Option<String>,
    /// The engine, as far as it tells.
    pub engine: Option<Engine>,
    /// Settings of the served models, where the list tells.
    pub settings: BTreeMap<String, BTreeMap<String, Value>>,
}

impl Introduction {
    /// Whether llama.cpp's server said so.
    pub(crate) fn llama_cpp(&self) -> bool {
        self.engine
            .as_ref()
            .is_some_and(|engine| engine.name.as_deref() == Some("llama.cpp"))
    }
}

/// Asks for the list of models and the engine's version. A missing list is not fatal; a dead endpoint is.
pub(crate) async fn introduce(asker: &mut Asker<'_>) -> Result<Introduction, PrepareError> {
    let dialect = asker.line.endpoint.dialect();
    if matches!(dialect, Dialect::Sagemaker | Dialect::Custom) {
        // Neither has a place to ask at.
        return Ok(Introduction::default());
    }
    let (line, target) = (asker.line, asker.line.endpoint.models());
    let answer = match asker.ask(|| line.get(&target), LIST, LIST).await {
        Ok(answer) => answer,
        // Only the list may be stuck, moved or broken: the route itself will tell.
        Err(PrepareError::Silent { seconds, .. }) => {
            return Ok(unlisted(format!("no answer within {seconds} s")));
        }
        Err(PrepareError::Moved { .. }) => return Ok(unlisted("it redirects".to_owned())),
        Err(error) => return Err(error),
    };
    let mut introduction = if answer.ok() {
        match serde_json::from_slice::<Value>(&answer.body) {
            Ok(list) => match dialect {
                Dialect::Ollama => read_tags(&list),
                Dialect::Tgi => read_info(&list),
                _ => read_list(&list),
            },
            Err(_) => unlisted("the answer is not JSON".to_owned()),
        }
    } else {
        unlisted(format!("HTTP {}", answer.status))
    };
    let server = answer.header("server").unwrap_or_default().to_ascii_lowercase();
    if server.starts_with("llama.cpp") {
        introduction.engine = Some(Engine {
            name: Some("llama.cpp".to_owned()),
            version: server.split_once('/').map(|(_, version)| version.to_owned()),
        });
    }
    // Text Generation Inference has said it already.
    if !introduction.llama_cpp() && dialect != Dialect::Tgi {
        let version = version(asker).await;
        if let Some(version) = version {
            let name = introduction.engine.and_then(|engine| engine.name);
            introduction.engine = Some(Engine {
                name,
                version: Some(version),
            });
        }
    }
    Ok(introduction)
}

fn unlisted(reason: String) -> Introduction {
    Introduction {
        missing: Some(reason),
        ..Introduction::default()
    }
}

fn read_list(list: &Value) -> Introduction {
    let Some(data) = list.get("data").and_then(Value::as_array) else {
        return unlisted("the answer has no `data` list".to_owned());
    };
    let mut introduction = Introduction::default();
    let mut models = Vec::new();
    for entry in data {
        let Some(id) = entry.get("id").and_then(Value::as_str) else {
            continue;
        };
        models.push(id.to_owned());
        if let Some(name) = entry
            .get("owned_by")
            .and_then(Value::as_str)
            .and_then(engine_name)
        {
            introduction.engine.get_or_insert(Engine {
                name: Some(name.to_owned()),
                version: None,
            });
        }
        let mut settings = BTreeMap::new();
        for (key, value) in [
            ("max_model_len", entry.get("max_model_len")),
            ("n_ctx", entry.pointer("/meta/n_ctx")),
            ("n_ctx_train", entry.pointer("/meta/n_ctx_train")),
            ("n_params", entry.pointer("/meta/n_params")),
        ] {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                settings.insert(key.to_owned(), value.clone());
            }
        }
        introduction.settings.insert(id.to_owned(), settings);
    }
    introduction.models = Some(models);
    introduction
}

/// What Ollama's `/api/tags` says.
fn read_tags(list: &Value) -> Introduction {
    let Some(entries) = list.get("models").and_then(Value::as_array) else {
        return unlisted("the answer has no `models` list".to_owned());
    };
    let mut introduction = Introduction {
        engine: Some(Engine {
            name: Some("ollama".to_owned()),
            version: None,
        }),
        ..Introduction::default()
    };
    let mut models = Vec::new();
    for entry in entries {
        let Some(name) = entry.get("name").and_then(Value::as_str) else {
            continue;
        };
        models.push(name.to_owned());
        let mut settings = BTreeMap::new();
        for key in ["parameter_size", "quantization_level"] {
            if let Some(value) = entry
                .pointer(&format!("/details/{key}"))
                .filter(|value| !value.is_null())
            {
                settings.insert(key.to_owned(), value.clone());
            }
        }
        introduction.settings.insert(name.to_owned(), settings);
    }
    introduction.models = Some(models);
    introduction
}

/// What `/info` of Text Generation Inference says.
fn read_info(info: &Value) -> Introduction {
    let text = |key: &str| info.get(key).and_then(Value::as_str).map(str::to_owned);
    let Some(model) = text("model_id") else {
        return unlisted("the answer has no `model_id`".to_owned());
    };
    let settings = [
        "max_concurrent_requests",
        "max_input_tokens",
        "max_total_tokens",
        "max_batch_total_tokens",
        "waiting_served_ratio",
        "model_dtype",
        "model_device_type",
    ];
    let settings = settings
        .iter()
        .filter_map(|key| Some((*key, info.get(*key).filter(|value| !value.is_null())?)))
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect();
    Introduction {
        engine: Some(Engine {
            name: Some("tgi".to_owned()),
            version: text("version"),
        }),
        settings: [(model.clone(), settings)].into(),
        models: Some(vec![model]),
        missing: None,
    }
}

/// Engines that sign the models they serve.
fn engine_name(owner: &str) -> Option<&'static str> {
    match owner.to_ascii_lowercase().as_str() {
        "vllm" => Some("vllm"),
        "sglang" => Some("sglang"),
        "llamacpp" | "llama.cpp" => Some("llama.cpp"),
        "lmdeploy" => Some("lmdeploy"),
        "tensorrt_llm" => Some("tensorrt-llm"),
        "plimsoll" | "plimsoll-sim" => Some("plimsoll-sim"),
        _ => None,
    }
}

async fn version(asker: &mut Asker<'_>) -> Option<String> {
    let (line, target) = (asker.line, asker.line.endpoint.version());
    let answer: Answer = asker.ask(|| line.get(&target), VERSION, VERSION).await.ok()?;
    if !answer.ok() {
        return None;
    }
    let version: Value = serde_json::from_slice(&answer.body).ok()?;
    let version = version.get("version")?.as_str()?;
    Some(line.redactor.line(version))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_name_models_engine_and_settings() {
        let list = json!({"object": "list", "data": [
            {"id": "a", "owned_by": "vllm", "max_model_len": 8192, "root": "/x"},
            {"id": "b", "owned_by": "vllm", "parent": "a"}]});
        let introduction = read_list(&list);
        assert_eq!(introduction.models, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(introduction.engine.unwrap().name.as_deref(), Some("vllm"));
        assert_eq!(introduction.settings["a"]["max_model_len"], 8192);
        let llama =
            read_list(&json!({"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 256}}]}));
        assert!(llama.llama_cpp());
        assert_eq!(llama.settings["m"]["n_ctx"], 256);
        assert_eq!(read_list(&json!({"models": []})).models, None);
        assert_eq!(read_list(&json!({"data": []})).models, Some(vec![]));
    }
    #[test]
    fn ollama_and_tgi_have_lists_of_their_own() {
        let tags =
            read_tags(&json!({"models": [{"name": "llama3.2:1b", "details": {"parameter_size": "1.2B"}}]}));
        assert_eq!(tags.models, Some(vec!["llama3.2:1b".to_owned()]));
        assert_eq!(tags.settings["llama3.2:1b"]["parameter_size"], "1.2B");
        let info = read_info(&json!({"model_id": "m", "version": "3.3.4", "max_total_tokens": 4096}));
        assert_eq!(info.models, Some(vec!["m".to_owned()]));
        assert_eq!(info.engine.unwrap().version.as_deref(), Some("3.3.4"));
        assert_eq!(info.settings["m"]["max_total_tokens"], 4096);
        assert_eq!(read_info(&json!({})).models, None);
    }
}
