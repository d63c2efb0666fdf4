//! From rungs to planning numbers, as pure code: no clock, no I/O; time and randomness come in as arguments.

pub mod conduct;
mod steady;
