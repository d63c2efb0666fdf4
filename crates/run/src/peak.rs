//! The peak that the instances must carry.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::{UnitError, parse_duration, split_number};

/// The load at the peak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Peak {
    /// Requests per second, the largest mean over 60 s.
    Rate(f64),
    /// People at once, each sending the next request `think` after the last answer.
    Users {
        /// How many.
        users: f64,
        /// Pause between an answer and the next request.
        think: Duration,
    },
}

impl FromStr for Peak {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const EXAMPLE: &str = "`40rps`, `3000users` or `3000users:think=20s`";
        let out_of_range = || UnitError::OutOfRange {
            text: text.to_owned(),
            range: "a peak runs from 0 to 1e9",
        };
        let (head, think) = match text.split_once(':') {
            Some((head, rest)) => match rest.trim().strip_prefix("think=") {
                Some(think) => (head, Some(parse_duration(think)?)),
                None => {
                    return Err(UnitError::UnknownUnit {
                        text: text.to_owned(),
                        unit: rest.to_owned(),
                        known: EXAMPLE,
                        nearest: Some("think=20s"),
                    });
                }
            },
            None => (text, None),
        };
        let (number, unit) = split_number(head).ok_or_else(|| UnitError::NotANumber {
            text: text.to_owned(),
            example: EXAMPLE,
        })?;
        if !(0.0..=1e9).contains(&number) {
            return Err(out_of_range());
        }
        match unit {
            "rps" | "/s" | "req/s" if think.is_none() => Ok(Peak::Rate(number)),
            "users" | "user" => Ok(Peak::Users {
                users: number,
                think: think.unwrap_or(Duration::ZERO),
            }),
            "" => Err(UnitError::MissingUnit {
                text: text.to_owned(),
                example: EXAMPLE,
            }),
            other => Err(UnitError::UnknownUnit {
                text: text.to_owned(),
                unit: other.to_owned(),
                known: "rps and users (`:think=` goes with users)",
                nearest: crate::nearest::nearest(other, &["rps", "users"]),
            }),
        }
    }
}

impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peak::Rate(rate) => write!(f, "{rate}rps"),
            Peak::Users { users, think } if think.is_zero() => write!(f, "{users}users"),
            Peak::Users { users, think } => write!(f, "{users}users:think={}s", think.as_secs_f64()),
        }
    }
}

impl Serialize for Peak {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Peak {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_rates_or_users() {
        assert_eq!("40rps".parse(), Ok(Peak::Rate(40.0)));
        assert_eq!("2.5/s".parse(), Ok(Peak::Rate(2.5)));
        assert_eq!(
            "3000users:think=20s".parse(),
            Ok(Peak::Users {
                users: 3000.0,
                think: Duration::from_secs(20)
            })
        );
        assert_eq!("0rps".parse(), Ok(Peak::Rate(0.0)));
        for bad in [
            "40",
            "40rpm",
            "rps",
            "-1rps",
            "3users:sleep=2s",
            "3rps:think=2s",
            "3users:think=2",
        ] {
            assert!(bad.parse::<Peak>().is_err(), "{bad}");
        }
        let shown = "3000users:think=20s".parse::<Peak>().unwrap().to_string();
        assert_eq!(shown, "3000users:think=20s");
    }
}
