//! Ready-made engines by name, each with a workload, an SLA and a peak to try it with.

use std::time::Duration;

use plimsoll_run::nearest::hint;
use plimsoll_run::peak::Peak;
use plimsoll_run::sla::{Metric, Op, Sla, SlaTerm, Stat};
use plimsoll_run::workload::{TokenLength, Workload};

use crate::instance::{INSTANCES, Instance};
use crate::model::{MODELS, Model};
use crate::spec::{DoesNotFit, EngineSpec, Serving};
use crate::step_cost::StepCost;

/// An engine and how to try it.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// `sim`, or `sim:MODEL@INSTANCE`.
    pub name: String,
    /// The engine.
    pub spec: EngineSpec,
    /// What a request looks like unless the user says otherwise.
    pub workload: Workload,
    /// The SLA unless the user says otherwise.
    pub sla: Sla,
    /// The peak unless the user says otherwise.
    pub peak: Peak,
}

/// A name that no preset has.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PresetError {
    /// Not a simulated target at all.
    #[error(
        "`{0}` is not a simulated target; write `sim`, `sim:MODEL` or `sim:MODEL@INSTANCE`, such as `sim:nemotron-3-nano@ml.g7e.2xlarge`"
    )]
    NotSimulated(String),
    /// No such model.
    #[error("`{given}` is not a simulated model{hint}; models are {known}")]
    UnknownModel {
        /// What was given.
        given: String,
        /// The nearest one, as ` (did you mean ...?)`.
        hint: String,
        /// All of them.
        known: String,
    },
    /// No such instance.
    #[error("`{given}` is not a simulated instance{hint}; instances are {known}")]
    UnknownInstance {
        /// What was given.
        given: String,
        /// The nearest one, as ` (did you mean ...?)`.
        hint: String,
        /// All of them.
        known: String,
    },
    /// They do not go together.
    #[error(transparent)]
    DoesNotFit(#[from] DoesNotFit),
}

/// The names of all models.
#[must_use]
pub fn model_names() -> Vec<&'static str> {
    MODELS.iter().map(|model| model.name).collect()
}

/// The names of all instances.
#[must_use]
pub fn instance_names() -> Vec<&'static str> {
    INSTANCES.iter().map(|instance| instance.name).collect()
}

/// The preset that a target names: `sim`, `sim:MODEL` (on the model's default instance) or `sim:MODEL@INSTANCE`.
///
/// # Errors
/// When there is none of that name; the error names the nearest one.
pub fn preset(target: &str) -> Result<Preset, PresetError> {
    if target == "sim" {
        return Ok(quick());
    }
    let Some(rest) = target.strip_prefix("sim:") else {
        return Err(PresetError::NotSimulated(target.to_owned()));
    };
    match rest.split_once('@') {
        Some((model, instance)) => of(model, Some(instance)),
        None => of(rest, None),
    }
}

/// The preset of a model on an instance, or on its default one.
///
/// # Errors
/// When either is unknown, or the model does not fit.
pub fn of(model: &str, instance: Option<&str>) -> Result<Preset, PresetError> {
    let model = MODELS
        .iter()
        .find(|known| known.name == model)
        .ok_or_else(|| PresetError::UnknownModel {
            given: model.to_owned(),
            hint: hint(model, &model_names()),
            known: model_names().join(", "),
        })?;
    let instance = instance.unwrap_or(model.default_instance);
    let instance = INSTANCES
        .iter()
        .find(|known| known.name == instance)
        .ok_or_else(|| PresetError::UnknownInstance {
            given: instance.to_owned(),
            hint: hint(instance, &instance_names()),
            known: instance_names().join(", "),
        })?;
    let spec = EngineSpec::of(model, instance, serving(model, instance))?;
    Ok(Preset {
        name: format!("sim:{}@{}", model.name, instance.name),
        spec,
        // The workload and the SLA of AWS's published sweep of Nemotron-3-Nano.
        workload: Workload {
            input_tokens: TokenLength::fixed(1_024),
            output_tokens: TokenLength::fixed(256),
            streaming: true,
            ..Workload::default()
        },
        sla: Sla {
            terms: vec![
                at_most(Metric::Ttft, Stat::P95, Duration::from_millis(1_500)),
                at_most(Metric::E2e, Stat::P99, Duration::from_secs(50)),
            ],
        },
        peak: Peak::Rate(40.0),
    })
}

/// vLLM's defaults, and for Nemotron-3-Nano the settings of AWS's sweep.
fn serving(model: &Model, instance: &Instance) -> Serving {
    let aws = model.name == crate::model::NEMOTRON_3_NANO.name;
    Serving {
        // vLLM's scheduler default. AWS's sweep shows the plateau that follows from it: 2,823 tokens/s at 256 users
        // and 2,782 at 512.
        max_num_seqs: 256,
        // vLLM's server default: 8,192 on accelerators with 70 GiB and more, else 2,048.
        max_num_batched_tokens: if instance.memory_bytes >= 70.0 * 1_073_741_824.0 {
            8_192
        } else {
            2_048
        },
        block_size: 16,
        gpu_memory_utilization: if aws { 0.85 } else { 0.9 },
        max_model_len: 10_240,
        prefix_caching: true,
    }
}

fn at_most(metric: Metric, stat: Stat, limit: Duration) -> SlaTerm {
    SlaTerm {
        metric,
        stat: Some(stat),
        op: Op::AtMost,
        limit: limit.as_secs_f64() * 1e3,
    }
}

/// The quick preset: an engine of no real model, made so that a whole sweep of 64, 256, 1024 with refinement between
/// them fits into two minutes of wall time, and the client and the server into two cores.
///
/// 128 sequences run at once, in steps of some 14 ms + 0.065 ms a sequence (prefill included). It answers 64 users
/// in 0.3 s, gives some 5,700 tokens/s from 128 users on, and TTFT breaks 250 ms where some 70 users wait.
#[must_use]
pub fn quick() -> Preset {
    Preset {
        name: "sim".to_owned(),
        spec: EngineSpec {
            model: "plimsoll-quick".to_owned(),
            instance: "sim".to_owned(),
            cost: StepCost {
                fixed_s: 14.0e-3,
                launch_floor_s: 0.0,
                dense_s: 0.0,
                experts: None,
                kv_token_s: 0.0,
                state_s: 0.0,
                sequence_s: 0.045e-3,
                prefill_token_s: 0.005e-3,
            },
            serving: Serving {
                max_num_seqs: 128,
                max_num_batched_tokens: 2_048,
                block_size: 16,
                gpu_memory_utilization: 0.9,
                max_model_len: 4_096,
                prefix_caching: true,
            },
            kv_blocks: 8_192,
            state_blocks: 0,
        },
        workload: Workload {
            input_tokens: TokenLength::fixed(64),
            output_tokens: TokenLength::Normal {
                mean: 16,
                stddev: 4.0,
            },
            streaming: true,
            ..Workload::default()
        },
        sla: Sla {
            terms: vec![
                at_most(Metric::Ttft, Stat::P95, Duration::from_millis(250)),
                at_most(Metric::Tpot, Stat::P95, Duration::from_millis(30)),
            ],
        },
        peak: Peak::Rate(1_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_a_preset_of_its_own() {
        for name in model_names() {
            let by_model = preset(&format!("sim:{name}")).unwrap();
            assert_eq!(preset(&by_model.name), Ok(by_model.clone()));
            assert_eq!(by_model.spec.model, name);
        }
        assert_eq!(preset("sim").unwrap().name, "sim");
    }

    #[test]
    fn unknown_names_are_answered_with_the_nearest() {
        let message = |target: &str| preset(target).unwrap_err().to_string();
        assert!(message("sim:nemotron-3-nono").contains("did you mean `nemotron-3-nano`?"));
        let instance = message("sim:llama-3.1-8b@ml.g7e.4xlarge");
        assert!(instance.contains("did you mean `ml.g7e.2xlarge`?"), "{instance}");
        assert!(instance.contains("ml.p5.4xlarge"), "{instance}");
        assert!(message("simm").contains("sim:MODEL@INSTANCE"));
        assert!(message("sim:").contains("models are nemotron-3-nano"));
    }

    #[test]
    fn a_model_larger_than_the_memory_is_refused() {
        let message = preset("sim:nemotron-3-nano@ml.g6e.2xlarge")
            .unwrap_err()
            .to_string();
        assert!(message.contains("does not fit on ml.g6e.2xlarge"), "{message}");
    }

    #[test]
    fn the_kv_pool_is_what_the_weights_leave() {
        let spec = preset("sim:llama-3.1-8b@ml.p5.4xlarge").unwrap().spec;
        // 81,559 MiB * 0.9 - 16.06 GB - 2 GB = 58.9 GB, in blocks of 16 * 131,072 bytes.
        let expected: f64 = (81_559.0 * 1_048_576.0 * 0.9 - 16.06e9 - 2e9) / (16.0 * 131_072.0);
        assert_eq!(f64::from(spec.kv_blocks), expected.floor());
    }
}
