//! The ladder: the levels a sweep climbs.

use std::fmt;
use std::str::FromStr;

/// Levels in ascending order, each at least 1 and none twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder(Vec<u32>);

/// The highest level that may be asked for.
pub const MAX_LEVEL: u32 = 1_000_000;

/// Levels that do not make a ladder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// Nothing in it.
    #[error("a ladder needs at least one level, such as 64,256,1024")]
    Empty,
    /// Not a whole number in range.
    #[error("level `{0}` is not a whole number from 1 to {MAX_LEVEL}")]
    NotALevel(String),
    /// The same level twice.
    #[error("level {0} stands twice; name each level once")]
    Repeated(u32),
    /// A level below the one before it.
    #[error("level {after} comes after {before}; name the levels in ascending order")]
    Descending {
        /// The earlier, larger level.
        before: u32,
        /// The later, smaller one.
        after: u32,
    },
}

impl Ladder {
    /// The ladder that AWS's own example climbs: 64, 256, 1024.
    #[must_use]
    pub fn standard() -> Self {
        Ladder(vec![64, 256, 1024])
    }

    /// A ladder of these levels.
    ///
    /// # Errors
    /// When there is none, one is 0 or too large, or they do not ascend.
    pub fn new(levels: Vec<u32>) -> Result<Self, LadderError> {
        if levels.is_empty() {
            return Err(LadderError::Empty);
        }
        if let Some(level) = levels.iter().find(|level| !(1..=MAX_LEVEL).contains(*level)) {
            return Err(LadderError::NotALevel(level.to_string()));
        }
        for pair in levels.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            if levels.iter().filter(|level| **level == after).count() > 1 {
                return Err(LadderError::Repeated(after));
            }
            if after < before {
                return Err(LadderError::Descending { before, after });
            }
        }
        Ok(Ladder(levels))
    }

    /// The levels, ascending.
    #[must_use]
    pub fn levels(&self) -> &[u32] {
        &self.0
    }

    /// The lowest level.
    #[must_use]
    pub fn lowest(&self) -> u32 {
        self.0.first().copied().unwrap_or(1)
    }

    /// The highest level.
    #[must_use]
    pub fn highest(&self) -> u32 {
        self.0.last().copied().unwrap_or(1)
    }
}

impl FromStr for Ladder {
    type Err = LadderError;

    fn from_str(text: &str) -> Result<Self, LadderError> {
        let levels = text
            .split(',')
            .map(|part| {
                part.trim()
                    .parse::<u32>()
                    .map_err(|_| LadderError::NotALevel(part.trim().to_owned()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ladder::new(levels)
    }
}

impl fmt::Display for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, level) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            write!(f, "{level}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_ascend_from_one() {
        assert_eq!("1, 4,16".parse::<Ladder>().unwrap().levels(), [1, 4, 16]);
        assert_eq!("0,4".parse::<Ladder>(), Err(LadderError::NotALevel("0".into())));
        assert_eq!("4,x".parse::<Ladder>(), Err(LadderError::NotALevel("x".into())));
        assert_eq!("4,4".parse::<Ladder>(), Err(LadderError::Repeated(4)));
        assert_eq!("4,8,4".parse::<Ladder>(), Err(LadderError::Repeated(4)));
        assert_eq!(
            "8,4".parse::<Ladder>(),
            Err(LadderError::Descending { before: 8, after: 4 })
        );
        assert!("".parse::<Ladder>().is_err());
        assert!("99999999".parse::<Ladder>().is_err());
    }
}
