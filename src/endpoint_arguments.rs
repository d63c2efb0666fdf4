//! Where an endpoint is and how it is spoken to, from flags and the sweep file: what `sweep` and `probe` have in common.

use anyhow::{Context, bail};
use clap::Args;
use plimsoll_load::TargetOptions;
use plimsoll_run::nearest::hint;
use plimsoll_run::target::{CustomDialect, Dialect};

use crate::access::Access;
use crate::arguments::AccessArguments;
use crate::serving_arguments::ServingArguments;
use crate::sweep_file::{SweepFile, TargetTable};

/// Where an endpoint is and how it is spoken to.
#[derive(Debug, Args)]
pub struct EndpointArguments {
    /// How the endpoint is spoken to: openai-chat, openai-completions, openai-responses, anthropic-messages, tgi, ollama,
    /// sagemaker or custom [default: by the URL's route, else the endpoint is asked]
    #[arg(long, help_heading = "Target")]
    pub dialect: Option<Dialect>,
    /// A part of the dialect `custom`: body, text, reasoning, input-tokens, output-tokens, finish, error or framing, such as
    /// 'body={"q": "{prompt}", "n": "{output_tokens}"}' and 'text=/answer' (repeatable)
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Target")]
    pub custom: Vec<String>,
    /// Model to ask for [default: the one the endpoint lists]
    #[arg(long, help_heading = "Target")]
    pub model: Option<String>,
    /// Route to send requests to, instead of the dialect's own
    #[arg(long, value_name = "PATH", help_heading = "Target")]
    pub endpoint_path: Option<String>,
    /// Credentials and trust.
    #[command(flatten)]
    pub access: AccessArguments,
    /// The server's own side.
    #[command(flatten)]
    pub serving: ServingArguments,
}

impl EndpointArguments {
    /// Everything about the endpoint: flags win over the sweep file. `pairs` are settings of the server from `--config`.
    ///
    /// # Errors
    /// When there is no such target, or something about it cannot be used. Nothing has been sent then.
    pub fn settle(&self, target: &str, pairs: &[String], file: &SweepFile) -> anyhow::Result<TargetOptions> {
        let table = table(target, file)?;
        let access = Access::settle(&self.access, &table)?;
        let custom = self.custom(table.custom.clone())?;
        let options = self.serving.settle(pairs, &table, access.options())?;
        Ok(TargetOptions {
            url: table.url,
            dialect: self
                .dialect
                .or(table.dialect)
                .or(custom.as_ref().map(|_| Dialect::Custom)),
            custom,
            model: self.model.clone().or(table.model),
            endpoint_path: self.endpoint_path.clone().or(table.endpoint_path),
            ..options
        })
    }

    /// The parts of a custom dialect over those of the sweep file; `None` where neither names any.
    fn custom(&self, filed: Option<CustomDialect>) -> anyhow::Result<Option<CustomDialect>> {
        let mut custom = filed;
        for part in &self.custom {
            let (key, value) = part.split_once('=').with_context(|| {
                format!("--custom `{part}` has no `=`; write KEY=VALUE, such as text=/answer")
            })?;
            custom.get_or_insert_default().set(key.trim(), value)?;
        }
        if let Some(custom) = &custom {
            custom.check()?;
        }
        Ok(custom)
    }

    /// Flags that mean nothing to the simulated engine are refused, not ignored.
    ///
    /// # Errors
    /// When one is given.
    pub fn refuse_with_sim(&self, pairs: &[String]) -> anyhow::Result<()> {
        let given = [
            ("--model", self.model.is_some()),
            ("--custom", !self.custom.is_empty()),
            ("--api-key", self.access.api_key.is_some()),
            ("--api-key-env", self.access.api_key_env.is_some()),
            ("--header", !self.access.headers.is_empty()),
            ("--endpoint-path", self.endpoint_path.is_some()),
            ("--insecure", self.access.insecure),
            ("--ca-file", self.access.ca_file.is_some()),
            ("--config KEY=VALUE", !pairs.is_empty()),
        ];
        let travel = self.access.connection.given();
        let serving = self.serving.given();
        match given
            .iter()
            .chain(&travel)
            .chain(&serving)
            .find(|(_, given)| *given)
        {
            Some(("--model", _)) => {
                bail!(
                    "--model does not go with `sim`; name the model in the target, such as sim:llama-3.1-8b"
                )
            }
            Some((flag, _)) => {
                bail!("{flag} does not go with `sim`, which is started and stopped by plimsoll itself")
            }
            None => Ok(()),
        }
    }
}

/// What the sweep file says of a target, or that it is a URL.
fn table(target: &str, file: &SweepFile) -> anyhow::Result<TargetTable> {
    let table = match file.targets.get(target) {
        Some(table) => table.clone(),
        None if target.contains("://") => TargetTable {
            url: target.to_owned(),
            ..TargetTable::default()
        },
        None => {
            let mut known: Vec<&str> = file.targets.keys().map(String::as_str).collect();
            known.push("sim");
            // What stands before an `@` is a credential, with or without a scheme.
            let shown = target.rsplit_once('@').map_or(target, |(_, host)| host);
            bail!(
                "`{shown}` is neither a URL nor a known target{}; write http://HOST:PORT, `sim`, or a name from \
                 [targets] in the sweep file",
                hint(target, &known)
            );
        }
    };
    if table.url.is_empty() {
        bail!("target `{target}` in the sweep file has no `url`");
    }
    Ok(table)
}
