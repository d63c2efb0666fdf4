//! The nearest known name to a misspelt one.

/// The known name that `given` most likely meant, when one is near enough to be worth saying.
#[must_use]
pub fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let given = given.to_ascii_lowercase();
    known
        .iter()
        .map(|name| {
            (
                strsim::damerau_levenshtein(&given, &name.to_ascii_lowercase()),
                *name,
            )
        })
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= (name.len().max(given.len()) / 2).max(1))
        .map(|(_, name)| name)
}

/// ` (did you mean `x`?)`, or nothing where no known name is near.
#[must_use]
pub fn hint(given: &str, known: &[&str]) -> String {
    nearest(given, known).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_find_their_word_and_nonsense_finds_none() {
        assert_eq!(nearest("tfft", &["ttft", "tpot"]), Some("ttft"));
        assert_eq!(nearest("P95", &["p90", "p95"]), Some("p95"));
        assert_eq!(nearest("zzzzzzz", &["ttft", "tpot"]), None);
    }
}
