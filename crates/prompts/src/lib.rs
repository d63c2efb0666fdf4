//! What is asked of an endpoint: lengths, prompts, shared prefixes, conversations, datasets and traces.
//!
//! Everything follows from the run's seed: equal seeds ask the same, and no two requests of a run are alike unless the
//! workload wants them to be.

mod calibration;
pub mod lengths;
mod request;
mod seed;
mod words;

pub use calibration::Calibration;
pub use request::{Drawn, Role, Turn};
pub use seed::{Which, mix};
pub use words::{WORDS, of_words, synthetic};
