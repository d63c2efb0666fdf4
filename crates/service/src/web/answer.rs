//! Answers as REST and page give them.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

/// An answer of that type. Nothing of it is kept by caches, and its type is what it says.
pub(super) fn whole(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// JSON.
pub(super) fn json(status: StatusCode, value: &Value) -> Response {
    whole(status, "application/json", format!("{value}\n"))
}

/// What is wrong, as JSON.
pub(super) fn error(status: StatusCode, message: &str) -> Response {
    json(status, &json!({"error": message}))
}
