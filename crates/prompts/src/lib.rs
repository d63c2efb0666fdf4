//! What is asked of an endpoint: lengths, prompts, shared prefixes, conversations, datasets and traces.
//!
//! Everything follows from the run's seed: equal seeds ask the same, and no two requests of a run are alike unless the
//! workload wants them to be.

mod calibration;
mod dataset;
mod error;
mod file;
pub mod lengths;
mod outline;
mod prefix;
mod prompts;
mod request;
mod rows;
mod seed;
mod table;
mod talk;
mod tokenizer;
pub mod trace;
mod words;

pub use calibration::Calibration;
pub use dataset::{Dataset, DatasetFormat, DatasetFormatError, DatasetOptions};
pub use error::SourceError;
pub use outline::{Outline, Part};
pub use prefix::prefix_of;
pub use prompts::{Prompts, RungPrompts, SlotPrompts};
pub use request::{Drawn, Role, Turn};
pub use rows::{Loaded, Rows, load_dataset, load_trace, named_file};
pub use seed::{Which, mix};
pub use tokenizer::count_with;
pub use words::{WORDS, of_words, synthetic};
