//! What was found out about an endpoint before any load: for people to read, and to check a configuration by.

use std::collections::BTreeMap;

use plimsoll_run::request::RequestRecord;
use plimsoll_run::target::{Dialect, Engine};
use serde::Serialize;
use serde_json::Value;

/// What was found out about an endpoint before any load. Holds no credential.
#[derive(Debug, Clone)]
pub struct Probed {
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Whether the dialect was found by asking, and not named by the user or the URL.
    pub detected: bool,
    /// The routes that were asked before and did not speak, in that order.
    pub tried: Vec<TriedRoute>,
    /// The model asked for.
    pub model: Option<String>,
    /// The models it lists, where it lists any.
    pub models: Option<Vec<String>>,
    /// The engine behind it, as far as it tells.
    pub engine: Option<Engine>,
    /// Settings that it tells of itself.
    pub serving_config: BTreeMap<String, Value>,
    /// Optional request fields that it takes.
    pub takes: Vec<String>,
    /// Optional request fields that it refused: left out of all requests.
    pub refuses: Vec<String>,
    /// Whether its reply came as a stream.
    pub streams: bool,
    /// Whether it counts the tokens of a reply.
    pub counts: bool,
    /// The request that it answered, exactly.
    pub request: SentRequest,
    /// What came back.
    pub reply: RequestRecord,
}

/// A route that did not speak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TriedRoute {
    /// The dialect it was spoken to in.
    pub dialect: Dialect,
    /// Why it was given up, in one line.
    pub answer: String,
}

/// A request as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SentRequest {
    /// Such as `POST`.
    pub method: String,
    /// Without user info and query.
    pub url: String,
    /// Names and values; of those that may be credentials the value is `(hidden)`.
    pub headers: Vec<(String, String)>,
    /// The JSON document.
    pub body: String,
}
