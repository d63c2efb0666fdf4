//! The scripted server seen from the other end of a socket.
#![allow(
    clippy::unwrap_used,
    reason = "where a test's helper fails, the test has failed"
)]

mod client;
mod failures;
mod load;
mod schedule;
mod transport;
