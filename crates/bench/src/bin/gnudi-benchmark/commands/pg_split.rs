//! `gnudi-benchmark pg-split`: latencies of a Ceph client while a placement group is split and moved.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::{
    context::Context,
    findings::{Axis, Findings, Line, Mark, Plot, Table, Value},
    peers::ceph::CephOptions,
    rados::split::{self, Moments, Plan, Timeline},
    table,
    timeline::{self, Call},
};

/// Split and move a placement group of Ceph while a client creates objects in it, one at a time.
///
/// For each setup a cluster with two OSDs on the memory store is started, and removed afterwards.
#[derive(Clone, Debug, Args)]
pub struct PgSplitOptions {
    /// Seconds of creating objects before the split; several setups run in order (published: 120,300,600,1200).
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "30", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub seconds: Vec<u64>,
    /// Seconds between the end of the split and the move [default: a sixth of the setup, at least 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub between: Option<u64>,
    /// Seconds to continue after the move [default: a quarter of the setup, at least 20].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub after: Option<u64>,
    #[command(flatten)]
    pub ceph: CephOptions,
}

const SECONDS_MAX: u64 = 3600;
/// States are polled four times a second: an observed end may be slightly older.
const POLL_MARGIN_S: f64 = 1.0;
/// The published table: seconds of setup; objects, delays of pg and pgp, shuffle, delay after it.
const PUBLISHED: [(u64, [&str; 5]); 4] = [
    (120, ["95K", "1 s", "12 s", "27 s", "1 s"]),
    (300, ["250K", "1 s", "14 s", "86 s", "16 s"]),
    (600, ["512K", "2 s", "11 s", "195 s", "1 s"]),
    (1200, ["975K", "4 s", "12 s", "380 s", "1 s"]),
];

impl PgSplitOptions {
    fn plan(&self, setup_s: u64) -> Plan {
        Plan {
            setup: Duration::from_secs(setup_s),
            between: Duration::from_secs(self.between.unwrap_or((setup_s / 6).max(10))),
            after: Duration::from_secs(self.after.unwrap_or((setup_s / 4).max(20))),
        }
    }
}

pub fn run(options: &PgSplitOptions, context: &Context) -> Result<Findings> {
    let mut findings = Findings::new(
        "one client creates objects, one at a time, while their placement group is split and moved",
    );
    let mut columns = Vec::new();
    for &setup_s in &options.seconds {
        if context.stop.is_set() || findings.partial.is_some() {
            break;
        }
        let timeline = match split::run(&options.ceph, &options.plan(setup_s), context) {
            Ok(timeline) => timeline,
            Err(error) if columns.is_empty() => return Err(error),
            Err(error) => {
                findings.partial = Some(format!("setup of {setup_s} s: {error:#}"));
                break;
            }
        };
        findings.partial =
            timeline.failure.as_ref().map(|failure| format!("setup of {setup_s} s: {failure}"));
        let results = results(&timeline);
        columns.push((format!("{setup_s} s"), results.iter().map(|value| cell(value.as_ref())).collect()));
        tell(&mut findings, setup_s, results);
        findings.plots.extend(plots(&format!("{setup_s} s of setup"), &timeline));
        if let Some((_, cells)) = PUBLISHED.iter().find(|(published_s, _)| *published_s == setup_s) {
            let cells = cells.iter().copied().chain(["", ""]).map(str::to_owned);
            columns.push((format!("{setup_s} s, published"), cells.collect()));
        }
    }
    findings.tables.push(setups_table(columns));
    Ok(findings)
}

/// The results of a setup, in the order of the published table.
const NAMES: [&str; 7] = [
    "objects at the split",
    "longest stall after pg_num",
    "longest stall after pgp_num",
    "shuffle, until active+clean",
    "longest stall after the shuffle",
    "creates before",
    "creates during the shuffle",
];

/// `None` if the run was stopped before.
type Results = [Option<Value>; NAMES.len()];

/// A create belongs to the phase in which it began.
fn results(timeline: &Timeline) -> Results {
    let Timeline { creates, moments, .. } = timeline;
    let Moments { pg_num, pgp_num, copy_begin, copy_end, clean, end, .. } = *moments;
    let between = |begin: f64, end: f64| {
        creates.iter().filter(move |create| create.begin_s >= begin && create.begin_s < end)
    };
    let longest = |begin: f64, end: f64| timeline::longest_s(creates, begin, end);
    let rate =
        |begin: f64, end: f64| (end > begin).then(|| between(begin, end).count() as f64 / (end - begin));
    let setup_end = pg_num.unwrap_or(end);
    let ended = |create: &&Call| create.begin_s + create.latency_s < setup_end;
    let copied_to = copy_end.or(clean).map(|copied| copied - POLL_MARGIN_S);
    let pg_delay = pg_num.and_then(|begin| longest(begin, pgp_num.unwrap_or(end)));
    let pgp_delay = pgp_num.and_then(|begin| longest(begin, copy_begin.or(clean).unwrap_or(end)));
    let shuffle = pgp_num.zip(clean).map(|(begin, end)| end - begin);
    let after_delay = copied_to.zip(clean).and_then(|(begin, _)| longest(begin, end));
    let rate_shuffle = copy_begin.or(pgp_num).zip(copied_to).and_then(|(begin, end)| rate(begin, end));
    let of_rate = |rate: f64| Value::rate(rate, "create");
    [
        Some(Value::Count(creates.iter().filter(ended).count() as u64)),
        pg_delay.map(Value::Seconds),
        pgp_delay.map(Value::Seconds),
        shuffle.map(Value::Seconds),
        after_delay.map(Value::Seconds),
        rate(0.0, setup_end).map(of_rate),
        rate_shuffle.map(of_rate),
    ]
}

fn cell(value: Option<&Value>) -> String {
    value.map_or_else(String::new, table::shown)
}

fn tell(findings: &mut Findings, setup_s: u64, results: Results) {
    for (name, value) in NAMES.iter().zip(results) {
        let name = format!("{name} ({setup_s} s)");
        match value {
            Some(count @ Value::Count(_)) => findings.tell(name, count),
            Some(value) => findings.compare(name, value),
            None => {}
        }
    }
}

/// The rows of the published table, with a column per setup.
fn setups_table(columns: Vec<(String, Vec<String>)>) -> Table {
    let rows = NAMES.iter().enumerate().map(|(row, name)| {
        let cells = columns.iter().map(|(_, cells)| cells[row].clone());
        std::iter::once((*name).to_owned()).chain(cells).collect()
    });
    let mut table = Table::new("A placement group is split and moved", "setup", rows.collect::<Vec<_>>());
    table.headings.extend(columns.into_iter().map(|(heading, _)| heading));
    table
}

/// The client's latency and rate over time.
fn plots(setup: &str, timeline: &Timeline) -> [Plot; 2] {
    let Timeline { creates, moments, .. } = timeline;
    let [latency, rate] = timeline::lines(["longest create", "creates"], creates, moments.end, 0.0);
    let plot = |title: String, y: Axis, line: Line| {
        Plot::new(title, Axis::linear("seconds"), y, vec![line]).marked(marks(moments))
    };
    let milliseconds = Axis::logarithmic("milliseconds");
    [
        plot(format!("The longest create under way, {setup}"), milliseconds, latency),
        plot(format!("Creates, {setup}"), Axis::linear("creates/s"), rate),
    ]
}

fn marks(moments: &Moments) -> Vec<Mark> {
    let moments = [
        (moments.pg_num, "pg_num 2"),
        (moments.split, "split"),
        (moments.pgp_num, "pgp_num 2"),
        (moments.copy_begin, "copying"),
        (moments.clean, "active+clean"),
    ];
    moments.into_iter().filter_map(|(at, label)| Some(Mark::new(at?, label))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten creates a second, except a stall of 1.5 s from 31 s on, one of 3 s from 52 s on and one of 2 s from 71 s on.
    fn timeline() -> Timeline {
        let mut creates = Vec::new();
        let mut begin_s = 0.0;
        while begin_s < 100.0 {
            let stall = [(31.0_f64, 1.5), (52.0, 3.0), (71.0, 2.0)]
                .into_iter()
                .find(|(at, _)| (begin_s - at).abs() < 0.05);
            let latency_s = stall.map_or(0.1, |(_, latency_s)| latency_s);
            creates.push(Call { begin_s, latency_s });
            begin_s += latency_s;
        }
        let moments = Moments {
            pg_num: Some(30.0),
            split: Some(33.0),
            pgp_num: Some(50.0),
            copy_begin: Some(56.0),
            copy_end: Some(71.5),
            clean: Some(72.0),
            end: 100.0,
        };
        Timeline { creates, moments, failure: None }
    }

    #[test]
    fn each_stall_belongs_to_its_phase() {
        let [objects, pg, pgp, shuffle, after, before, during] = results(&timeline()).map(Option::unwrap);
        assert!((299.0..=301.0).contains(&objects.number().unwrap()), "{objects:?}");
        assert_eq!([pg, pgp, shuffle, after], [1.5, 3.0, 22.0, 2.0].map(Value::Seconds));
        for rate in [before, during] {
            assert!((rate.number().unwrap() - 10.0).abs() < 0.3, "{rate:?}");
        }
    }

    #[test]
    fn a_run_that_was_cut_tells_what_it_has() {
        let mut timeline = timeline();
        timeline.moments = Moments { pg_num: Some(30.0), end: 40.0, ..Moments::default() };
        timeline.creates.retain(|create| create.begin_s < 40.0);
        let results = results(&timeline);
        assert_eq!(results[1], Some(Value::Seconds(1.5)));
        assert_eq!(results[2..5], [None, None, None]);
        assert_eq!(cell(results[2].as_ref()), "");
    }
}
