//! Where results go: `s3://bucket/prefix`, without a way out of it.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    bucket: String,
    /// The parts of the prefix; none is empty, `.` or `..`.
    parts: Vec<String>,
}

/// A location that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("S3 location {0}")]
pub struct LocationError(String);

/// The longest URI, and the longest part of a key that becomes a file's name.
const LONGEST: usize = 1024;
const LONGEST_PART: usize = 200;

impl Location {
    /// Reads `s3://bucket/prefix`; a slash at the end changes nothing.
    ///
    /// # Errors
    /// When it is none, or holds what could lead out of its bucket.
    pub fn parse(text: &str) -> Result<Location, LocationError> {
        let wrong = |problem: &str| Err(LocationError(problem.to_owned()));
        if text.len() > LONGEST {
            return wrong("is longer than 1024 characters");
        }
        let Some(rest) = text.strip_prefix("s3://") else {
            return wrong("does not begin with s3://; write s3://BUCKET/PREFIX");
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if !(3..=63).contains(&bucket.len())
            || !bucket.chars().all(inner)
            || !bucket.starts_with(edge)
            || !bucket.ends_with(edge)
            || bucket.contains("..")
        {
            return wrong("names no bucket: write 3 to 63 lower-case letters, digits, hyphens and dots");
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let parts: Vec<String> = if prefix.is_empty() {
            Vec::new()
        } else {
            prefix.split('/').map(str::to_owned).collect()
        };
        for part in &parts {
            if part.is_empty() || part == "." || part == ".." {
                return wrong("has an empty part, `.` or `..` in its prefix; leave that out");
            }
            if part.len() > LONGEST_PART || part.chars().any(|c| c.is_control() || "\\:*?\"<>|".contains(c)) {
                return wrong(
                    "has a part in its prefix that is too long for a file's name, or a character that such cannot have",
                );
            }
        }
        Ok(Location {
            bucket: bucket.to_owned(),
            parts,
        })
    }

    /// The place of that name within this one.
    #[must_use]
    pub fn within(&self, name: &str) -> Location {
        let mut inner = self.clone();
        inner.parts.push(name.to_owned());
        inner
    }

    /// The folder below `root` that stands for it.
    #[must_use]
    pub fn below(&self, root: &Path) -> PathBuf {
        let mut path = root.join(&self.bucket);
        path.extend(&self.parts);
        path
    }
}

impl fmt::Display for Location {
    /// With a slash at its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/", self.bucket)?;
        for part in &self.parts {
            write!(f, "{part}/")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_becomes_a_folder_below_the_root() {
        for (text, shown, path) in [
            ("s3://bucket/a/b/", "s3://bucket/a/b/", "/r/bucket/a/b"),
            ("s3://bucket/a b", "s3://bucket/a b/", "/r/bucket/a b"),
            ("s3://bucket", "s3://bucket/", "/r/bucket"),
            ("s3://bucket/", "s3://bucket/", "/r/bucket"),
        ] {
            let location = Location::parse(text).unwrap();
            assert_eq!(location.to_string(), shown);
            assert_eq!(location.below(Path::new("/r")), Path::new(path));
            assert_eq!(
                location.within("job").below(Path::new("/r")),
                Path::new(path).join("job")
            );
        }
    }

    #[test]
    fn nothing_leads_out() {
        for text in [
            "s3://../x",
            "s3://bucket/../../etc",
            "s3://bucket/a/..",
            "s3://bucket/./a",
            "s3://bucket//etc",
            "s3://bucket/a\\..\\b",
            "s3://bucket/a\0b",
            "s3:///etc",
            "s3://Bucket/x",
            "s3://a..b/x",
            "s3://.ab/x",
            "https://bucket.s3.amazonaws.com/x",
            "/etc/passwd",
            "",
        ] {
            assert!(Location::parse(text).is_err(), "{text}");
        }
        assert!(Location::parse(&format!("s3://bucket/{}", "x".repeat(2000))).is_err());
        assert!(Location::parse(&format!("s3://bucket/{}", "x".repeat(201))).is_err());
    }
}
