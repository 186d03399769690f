//! Queries over a history, each sent to all servers in turn.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{
    super::in_turn,
    Footprint, PrometheusOptions,
    answer::{Agreement, Answer},
    ask,
    data::{Instances, Writes, time_of},
    get, gnudi_is,
    question::{self, METRIC, Question},
};
use crate::{
    findings::{Findings, Table, Value},
    load::Until,
    peers::{Peer, Server},
    rows::{Bench, process, setup},
    spread::Spread,
    table::{bytes, seconds, short, span},
};

const DAY: i64 = 24 * 60;

/// Minutes of history before the queried days, for the first window. A multiple of all query steps.
const LEAD: i64 = 240;

/// Minutes between samples of most series, except in the last day and its first window.
const SPARSE_MINUTES: i64 = 30;

/// Total time after which a query is not repeated; a single execution this long is not repeated at all.
const ROUNDS_MAX: Duration = Duration::from_millis(1_500);

/// gnudi's policy: as `raw`, with raw points for the whole queried time.
const POLICY: &str = "gnudi-bench-raw-month";
const CONFIGURATION: &str = "[api]\nprometheus_archive_policy = gnudi-bench-raw-month\n";

/// The history to write and query.
struct History {
    series: usize,
    days: i64,
    writes: Writes,
}

impl History {
    fn new(options: &PrometheusOptions) -> Result<Self> {
        let series = options.scaled(options.series, 10_000, 1_000) / 10 * 10;
        let days = i64::from(options.days);
        let last = Self::last_minute(days);
        let mut instances = Instances::new(METRIC, series);
        let dense_from = last - DAY - SPARSE_MINUTES;
        let writes = Writes::history(&mut instances, last + 1, dense_from, SPARSE_MINUTES)?;
        Ok(History { series, days, writes })
    }

    fn last_minute(days: i64) -> i64 {
        days * DAY + LEAD
    }
}

/// A server with the history, and its results.
struct Asked {
    server: Server,
    loaded: Duration,
    before: Footprint,
    /// Seconds, by query; `None` if it failed or the response differs.
    medians: Vec<Option<f64>>,
}

impl Asked {
    fn peer(&self) -> Peer {
        self.server.peer
    }
}

pub fn run(options: &PrometheusOptions, bench: &Bench, findings: &mut Findings) -> Result<()> {
    eprintln!("queries: the history");
    let rounds = options.scaled(options.rounds, 5, 3);
    let mut history = History::new(options)?;
    // gnudi-os gives the same responses as gnudi.
    let peers = options.peers.iter().copied().filter(|peer| !matches!(peer, Peer::Limit | Peer::GnudiOs));
    let failed = |peer: Peer| format!("{}: not asked", peer.name());
    let mut servers = in_turn(peers, bench.context, findings, failed, |peer| load(peer, &mut history, bench));
    if servers.is_empty() || bench.context.stop.is_set() {
        return Ok(());
    }
    let questions = question::all(history.series, history.days, time_of(History::last_minute(history.days)));
    for question in &questions {
        if bench.context.stop.is_set() {
            break;
        }
        if bench.context.verbose {
            eprintln!("{}: {}", question.reach, question.query);
        }
        ask_all(question, rounds, &mut servers, bench, findings);
    }
    add_history_table(&servers, &history, bench, findings);
    for is_range in [false, true] {
        tell(&questions, is_range, &servers, findings);
    }
    Ok(())
}

fn load(peer: Peer, history: &mut History, bench: &Bench) -> Result<Asked> {
    eprintln!("{}: {} samples of history", peer.name(), history.writes.samples);
    let server =
        Server::start_configured(peer, if peer.is_gnudi() { CONFIGURATION } else { "" }, bench.context)?;
    if peer.is_gnudi() {
        let definition = [(60, 90 * DAY as usize), (3_600, 2 * 365 * 24)];
        let raw = Some((history.days as usize + 2) * 24 * 3_600);
        setup::create_policy_with_raw(bench.context, &server, POLICY, &definition, None, raw)?;
    }
    let samples = history.writes.samples;
    let work = process::processed(bench, &server, history.writes.to(&server), 1, samples)?;
    ensure!(!bench.context.stop.is_set(), "cut short");
    let before = Footprint::take(bench, &server);
    Ok(Asked { server, loaded: work.elapsed, before, medians: Vec::new() })
}

/// Sends the query to all servers, and compares the responses with Prometheus', or with the first one.
fn ask_all(
    question: &Question,
    rounds: usize,
    servers: &mut [Asked],
    bench: &Bench,
    findings: &mut Findings,
) {
    let mut answers: Vec<Result<(Answer, f64)>> =
        servers.iter().map(|asked| measure(question, rounds, &asked.server, bench)).collect();
    let is_oracle = |asked: &Asked| asked.peer() == Peer::Prometheus;
    let oracle = servers.iter().position(is_oracle).filter(|place| answers[*place].is_ok());
    let oracle = oracle.or_else(|| answers.iter().position(Result::is_ok));
    for place in 0..servers.len() {
        let checked = match (&answers[place], oracle) {
            (Ok((answer, _)), Some(oracle)) if oracle != place => {
                let (expected, _) = answers[oracle].as_ref().expect("it was found");
                let peers = [servers[place].peer(), servers[oracle].peer()];
                let of_rates = peers.contains(&Peer::VictoriaMetrics);
                answer.check(expected, if of_rates { question.agreement_of_rates } else { Agreement::Exact })
            }
            _ => Ok(()),
        };
        if let Err(error) = checked {
            answers[place] = Err(error.context("differs"));
        }
    }
    for (asked, answer) in servers.iter_mut().zip(answers) {
        if let (Err(error), false) = (&answer, bench.context.stop.is_set()) {
            findings.note_failure(format!("{}: {}: {error:#}", asked.peer().name(), question.query));
        }
        asked.medians.push(answer.ok().map(|(_, seconds)| seconds));
    }
}

/// The response, and the median time in seconds. The first execution counts only if it is the only one.
fn measure(question: &Question, rounds: usize, server: &Server, bench: &Bench) -> Result<(Answer, f64)> {
    let (answer, first) = ask(bench, server, &question.path)?;
    ensure!(answer.series() > 0, "nothing was answered");
    let requests = get(server, &question.path);
    let (mut taken, mut spent) = (Vec::new(), first);
    while taken.len() < rounds && spent < ROUNDS_MAX {
        let outcome = bench.load(server, &requests, 1, Until::Count(1)).run();
        setup::check(&outcome)?;
        ensure!(outcome.calls == 1, "cut short");
        spent += outcome.elapsed;
        taken.push(outcome.elapsed.as_secs_f64());
    }
    let median = Spread::of(taken).map_or(first.as_secs_f64(), |spread| spread.median);
    Ok((answer, median))
}

fn add_history_table(servers: &[Asked], history: &History, bench: &Bench, findings: &mut Findings) {
    let History { series, days, writes } = history;
    let samples = writes.samples;
    let rows = servers.iter().map(|asked| {
        let after = Footprint::take(bench, &asked.server);
        let name = asked.peer().name();
        findings.compare(format!("{name} memory after queries"), Value::Bytes(after.memory_bytes as u64));
        findings.compare(format!("{name} disk of the history"), Value::Bytes(after.disk_bytes as u64));
        vec![
            name.to_owned(),
            seconds(asked.loaded),
            bytes(asked.before.memory_bytes),
            bytes(after.memory_bytes),
            bytes(after.disk_bytes),
            format!("{:.2} B", after.disk_bytes / samples as f64),
        ]
    });
    let rows: Vec<_> = rows.collect();
    for busy in servers.iter().filter(|asked| asked.before.is_busy) {
        let name = busy.peer().name();
        findings.note(format!(
            "{name}: still busy with the history when it was asked: its queries are slower than they could be"
        ));
    }
    let title = format!(
        "The history that is queried: {series} series, {samples} samples, by one connection. 100 series have a sample a minute for \
         {days} days, the others for a day and before that one of {SPARSE_MINUTES} minutes"
    );
    let headings = "server | written in | memory | memory after the queries | disk | a sample";
    findings.tables.push(Table::new(title, headings, rows));
    findings.note(
        "queries: medians; answers are those of Prometheus to 1e-9. VictoriaMetrics' rates take the sample before the window and are not \
         extrapolated: of these the series, the times and the sum (to 5 %) are compared. It is asked with nocache=1. gnudi's policy keeps raw \
         points for all of the time",
    );
}

/// A line per query, and the number of queries in which gnudi is ahead.
fn tell(questions: &[Question], is_range: bool, servers: &[Asked], findings: &mut Findings) {
    let gnudi = servers.iter().find(|asked| asked.peer() == Peer::Gnudi);
    let of_form = || questions.iter().enumerate().filter(|(_, question)| question.is_range == is_range);
    let median = |asked: &Asked, place: usize| asked.medians.get(place).copied().flatten();
    let ours = |place| gnudi.and_then(|asked| median(asked, place));
    let mut headings = "query | series | time".to_owned();
    for asked in servers {
        headings.extend([" | ", asked.peer().name()]);
        if asked.peer() != Peer::Gnudi {
            headings.push_str(" | gnudi is");
        }
    }
    let rows = of_form().map(|(place, question)| {
        let mut row =
            vec![question.operation.to_owned(), question.series.to_string(), question.reach.clone()];
        for asked in servers {
            let seconds = median(asked, place);
            row.push(seconds.map_or_else(|| "-".to_owned(), |seconds| span(1e6 * seconds)));
            if asked.peer() != Peer::Gnudi {
                row.push(gnudi_is(ours(place), seconds));
            }
        }
        row
    });
    let form = if is_range { "Range" } else { "Instant" };
    findings.tables.push(Table::new(format!("{form} queries"), &headings, rows));
    for asked in servers.iter().filter(|asked| asked.peer() != Peer::Gnudi) {
        let ratios = of_form().filter_map(|(place, _)| Some(median(asked, place)? / ours(place)?));
        let ratios: Vec<f64> = ratios.collect();
        let Some(Spread { least, median, greatest }) = Spread::of(ratios.iter().copied()) else { continue };
        let twice = ratios.iter().filter(|ratio| **ratio >= 2.0).count();
        let level = ratios.iter().filter(|ratio| **ratio >= 1.0).count();
        findings.note(format!(
            "{form} queries against {}: gnudi is at least twice as fast in {twice} of {}, at least as fast in {level}; {} to {} times, {} at \
             the median",
            asked.peer().name(),
            ratios.len(),
            short(least),
            short(greatest),
            short(median)
        ));
        let name = format!("{} queries, gnudi to {}", form.to_lowercase(), asked.peer().name());
        findings.compare(name, Value::Percent(100.0 * median));
    }
}
