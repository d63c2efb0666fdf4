//! A request's JSON, taken out member by member; what is left over is refused by name.

use plimsoll_run::nearest::hint;
use serde_json::{Map, Value};

use super::error::{ApiError, Code};
use crate::name::is_entity_name;
use crate::store::Tag;

/// A request, or an object within one.
pub(super) struct Input {
    path: String,
    members: Map<String, Value>,
    /// The names asked for, for those who misspelt one.
    asked: Vec<&'static str>,
}

impl Input {
    /// The body of a request; an empty one is an empty object.
    pub(super) fn read(body: &[u8]) -> Result<Input, ApiError> {
        let malformed = |problem: String| ApiError::new(Code::Serialization, problem);
        let value = if body.is_empty() {
            Value::Object(Map::new())
        } else {
            serde_json::from_slice(body)
                .map_err(|error| malformed(format!("the body is not JSON: {error}")))?
        };
        match value {
            Value::Object(members) => Ok(Input::of(String::new(), members)),
            _ => Err(malformed("the body is not a JSON object".to_owned())),
        }
    }

    /// Null is what clients write for nothing.
    fn of(path: String, members: Map<String, Value>) -> Input {
        Input {
            path,
            members: members
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect(),
            asked: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    pub(super) fn wrong(&self, name: &str, problem: &str) -> ApiError {
        ApiError::invalid(format!("`{}` {problem}", self.path(name)))
    }

    pub(super) fn take(&mut self, name: &'static str) -> Option<Value> {
        self.asked.push(name);
        self.members.remove(name)
    }

    fn missing(&self, name: &str) -> ApiError {
        self.wrong(name, "is missing, and needed")
    }

    /// A string of that many characters.
    pub(super) fn text(
        &mut self,
        name: &'static str,
        least: usize,
        most: usize,
    ) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if (least..=most).contains(&text.chars().count()) => Ok(Some(text)),
            Some(Value::String(_)) => {
                Err(self.wrong(name, &format!("must have from {least} to {most} characters")))
            }
            Some(_) => Err(self.wrong(name, "is not a string")),
        }
    }

    pub(super) fn need_text(
        &mut self,
        name: &'static str,
        least: usize,
        most: usize,
    ) -> Result<String, ApiError> {
        self.text(name, least, most)?.ok_or_else(|| self.missing(name))
    }

    /// The name of something that is to be made.
    pub(super) fn need_name(&mut self, name: &'static str) -> Result<String, ApiError> {
        let text = self.need_text(name, 1, 63)?;
        if is_entity_name(&text) {
            Ok(text)
        } else {
            Err(self.wrong(
                name,
                "is no name: write letters and digits, with hyphens between them only",
            ))
        }
    }

    pub(super) fn object(&mut self, name: &'static str) -> Result<Option<Input>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(members)) => Ok(Some(Input::of(self.path(name), members))),
            Some(_) => Err(self.wrong(name, "is not an object")),
        }
    }

    pub(super) fn need_object(&mut self, name: &'static str) -> Result<Input, ApiError> {
        self.object(name)?.ok_or_else(|| self.missing(name))
    }

    pub(super) fn whole(
        &mut self,
        name: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match value.as_u64() {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.wrong(name, &format!("must be a whole number from {least} to {most}"))),
        }
    }

    /// A time: seconds since 1970, in milliseconds.
    pub(super) fn time(&mut self, name: &'static str) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let seconds = value.as_f64().filter(|seconds| (-1e11..=1e11).contains(seconds));
        match seconds {
            Some(seconds) => Ok(Some((seconds * 1e3).round() as i64)),
            None => Err(self.wrong(name, "must be a time, in seconds since 1970")),
        }
    }

    /// One of these words.
    pub(super) fn word<T: Copy>(
        &mut self,
        name: &'static str,
        known: &[(&str, T)],
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(name, 0, usize::MAX)? else {
            return Ok(None);
        };
        if let Some((_, value)) = known.iter().find(|(word, _)| *word == text) {
            return Ok(Some(*value));
        }
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        Err(self.wrong(
            name,
            &format!("must be one of {}{}", words.join(", "), hint(&text, &words)),
        ))
    }

    /// The tags, where there are any.
    pub(super) fn tags(&mut self) -> Result<Vec<Tag>, ApiError> {
        let tags = match self.take("Tags") {
            None => return Ok(Vec::new()),
            Some(Value::Array(tags)) => tags,
            Some(_) => return Err(self.wrong("Tags", "is not a list")),
        };
        let mut read: Vec<Tag> = Vec::new();
        for tag in tags {
            let Value::Object(members) = tag else {
                return Err(self.wrong("Tags", "has something in it that is not an object"));
            };
            let mut tag = Input::of(self.path("Tags"), members);
            let (key, value) = (tag.need_text("Key", 1, 128)?, tag.need_text("Value", 0, 256)?);
            tag.finish()?;
            if read.iter().any(|other| other.key == key) {
                return Err(self.wrong("Tags", "names a key twice"));
            }
            read.push(Tag { key, value });
        }
        Ok(read)
    }

    /// A list of strings.
    pub(super) fn need_texts(&mut self, name: &'static str, most: usize) -> Result<Vec<String>, ApiError> {
        let list = match self.take(name) {
            None => return Err(self.missing(name)),
            Some(Value::Array(list)) if (1..=most).contains(&list.len()) => list,
            Some(Value::Array(_)) => {
                return Err(self.wrong(name, &format!("must have from 1 to {most} entries")));
            }
            Some(_) => return Err(self.wrong(name, "is not a list")),
        };
        list.into_iter()
            .map(|value| match value {
                Value::String(text) => Ok(text),
                _ => Err(self.wrong(name, "has something in it that is not a string")),
            })
            .collect()
    }

    /// Refuses a member that has no meaning here, by name.
    pub(super) fn refuse(&mut self, name: &'static str, why: &str) -> Result<(), ApiError> {
        match self.take(name) {
            None => Ok(()),
            Some(_) => Err(self.wrong(name, &format!("means nothing here: {why}; leave it out"))),
        }
    }

    /// Refuses what is left over.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        match self.members.keys().next() {
            None => Ok(()),
            Some(name) => {
                let shown: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
                Err(self.wrong(&shown, &format!("is unknown{}", hint(name, &self.asked))))
            }
        }
    }
}
