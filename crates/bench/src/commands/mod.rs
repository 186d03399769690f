//! The commands of `gnudi benchmark`, one file each: options, the work, and its findings.
//!
//! `format` prints the findings.

pub mod measures;
pub mod metric;

use anyhow::Result;
use clap::{Args, Subcommand};
use gnudi_endpoint::output::{self, Format};

use crate::{context::Context, findings::Findings, format};

/// Maximum requests of a run; a created metric takes 36 bytes until it is deleted.
pub(crate) const REQUESTS_MAX: u64 = 100_000_000;
/// Each has a connection.
pub(crate) const WORKERS_MAX: u64 = 10_000;
pub(crate) const THREADS_MAX: u64 = 256;
/// Maximum measures per request, some 45 bytes each.
pub(crate) const BATCH_MAX: u64 = 1_000_000;

/// A number of the command line, from 1 to `MAX`, with gnocchiclient's messages.
pub(crate) fn up_to<const MAX: u64>(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text} must be an integer"));
    }
    if text.starts_with('-') || digits.bytes().all(|byte| byte == b'0') {
        return Err(format!("{text} must be greater than 0"));
    }
    let number = digits.parse().ok().filter(|number| *number <= MAX);
    number.ok_or_else(|| format!("{text} must not be above {MAX}"))
}

/// Output options.
#[derive(Clone, Debug, Args)]
pub struct Printing {
    /// Output format.
    #[arg(short, long, value_enum, global = true, default_value_t = Format::Table)]
    format: Format,
    /// Only this figure, by name; can be repeated.
    #[arg(short, long = "column", global = true, value_name = "NAME")]
    columns: Vec<String>,
    /// Show progress.
    #[arg(long, global = true)]
    pub verbose: bool,
}

impl Printing {
    /// Prints the findings on standard output, and remarks on standard error; returns the exit code, which says if they
    /// are partial because of an interrupt.
    pub fn print(&self, mut findings: Findings) -> Result<u8> {
        format::select(&mut findings, &self.columns)?;
        output::put(&format::text(&findings, self.format)?)?;
        for remark in format::remarks(&findings, self.format) {
            eprintln!("{remark}");
        }
        Ok(findings.exit_code())
    }
}

/// `gnudi benchmark`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "--endpoint limit: a server within the program that does nothing, as the upper limit\nComparisons with other servers, experiments and the report: gnudi-benchmark --help"
)]
pub struct Benchmark {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    printing: Printing,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    #[command(subcommand)]
    Measures(measures::MeasuresOptions),
    #[command(subcommand)]
    Metric(metric::MetricOptions),
}

impl Benchmark {
    /// Runs the command and prints its findings; returns the exit code.
    pub fn run(&self) -> Result<u8> {
        let context = Context::new(self.printing.verbose, || {})?;
        let findings = match &self.command {
            Command::Measures(options) => measures::run(options, &context),
            Command::Metric(options) => metric::run(options, &context),
        }?;
        self.printing.print(findings)
    }
}
