//! The commands of `gnudi-benchmark`, one file each: options, the work, and its findings.

pub mod authentication;
pub mod engines;
pub mod growth;
pub mod notification;
pub mod pg_split;
pub mod processing;
pub mod rados;
pub mod report;
pub mod sack_split;
pub mod samples;
pub mod scheduling;
pub mod versus;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use gnudi_bench::commands::{Printing, measures, metric};

use crate::{context::Context, findings::Findings, peers::Programs};

/// Measures gnudi beside other servers, repeats published benchmarks, and writes the report.
#[derive(Debug, Parser)]
#[command(name = "gnudi-benchmark", version)]
pub struct Benchmark {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    printing: Printing,
    #[command(flatten)]
    programs: Programs,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Authentication(authentication::Options),
    Engines(engines::Options),
    Growth(growth::Options),
    Measures(measures::Options),
    Metric(metric::Options),
    Notification(notification::Options),
    Processing(processing::Options),
    PgSplit(pg_split::Options),
    Rados(rados::Options),
    Report(report::Options),
    SackSplit(sack_split::Options),
    Samples(samples::Options),
    Scheduling(scheduling::Options),
    Versus(versus::Options),
}

impl Benchmark {
    /// Runs the command and prints its findings; returns the program's exit code: that of an interrupted program where
    /// the findings are partial.
    pub fn run(self) -> Result<u8> {
        let mut context = Context::new(self.programs, self.printing.verbose)?;
        let Some(findings) = self.command.run(&mut context)? else {
            return Ok(if context.stop.is_set() { gnudi_bench::context::EXIT_INTERRUPTED } else { 0 });
        };
        let exit_code = findings.exit_code();
        self.printing.print(findings)?;
        Ok(exit_code)
    }
}

impl Command {
    /// `None` where the command has printed its results itself.
    fn run(&self, context: &mut Context) -> Result<Option<Findings>> {
        match self {
            Command::Authentication(options) => authentication::run(options, context).map(Some),
            Command::Engines(options) => engines::run(options, context).map(Some),
            Command::Growth(options) => growth::run(options, context).map(Some),
            Command::Measures(options) => measures::run(options, context).map(Some),
            Command::Metric(options) => metric::run(options, context).map(Some),
            Command::Notification(options) => notification::run(options, context).map(Some),
            Command::Scheduling(options) => Ok(Some(scheduling::run(options, context))),
            Command::SackSplit(options) => sack_split::run(options, context).map(Some),
            Command::Samples(options) => samples::run(options, context).map(Some),
            Command::Processing(options) => processing::run(options, context).map(Some),
            Command::PgSplit(options) => pg_split::run(options, context).map(Some),
            Command::Rados(options) => rados::run(options, context).map(Some),
            Command::Versus(options) => versus::run(options, context).map(Some),
            // It prints row by row, and writes files.
            Command::Report(options) => report::run(options, context).map(|()| None),
        }
    }
}

/// A command line behind `gnudi-benchmark`, without the options that all commands share.
#[derive(Debug, Parser)]
#[command(name = "gnudi-benchmark", no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// Runs the command of these words, as if they stood behind `gnudi-benchmark`; programs are those of the context.
pub fn run_words<T: AsRef<str>>(words: &[T], context: &mut Context) -> Result<Findings> {
    let line = Line::try_parse_from(words.iter().map(AsRef::as_ref))?;
    line.command.run(context)?.context("this command prints its results itself: nothing to compare")
}

/// Whether these words are a command with its options.
pub fn accepts_words<T: AsRef<str>>(words: &[T]) -> bool {
    Line::try_parse_from(words.iter().map(AsRef::as_ref)).is_ok()
}
