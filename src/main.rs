//! `plimsoll`: finds the load line of an LLM inference endpoint.
//!
//! This crate holds arguments, progress and exit codes; it computes no number. One file a subcommand.

mod access;
mod analyze;
mod arguments;
mod climb;
mod command;
mod compare;
mod connection;
mod console;
mod course;
mod demand;
mod endpoint_arguments;
mod exit;
mod interrupt;
mod plan;
mod predict;
mod probe;
mod progress;
mod question;
mod report;
mod resume;
mod serve;
mod serving_arguments;
mod settings;
mod shares;
mod simulate;
mod sweep;
mod sweep_file;
mod verify;
mod workload_arguments;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Sweep(arguments) => sweep::run(*arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Analyze(arguments) => analyze::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Resume(arguments) => resume::run(&arguments),
        Command::Predict(arguments) => predict::run(*arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Serve(arguments) => serve::run(*arguments),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            console::say(&format!("plimsoll: {}", console::one_line(&failure.error)));
            failure.exit.into()
        }
    }
}
