//! Workload configs: create, describe, list, delete.

use serde_json::{Map, Value, json};

use super::error::{ApiError, named};
use super::input::Input;
use super::listing::{listing, token};
use super::tags::shown_tags;
use super::{Api, time};
use crate::name::CONFIG;
use crate::workload;

impl Api {
    pub(super) fn create_config(&self, mut input: Input) -> Result<Value, ApiError> {
        let name = input.need_name("AIWorkloadConfigName")?;
        input.refuse(
            "DatasetConfig",
            "this server reads no datasets; give token lengths",
        )?;
        let mut document = Map::new();
        if let Some(mut configs) = input.object("AIWorkloadConfigs")? {
            let mut spec = configs.need_object("WorkloadSpec")?;
            let inline = spec.need_text("Inline", 1, 1 << 20)?;
            workload::read(&inline).map_err(|error| ApiError::invalid(error.to_string()))?;
            spec.finish()?;
            configs.finish()?;
            document.insert(
                "AIWorkloadConfigs".to_owned(),
                json!({"WorkloadSpec": {"Inline": inline}}),
            );
        }
        let tags = input.tags()?;
        input.finish()?;
        let arn = self.arns.config(&name);
        self.store.create_config(&name, &document.into(), &arn, &tags)?;
        Ok(json!({"AIWorkloadConfigArn": arn}))
    }

    pub(super) fn describe_config(&self, input: Input) -> Result<Value, ApiError> {
        let name = config_name(input)?;
        let config = self.store.config(&name)?;
        let arn = self.arns.config(&name);
        let mut answer = json!({
            "AIWorkloadConfigName": config.name,
            "AIWorkloadConfigArn": arn,
            "CreationTime": time(config.created_ms),
            "Tags": shown_tags(&self.store.tags(&arn)?),
        });
        if let (Value::Object(answer), Value::Object(document)) = (&mut answer, config.document) {
            answer.extend(document);
        }
        Ok(answer)
    }

    pub(super) fn list_configs(&self, input: Input) -> Result<Value, ApiError> {
        let listing = listing(input, false)?;
        let page = self.store.configs(&listing)?;
        let items: Vec<Value> = page
            .items
            .iter()
            .map(|config| {
                json!({
                    "AIWorkloadConfigName": config.name,
                    "AIWorkloadConfigArn": self.arns.config(&config.name),
                    "CreationTime": time(config.created_ms),
                })
            })
            .collect();
        let mut answer = json!({"AIWorkloadConfigs": items});
        if let Some(mark) = page.next {
            answer["NextToken"] = token(&mark, &listing).into();
        }
        Ok(answer)
    }

    pub(super) fn delete_config(&self, input: Input) -> Result<Value, ApiError> {
        let name = config_name(input)?;
        let arn = self.arns.config(&name);
        self.store.delete_config(&name, &arn)?;
        Ok(json!({"AIWorkloadConfigArn": arn}))
    }
}

fn config_name(mut input: Input) -> Result<String, ApiError> {
    let text = input.need_text("AIWorkloadConfigName", 1, 256)?;
    input.finish()?;
    named(&text, CONFIG, "AIWorkloadConfigName").map(str::to_owned)
}
