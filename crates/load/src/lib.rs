//! The load generator: connections, dialects, streams and timing.
