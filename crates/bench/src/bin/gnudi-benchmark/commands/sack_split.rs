//! `gnudi-benchmark sack-split`: latencies of clients while gnudi's sacks are split.
//!
//! gnudi runs on shared engines, started as for `engines`; `gnudi split-sacks` doubles the number of sacks while
//! measures are posted. Afterwards every measure is counted: none may be lost or duplicated.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use gnudi_model::MetricId;

use super::{seconds, within};
use crate::{
    body::{START_MS, Span},
    context::{Context, Stop},
    findings::{Axis, Findings, Line, Mark, Plot, Table, Value},
    load::{Call, Keep, Load, Order, Outcome, Requests, Until},
    peers::{
        Peer, Server,
        child::{Guarded, Signal},
        engines::Engine,
        program,
    },
    rows::{push::grid, setup},
};

/// Double gnudi's sacks while measures are posted.
#[derive(Clone, Debug, Args)]
pub struct SackSplitOptions {
    /// Engine for incoming measures and aggregates.
    #[arg(long, value_enum, default_value_t = Engine::Redis)]
    engine: Engine,
    /// Seconds before the split.
    #[arg(long, value_name = "N", default_value = "10", value_parser = seconds(1..=3600))]
    seconds: Duration,
    /// Seconds to continue after the old sacks are empty.
    #[arg(long, value_name = "N", default_value = "5", value_parser = seconds(1..=3600))]
    after: Duration,
    /// Number of doublings.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within(1..=8))]
    splits: usize,
    /// Connections that post, one measure per call.
    #[arg(short = 'w', long, value_name = "N", default_value_t = 4, value_parser = within(1..=64))]
    connections: usize,
}

/// A multiple of any number of connections that is a power of two.
const METRICS: usize = 512;
/// Maximum measures per metric.
const STEPS: usize = 4_000;
const STEP_MS: i64 = 1_000;
/// Kept by the minute for as long as there are steps.
const POLICY: &str = "gnudi-bench-split";
/// Time limit of a split, including draining.
const SPLIT_MAX: Duration = Duration::from_mins(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The published split of a placement group.
const AIM: &str = "aim: no request over 50 ms, where Ceph stalls for 10 to 16 s";

/// Of a plot.
const BUCKETS_MAX: f64 = 400.0;
const BUCKET_MIN_S: f64 = 0.25;

/// Start and end of a split, in seconds since the clients began.
#[derive(Clone, Copy, Debug)]
struct Moment {
    begin_s: f64,
    settled_s: f64,
}

pub fn run(options: &SackSplitOptions, context: &Context) -> Result<Findings> {
    let mut findings = Findings::new("clients post measures while the count of sacks is doubled");
    let (calls, moments) = measure(options, context, &mut findings)?;
    let first = moments.first().map_or(0.0, |moment| moment.begin_s);
    let [latency, rate] = lines(["longest post", "posts"], &calls, first);
    let marks = |moment: &Moment| {
        [Mark::new(moment.begin_s - first, "split"), Mark::new(moment.settled_s - first, "settled")]
    };
    for (title, y, line) in [
        ("The longest call under way, with the split at 0", Axis::logarithmic("milliseconds"), latency),
        ("Posts to gnudi", Axis::linear("posts/s"), rate),
    ] {
        let plot = Plot::new(title, Axis::linear("seconds"), y, vec![line]);
        findings.plots.push(Plot { marks: moments.iter().flat_map(marks).collect(), ..plot });
    }
    let headings =
        "| longest before | longest from the split on | until settled | calls/s before | calls/s meanwhile";
    let rows = [row("gnudi, sacks doubled", &calls, &moments)];
    findings.tables.push(Table::new("Split under load", headings, rows));
    findings.note(AIM);
    Ok(findings)
}

/// Posts to a gnudi during the splits, and counts the measures afterwards.
fn measure(
    options: &SackSplitOptions,
    context: &Context,
    findings: &mut Findings,
) -> Result<(Vec<Call>, Vec<Moment>)> {
    let server = Server::start_on(options.engine, Peer::Gnudi, context)?;
    setup::create_policy(&server, &setup::policy(POLICY, &[(60, STEPS)]))?;
    let (metrics, _) = setup::create_metrics(&server, POLICY, METRICS)?;
    let requests = requests(&server, &metrics);
    let mut moments = Vec::new();
    let (outcome, carried_out) = post(options, &server, &requests, &mut moments);
    carried_out?;
    setup::check(&outcome)?;
    ensure!(
        outcome.calls < requests.distinct(),
        "the server is too fast: measures came twice; give fewer --seconds"
    );
    setup::wait_backlog(&server)?;
    let client = server.client()?;
    let counts = metrics.iter().map(|metric| setup::measures_by_minute(&server, &client, *metric));
    let found: f64 = counts.sum::<Result<f64>>()?;
    let lost = outcome.calls as f64 - found;
    findings.tell("measures posted", Value::Count(outcome.calls));
    findings.tell("measures lost", Value::Text(format!("{lost}")));
    ensure!(lost == 0.0, "{} measures were acknowledged, {found} are in the aggregates", outcome.calls);
    findings.tell("refused for now", Value::Count(outcome.refused));
    let begin = moments.first().map_or(f64::MAX, |moment: &Moment| moment.begin_s);
    for (name, from, to) in [("longest stall", begin, f64::MAX), ("longest call before", 0.0, begin)] {
        if let Some(longest) = longest_s(&outcome.timeline, from, to) {
            findings.compare(name, Value::Seconds(longest));
        }
    }
    Ok((outcome.timeline, moments))
}

/// One measure of each metric in turn, each a second after the metric's previous one.
fn requests(server: &Server, metrics: &[MetricId]) -> Requests {
    let span = |step| Span { start_ms: START_MS + step as i64 * STEP_MS, step_ms: STEP_MS, count: 1 };
    grid(server, metrics, (0..STEPS).map(span), Span::write_gnocchi)
}

fn post(
    options: &SackSplitOptions,
    server: &Server,
    requests: &Requests,
    moments: &mut Vec<Moment>,
) -> (Outcome, Result<()>) {
    let end = Stop::default();
    let load = Load {
        connections: options.connections,
        // The measures of a metric are posted in order.
        order: Order::Lanes,
        keep: Keep::Calls,
        ..Load::new(server.address, requests, Until::Elapsed(Duration::MAX / 4), &end)
    };
    std::thread::scope(|scope| {
        let start = Instant::now();
        let posting = scope.spawn(|| load.run());
        let cut = || server.context.stop.is_set() || posting.is_finished();
        let pause = |time: Duration| {
            let begin = Instant::now();
            while begin.elapsed() < time && !cut() {
                std::thread::sleep(time.saturating_sub(begin.elapsed()).min(POLL_INTERVAL));
            }
        };
        let outcome = (0..options.splits).try_for_each(|_| {
            pause(options.seconds);
            if !cut() {
                let begin_s = start.elapsed().as_secs_f64();
                split_sacks(server, &cut)?;
                moments.push(Moment { begin_s, settled_s: start.elapsed().as_secs_f64() });
            }
            Ok(())
        });
        if outcome.is_ok() {
            pause(options.after);
        }
        end.set();
        (posting.join().expect("the load does not panic"), outcome)
    })
}

/// Runs `gnudi split-sacks`, which exits when the old sacks are empty.
fn split_sacks(server: &Server, cut: &dyn Fn() -> bool) -> Result<()> {
    let context = server.context;
    let configuration = server.configuration().context("the server runs here")?;
    let mut command = Command::new(program(&context.programs)?);
    let command = command.arg("split-sacks").arg("--config-file").arg(&configuration);
    let log = configuration.with_file_name("split-sacks.log");
    let mut process = Guarded::start(command, &log, Signal::TERM, &context.leftovers)?;
    let begin = Instant::now();
    match process.wait_end(|| cut() || begin.elapsed() > SPLIT_MAX)? {
        Some(status) if !status.success() => {
            bail!("gnudi split-sacks ended with {status}: {}", process.log_end())
        }
        None if !cut() => bail!("gnudi split-sacks has not ended after {} s", SPLIT_MAX.as_secs()),
        _ => Ok(()),
    }
}

/// The longest call in progress, in milliseconds, and the calls completed per second, by time since `origin_s`.
fn lines(names: [&str; 2], calls: &[Call], origin_s: f64) -> [Line; 2] {
    let end_s = calls.iter().map(|call| call.begin_s + call.latency_s).fold(0.0, f64::max);
    let width_s = (end_s / BUCKETS_MAX).max(BUCKET_MIN_S);
    let mut buckets = vec![(0.0_f64, 0_u64); (end_s / width_s).ceil() as usize];
    let bucket_of = |at_s: f64| (at_s / width_s) as usize;
    for call in calls {
        let (first, last) = (bucket_of(call.begin_s), bucket_of(call.begin_s + call.latency_s));
        // A stall is visible for its whole duration.
        for bucket in buckets.iter_mut().take(last + 1).skip(first) {
            bucket.0 = bucket.0.max(call.latency_s);
        }
        if let Some(bucket) = buckets.get_mut(last) {
            bucket.1 += 1;
        }
    }
    let line = |name: &str, value: &dyn Fn(&(f64, u64)) -> f64| {
        let buckets = buckets.iter().enumerate();
        Line::new(name, buckets.map(|(number, bucket)| (number as f64 * width_s - origin_s, value(bucket))))
    };
    [line(names[0], &|bucket| bucket.0 * 1e3), line(names[1], &|bucket| bucket.1 as f64 / width_s)]
}

fn longest_s(calls: &[Call], begin_s: f64, end_s: f64) -> Option<f64> {
    let within = calls.iter().filter(|call| call.begin_s >= begin_s && call.begin_s < end_s);
    within.map(|call| call.latency_s).reduce(f64::max)
}

fn row(name: &str, calls: &[Call], moments: &[Moment]) -> Vec<String> {
    let begin = moments.first().map_or(f64::INFINITY, |moment| moment.begin_s);
    let settled = moments.last().map_or(f64::INFINITY, |moment| moment.settled_s);
    let ms = |time: Option<f64>| time.map_or_else(String::new, |time| format!("{:.1} ms", time * 1e3));
    // Empty where there was no split.
    let rate = |begin: f64, end: f64| {
        let ended = |call: &&Call| (begin..end).contains(&(call.begin_s + call.latency_s));
        let rate = calls.iter().filter(ended).count() as f64 / (end - begin);
        if end.is_finite() { format!("{rate:.0}") } else { String::new() }
    };
    let until_settled = moments.iter().map(|moment| format!("{:.2} s", moment.settled_s - moment.begin_s));
    vec![
        name.to_owned(),
        ms(longest_s(calls, 0.0, begin)),
        ms(longest_s(calls, begin, f64::MAX)),
        until_settled.collect::<Vec<_>>().join(", "),
        rate(0.0, begin),
        rate(begin, settled),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_the_longest_before_and_from_the_split_on() {
        let calls = [(0.0, 0.001), (1.0, 0.004), (2.1, 0.03), (9.0, 0.002)];
        let calls = calls.map(|(begin_s, latency_s)| Call { begin_s, latency_s });
        let moments = [Moment { begin_s: 2.0, settled_s: 4.0 }];
        assert_eq!(row("x", &calls, &moments), ["x", "4.0 ms", "30.0 ms", "2.00 s", "1", "0"]);
        assert_eq!(row("x", &calls, &[])[1..], ["30.0 ms", "", "", "", ""]);
    }

    #[test]
    fn a_stall_shows_as_long_as_it_lasts() {
        let calls = [(0.0, 0.1), (0.5, 3.0), (4.0, 0.1)];
        let calls = calls.map(|(begin_s, latency_s)| Call { begin_s, latency_s });
        let [latency, rate] = lines(["latency", "rate"], &calls, 1.0);
        let at = |line: &Line, x: f64| line.points.iter().take_while(|point| point.0 <= x).last().unwrap().1;
        // From -0.5 to 2.5 s after the origin.
        for x in [-0.25, 1.0, 2.25] {
            assert_eq!(at(&latency, x), 3000.0, "at {x} s");
        }
        assert_eq!(at(&latency, 2.8), 0.0);
        assert_eq!(at(&latency, 3.1), 100.0);
        assert_eq!((at(&rate, 1.0), at(&rate, 2.5)), (0.0, 4.0));
        assert_eq!(longest_s(&calls, 0.0, 0.5), Some(0.1));
        assert_eq!(longest_s(&calls, 0.5, 5.0), Some(3.0));
        assert_eq!(longest_s(&calls, 5.0, 9.0), None);
    }

    #[test]
    fn no_measure_is_posted_twice() {
        let context = Context::of_tests();
        let server = Server::nowhere(Peer::Gnudi, &context);
        let requests = requests(&server, &[MetricId(uuid::Uuid::nil()), MetricId(uuid::Uuid::max())]);
        assert_eq!(requests.distinct(), 2 * STEPS as u64);
        let texts: std::collections::HashSet<Vec<u8>> =
            (0..20).map(|index| requests.parts(index).concat()).collect();
        assert_eq!(texts.len(), 20);
    }
}
