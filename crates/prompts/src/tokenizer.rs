//! A local tokenizer, for endpoints that do not say how many tokens a prompt has.

#[cfg(feature = "tokenizer")]
use rand::SeedableRng;
#[cfg(feature = "tokenizer")]
use rand::rngs::StdRng;

use crate::calibration::Calibration;
use crate::error::SourceError;
use crate::rows::Rows;

/// Reads a `tokenizer.json` and says how it counts our words and the texts of a dataset; what a chat template adds it
/// does not know.
///
/// # Errors
/// When the file is none, or this build has no tokenizers.
#[cfg(feature = "tokenizer")]
pub fn count_with(file: &str, rows: Option<&Rows>) -> Result<Calibration, SourceError> {
    /// Words and texts that are counted.
    const WORDS: u32 = 4_000;
    const TEXTS: usize = 400;

    // Says plainly what is no file at all.
    crate::file::open(file)?;
    let tokenizer = tokenizers::Tokenizer::from_file(file).map_err(|error| {
        SourceError::unreadable(
            file,
            format!("not a tokenizer ({error}); name a Hugging Face tokenizer.json"),
        )
    })?;
    let count = |text: &str| -> Result<f64, SourceError> {
        let encoding = tokenizer
            .encode_fast(text, false)
            .map_err(|error| SourceError::unreadable(file, error))?;
        Ok(encoding.len() as f64)
    };
    let words = crate::words::synthetic(&mut StdRng::seed_from_u64(1), WORDS);
    let per_word = count(&words)? / f64::from(WORDS);
    let (mut tokens, mut bytes) = (0.0, 0.0);
    if let Some(Rows::Dataset(dataset)) = rows {
        for text in dataset.sample(TEXTS) {
            tokens += count(text)?;
            bytes += text.len() as f64;
        }
    }
    // A tokenizer of bytes or of whole texts lies within these; anything else is none.
    if !(0.01..=64.0).contains(&per_word) {
        return Err(SourceError::unreadable(
            file,
            format!("it makes {per_word} tokens of a word, which no tokenizer does"),
        ));
    }
    Ok(Calibration {
        overhead: 0.0,
        per_word,
        per_byte: if tokens > 0.0 {
            tokens / bytes
        } else {
            Calibration::UNKNOWN.per_byte
        },
    })
}

/// Says that this build has no tokenizers.
///
/// # Errors
/// Always.
#[cfg(not(feature = "tokenizer"))]
pub fn count_with(file: &str, _rows: Option<&Rows>) -> Result<Calibration, SourceError> {
    Err(SourceError::unreadable(
        file,
        "this build has no tokenizers; build it with `--features tokenizer`, or leave out --tokenizer: the endpoint counts",
    ))
}

#[cfg(all(test, feature = "tokenizer"))]
mod tests {
    use super::*;

    /// Splits at white space and knows no word: each is one unknown token.
    const WHOLE_WORDS: &str = r#"{"version": "1.0", "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null, "truncation": null,
        "padding": null, "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}}"#;

    #[test]
    fn words_are_counted_as_the_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, WHOLE_WORDS).unwrap();
        let found = count_with(path.to_str().unwrap(), None).unwrap();
        assert_eq!((found.per_word, found.overhead), (1.0, 0.0));
        let data = folder.path().join("d.jsonl");
        std::fs::write(&data, "{\"prompt\": \"abc de f gh\"}\n").unwrap();
        let rows = crate::load_dataset(data.to_str().unwrap(), &crate::DatasetOptions::default())
            .unwrap()
            .rows;
        let found = count_with(path.to_str().unwrap(), Some(&rows)).unwrap();
        // Four words in eleven bytes.
        assert!((found.per_byte - 4.0 / 11.0).abs() < 1e-12);
        std::fs::write(&path, "{}").unwrap();
        let error = count_with(path.to_str().unwrap(), None).unwrap_err().to_string();
        assert!(
            error.contains("not a tokenizer") && !error.contains('\n'),
            "{error}"
        );
        assert!(count_with("/nowhere", None).is_err());
    }
}
