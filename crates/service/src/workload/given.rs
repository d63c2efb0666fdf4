//! A section of a workload as it was given: taken out piece by piece, so that what is left over is what nobody knows.

use std::ops::RangeInclusive;

use plimsoll_run::nearest::hint;
use serde_json::{Map, Value};

use super::{WorkloadError, short};

/// A section.
pub(super) struct Given {
    section: String,
    values: Map<String, Value>,
}

impl Given {
    /// A section and its name; null counts as not given.
    pub(super) fn of(section: &str, values: Map<String, Value>) -> Given {
        Given {
            section: section.to_owned(),
            values: values.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        }
    }

    /// A name as an error writes it.
    pub(super) fn path(&self, name: &str) -> String {
        if self.section.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.section)
        }
    }

    /// An error about one of its values.
    pub(super) fn wrong(&self, name: &str, problem: &str) -> WorkloadError {
        WorkloadError(format!("`{}` {problem}", self.path(name)))
    }

    /// Whether it was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Takes a value out.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// The names that are there.
    pub(super) fn names(&self) -> Vec<String> {
        self.values.keys().cloned().collect()
    }

    /// Gives a value its proper name.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<(), WorkloadError> {
        if let Some(value) = self.take(from) {
            if self.has(to) {
                return Err(self.wrong(to, &format!("stands twice: as `{from}` too; leave out one")));
            }
            self.values.insert(to.to_owned(), value);
        }
        Ok(())
    }

    /// A section within.
    pub(super) fn section(&mut self, name: &str) -> Result<Option<Given>, WorkloadError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(values)) => Ok(Some(Given::of(&self.path(name), values))),
            Some(_) => Err(self.wrong(name, "is not an object")),
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, WorkloadError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, &format!("is {}; write a string", shown(&other)))),
        }
    }

    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>, WorkloadError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.wrong(name, &format!("is {}; write true or false", shown(&other)))),
        }
    }

    /// A whole number; `1024.0` is one too.
    pub(super) fn whole(
        &mut self,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, WorkloadError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        whole(&value, &range).map(Some).ok_or_else(|| {
            self.wrong(
                name,
                &format!(
                    "is {}; write a whole number from {} to {}",
                    shown(&value),
                    range.start(),
                    range.end()
                ),
            )
        })
    }

    pub(super) fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, WorkloadError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = value.as_f64().filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            self.wrong(
                name,
                &format!(
                    "is {}; write a number from {} to {}",
                    shown(&value),
                    range.start(),
                    range.end()
                ),
            )
        })
    }

    /// A value that is parsed by its own rules, written as a string.
    pub(super) fn parsed<T>(&mut self, name: &str) -> Result<Option<T>, WorkloadError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        match self.text(name)? {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|error| self.wrong(name, &format!("cannot be used: {error}"))),
        }
    }

    /// Refuses what is left over.
    pub(super) fn finish(self, known: &[&str]) -> Result<(), WorkloadError> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(name) => Err(WorkloadError(format!(
                "`{}` is unknown{}",
                short(&self.path(name)),
                hint(name, known)
            ))),
        }
    }
}

/// A whole number within a range.
pub(super) fn whole(value: &Value, range: &RangeInclusive<u64>) -> Option<u64> {
    let number = value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        // Exact as long as it is no larger than what the mantissa holds.
        (number.fract() == 0.0 && (0.0..=9e15).contains(&number)).then_some(number as u64)
    })?;
    range.contains(&number).then_some(number)
}

/// A value as an error quotes it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => short(&other.to_string()),
    }
}
