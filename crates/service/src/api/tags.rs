//! Tags of jobs and workload configs.

use serde_json::{Value, json};

use super::Api;
use super::error::ApiError;
use super::input::Input;
use crate::name::{CONFIG, JOB, resource_name};
use crate::store::{MOST_TAGS, Tag};

/// Tags as the API writes them.
pub(super) fn shown_tags(tags: &[Tag]) -> Vec<Value> {
    tags.iter()
        .map(|tag| json!({"Key": tag.key, "Value": tag.value}))
        .collect()
}

impl Api {
    pub(super) fn add_tags(&self, mut input: Input) -> Result<Value, ApiError> {
        let arn = self.resource(&mut input)?;
        let tags = input.tags()?;
        if tags.is_empty() {
            return Err(input.wrong("Tags", "is missing, and needed"));
        }
        input.finish()?;
        self.store.add_tags(&arn, &tags)?;
        Ok(json!({"Tags": shown_tags(&self.store.tags(&arn)?)}))
    }

    /// All at once: no resource has more than a page of them.
    pub(super) fn list_tags(&self, mut input: Input) -> Result<Value, ApiError> {
        let arn = self.resource(&mut input)?;
        input.whole("MaxResults", 50, 1_000_000)?;
        if input.text("NextToken", 0, 8192)?.is_some() {
            return Err(input.wrong("NextToken", "is of no list here: the tags come all at once"));
        }
        input.finish()?;
        Ok(json!({"Tags": shown_tags(&self.store.tags(&arn)?)}))
    }

    pub(super) fn delete_tags(&self, mut input: Input) -> Result<Value, ApiError> {
        let arn = self.resource(&mut input)?;
        let keys = input.need_texts("TagKeys", MOST_TAGS)?;
        input.finish()?;
        self.store.delete_tags(&arn, &keys)?;
        Ok(json!({}))
    }

    /// The ARN of a job or config of this server that is there.
    fn resource(&self, input: &mut Input) -> Result<String, ApiError> {
        let arn = input.need_text("ResourceArn", 1, 256)?;
        let unknown = || {
            ApiError::invalid(
                "`ResourceArn` is not the ARN of a benchmark job or workload config of this server",
            )
        };
        if let Some(name) = resource_name(&arn, JOB) {
            let job = self.store.job(name).map_err(|_| unknown())?;
            Ok(self.arns.job(&job.made.name))
        } else if let Some(name) = resource_name(&arn, CONFIG) {
            let config = self.store.config(name).map_err(|_| unknown())?;
            Ok(self.arns.config(&config.name))
        } else {
            Err(unknown())
        }
    }
}
