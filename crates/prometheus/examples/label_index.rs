//! Measures the memory and the speed of the label index, with a million series of node exporters or of Ceilometer's
//! meters.
//!
//!     cargo run -p gnudi-prometheus --example label_index [-- SERIES]

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use gnudi_model::MetricId;
use gnudi_prometheus::{
    index::{Condition, Index, NewSeries, Owner},
    labels::MetricLabels,
};
use gnudi_promql::{Limits, parse_selector};
use uuid::Uuid;

const SERIES: u64 = 1_000_000;
/// Series of one machine's exporter, and meters of one virtual machine.
const SERIES_PER_MACHINE: u64 = 1000;
const METERS_PER_INSTANCE: u64 = 20;
const INSTANCES_PER_PROJECT: u64 = 100;

type Labels = BTreeMap<String, String>;

/// Series like those of node-exporter: 250 names per machine, with several devices, or processors and modes, each.
fn exported(number: u64) -> (Owner, Labels) {
    let (machine, series) = (number / SERIES_PER_MACHINE, number % SERIES_PER_MACHINE);
    let mut labels = Labels::from([
        ("__name__".to_owned(), format!("node_figure_{}_total", series % 250)),
        ("instance".to_owned(), format!("compute-{machine:05}.example.org:9100")),
        ("job".to_owned(), "node".to_owned()),
        ("cluster".to_owned(), format!("cluster-{}", machine % 4)),
        ("region".to_owned(), "north".to_owned()),
        ("rack".to_owned(), format!("rack-{}", machine % 50)),
    ]);
    if series % 250 < 20 {
        labels.insert("cpu".to_owned(), (series / 250 + series % 20 * 4).to_string());
        labels.insert(
            "mode".to_owned(),
            ["idle", "user", "system", "iowait"][(series / 250) as usize].to_owned(),
        );
    } else {
        labels.insert("device".to_owned(), format!("device{}", series / 250));
    }
    (Owner { creator: "prometheus".into(), ..Owner::default() }, labels)
}

/// Series like those of Gnocchi's resources of type `instance`.
fn measured(number: u64) -> (Owner, Labels) {
    let (instance, meter) = (number / METERS_PER_INSTANCE, number % METERS_PER_INSTANCE);
    let project = instance / INSTANCES_PER_PROJECT;
    let id = |of: u64, number: u64| {
        Uuid::from_u128((u128::from(of) << 100) | (u128::from(number) * 0x9e37_79b9_7f4a_7c15)).to_string()
    };
    let labels = Labels::from([
        ("__name__".to_owned(), format!("disk.device.figure{meter}")),
        ("unit".to_owned(), ["B", "B/s", "request", "ns"][meter as usize % 4].to_owned()),
        ("resource".to_owned(), id(1, instance)),
        ("resource_id".to_owned(), id(1, instance)),
        ("type".to_owned(), "instance".to_owned()),
        ("project".to_owned(), id(2, project)),
        ("user".to_owned(), id(3, project)),
        ("display_name".to_owned(), format!("vm-{instance}")),
        ("flavor_id".to_owned(), id(4, instance % 30)),
        ("flavor_name".to_owned(), format!("m1.{}", instance % 30)),
        ("host".to_owned(), format!("compute-{}", instance % 500)),
        ("image_ref".to_owned(), id(5, instance % 100)),
        ("server_group".to_owned(), format!("group-{}", project % 10)),
    ]);
    let creator = "ceilometer:service";
    let project = Some(id(2, project).as_str().into());
    (Owner { creator: creator.into(), project, resource_creator: Some(creator.into()) }, labels)
}

/// The resident memory of this process.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number of pages") * 4096
}

fn fill(series: u64, make: fn(u64) -> (Owner, Labels)) -> Index {
    let (before, start) = (resident_bytes(), Instant::now());
    let mut index = Index::default();
    for from in (0..series).step_by(10_000) {
        let made: Vec<(MetricId, Owner, Labels)> = (from..(from + 10_000).min(series))
            .map(|number| {
                let (owner, labels) = make(number);
                (MetricId(Uuid::from_u128(u128::from(number) << 64 | u128::from(number * 7))), owner, labels)
            })
            .collect();
        let new: Vec<NewSeries<'_>> = made
            .iter()
            .map(|(metric, owner, labels)| {
                let pairs = labels.iter().map(|(label, value)| (label.into(), value.into())).collect();
                let labels = MetricLabels { pairs, is_written: true };
                NewSeries { metric: *metric, archive_policy_name: "raw", owner: owner.clone(), labels }
            })
            .collect();
        index.put(&new);
    }
    let bytes = resident_bytes() - before;
    let micros = start.elapsed().as_micros() as f64 / series as f64;
    println!("{series} series: {} bytes each, {micros:.1} us to make and put in", bytes / series);
    index
}

fn measure_query(index: &Index, query: &str, project: Option<&str>) {
    let matchers = parse_selector(query, &Limits::default()).expect("a selector");
    let conditions: Vec<Condition<'_>> = matchers.iter().map(Condition::Matcher).collect();
    let sees = |owner: &Owner| project.is_none_or(|project| owner.project.as_deref() == Some(project));
    let mut found = 0;
    let mut times: Vec<Duration> = (0..9)
        .map(|_| {
            let start = Instant::now();
            found = index.select(&conditions, &sees, usize::MAX, &|| false).expect("no limit").len();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("  {query}: {found} series, {:.2} ms", times[4].as_secs_f64() * 1e3);
}

fn main() {
    let series = std::env::args().nth(1).map_or(SERIES, |series| series.parse().expect("a number"));
    println!("exporters");
    let index = fill(series, exported);
    for query in [
        r#"{instance="compute-00007.example.org:9100"}"#,
        r#"node_figure_100_total{device="device1"}"#,
        r#"node_figure_100_total{device="device1",instance=~"compute-00[0-9]+.*"}"#,
        r#"node_figure_7_total{mode="idle",cluster=~"cluster-(1|2)",rack!="rack-3"}"#,
        r#"{instance=~".*-00007.*"}"#,
        r#"{instance=~"compute-00007.example.org:9100|compute-00008.example.org:9100"}"#,
        r#"{__name__=~"node_figure_1.*",rack="rack-7",cpu=""}"#,
    ] {
        measure_query(&index, query, None);
    }
    drop(index);
    println!("meters, {INSTANCES_PER_PROJECT} machines a project");
    let index = fill(series, measured);
    let project = measured(0).0.project;
    for query in [
        r#"{__name__="disk.device.figure3",host="compute-7"}"#,
        r#"{__name__="disk.device.figure3",host=~"compute-7|compute-8"}"#,
        r#"{__name__="disk.device.figure3",display_name=~"vm-1.*7"}"#,
        r#"{flavor_name="m1.3",__name__=~".*figure7"}"#,
    ] {
        measure_query(&index, query, None);
        measure_query(&index, query, project.as_deref());
    }
}
