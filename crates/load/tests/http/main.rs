//! The load generator against a server that answers exactly as told, over real HTTP on loopback.

#![allow(
    clippy::unwrap_used,
    reason = "what a test relies on and does not get fails it"
)]

mod between;
mod harness;
mod hold;
mod open_loop;
mod ready;
mod refuse;
mod timing;
mod tls;
