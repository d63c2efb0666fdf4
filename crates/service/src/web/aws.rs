//! The API on the wire: AWS JSON 1.1, `POST /` with the operation in `X-Amz-Target`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::{Served, answer, apart, body};
use crate::api::{ApiError, Code};
use crate::store::now_ms;

/// The header that names the operation.
pub(super) const TARGET: &str = "x-amz-target";
const SERVICE: &str = "SageMaker.";
const JSON: &str = "application/x-amz-json-1.1";

/// A call.
pub(super) async fn call(State(served): State<Arc<Served>>, request: Request) -> Response {
    let (parts, stream) = request.into_parts();
    let bytes = match body(stream).await {
        Ok(bytes) => bytes,
        Err((status, message)) => {
            return respond(status, &problem("RequestEntityTooLargeException", message));
        }
    };
    let admitted = served
        .house
        .gate
        .admit_signed(&parts.method, &parts.headers, &bytes, SystemTime::now());
    if let Err(reason) = admitted {
        return failed(&ApiError::new(Code::AccessDenied, reason));
    }
    let target = parts.headers.get(TARGET).and_then(|value| value.to_str().ok());
    let Some(operation) = target.and_then(|target| target.strip_prefix(SERVICE)) else {
        return failed(&ApiError::new(
            Code::UnknownOperation,
            "the header X-Amz-Target must name an operation, such as SageMaker.ListAIBenchmarkJobs",
        ));
    };
    let operation = operation.to_owned();
    match apart(move || served.house.api.call(&operation, &bytes)).await {
        Ok(Ok(output)) => respond(StatusCode::OK, &output),
        Ok(Err(error)) => failed(&error),
        Err(_) => failed(&ApiError::new(
            Code::Internal,
            "the server failed; its log says how",
        )),
    }
}

/// The answer while too many others are seen to. Clients come again by themselves.
pub(super) fn too_many() -> Response {
    failed(&ApiError::new(
        Code::Throttling,
        "too many requests at once; come again in a moment",
    ))
}

fn failed(error: &ApiError) -> Response {
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
    respond(status, &problem(error.code.name(), &error.message))
}

/// Some clients read the code from the body, others from the header.
fn problem(code: &str, message: &str) -> Value {
    json!({"__type": code, "Message": message})
}

fn respond(status: StatusCode, value: &Value) -> Response {
    let mut response = answer::whole(status, JSON, value.to_string());
    let headers = response.headers_mut();
    if let Some(code) = value.get("__type").and_then(Value::as_str)
        && let Ok(code) = HeaderValue::from_str(code)
    {
        headers.insert(HeaderName::from_static("x-amzn-errortype"), code);
    }
    if let Ok(id) = HeaderValue::from_str(&request_id()) {
        headers.insert(HeaderName::from_static("x-amzn-requestid"), id);
    }
    response
}

/// A number for each answer, in the shape that clients log.
fn request_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(
        "00000000-0000-4000-8000-{:012x}",
        (now_ms().unsigned_abs() << 16 | count & 0xffff) & 0xffff_ffff_ffff
    )
}
