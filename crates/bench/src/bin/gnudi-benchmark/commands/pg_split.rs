//! `gnudi-benchmark pg-split`: what a client of Ceph feels while a placement group is split and moved.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::{
    context::Context,
    findings::{Axis, Better, Findings, Mark, Plot, Table, Value},
    peers::ceph::CephOptions,
    rados::split::{self, Moments, Plan, Timeline},
    timeline::{self, Call},
};

/// Split and move a placement group of Ceph while a client creates objects in it, one at a time.
///
/// A cluster with two OSDs on the memory store is started for each setup, and removed after it.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How long the client creates objects before the split; several setups are done in turn (published: 120,300,600,1200).
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "30", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub seconds: Vec<u64>,
    /// Seconds between the end of the split and the move [default: a sixth of the setup, at least 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub between: Option<u64>,
    /// Seconds to go on after the move [default: a quarter of the setup, at least 20].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub after: Option<u64>,
    #[command(flatten)]
    pub ceph: CephOptions,
}

const SECONDS_MAX: u64 = 3600;
/// The states are looked at four times a second: what is seen to end may have ended a little before.
const LOOK_MARGIN_S: f64 = 1.0;
/// The published table: the setup's seconds; objects, delays of pg and pgp, shuffle, delay after it.
const PUBLISHED: [(u64, [&str; 5]); 4] = [
    (120, ["95K", "1 s", "12 s", "27 s", "1 s"]),
    (300, ["250K", "1 s", "14 s", "86 s", "16 s"]),
    (600, ["512K", "2 s", "11 s", "195 s", "1 s"]),
    (1200, ["975K", "4 s", "12 s", "380 s", "1 s"]),
];

impl Options {
    fn plan(&self, setup_s: u64) -> Plan {
        Plan {
            setup: Duration::from_secs(setup_s),
            between: Duration::from_secs(self.between.unwrap_or((setup_s / 6).max(10))),
            after: Duration::from_secs(self.after.unwrap_or((setup_s / 4).max(20))),
        }
    }
}

pub fn run(options: &Options, context: &mut Context) -> Result<Findings> {
    let title = "one client creates objects, one at a time, while their placement group is split and moved";
    let mut findings = Findings::new("pg-split", title);
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
        let results = Results::of(&timeline);
        tell(&mut findings, setup_s, &results);
        findings.plots.extend(plots(&format!("{setup_s} s of setup"), &timeline));
        columns.push((format!("{setup_s} s"), results.cells()));
        if let Some((_, cells)) = PUBLISHED.iter().find(|(published_s, _)| *published_s == setup_s) {
            let unknown = ["", ""].into_iter();
            columns.push((
                format!("{setup_s} s, published"),
                cells.iter().copied().chain(unknown).map(str::to_owned).collect(),
            ));
        }
    }
    findings.tables.push(table(columns));
    if findings.partial.is_none() && context.stop.is_set() {
        findings.partial = Some("stopped before its time".to_owned());
    }
    Ok(findings)
}

/// One setup's row of results; `None` where the run was cut before.
#[derive(Debug, Default, PartialEq)]
struct Results {
    objects: usize,
    pg_delay_s: Option<f64>,
    pgp_delay_s: Option<f64>,
    shuffle_s: Option<f64>,
    after_delay_s: Option<f64>,
    rate_before: Option<f64>,
    rate_shuffle: Option<f64>,
}

impl Results {
    /// A create belongs to the phase in which it began.
    fn of(timeline: &Timeline) -> Self {
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
        let copied_to = copy_end.or(clean).map(|copied| copied - LOOK_MARGIN_S);
        Results {
            objects: creates.iter().filter(ended).count(),
            pg_delay_s: pg_num.and_then(|begin| longest(begin, pgp_num.unwrap_or(end))),
            pgp_delay_s: pgp_num.and_then(|begin| longest(begin, copy_begin.or(clean).unwrap_or(end))),
            shuffle_s: pgp_num.zip(clean).map(|(begin, end)| end - begin),
            after_delay_s: copied_to.zip(clean).and_then(|(begin, _)| longest(begin, end)),
            rate_before: rate(0.0, setup_end),
            rate_shuffle: copy_begin.or(pgp_num).zip(copied_to).and_then(|(begin, end)| rate(begin, end)),
        }
    }

    fn cells(&self) -> Vec<String> {
        let seconds = |time: Option<f64>| time.map_or_else(String::new, |time| format!("{time:.2} s"));
        let rate = |rate: Option<f64>| rate.map_or_else(String::new, |rate| format!("{rate:.0}/s"));
        vec![
            self.objects.to_string(),
            seconds(self.pg_delay_s),
            seconds(self.pgp_delay_s),
            seconds(self.shuffle_s),
            seconds(self.after_delay_s),
            rate(self.rate_before),
            rate(self.rate_shuffle),
        ]
    }
}

fn tell(findings: &mut Findings, setup_s: u64, results: &Results) {
    let of = |what: &str| format!("{what} ({setup_s} s)");
    findings.tell(of("objects at the split"), Value::Count(results.objects as u64));
    for (name, time) in [
        ("longest stall after pg_num", results.pg_delay_s),
        ("longest stall after pgp_num", results.pgp_delay_s),
        ("shuffle, until active+clean", results.shuffle_s),
        ("longest stall after the shuffle", results.after_delay_s),
    ] {
        if let Some(time) = time {
            findings.compare(of(name), Value::Seconds(time), Better::Lower);
        }
    }
    for (name, rate) in
        [("creates before", results.rate_before), ("creates during the shuffle", results.rate_shuffle)]
    {
        if let Some(rate) = rate {
            findings.compare(of(name), Value::Rate(rate, "create"), Better::Higher);
        }
    }
}

/// The published table's rows, a column for each setup.
fn table(columns: Vec<(String, Vec<String>)>) -> Table {
    let names = [
        "objects at the split",
        "longest stall after pg_num",
        "longest stall after pgp_num",
        "shuffle, until active+clean",
        "longest stall after the shuffle",
        "creates before",
        "creates during the shuffle",
    ];
    let mut rows: Vec<Vec<String>> = names.iter().map(|name| vec![(*name).to_owned()]).collect();
    let mut headings = vec!["setup".to_owned()];
    for (heading, cells) in columns {
        headings.push(heading);
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }
    Table { title: "A placement group is split and moved".to_owned(), headings, rows }
}

/// The client's latency and rate over time.
fn plots(setup: &str, timeline: &Timeline) -> [Plot; 2] {
    let Timeline { creates, moments, .. } = timeline;
    let [latency, rate] = timeline::lines(["longest create", "creates"], creates, moments.end, 0.0);
    let marks = marks(moments);
    [
        Plot {
            title: format!("The longest create under way, {setup}"),
            x: Axis::linear("seconds"),
            y: Axis::logarithmic("milliseconds"),
            lines: vec![latency],
            marks: marks.clone(),
        },
        Plot {
            title: format!("Creates, {setup}"),
            x: Axis::linear("seconds"),
            y: Axis::linear("creates/s"),
            lines: vec![rate],
            marks,
        },
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
    moments.into_iter().filter_map(|(at, label)| Some(Mark { x: at?, label: label.to_owned() })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten creates a second, but for a stall of 1.5 s from 31 s on, one of 3 s from 52 s on and one of 2 s from 71 s on.
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
        let results = Results::of(&timeline());
        assert!((299..=301).contains(&results.objects), "{}", results.objects);
        assert_eq!(results.pg_delay_s, Some(1.5));
        assert_eq!(results.pgp_delay_s, Some(3.0));
        assert_eq!(results.shuffle_s, Some(22.0));
        assert_eq!(results.after_delay_s, Some(2.0));
        let near = |found: Option<f64>, rate: f64| assert!((found.unwrap() - rate).abs() < 0.3, "{found:?}");
        near(results.rate_before, 10.0);
        near(results.rate_shuffle, 10.0);
    }

    #[test]
    fn a_run_that_was_cut_tells_what_it_has() {
        let mut timeline = timeline();
        timeline.moments = Moments { pg_num: Some(30.0), end: 40.0, ..Moments::default() };
        timeline.creates.retain(|create| create.begin_s < 40.0);
        let results = Results::of(&timeline);
        assert_eq!(results.pg_delay_s, Some(1.5));
        assert_eq!(results.pgp_delay_s, None);
        assert_eq!(results.shuffle_s, None);
        assert_eq!(results.after_delay_s, None);
        assert_eq!(results.cells().len(), 7);
    }

    #[test]
    fn a_stall_shows_as_long_as_it_lasts() {
        let [latency, rate] = plots("30 s", &timeline());
        let at = |plot: &Plot, x: f64| {
            let points = plot.lines[0].points.iter();
            points.take_while(|point| point.0 <= x).last().unwrap().1
        };
        for x in [52.25, 53.5, 54.75] {
            assert_eq!(at(&latency, x), 3000.0, "at {x} s");
        }
        assert_eq!(at(&latency, 20.0), 100.0);
        assert_eq!(at(&rate, 53.5), 0.0);
        assert_eq!(latency.marks.len(), 5);
    }
}
