//! From rungs to planning numbers, as pure code: no clock, no I/O; time and randomness come in as arguments.
//!
//! | step | module |
//! |---|---|
//! | when a rung's window opens and closes | [`conduct`] |
//! | evidence to report | [`reduce`](mod@reduce) |
//! | report against the SLA | [`judge`](mod@judge) |
//! | may it be believed | [`validity`] |

pub mod conduct;
mod distribution;
mod interval;
pub mod judge;
pub mod reduce;
mod steady;
mod timeline;
mod tokens;
pub mod validity;

pub use judge::judge;
pub use reduce::{Reduced, reduce};
pub use validity::{compare, examine};
