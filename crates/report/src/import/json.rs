//! Numbers in foreign JSON, checked as they are read.

use serde_json::Value;

/// A level: a whole number of requests in flight, at least one.
pub(super) fn level(value: f64) -> Result<u32, String> {
    if value.fract() == 0.0 && (1.0..=10_000_000.0).contains(&value) {
        Ok(value as u32)
    } else {
        Err(format!(
            "`{value}` is not a concurrency; a level is a whole number of requests in flight, at least 1"
        ))
    }
}

/// The value at a path of keys; `None` where a key is missing or the value is null.
pub(super) fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter()
        .try_fold(value, |value, key| value.get(key))
        .filter(|value| !value.is_null())
}

/// A number at a path: not below zero. Missing, null and no number at all are `None`.
///
/// # Errors
/// A number below zero, named by its path.
pub(super) fn number(value: &Value, path: &[&str]) -> Result<Option<f64>, String> {
    match at(value, path).and_then(Value::as_f64) {
        Some(number) if number < 0.0 => Err(format!("`{}` is {number}, below 0", path.join("."))),
        other => Ok(other),
    }
}

/// A count at a path.
pub(super) fn count(value: &Value, path: &[&str]) -> Result<Option<u64>, String> {
    Ok(number(value, path)?.map(|count| count.round() as u64))
}

/// A text at a path.
pub(super) fn text(value: &Value, path: &[&str]) -> Option<String> {
    at(value, path).and_then(Value::as_str).map(str::to_owned)
}
