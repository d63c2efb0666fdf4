//! Reading files of any size, line by line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use sha2::{Digest, Sha256};

use crate::error::SourceError;

/// No line is longer: a file without line ends is not one of lines.
const LONGEST_LINE: u64 = 64 << 20;

/// Opens a regular file.
pub(crate) fn open(file: &str) -> Result<BufReader<File>, SourceError> {
    let about = std::fs::metadata(file).map_err(|error| SourceError::unreadable(file, error))?;
    if !about.is_file() {
        return Err(SourceError::unreadable(file, "is not a file"));
    }
    if about.len() == 0 {
        return Err(SourceError::nothing(file, "nothing"));
    }
    let opened = File::open(file).map_err(|error| SourceError::unreadable(file, error))?;
    Ok(BufReader::with_capacity(1 << 18, opened))
}

/// SHA-256 of its bytes, in hex.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn sha256(file: &str) -> Result<String, SourceError> {
    let mut reader = open(file)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => hash.update(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SourceError::unreadable(file, error)),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The first bytes of it, without a byte order mark and white space.
pub(crate) fn opening(file: &str) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    open(file)?
        .take(4096)
        .read_to_end(&mut bytes)
        .map_err(|error| SourceError::unreadable(file, error))?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    Ok(text.trim_ascii_start().to_vec())
}

/// Calls `take` with number and text of each line that is not blank, until it says stop.
pub(crate) fn for_each_line(
    file: &str,
    mut take: impl FnMut(u64, &str) -> Result<bool, SourceError>,
) -> Result<(), SourceError> {
    let mut reader = open(file)?;
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        bytes.clear();
        let read = (&mut reader)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| SourceError::unreadable(file, error))?;
        if read == 0 {
            break;
        }
        if read as u64 == LONGEST_LINE {
            return Err(SourceError::line(
                file,
                number,
                "it is longer than 64 MiB; write one entry a line",
            ));
        }
        let line = if number == 1 {
            bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes)
        } else {
            &bytes
        };
        let text = std::str::from_utf8(line)
            .map_err(|_| SourceError::line(file, number, "it is not UTF-8 text"))?
            .trim();
        if !text.is_empty() && !take(number, text)? {
            break;
        }
    }
    Ok(())
}
