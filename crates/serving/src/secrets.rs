//! What must not be stored of a configuration.

use serde_json::Value;

/// What stands in a secret's place.
pub const HIDDEN: &str = "***";

/// Words in a setting's name that say its value is a credential.
const WORDS: [&str; 12] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "authorization",
    "apikey",
    "bearer",
    "auth",
    "cookie",
];
/// The same, of two words.
const PAIRS: [&str; 5] = ["api_key", "access_key", "private_key", "secret_key", "master_key"];
/// How well-known credentials begin.
const BEGINNINGS: [&str; 10] = [
    "sk-",
    "hf_",
    "AKIA",
    "ASIA",
    "Bearer ",
    "Basic ",
    "ghp_",
    "github_pat_",
    "xoxb-",
    "-----BEGIN",
];

/// Whether a setting of this name holds a credential: so does any `..._KEY`, but not `max_tokens` or `tokenizer`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '.', ' '], "_");
    name.split('_').any(|word| WORDS.contains(&word))
        || PAIRS.iter().any(|pair| name.contains(pair))
        || name
            .rsplit('_')
            .next()
            .is_some_and(|last| matches!(last, "key" | "keys"))
}

/// A setting fit to be stored: credentials by name or by look are hidden, URLs lose user info and query.
#[must_use]
pub fn redacted(name: &str, value: Value) -> Value {
    if is_secret_name(name) && !matches!(value, Value::Null | Value::Bool(_)) {
        return HIDDEN.into();
    }
    match value {
        Value::String(text) => redacted_text(&text).into(),
        Value::Array(items) => items.into_iter().map(|item| redacted(name, item)).collect(),
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| {
                    let value = redacted(&key, value);
                    (key, value)
                })
                .collect(),
        ),
        plain => plain,
    }
}

fn redacted_text(text: &str) -> String {
    if BEGINNINGS
        .iter()
        .any(|beginning| text.trim_start().starts_with(beginning))
    {
        return HIDDEN.to_owned();
    }
    if text.trim_start().starts_with(['{', '['])
        && let Ok(inner) = serde_json::from_str::<Value>(text)
    {
        let kept = redacted("", inner.clone());
        return if kept == inner {
            text.to_owned()
        } else {
            kept.to_string()
        };
    }
    without_arguments(text)
}

/// A text that may be a command line or an environment: values of `--api-key VALUE`, `--api-key=VALUE` and `NAME_KEY=VALUE` are
/// hidden, as are URLs' user info and queries.
fn without_arguments(text: &str) -> String {
    let mut hide_next = false;
    text.split_inclusive(char::is_whitespace)
        .map(|piece| {
            let word = piece.trim_end();
            if word.is_empty() {
                return piece.to_owned();
            }
            let after = &piece[word.len()..];
            if std::mem::take(&mut hide_next) && !word.starts_with("--") {
                return format!("{HIDDEN}{after}");
            }
            match word.split_once('=') {
                Some((name, value)) if !name.contains("://") && is_secret_name(name) && !value.is_empty() => {
                    format!("{name}={HIDDEN}{after}")
                }
                None if word.starts_with("--") => {
                    hide_next = is_secret_name(word);
                    piece.to_owned()
                }
                _ => without_user_infos(piece),
            }
        })
        .collect()
}

fn without_user_infos(text: &str) -> String {
    // Several URLs may stand in one text, and what is around them is kept.
    text.split_inclusive(|c: char| c.is_whitespace() || c == ',')
        .map(piece_without_credentials)
        .collect()
}

/// A piece of a text with what separates it from the next: a URL loses what [`url_without_credentials`] takes.
fn piece_without_credentials(piece: &str) -> String {
    if !piece.contains("://") {
        return piece.to_owned();
    }
    let kept = piece.trim_end_matches(|c: char| c.is_whitespace() || c == ',');
    format!("{}{}", url_without_credentials(kept), &piece[kept.len()..])
}

/// A URL or the reference to one without user info, query and fragment, which often hold keys.
#[must_use]
pub fn url_without_credentials(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or(url);
    let Some(begins) = shown.find("//").map(|at| at + 2) else {
        return shown.to_owned();
    };
    let (before, rest) = shown.split_at(begins);
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{before}{host}{path}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_are_shown_without_what_may_be_secret() {
        for (url, shown) in [
            ("https://user:hunter2@h/v1/?token=x#y", "https://h/v1/"),
            ("https://h:1/v1", "https://h:1/v1"),
            ("https://h?user@x", "https://h"),
            ("//user:hunter2@h/v1", "//h/v1"),
            ("/login?next=%2Fv1", "/login"),
            ("(nowhere)", "(nowhere)"),
        ] {
            assert_eq!(url_without_credentials(url), shown);
        }
    }

    #[test]
    fn names_tell_secrets_from_tokens() {
        for secret in [
            "api-key",
            "HF_TOKEN",
            "api_key",
            "AWS_SECRET_ACCESS_KEY",
            "hub.token",
            "admin_password",
            "WANDB_KEY",
            "key",
        ] {
            assert!(is_secret_name(secret), "{secret}");
        }
        for plain in [
            "max_num_batched_tokens",
            "tokenizer",
            "tokenizer_mode",
            "max_tokens",
            "key_cache",
            "author",
        ] {
            assert!(!is_secret_name(plain), "{plain}");
        }
    }

    #[test]
    fn values_that_look_like_credentials_are_hidden_wherever_they_stand() {
        assert_eq!(redacted("api_key", json!("x")), HIDDEN);
        assert_eq!(redacted("api_key", json!(["a", "b"])), HIDDEN);
        assert_eq!(redacted("model", json!("hf_abcdef")), HIDDEN);
        assert_eq!(
            redacted("args", json!([{"token": "t"}, "ok"])),
            json!([{"token": HIDDEN}, "ok"])
        );
        assert_eq!(
            redacted("store", json!("redis://u:p@h:1/0?x=y, s3://b/k")),
            "redis://h:1/0, s3://b/k"
        );
        assert_eq!(redacted("enable_auth", json!(true)), true);
        assert_eq!(redacted("max_model_len", json!(8192)), 8192);
        assert_eq!(
            redacted(
                "args",
                json!("serve m --api-key hunter2 --port 80 HF_TOKEN=t --x=y --wandb-key=k")
            ),
            "serve m --api-key *** --port 80 HF_TOKEN=*** --x=y --wandb-key=***"
        );
        assert_eq!(
            redacted(
                "kv_transfer_config",
                json!("{\"role\": 1, \"auth_token\": \"t\"}")
            ),
            "{\"role\":1,\"auth_token\":\"***\"}"
        );
        assert_eq!(redacted("hub", json!("https://u:p@h/x?api_key=k")), "https://h/x");
        assert_eq!(redacted("x", json!("a  b\n")), "a  b\n");
    }
}
