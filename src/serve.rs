//! `plimsoll serve`: sweeps as jobs, behind SageMaker's API, REST and a page.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use plimsoll_service::name::Arns;
use plimsoll_service::server::{self, Options, ServerError};
use plimsoll_service::target::{Place, Targets};
use plimsoll_service::web::gate::Gate;

use crate::arguments::parse_positive_duration;
use crate::console;
use crate::exit::{Exit, Failure, OrExit};
use crate::sweep_file::{DEFAULT_FILE, SweepFile};

/// `plimsoll serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Address to listen on; port 0 takes a free one. Any but loopback needs --keys-env or --token-env
    #[arg(long, default_value = "127.0.0.1:7070")]
    pub listen: SocketAddr,
    /// Folder of the job store and the jobs' runs
    #[arg(long, value_name = "DIR", default_value = "plimsoll-data")]
    pub data: PathBuf,
    /// Endpoint that jobs may name: NAME=URL, or NAME=sim for the simulated engine (repeatable)
    #[arg(long = "target", value_name = "NAME=URL", help_heading = "Targets")]
    pub targets: Vec<String>,
    /// Sweep file whose [targets] jobs may name too, with their dialects and credentials [default: plimsoll.toml where there
    /// is one and no --target is given]
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub config: Option<PathBuf>,
    /// Folder that stands for S3: s3://bucket/key is DIR/bucket/key [default: s3 in --data]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub local_s3: Option<PathBuf>,
    /// Environment variable with the keys that the API's requests must be signed with: ACCESS_KEY:SECRET_KEY,...
    #[arg(long, value_name = "NAME", help_heading = "Access")]
    pub keys_env: Option<String>,
    /// Environment variable with the token that REST and page ask for
    #[arg(long, value_name = "NAME", help_heading = "Access")]
    pub token_env: Option<String>,
    /// Longest time for one job, such as 2h
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "12h", help_heading = "Jobs")]
    pub max_job_time: Duration,
    /// Region that ARNs name
    #[arg(long, value_name = "REGION", value_parser = parse_region, default_value = "us-east-1", help_heading = "Jobs")]
    pub region: String,
    /// Account that ARNs name, twelve digits
    #[arg(long, value_name = "DIGITS", value_parser = parse_account, default_value = "000000000000", help_heading = "Jobs")]
    pub account: String,
}

/// Serves until the program is stopped.
pub fn run(arguments: ServeArguments) -> Result<Exit, Failure> {
    let options = options(arguments).or_exit(Exit::Usage)?;
    let named: Vec<String> = options
        .targets
        .all()
        .map(|target| format!("{} ({})", target.name, target.address()))
        .collect();
    // Sweeps end with this program, and are taken up again when it is started anew.
    ctrlc::set_handler(|| std::process::exit(i32::from(Exit::Done.code())))?;
    let served = server::run(options, |address| {
        let text = format!(
            "plimsoll serves at http://{address}/\ntargets: {}\n",
            named.join(", ")
        );
        // Whoever started it may not listen.
        let _ = console::put(&text);
    });
    match served {
        Ok(()) => Ok(Exit::Done),
        Err(error @ (ServerError::Data { .. } | ServerError::Locked(_) | ServerError::Listen { .. })) => {
            Err(error).or_exit(Exit::Usage)
        }
        Err(error) => Err(error.into()),
    }
}

fn options(arguments: ServeArguments) -> anyhow::Result<Options> {
    let targets = targets(&arguments)?;
    if targets.all().next().is_none() {
        bail!(
            "there is no target to measure; name one with --target NAME=URL, or in [targets] of a sweep file"
        );
    }
    let keys = secret("--keys-env", arguments.keys_env.as_deref())?;
    let token = secret("--token-env", arguments.token_env.as_deref())?;
    let gate = Gate::new(arguments.listen, keys.as_deref(), token.as_deref())?;
    let local_s3 = arguments.local_s3.unwrap_or_else(|| arguments.data.join("s3"));
    Ok(Options {
        listen: arguments.listen,
        data: arguments.data,
        local_s3,
        targets,
        gate,
        arns: Arns {
            region: arguments.region,
            account: arguments.account,
        },
        longest: arguments.max_job_time,
        executable: std::env::current_exe().context("where this program lies is not known")?,
        hidden: arguments
            .keys_env
            .into_iter()
            .chain(arguments.token_env)
            .collect(),
    })
}

/// The value of a variable that a flag names.
fn secret(flag: &str, name: Option<&str>) -> anyhow::Result<Option<String>> {
    match name.map(|name| (name, std::env::var(name))) {
        None => Ok(None),
        Some((_, Ok(value))) if !value.is_empty() => Ok(Some(value)),
        Some((name, _)) => bail!("environment variable `{name}`, named by {flag}, is not set"),
    }
}

fn targets(arguments: &ServeArguments) -> anyhow::Result<Targets> {
    let mut targets = Targets::default();
    for given in &arguments.targets {
        let Some((name, address)) = given.split_once('=') else {
            bail!("--target needs NAME=URL, such as prod=http://127.0.0.1:8000; what was given has no `=`");
        };
        targets.add(name.trim(), Place::Address(address.trim().to_owned()))?;
    }
    if arguments.config.is_none() && !arguments.targets.is_empty() {
        return Ok(targets);
    }
    let file = SweepFile::find(arguments.config.as_deref())?;
    let path = arguments.config.clone().unwrap_or_else(|| DEFAULT_FILE.into());
    if !file.targets.is_empty() {
        only_targets(&path)?;
    }
    for (name, table) in file.targets {
        let filed = Place::Filed {
            file: path.clone(),
            url: table.url,
        };
        targets
            .add(&name, filed)
            .with_context(|| format!("sweep file {}", path.display()))?;
    }
    Ok(targets)
}

/// A sweep takes from its file what its flags leave open. A job says all of it itself, so its file may hold only targets.
fn only_targets(path: &std::path::Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path)?;
    let tables: toml::Table = toml::from_str(&text)?;
    match tables.keys().find(|name| *name != "targets") {
        None => Ok(()),
        Some(table) => bail!(
            "sweep file {}: [{table}] would mix with what jobs ask for; name a file with --config that holds [targets] only",
            path.display()
        ),
    }
}

fn parse_region(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !text.is_empty() && text.len() <= 32 && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("write a region's name, such as us-east-1".to_owned())
    }
}

fn parse_account(text: &str) -> Result<String, String> {
    if text.len() == 12 && text.chars().all(|c| c.is_ascii_digit()) {
        Ok(text.to_owned())
    } else {
        Err("write twelve digits".to_owned())
    }
}
