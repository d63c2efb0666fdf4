//! `requests.parquet`: one row a request, every time in milliseconds since the rung's start.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::request::RequestRecord;
use crate::units::to_ms;

const SCHEMA: &str = "message request {
    REQUIRED INT64 index;
    REQUIRED INT32 slot;
    REQUIRED DOUBLE scheduled_ms;
    REQUIRED DOUBLE sent_ms;
    OPTIONAL DOUBLE headers_ms;
    OPTIONAL DOUBLE first_byte_ms;
    OPTIONAL DOUBLE first_token_ms;
    OPTIONAL DOUBLE first_answer_ms;
    OPTIONAL DOUBLE last_token_ms;
    REQUIRED DOUBLE ended_ms;
    REQUIRED INT32 input_asked;
    OPTIONAL INT32 input_tokens;
    OPTIONAL INT32 cached_tokens;
    REQUIRED INT32 output_asked;
    OPTIONAL INT32 output_tokens;
    REQUIRED BOOLEAN output_estimated;
    OPTIONAL BYTE_ARRAY finish_reason (UTF8);
    OPTIONAL INT32 status;
    REQUIRED INT64 bytes;
    REQUIRED INT32 retries;
    OPTIONAL BYTE_ARRAY failure (UTF8);
    OPTIONAL BYTE_ARRAY failure_message (UTF8);
}";

type RowGroup<'a> = SerializedRowGroupWriter<'a, File>;

/// Writes the next column; `None` is null.
fn column<T: DataType>(
    group: &mut RowGroup<'_>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let mut present = Vec::new();
    let mut levels = Vec::new();
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    let Some(mut writer) = group.next_column()? else {
        return Err(ParquetError::General(
            "more columns than the schema names".to_owned(),
        ));
    };
    // Definition levels are ignored for required columns.
    writer.typed::<T>().write_batch(&present, Some(&levels), None)?;
    writer.close()
}

/// Writes all records to `path`.
pub(crate) fn write(path: &Path, records: &[RequestRecord]) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = Arc::new(
        WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build(),
    );
    let mut file = SerializedFileWriter::new(File::create(path)?, schema, properties)?;
    let mut group = file.next_row_group()?;
    let times = |group: &mut RowGroup<'_>, of: fn(&RequestRecord) -> Option<Duration>| {
        column::<DoubleType>(group, records.iter().map(|r| of(r).map(to_ms)))
    };
    let counts = |group: &mut RowGroup<'_>, of: fn(&RequestRecord) -> Option<u32>| {
        column::<Int32Type>(
            group,
            records
                .iter()
                .map(|r| of(r).map(|n| i32::try_from(n).unwrap_or(i32::MAX))),
        )
    };
    let longs = |group: &mut RowGroup<'_>, of: fn(&RequestRecord) -> u64| {
        column::<Int64Type>(
            group,
            records
                .iter()
                .map(|r| Some(i64::try_from(of(r)).unwrap_or(i64::MAX))),
        )
    };
    let texts = |group: &mut RowGroup<'_>, of: fn(&RequestRecord) -> Option<&str>| {
        column::<ByteArrayType>(group, records.iter().map(|r| of(r).map(ByteArray::from)))
    };
    longs(&mut group, |r| r.index)?;
    counts(&mut group, |r| Some(r.slot))?;
    times(&mut group, |r| Some(r.scheduled))?;
    times(&mut group, |r| Some(r.sent))?;
    times(&mut group, |r| r.headers)?;
    times(&mut group, |r| r.first_byte)?;
    times(&mut group, |r| r.first_token)?;
    times(&mut group, |r| r.first_answer)?;
    times(&mut group, |r| r.last_token)?;
    times(&mut group, |r| Some(r.ended))?;
    counts(&mut group, |r| Some(r.input_asked))?;
    counts(&mut group, |r| r.input_tokens)?;
    counts(&mut group, |r| r.cached_tokens)?;
    counts(&mut group, |r| Some(r.output_asked))?;
    counts(&mut group, |r| r.output_tokens)?;
    column::<BoolType>(&mut group, records.iter().map(|r| Some(r.output_estimated)))?;
    texts(&mut group, |r| r.finish_reason.as_deref())?;
    counts(&mut group, |r| r.status.map(u32::from))?;
    longs(&mut group, |r| r.bytes)?;
    counts(&mut group, |r| Some(r.retries))?;
    texts(&mut group, |r| {
        r.failure.as_ref().map(|failure| failure.class.name())
    })?;
    texts(&mut group, |r| {
        r.failure.as_ref().map(|failure| failure.message.as_str())
    })?;
    group.close()?;
    file.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::request::{Failure, FailureClass};

    #[test]
    fn rows_read_back_as_written() {
        let mut good = RequestRecord::begun(0, 3, Duration::ZERO, Duration::from_micros(1500));
        good.first_token = Some(Duration::from_millis(20));
        good.output_tokens = Some(32);
        good.finish_reason = Some("length".to_owned());
        let mut bad = RequestRecord::begun(1, 4, Duration::ZERO, Duration::from_millis(2));
        bad.failure = Some(Failure {
            class: FailureClass::EmptyResponse,
            message: "no token".to_owned(),
        });

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("requests.parquet");
        write(&path, &[good, bad]).unwrap();

        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].get_double(3).unwrap(), 1.5);
        assert_eq!(rows[0].get_double(6).unwrap(), 20.0);
        assert_eq!(rows[0].get_int(14).unwrap(), 32);
        assert_eq!(rows[0].get_string(16).unwrap(), "length");
        assert!(rows[0].get_string(20).is_err(), "a success has no failure");
        assert_eq!(rows[1].get_string(20).unwrap(), "empty-response");
        assert!(rows[1].get_double(6).is_err(), "no first token");
    }
}
