//! What can be wrong with a file of prompts, lengths or times: the file, the line, and what to do.

/// A file that cannot be used. One line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It cannot be read.
    #[error("{file}: {problem}")]
    Unreadable {
        /// As it was named.
        file: String,
        /// What the system says.
        problem: String,
    },
    /// A line that is not what its format says.
    #[error("{file}, line {line}: {problem}")]
    Line {
        /// As it was named.
        file: String,
        /// Counted from 1.
        line: u64,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// An entry of a file without lines that is not what its format says.
    #[error("{file}, entry {entry}: {problem}")]
    Entry {
        /// As it was named.
        file: String,
        /// Counted from 1.
        entry: u64,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// Nothing in it can be used.
    #[error("{file}: there is {problem} in it")]
    Nothing {
        /// As it was named.
        file: String,
        /// What is missing.
        problem: String,
    },
}

impl SourceError {
    pub(crate) fn unreadable(file: &str, problem: impl ToString) -> Self {
        SourceError::Unreadable {
            file: file.to_owned(),
            problem: one_line(&problem.to_string()),
        }
    }

    pub(crate) fn line(file: &str, line: u64, problem: impl Into<String>) -> Self {
        SourceError::Line {
            file: file.to_owned(),
            line,
            problem: one_line(&problem.into()),
        }
    }

    pub(crate) fn entry(file: &str, entry: u64, problem: impl Into<String>) -> Self {
        SourceError::Entry {
            file: file.to_owned(),
            entry,
            problem: one_line(&problem.into()),
        }
    }

    pub(crate) fn nothing(file: &str, problem: &str) -> Self {
        SourceError::Nothing {
            file: file.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

/// A text as it can stand in one line of an error: no control characters, at most 40 characters.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    if text.chars().count() > 40 {
        short.push('…');
    }
    short
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
