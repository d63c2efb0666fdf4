//! The simulated inference engine, in virtual time and over HTTP.
//!
//! | what | where |
//! |---|---|
//! | what a model reads and an instance gives | [`model`], [`instance`], [`step_cost`], [`spec`] |
//! | continuous batching | [`engine`], [`counters`] |
//! | engines by name, with something to try them with | [`preset`] |
//! | driving it in virtual time | [`runner`] |
//! | serving it over HTTP | [`http`] |
//! | what the engine really gives at a level | [`truth`] |

mod blocks;
mod closed_loop;
pub mod counters;
pub mod engine;
pub mod http;
pub mod instance;
pub mod model;
pub mod preset;
mod prompts;
pub mod runner;
pub mod spec;
pub mod step_cost;
pub mod truth;

pub use closed_loop::ONE_WAY;
