//! What one request looks like, from flags and the sweep file.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use plimsoll_load::Asked;
use plimsoll_prompts::trace::TimeUnit;
use plimsoll_prompts::{
    DatasetFormat, DatasetOptions, Loaded, Rows, count_with, lengths, load_dataset, load_trace, named_file,
};
use plimsoll_run::units::parse_duration;
use plimsoll_run::workload::{Conversation, LONGEST, SharedPrefix, SourceKind, TokenLength, Workload};
use serde::{Deserialize, Deserializer};

/// Lengths, shared prefixes, conversations, and the file that requests come from: the flags, and `[workload]` of the sweep
/// file, whose keys have the same names.
#[derive(Debug, Default, Clone, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct WorkloadArguments {
    /// Prompt length in tokens: MEAN, MEAN:STDDEV, lognormal:MEAN:SIGMA, lognormal:MEAN:SIGMA:MOST, uniform:LEAST-MOST,
    /// empirical:LENGTH@WEIGHT,... or file:PATH [default: 1024; a sim preset has its own]
    #[arg(long, value_name = "LENGTH", value_parser = lengths::parse, help_heading = "Workload")]
    #[serde(deserialize_with = "length")]
    pub input_tokens: Option<TokenLength>,
    /// Reply length in tokens, written likewise [default: 256; a sim preset has its own]
    #[arg(long, value_name = "LENGTH", value_parser = lengths::parse, help_heading = "Workload")]
    #[serde(deserialize_with = "length")]
    pub output_tokens: Option<TokenLength>,
    /// Tokens at the beginning of every prompt that are a system prompt, which requests may share
    #[arg(long, value_name = "TOKENS", value_parser = parse_prefix, help_heading = "Workload")]
    #[serde(deserialize_with = "prefix")]
    pub shared_prefix: Option<u32>,
    /// Share of the requests whose system prompt is a shared one, 0 to 1 [default: 1]
    #[arg(long, value_name = "FRACTION", value_parser = parse_share, help_heading = "Workload")]
    #[serde(deserialize_with = "share")]
    pub share: Option<f64>,
    /// How many shared system prompts there are; they take turns [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_pool, help_heading = "Workload")]
    #[serde(deserialize_with = "pool")]
    pub pool: Option<u32>,
    /// Repeat the sweep with each of these shares, such as 0,0.5,0.9, and show how the answers move with reuse; without
    /// --shared-prefix half of each prompt is one
    #[arg(
        long,
        value_name = "FRACTION,...",
        value_delimiter = ',',
        value_parser = parse_share,
        help_heading = "Workload",
        conflicts_with = "share"
    )]
    pub prefix_shares: Vec<f64>,
    /// Turns of a conversation; each has all before it in its prompt, and --input-tokens are what the user adds [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_turns, help_heading = "Workload")]
    #[serde(deserialize_with = "turns")]
    pub turns: Option<u32>,
    /// How long a user thinks between two turns. Who thinks is not in flight: levels count requests, not users [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = parse_think, help_heading = "Workload")]
    #[serde(deserialize_with = "think")]
    pub think: Option<Duration>,
    /// File of prompts to send in place of synthetic ones: ShareGPT JSON, JSON lines of OpenAI messages or prompts, CSV or
    /// Parquet
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Workload",
        conflicts_with = "trace"
    )]
    pub dataset: Option<String>,
    /// Format of the dataset: sharegpt, openai, csv or parquet [default: by its name and content]
    #[arg(long, value_name = "FORMAT", help_heading = "Workload")]
    #[serde(deserialize_with = "format")]
    pub dataset_format: Option<DatasetFormat>,
    /// Column or key of the dataset's prompts [default: prompt, text, question, instruction, input or query]
    #[arg(long, value_name = "NAME", help_heading = "Workload")]
    pub prompt_column: Option<String>,
    /// Column or key of the dataset's replies, lengths or texts [default: max_tokens, output_tokens, completion, ...]
    #[arg(long, value_name = "NAME", help_heading = "Workload")]
    pub output_column: Option<String>,
    /// Trace whose lengths are asked for, prompt and reply together: Mooncake JSON lines, Azure LLM or BurstGPT CSV. Its
    /// arrivals are the peak where no other is given
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    pub trace: Option<String>,
    /// What the trace's timestamps count, ms or s [default: as its format says]
    #[arg(long, value_name = "UNIT", help_heading = "Workload")]
    #[serde(deserialize_with = "unit")]
    pub trace_unit: Option<TimeUnit>,
    /// A tokenizer.json to count prompt tokens with, where the endpoint does not count them
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    pub tokenizer: Option<String>,
    /// All randomness of the run follows from it [default: 42]
    #[arg(long, help_heading = "Workload")]
    pub seed: Option<u64>,
    /// Whether replies are streamed; the flag for it is `--no-stream`.
    #[arg(skip)]
    pub stream: Option<bool>,
}

/// What the flags and the file say together.
#[derive(Debug)]
pub struct Settled {
    /// What one request looks like.
    pub workload: Workload,
    /// What comes with it from files.
    pub asked: Asked,
    /// Shares of shared prefixes to repeat the sweep with.
    pub prefix_shares: Vec<f64>,
    /// What to know of it, one sentence each.
    pub notes: Vec<String>,
}

impl WorkloadArguments {
    /// These flags over those of the sweep file.
    #[must_use]
    pub fn over(self, file: &WorkloadArguments) -> WorkloadArguments {
        let file = file.clone();
        // A source on the command line replaces the file's, of whichever kind.
        let own_source = self.dataset.is_some() || self.trace.is_some();
        WorkloadArguments {
            dataset: self.dataset.or(file.dataset.filter(|_| !own_source)),
            trace: self.trace.or(file.trace.filter(|_| !own_source)),
            input_tokens: self.input_tokens.or(file.input_tokens.filter(|_| !own_source)),
            output_tokens: self.output_tokens.or(file.output_tokens),
            shared_prefix: self.shared_prefix.or(file.shared_prefix),
            // One share on the command line takes the place of several in the file, and several of one.
            prefix_shares: match (self.prefix_shares.is_empty(), self.share) {
                (true, None) => file.prefix_shares,
                _ => self.prefix_shares.clone(),
            },
            share: self
                .share
                .or(file.share.filter(|_| self.prefix_shares.is_empty())),
            pool: self.pool.or(file.pool),
            turns: self.turns.or(file.turns),
            think: self.think.or(file.think),
            dataset_format: self.dataset_format.or(file.dataset_format),
            prompt_column: self.prompt_column.or(file.prompt_column),
            output_column: self.output_column.or(file.output_column),
            trace_unit: self.trace_unit.or(file.trace_unit),
            tokenizer: self.tokenizer.or(file.tokenizer),
            seed: self.seed.or(file.seed),
            stream: self.stream.or(file.stream),
        }
    }

    /// The workload, with `defaults` for what is not given.
    ///
    /// # Errors
    /// When parts contradict each other, or a file cannot be used.
    pub fn settle(self, defaults: Workload) -> anyhow::Result<Settled> {
        let conversation = self.conversation()?;
        self.check_source()?;
        let loaded = match (&self.dataset, &self.trace) {
            (Some(file), _) => Some(load_dataset(file, &self.dataset_options())?),
            (None, Some(file)) => Some(load_trace(file, self.trace_unit)?),
            (None, None) => None,
        };
        let given_output = self.output_tokens.clone();
        let (source, rows, notes, input_tokens, output_tokens) = match loaded {
            Some(Loaded {
                mut source,
                rows,
                input_tokens,
                output_tokens,
                notes,
            }) => {
                source.own_output_tokens = given_output.is_some();
                source.unit = self.trace_unit.map(|unit| unit.name().to_owned());
                let output_tokens = given_output.or(output_tokens).unwrap_or(defaults.output_tokens);
                (Some(source), Some(rows), notes, input_tokens, output_tokens)
            }
            None => (
                None,
                None,
                Vec::new(),
                self.input_tokens.clone().unwrap_or(defaults.input_tokens),
                given_output.unwrap_or(defaults.output_tokens),
            ),
        };
        if let Some(Rows::Trace(trace)) = &rows {
            if conversation.is_some() {
                bail!("--turns does not go with --trace, whose prompts hold their earlier turns already");
            }
            if self.shared_prefix.is_some() && trace.has_blocks() {
                bail!(
                    "--shared-prefix does not go with a trace that says which blocks its prompts share; leave out one"
                );
            }
        }
        if let Some(share) = self
            .prefix_shares
            .iter()
            .find(|share| !(0.0..=1.0).contains(*share))
        {
            bail!("{share} among the prefix-shares is no fraction from 0 to 1, such as 0.8");
        }
        if !self.prefix_shares.is_empty() && self.share.is_some() {
            bail!("--share is one share and --prefix-shares are several; leave out one");
        }
        let counting = self
            .tokenizer
            .as_deref()
            .map(|file| count_with(file, rows.as_ref()))
            .transpose()?;
        let mut notes = notes;
        let mut shared_prefix = self.shared_prefix()?;
        if shared_prefix.is_none() && !self.prefix_shares.is_empty() {
            let tokens = (input_tokens.mean_tokens() / 2).max(1);
            notes.push(format!(
                "prefixes have {tokens} tokens, half of a prompt; --shared-prefix gives them another length"
            ));
            shared_prefix = Some(SharedPrefix {
                tokens,
                share: 1.0,
                pool: self.pool.unwrap_or(1),
            });
        }
        if let Some(prefix) = &shared_prefix
            && !matches!(rows, Some(Rows::Dataset(_)))
            && f64::from(prefix.tokens) >= input_tokens.mean()
        {
            bail!(
                "a shared prefix of {} tokens leaves nothing of prompts of {:.0}, of which it is a part; lengthen \
                 --input-tokens or shorten --shared-prefix",
                prefix.tokens,
                input_tokens.mean()
            );
        }
        Ok(Settled {
            workload: Workload {
                input_tokens,
                output_tokens,
                streaming: self.stream.unwrap_or(defaults.streaming),
                shared_prefix,
                conversation,
                source,
                tokenizer: self.tokenizer.as_deref().map(named_file).transpose()?,
            },
            asked: Asked {
                rows: rows.map(Arc::new),
                counting,
            },
            prefix_shares: self.prefix_shares,
            notes,
        })
    }

    fn conversation(&self) -> anyhow::Result<Option<Conversation>> {
        match self.turns {
            Some(turns) if turns > 1 => Ok(Some(Conversation {
                turns,
                think_s: self.think.unwrap_or(Duration::ZERO).as_secs_f64(),
            })),
            _ if self.think.is_some() => {
                bail!("--think is the pause between turns of a conversation; give --turns 2 or more as well")
            }
            _ => Ok(None),
        }
    }

    fn shared_prefix(&self) -> anyhow::Result<Option<SharedPrefix>> {
        let Some(tokens) = self.shared_prefix else {
            if !self.prefix_shares.is_empty() {
                return Ok(None);
            }
            for (flag, given) in [("--share", self.share.is_some()), ("--pool", self.pool.is_some())] {
                if given {
                    bail!("{flag} is about shared prefixes; give their length with --shared-prefix as well");
                }
            }
            return Ok(None);
        };
        Ok(Some(SharedPrefix {
            tokens,
            share: self.share.unwrap_or(1.0),
            pool: self.pool.unwrap_or(1),
        }))
    }

    fn check_source(&self) -> anyhow::Result<()> {
        if let (Some(dataset), Some(trace)) = (&self.dataset, &self.trace) {
            bail!("requests come from the dataset {dataset} or from the trace {trace}; leave out one");
        }
        if self.input_tokens.is_some() && (self.dataset.is_some() || self.trace.is_some()) {
            bail!(
                "--input-tokens does not go with --dataset or --trace, whose prompts have their own lengths"
            );
        }
        let stray = [
            (
                "--dataset-format",
                self.dataset_format.is_some(),
                &self.dataset,
                "--dataset",
            ),
            (
                "--prompt-column",
                self.prompt_column.is_some(),
                &self.dataset,
                "--dataset",
            ),
            (
                "--output-column",
                self.output_column.is_some(),
                &self.dataset,
                "--dataset",
            ),
            ("--trace-unit", self.trace_unit.is_some(), &self.trace, "--trace"),
        ];
        for (flag, given, file, wanted) in stray {
            if given && file.is_none() {
                bail!("{flag} says how to read a file; name it with {wanted}");
            }
        }
        Ok(())
    }

    fn dataset_options(&self) -> DatasetOptions {
        DatasetOptions {
            format: self.dataset_format,
            prompt_column: self.prompt_column.clone(),
            output_column: self.output_column.clone(),
        }
    }
}

/// Reads the files of a saved run's workload again.
///
/// # Errors
/// When it is not there or not the same any more.
pub fn reload(workload: &Workload) -> anyhow::Result<Asked> {
    let rows = reload_rows(workload)?;
    let counting = match &workload.tokenizer {
        None => None,
        Some(tokenizer) if named_file(&tokenizer.file)? == *tokenizer => {
            Some(count_with(&tokenizer.file, rows.as_ref())?)
        }
        Some(tokenizer) => bail!(
            "{} is not the tokenizer that the run was measured with: its content has changed; sweep again",
            tokenizer.file
        ),
    };
    Ok(Asked {
        rows: rows.map(Arc::new),
        counting,
    })
}

fn reload_rows(workload: &Workload) -> anyhow::Result<Option<Rows>> {
    let Some(source) = &workload.source else {
        return Ok(None);
    };
    let file = &source.named.file;
    let loaded = match source.kind {
        SourceKind::Dataset => load_dataset(
            file,
            &DatasetOptions {
                format: Some(source.format.parse()?),
                prompt_column: source.prompt_column.clone(),
                output_column: source.output_column.clone(),
            },
        ),
        SourceKind::Trace => load_trace(file, source.unit.as_deref().map(str::parse).transpose()?),
    }
    .context("the run's requests come from a file that cannot be read again")?;
    if loaded.source.named.sha256 != source.named.sha256 {
        bail!(
            "{file} is not the file that the run's requests come from: its content has changed; sweep again"
        );
    }
    Ok(Some(loaded.rows))
}

fn whole(text: &str, range: std::ops::RangeInclusive<u32>, what: &str) -> Result<u32, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            format!(
                "write {what}, a whole number from {} to {}",
                range.start(),
                range.end()
            )
        })
}

fn parse_prefix(text: &str) -> Result<u32, String> {
    whole(text, 1..=LONGEST, "the length of the prefix in tokens")
}

fn parse_pool(text: &str) -> Result<u32, String> {
    whole(text, 1..=1_000_000, "how many prefixes there are")
}

fn parse_turns(text: &str) -> Result<u32, String> {
    whole(text, 1..=1000, "how many turns a conversation has")
}

/// A share of requests.
pub fn parse_share(text: &str) -> Result<f64, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "write a fraction from 0 to 1, such as 0.8".to_owned())
}

fn parse_think(text: &str) -> Result<Duration, String> {
    let think = parse_duration(text).map_err(|error| error.to_string())?;
    if think > Duration::from_secs(24 * 3600) {
        return Err("a user thinks for at most 24h".to_owned());
    }
    Ok(think)
}

/// A value of the sweep file, under the rules of its flag: written as a number or as a string.
fn spelled<'de, D, T, E>(deserializer: D, parse: fn(&str) -> Result<T, E>) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    E: std::fmt::Display,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Whole(i64),
        Number(f64),
        Text(String),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Whole(number) => number.to_string(),
        Written::Number(number) => number.to_string(),
        Written::Text(text) => text,
    };
    parse(&text).map(Some).map_err(serde::de::Error::custom)
}

fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TokenLength>, D::Error> {
    spelled(deserializer, lengths::parse)
}

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    spelled(deserializer, parse_prefix)
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    spelled(deserializer, parse_share)
}

fn pool<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    spelled(deserializer, parse_pool)
}

fn turns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    spelled(deserializer, parse_turns)
}

fn think<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    spelled(deserializer, parse_think)
}

fn format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DatasetFormat>, D::Error> {
    spelled(deserializer, str::parse)
}

fn unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TimeUnit>, D::Error> {
    spelled(deserializer, str::parse)
}
