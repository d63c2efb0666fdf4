//! The command line as a run may store it: without credentials.

use plimsoll_serving::secrets::{redacted, url_without_credentials};

/// The command as it may be stored: credentials replaced.
#[must_use]
pub fn command_without_secrets(arguments: impl IntoIterator<Item = String>) -> String {
    const SECRET: [&str; 4] = ["--api-key", "--header", "-H", "--proxy"];
    let mut shown = Vec::new();
    let mut hide_next = false;
    let mut setting_next = false;
    for argument in arguments {
        let text = if std::mem::take(&mut hide_next) {
            "***".to_owned()
        } else if SECRET.contains(&argument.as_str()) {
            hide_next = true;
            argument
        } else if std::mem::replace(&mut setting_next, SETTINGS.contains(&argument.as_str())) {
            setting(&argument)
        } else if let Some((flag, pair)) = argument
            .split_once('=')
            .filter(|(flag, _)| SETTINGS.contains(flag))
        {
            format!("{flag}={}", setting(pair))
        } else if let Some((flag, _)) = argument.split_once('=').filter(|(flag, _)| SECRET.contains(flag)) {
            format!("{flag}=***")
        } else if argument.starts_with("-H") {
            "-H***".to_owned()
        } else if argument.contains("://") {
            url_without_credentials(&argument)
        } else {
            argument
        };
        shown.push(if text.contains([' ', '<', '>', '&', ';']) {
            format!("'{text}'")
        } else {
            text
        });
    }
    shown.join(" ")
}

/// Flags whose value may be a setting of the server.
const SETTINGS: [&str; 2] = ["--config", "--serving"];

/// A setting with its value hidden where that is a credential; a file's name unchanged.
fn setting(text: &str) -> String {
    match text.split_once('=') {
        Some((name, value)) => match redacted(name, value.into()) {
            serde_json::Value::String(shown) => format!("{name}={shown}"),
            _ => text.to_owned(),
        },
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_command_holds_no_credential() {
        let command = command_without_secrets(
            [
                "plimsoll",
                "sweep",
                "https://me:pw@h/v1?key=abc",
                "--api-key",
                "sk-1",
                "--header=X: sk-2",
                "-H",
                "sk-3",
                "--serving",
                "api_key=x",
                "--config=hf-token=y",
                "--config",
                "max_num_seqs=64",
            ]
            .map(str::to_owned),
        );
        assert_eq!(
            command,
            "plimsoll sweep https://h/v1 --api-key *** --header=*** -H *** --serving api_key=*** --config=hf-token=*** --config max_num_seqs=64"
        );
    }
}
