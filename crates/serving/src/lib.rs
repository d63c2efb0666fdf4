//! The server's own side: what its metrics say of a rung, and what it tells of its configuration.
//!
//! | what | module |
//! |---|---|
//! | the Prometheus text format | [`exposition`] |
//! | which engine, and what its names mean | [`engine`] |
//! | one reading of the metrics | [`reading`] |
//! | what several readings say of a window | [`log`] |
//! | what the server tells of its configuration | [`configuration`] |
//! | what the user tells of it: a container's environment, a command line | [`launch`] |
//! | what must not be stored | [`secrets`] |
//!
//! Nothing here talks to a server: texts come in, figures go out.

pub mod configuration;
pub mod engine;
pub mod exposition;
pub mod launch;
pub mod log;
pub mod reading;
pub mod secrets;
