//! A dialogue: what is said before each reply, from the many spellings that datasets have.

use std::sync::Arc;

use serde_json::Value;

use super::DatasetOptions;
use crate::error::shortened;
use crate::request::Role;

/// Keys that hold a prompt, in the order in which they are looked for.
pub(super) const PROMPTS: [&str; 6] = ["prompt", "text", "question", "instruction", "input", "query"];
/// Keys that hold a reply's length in tokens.
pub(super) const LENGTHS: [&str; 5] = [
    "max_tokens",
    "max_completion_tokens",
    "output_tokens",
    "output_length",
    "output_len",
];
/// Keys that hold a reply's text.
pub(super) const REPLIES: [&str; 5] = ["completion", "response", "output", "answer", "reply"];
/// The longest reply that is asked for.
const LONGEST: u64 = 10_000_000;

/// What is said, and the reply to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Exchange {
    pub said: Vec<(Role, Arc<str>)>,
    pub reply: Option<Arc<str>>,
    /// The reply's length, where the file gives it.
    pub output_tokens: Option<u32>,
}

/// One entry of a dataset; it has at least one exchange.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Dialogue {
    pub exchanges: Vec<Exchange>,
    /// Whether a single request has all of it, or only the first exchange.
    pub whole: bool,
}

impl Dialogue {
    /// One prompt.
    pub(super) fn prompt(text: &str, reply: Option<&str>, output_tokens: Option<u32>) -> Option<Dialogue> {
        (!text.trim().is_empty()).then(|| Dialogue {
            exchanges: vec![Exchange {
                said: vec![(Role::User, text.into())],
                reply: reply.filter(|reply| !reply.is_empty()).map(Into::into),
                output_tokens,
            }],
            whole: true,
        })
    }

    /// The first and the last exchange of a turn, of so many turns.
    pub(super) fn span(&self, turn: u32, turns: u32) -> (usize, usize) {
        let last = self.exchanges.len().saturating_sub(1);
        if turns > 1 {
            (0, (turn as usize).min(last))
        } else if self.whole {
            (0, last)
        } else {
            (0, 0)
        }
    }

    /// The text of a single request, to tell dialogues apart.
    pub(super) fn opening(&self) -> String {
        let (first, last) = self.span(0, 1);
        let mut text = String::new();
        for exchange in &self.exchanges[first..=last] {
            for (role, said) in &exchange.said {
                text.push_str(role.name());
                text.push_str(said);
            }
        }
        text
    }

    pub(super) fn bytes(&self) -> usize {
        self.exchanges
            .iter()
            .map(|exchange| {
                let said: usize = exchange.said.iter().map(|(_, text)| text.len() + 64).sum();
                said + exchange.reply.as_ref().map_or(0, |reply| reply.len())
            })
            .sum()
    }

    /// From an entry as JSON. `Ok(None)` for one in which no user says anything.
    pub(super) fn of(entry: &Value, options: &DatasetOptions) -> Result<Option<Dialogue>, String> {
        let Some(object) = entry.as_object() else {
            return Err(format!(
                "{} is not an object with `messages`, `conversations` or `prompt`",
                shortened(&entry.to_string())
            ));
        };
        // A request of a batch file.
        let object = object.get("body").and_then(Value::as_object).unwrap_or(object);
        let get = |names: &[&str]| names.iter().find_map(|name| object.get(*name));
        let output_tokens = match &options.output_column {
            Some(column) => match object.get(column) {
                Some(value) if value.is_number() => Some(length(value)?),
                _ => None,
            },
            None => match get(&LENGTHS).filter(|value| !value.is_null()) {
                Some(value) => Some(length(value)?),
                None => None,
            },
        };
        let reply = match &options.output_column {
            Some(column) => object
                .get(column)
                .ok_or_else(|| format!("it has no `{column}`"))?
                .as_str(),
            None => get(&REPLIES).and_then(Value::as_str),
        };
        if let Some(column) = &options.prompt_column {
            let prompt = object
                .get(column)
                .ok_or_else(|| format!("it has no `{column}`"))?;
            return match prompt {
                Value::Array(messages) => conversation(messages, true, output_tokens),
                Value::String(text) => Ok(Dialogue::prompt(text, reply, output_tokens)),
                _ => Err(format!("`{column}` is not a text")),
            };
        }
        if let Some(messages) = get(&["messages"]) {
            let messages = messages.as_array().ok_or("`messages` is not a list")?;
            return conversation(messages, true, output_tokens);
        }
        if let Some(turns) = get(&["conversations", "conversation"]) {
            let turns = turns.as_array().ok_or("`conversations` is not a list")?;
            return conversation(turns, false, output_tokens);
        }
        match get(&PROMPTS) {
            Some(Value::String(text)) => Ok(Dialogue::prompt(text, reply, output_tokens)),
            Some(Value::Array(messages)) => conversation(messages, true, output_tokens),
            Some(_) => Err("its prompt is not a text".to_owned()),
            None => {
                let keys: Vec<String> = object.keys().take(8).map(|key| shortened(key)).collect();
                Err(format!(
                    "it has none of `messages`, `conversations` and `prompt` but {}; name the key with --prompt-column",
                    if keys.is_empty() {
                        "nothing".to_owned()
                    } else {
                        keys.join(", ")
                    }
                ))
            }
        }
    }
}

fn length(value: &Value) -> Result<u32, String> {
    value
        .as_u64()
        .or_else(|| {
            value
                .as_f64()
                .filter(|n| n.fract() == 0.0 && *n >= 0.0)
                .map(|n| n as u64)
        })
        .filter(|tokens| (1..=LONGEST).contains(tokens))
        .and_then(|tokens| u32::try_from(tokens).ok())
        .ok_or_else(|| {
            format!(
                "{} is not the length of a reply, from 1 to {LONGEST} tokens",
                shortened(&value.to_string())
            )
        })
}

fn role(name: &str) -> Result<Role, String> {
    match name.to_ascii_lowercase().as_str() {
        "human" | "user" => Ok(Role::User),
        "gpt" | "assistant" | "chatgpt" | "bot" | "model" | "bing" | "bard" => Ok(Role::Assistant),
        "system" | "developer" => Ok(Role::System),
        _ => Err(format!(
            "`{}` is not a role: roles are system, user (human) and assistant (gpt)",
            shortened(name)
        )),
    }
}

fn conversation(
    messages: &[Value],
    whole: bool,
    output_tokens: Option<u32>,
) -> Result<Option<Dialogue>, String> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut open = Exchange::default();
    let asks = |exchange: &Exchange| exchange.said.iter().any(|(role, _)| *role == Role::User);
    for message in messages {
        let get = |names: [&str; 2]| names.iter().find_map(|name| message.get(*name));
        let name = get(["role", "from"])
            .and_then(Value::as_str)
            .ok_or("a message has no `role`")?;
        let text = text(get(["content", "value"]))?;
        if text.trim().is_empty() {
            continue;
        }
        match role(name)? {
            // A reply to nobody is left out: conversations were cut anywhere.
            Role::Assistant if !asks(&open) => {}
            Role::Assistant => {
                open.reply = Some(text.into());
                exchanges.push(std::mem::take(&mut open));
            }
            role => open.said.push((role, text.into())),
        }
    }
    if asks(&open) {
        exchanges.push(open);
    }
    if let Some(last) = exchanges.last_mut() {
        last.output_tokens = output_tokens;
    }
    Ok((!exchanges.is_empty()).then_some(Dialogue { exchanges, whole }))
}

/// The text of a message: a string, or parts of type `text`.
fn text(content: Option<&Value>) -> Result<String, String> {
    match content {
        Some(Value::String(text)) => Ok(text.clone()),
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::Array(parts)) => {
            let mut whole = String::new();
            for part in parts {
                match (part.get("type").and_then(Value::as_str), part.get("text")) {
                    (Some("text" | "input_text") | None, Some(Value::String(text))) => whole.push_str(text),
                    (kind, _) => {
                        return Err(format!(
                            "a message has a part of type `{}`; only text can be sent",
                            shortened(kind.unwrap_or("(none)"))
                        ));
                    }
                }
            }
            Ok(whole)
        }
        Some(_) => Err("the content of a message is not a text".to_owned()),
    }
}
