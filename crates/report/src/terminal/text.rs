//! Text as a terminal shows it: painted, wrapped, and without control characters.

/// How a piece of text is painted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Paint {
    Plain,
    Bold,
    Dim,
    Green,
    Yellow,
}

impl Paint {
    pub(super) fn over(self, text: &str, colour: bool) -> String {
        let code = match self {
            Paint::Plain => return text.to_owned(),
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Green => "32",
            Paint::Yellow => "33",
        };
        if colour {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Text without control characters: line breaks and tabs become spaces, the rest goes.
pub(super) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c })
        .filter(|c| !c.is_control())
        .collect()
}

/// Breaks `text` into lines of at most `width`, the first after `lead`, the others after `indent`. A word longer
/// than a line stands alone on one. Ends with a line break.
pub(super) fn wrapped(lead: &str, indent: &str, text: &str, width: Option<u16>) -> String {
    let width = width.map_or(usize::MAX, usize::from);
    let mut out = lead.to_owned();
    let mut used = lead.chars().count();
    let mut first_word = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !first_word && used.saturating_add(1 + length) > width {
            out.push('\n');
            out.push_str(indent);
            used = indent.chars().count();
            first_word = true;
        }
        if !first_word {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
        first_word = false;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hang_and_long_words_stand_alone() {
        assert_eq!(
            wrapped("- ", "  ", "one two  three extraordinarily", Some(9)),
            "- one two\n  three\n  extraordinarily\n"
        );
        assert_eq!(wrapped("", "", "", Some(9)), "\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\nc\u{7}"), "a[31mb c");
    }
}
