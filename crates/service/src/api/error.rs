//! Errors by the names that clients know.

use crate::name;
use crate::store::StoreError;

/// What kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Something in the request is wrong.
    Validation,
    /// The body is not JSON.
    Serialization,
    /// Nothing has that name.
    NotFound,
    /// The name is taken, or something needs the resource.
    InUse,
    /// There is too much already.
    LimitExceeded,
    /// No such operation.
    UnknownOperation,
    /// Who asks may not.
    AccessDenied,
    /// Too many at once.
    Throttling,
    /// The server failed.
    Internal,
}

impl Code {
    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Code::Validation => "ValidationException",
            Code::Serialization => "SerializationException",
            Code::NotFound => "ResourceNotFound",
            Code::InUse => "ResourceInUse",
            Code::LimitExceeded => "ResourceLimitExceeded",
            Code::UnknownOperation => "UnknownOperationException",
            Code::AccessDenied => "AccessDeniedException",
            Code::Throttling => "ThrottlingException",
            Code::Internal => "InternalFailure",
        }
    }

    /// The HTTP status that goes with it.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Code::Internal => 500,
            Code::AccessDenied => 403,
            _ => 400,
        }
    }
}

/// An error of the API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Its kind.
    pub code: Code,
    /// What is wrong and what would do.
    pub message: String,
}

impl ApiError {
    /// An error of that kind.
    pub fn new(code: Code, message: impl Into<String>) -> ApiError {
        ApiError {
            code,
            message: message.into(),
        }
    }

    /// Something in the request is wrong.
    pub(super) fn invalid(message: impl Into<String>) -> ApiError {
        ApiError::new(Code::Validation, message)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Taken { .. } | StoreError::InUse { .. } => Code::InUse,
            StoreError::Missing { .. } => Code::NotFound,
            StoreError::WrongState { .. } | StoreError::TooManyTags => Code::Validation,
            StoreError::Version { .. } | StoreError::Sqlite(_) | StoreError::Damaged(_) => Code::Internal,
        };
        ApiError::new(code, error.to_string())
    }
}

/// The name that an identifier gives: itself, or the end of an ARN of that kind.
pub(super) fn named<'a>(identifier: &'a str, kind: &str, member: &str) -> Result<&'a str, ApiError> {
    let name = name::resource_name(identifier, kind).unwrap_or(identifier);
    if name::is_entity_name(name) {
        Ok(name)
    } else {
        Err(ApiError::invalid(format!(
            "`{member}` is no name: write 1 to 63 letters and digits, with hyphens between them only"
        )))
    }
}
