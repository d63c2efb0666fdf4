//! The scripted server seen from the other end of a socket.

mod client;
mod schedule;
