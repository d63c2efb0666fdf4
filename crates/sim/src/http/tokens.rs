//! How prompts are counted: a small tokeniser without a vocabulary, and the blocks that the prefix cache knows.
//!
//! Letters make tokens of up to six, digits of up to three, each newline and every other character one of its own;
//! spaces belong to what follows them. A chat is wrapped in a template as real models wrap it, so that a prompt costs
//! more tokens than its text, which a client must find out.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::prompts::mix;

/// Letters in a token, at most.
const LETTERS: usize = 6;
/// Digits in a token, at most.
const DIGITS: usize = 3;

/// The tokens of a prompt, as far as the engine needs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// How many.
    pub tokens: u32,
    /// The hash of each full block and all before it.
    pub block_hashes: Vec<u64>,
    /// The hash of all.
    pub hash: u64,
    block_size: u32,
}

impl Prompt {
    fn new(block_size: u32) -> Self {
        Prompt {
            tokens: 0,
            block_hashes: Vec::new(),
            hash: 0,
            block_size: block_size.max(1),
        }
    }

    /// Of token ids.
    pub(crate) fn of_ids(ids: &[u32], block_size: u32) -> Self {
        let mut prompt = Prompt::new(block_size);
        for id in ids {
            prompt.push(u64::from(*id));
        }
        prompt
    }

    /// Of a text alone.
    pub(crate) fn of_text(text: &str, block_size: u32) -> Self {
        let mut prompt = Prompt::new(block_size);
        prompt.push_text(text);
        prompt
    }

    /// Of a chat of `(role, text)`: `<start> role \n text <end> \n` for each message, `<start> assistant \n` at last.
    pub(crate) fn of_chat<'a>(
        messages: impl IntoIterator<Item = (&'a str, &'a str)>,
        block_size: u32,
    ) -> Self {
        let mut prompt = Prompt::new(block_size);
        for (role, text) in messages {
            prompt.push_text("\u{1}");
            prompt.push_text(role);
            prompt.push_text("\n");
            prompt.push_text(text);
            prompt.push_text("\u{2}\n");
        }
        prompt.push_text("\u{1}");
        // One token in every real vocabulary.
        prompt.push_piece("assistant", false);
        prompt.push_text("\n");
        prompt
    }

    fn push(&mut self, token: u64) {
        self.hash = mix(self.hash, token);
        self.tokens = self.tokens.saturating_add(1);
        if self.tokens.is_multiple_of(self.block_size) {
            self.block_hashes.push(self.hash);
        }
    }

    fn push_piece(&mut self, piece: &str, spaced: bool) {
        let mut hasher = DefaultHasher::new();
        piece.hash(&mut hasher);
        spaced.hash(&mut hasher);
        self.push(hasher.finish());
    }

    fn push_text(&mut self, text: &str) {
        let mut spaced = false;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if first.is_whitespace() && first != '\n' {
                spaced = true;
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let length = if first.is_ascii_alphabetic() {
                run(rest, LETTERS, |byte| byte.is_ascii_alphabetic())
            } else if first.is_ascii_digit() {
                run(rest, DIGITS, |byte| byte.is_ascii_digit())
            } else {
                first.len_utf8()
            };
            let (piece, after) = rest.split_at(length);
            self.push_piece(piece, spaced);
            spaced = false;
            rest = after;
        }
    }
}

/// Length of the beginning of `text`, at most `most` bytes, of which every byte is of the kind.
fn run(text: &str, most: usize, kind: impl Fn(u8) -> bool) -> usize {
    text.bytes().take(most).take_while(|byte| kind(*byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> u32 {
        Prompt::of_text(text, 16).tokens
    }

    #[test]
    fn texts_have_the_tokens_of_the_rules() {
        assert_eq!(count(""), 0);
        assert_eq!(count("one two  three"), 3);
        assert_eq!(count("understanding"), 3, "underst-anding is cut at six letters");
        assert_eq!(count("12345"), 2);
        assert_eq!(count("Hi, you!"), 4);
        assert_eq!(count("a\n\nb"), 4);
        assert_eq!(count("日本 é"), 3);
    }

    #[test]
    fn a_chat_costs_more_than_its_text() {
        let chat = Prompt::of_chat([("user", "one two three")], 16);
        // <start> user \n, three words, <end> \n, <start> assistant \n
        assert_eq!(chat.tokens, 3 + 3 + 2 + 3);
    }

    #[test]
    fn blocks_are_equal_up_to_the_first_difference() {
        let text = |words: u32, last: &str| {
            let mut text: String = (0..words).map(|_| "word ").collect();
            text.push_str(last);
            Prompt::of_text(&text, 16).block_hashes
        };
        let (one, other) = (text(40, &"x ".repeat(8)), text(40, &"y ".repeat(8)));
        assert_eq!(one.len(), 3);
        assert_eq!(one[..2], other[..2]);
        assert_ne!(one[2], other[2]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = Prompt::of_text(&text, 16);
        }
    }
}
