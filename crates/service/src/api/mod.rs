//! The operations of SageMaker's benchmark jobs, as JSON in and JSON out. How they travel is the business of others.

mod configs;
mod error;
mod input;
mod jobs;
mod listing;
mod tags;

use std::sync::Arc;

use plimsoll_run::nearest::hint;
use serde_json::Value;

pub use error::{ApiError, Code};
pub(crate) use jobs::output_location;
pub(crate) use listing::{mark, token};

use crate::conductor::Bell;
use crate::folder::Folders;
use crate::name::Arns;
use crate::store::Store;
use crate::target::Targets;

use input::Input;

/// So many jobs may be open at once.
const MOST_OPEN_JOBS: usize = 200;

/// The operations by name.
pub const OPERATIONS: [&str; 12] = [
    "AddTags",
    "CreateAIBenchmarkJob",
    "CreateAIWorkloadConfig",
    "DeleteAIBenchmarkJob",
    "DeleteAIWorkloadConfig",
    "DeleteTags",
    "DescribeAIBenchmarkJob",
    "DescribeAIWorkloadConfig",
    "ListAIBenchmarkJobs",
    "ListAIWorkloadConfigs",
    "ListTags",
    "StopAIBenchmarkJob",
];

/// What the operations work on.
pub struct Api {
    /// Jobs, configs and tags.
    pub store: Arc<Store>,
    /// The jobs' folders.
    pub folders: Folders,
    /// What may be measured.
    pub targets: Targets,
    /// How ARNs look.
    pub arns: Arns,
    /// To be rung when there is work.
    pub bell: Arc<Bell>,
}

impl Api {
    /// Carries an operation out. `body` is the JSON of its request.
    ///
    /// # Errors
    /// As the API knows them; nothing is stored then.
    pub fn call(&self, operation: &str, body: &[u8]) -> Result<Value, ApiError> {
        if !OPERATIONS.contains(&operation) {
            let shown: String = operation.chars().filter(|c| !c.is_control()).take(60).collect();
            return Err(ApiError::new(
                Code::UnknownOperation,
                format!(
                    "operation `{shown}` is not known here{}; those for benchmark jobs, workload configs and tags are",
                    hint(operation, &OPERATIONS)
                ),
            ));
        }
        let input = Input::read(body)?;
        match operation {
            "CreateAIWorkloadConfig" => self.create_config(input),
            "DescribeAIWorkloadConfig" => self.describe_config(input),
            "ListAIWorkloadConfigs" => self.list_configs(input),
            "DeleteAIWorkloadConfig" => self.delete_config(input),
            "CreateAIBenchmarkJob" => self.create_job(input),
            "DescribeAIBenchmarkJob" => self.describe_job(input),
            "ListAIBenchmarkJobs" => self.list_jobs(input),
            "StopAIBenchmarkJob" => self.stop_job(input),
            "DeleteAIBenchmarkJob" => self.delete_job(input),
            "AddTags" => self.add_tags(input),
            "ListTags" => self.list_tags(input),
            _ => self.delete_tags(input),
        }
    }
}

/// A time as the API writes it: seconds since 1970 with a fraction.
fn time(ms: i64) -> Value {
    // Milliseconds of any date are exact in 53 bits.
    (ms as f64 / 1e3).into()
}

#[cfg(test)]
mod tests;
