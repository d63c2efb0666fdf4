//! Datasets in JSON: an array of entries, or an entry a line.

use serde::Deserializer;
use serde::de::{SeqAccess, Visitor};
use serde_json::Value;

use super::dialogue::Dialogue;
use super::{DatasetOptions, Harvest};
use crate::error::SourceError;
use crate::file;

/// One entry a line.
pub(super) fn lines(file: &str, options: &DatasetOptions, harvest: &mut Harvest) -> Result<(), SourceError> {
    file::for_each_line(file, |number, line| {
        let entry: Value = serde_json::from_str(line).map_err(|error| {
            SourceError::line(
                file,
                number,
                format!("it is not JSON ({error}); write one object a line"),
            )
        })?;
        let dialogue =
            Dialogue::of(&entry, options).map_err(|problem| SourceError::line(file, number, problem))?;
        Ok(harvest.add(number, dialogue))
    })
}

/// What a visitor leaves behind.
struct Entries<'a> {
    options: &'a DatasetOptions,
    harvest: &'a mut Harvest,
    /// The number of the entry that is wrong, and why.
    wrong: Option<(u64, String)>,
}

impl<'de> Visitor<'de> for &mut Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of conversations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(entry) = entries.next_element::<Value>()? {
            number += 1;
            match Dialogue::of(&entry, self.options) {
                Ok(dialogue) => {
                    if !self.harvest.add(number, dialogue) {
                        return Ok(());
                    }
                }
                Err(problem) => {
                    self.wrong = Some((number, problem));
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// One array of entries, read one entry after the other.
pub(super) fn array(file: &str, options: &DatasetOptions, harvest: &mut Harvest) -> Result<(), SourceError> {
    let mut reader = file::open(file)?;
    skip_mark(file, &mut reader)?;
    let mut entries = Entries {
        options,
        harvest,
        wrong: None,
    };
    let mut json = serde_json::Deserializer::from_reader(reader);
    let read = json.deserialize_seq(&mut entries);
    // Having seen enough leaves the array unfinished, which is no error of the file.
    if let Some((number, problem)) = entries.wrong {
        return Err(SourceError::entry(file, number, problem));
    }
    if entries.harvest.cut {
        return Ok(());
    }
    read.and_then(|()| json.end()).map_err(|error| {
        SourceError::line(
            file,
            error.line() as u64,
            format!("it is not a JSON array of conversations ({error})"),
        )
    })
}

fn skip_mark(file: &str, reader: &mut impl std::io::BufRead) -> Result<(), SourceError> {
    let buffered = reader
        .fill_buf()
        .map_err(|error| SourceError::unreadable(file, error))?;
    if buffered.starts_with(b"\xef\xbb\xbf") {
        reader.consume(3);
    }
    Ok(())
}
