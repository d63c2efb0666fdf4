//! Wire formats of Amazon's services, as far as an endpoint is measured through them.
//!
//! | idea | module |
//! |---|---|
//! | credentials and region, from the environment | [`credentials`] |
//! | Signature Version 4 of a request | [`signature`] |
//! | whether a request was signed by who holds a key | [`verification`] |
//! | event-stream framing of a streamed reply | [`event_stream`] |

pub mod credentials;
pub mod event_stream;
pub mod signature;
pub mod verification;
