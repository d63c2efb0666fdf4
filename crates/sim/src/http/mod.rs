//! The engine as an OpenAI-compatible server, in the shape that vLLM gives its answers on the wire.
//!
//! Two threads: one keeps the engine's time (`pacer`), one holds all connections. A request goes from the routes
//! through a channel to the pacer, and its tokens come back through a channel of its own.

mod ask;
mod metrics;
mod pacer;
mod refusal;
mod reply;
mod routes;
mod server;
mod shared;
mod tokens;
mod wire;

pub use server::{ServeOptions, ServerHandle, serve};
