//! The workload: what one request looks like.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use crate::token_length::{Empirical, LONGEST, MOST_VALUES, TokenLength, TokenLengthError};

/// What one request looks like.
///
/// Concurrency always counts requests in flight. A user who thinks between two turns of a conversation is not in flight;
/// the slot serves another conversation meanwhile, so more conversations are open than requests are in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Prompt length by the server's own count. In a conversation: what the user adds each turn. With a dataset or a
    /// trace: what their requests have, in up to a hundred steps.
    pub input_tokens: TokenLength,
    /// Reply length asked for.
    pub output_tokens: TokenLength,
    /// Whether the reply is streamed.
    pub streaming: bool,
    /// A system prompt that many requests share.
    #[serde(default)]
    pub shared_prefix: Option<SharedPrefix>,
    /// Conversations of several turns.
    #[serde(default)]
    pub conversation: Option<Conversation>,
    /// The file whose requests are sent, in place of synthetic ones.
    #[serde(default)]
    pub source: Option<Source>,
    /// The tokenizer that counts tokens on our side, where one was given.
    #[serde(default)]
    pub tokenizer: Option<NamedFile>,
}

impl Default for Workload {
    /// 1024 tokens in, 256 out, streamed, every prompt new.
    fn default() -> Self {
        Workload {
            input_tokens: TokenLength::Fixed(1024),
            output_tokens: TokenLength::Fixed(256),
            streaming: true,
            shared_prefix: None,
            conversation: None,
            source: None,
            tokenizer: None,
        }
    }
}

/// A system prompt that many requests share, so that a prefix cache can serve it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SharedPrefix {
    /// Its length, tokens, at least 1. It is part of the prompt's length.
    pub tokens: u32,
    /// The share of requests that begin with a prefix of the pool, 0 to 1. The others have one of the same length that
    /// nobody else has.
    pub share: f64,
    /// How many different prefixes there are, at least 1; they take turns.
    pub pool: u32,
}

/// Conversations: each turn's prompt holds all turns before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// Turns of each, at least 2.
    pub turns: u32,
    /// Time from the end of a reply to the user's next message, seconds. A user who thinks is not in flight.
    pub think_s: f64,
}

/// A file by its name and content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    /// As it was named.
    pub file: String,
    /// SHA-256 of its bytes, in hex.
    pub sha256: String,
}

/// What kind of file requests come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Texts to send.
    Dataset,
    /// Lengths and arrival times that were recorded; the texts are synthetic.
    Trace,
}

/// The file whose requests are sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Texts or lengths.
    pub kind: SourceKind,
    /// Its format: `sharegpt`, `openai`, `csv`, `parquet`, `mooncake`, `azure`, `burstgpt`.
    pub format: String,
    /// Name and content.
    #[serde(flatten)]
    pub named: NamedFile,
    /// Requests in it that are used.
    pub requests: u64,
    /// The column of the prompts, where the user named it.
    #[serde(default)]
    pub prompt_column: Option<String>,
    /// The column of the reply lengths, where the user named it.
    #[serde(default)]
    pub output_column: Option<String>,
    /// What the timestamps of a trace count, `ms` or `s`, where the user said so.
    #[serde(default)]
    pub unit: Option<String>,
    /// Whether the user's `--output-tokens` take the place of the reply lengths in the file.
    #[serde(default)]
    pub own_output_tokens: bool,
}

impl Workload {
    /// Whether no two prompts are meant to have a beginning in common, so that a prefix cache has nothing to serve.
    #[must_use]
    pub fn is_cold(&self) -> bool {
        self.shared_prefix.is_none_or(|prefix| prefix.share == 0.0)
            && self.conversation.is_none()
            && self.source.as_ref().is_none_or(|source| {
                // Of the traces, Mooncake's alone say which blocks prompts share; the others get new prompts.
                source.kind == SourceKind::Trace && source.format != "mooncake"
            })
    }

    /// SHA-256 of all that makes requests alike, in hex: equal digests mean comparable runs.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut canonical = format!(
            "in={};out={};streaming={}",
            self.input_tokens, self.output_tokens, self.streaming
        );
        // What is not there adds nothing: digests of earlier versions stay as they are.
        if let Some(prefix) = self.shared_prefix {
            canonical += &format!(";prefix={},{},{}", prefix.tokens, prefix.share, prefix.pool);
        }
        if let Some(conversation) = self.conversation {
            canonical += &format!(";turns={},{}", conversation.turns, conversation.think_s);
        }
        if let Some(source) = &self.source {
            canonical += &format!(
                ";source={},{},{:?},{:?},{}",
                source.format,
                source.named.sha256,
                source.prompt_column,
                source.output_column,
                source.own_output_tokens
            );
        }
        if let Some(tokenizer) = &self.tokenizer {
            canonical += &format!(";tokenizer={}", tokenizer.sha256);
        }
        Sha256::digest(canonical.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// What goes beyond lengths and streaming, in words, one sentence each; for those who show a workload to a person.
    #[must_use]
    pub fn extras(&self) -> Vec<String> {
        let mut extras = Vec::new();
        if let Some(prefix) = &self.shared_prefix {
            extras.push(
                format!(
                    "{:.4} % of the prompts begin with one of {} shared prefixes of {} tokens",
                    prefix.share * 100.0,
                    prefix.pool,
                    prefix.tokens
                )
                .replace(".0000 %", " %"),
            );
        }
        if let Some(conversation) = &self.conversation {
            extras.push(format!(
                "conversations of {} turns with {} s of thinking between them; concurrency counts requests in flight, \
                 not users",
                conversation.turns, conversation.think_s
            ));
        }
        if let Some(source) = &self.source {
            extras.push(format!(
                "{} requests of {} ({})",
                source.requests, source.named.file, source.format
            ));
        }
        if let Some(tokenizer) = &self.tokenizer {
            extras.push(format!("tokens counted with {}", tokenizer.file));
        }
        extras
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        Workload {
            input_tokens: TokenLength::fixed(64),
            output_tokens: TokenLength::fixed(32),
            ..Workload::default()
        }
    }

    #[test]
    fn a_workload_of_an_earlier_version_is_read_and_keeps_its_digest() {
        let old = r#"{"input_tokens": "64", "output_tokens": "32", "streaming": true}"#;
        assert_eq!(serde_json::from_str::<Workload>(old).unwrap(), workload());
        // SHA-256 of `in=64;out=32;streaming=true`.
        assert_eq!(
            workload().digest(),
            "b63b9a8072cb21cbdabfee0bd727d3107d581bda181db4f92b064ac80c1c79aa"
        );
    }

    #[test]
    fn digests_tell_workloads_apart_in_every_part() {
        let named = |sha256: &str| NamedFile {
            file: "x".to_owned(),
            sha256: sha256.to_owned(),
        };
        let source = |sha256: &str| Source {
            kind: SourceKind::Dataset,
            format: "csv".to_owned(),
            named: named(sha256),
            requests: 3,
            prompt_column: None,
            output_column: None,
            unit: None,
            own_output_tokens: false,
        };
        let prefix = SharedPrefix {
            tokens: 512,
            share: 0.8,
            pool: 10,
        };
        let talk = Conversation {
            turns: 4,
            think_s: 2.0,
        };
        let with = |change: &dyn Fn(&mut Workload)| {
            let mut workload = workload();
            change(&mut workload);
            let again: Workload = serde_json::from_str(&serde_json::to_string(&workload).unwrap()).unwrap();
            assert_eq!(again, workload);
            workload.digest()
        };
        let digests = [
            with(&|_| ()),
            with(&|w| w.streaming = false),
            with(&|w| w.input_tokens = TokenLength::fixed(65)),
            with(&|w| w.output_tokens = "uniform:1-63".parse().unwrap()),
            with(&|w| w.shared_prefix = Some(prefix)),
            with(&|w| w.shared_prefix = Some(SharedPrefix { share: 0.5, ..prefix })),
            with(&|w| w.shared_prefix = Some(SharedPrefix { pool: 1, ..prefix })),
            with(&|w| w.conversation = Some(talk)),
            with(&|w| w.conversation = Some(Conversation { think_s: 0.0, ..talk })),
            with(&|w| w.source = Some(source("a"))),
            with(&|w| w.source = Some(source("b"))),
            with(&|w| w.tokenizer = Some(named("a"))),
        ];
        let different: std::collections::HashSet<&String> = digests.iter().collect();
        assert_eq!(different.len(), digests.len());
    }

    #[test]
    fn a_prefix_that_nobody_shares_leaves_the_workload_cold() {
        let mut workload = workload();
        assert!(workload.is_cold());
        for (share, cold) in [(0.0, true), (0.1, false)] {
            workload.shared_prefix = Some(SharedPrefix {
                tokens: 5,
                share,
                pool: 1,
            });
            assert_eq!(workload.is_cold(), cold);
        }
        workload.shared_prefix = None;
        for (kind, format, cold) in [
            (SourceKind::Dataset, "csv", false),
            (SourceKind::Trace, "mooncake", false),
            (SourceKind::Trace, "azure", true),
        ] {
            workload.source = Some(Source {
                kind,
                format: format.to_owned(),
                named: NamedFile {
                    file: "x".to_owned(),
                    sha256: "y".to_owned(),
                },
                requests: 1,
                prompt_column: None,
                output_column: None,
                unit: None,
                own_output_tokens: false,
            });
            assert_eq!(workload.is_cold(), cold, "{format}");
        }
        workload.shared_prefix = Some(SharedPrefix {
            tokens: 5,
            share: 0.1,
            pool: 1,
        });
        assert!(
            workload.extras()[0].contains("10 % of the prompts"),
            "{:?}",
            workload.extras()
        );
    }
}
