//! Token lengths: how many tokens a prompt or a reply has, as a number or a distribution.
//!
//! | written | lengths |
//! |---|---|
//! | `1024` | always 1024 |
//! | `1024:128` | normal: mean and standard deviation, cut off at 1 token |
//! | `lognormal:1024:0.8` | lognormal: mean, and standard deviation of the logarithm |
//! | `lognormal:1024:0.8:8192` | the same, none longer than 8192 |
//! | `uniform:100-2000` | every length from 100 to 2000 alike |
//! | `empirical:128@3,512@1` | these lengths with these weights; without `@` a weight is 1 |
//!
//! Drawing from them is the business of whoever makes prompts.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::nearest::hint;

/// No prompt and no reply is longer.
pub const LONGEST: u32 = 10_000_000;
/// The largest standard deviation of the logarithm: beyond it lies no traffic.
const LARGEST_SIGMA: f64 = 5.0;
/// No empirical distribution has more different lengths.
pub const MOST_VALUES: usize = 65_536;

/// How many tokens; always from 1 to [`LONGEST`].
#[derive(Debug, Clone, PartialEq)]
pub enum TokenLength {
    /// Every request alike.
    Fixed(u32),
    /// Normal, cut off at 1 token.
    Normal {
        /// Mean before the cut, tokens.
        mean: u32,
        /// Standard deviation before the cut, tokens, above 0.
        stddev: f64,
    },
    /// Lognormal, cut off at 1 token and at `most`.
    LogNormal {
        /// Mean before the cut, tokens: exp(mu + sigma^2/2).
        mean: u32,
        /// Standard deviation of the logarithm, above 0.
        sigma: f64,
        /// None is longer.
        most: Option<u32>,
    },
    /// Every length from `least` to `most` alike, both included.
    Uniform {
        /// The shortest.
        least: u32,
        /// The longest, at least `least`.
        most: u32,
    },
    /// These lengths with these weights.
    Empirical(Empirical),
}

/// Lengths with weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Empirical {
    /// Length and weight, ascending by length, no length twice, weights above 0.
    values: Arc<[(u32, f64)]>,
    /// Sum of the weights up to and with each.
    sums: Arc<[f64]>,
}

impl Empirical {
    /// From lengths and weights in any order; equal lengths add up, weights of 0 are left out.
    ///
    /// # Errors
    /// When there is none, or a length or weight is out of range.
    pub fn new(values: impl IntoIterator<Item = (u32, f64)>) -> Result<Self, TokenLengthError> {
        let mut sorted: Vec<(u32, f64)> = Vec::new();
        for (length, weight) in values {
            if !(1..=LONGEST).contains(&length) {
                return Err(TokenLengthError::new(&length.to_string(), Problem::Range));
            }
            if !(weight.is_finite() && (0.0..=1e12).contains(&weight)) {
                return Err(TokenLengthError::new(&weight.to_string(), Problem::Weight));
            }
            if weight > 0.0 {
                sorted.push((length, weight));
            }
        }
        sorted.sort_by_key(|(length, _)| *length);
        sorted.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        if sorted.is_empty() {
            return Err(TokenLengthError::new("", Problem::NoValue));
        }
        if sorted.len() > MOST_VALUES {
            return Err(TokenLengthError::new(
                &format!("{} different lengths", sorted.len()),
                Problem::TooMany,
            ));
        }
        let sums = sorted.iter().scan(0.0, |sum, (_, weight)| {
            *sum += weight;
            Some(*sum)
        });
        Ok(Empirical {
            sums: sums.collect(),
            values: sorted.into(),
        })
    }

    /// Length and weight, ascending by length.
    #[must_use]
    pub fn values(&self) -> &[(u32, f64)] {
        &self.values
    }

    /// The length below which a share of `p` lies, with `p` from 0 to 1.
    #[must_use]
    pub fn quantile(&self, p: f64) -> u32 {
        let sought = p * self.sums.last().copied().unwrap_or(0.0);
        let at = self.sums.partition_point(|sum| *sum <= sought);
        self.values
            .get(at)
            .or(self.values.last())
            .map_or(1, |(length, _)| *length)
    }

    fn moments(&self) -> (f64, f64) {
        let total: f64 = self.values.iter().map(|(_, weight)| weight).sum();
        let average = |of: &dyn Fn(f64) -> f64| {
            self.values
                .iter()
                .map(|(length, weight)| weight / total * of(f64::from(*length)))
                .sum::<f64>()
        };
        let mean = average(&|length| length);
        (mean, average(&|length| (length - mean).powi(2)).sqrt())
    }
}

impl TokenLength {
    /// Always exactly `mean` tokens.
    #[must_use]
    pub fn fixed(mean: u32) -> Self {
        TokenLength::Fixed(mean)
    }

    /// Mean, tokens; of a normal or lognormal distribution the mean before it is cut off.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            TokenLength::Fixed(mean)
            | TokenLength::Normal { mean, .. }
            | TokenLength::LogNormal { mean, .. } => f64::from(*mean),
            TokenLength::Uniform { least, most } => (f64::from(*least) + f64::from(*most)) / 2.0,
            TokenLength::Empirical(empirical) => empirical.moments().0,
        }
    }

    /// The mean as a whole number of tokens, at least 1.
    #[must_use]
    pub fn mean_tokens(&self) -> u32 {
        // From 1 to `LONGEST`: the cast saturates.
        (self.mean().round() as u32).max(1)
    }

    /// Standard deviation, tokens; of a normal or lognormal distribution before it is cut off. 0 where every request is
    /// alike.
    #[must_use]
    pub fn stddev(&self) -> f64 {
        match self {
            TokenLength::Fixed(_) => 0.0,
            TokenLength::Normal { stddev, .. } => *stddev,
            TokenLength::LogNormal { mean, sigma, .. } => f64::from(*mean) * (sigma * sigma).exp_m1().sqrt(),
            TokenLength::Uniform { least, most } => {
                let n = f64::from(*most) - f64::from(*least) + 1.0;
                ((n * n - 1.0) / 12.0).sqrt()
            }
            TokenLength::Empirical(empirical) => empirical.moments().1,
        }
    }

    /// In words for a person: `1024 tokens`, `uniform from 100 to 2000 tokens`.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            TokenLength::Fixed(mean) => format!("{mean} tokens"),
            TokenLength::Normal { mean, stddev } => format!("{mean} ± {stddev} tokens"),
            TokenLength::LogNormal { mean, sigma, most } => format!(
                "lognormal tokens of mean {mean} and sigma {sigma}{}",
                most.map_or_else(String::new, |most| format!(", at most {most}"))
            ),
            TokenLength::Uniform { least, most } => format!("uniform from {least} to {most} tokens"),
            TokenLength::Empirical(empirical) => format!(
                "tokens of {} given lengths: mean {:.0}, median {}, p95 {}",
                empirical.values.len(),
                self.mean(),
                empirical.quantile(0.5),
                empirical.quantile(0.95)
            ),
        }
    }
}

/// A token length that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a token length: {}", problem.remedy(text))]
pub struct TokenLengthError {
    text: String,
    problem: Problem,
}

impl TokenLengthError {
    fn new(text: &str, problem: Problem) -> Self {
        let mut shown: String = text.chars().filter(|c| !c.is_control()).take(60).collect();
        if text.chars().count() > 60 {
            shown.push('…');
        }
        TokenLengthError { text: shown, problem }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Problem {
    Number,
    Range,
    Sigma,
    Most,
    Uniform,
    Weight,
    NoValue,
    TooMany,
    File,
    Unknown,
}

/// Names of distributions, and what they may be confused with.
const NAMES: [&str; 5] = ["normal", "lognormal", "uniform", "empirical", "file"];

impl Problem {
    fn remedy(self, text: &str) -> String {
        match self {
            Problem::Number | Problem::Range => {
                "write MEAN or MEAN:STDDEV in tokens, such as `1024` or `1024:128`, with a mean from 1 to 10000000"
                    .to_owned()
            }
            Problem::Sigma => {
                "write lognormal:MEAN:SIGMA, such as `lognormal:1024:0.8`; sigma is the standard deviation of the \
                 logarithm, above 0 and at most 5"
                    .to_owned()
            }
            Problem::Most => "the longest must be from the mean of the lognormal to 10000000".to_owned(),
            Problem::Uniform => {
                "write uniform:LEAST-MOST, such as `uniform:100-2000`, with 1 <= LEAST <= MOST <= 10000000".to_owned()
            }
            Problem::Weight => {
                "write empirical:LENGTH@WEIGHT,..., such as `empirical:128@3,512@1`, with weights from 0 to 1e12".to_owned()
            }
            Problem::NoValue => "it holds no length; write for example `empirical:128@3,512@1`".to_owned(),
            Problem::TooMany => "at most 65536 different lengths can be kept; round them".to_owned(),
            Problem::File => "a file of lengths can be named only on the command line and in the sweep file".to_owned(),
            Problem::Unknown => {
                let name = text.split(':').next().unwrap_or(text);
                format!(
                    "distributions are MEAN[:STDDEV], lognormal:MEAN:SIGMA[:MOST], uniform:LEAST-MOST, \
                     empirical:LENGTH@WEIGHT,... and file:PATH{}",
                    hint(name, &NAMES)
                )
            }
        }
    }
}

impl FromStr for TokenLength {
    type Err = TokenLengthError;

    fn from_str(text: &str) -> Result<Self, TokenLengthError> {
        let fail = |problem| TokenLengthError::new(text, problem);
        let trimmed = text.trim();
        let named = trimmed
            .split_once(':')
            .filter(|(name, _)| name.starts_with(|c: char| c.is_ascii_alphabetic()));
        match named {
            None if trimmed.starts_with(|c: char| c.is_ascii_alphabetic()) => Err(fail(Problem::Unknown)),
            None => normal(trimmed).map_err(fail),
            Some(("normal", rest)) => normal(rest).map_err(fail),
            Some(("lognormal", rest)) => lognormal(rest).map_err(fail),
            Some(("uniform", rest)) => uniform(rest).ok_or_else(|| fail(Problem::Uniform)),
            Some(("empirical", rest)) => empirical(rest, text),
            Some(("file", _)) => Err(fail(Problem::File)),
            Some(_) => Err(fail(Problem::Unknown)),
        }
    }
}

fn tokens(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|n| (1..=LONGEST).contains(n))
}

fn normal(text: &str) -> Result<TokenLength, Problem> {
    let (mean, stddev) = match text.split_once(':') {
        Some((mean, stddev)) => (mean, stddev.trim().parse::<f64>().map_err(|_| Problem::Number)?),
        None => (text, 0.0),
    };
    let mean = tokens(mean).ok_or(Problem::Range)?;
    if !(0.0..=f64::from(LONGEST)).contains(&stddev) {
        return Err(Problem::Range);
    }
    Ok(if stddev == 0.0 {
        TokenLength::Fixed(mean)
    } else {
        TokenLength::Normal { mean, stddev }
    })
}

fn lognormal(text: &str) -> Result<TokenLength, Problem> {
    let mut parts = text.split(':');
    let mean = parts.next().and_then(tokens).ok_or(Problem::Range)?;
    let sigma = parts
        .next()
        .and_then(|sigma| sigma.trim().parse::<f64>().ok())
        .filter(|sigma| *sigma > 0.0 && *sigma <= LARGEST_SIGMA)
        .ok_or(Problem::Sigma)?;
    let most = match parts.next() {
        Some(most) => Some(tokens(most).filter(|most| *most >= mean).ok_or(Problem::Most)?),
        None => None,
    };
    if parts.next().is_some() {
        return Err(Problem::Sigma);
    }
    Ok(TokenLength::LogNormal { mean, sigma, most })
}

fn uniform(text: &str) -> Option<TokenLength> {
    let (least, most) = text.split_once('-')?;
    let (least, most) = (tokens(least)?, tokens(most)?);
    (least <= most).then_some(TokenLength::Uniform { least, most })
}

fn empirical(text: &str, whole: &str) -> Result<TokenLength, TokenLengthError> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (length, weight) = part.split_once('@').unwrap_or((part, "1"));
        let length = tokens(length).ok_or_else(|| TokenLengthError::new(whole, Problem::Weight))?;
        let weight = weight.trim().parse::<f64>();
        values.push((
            length,
            weight.map_err(|_| TokenLengthError::new(whole, Problem::Weight))?,
        ));
    }
    Empirical::new(values)
        .map(TokenLength::Empirical)
        .map_err(|error| TokenLengthError::new(whole, error.problem))
}

impl fmt::Display for TokenLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenLength::Fixed(mean) => write!(f, "{mean}"),
            TokenLength::Normal { mean, stddev } => write!(f, "{mean}:{stddev}"),
            TokenLength::LogNormal { mean, sigma, most } => {
                write!(f, "lognormal:{mean}:{sigma}")?;
                most.map_or(Ok(()), |most| write!(f, ":{most}"))
            }
            TokenLength::Uniform { least, most } => write!(f, "uniform:{least}-{most}"),
            TokenLength::Empirical(empirical) => {
                f.write_str("empirical:")?;
                for (at, (length, weight)) in empirical.values.iter().enumerate() {
                    write!(f, "{}{length}", if at == 0 { "" } else { "," })?;
                    if *weight != 1.0 {
                        write!(f, "@{weight}")?;
                    }
                }
                Ok(())
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn length(text: &str) -> TokenLength {
        text.parse().unwrap()
    }

    #[test]
    fn each_spelling_means_one_distribution_and_is_written_back() {
        for (text, written, mean, stddev) in [
            ("64", "64", 64.0, 0.0),
            (" 64 : 8 ", "64:8", 64.0, 8.0),
            ("64:0", "64", 64.0, 0.0),
            ("normal:64:8", "64:8", 64.0, 8.0),
            // exp(0.64) - 1 = 0.896481; its root 0.946827.
            ("lognormal:1000:0.8", "lognormal:1000:0.8", 1000.0, 946.827),
            (
                "lognormal:1000:0.8:4000",
                "lognormal:1000:0.8:4000",
                1000.0,
                946.827,
            ),
            // A die: 3.5, sqrt(35/12).
            ("uniform:1-6", "uniform:1-6", 3.5, 1.707_825),
            ("uniform:7-7", "uniform:7-7", 7.0, 0.0),
            ("empirical:512,128@3", "empirical:128@3,512", 224.0, 166.277),
            ("empirical:5,5,5", "empirical:5@3", 5.0, 0.0),
        ] {
            let length = length(text);
            assert_eq!(length.to_string(), written);
            assert_eq!(written.parse(), Ok(length.clone()));
            assert!((length.mean() - mean).abs() < 1e-9, "{text}: {}", length.mean());
            assert!(
                (length.stddev() - stddev).abs() < 1e-3,
                "{text}: {}",
                length.stddev()
            );
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy() {
        for (text, expected) in [
            ("0", "MEAN or MEAN:STDDEV"),
            ("-1", "MEAN or MEAN:STDDEV"),
            ("64:", "MEAN or MEAN:STDDEV"),
            ("64:-1", "MEAN or MEAN:STDDEV"),
            ("64:nan", "MEAN or MEAN:STDDEV"),
            ("64:inf", "MEAN or MEAN:STDDEV"),
            ("10000001", "MEAN or MEAN:STDDEV"),
            ("99999999999999999999", "MEAN or MEAN:STDDEV"),
            ("", "MEAN or MEAN:STDDEV"),
            ("x", "distributions are"),
            ("lognorm:100:1", "did you mean `lognormal`"),
            ("lognormal:100", "lognormal:MEAN:SIGMA"),
            ("lognormal:100:0", "lognormal:MEAN:SIGMA"),
            ("lognormal:100:9", "lognormal:MEAN:SIGMA"),
            ("lognormal:100:nan", "lognormal:MEAN:SIGMA"),
            ("lognormal:100:1:50", "the longest must be"),
            ("lognormal:100:1:500:3", "lognormal:MEAN:SIGMA"),
            ("uniform:100", "uniform:LEAST-MOST"),
            ("uniform:200-100", "uniform:LEAST-MOST"),
            ("uniform:0-100", "uniform:LEAST-MOST"),
            ("empirical:", "holds no length"),
            ("empirical:5@0", "holds no length"),
            ("empirical:5@-1", "weights from 0"),
            ("empirical:5@nan", "weights from 0"),
            ("empirical:0@1", "weights from 0"),
            ("empirical:5@1e300", "weights from 0"),
            ("file:x", "only on the command line"),
        ] {
            let error = text.parse::<TokenLength>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(
                error.contains("is not a token length") && !error.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn quantiles_of_given_lengths_are_those_of_their_weights() {
        let TokenLength::Empirical(given) = length("empirical:10@1,20@2,30@1") else {
            panic!("not empirical")
        };
        let quantiles: Vec<u32> = [0.0, 0.2, 0.25, 0.5, 0.74, 0.75, 1.0]
            .map(|p| given.quantile(p))
            .to_vec();
        assert_eq!(quantiles, [10, 10, 20, 20, 20, 30, 30]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_is_read_again(text in "(normal:|lognormal:|uniform:|empirical:|)[-0-9.:@,e]{0,24}") {
            if let Ok(length) = text.parse::<TokenLength>() {
                proptest::prop_assert_eq!(length.to_string().parse::<TokenLength>().unwrap(), length.clone());
                proptest::prop_assert!(length.mean() >= 1.0 && length.stddev().is_finite());
            }
        }

        #[test]
        fn hostile_text_is_no_length(text in "\\PC{0,40}") {
            let _ = text.parse::<TokenLength>();
        }
    }
}
