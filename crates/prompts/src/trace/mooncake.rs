//! Mooncake's traces: JSON lines.

use serde_json::Value;

use super::{BLOCK_TOKENS, Gathered, tokens};
use crate::error::{SourceError, shortened};
use crate::file;

/// More blocks than the longest prompt has.
const MOST_BLOCKS: usize = 20_000;

pub(super) fn read(file: &str, gathered: &mut Gathered) -> Result<&'static str, SourceError> {
    gathered.counted = true;
    file::for_each_line(file, |line, text| {
        let wrong = |problem: String| SourceError::line(file, line, problem);
        let entry: Value = serde_json::from_str(text)
            .map_err(|error| wrong(format!("it is not JSON ({error}); write one object a line")))?;
        let get = |names: &[&str]| names.iter().find_map(|name| entry.get(*name));
        let time = get(&["timestamp", "timestamp_ms", "arrival_ms"]);
        let at = time.and_then(Value::as_f64).ok_or_else(|| {
            wrong(match time {
                Some(value) => format!(
                    "its timestamp, {}, is not a number",
                    shortened(&value.to_string())
                ),
                None => "it has no `timestamp`".to_owned(),
            })
        })?;
        let input = get(&["input_length", "input_tokens", "prompt_tokens"]).and_then(Value::as_u64);
        let output = get(&["output_length", "output_tokens", "completion_tokens"]).and_then(Value::as_u64);
        let input = tokens(input, "`input_length`").map_err(wrong)?;
        let output = tokens(output, "`output_length`").map_err(wrong)?;
        let blocks = match entry.get("hash_ids") {
            None | Some(Value::Null) => Vec::new(),
            Some(ids) => ids
                .as_array()
                .filter(|ids| ids.len() <= MOST_BLOCKS)
                .and_then(|ids| {
                    ids.iter()
                        .map(|id| id.as_u64().or_else(|| id.as_i64().map(i64::cast_unsigned)))
                        .collect::<Option<Vec<u64>>>()
                })
                .ok_or_else(|| wrong("its `hash_ids` are not a list of whole numbers".to_owned()))?,
        };
        if !blocks.is_empty() && blocks.len() != input.div_ceil(BLOCK_TOKENS) as usize {
            return Err(wrong(format!(
                "it has {} `hash_ids` where a prompt of {input} tokens has {} blocks of {BLOCK_TOKENS}",
                blocks.len(),
                input.div_ceil(BLOCK_TOKENS)
            )));
        }
        Ok(gathered.add(line, at, input, output, &blocks))
    })?;
    Ok("mooncake")
}
