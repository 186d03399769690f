//! Queries over a history, each sent to all servers in turn.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{
    super::in_turn,
    Footprint, PrometheusOptions, add_disk,
    answer::{Agreement, Answer},
    ask,
    data::{Instances, Writes, time_of},
    get,
    question::{self, METRIC, Question},
};
use crate::{
    context::Context,
    findings::{Findings, Value},
    load::Until,
    peers::{Peer, Server},
    rows::{process, setup},
    sheet::Sheet,
    spread::Spread,
    table::{short, times},
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

struct History {
    series: usize,
    days: i64,
    /// That of the newest samples.
    last_minute: i64,
    writes: Writes,
}

impl History {
    fn new(options: &PrometheusOptions) -> Result<Self> {
        let series = options.series / 10 * 10;
        let days = options.days as i64;
        let last_minute = days * DAY + LEAD;
        let mut instances = Instances::new(METRIC, series);
        let dense_from = last_minute - DAY - SPARSE_MINUTES;
        let writes = Writes::history(&mut instances, last_minute + 1, dense_from, SPARSE_MINUTES)?;
        Ok(History { series, days, last_minute, writes })
    }
}

struct Asked<'a> {
    server: Server<'a>,
    loaded: Duration,
    before: Footprint,
    /// Seconds, by query; `None` if it failed or the response differs.
    medians: Vec<Option<f64>>,
}

pub fn run(options: &PrometheusOptions, context: &Context, findings: &mut Findings) -> Result<()> {
    eprintln!("queries: the history");
    let mut history = History::new(options)?;
    // gnudi-os gives the same responses as gnudi.
    let peers = options.peers.iter().copied().filter(|peer| !matches!(peer, Peer::Limit | Peer::GnudiOs));
    let failed = |peer: Peer| format!("{}: not asked", peer.name());
    let mut servers = in_turn(peers, context, findings, failed, |peer| load(peer, &mut history, context));
    if servers.is_empty() || context.stop.is_set() {
        return Ok(());
    }
    let questions = question::all(history.series, history.days, time_of(history.last_minute));
    for question in &questions {
        if context.stop.is_set() {
            break;
        }
        if context.verbose {
            eprintln!("{}: {}", question.reach, question.query);
        }
        ask_all(question, options.rounds, &mut servers, context, findings);
    }
    add_history_table(&servers, &history, findings);
    for is_range in [false, true] {
        tell(&questions, is_range, &servers, findings);
    }
    Ok(())
}

fn load<'a>(peer: Peer, history: &mut History, context: &'a Context) -> Result<Asked<'a>> {
    eprintln!("{}: {} samples of history", peer.name(), history.writes.samples);
    let server = Server::start_configured(peer, if peer.is_gnudi() { CONFIGURATION } else { "" }, context)?;
    if peer.is_gnudi() {
        let definition = [(60, 90 * DAY as usize), (3_600, 2 * 365 * 24)];
        let raw_seconds = (history.days as usize + 2) * 24 * 3_600;
        let policy = setup::with_raw(raw_seconds, setup::policy(POLICY, &definition));
        setup::create_policy(&server, &policy)?;
    }
    let samples = history.writes.samples;
    let work = process::until_processed(&server, history.writes.to(&server), 1, samples)?;
    ensure!(!context.stop.is_set(), "cut short");
    let before = Footprint::take(&server);
    Ok(Asked { server, loaded: work.elapsed, before, medians: Vec::new() })
}

/// Sends the query to all servers, and compares the responses with Prometheus', or with the first one.
fn ask_all(
    question: &Question,
    rounds: usize,
    servers: &mut [Asked],
    context: &Context,
    findings: &mut Findings,
) {
    let answers: Vec<Result<(Answer, f64)>> =
        servers.iter().map(|asked| measure(question, rounds, &asked.server)).collect();
    let peers = servers.iter().map(|asked| asked.server.peer);
    let answered = peers.zip(&answers).filter_map(|(peer, answer)| Some((peer, &answer.as_ref().ok()?.0)));
    let oracle = answered.min_by_key(|(peer, _)| *peer != Peer::Prometheus);
    for (asked, answer) in servers.iter_mut().zip(&answers) {
        let peer = asked.server.peer;
        let checked = answer.as_ref().map_err(|error| format!("{error:#}")).and_then(|(answer, seconds)| {
            let (oracle, expected) = oracle.expect("there is an answer");
            let of_rates = [peer, oracle].contains(&Peer::VictoriaMetrics);
            let agreement = if of_rates { question.agreement_of_rates } else { Agreement::Exact };
            answer.check(expected, agreement).map_err(|error| format!("differs: {error:#}"))?;
            Ok(*seconds)
        });
        if let (Err(error), false) = (&checked, context.stop.is_set()) {
            findings.note_failure(format!("{}: {}: {error}", peer.name(), question.query));
        }
        asked.medians.push(checked.ok());
    }
}

/// The response, and the median time in seconds. The first execution counts only if it is the only one.
fn measure(question: &Question, rounds: usize, server: &Server) -> Result<(Answer, f64)> {
    let (answer, first) = ask(server, &question.path)?;
    ensure!(answer.series() > 0, "nothing was answered");
    let requests = get(server, &question.path);
    let (mut taken, mut spent) = (Vec::new(), first);
    while taken.len() < rounds && spent < ROUNDS_MAX {
        let outcome = server.load(&requests, 1, Until::Count(1)).run();
        setup::check(&outcome)?;
        ensure!(outcome.calls == 1, "cut short");
        spent += outcome.elapsed;
        taken.push(outcome.elapsed.as_secs_f64());
    }
    let median = Spread::of(taken).map_or(first.as_secs_f64(), |spread| spread.median);
    Ok((answer, median))
}

fn add_history_table(servers: &[Asked], history: &History, findings: &mut Findings) {
    let History { series, days, writes, .. } = history;
    let samples = writes.samples;
    let after = |asked: &Asked| Footprint::take(&asked.server);
    let after: Vec<(&Asked, Footprint)> = servers.iter().map(|asked| (asked, after(asked))).collect();
    let mut sheet = Sheet::<(&Asked, Footprint)>::new();
    sheet.text("server", |(asked, _)| asked.server.peer.name().to_owned());
    sheet.value("written in", |(asked, _)| Value::seconds(asked.loaded));
    sheet.value("memory", |(asked, _)| Value::bytes(asked.before.memory_bytes));
    sheet
        .value("memory after the queries", |(_, after)| Value::bytes(after.memory_bytes))
        .figure("memory after queries");
    add_disk(&mut sheet, samples, "disk of the history", |(_, after)| Some(*after));
    for row in &after {
        let name = row.0.server.peer.name();
        sheet.add_figures(row, name, findings);
        if row.0.before.is_busy {
            findings.note(format!(
                "{name}: still busy with the history when it was asked: its queries are slower than they could be"
            ));
        }
    }
    let title = format!(
        "The history that is queried: {series} series, {samples} samples, by one connection. 100 series have a sample a minute for \
         {days} days, the others for a day and before that one of {SPARSE_MINUTES} minutes"
    );
    findings.tables.push(sheet.table(title, &after, |_| None));
    findings.note(
        "queries: medians; answers are those of Prometheus to 1e-9. VictoriaMetrics' rates take the sample before the window and are not \
         extrapolated: of these the series, the times and the sum (to 5 %) are compared. It is asked with nocache=1. gnudi's policy keeps raw \
         points for all of the time",
    );
}

/// A line per query, and the number of queries in which gnudi is ahead.
fn tell(questions: &[Question], is_range: bool, servers: &[Asked], findings: &mut Findings) {
    let questions = questions.iter().enumerate().filter(|(_, question)| question.is_range == is_range);
    let rows: Vec<(usize, &Question)> = questions.collect();
    let gnudi = servers.iter().find(|asked| asked.server.peer == Peer::Gnudi);
    let median = |asked: &Asked, place: usize| asked.medians.get(place).copied().flatten();
    let advantage = |asked: &Asked, place: usize| Some(median(asked, place)? / median(gnudi?, place)?);
    let mut sheet = Sheet::<(usize, &Question)>::new();
    sheet.text("query", |(_, question)| question.operation.to_owned());
    sheet.text("series", |(_, question)| question.series.to_string());
    sheet.text("time", |(_, question)| question.reach.clone());
    for asked in servers {
        sheet.value(asked.server.peer.name(), move |(place, _)| median(asked, *place).map(Value::Latency));
        if asked.server.peer != Peer::Gnudi {
            sheet.value("gnudi is", move |(place, _)| advantage(asked, *place).map(times).map(Value::Text));
        }
    }
    let form = if is_range { "Range" } else { "Instant" };
    findings.tables.push(sheet.table(format!("{form} queries"), &rows, |_| None));
    for asked in servers.iter().filter(|asked| asked.server.peer != Peer::Gnudi) {
        let ratios: Vec<f64> = rows.iter().filter_map(|(place, _)| advantage(asked, *place)).collect();
        let Some(Spread { least, median, greatest }) = Spread::of(ratios.iter().copied()) else { continue };
        let at_least = |times: f64| ratios.iter().filter(|ratio| **ratio >= times).count();
        let peer = asked.server.peer.name();
        findings.note(format!(
            "{form} queries against {peer}: gnudi is at least twice as fast in {} of {}, at least as fast in {}; {} to {} times, {} at \
             the median",
            at_least(2.0),
            ratios.len(),
            at_least(1.0),
            short(least),
            short(greatest),
            short(median)
        ));
        let name = format!("{} queries, gnudi to {peer}", form.to_lowercase());
        findings.compare(name, Value::Percent(100.0 * median));
    }
}
