//! The instances: one accelerator each, with the figures that its maker or cloud publishes.

/// An instance with one accelerator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Instance {
    /// The name that targets use.
    pub name: &'static str,
    /// What is in it.
    pub accelerator: &'static str,
    /// Memory that the driver reports, bytes.
    pub memory_bytes: f64,
    /// Peak memory bandwidth, bytes per second.
    pub bandwidth: f64,
    /// Peak dense BF16 rate, floating-point operations per second.
    pub flops: f64,
}

const MIB: f64 = 1_048_576.0;

/// One NVIDIA RTX PRO 6000 Blackwell Server Edition. AWS EC2 G7e page: 96 GB, 1,597 GB/s. NVIDIA data sheet: 4 PFLOPS
/// of sparse FP4, an eighth of it dense BF16. 97,887 MiB by `nvidia-smi`.
pub const ML_G7E_2XLARGE: Instance = Instance {
    name: "ml.g7e.2xlarge",
    accelerator: "RTX PRO 6000 Server Edition 96 GB",
    memory_bytes: 97_887.0 * MIB,
    bandwidth: 1_597.0e9,
    flops: 500.0e12,
};

/// One NVIDIA L40S. AWS EC2 G6e page: 48 GB. NVIDIA data sheet: 864 GB/s, 362 TFLOPS dense BF16. 46,068 MiB by
/// `nvidia-smi`.
pub const ML_G6E_2XLARGE: Instance = Instance {
    name: "ml.g6e.2xlarge",
    accelerator: "L40S 48 GB",
    memory_bytes: 46_068.0 * MIB,
    bandwidth: 864.0e9,
    flops: 362.0e12,
};

/// One NVIDIA H100 SXM. AWS EC2 P5 page: one H100 with 80 GB. NVIDIA data sheet: 3.35 TB/s, 989 TFLOPS dense BF16.
/// 81,559 MiB by `nvidia-smi`.
pub const ML_P5_4XLARGE: Instance = Instance {
    name: "ml.p5.4xlarge",
    accelerator: "H100 SXM 80 GB",
    memory_bytes: 81_559.0 * MIB,
    bandwidth: 3_350.0e9,
    flops: 989.0e12,
};

/// A desk-side machine with one NVIDIA RTX PRO 6000 Blackwell Workstation Edition. NVIDIA data sheet: 96 GB,
/// 1,792 GB/s. The published step times of Llama-3.1-8B and Qwen3-30B-A3B were taken on this card (see
/// [`crate::model::LLAMA_3_1_8B`]).
pub const RTX_PRO_6000: Instance = Instance {
    name: "rtx-pro-6000",
    accelerator: "RTX PRO 6000 Workstation Edition 96 GB",
    memory_bytes: 97_887.0 * MIB,
    bandwidth: 1_792.0e9,
    flops: 500.0e12,
};

/// Every instance.
pub const INSTANCES: [Instance; 4] = [ML_G7E_2XLARGE, ML_G6E_2XLARGE, ML_P5_4XLARGE, RTX_PRO_6000];
