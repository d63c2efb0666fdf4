//! From rungs to planning numbers, as pure code: no clock, no I/O; time and randomness come in as arguments.
//!
//! | step | module |
//! |---|---|
//! | when a rung's window opens and closes | [`conduct`] |
//! | evidence to report | [`reduce`](mod@reduce) |
//! | report against the SLA | [`judge`](mod@judge) |
//! | may it be believed | [`validity`] |
//! | rungs to planning numbers | [`answer`](mod@answer) |
//! | another question of the same rungs | [`ask_again`] |
//! | which level comes next | [`search`] |
//! | what keeps throughput from growing | `bound` |
//! | a table someone else measured | [`imported`] |
//! | arrivals in open loop | [`arrivals`], [`trace`] |
//! | did the safe rate hold | [`verification`] |
//! | one run against another | [`regression`] |

mod again;
pub mod answer;
pub mod arrivals;
mod bootstrap;
mod bound;
mod bracket;
pub mod conduct;
mod distribution;
mod doubt;
mod estimate;
mod fleet;
pub mod imported;
mod instances;
mod interval;
pub mod judge;
mod knee;
mod levels;
mod limit;
mod onset;
mod outlier;
pub mod reduce;
pub mod regression;
mod response;
mod rows;
pub mod search;
mod steady;
#[cfg(test)]
mod table;
mod timeline;
mod tokens;
pub mod trace;
pub mod validity;
pub mod verification;
mod wording;

pub use again::ask_again;
pub use answer::{Demand, Routing, answer, trustworthy};
pub use judge::judge;
pub use reduce::{Reduced, reduce};
pub use response::expected_response;
pub use search::{Next, Search, SearchSettings};
pub use validity::{compare, examine, found_nobody, went_away};
