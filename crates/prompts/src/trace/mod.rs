//! Traces: requests that were recorded, with their arrival times and lengths but without their texts.
//!
//! | format | what a file holds |
//! |---|---|
//! | `mooncake` | JSON lines with `timestamp` (ms), `input_length`, `output_length`, `hash_ids` |
//! | `azure` | CSV with `TIMESTAMP` (date and time), `ContextTokens`, `GeneratedTokens` |
//! | `burstgpt` | CSV with `Timestamp` (s), `Request tokens`, `Response tokens` |
//! | `csv` | any other table with a time and two lengths under their usual names |
//!
//! Sources: <https://github.com/kvcache-ai/Mooncake>, <https://github.com/Azure/AzurePublicDataset>,
//! <https://github.com/HPMLL/BurstGPT>.

mod clock;
mod mooncake;
mod tables;

pub use clock::TimeUnit;

use std::ops::Range;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::error::SourceError;
use crate::file;
use crate::outline::Part;
use crate::request::Role;
use crate::seed::mix;
use crate::talk::Opened;

/// Tokens of a block of `hash_ids`.
const BLOCK_TOKENS: u32 = 512;
/// Requests that are kept.
const MOST_ROWS: usize = 10_000_000;
/// The longest prompt or reply.
const LONGEST: u64 = 10_000_000;

/// Recorded requests, by time of arrival.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    rows: Vec<Recorded>,
    /// Blocks of all prompts, where the trace has them.
    blocks: Vec<u64>,
    /// The order in which a rung sends them; `None` keeps theirs, so that neighbours share what they shared.
    order: Option<Vec<u32>>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
struct Recorded {
    at_s: f64,
    input: u32,
    output: u32,
    blocks: Range<usize>,
}

/// A trace that was read.
#[derive(Debug, Clone)]
pub struct Read {
    /// Its requests.
    pub trace: Trace,
    /// Its format.
    pub format: &'static str,
    /// What to know of it, one sentence each.
    pub notes: Vec<String>,
}

/// Whether a file is a trace with lengths, by its first line; anything else may still hold plain arrival times.
#[must_use]
pub fn looks_like_one(file: &str) -> bool {
    let Ok(opening) = file::opening(file) else {
        return false;
    };
    let first = opening
        .split(|b| matches!(b, b'\n' | b'\r'))
        .next()
        .unwrap_or(&[]);
    let first = String::from_utf8_lossy(first).to_ascii_lowercase();
    first.starts_with('{') || tables::knows(&first)
}

/// Reads a trace of any of the formats. `unit` is what its numbers count, where they do not count what its format says.
///
/// # Errors
/// When it cannot be read, or a line has no time or length that could be one; the line is named.
pub fn read(file: &str, unit: Option<TimeUnit>) -> Result<Read, SourceError> {
    let mut gathered = Gathered::default();
    let json = file::opening(file)?.starts_with(b"{");
    let (format, usual) = if json {
        (mooncake::read(file, &mut gathered)?, TimeUnit::Milliseconds)
    } else {
        tables::read(file, &mut gathered)?
    };
    gathered.finish(file, format, unit, usual)
}

/// What a reader hands over.
#[derive(Debug, Default)]
struct Gathered {
    rows: Vec<Recorded>,
    /// The line of each row.
    lines: Vec<u64>,
    blocks: Vec<u64>,
    /// Whether times are numbers, whose unit has to be known.
    counted: bool,
    /// Requests without prompt or reply, and the line of the first.
    empty: u64,
    first_empty: u64,
}

impl Gathered {
    fn add(&mut self, line: u64, at: f64, input: u32, output: u32, blocks: &[u64]) -> bool {
        if input == 0 || output == 0 {
            if self.empty == 0 {
                self.first_empty = line;
            }
            self.empty += 1;
            return true;
        }
        let from = self.blocks.len();
        self.blocks.extend_from_slice(blocks);
        self.rows.push(Recorded {
            at_s: at,
            input,
            output,
            blocks: from..self.blocks.len(),
        });
        self.lines.push(line);
        self.rows.len() < MOST_ROWS
    }

    fn finish(
        mut self,
        file: &str,
        format: &'static str,
        unit: Option<TimeUnit>,
        usual: TimeUnit,
    ) -> Result<Read, SourceError> {
        if self.rows.is_empty() {
            return Err(SourceError::nothing(file, "no request with a prompt and a reply"));
        }
        let mut notes = Vec::new();
        if self.counted {
            let per = unit.unwrap_or(usual).seconds();
            for row in &mut self.rows {
                row.at_s *= per;
            }
        }
        let times: Vec<f64> = self.rows.iter().map(|row| row.at_s).collect();
        let checked = clock::check(
            file,
            &times,
            &self.lines,
            (self.counted && unit.is_none()).then_some(usual),
        )?;
        notes.extend(checked);
        if self.empty > 0 {
            notes.push(format!(
                "{} requests of {file} have no prompt or no reply and are left out, the first on line {}",
                self.empty, self.first_empty
            ));
        }
        self.rows.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let order = self.blocks.is_empty().then(|| {
            let mut order: Vec<u32> = (0..u32::try_from(self.rows.len()).unwrap_or(u32::MAX)).collect();
            order.shuffle(&mut StdRng::seed_from_u64(self.rows.len() as u64));
            order
        });
        Ok(Read {
            trace: Trace {
                rows: self.rows,
                blocks: self.blocks,
                order,
            },
            format,
            notes,
        })
    }
}

impl Trace {
    /// Requests in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none; never so for one that was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether it says which prompts begin alike.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Arrival times, seconds by any clock, ascending.
    #[must_use]
    pub fn times_s(&self) -> Vec<f64> {
        self.rows.iter().map(|row| row.at_s).collect()
    }

    /// Prompt and reply of each request, tokens.
    pub fn lengths(&self) -> impl Iterator<Item = (u32, u32)> {
        self.rows.iter().map(|row| (row.input, row.output))
    }

    /// The row that is the `n`th of a rung, and in which pass through the trace. Every rung begins with the same rows, so
    /// that rungs differ by their load alone.
    pub(crate) fn row(&self, n: u64) -> (usize, u64) {
        let len = self.rows.len().max(1) as u64;
        // Below the length, which is a usize.
        let at = (n % len) as usize;
        let row = match &self.order {
            Some(order) => order.get(at).map_or(0, |row| *row as usize),
            None => at,
        };
        (row, n / len)
    }

    pub(crate) fn output_tokens(&self, row: usize) -> u32 {
        self.rows.get(row).map_or(1, |row| row.output)
    }

    /// Adds the prompt of a row: new from the first word on, or, where the trace says which blocks prompts share, sharing
    /// just those with other prompts of the same rung and pass.
    pub(crate) fn say(&self, row: usize, opened: &Opened, prefix_tokens: u32, parts: &mut Vec<Part>) {
        let Some(row) = self.rows.get(row) else { return };
        let blocks = &self.blocks[row.blocks.clone()];
        let mut left = row.input.saturating_sub(prefix_tokens);
        for (at, block) in blocks.iter().enumerate() {
            let last = at + 1 == blocks.len();
            let tokens = if last { left } else { BLOCK_TOKENS.min(left) };
            if tokens == 0 {
                break;
            }
            left -= tokens;
            parts.push(Part {
                continues: at > 0,
                with_overhead: left == 0,
                ..Part::new(Role::User, tokens, mix(opened.salt ^ mix(*block)))
            });
        }
        if blocks.is_empty() {
            parts.push(Part {
                with_overhead: true,
                ..Part::new(Role::User, left, mix(!opened.id))
            });
        }
    }
}

/// A length as it stands in a trace; a missing or impossible one in words.
fn tokens(value: Option<u64>, what: &str) -> Result<u32, String> {
    value
        .filter(|tokens| *tokens <= LONGEST)
        .and_then(|tokens| u32::try_from(tokens).ok())
        .ok_or_else(|| format!("its {what} is no whole number of tokens from 0 to {LONGEST}"))
}

#[cfg(test)]
mod tests;
