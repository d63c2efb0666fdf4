//! What the reports say of runs that are known, and that none of them breaks on runs that are degenerate.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its fixture too")]

mod browser;
mod degenerate;
mod fixture;
mod hostile;
mod page;
mod server;
mod tables;
mod terminal;
