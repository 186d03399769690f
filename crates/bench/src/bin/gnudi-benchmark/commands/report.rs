//! `gnudi-benchmark report`: gnudi and its peers side by side, all started and stopped by the tool.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, bail};
use clap::Args;

use super::parse_options;
use crate::{
    context::Context,
    documents, experiments,
    machine::{self, Machine},
    page,
    peers::Peer,
    results::{Results, ServerNote, write_file},
    rows::{self, Bench},
};

/// Measure gnudi and its peers in turn on this machine.
#[derive(Clone, Debug, Args)]
pub struct ReportOptions {
    /// Only these rows and experiments: by name (push-5000), or all with the same first word (push).
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Servers to measure, in order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Limit, Peer::Gnudi, Peer::GnudiOs, Peer::Gnocchi, Peer::VictoriaMetrics, Peer::InfluxDb])]
    pub peers: Vec<Peer>,
    /// File for the results, as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/bench/results.json")]
    pub output: PathBuf,
    /// File for the page, a self-contained HTML file.
    #[arg(long, value_name = "FILE", default_value = "target/bench/report.html")]
    pub page: PathBuf,
    /// Do not measure: make the page, and update documents, from existing results.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "output"])]
    pub from: Option<PathBuf>,
    /// Markdown files, or directories of them, whose blocks of figures are replaced with those of this run.
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub documents: Vec<PathBuf>,
    /// Duration of each load with a fixed time [default: half a second].
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<u64>,
}

impl Default for ReportOptions {
    fn default() -> Self {
        parse_options(&[])
    }
}

impl ReportOptions {
    /// Whether a row was selected.
    pub fn wants(&self, key: &str) -> bool {
        let names = [Some(key), key.split('-').next()];
        self.only.is_empty() || self.only.iter().any(|wanted| names.contains(&Some(wanted.as_str())))
    }

    /// Duration of a load with a fixed time.
    pub fn load_time(&self) -> Duration {
        self.seconds.map_or(Duration::from_millis(500), Duration::from_secs)
    }
}

/// Measures the selected rows, prints each as it is done, and writes the results and their page. Failures are reported
/// and do not affect the rest; an interrupted run keeps its results.
pub fn run(options: &ReportOptions, context: &Context) -> Result<()> {
    if let Some(from) = &options.from {
        let results = Results::read(from)?;
        write_file(&options.page, page::render(&results).as_bytes())?;
        println!("page: {}", options.page.display());
        return update_documents(&results, options);
    }
    let of_experiments = experiments::all().map(|experiment| experiment.key().to_owned());
    let keys: Vec<String> = rows::all().map(|row| row.key.to_owned()).chain(of_experiments).collect();
    let one = |name: &String| ReportOptions { only: vec![name.clone()], ..options.clone() };
    if let Some(unknown) = options.only.iter().find(|name| !keys.iter().any(|key| one(name).wants(key))) {
        bail!("--only {unknown}: no such row or experiment, there are {}", keys.join(", "));
    }
    println!("{}", preface(options));
    let start = Instant::now();
    let mut bench = Bench { results: begin(options, context), ..Bench::new(options.clone(), context) };
    bench.run();
    let mut results = bench.results;
    write(&mut results, start, options)?;
    for experiment in experiments::all().filter(|experiment| options.wants(experiment.key())) {
        if context.stop.is_set() {
            break;
        }
        results.experiments.push(experiment.run(context));
        // A killed run leaves its results so far.
        write(&mut results, start, options)?;
    }
    if context.stop.is_set() {
        results.partial = Some("the run was interrupted".to_owned());
        write(&mut results, start, options)?;
    }
    print!("{}", outcome(&results));
    println!("results: {}\npage: {}", options.output.display(), options.page.display());
    match results.failures.len() {
        0 => update_documents(&results, options),
        count => bail!("{count} rows or groups of rows failed"),
    }
}

/// What is known before the first measurement.
fn begin(options: &ReportOptions, context: &Context) -> Results {
    let note = |peer: &Peer| ServerNote {
        name: peer.name().to_owned(),
        durability: peer.durability().to_owned(),
        missing: None,
    };
    Results {
        command: command_line(),
        machine: Machine::here(),
        versions: machine::versions(&context.programs),
        commit: machine::commit(),
        servers: options.peers.iter().map(note).collect(),
        ..Results::default()
    }
}

fn write(results: &mut Results, start: Instant, options: &ReportOptions) -> Result<()> {
    results.written_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    results.seconds = start.elapsed().as_secs_f64();
    results.write(&options.output)?;
    write_file(&options.page, page::render(results).as_bytes())
}

fn update_documents(results: &Results, options: &ReportOptions) -> Result<()> {
    if !options.documents.is_empty() {
        for path in documents::update(&options.documents, results)? {
            println!("document: {}", path.display());
        }
    }
    Ok(())
}

fn outcome(results: &Results) -> String {
    let line =
        |(how, what, reason): (&str, String, &str)| format!("{}: {what}: {reason}\n", how.to_lowercase());
    let partial = results.partial.iter().map(|reason| format!("partial: {reason}\n"));
    results.absences().into_iter().map(line).chain(partial).collect()
}

/// This program's command line, quoted for a shell.
fn command_line() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name =
        Path::new(&program).file_name().map_or("gnudi".into(), |name| name.to_string_lossy().into_owned());
    std::iter::once(name).chain(words).map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Printed before the first row: the machine, and each server's durability.
fn preface(options: &ReportOptions) -> String {
    let mut text =
        format!("{}; load generator included.\nWhat an accepted request is worth:\n", Machine::here());
    for peer in &options.peers {
        text.extend(["  ", peer.name(), ": ", peer.durability(), "\n"]);
    }
    text += "cpu: processor seconds during the row, of the server with all its processes and of the load generator;\n\
             per cpu s: work for each of the server's processor seconds, which a busy machine disturbs least.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_name_or_first_word() {
        let parse = parse_options::<ReportOptions>;
        assert!(parse(&[]).wants("push-1"));
        let options = parse(&["--only", "stream,push-1000", "--peers", "gnudi,victoria-metrics"]);
        assert!(options.wants("stream") && options.wants("stream-single") && options.wants("push-1000"));
        assert!(!options.wants("push-100") && !options.wants("push-10000") && !options.wants("read"));
        assert_eq!(options.peers, [Peer::Gnudi, Peer::VictoriaMetrics]);
        assert!(!options.wants("rados") && parse(&["--only", "rados"]).wants("rados"));
        assert_eq!(parse(&["--seconds", "7"]).load_time(), Duration::from_secs(7));
    }

    #[test]
    fn a_command_line_can_be_typed_again() {
        for (word, text) in [("report", "report"), ("a b", "'a b'"), ("", "''"), ("it's", "'it'\\''s'")] {
            assert_eq!(quoted(word), text);
        }
    }
}
