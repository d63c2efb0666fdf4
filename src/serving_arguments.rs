//! The server's own side: where its metrics are, and what the user tells of its configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use plimsoll_load::TargetOptions;
use plimsoll_serving::launch::{of_file, of_pair};
use plimsoll_serving::secrets::redacted;

use crate::sweep_file::TargetTable;

/// The server's own side.
#[derive(Debug, Default, Args)]
pub struct ServingArguments {
    /// Where the server's own metrics are [default: /metrics beside the endpoint; another origin is sent no credential]
    #[arg(long, value_name = "URL", help_heading = "Target")]
    pub metrics_url: Option<String>,
    /// A setting of the server to keep with the run, such as max_num_seqs=64 (repeatable; also as --config KEY=VALUE)
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Target")]
    pub serving: Vec<String>,
    /// The server's settings from a file: a container's environment (SM_VLLM_*), or a `vllm serve` command line
    #[arg(
        long,
        visible_alias = "config-file",
        value_name = "FILE",
        help_heading = "Target"
    )]
    pub serving_file: Option<PathBuf>,
}

impl ServingArguments {
    /// Adds what is told of the server to the options: a flag wins over the file it names, and that over the sweep file.
    ///
    /// # Errors
    /// When a setting is none, or the file cannot be read.
    pub fn settle(
        &self,
        pairs: &[String],
        table: &TargetTable,
        options: TargetOptions,
    ) -> anyhow::Result<TargetOptions> {
        let mut serving: BTreeMap<String, serde_json::Value> = table
            .serving
            .iter()
            .map(|(name, value)| (name.replace('-', "_"), redacted(name, value.clone())))
            .collect();
        if let Some(path) = self.serving_file.as_ref().or(table.serving_file.as_ref()) {
            let named = || format!("server settings {}", path.display());
            let text = std::fs::read_to_string(path).with_context(named)?;
            serving.extend(of_file(&text).with_context(named)?);
        }
        for pair in self.serving.iter().chain(pairs) {
            serving.extend([of_pair(pair)?]);
        }
        Ok(TargetOptions {
            metrics_url: self.metrics_url.clone().or_else(|| table.metrics_url.clone()),
            serving,
            ..options
        })
    }

    /// The flags given, for those who cannot use any.
    pub fn given(&self) -> [(&'static str, bool); 3] {
        [
            ("--metrics-url", self.metrics_url.is_some()),
            ("--serving", !self.serving.is_empty()),
            ("--serving-file", self.serving_file.is_some()),
        ]
    }
}

/// `--config` names the sweep file, or a setting of the server as `key=value`: what exists as a file is a file.
///
/// # Errors
/// When it names two files.
pub fn file_and_pairs(given: &[String]) -> anyhow::Result<(Option<PathBuf>, Vec<String>)> {
    let (pairs, files): (Vec<&String>, Vec<&String>) = given
        .iter()
        .partition(|text| text.contains('=') && !Path::new(text.as_str()).exists());
    if let [first, second, ..] = files.as_slice() {
        bail!(
            "--config names two sweep files, `{first}` and `{second}`; give one, and server settings as key=value"
        );
    }
    Ok((
        files.first().map(PathBuf::from),
        pairs.into_iter().cloned().collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_is_a_file_or_a_setting() {
        let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let (file, pairs) = file_and_pairs(&words("a.toml max_num_seqs=64 x=y")).unwrap();
        assert_eq!(file, Some(PathBuf::from("a.toml")));
        assert_eq!(pairs, ["max_num_seqs=64", "x=y"]);
        assert!(file_and_pairs(&words("a.toml b.toml")).is_err());
    }

    #[test]
    fn settings_come_from_flags_files_and_the_sweep_file_without_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("container.env");
        std::fs::write(
            &path,
            "SM_VLLM_MAX_MODEL_LEN=8192\nSM_VLLM_MAX_NUM_SEQS=32\nHF_TOKEN=hf_x\n",
        )
        .unwrap();
        let arguments = ServingArguments {
            metrics_url: None,
            serving: vec!["max_num_seqs=64".to_owned(), "api-key=sk-1".to_owned()],
            serving_file: Some(path),
        };
        let table: TargetTable = toml::from_str(
            "metrics-url = \"http://m:9\"\nserving = { block-size = 16, max-model-len = 1, token = \"t\" }",
        )
        .unwrap();
        let options = arguments.settle(&[], &table, TargetOptions::default()).unwrap();
        assert_eq!(options.metrics_url.as_deref(), Some("http://m:9"));
        assert_eq!(
            serde_json::to_string(&options.serving).unwrap(),
            r#"{"HF_TOKEN":"***","api_key":"***","block_size":16,"max_model_len":8192,"max_num_seqs":64,"token":"***"}"#
        );
    }
}
