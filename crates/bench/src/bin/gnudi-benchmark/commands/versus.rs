//! `gnudi-benchmark versus A B -- COMMAND`: runs a command on two servers in turn, and compares the rounds pair by
//! pair.
//!
//! The order alternates (A B, B A, A B), so that changes of the machine's speed affect both; ratios are of pairs
//! measured close together. The command does the measuring.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use super::{accepts_words, run_words, within};
use crate::{
    context::Context,
    findings::{Figure, Findings, Table, Value},
    format,
    peers::{Peer, Server},
    spread::Spread,
    table::short,
};

/// Compare two servers by a command that runs on both in turn.
#[derive(Clone, Debug, Args)]
pub struct VersusOptions {
    /// A server's URL, a server that the tool starts (gnudi, gnocchi, limit, ...), or the path of a gnudi program.
    #[arg(value_name = "A")]
    a: String,
    /// The other server.
    #[arg(value_name = "B")]
    b: String,
    /// Rounds.
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = within(1..=1_000))]
    rounds: usize,
    /// The command with its options, as after `gnudi-benchmark`: metric create -n 1000
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Side {
    Url(String),
    Peer(Peer),
    Program(PathBuf),
}

impl Side {
    fn read(text: &str) -> Result<Self> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Side::Url(text.to_owned()));
        }
        if let Some(peer) = Peer::from_name(text) {
            return Ok(Side::Peer(peer));
        }
        let path = PathBuf::from(text);
        ensure!(
            path.is_file(),
            "{text} is neither a URL (http://...), nor a server that the tool starts (gnudi, gnocchi, limit, ...), nor a \
             program's file"
        );
        Ok(Side::Program(path))
    }

    /// Runs the command on this server; one that the tool starts is started anew each time.
    fn run(&self, words: &[String], context: &Context) -> Result<Findings> {
        let mut context = context.clone();
        if let Side::Program(path) = self {
            context.programs.gnudi = Some(path.clone());
        }
        let context = &context;
        let with = |option: &str, value: &str| {
            let more = [option.to_owned(), value.to_owned()];
            let words: Vec<String> = words.iter().cloned().chain(more).collect();
            accepts_words(&words).then_some(words)
        };
        let peer = match self {
            Side::Url(url) => {
                let words = with("--endpoint", url).with_context(|| {
                    format!("{} starts its own servers: it cannot go to {url}", words.join(" "))
                })?;
                return run_words(&words, context);
            }
            Side::Peer(peer) => *peer,
            Side::Program(_) => Peer::Gnudi,
        };
        // Commands that start their servers themselves, then those with an endpoint.
        if let Some(words) = with("--peers", peer.name()) {
            return run_words(&words, context);
        }
        if peer == Peer::Limit
            && let Some(words) = with("--endpoint", peer.name())
        {
            return run_words(&words, context);
        }
        if with("--endpoint", "http://127.0.0.1").is_some() {
            ensure!(peer.has_gnocchi_api(), "{} does not speak Gnocchi's API", peer.name());
            let server = Server::start(peer, context)?;
            let url = format!("http://{}{}", server.headers.host, server.headers.prefix);
            return run_words(&with("--endpoint", &url).context("a URL is an endpoint")?, context);
        }
        ensure!(peer == Peer::Gnudi, "{} cannot be run on {}", words.join(" "), peer.name());
        run_words(words, context)
    }
}

pub fn run(options: &VersusOptions, context: &Context) -> Result<Findings> {
    let command = options.command.join(" ");
    ensure!(options.command[0] != "versus", "versus compares a command that measures");
    for option in ["--endpoint", "--peers"] {
        let given = options.command.iter().any(|word| word.split('=').next() == Some(option));
        ensure!(!given, "{option} is what versus chooses: leave it out of the command");
    }
    let sides = [Side::read(&options.a)?, Side::read(&options.b)?];
    let mut pairs: Vec<[Findings; 2]> = Vec::new();
    let mut partial = None;
    for round in 0..options.rounds {
        let pair = round_of(&sides, options, round, context);
        if context.stop.is_set() {
            partial = Some(format!("interrupted after {round} of {} rounds", options.rounds));
            break;
        }
        match pair {
            Ok(pair) => pairs.push(pair),
            Err(error) if pairs.is_empty() => return Err(error),
            Err(error) => {
                partial = Some(format!("ended after {round} of {} rounds: {error:#}", options.rounds));
                break;
            }
        }
    }
    let mut findings = Findings::new(format!("{} (A) against {} (B): {command}", options.a, options.b));
    findings.partial = partial;
    tell(&pairs, &mut findings);
    if pairs.is_empty() {
        return Ok(findings);
    }
    ensure!(!findings.figures.is_empty(), "{command} tells no figures that can be compared");
    Ok(findings)
}

/// Runs A and B once each, in the round's order.
fn round_of(
    sides: &[Side; 2],
    options: &VersusOptions,
    round: usize,
    context: &Context,
) -> Result<[Findings; 2]> {
    let order = if round.is_multiple_of(2) { [0, 1] } else { [1, 0] };
    let mut found = [None, None];
    for side in order {
        if context.stop.is_set() {
            bail!("interrupted");
        }
        let name = [&options.a, &options.b][side];
        eprintln!("round {} of {}: {name}", round + 1, options.rounds);
        let findings = sides[side]
            .run(&options.command, context)
            .with_context(|| format!("round {}, {name}", round + 1))?;
        if let Some(reason) = &findings.partial {
            bail!("round {}, {name}: {reason}", round + 1);
        }
        found[side] = Some(findings);
    }
    let [a, b] = found.map(|findings| findings.expect("both sides ran"));
    Ok([a, b])
}

/// The values of a figure, pair by pair.
struct Compared<'a> {
    name: &'a str,
    values: Vec<[&'a Value; 2]>,
}

impl Compared<'_> {
    fn median(&self, side: usize) -> Value {
        let mut values: Vec<&Value> = self.values.iter().map(|pair| pair[side]).collect();
        values.sort_by(|a, b| a.number().unwrap_or(f64::NAN).total_cmp(&b.number().unwrap_or(f64::NAN)));
        values[values.len() / 2].clone()
    }
}

/// The figures that all runs of both sides have.
fn compared(pairs: &[[Findings; 2]]) -> Vec<Compared<'_>> {
    fn value_of<'a>(findings: &'a Findings, name: &str) -> Option<&'a Value> {
        findings.figures.iter().find(|figure| figure.name == name).map(|figure| &figure.value)
    }
    let Some([first, _]) = pairs.first() else { return Vec::new() };
    let figures = first.figures.iter();
    let figures = figures.filter(|figure| figure.better.is_some() && figure.value.number().is_some());
    figures
        .filter_map(|Figure { name, .. }| {
            let values = pairs.iter().map(|[a, b]| Some([value_of(a, name)?, value_of(b, name)?]));
            Some(Compared { name, values: values.collect::<Option<_>>()? })
        })
        .collect()
}

fn tell(pairs: &[[Findings; 2]], findings: &mut Findings) {
    let rounds = pairs.len();
    let mut table = Table::new(
        format!("medians of {rounds} rounds; the ratio is how many times better A is, pair by pair"),
        "figure | A | B | ratio | least | greatest",
        [],
    );
    for figure in compared(pairs) {
        let ratios = figure.values.iter().filter_map(|[a, b]| a.times_better_than(b));
        let spread = Spread::of(ratios);
        let (a, b) = (figure.median(0), figure.median(1));
        let mut row = vec![figure.name.to_owned(), format::shown(&a), format::shown(&b)];
        row.extend(match spread {
            Some(Spread { least, median, greatest }) => [median, least, greatest].map(short),
            None => ["-"; 3].map(str::to_owned),
        });
        table.rows.push(row);
        findings.tell(format!("{}, A", figure.name), a);
        findings.tell(format!("{}, B", figure.name), b);
        if let Some(Spread { median, .. }) = spread {
            findings.compare(format!("{}, A to B", figure.name), Value::Percent(100.0 * median));
        }
    }
    if !table.rows.is_empty() {
        findings.tables.push(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(speed: f64, seconds: f64) -> Findings {
        let mut findings = Findings::default();
        findings.compare("create speed", Value::rate(speed, "create"));
        findings.compare("create runtime", Value::Seconds(seconds));
        findings.tell("client workers", Value::Count(8));
        findings
    }

    #[test]
    fn ratios_are_those_of_pairs() {
        // The machine is twice as fast in the second round: medians over all would mislead, pairs don't.
        let pairs = [
            [run_of(100.0, 2.0), run_of(50.0, 4.0)],
            [run_of(300.0, 1.0), run_of(100.0, 3.0)],
            [run_of(90.0, 1.0), run_of(90.0, 1.0)],
        ];
        let mut findings = Findings::default();
        tell(&pairs, &mut findings);
        assert_eq!(
            findings.tables[0].rows,
            [
                ["create speed", "100.00 create/s", "90.00 create/s", "2.00", "1.00", "3.00"],
                ["create runtime", "1.00 seconds", "3.00 seconds", "2.00", "1.00", "3.00"],
            ]
        );
        let figure = findings.figures.iter().find(|figure| figure.name == "create speed, A to B").unwrap();
        assert_eq!(figure.value, Value::Percent(200.0));
    }

    #[test]
    fn a_figure_that_one_run_lacks_is_not_compared() {
        let mut other = run_of(1.0, 1.0);
        other.figures.remove(0);
        let pairs = [[run_of(1.0, 1.0), other]];
        assert_eq!(compared(&pairs).iter().map(|found| found.name).collect::<Vec<_>>(), ["create runtime"]);
        assert!(compared(&[]).is_empty());
    }
}
