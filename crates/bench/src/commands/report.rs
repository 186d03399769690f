//! `gnudi benchmark report`: gnudi and its peers side by side, each started and stopped by the tool.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;

use crate::{
    context::Context,
    machine::Machine,
    measurement::Measurement,
    peers::Peer,
    rows::{
        Bench,
        counts::{Counts, Scale},
    },
};

/// Measure gnudi and its peers side by side, in turn, on this machine.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Only these rows: by their names (push-5000), or several by their first word (push).
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    pub only: Vec<String>,
    /// small: a few minutes; full: about half an hour.
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    pub scale: Scale,
    /// The servers to measure, in this order within each row.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Limit, Peer::Gnudi, Peer::Gnocchi, Peer::VictoriaMetrics])]
    pub peers: Vec<Peer>,
    /// Where the results go as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/bench/results.json")]
    pub output: PathBuf,
    /// Threads of the load generator.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// How long each load of a fixed time lasts [default: by the scale].
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<u64>,
}

impl Options {
    /// Whether a row was asked for.
    pub fn wants(&self, key: &str) -> bool {
        let first_word = key.split('-').next();
        self.only.is_empty()
            || self.only.iter().any(|wanted| key == wanted || first_word == Some(wanted.as_str()))
    }

    pub fn counts(&self, peer: Peer) -> Counts {
        let mut counts = Counts::new(self.scale, peer);
        if let Some(seconds) = self.seconds {
            counts.load = Duration::from_secs(seconds);
        }
        counts
    }
}

/// Measures what was asked for, prints each row as it is done, and writes the results to their file.
pub fn run(options: &Options, context: &mut Context) -> Result<()> {
    println!("{}", preface(options));
    let mut bench = Bench::new(options, context);
    let outcome = bench.run();
    write(&bench)?;
    let missing =
        bench.missing.iter().map(|(peer, reason)| format!("{} was not measured: {reason}\n", peer.name()));
    println!("{}results: {}", missing.collect::<String>(), options.output.display());
    outcome
}

/// Before the first row: the machine, and what each server promises.
fn preface(options: &Options) -> String {
    let mut text =
        format!("{}; load generator included.\nWhat an accepted request is worth:\n", Machine::here());
    for peer in &options.peers {
        text += "  ";
        text += peer.name();
        text += ": ";
        text += peer.durability();
        text.push('\n');
    }
    text += "cpu: processor seconds during the row, of the server with all its processes and of the load generator;\n\
             per cpu s: work for each of the server's processor seconds, which a busy machine disturbs least.\n";
    text
}

#[derive(Serialize)]
struct Results<'a> {
    /// Unix seconds.
    written_at: u64,
    machine: Machine,
    scale: Scale,
    servers: Vec<ServerNote>,
    measurements: &'a [Measurement],
}

#[derive(Serialize)]
struct ServerNote {
    name: &'static str,
    durability: &'static str,
    /// Why it was not measured.
    missing: Option<String>,
}

fn write(bench: &Bench) -> Result<()> {
    let note = |peer: &Peer| ServerNote {
        name: peer.name(),
        durability: peer.durability(),
        missing: bench.missing.iter().find(|(missing, _)| missing == peer).map(|(_, reason)| reason.clone()),
    };
    let results = Results {
        written_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        machine: Machine::here(),
        scale: bench.options.scale,
        servers: bench.options.peers.iter().map(note).collect(),
        measurements: &bench.measurements,
    };
    let path = &bench.options.output;
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    std::fs::write(path, serde_json::to_vec_pretty(&results)?).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parse(arguments: &[&str]) -> Options {
        Line::try_parse_from(std::iter::once(&"report").chain(arguments)).unwrap().options
    }

    #[test]
    fn rows_are_chosen_by_name_or_first_word() {
        assert!(parse(&[]).wants("push-1"));
        let options = parse(&["--only", "stream,push-1000", "--peers", "gnudi,victoria-metrics"]);
        assert!(options.wants("stream") && options.wants("stream-single") && options.wants("push-1000"));
        assert!(!options.wants("push-100") && !options.wants("push-10000") && !options.wants("read"));
        assert_eq!(options.peers, [Peer::Gnudi, Peer::VictoriaMetrics]);
        assert_eq!(parse(&["--seconds", "7"]).counts(Peer::Limit).load, Duration::from_secs(7));
    }
}
