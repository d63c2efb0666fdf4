//! Benchmark jobs: create, describe, list, stop, delete.

use serde_json::{Value, json};

use super::error::{ApiError, Code, named};
use super::input::Input;
use super::listing::{listing, token};
use super::tags::shown_tags;
use super::{Api, MOST_OPEN_JOBS, time};
use crate::job::{Job, NewJob};
use crate::location::Location;
use crate::name::{CONFIG, JOB, is_role_arn};
use crate::workload;

impl Api {
    pub(super) fn create_job(&self, mut input: Input) -> Result<Value, ApiError> {
        let name = input.need_name("AIBenchmarkJobName")?;
        let identifier = target(&mut input)?;
        let output = output(&mut input)?;
        let config = input.need_text("AIWorkloadConfigIdentifier", 1, 256)?;
        let role = input.need_text("RoleArn", 20, 2048)?;
        if !is_role_arn(&role) {
            return Err(input.wrong(
                "RoleArn",
                "is no ARN of a role, such as arn:aws:iam::123456789012:role/Name (nothing is done with it here)",
            ));
        }
        input.refuse("NetworkConfig", "targets are reached from where this server runs")?;
        let tags = input.tags()?;
        input.finish()?;
        let target = self
            .targets
            .find(&identifier)
            .map_err(|error| ApiError::invalid(error.to_string()))?;
        let config_name = named(&config, CONFIG, "AIWorkloadConfigIdentifier")?;
        let inline = self.inline(config_name)?;
        if self.store.open_jobs()?.len() >= MOST_OPEN_JOBS {
            return Err(ApiError::new(
                Code::LimitExceeded,
                format!("{MOST_OPEN_JOBS} jobs are open already; wait for one to end, or stop one"),
            ));
        }
        let arn = self.arns.job(&name);
        let job = NewJob {
            name,
            target: target.name.clone(),
            config: config_name.to_owned(),
            workload: inline,
            request: json!({
                "BenchmarkTarget": {"Endpoint": {"Identifier": identifier}},
                "OutputConfig": {"S3OutputLocation": output},
                "AIWorkloadConfigIdentifier": config,
                "RoleArn": role,
            }),
        };
        self.store.create_job(&job, &arn, &tags)?;
        self.bell.ring();
        Ok(json!({"AIBenchmarkJobArn": arn}))
    }

    /// The workload of a config.
    fn inline(&self, name: &str) -> Result<String, ApiError> {
        let config = self.store.config(name)?;
        let inline = config.document.pointer("/AIWorkloadConfigs/WorkloadSpec/Inline");
        let inline = inline.and_then(Value::as_str).ok_or_else(|| {
            ApiError::invalid(format!(
                "workload config `{name}` has no `AIWorkloadConfigs.WorkloadSpec.Inline`; make one that has"
            ))
        })?;
        // A config may be of an earlier version of this server.
        workload::read(inline).map_err(|error| ApiError::invalid(error.to_string()))?;
        Ok(inline.to_owned())
    }

    pub(super) fn describe_job(&self, input: Input) -> Result<Value, ApiError> {
        let job = self.store.job(&job_name(input)?)?;
        let arn = self.arns.job(&job.made.name);
        let request = &job.made.request;
        let mut answer = json!({
            "AIBenchmarkJobName": job.made.name,
            "AIBenchmarkJobArn": arn,
            "AIBenchmarkJobStatus": job.status.name(),
            "BenchmarkTarget": request["BenchmarkTarget"],
            "OutputConfig": {"S3OutputLocation": output_location(&job).map(|location| location.to_string())},
            "AIWorkloadConfigIdentifier": request["AIWorkloadConfigIdentifier"],
            "RoleArn": request["RoleArn"],
            "CreationTime": time(job.created_ms),
            "Tags": shown_tags(&self.store.tags(&arn)?),
        });
        for (name, ms) in [("StartTime", job.started_ms), ("EndTime", job.ended_ms)] {
            if let Some(ms) = ms {
                answer[name] = time(ms);
            }
        }
        if let Some(reason) = job.failure {
            answer["FailureReason"] = reason.into();
        }
        Ok(answer)
    }

    pub(super) fn list_jobs(&self, input: Input) -> Result<Value, ApiError> {
        let listing = listing(input, true)?;
        let page = self.store.jobs(&listing)?;
        let items: Vec<Value> = page
            .items
            .iter()
            .map(|job| {
                let mut item = json!({
                    "AIBenchmarkJobName": job.made.name,
                    "AIBenchmarkJobArn": self.arns.job(&job.made.name),
                    "AIBenchmarkJobStatus": job.status.name(),
                    "CreationTime": time(job.created_ms),
                    "AIWorkloadConfigName": job.made.config,
                });
                if let Some(ms) = job.ended_ms {
                    item["EndTime"] = time(ms);
                }
                item
            })
            .collect();
        let mut answer = json!({"AIBenchmarkJobs": items});
        if let Some(mark) = page.next {
            answer["NextToken"] = token(&mark, &listing).into();
        }
        Ok(answer)
    }

    pub(super) fn stop_job(&self, input: Input) -> Result<Value, ApiError> {
        let name = job_name(input)?;
        self.stop(&name)
    }

    /// Asks a job to stop.
    ///
    /// # Errors
    /// When there is none, or it has ended.
    pub fn stop(&self, name: &str) -> Result<Value, ApiError> {
        self.store.ask_to_stop(name)?;
        self.bell.ring();
        Ok(json!({"AIBenchmarkJobArn": self.arns.job(name)}))
    }

    pub(super) fn delete_job(&self, input: Input) -> Result<Value, ApiError> {
        let name = job_name(input)?;
        let arn = self.arns.job(&name);
        let job = self.store.delete_job(&name, &arn)?;
        // The results in the output location stay. A folder that cannot be removed harms nobody: its number is not used again.
        let _ = self.folders.remove(job.id);
        Ok(json!({"AIBenchmarkJobArn": arn}))
    }
}

fn job_name(mut input: Input) -> Result<String, ApiError> {
    let text = input.need_text("AIBenchmarkJobName", 1, 256)?;
    input.finish()?;
    named(&text, JOB, "AIBenchmarkJobName").map(str::to_owned)
}

/// The endpoint's identifier.
fn target(input: &mut Input) -> Result<String, ApiError> {
    let mut target = input.need_object("BenchmarkTarget")?;
    let mut endpoint = target.need_object("Endpoint")?;
    let identifier = endpoint.need_text("Identifier", 1, 256)?;
    endpoint.refuse("TargetContainerHostname", "a target is one address")?;
    endpoint.refuse("InferenceComponents", "a target is one address")?;
    endpoint.finish()?;
    target.finish()?;
    Ok(identifier)
}

/// The output location as it was given.
fn output(input: &mut Input) -> Result<String, ApiError> {
    let mut output = input.need_object("OutputConfig")?;
    let text = output.need_text("S3OutputLocation", 1, 1024)?;
    Location::parse(&text)
        .map_err(|error| ApiError::invalid(format!("`OutputConfig.S3OutputLocation`: {error}")))?;
    output.refuse("MlflowConfig", "this server logs to no MLflow")?;
    output.finish()?;
    Ok(text)
}

/// The job's own place within the output location, so that jobs of one location do not mix.
pub(crate) fn output_location(job: &Job) -> Option<Location> {
    let given = job
        .made
        .request
        .pointer("/OutputConfig/S3OutputLocation")?
        .as_str()?;
    let location = Location::parse(given).ok()?;
    Some(location.within(&format!("{}-{:06}", job.made.name, job.id)))
}
