//! Sweeps as jobs, with SageMaker's benchmark API for any endpoint.
//!
//! | idea | module |
//! |---|---|
//! | a job and the states it goes through | [`job`] |
//! | jobs, workload configs and tags on disk | [`store`] |

pub mod job;
pub mod store;
