//! Errors before the stream, worded as vLLM words them.

use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::json;

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub message: String,
    pub kind: &'static str,
    pub param: Option<&'static str>,
}

impl Refusal {
    /// 400 for one parameter.
    pub(crate) fn bad(param: &'static str, message: impl Into<String>) -> Self {
        Refusal {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
            kind: "BadRequestError",
            param: Some(param),
        }
    }

    /// 400 for the whole body.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Refusal {
            param: None,
            ..Self::bad("", message)
        }
    }

    /// 404.
    pub(crate) fn not_found(param: Option<&'static str>, message: impl Into<String>) -> Self {
        Refusal {
            status: StatusCode::NOT_FOUND,
            message: message.into(),
            kind: "NotFoundError",
            param,
        }
    }

    /// 405.
    pub(crate) fn method() -> Self {
        Refusal {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message: "Method Not Allowed".to_owned(),
            kind: "Method Not Allowed",
            param: None,
        }
    }

    /// A body that could not be read: 413 where it is too large.
    pub(crate) fn unread(rejection: BytesRejection) -> Self {
        Refusal {
            status: rejection.status(),
            message: rejection.body_text(),
            kind: if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                "Payload Too Large"
            } else {
                "BadRequestError"
            },
            param: None,
        }
    }

    /// 503: the engine is gone.
    pub(crate) fn stopped() -> Self {
        Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            message: "The engine has stopped.".to_owned(),
            kind: "Service Unavailable",
            param: None,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.status.as_u16(),
        }});
        (
            self.status,
            [(header::CONTENT_TYPE, "application/json")],
            body.to_string(),
        )
            .into_response()
    }
}
