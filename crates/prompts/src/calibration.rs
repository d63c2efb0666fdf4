//! How a server counts the tokens of a prompt.

/// `overhead + per_word * words` for prompts of our own words, `overhead + per_byte * bytes` for texts of a dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Tokens of the chat template and whatever else comes with every prompt.
    pub overhead: f64,
    /// Tokens a word, above 0.
    pub per_word: f64,
    /// Tokens a byte of a dataset's text, above 0.
    pub per_byte: f64,
}

impl Calibration {
    /// One token a word, and four bytes a token: what to assume of a server that does not count.
    pub const UNKNOWN: Calibration = Calibration {
        overhead: 0.0,
        per_word: 1.0,
        per_byte: 0.25,
    };

    /// Words of a prompt of so many tokens, overhead included; at least 1.
    #[must_use]
    pub fn words(self, tokens: u32) -> u32 {
        // The cast saturates, and 1 is the least that can be asked.
        (((f64::from(tokens) - self.overhead) / self.per_word).round() as u32).max(1)
    }

    /// Words of a part of a prompt that has so many tokens by itself; at least 1.
    #[must_use]
    pub fn words_of_part(self, tokens: u32) -> u32 {
        ((f64::from(tokens) / self.per_word).round() as u32).max(1)
    }

    /// Tokens of a prompt of so many words.
    #[must_use]
    pub fn tokens(self, words: u32) -> f64 {
        self.overhead + self.per_word * f64::from(words)
    }

    /// Tokens of a text of so many bytes, without the overhead; at least 1.
    #[must_use]
    pub fn tokens_of_text(self, bytes: usize) -> u32 {
        ((bytes as f64 * self.per_byte).round() as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_tokens_are_inverse() {
        let calibration = Calibration {
            overhead: 30.0,
            per_word: 1.25,
            ..Calibration::UNKNOWN
        };
        assert_eq!(calibration.words(1030), 800);
        assert_eq!(calibration.tokens(800), 1030.0);
        assert_eq!(calibration.words_of_part(100), 80);
        assert_eq!(calibration.words(10), 1, "never fewer than one word");
        assert_eq!(Calibration::UNKNOWN.words(64), 64);
        assert_eq!(Calibration::UNKNOWN.tokens_of_text(400), 100);
        assert_eq!(Calibration::UNKNOWN.tokens_of_text(0), 1);
    }
}
