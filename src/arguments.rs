//! The command line, as clap reads it. [`crate::settings`] says what it means.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use plimsoll_run::ladder::Ladder;
use plimsoll_run::peak::Peak;
use plimsoll_run::sla::SlaTerm;
use plimsoll_run::units::{UnitError, parse_duration};

use crate::connection::ConnectionArguments;
use crate::demand::DemandArguments;
use crate::endpoint_arguments::EndpointArguments;
pub use crate::serve::ServeArguments;
use crate::workload_arguments::WorkloadArguments;

/// Finds the load line of an LLM inference endpoint: the best concurrency, the concurrency at which latency
/// breaks the SLA, and the instances that a peak needs.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, propagate_version = true, max_term_width = 110)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Sweep an endpoint: raise concurrency in stages and answer with the three planning numbers
    Sweep(Box<SweepArguments>),
    /// Planning numbers again from a saved run, under another SLA, peak or price; sends nothing
    Plan(PlanArguments),
    /// What an endpoint speaks and accepts, what serves it, and the request it is sent
    Probe(Box<ProbeArguments>),
    /// A saved run as html, csv, markdown, json, junit or aiperf
    Report(ReportArguments),
    /// Planning numbers from tables that someone else measured: CSV, AIPerf, GuideLLM, vllm bench serve
    Analyze(AnalyzeArguments),
    /// Runs of one workload side by side; with --gate a regression ends with exit code 4
    Compare(CompareArguments),
    /// Finish an interrupted run: only what is missing
    Resume(Box<ResumeArguments>),
    /// A whole sweep of the simulated engine in virtual time, in about a second
    Predict(Box<PredictArguments>),
    /// Serve the simulated engine over HTTP, OpenAI-compatible
    Simulate(SimulateArguments),
    /// Serve sweeps as jobs: SageMaker's benchmark API, REST and a page
    Serve(Box<ServeArguments>),
}

/// What `sweep` prints on stdout at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SweepFormat {
    /// Table and answer for a person
    Table,
    /// run.json
    Json,
    /// One row a rung
    Csv,
    /// For a document or a pull request
    Markdown,
}

impl SweepFormat {
    /// JSON where `--json` was given, else the table.
    pub fn json_if(json: bool) -> SweepFormat {
        if json {
            SweepFormat::Json
        } else {
            SweepFormat::Table
        }
    }
}

/// Formats of `report`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Table and answer for a person
    Table,
    /// run.json
    Json,
    /// One row a rung
    Csv,
    /// For a document or a pull request
    Markdown,
    /// One self-contained page
    Html,
    /// Tests of the planning numbers and the levels, for a CI system
    Junit,
    /// A sweep in the shape of AIPerf's profile_export_aiperf_sweep.json
    Aiperf,
}

/// `plimsoll sweep`.
#[derive(Debug, Args)]
pub struct SweepArguments {
    /// A URL, a target named in the sweep file, `sim` for the quick simulated engine, or `sim:MODEL@INSTANCE`
    pub target: String,

    /// Sweep file; flags win over it [default: plimsoll.toml where there is one]. KEY=VALUE is a setting of the server, as
    /// --serving takes it
    #[arg(long, value_name = "FILE")]
    pub config: Vec<String>,

    /// Where it is and how it is spoken to.
    #[command(flatten)]
    pub endpoint: EndpointArguments,
    /// Run the simulated engine's clock this many times faster (only with `sim`): levels stay, rates grow
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed, help_heading = "Target")]
    pub speed: Option<f64>,

    /// What one request looks like.
    #[command(flatten)]
    pub workload: WorkloadArguments,
    /// Ask for whole replies instead of streams (TTFT, TPOT and ITL are then unknown)
    #[arg(long, help_heading = "Workload")]
    pub no_stream: bool,
    /// How to climb.
    #[command(flatten)]
    pub climb: ClimbArguments,

    /// The numbers to answer.
    #[command(flatten)]
    pub question: QuestionArguments,
    /// After the sweep, replay arrivals in open loop at the rate that one replica may be given, and say whether the SLA
    /// held
    #[arg(long, help_heading = "Question")]
    pub verify: bool,

    /// Folder that run directories are made in [default: runs]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// What to print on stdout at the end
    #[arg(long, value_enum, default_value_t = SweepFormat::Table, help_heading = "Output")]
    pub format: SweepFormat,
    /// Print run.json on stdout and nothing else there (as --format json)
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// No progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Ask nothing (this version never asks)
    #[arg(long, short, help_heading = "Output")]
    pub yes: bool,
}

/// Levels, budgets and what ends a rung.
#[derive(Debug, Args)]
pub struct ClimbArguments {
    /// Levels to hold, ascending, exactly these unless --resolution is given too [default: 64,256,1024, refined]
    #[arg(long, value_name = "C,C,...", help_heading = "Sweep")]
    pub levels: Option<Ladder>,
    /// Lowest level that may be tried [default: 1]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Sweep")]
    pub min: Option<u32>,
    /// Highest level that may be tried [default: 1024]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Sweep")]
    pub max: Option<u32>,
    /// Refine between the levels until the answer is known to this fraction [default: 0.05]
    #[arg(long, value_name = "FRACTION", value_parser = parse_resolution, help_heading = "Sweep")]
    pub resolution: Option<f64>,
    /// Start no rung that would end later than this, such as 15m
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, help_heading = "Sweep")]
    pub max_time: Option<Duration>,
    /// Measure at most so many rungs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Sweep")]
    pub max_rungs: Option<u32>,
    /// Hold every level's window for this long [default: until the evidence suffices]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, help_heading = "Sweep")]
    pub rung_time: Option<Duration>,
    /// End a rung after so many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Sweep")]
    pub requests: Option<u64>,
    /// Warm-up before each window; 0 turns it off [default: found from the data]
    #[arg(long, value_name = "TIME", value_parser = parse_warmup, help_heading = "Sweep")]
    pub warmup: Option<Duration>,
}

/// How to get in: what no run stores.
#[derive(Debug, Args)]
pub struct AccessArguments {
    /// API key, sent as a bearer token (visible in the process list: prefer --api-key-env)
    #[arg(
        long,
        value_name = "KEY",
        help_heading = "Target",
        conflicts_with = "api_key_env"
    )]
    pub api_key: Option<String>,
    /// Environment variable that holds the API key
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    pub api_key_env: Option<String>,
    /// Extra request header, `Name: value` (repeatable)
    #[arg(
        long = "header",
        short = 'H',
        value_name = "NAME: VALUE",
        help_heading = "Target"
    )]
    pub headers: Vec<String>,
    /// Do not verify TLS certificates
    #[arg(long, help_heading = "Target")]
    pub insecure: bool,
    /// Trust the certificates in this PEM file as well
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Target",
        conflicts_with = "insecure"
    )]
    pub ca_file: Option<PathBuf>,
    /// How requests travel.
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

/// The SLA, the peak and the price: what the planning numbers answer.
#[derive(Debug, Clone, Args)]
pub struct QuestionArguments {
    /// SLA term, such as 'ttft.p95<=500ms', 'tpot.p95<=50ms' or 'error_rate<=0.01' (repeatable; all must hold)
    #[arg(long = "sla", value_name = "TERM", help_heading = "Question")]
    pub sla: Vec<SlaTerm>,
    /// Load at the peak, such as 40rps or 3000users:think=20s
    #[arg(long, help_heading = "Question")]
    pub peak: Option<Peak>,
    /// Price of one instance, an hour
    #[arg(long, value_name = "AMOUNT", value_parser = parse_price, help_heading = "Question")]
    pub price: Option<f64>,
    /// Currency of the price [default: USD]
    #[arg(long, value_name = "CODE", help_heading = "Question")]
    pub currency: Option<String>,
    /// Instances to keep beyond what the load needs
    #[arg(long, value_name = "N", help_heading = "Question")]
    pub spares: Option<u64>,
    /// How the peak arrives and the replicas are run.
    #[command(flatten)]
    pub demand: DemandArguments,
}

/// `plimsoll plan`.
#[derive(Debug, Args)]
pub struct PlanArguments {
    /// A run directory or its run.json
    pub run: PathBuf,
    /// What to ask of it, instead of what the run asked.
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Print the document on stdout as JSON
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// A run directory or its run.json
    pub run: PathBuf,
    /// Format
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub format: ReportFormat,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `plimsoll compare`.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// Run directories or their run.json: what to compare with, and then what to compare
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// End with exit code 4 when anything became worse
    #[arg(long)]
    pub gate: bool,
    /// Changes up to this fraction count as none
    #[arg(long, value_name = "FRACTION", value_parser = parse_tolerance, default_value = "0.05")]
    pub tolerance: f64,
    /// Print the comparison on stdout as JSON
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll probe`.
#[derive(Debug, Args)]
pub struct ProbeArguments {
    /// A URL, a target named in the sweep file, or the simulated engine as `sweep` names it
    pub target: String,
    /// Sweep file; flags win over it [default: plimsoll.toml where there is one]. KEY=VALUE is a setting of the server, as
    /// --serving takes it
    #[arg(long, value_name = "FILE")]
    pub config: Vec<String>,
    /// Where it is and how it is spoken to.
    #[command(flatten)]
    pub endpoint: EndpointArguments,
    /// Ask for whole replies instead of streams
    #[arg(long, help_heading = "Workload")]
    pub no_stream: bool,
    /// Print what was found as one JSON document on stdout
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// `plimsoll resume`.
#[derive(Debug, Args)]
pub struct ResumeArguments {
    /// A run directory or its run.json
    pub run: PathBuf,
    /// Take credentials, trust and connection from this target of the sweep file
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    pub target: Option<String>,
    /// Sweep file [default: plimsoll.toml where there is one]
    #[arg(long, value_name = "FILE", requires = "target", help_heading = "Target")]
    pub config: Option<PathBuf>,
    /// Credentials and trust, as the run had them.
    #[command(flatten)]
    pub access: AccessArguments,
    /// Where the server's own metrics are, as the run had it [default: /metrics beside the endpoint]
    #[arg(long, value_name = "URL", help_heading = "Target")]
    pub metrics_url: Option<String>,
    /// What to ask of it, instead of what the run asked.
    #[command(flatten)]
    pub question: QuestionArguments,
    /// After the sweep, replay arrivals in open loop at the rate that one replica may be given, and say whether the SLA
    /// held; of a run that is complete, this alone
    #[arg(long, help_heading = "Question")]
    pub verify: bool,
    /// Start no rung that would end later than this, counted from now
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration)]
    pub max_time: Option<Duration>,
    /// Print run.json on stdout and nothing else there
    #[arg(long)]
    pub json: bool,
    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// `plimsoll predict`.
#[derive(Debug, Args)]
pub struct PredictArguments {
    /// Model: nemotron-3-nano, llama-3.1-8b, qwen3-30b-a3b [default: the small, quick engine of `sweep sim`]
    #[arg(long)]
    pub model: Option<String>,
    /// Instance type, such as ml.g7e.2xlarge [default: the model's own]
    #[arg(long, requires = "model")]
    pub instance: Option<String>,
    /// What one request looks like.
    #[command(flatten)]
    pub workload: WorkloadArguments,
    /// How to climb.
    #[command(flatten)]
    pub climb: ClimbArguments,
    /// The numbers to answer.
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Print the document on stdout as JSON
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll simulate`.
#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// Model: nemotron-3-nano, llama-3.1-8b, qwen3-30b-a3b [default: the small, quick engine of `sweep sim`]
    #[arg(long)]
    pub model: Option<String>,
    /// Instance type, such as ml.g7e.2xlarge [default: the model's own]
    #[arg(long, requires = "model")]
    pub instance: Option<String>,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8000")]
    pub listen: SocketAddr,
    /// Environment variable that holds the API key clients must send; needed for any address but loopback
    #[arg(long, value_name = "NAME")]
    pub api_key_env: Option<String>,
    /// Run the engine's clock this many times faster
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed, default_value = "1")]
    pub speed: f64,
}

/// `plimsoll analyze`.
#[derive(Debug, Args)]
pub struct AnalyzeArguments {
    /// CSV with one row a level, or JSON of AIPerf, GuideLLM or vllm bench serve (one level a file: name them all)
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Mean reply length in tokens, for a table that gives only tokens or only requests per second
    #[arg(long, value_name = "MEAN", value_parser = parse_length)]
    pub output_tokens: Option<f64>,
    /// What to ask of them.
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Print the document on stdout as JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_length(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|value| (1.0..=10_000_000.0).contains(value))
        .ok_or_else(|| "write a number of tokens from 1 to 10000000".to_owned())
}

/// A time above 0.
pub fn parse_positive_duration(text: &str) -> Result<Duration, UnitError> {
    let duration = parse_duration(text)?;
    if duration.is_zero() {
        return Err(UnitError::OutOfRange {
            text: text.to_owned(),
            range: "must be above 0",
        });
    }
    Ok(duration)
}

fn parse_warmup(text: &str) -> Result<Duration, UnitError> {
    if text.trim() == "0" {
        Ok(Duration::ZERO)
    } else {
        parse_duration(text)
    }
}

fn parse_resolution(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|value| (0.001..=1.0).contains(value))
        .ok_or_else(|| "write a fraction from 0.001 to 1, such as 0.05".to_owned())
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| "write a fraction from 0 to 1, such as 0.05".to_owned())
}

fn parse_price(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value >= 0.0)
        .ok_or_else(|| "write an amount an hour, such as 4.20".to_owned())
}

fn parse_speed(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|value| (0.01..=1000.0).contains(value))
        .ok_or_else(|| "write a factor from 0.01 to 1000".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn warm_up_zero_needs_no_unit_and_other_durations_do() {
        assert_eq!(parse_warmup("0"), Ok(Duration::ZERO));
        assert_eq!(parse_warmup("2s"), Ok(Duration::from_secs(2)));
        assert!(parse_warmup("2").is_err());
        assert!(parse_positive_duration("0s").is_err());
    }
}
