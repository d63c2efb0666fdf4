//! What a request asks for: its body read, checked, and turned into prompt and reply length.

use serde::Deserialize;

use crate::http::refusal::Refusal;
use crate::http::tokens::Prompt;
use crate::prompts::mix;

/// Which route a request came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
}

/// What the checks need to know of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The name under which the model is served.
    pub model: String,
    /// Tokens of prompt and reply together.
    pub max_model_len: u32,
    /// Tokens in a KV block.
    pub block_size: u32,
}

/// A checked request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    pub prompt: Prompt,
    /// Reply tokens that will be given.
    pub output_tokens: u32,
    /// Whether the reply ends by itself, rather than at the length asked for.
    pub stops: bool,
    pub stream: bool,
    pub include_usage: bool,
}

#[derive(Debug, Deserialize)]
struct Body {
    model: Option<String>,
    messages: Option<Vec<Message>>,
    prompt: Option<PromptField>,
    #[serde(default)]
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    min_tokens: Option<i64>,
    ignore_eos: Option<bool>,
    n: Option<i64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    content: Option<Content>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    text: Option<String>,
}

impl Content {
    fn into_text(self) -> String {
        match self {
            Content::Text(text) => text,
            Content::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PromptField {
    Text(String),
    Ids(Vec<u32>),
    Texts(Vec<String>),
    Batch(Vec<Vec<u32>>),
}

/// Reads and checks a body.
///
/// # Errors
/// A refusal in vLLM's words.
pub(crate) fn read(route: Route, body: &[u8], limits: &Limits) -> Result<Ask, Refusal> {
    let body: Body = serde_json::from_slice(body)
        .map_err(|error| Refusal::malformed(format!("The request body is not valid: {error}")))?;
    check_model(body.model.as_deref(), limits)?;
    check_sampling(&body)?;
    let asked = body.max_completion_tokens.or(body.max_tokens);
    let min_tokens = body.min_tokens.unwrap_or(0);
    let ignore_eos = body.ignore_eos.unwrap_or(false);
    let stream = body.stream.unwrap_or(false);
    let include_usage = body
        .stream_options
        .and_then(|options| options.include_usage)
        .unwrap_or(false);
    let prompt = match route {
        Route::Chat => chat_prompt(body.messages, limits)?,
        Route::Completions => plain_prompt(body.prompt, limits)?,
    };
    // vLLM gives a completion 16 tokens when none are named, and a chat all that there is room for.
    let asked = match (asked, route) {
        (None, Route::Completions) => Some(16),
        (asked, _) => asked,
    };
    let most = reply_limit(asked, &prompt, limits)?;
    if min_tokens < 0 || min_tokens > i64::from(most) {
        return Err(Refusal::bad(
            "min_tokens",
            format!("min_tokens must be between 0 and max_tokens={most}, got {min_tokens}."),
        ));
    }
    let natural = natural_length(&prompt).max(u32::try_from(min_tokens).unwrap_or(0));
    let stops = !ignore_eos && natural < most;
    Ok(Ask {
        output_tokens: if stops { natural } else { most },
        stops,
        stream,
        include_usage,
        prompt,
    })
}

/// How long a reply would be if nothing cut it: 24 to 383 tokens, the same for equal prompts.
fn natural_length(prompt: &Prompt) -> u32 {
    24 + u32::try_from(mix(prompt.hash, 1) % 360).unwrap_or(0)
}

fn check_model(model: Option<&str>, limits: &Limits) -> Result<(), Refusal> {
    match model {
        Some(model) if model != limits.model => Err(Refusal::not_found(
            Some("model"),
            format!(
                "The model `{model}` does not exist. Valid aliases: {}.",
                limits.model
            ),
        )),
        _ => Ok(()),
    }
}

fn check_sampling(body: &Body) -> Result<(), Refusal> {
    if let Some(temperature) = body.temperature
        && temperature < 0.0
    {
        return Err(Refusal::bad(
            "temperature",
            format!(
                "temperature must be non-negative, got {temperature:?}. (parameter=temperature, value={temperature:?})"
            ),
        ));
    }
    if let Some(top_p) = body.top_p
        && !(top_p > 0.0 && top_p <= 1.0)
    {
        return Err(Refusal::bad(
            "top_p",
            format!("top_p must be in (0, 1], got {top_p:?}. (parameter=top_p, value={top_p:?})"),
        ));
    }
    if let Some(n) = body.n
        && n != 1
    {
        return Err(Refusal::bad(
            "n",
            format!("n must be 1 here: the simulated engine gives one choice, got {n}."),
        ));
    }
    Ok(())
}

fn chat_prompt(messages: Option<Vec<Message>>, limits: &Limits) -> Result<Prompt, Refusal> {
    let messages = messages
        .filter(|messages| !messages.is_empty())
        .ok_or_else(|| Refusal::bad("messages", "messages: at least one message is required"))?;
    let messages: Vec<(String, String)> = messages
        .into_iter()
        .map(|message| {
            let text = message.content.map_or_else(String::new, Content::into_text);
            (message.role, text)
        })
        .collect();
    Ok(Prompt::of_chat(
        messages.iter().map(|(role, text)| (role.as_str(), text.as_str())),
        limits.block_size,
    ))
}

fn plain_prompt(prompt: Option<PromptField>, limits: &Limits) -> Result<Prompt, Refusal> {
    let one = || Refusal::bad("prompt", "prompt must be one text or one list of token ids here");
    let prompt = match prompt.ok_or_else(|| Refusal::bad("prompt", "prompt is required"))? {
        PromptField::Text(text) => Prompt::of_text(&text, limits.block_size),
        PromptField::Ids(ids) => Prompt::of_ids(&ids, limits.block_size),
        PromptField::Texts(texts) => match texts.as_slice() {
            [text] => Prompt::of_text(text, limits.block_size),
            _ => return Err(one()),
        },
        PromptField::Batch(batch) => match batch.as_slice() {
            [ids] => Prompt::of_ids(ids, limits.block_size),
            _ => return Err(one()),
        },
    };
    if prompt.tokens == 0 {
        return Err(Refusal::bad("prompt", "prompt must hold at least one token"));
    }
    Ok(prompt)
}

/// The most reply tokens that were asked for and fit.
fn reply_limit(asked: Option<i64>, prompt: &Prompt, limits: &Limits) -> Result<u32, Refusal> {
    let (length, tokens) = (limits.max_model_len, prompt.tokens);
    if tokens >= length {
        return Err(Refusal::bad(
            "input_tokens",
            format!(
                "This model's maximum context length is {length} tokens. However, your prompt contains {tokens} input tokens, \
                 which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. \
                 (parameter=input_tokens, value={tokens})"
            ),
        ));
    }
    let room = length - tokens;
    let Some(asked) = asked else { return Ok(room) };
    if asked < 1 {
        return Err(Refusal::bad(
            "max_tokens",
            format!("max_tokens must be at least 1, got {asked}. (parameter=max_tokens, value={asked})"),
        ));
    }
    if asked > i64::from(length) {
        return Err(Refusal::bad(
            "max_tokens",
            format!(
                "max_tokens={asked} cannot be greater than max_model_len={length}. Please request fewer output tokens. \
                 (parameter=max_tokens, value={asked})"
            ),
        ));
    }
    match u32::try_from(asked) {
        Ok(asked) if asked <= room => Ok(asked),
        _ => Err(Refusal::bad(
            "input_tokens",
            format!(
                "This model's maximum context length is {length} tokens. However, you requested {asked} output tokens and your \
                 prompt contains {tokens} input tokens, for a total of {} tokens. Please reduce the length of the input \
                 prompt or the number of requested output tokens. (parameter=input_tokens, value={tokens})",
                asked + i64::from(tokens)
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            model: "m".to_owned(),
            max_model_len: 100,
            block_size: 16,
        }
    }

    fn chat(rest: &str) -> Result<Ask, Refusal> {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"one two"}}]{rest}}}"#);
        read(Route::Chat, body.as_bytes(), &limits())
    }

    #[test]
    fn lengths_are_pinned_by_ignore_eos_and_else_natural() {
        let pinned = chat(r#","max_tokens":8,"ignore_eos":true"#).unwrap();
        assert_eq!((pinned.output_tokens, pinned.stops), (8, false));
        let newer = chat(r#","max_completion_tokens":9,"max_tokens":8,"ignore_eos":true"#).unwrap();
        assert_eq!(newer.output_tokens, 9);
        let cut = chat(r#","max_tokens":8"#).unwrap();
        assert_eq!((cut.output_tokens, cut.stops), (8, false));
        let free = chat("").unwrap();
        assert_eq!(free, chat("").unwrap());
        assert!(free.output_tokens >= 24 || !free.stops);
        let least = chat(r#","min_tokens":80"#).unwrap();
        assert!(least.output_tokens >= 80);
    }

    #[test]
    fn parts_and_ids_are_prompts_too() {
        let body =
            br#"{"messages":[{"role":"user","content":[{"type":"text","text":"one two"}]}],"max_tokens":1}"#;
        assert_eq!(
            read(Route::Chat, body, &limits()).unwrap().prompt,
            chat("").unwrap().prompt
        );
        let body = br#"{"prompt":[5,6,7]}"#;
        let ask = read(Route::Completions, body, &limits()).unwrap();
        assert_eq!((ask.prompt.tokens, ask.output_tokens), (3, 16));
        let body = br#"{"prompt":["a b"],"max_tokens":2}"#;
        assert_eq!(
            read(Route::Completions, body, &limits()).unwrap().prompt.tokens,
            2
        );
    }

    #[test]
    fn refusals_name_the_parameter() {
        let refuse = |rest: &str| {
            let refusal = chat(rest).unwrap_err();
            (refusal.status.as_u16(), refusal.param)
        };
        assert_eq!(refuse(r#","temperature":-3"#), (400, Some("temperature")));
        assert_eq!(refuse(r#","max_tokens":0"#), (400, Some("max_tokens")));
        assert_eq!(refuse(r#","max_tokens":101"#), (400, Some("max_tokens")));
        assert_eq!(refuse(r#","max_tokens":95"#), (400, Some("input_tokens")));
        assert_eq!(
            refuse(r#","max_tokens":5,"min_tokens":6"#),
            (400, Some("min_tokens"))
        );
        assert_eq!(refuse(r#","n":2"#), (400, Some("n")));
        assert_eq!(refuse(r#","model":"x""#), (400, None));
        for (body, status, param) in [
            (
                r#"{"model":"nosuch","messages":[{"role":"user","content":"x"}]}"#,
                404,
                Some("model"),
            ),
            (r#"{"messages":[]}"#, 400, Some("messages")),
            ("{", 400, None),
            ("[1]", 400, None),
            (r#"{"messages":"x"}"#, 400, None),
        ] {
            let refusal = read(Route::Chat, body.as_bytes(), &limits()).unwrap_err();
            assert_eq!(
                (refusal.status.as_u16(), refusal.param),
                (status, param),
                "{body}"
            );
        }
        let long = format!(r#"{{"prompt":"{}"}}"#, "a ".repeat(100));
        let refusal = read(Route::Completions, long.as_bytes(), &limits()).unwrap_err();
        assert!(refusal.message.contains("your prompt contains 100 input tokens"));
    }
}
