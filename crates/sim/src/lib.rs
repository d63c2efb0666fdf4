//! The simulated inference engine, in virtual time and over HTTP.
