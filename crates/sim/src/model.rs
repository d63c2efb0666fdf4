//! The models: what a forward pass reads, keeps and computes.
//!
//! Sizes come from the models' published configurations; the constants that no configuration tells (fixed time a
//! step, time a sequence, how alike tokens route) were fitted to published measurements, as each says.

/// A mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experts {
    /// Routed experts in each layer.
    pub count: f64,
    /// Of those, how many one token uses.
    pub per_token: f64,
    /// Bytes of all routed experts together.
    pub bytes: f64,
    /// How independently the tokens of a step route, 0 < x <= 1: `n` tokens touch as many experts as
    /// `1 + (n - 1) * x` tokens that each draw afresh would.
    pub independence: f64,
}

/// A model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// The name that targets use.
    pub name: &'static str,
    /// Bytes of all weights in memory.
    pub weight_bytes: f64,
    /// Bytes of the weights that every step reads: everything but routed experts and the input embedding.
    pub dense_bytes: f64,
    /// Routed experts, if any.
    pub experts: Option<Experts>,
    /// Parameters that one token uses.
    pub active_parameters: f64,
    /// KV cache, bytes a token.
    pub kv_bytes_per_token: f64,
    /// Recurrent state, bytes a sequence; 0 for pure attention.
    pub state_bytes: f64,
    /// Fixed time of a step, seconds.
    pub fixed_s: f64,
    /// Time a step never falls below, seconds: without CUDA graphs the launches take that long.
    pub launch_floor_s: f64,
    /// Time a sequence in a step, seconds: sampling, scheduling, detokenisation.
    pub sequence_s: f64,
    /// The instance it runs on when none is named.
    pub default_instance: &'static str,
}

/// NVIDIA Nemotron-3-Nano-30B-A3B in BF16, run eagerly.
///
/// Source of the sizes: model card and configuration. 52 layers (23 Mamba-2, 23 mixture of experts, 6 attention),
/// hidden 2,688, 2 KV heads of 128, 128 experts of which 6 and a shared one serve a token, 31.58 B parameters
/// (29.37 B of them routed), 3.23 B active, vocabulary 131,072.
/// KV: 6 layers * 2 (K, V) * 2 heads * 128 * 2 bytes = 6,144 bytes a token. State: 48.2 MB + 0.85 MB in fp32.
///
/// Fitted constants (`launch_floor_s`, `independence`, `sequence_s`, and the compute efficiency of
/// [`crate::step_cost`]): least largest error in ln(tokens/s) against the AWS sweep on ml.g7e.2xlarge (vLLM 0.19.1
/// eager, 1,024 in, 256 out: 16: 492.5, 32: 904.2, 64: 1433.4, 128: 2066.8, 256: 2823.4) at 95 % of the peak
/// bandwidth; largest error 2.5 %. The floor is real: from 16 to 32 users a step grew by 9 % although it read 50 %
/// more experts. So is the likeness of routing: independent tokens would leave no expert unread from 64 users on.
pub const NEMOTRON_3_NANO: Model = Model {
    name: "nemotron-3-nano",
    weight_bytes: 31.58e9 * 2.0,
    dense_bytes: (31.58e9 - 29.37e9 - 131_072.0 * 2_688.0) * 2.0,
    experts: Some(Experts {
        count: 128.0,
        per_token: 6.0,
        bytes: 29.37e9 * 2.0,
        independence: 0.4,
    }),
    active_parameters: 3.23e9,
    kv_bytes_per_token: 6_144.0,
    state_bytes: 48.2e6 + 0.85e6,
    fixed_s: 0.0,
    launch_floor_s: 30.0e-3,
    sequence_s: 0.040e-3,
    default_instance: "ml.g7e.2xlarge",
};

/// Meta Llama-3.1-8B in BF16.
///
/// Source of the sizes: its configuration. 32 layers, hidden 4,096, 8 KV heads of 128, vocabulary 128,256 with
/// separate input and output embeddings, 8.03 B parameters. KV: 32 * 2 * 8 * 128 * 2 bytes = 131,072 bytes a token.
///
/// Fitted to the published form on an RTX PRO 6000 (vLLM 0.19): 9.9 ms + 0.055 ms a sequence + 7.7e-5 ms a context
/// token. The last says 131,072 bytes in 77 ns, 1,702 GB/s: more than the Server Edition's 1,597 GB/s, and 95 % of
/// the Workstation Edition's 1,792 GB/s, so that is the card. The weights then take 8.8 ms of the 9.9.
pub const LLAMA_3_1_8B: Model = Model {
    name: "llama-3.1-8b",
    weight_bytes: 8.03e9 * 2.0,
    dense_bytes: (8.03e9 - 128_256.0 * 4_096.0) * 2.0,
    experts: None,
    active_parameters: 8.03e9 - 128_256.0 * 4_096.0,
    kv_bytes_per_token: 131_072.0,
    state_bytes: 0.0,
    fixed_s: 1.08e-3,
    launch_floor_s: 0.0,
    sequence_s: 0.055e-3,
    default_instance: "ml.g6e.2xlarge",
};

/// Qwen3-30B-A3B with FP8 weights.
///
/// Source of the sizes: its configuration. 48 layers, hidden 2,048, 32 query and 4 KV heads of 128, 128 experts of
/// inner width 768 of which 8 serve a token, vocabulary 151,936, 30.53 B parameters. Routed: 48 * 128 * 3 * 2,048 *
/// 768 = 28.99 B. Attention 0.906 B in FP8; router and output embedding in BF16. KV in BF16: 98,304 bytes a token.
///
/// Fitted to the published step times on an RTX PRO 6000: 7.0 ms at 1 sequence, 24.2 at 34, 34.8 at 138, 45.6 at
/// 256, taken at 512 tokens a sequence, which they do not state. They grow by 22 ms from 1 to "all experts": 29 GB,
/// one byte a parameter (two would take 35 ms), so the weights were FP8.
pub const QWEN3_30B_A3B: Model = Model {
    name: "qwen3-30b-a3b",
    weight_bytes: 28.99e9 + 0.906e9 + (0.0126e9 + 2.0 * 0.3112e9) * 2.0,
    dense_bytes: 0.906e9 + (0.0126e9 + 0.3112e9) * 2.0,
    experts: Some(Experts {
        count: 128.0,
        per_token: 8.0,
        bytes: 28.99e9,
        independence: 1.0,
    }),
    active_parameters: 3.03e9,
    kv_bytes_per_token: 98_304.0,
    state_bytes: 0.0,
    fixed_s: 4.94e-3,
    launch_floor_s: 0.0,
    sequence_s: 0.060e-3,
    default_instance: "ml.g7e.2xlarge",
};

/// Every model.
pub const MODELS: [Model; 3] = [NEMOTRON_3_NANO, LLAMA_3_1_8B, QWEN3_30B_A3B];
