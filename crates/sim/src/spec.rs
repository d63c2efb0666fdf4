//! What an engine is made of: step cost, serving settings and the KV pool that they leave.

use crate::instance::Instance;
use crate::model::Model;
use crate::step_cost::StepCost;

/// Memory kept for activations and graphs, bytes. vLLM profiles some 1 to 4 GB for models of this size.
const ACTIVATION_BYTES: f64 = 2.0e9;

/// The serving settings, named as vLLM names them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Serving {
    /// Sequences that run at once, at least 1.
    pub max_num_seqs: u32,
    /// Tokens in one step, at least 1.
    pub max_num_batched_tokens: u32,
    /// Tokens in a KV block, at least 1.
    pub block_size: u32,
    /// Share of the accelerator's memory that the engine may use.
    pub gpu_memory_utilization: f64,
    /// Prompt and reply together, tokens.
    pub max_model_len: u32,
    /// Whether blocks of equal prompts are shared.
    pub prefix_caching: bool,
}

/// An engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSpec {
    /// The model's name, under which it is served.
    pub model: String,
    /// The instance's name.
    pub instance: String,
    /// How long steps take.
    pub cost: StepCost,
    /// Serving settings.
    pub serving: Serving,
    /// Blocks in the KV pool.
    pub kv_blocks: u32,
    /// Blocks that a running sequence holds for its recurrent state.
    pub state_blocks: u32,
}

/// A model that does not fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{model} does not fit on {instance}: its weights take {weights_gb:.1} GB of the {usable_gb:.1} GB that the engine may use, \
     and the KV cache needs the rest; name a larger instance"
)]
pub struct DoesNotFit {
    /// The model.
    pub model: String,
    /// The instance.
    pub instance: String,
    /// Its weights, GB.
    pub weights_gb: f64,
    /// What is there, GB.
    pub usable_gb: f64,
}

impl EngineSpec {
    /// A model on an instance. KV pool = utilisation * memory - weights - activations.
    ///
    /// # Errors
    /// When the weights leave no room for one sequence of the maximum length.
    pub fn of(model: &Model, instance: &Instance, serving: Serving) -> Result<Self, DoesNotFit> {
        let usable = instance.memory_bytes * serving.gpu_memory_utilization;
        let pool = usable - model.weight_bytes - ACTIVATION_BYTES;
        let block_bytes = model.kv_bytes_per_token * f64::from(serving.block_size);
        // Float to integer conversions saturate, so a negative pool is one of no blocks.
        let kv_blocks = (pool / block_bytes).floor() as u32;
        let state_blocks = (model.state_bytes / block_bytes).ceil() as u32;
        let least = serving.max_model_len.div_ceil(serving.block_size) + state_blocks;
        if kv_blocks < least {
            return Err(DoesNotFit {
                model: model.name.to_owned(),
                instance: instance.name.to_owned(),
                weights_gb: model.weight_bytes / 1e9,
                usable_gb: usable / 1e9,
            });
        }
        Ok(EngineSpec {
            model: model.name.to_owned(),
            instance: instance.name.to_owned(),
            cost: StepCost::of(model, instance),
            serving,
            kv_blocks,
            state_blocks,
        })
    }

    /// The same engine with a clock that runs `speed` times as fast: levels do not change, rates do.
    #[must_use]
    pub fn at_speed(&self, speed: f64) -> Self {
        EngineSpec {
            cost: self.cost.at_speed(speed),
            ..self.clone()
        }
    }
}
