//! Datasets as tables: a column of prompts, and where there is one, a column of replies.

use super::dialogue::{Dialogue, LENGTHS, PROMPTS, REPLIES};
use super::{DatasetOptions, Harvest};
use crate::error::{SourceError, shortened};
use crate::table::Table;

pub(super) fn read(file: &str, options: &DatasetOptions, harvest: &mut Harvest) -> Result<(), SourceError> {
    let mut table = Table::open(file)?;
    let prompt = match &options.prompt_column {
        Some(name) => table.named(name)?,
        None => table.any(&PROMPTS, "prompts", "--prompt-column")?,
    };
    let (length, reply) = match &options.output_column {
        // Numbers are lengths, anything else is a reply.
        Some(name) => {
            let column = table.named(name)?;
            (Some(column), Some(column))
        }
        None => (table.find(&LENGTHS), table.find(&REPLIES)),
    };
    table.for_each(|row| {
        let text = row.cell(prompt)?;
        let length_text = length.map(|column| row.cell(column)).transpose()?.map(str::trim);
        let output_tokens = match length_text.filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => match text.parse::<u32>() {
                Ok(tokens) if (1..=10_000_000).contains(&tokens) => Some(tokens),
                _ if options.output_column.is_some() && text.parse::<f64>().is_err() => None,
                _ => {
                    return Err(row.wrong(format!(
                        "`{}` is not the length of a reply, from 1 to 10000000 tokens",
                        shortened(text)
                    )));
                }
            },
        };
        let reply = match output_tokens {
            Some(_) => None,
            None => reply.map(|column| row.cell(column)).transpose()?,
        };
        Ok(harvest.add(row.line(), Dialogue::prompt(text, reply, output_tokens)))
    })
}
