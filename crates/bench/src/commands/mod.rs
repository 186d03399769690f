//! The commands of `gnudi benchmark`, one file each: options, the work, and its findings.
//!
//! `format` prints the findings.

pub(crate) mod count;
pub mod measures;
pub mod metric;

use anyhow::Result;
use clap::{Args, Subcommand};
use gnudi_endpoint::output::{self, Format};

use crate::{context::Context, findings::Findings, format};

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
