//! What is wrong with a sweep file, in plain words: the line, the key, and what to write instead. The parser speaks of the types
//! of the program (`expected u32`), which nobody who writes a file should have to know.

use plimsoll_run::nearest::nearest;

/// One line for an error of the parser.
pub(super) fn words(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(at) = error.span().map(|span| span.start.min(text.len())) else {
        return plain(&message).unwrap_or(message);
    };
    let line = text[..at].matches('\n').count() + 1;
    let key = key_at(text, at);
    let named = key.map_or_else(String::new, |key| format!("`{key}`"));
    match plain(&message) {
        Some(plain) if named.is_empty() => format!("line {line}: this is {plain}"),
        Some(plain) => format!("line {line}: {named} is {plain}"),
        // The span is that of the key itself.
        None if message.starts_with("unknown field") => {
            format!("line {line}: {message}{}", suggestion(&message))
        }
        None if named.is_empty() => format!("line {line}: {message}"),
        None => format!("line {line}: {named}: {message}"),
    }
}

/// `invalid type: string "x", expected u32` as `"x" where a whole number from 0 to 4294967295 is wanted`; `None` for other
/// messages, which are in words already.
fn plain(message: &str) -> Option<String> {
    if message.starts_with("data did not match any variant") {
        return Some("of the wrong kind; write a number, or text in quotes".to_owned());
    }
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    Some(format!("{}; write {}", given(found), wanted(expected)?))
}

/// What stands there, as a person would name it.
fn given(found: &str) -> String {
    if let Some(text) = found.strip_prefix("string ") {
        return text.to_owned();
    }
    for kind in ["integer", "floating point", "boolean"] {
        if let Some(value) = found.strip_prefix(kind) {
            return value.trim_matches([' ', '`']).to_owned();
        }
    }
    match found {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        other => other.to_owned(),
    }
}

/// What is wanted there, by the name that the parser has for it. `None` for what is in words already.
fn wanted(expected: &str) -> Option<String> {
    Some(match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more, without quotes".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number without quotes".to_owned(),
        "f32" | "f64" => "a number without quotes".to_owned(),
        "a boolean" => "true or false, without quotes".to_owned(),
        "a string" | "a borrowed string" => "text in quotes".to_owned(),
        "path string" => "a file's name in quotes".to_owned(),
        "a sequence" => "a list in brackets, such as [1, 2]".to_owned(),
        "a map" => "a table of names and values".to_owned(),
        table if table.starts_with("struct ") => "a table of names and values".to_owned(),
        other if other.contains("struct") || other.contains("enum") => return None,
        other => other.to_owned(),
    })
}

/// The key whose value stands at `at`, with its table: `sweep.levels`. A list may span lines, so that the key is sought
/// upwards.
fn key_at(text: &str, at: usize) -> Option<String> {
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    let lines: Vec<&str> = text[..end].lines().collect();
    let is_header = |line: &str| line.starts_with('[') && !line.contains('=');
    let mut key = None;
    for line in lines.iter().rev().map(|line| line.trim()) {
        if is_header(line) {
            // Within a list over several lines, one that begins with a bracket is none.
            let table = line.trim_matches(['[', ']', ' ']);
            return Some(match key {
                Some(key) => format!("{table}.{key}"),
                None => table.to_owned(),
            });
        }
        if key.is_none()
            && let Some((name, _)) = line.split_once('=')
            && is_key(name.trim())
        {
            key = Some(name.trim().replace('"', ""));
        }
    }
    key
}

/// Whether this may stand before a `=`: neither a comment nor the beginning of a text in a list.
fn is_key(name: &str) -> bool {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '"' | ' ');
    !name.is_empty() && name.chars().all(bare) && name.matches('"').count().is_multiple_of(2)
}

/// serde names the unknown key and the known ones in backticks; this adds which of them was likely meant.
fn suggestion(message: &str) -> String {
    if !message.starts_with("unknown field") {
        return String::new();
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let Some(given) = names.next() else {
        return String::new();
    };
    let known: Vec<&str> = names.collect();
    nearest(given, &known).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

#[cfg(test)]
mod tests {
    use super::super::SweepFile;

    #[test]
    fn values_of_the_wrong_kind_are_named_in_plain_words() {
        for (text, expected) in [
            (
                "[sweep]\nmin = \"4\"",
                "line 2: `sweep.min` is \"4\"; write a whole number, 0 or more, without quotes",
            ),
            (
                "[sweep]\nmin = 1.5",
                "line 2: `sweep.min` is 1.5; write a whole number",
            ),
            (
                "[sweep]\nmax = -4",
                "line 2: `sweep.max` is -4; write a whole number",
            ),
            (
                "[sweep]\nresolution = \"0.1\"",
                "line 2: `sweep.resolution` is \"0.1\"; write a number without quotes",
            ),
            (
                "[sweep]\nlevels = [\n  4,\n  \"x\",\n]",
                "line 4: `sweep.levels` is \"x\"; write a whole number",
            ),
            (
                "[sweep]\nlevels = 4",
                "line 2: `sweep.levels` is 4; write a list in brackets",
            ),
            (
                "[sweep]\nverify = \"yes\"",
                "line 2: `sweep.verify` is \"yes\"; write true or false",
            ),
            (
                "[sweep]\nmax-time = 15",
                "line 2: `sweep.max-time` is 15; write text in quotes",
            ),
            (
                "[sweep]\nout = 4",
                "line 2: `sweep.out` is 4; write a file's name in quotes",
            ),
            (
                "sweep = 4",
                "line 1: `sweep` is 4; write a table of names and values",
            ),
            (
                "[targets.prod]\nurl = 4",
                "line 2: `targets.prod.url` is 4; write text in quotes",
            ),
            (
                "[peak]\nmean-load = true",
                "line 2: `peak.mean-load` is of the wrong kind; write a number, or text in quotes",
            ),
            ("[peak]\nmean-load = \"x\"", "line 2: `peak.mean-load`: "),
            (
                "[targets]\nprod = \"http://h\"",
                "line 2: `targets.prod` is \"http://h\"; write a table of names and values",
            ),
        ] {
            let error = format!("{:#}", SweepFile::parse(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
            for kind in ["u32", "u64", "f64", "struct", "Table", "integer", "string "] {
                assert!(!error.contains(kind), "{text}: {error}");
            }
        }
    }
}
