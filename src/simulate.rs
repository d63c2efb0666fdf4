//! `plimsoll simulate`: the simulated engine over HTTP.

use anyhow::bail;
use plimsoll_sim::http::{ServeOptions, serve};
use plimsoll_sim::preset::{Preset, PresetError, of, quick};

use crate::arguments::SimulateArguments;
use crate::console;
use crate::exit::{Exit, Failure, OrExit};

/// Serves until the program is stopped.
pub fn run(arguments: &SimulateArguments) -> Result<Exit, Failure> {
    let preset = engine(arguments.model.as_deref(), arguments.instance.as_deref()).or_exit(Exit::Usage)?;
    let api_key = api_key(arguments).or_exit(Exit::Usage)?;
    let handle = serve(
        &preset.spec,
        &ServeOptions {
            listen: arguments.listen,
            speed: arguments.speed,
            api_key,
        },
    )
    .map_err(|error| {
        anyhow::anyhow!(
            "cannot listen on {}: {error}; choose another address with --listen",
            arguments.listen
        )
    })?;
    console::put(&format!("{} answers at {}/v1\n", preset.name, handle.url()))?;
    if arguments.speed != 1.0 {
        console::put(&format!("its clock runs {} times faster\n", arguments.speed))?;
    }
    handle.wait()?;
    Ok(Exit::Done)
}

/// The engine that `--model` and `--instance` name; without a model the small, quick one.
pub fn engine(model: Option<&str>, instance: Option<&str>) -> Result<Preset, PresetError> {
    model.map_or_else(|| Ok(quick()), |model| of(model, instance))
}

/// Beyond loopback, clients must show a key.
fn api_key(arguments: &SimulateArguments) -> anyhow::Result<Option<String>> {
    let key = match &arguments.api_key_env {
        Some(name) => match std::env::var(name) {
            Ok(key) if !key.is_empty() => Some(key),
            _ => bail!("environment variable `{name}` should hold the API key and is not set"),
        },
        None => None,
    };
    if key.is_none() && !arguments.listen.ip().is_loopback() {
        bail!(
            "{} is not loopback: name a key that clients must send with --api-key-env",
            arguments.listen
        );
    }
    Ok(key)
}
