//! The vocabulary of a run and its directory on disk.
//!
//! Every other crate speaks in these types. They follow the path of a run:
//!
//! | what is asked | [`workload`], [`sla`], [`peak`], [`ladder`], [`target`] |
//! |---|---|
//! | driving one rung | [`runner`] |
//! | what it left behind | [`request`], [`evidence`] |
//! | what it says | [`rung`], [`validity`] |
//! | what follows | [`answer`], against another run [`comparison`] |
//! | on disk | [`document`], [`directory`], of an imported table [`table`] |
//!
//! Durations are [`std::time::Duration`] in code and carry their unit in the name on disk (`_ms`, `_s`). Rates are
//! per second, shares are fractions.

pub mod answer;
pub mod comparison;
mod custom;
pub mod demand;
pub mod directory;
pub mod document;
pub mod evidence;
pub mod ladder;
pub mod nearest;
pub mod peak;
pub mod request;
mod requests_parquet;
pub mod rung;
pub mod runner;
pub mod sla;
pub mod table;
pub mod target;
mod token_length;
pub mod units;
pub mod validity;
pub mod verification;
pub mod workload;
