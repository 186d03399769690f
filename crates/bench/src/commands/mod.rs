//! The commands of `gnudi benchmark`, one file each: options, the work, and its findings.
//!
//! A command measures; how its findings are shown is `format`'s.

pub mod report;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{
    context::{Context, EXIT_INTERRUPTED},
    findings::Findings,
    format::{self, Format},
    peers::Programs,
};

/// `gnudi benchmark`.
#[derive(Clone, Debug, Args)]
pub struct Benchmark {
    #[command(subcommand)]
    command: Command,
    /// How results are printed.
    #[arg(short, long, value_enum, global = true, default_value_t = Format::Table)]
    format: Format,
    /// Tell how far the work has come.
    #[arg(long, global = true)]
    verbose: bool,
    #[command(flatten)]
    programs: Programs,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Report(report::Options),
}

impl Benchmark {
    /// Runs the command and prints what it found; the answer is the program's exit code: that of an interrupted program where
    /// the findings are partial.
    pub fn run(self) -> Result<u8> {
        let mut context = Context::new(self.programs, self.verbose)?;
        let findings: Option<Findings> = match &self.command {
            // It prints row by row, and writes files.
            Command::Report(options) => report::run(options, &mut context).map(|()| None)?,
        };
        let Some(findings) = findings else { return Ok(0) };
        print!("{}", format::text(&findings, self.format));
        Ok(if findings.partial.is_some() { EXIT_INTERRUPTED } else { 0 })
    }
}
