//! Sweeps as jobs, with SageMaker's benchmark API for any endpoint.
//!
//! | idea | module |
//! |---|---|
//! | a job and the states it goes through | [`job`] |
//! | jobs, workload configs and tags on disk | [`store`] |
//! | the operations of the API | [`api`] |
//! | names and ARNs | [`name`] |
//! | the endpoints that may be measured | [`target`] |
//! | a workload as the API writes it | [`workload`] |
//! | where results go | [`location`] |
//! | what a job leaves there | [`results`] |
//! | what carries a sweep out, as a rule a process of its own | [`executor`], [`process`] |
//! | the queue, and what becomes of a job | [`conductor`] |
//! | a job's run on disk | [`folder`] |
//! | all that on a port, and who may come in | [`web`] |
//! | everything together | [`server`] |

pub mod api;
pub mod conductor;
pub mod executor;
pub mod folder;
pub mod job;
pub mod location;
#[cfg(test)]
mod made_up;
pub mod name;
pub mod process;
pub mod results;
pub mod server;
pub mod store;
pub mod target;
pub mod web;
pub mod workload;
