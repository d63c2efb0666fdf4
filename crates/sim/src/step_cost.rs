//! How long a step takes (METHOD section 5).
//!
//! ```text
//! step = max(launch floor, T0 + (dense + U(n)/E * experts + KV read + state) / (bandwidth * eta))
//!        + per-sequence time * sequences + prefill compute
//! U(n) = E (1 - (1 - k/E)^n')        n' = 1 + (n - 1) * independence
//! ```

use std::time::Duration;

use crate::instance::Instance;
use crate::model::Model;

/// Share of the peak memory bandwidth that is reached: Llama-3.1-8B's published KV read, 131,072 bytes in 77 ns, is
/// 95 % of 1,792 GB/s.
pub const BANDWIDTH_EFFICIENCY: f64 = 0.95;

/// Share of the peak compute that prefill reaches: 0.020 ms a token of Nemotron-3-Nano at 500 TFLOPS, from the fit
/// to the AWS sweep (see [`crate::model::NEMOTRON_3_NANO`]).
pub const COMPUTE_EFFICIENCY: f64 = 0.646;

/// Which experts a step reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpertCost {
    /// Time to read all of them, seconds.
    pub all_s: f64,
    /// Share of them that one token uses, 0..=1.
    pub share_per_token: f64,
    /// See [`crate::model::Experts::independence`].
    pub independence: f64,
}

/// The constants of the step time, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepCost {
    /// Fixed.
    pub fixed_s: f64,
    /// No step is shorter.
    pub launch_floor_s: f64,
    /// To read the weights that every step reads.
    pub dense_s: f64,
    /// To read experts.
    pub experts: Option<ExpertCost>,
    /// To read the KV cache of one context token.
    pub kv_token_s: f64,
    /// To read and write the recurrent state of one sequence.
    pub state_s: f64,
    /// For one sequence.
    pub sequence_s: f64,
    /// To compute one prompt token.
    pub prefill_token_s: f64,
}

/// What a step does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepLoad {
    /// Sequences in it.
    pub sequences: u32,
    /// Tokens in it, prompt tokens included.
    pub tokens: u32,
    /// Of those, the prompt tokens (and tokens recomputed after a preemption).
    pub prefill_tokens: u32,
    /// Context tokens of all its sequences, whose KV is read.
    pub context_tokens: u64,
}

impl StepCost {
    /// Of a model on an instance.
    #[must_use]
    pub fn of(model: &Model, instance: &Instance) -> Self {
        let bandwidth = instance.bandwidth * BANDWIDTH_EFFICIENCY;
        StepCost {
            fixed_s: model.fixed_s,
            launch_floor_s: model.launch_floor_s,
            dense_s: model.dense_bytes / bandwidth,
            experts: model.experts.map(|experts| ExpertCost {
                all_s: experts.bytes / bandwidth,
                share_per_token: experts.per_token / experts.count,
                independence: experts.independence,
            }),
            kv_token_s: model.kv_bytes_per_token / bandwidth,
            state_s: 2.0 * model.state_bytes / bandwidth,
            sequence_s: model.sequence_s,
            prefill_token_s: 2.0 * model.active_parameters / (instance.flops * COMPUTE_EFFICIENCY),
        }
    }

    /// The same engine with a clock that runs `speed` times as fast.
    #[must_use]
    pub fn at_speed(&self, speed: f64) -> Self {
        StepCost {
            fixed_s: self.fixed_s / speed,
            launch_floor_s: self.launch_floor_s / speed,
            dense_s: self.dense_s / speed,
            experts: self.experts.map(|experts| ExpertCost {
                all_s: experts.all_s / speed,
                ..experts
            }),
            kv_token_s: self.kv_token_s / speed,
            state_s: self.state_s / speed,
            sequence_s: self.sequence_s / speed,
            prefill_token_s: self.prefill_token_s / speed,
        }
    }

    /// The share of the routed experts that a step with `tokens` tokens reads, 0..=1.
    fn expert_share(experts: &ExpertCost, tokens: u32) -> f64 {
        if tokens == 0 {
            return 0.0;
        }
        let draws = 1.0 + (f64::from(tokens) - 1.0) * experts.independence;
        1.0 - (1.0 - experts.share_per_token).powf(draws)
    }

    /// How long a step takes.
    #[must_use]
    pub fn duration(&self, load: &StepLoad) -> Duration {
        let sequences = f64::from(load.sequences);
        let experts = self.experts.as_ref().map_or(0.0, |experts| {
            experts.all_s * Self::expert_share(experts, load.tokens)
        });
        let read = self.fixed_s
            + self.dense_s
            + experts
            + self.kv_token_s * load.context_tokens as f64
            + self.state_s * sequences;
        let seconds = read.max(self.launch_floor_s)
            + self.sequence_s * sequences
            + self.prefill_token_s * f64::from(load.prefill_tokens);
        // A step of no time would let virtual time stand still.
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(Duration::MAX / 4)
            .max(Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::RTX_PRO_6000;
    use crate::model::{LLAMA_3_1_8B, QWEN3_30B_A3B};

    fn decode_ms(cost: &StepCost, sequences: u32, context: u64) -> f64 {
        let load = StepLoad {
            sequences,
            tokens: sequences,
            prefill_tokens: 0,
            context_tokens: context,
        };
        cost.duration(&load).as_secs_f64() * 1e3
    }

    #[test]
    fn llama_meets_its_published_form() {
        let cost = StepCost::of(&LLAMA_3_1_8B, &RTX_PRO_6000);
        for (sequences, context) in [(1, 100), (8, 8_000), (32, 20_000), (128, 100_000), (256, 150_000)] {
            let published = 9.9 + 0.055 * f64::from(sequences) + 7.7e-5 * context as f64;
            let ours = decode_ms(&cost, sequences, context);
            assert!(
                (ours / published - 1.0).abs() < 0.01,
                "{sequences}: {ours} against {published}"
            );
        }
    }

    #[test]
    fn qwen_meets_its_published_step_times() {
        let cost = StepCost::of(&QWEN3_30B_A3B, &RTX_PRO_6000);
        for (sequences, published) in [(1, 7.0), (34, 24.2), (138, 34.8), (256, 45.6)] {
            let ours = decode_ms(&cost, sequences, u64::from(sequences) * 512);
            assert!(
                (ours / published - 1.0).abs() < 0.03,
                "{sequences}: {ours} against {published}"
            );
        }
    }

    #[test]
    fn tokens_touch_the_experts_of_the_formula() {
        let experts = ExpertCost {
            all_s: 1.0,
            share_per_token: 8.0 / 128.0,
            independence: 1.0,
        };
        assert_eq!(StepCost::expert_share(&experts, 0), 0.0);
        assert!((StepCost::expert_share(&experts, 1) - 8.0 / 128.0).abs() < 1e-12);
        // 128 (1 - (120/128)^2) = 15.5 experts.
        assert!((StepCost::expert_share(&experts, 2) * 128.0 - 15.5).abs() < 1e-9);
    }

    #[test]
    fn a_faster_clock_divides_every_step() {
        let cost = StepCost::of(&QWEN3_30B_A3B, &RTX_PRO_6000);
        let ratio = decode_ms(&cost, 50, 5_000) / decode_ms(&cost.at_speed(10.0), 50, 5_000);
        assert!((ratio - 10.0).abs() < 1e-3, "{ratio}");
    }
}
