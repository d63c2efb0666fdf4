//! The workload: what one request looks like.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// A token count with its spread: `1024` or `1024:128`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLength {
    /// Mean, tokens, at least 1.
    pub mean: u32,
    /// Standard deviation of a normal distribution cut off at 1 token; 0 means every request alike.
    pub stddev: f64,
}

impl TokenLength {
    /// Always exactly `mean` tokens.
    #[must_use]
    pub fn fixed(mean: u32) -> Self {
        TokenLength { mean, stddev: 0.0 }
    }
}

/// A token length that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a token length; write MEAN or MEAN:STDDEV in tokens, such as `1024` or `1024:128`, with a mean from 1 to 10000000"
)]
pub struct TokenLengthError(String);

impl FromStr for TokenLength {
    type Err = TokenLengthError;

    fn from_str(text: &str) -> Result<Self, TokenLengthError> {
        let fail = || TokenLengthError(text.to_owned());
        let (mean, stddev) = match text.split_once(':') {
            Some((mean, stddev)) => (mean, stddev.trim().parse::<f64>().map_err(|_| fail())?),
            None => (text, 0.0),
        };
        let mean: u32 = mean.trim().parse().map_err(|_| fail())?;
        if !(1..=10_000_000).contains(&mean) || !(0.0..=10_000_000.0).contains(&stddev) {
            return Err(fail());
        }
        Ok(TokenLength { mean, stddev })
    }
}

impl fmt::Display for TokenLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stddev == 0.0 {
            write!(f, "{}", self.mean)
        } else {
            write!(f, "{}:{}", self.mean, self.stddev)
        }
    }
}

impl Serialize for TokenLength {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What one request looks like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Prompt length by the server's own count.
    pub input_tokens: TokenLength,
    /// Reply length asked for.
    pub output_tokens: TokenLength,
    /// Whether the reply is streamed.
    pub streaming: bool,
}

impl Workload {
    /// SHA-256 of the canonical JSON, in hex: equal digests mean comparable runs.
    #[must_use]
    pub fn digest(&self) -> String {
        let canonical = format!(
            "in={};out={};streaming={}",
            self.input_tokens, self.output_tokens, self.streaming
        );
        Sha256::digest(canonical.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_mean_and_spread() {
        assert_eq!("64".parse(), Ok(TokenLength::fixed(64)));
        assert_eq!(
            "1024:128".parse(),
            Ok(TokenLength {
                mean: 1024,
                stddev: 128.0
            })
        );
        for bad in ["0", "-1", "x", "64:", "64:-1", "64:nan", "64:inf", ""] {
            assert!(bad.parse::<TokenLength>().is_err(), "{bad}");
        }
    }

    #[test]
    fn digests_tell_workloads_apart() {
        let workload = Workload {
            input_tokens: TokenLength::fixed(64),
            output_tokens: TokenLength::fixed(32),
            streaming: true,
        };
        assert_eq!(workload.digest(), workload.clone().digest());
        assert_ne!(
            workload.digest(),
            Workload {
                streaming: false,
                ..workload.clone()
            }
            .digest()
        );
        assert_eq!(workload.digest().len(), 64);
    }
}
