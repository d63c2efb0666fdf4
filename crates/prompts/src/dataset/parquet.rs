//! Datasets in Parquet files: a column of prompts, messages or conversations.

use std::fs::File;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Map, Value};

use super::dialogue::Dialogue;
use super::{DatasetOptions, Harvest};
use crate::error::SourceError;

pub(super) fn read(file: &str, options: &DatasetOptions, harvest: &mut Harvest) -> Result<(), SourceError> {
    let unreadable = |error: parquet::errors::ParquetError| {
        SourceError::unreadable(
            file,
            format!(
                "not a Parquet file that can be read ({error}); write it uncompressed or with snappy, or as JSON lines"
            ),
        )
    };
    let opened = File::open(file).map_err(|error| SourceError::unreadable(file, error))?;
    let reader = SerializedFileReader::new(opened).map_err(unreadable)?;
    let rows = reader.get_row_iter(None).map_err(unreadable)?;
    for (number, row) in (1_u64..).zip(rows) {
        let dialogue = Dialogue::of(&object(&row.map_err(unreadable)?), options)
            .map_err(|problem| SourceError::entry(file, number, problem))?;
        if !harvest.add(number, dialogue) {
            break;
        }
    }
    Ok(())
}

fn object(row: &Row) -> Value {
    Value::Object(
        row.get_column_iter()
            .map(|(name, field)| (name.clone(), value(field)))
            .collect::<Map<_, _>>(),
    )
}

/// What a dialogue may be made of; anything else is null.
fn value(field: &Field) -> Value {
    match field {
        Field::Str(text) => Value::from(text.as_str()),
        Field::Bytes(bytes) => std::str::from_utf8(bytes.data()).map_or(Value::Null, Value::from),
        Field::Byte(n) => Value::from(*n),
        Field::Short(n) => Value::from(*n),
        Field::Int(n) => Value::from(*n),
        Field::Long(n) => Value::from(*n),
        Field::UByte(n) => Value::from(*n),
        Field::UShort(n) => Value::from(*n),
        Field::UInt(n) => Value::from(*n),
        Field::ULong(n) => Value::from(*n),
        Field::Float(n) => Value::from(*n),
        Field::Double(n) => Value::from(*n),
        Field::Group(row) => object(row),
        Field::ListInternal(list) => Value::Array(list.elements().iter().map(value).collect()),
        _ => Value::Null,
    }
}
