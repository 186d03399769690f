//! The commands of `gnudi-benchmark`, one file each: options, the work, and its findings.

pub mod engines;
pub mod growth;
pub mod notification;
pub mod processing;
pub mod prometheus;
pub mod report;
pub mod sack_split;
pub mod versus;

use std::{ops::RangeInclusive, time::Duration};

use anyhow::{Context as _, Result, ensure};
use clap::{
    Args, Parser, Subcommand,
    builder::{RangedU64ValueParser, TypedValueParser},
};
use gnudi_bench::commands::{Printing, measures, metric};

use crate::{
    context::Context,
    findings::Findings,
    peers::{Peer, Programs},
    table,
};

/// Measure gnudi beside other servers, repeat published benchmarks, and write the report.
#[derive(Debug, Parser)]
#[command(name = "gnudi-benchmark", version)]
pub struct Benchmark {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    printing: Printing,
    /// Print only the tables and notes, as Markdown.
    #[arg(long, global = true, conflicts_with = "format")]
    markdown: bool,
    #[command(flatten)]
    programs: Programs,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Engines(engines::EnginesOptions),
    Growth(growth::GrowthOptions),
    #[command(subcommand)]
    Measures(measures::MeasuresOptions),
    #[command(subcommand)]
    Metric(metric::MetricOptions),
    Notification(notification::NotificationOptions),
    Processing(processing::ProcessingOptions),
    Prometheus(prometheus::PrometheusOptions),
    Report(report::ReportOptions),
    SackSplit(sack_split::SackSplitOptions),
    Versus(versus::VersusOptions),
}

impl Benchmark {
    /// Runs the command and prints its findings; returns the exit code, which says if the findings are partial because
    /// of an interrupt.
    pub fn run(self) -> Result<u8> {
        let context = Context::new(self.programs, self.printing.verbose)?;
        let Some(findings) = self.command.run(&context)? else {
            return Ok(if context.stop.is_set() { gnudi_bench::context::EXIT_INTERRUPTED } else { 0 });
        };
        if !self.markdown {
            return self.printing.print(findings);
        }
        print!("{}", table::markdown(&findings));
        Ok(findings.exit_code())
    }
}

impl Command {
    /// `None` if the command has printed its results itself.
    fn run(&self, context: &Context) -> Result<Option<Findings>> {
        let mut findings = match self {
            // These say themselves how far they came.
            Command::Measures(options) => return measures::run(options, context).map(Some),
            Command::Metric(options) => return metric::run(options, context).map(Some),
            // It prints row by row, and writes files.
            Command::Report(options) => return report::run(options, context).map(|()| None),
            Command::Engines(options) => engines::run(options, context),
            Command::Growth(options) => growth::run(options, context),
            Command::Notification(options) => notification::run(options, context),
            Command::SackSplit(options) => sack_split::run(options, context),
            Command::Processing(options) => processing::run(options, context),
            Command::Prometheus(options) => prometheus::run(options, context),
            Command::Versus(options) => versus::run(options, context),
        }?;
        if context.stop.is_set() {
            findings.partial.get_or_insert_with(|| "interrupted".to_owned());
        }
        Ok(Some(findings))
    }
}

fn within(range: RangeInclusive<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}

fn seconds(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = Duration> {
    RangedU64ValueParser::new().range(range).map(Duration::from_secs)
}

/// Rejects servers that do not support the work; `why` follows the server's name.
fn check_peers(peers: &[Peer], suited: &[Peer], why: &str) -> Result<()> {
    for peer in peers {
        let names = || suited.iter().copied().map(Peer::name).collect::<Vec<_>>().join(", ");
        ensure!(suited.contains(peer), "{} {why}: choose {}", peer.name(), names());
    }
    Ok(())
}

/// Calls `work` for each item until the run is stopped. Failures are noted with the given prefix, and the others
/// continue.
fn in_turn<T: Copy, R>(
    items: impl IntoIterator<Item = T>,
    context: &Context,
    findings: &mut Findings,
    failed: impl Fn(T) -> String,
    mut work: impl FnMut(T) -> Result<R>,
) -> Vec<R> {
    let mut done = Vec::new();
    for item in items {
        if context.stop.is_set() {
            break;
        }
        match work(item) {
            Ok(result) => done.push(result),
            // Checks fail after an interruption.
            Err(_) if context.stop.is_set() => {}
            Err(error) => findings.note_failure(format!("{}: {error:#}", failed(item))),
        }
    }
    done
}

/// Parses options; panics on invalid ones.
pub fn parse_options<A: Args>(words: &[&str]) -> A {
    let command = A::augment_args(clap::Command::new("options").no_binary_name(true));
    A::from_arg_matches(&command.get_matches_from(words)).expect("the words are right")
}

/// A command line after `gnudi-benchmark`, without the global options.
#[derive(Debug, Parser)]
#[command(name = "gnudi-benchmark", no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// Runs a command line as given after `gnudi-benchmark`, with the programs of the context.
pub fn run_words<T: AsRef<str>>(words: &[T], context: &Context) -> Result<Findings> {
    let line = Line::try_parse_from(words.iter().map(AsRef::as_ref))?;
    line.command.run(context)?.context("this command prints its results itself: nothing to compare")
}

/// Whether a command line is valid.
pub fn accepts_words<T: AsRef<str>>(words: &[T]) -> bool {
    Line::try_parse_from(words.iter().map(AsRef::as_ref)).is_ok()
}
