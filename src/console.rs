//! What goes to stdout and stderr. Whoever reads them may leave early or have no room left: that is no defect of the
//! program, so nothing here panics as `print!` and `eprint!` do.

use std::io::{self, ErrorKind, Write};

use anyhow::anyhow;

/// The longest error shown, characters: what it quotes may be of any length.
const LONGEST: usize = 1000;

/// Writes results to stdout. A reader that has seen enough, such as `head`, is none of our business.
///
/// # Errors
/// When stdout takes nothing for another reason, such as a full disk.
pub fn put(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(anyhow!(
            "stdout cannot be written: {error}; make room or send it elsewhere"
        )),
        _ => Ok(()),
    }
}

/// Writes a line to stderr where somebody listens.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Text from elsewhere as a terminal may show it: no control characters, so that none can move the cursor.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// An error with its causes in one line that a terminal can show. Causes that the line already names are left out.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    let shown: Vec<char> = plain(&text).chars().collect();
    if shown.len() <= LONGEST {
        return shown.into_iter().collect();
    }
    // What is wrong stands at the beginning, what to do about it at the end.
    let (head, tail) = (&shown[..LONGEST / 2], &shown[shown.len() - LONGEST / 2..]);
    head.iter().chain(&['…']).chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn errors_are_one_line_without_repetition() {
        let inner = Err::<(), _>(anyhow!("no such file")).context("x.json: no such file");
        let error = inner.context("cannot\nread \u{1b}[31mthe run").unwrap_err();
        assert_eq!(one_line(&error), "cannot read  [31mthe run: x.json: no such file");
        let long = one_line(&anyhow!("bad {}; write é", "é".repeat(5000)));
        assert_eq!(long.chars().count(), LONGEST + 1);
        assert!(
            long.starts_with("bad é") && long.ends_with("é; write é"),
            "{long}"
        );
    }
}
