//! Credentials and trust: how to get in. No run stores them.

use std::path::PathBuf;

use anyhow::anyhow;
use plimsoll_load::{Secret, TargetOptions};

use crate::arguments::AccessArguments;
use crate::sweep_file::TargetTable;

/// How to get in.
#[derive(Debug)]
pub struct Access {
    api_key: Option<Secret>,
    headers: Vec<(String, Secret)>,
    insecure: bool,
    ca_file: Option<PathBuf>,
    /// With how requests travel, and nothing else yet.
    route: TargetOptions,
}

impl Access {
    /// Settles the flags and what the sweep file says of the target.
    ///
    /// # Errors
    /// When a variable that should hold the key is not set, or a header has no colon.
    pub fn settle(arguments: &AccessArguments, table: &TargetTable) -> anyhow::Result<Access> {
        let variable = arguments.api_key_env.as_ref().or(table.api_key_env.as_ref());
        let api_key = match (&arguments.api_key, variable) {
            (Some(key), _) => Some(Secret::new(key.clone())),
            (None, Some(name)) => Some(Secret::new(std::env::var(name).map_err(|_| {
                anyhow!("environment variable `{name}` should hold the API key and is not set")
            })?)),
            (None, None) => None,
        };
        let mut headers: Vec<(String, Secret)> = table
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), Secret::new(value.clone())))
            .collect();
        for header in &arguments.headers {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| anyhow!("--header needs `Name: value`; what was given has no colon"))?;
            headers.push((name.trim().to_owned(), Secret::new(value.trim().to_owned())));
        }
        Ok(Access {
            api_key,
            headers,
            insecure: arguments.insecure || table.insecure,
            ca_file: arguments.ca_file.clone().or_else(|| table.ca_file.clone()),
            route: arguments.connection.settle(table, TargetOptions::default()),
        })
    }

    /// Target options that lack only where and what.
    pub fn options(self) -> TargetOptions {
        TargetOptions {
            api_key: self.api_key,
            headers: self.headers,
            insecure: self.insecure,
            ca_file: self.ca_file,
            ..self.route
        }
    }
}

/// What of the trust asked for an endpoint without TLS has no use for, in a sentence. Its metrics may stand elsewhere.
pub fn idle_trust(options: &TargetOptions) -> Option<String> {
    let plain = |url: &str| url.trim().to_ascii_lowercase().starts_with("http://");
    let flag = match (&options.ca_file, options.insecure) {
        (Some(_), _) => "--ca-file",
        (None, true) => "--insecure",
        (None, false) => return None,
    };
    (plain(&options.url) && options.metrics_url.as_deref().is_none_or(plain)).then(|| {
        format!(
            "{flag} does nothing here: http:// has no certificate to check; write https:// if the endpoint speaks TLS"
        )
    })
}
