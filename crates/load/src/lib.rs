//! The load generator: connections, dialects, streams and timing.
//!
//! [`prepare`] finds out what an endpoint is and takes, [`HttpRunner`] holds a level against it and says what
//! happened, as one [`plimsoll_run::evidence::Evidence`] a rung. Nothing here judges.

mod ask;
mod backoff;
mod board;
mod calibrate;
mod capability;
mod connect;
mod cpu;
mod descriptors;
mod dialect;
mod endpoint;
mod error;
mod exchange;
mod flight;
mod framing;
#[cfg(fuzzing)]
pub mod fuzzed;
mod inflate;
#[cfg(target_os = "linux")]
mod kernel_stamp;
mod line;
mod models;
mod options;
mod prepare;
mod probed;
mod proxy;
mod reader;
mod receipt;
mod reply;
mod runner;
mod secret;
mod server_side;
mod shape;
mod slot;
mod sse;
mod stamped;
mod tls;

pub use descriptors::{check_descriptors, highest_level};
pub use endpoint::{Endpoint, EndpointError, resolve};
pub use error::PrepareError;
pub use options::{ProxyChoice, TargetOptions};
pub use prepare::{Asked, Prepared, prepare, prepare_from};
pub use probed::{Probed, SentRequest, TriedRoute};
pub use runner::{HttpRunner, OpenLoop};
pub use secret::Secret;
