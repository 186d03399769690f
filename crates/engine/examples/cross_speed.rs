//! What aggregating across metrics costs: 1,000 metrics, a day by the minute, in the local store.
//!
//! ```text
//! cargo run --release -p gnudi-engine --example cross_speed [metrics] [rounds] [log MiB]
//! ```
//! The store keeps so much in its log before it writes a sorted run; without it all is in the log.
//! Processor time is that of the whole process, all threads.

use std::{sync::Arc, time::Instant};

use gnudi_drivers::{
    aggregates::{
        AggregateStore, BlockKey, Fence, MetricWrite,
        local::{LocalAggregates, LocalAggregatesOptions},
    },
    incoming::memory::MemoryIncoming,
};
use gnudi_engine::{CrossMeasuresQuery, CrossReference, Engine};
use gnudi_indexer::MemoryIndexer;
use gnudi_model::{ArchivePolicy, Measure, MetricId, SackCount, Timespan, Timestamp};
use gnudi_series::{
    cross::Fill,
    head::{Head, Layout},
    operations::{MetricName, Metrics, Operation},
    resample::Resample,
};

const MINUTES: i64 = 1440;
const START_SECONDS: i64 = 1_700_006_400;

/// A metric's passes, one a minute or fewer, as a day leaves them.
fn written(metric: MetricId, number: usize, layout: &Layout, shift: i64) -> MetricWrite {
    let (mut head, mut blocks) = (Head::new(), Vec::new());
    for minute in 0..MINUTES {
        let value = 50.0 + 30.0 * ((minute as f64 + number as f64) * 0.7).sin();
        let timestamp = Timestamp::from_secs(START_SECONDS + (minute + shift) * 60);
        head.fold(layout, minute as u64 + 1, &mut vec![Measure { timestamp, value }]);
        for block in head.take_sealed() {
            let key =
                BlockKey { metric, granularity: block.granularity, first: block.first, last: block.last };
            blocks.push((key, block.bytes.into()));
        }
    }
    MetricWrite { metric, blocks, expired: Vec::new(), head: head.encoded().into() }
}

fn references(metrics: &[MetricId], policy: &Arc<ArchivePolicy>) -> Vec<CrossReference> {
    let reference = |metric: &MetricId| CrossReference {
        metric: *metric,
        policy: policy.clone(),
        shown_name: metric.to_string(),
        name: MetricName { name: metric.to_string(), aggregation: "mean".to_owned() },
    };
    metrics.iter().map(reference).collect()
}

/// User and system time of this process in seconds.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().expect("utime") + fields[12].parse::<f64>().expect("stime");
    ticks / 100.0
}

async fn measure(name: &str, engine: &Engine, query: &CrossMeasuresQuery, rounds: usize) {
    let points = query.references.len() as f64 * MINUTES as f64;
    // The first round warms caches and the allocator up.
    engine.cross_measures(query.clone()).await.expect("an answer");
    let (start, before) = (Instant::now(), processor_seconds());
    let mut answered = 0;
    for _ in 0..rounds {
        let answers = engine.cross_measures(query.clone()).await.expect("an answer");
        answered = answers.iter().flat_map(|answer| &answer.columns).map(|column| column.values.len()).sum();
    }
    let processor = (processor_seconds() - before) / rounds as f64;
    let wall = start.elapsed().as_secs_f64() / rounds as f64;
    println!(
        "{name:44} {answered:9} values  {:7.1} ms  {:6.1} ms of processor time a million points",
        wall * 1e3,
        processor * 1e3 / (points / 1e6),
    );
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let (count, rounds) = (arguments.next().unwrap_or(1000), arguments.next().unwrap_or(20));
    let mut options = LocalAggregatesOptions::default();
    options.recent_bytes_max =
        arguments.next().map_or(options.recent_bytes_max, |mebibytes| (mebibytes as u64) << 20);
    options.segment_bytes = options.segment_bytes.min(options.recent_bytes_max as u32);
    let directory = tempfile::tempdir().expect("a directory");
    let store = LocalAggregates::open(directory.path(), &options).expect("a store");
    let mut policy = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).remove(2);
    policy.definition.truncate(1);
    let (policy, layout) = (Arc::new(policy.clone()), Layout::of(&policy));
    let id =
        |number: usize| MetricId::new(Timestamp::from_secs(START_SECONDS + number as i64), number as u128);
    let metrics: Vec<MetricId> = (0..count).map(id).collect();
    let shifted: Vec<MetricId> = (count..2 * count).map(id).collect();
    let mut bytes = 0;
    for (number, &metric) in metrics.iter().chain(&shifted).enumerate() {
        let shift = if number < count { 0 } else { number as i64 * 7919 % 97 };
        let write = written(metric, number, &layout, shift);
        bytes += write.blocks.iter().map(|(_, block)| block.len()).sum::<usize>() + write.head.len();
        store.write(Fence::EVERYTHING, vec![write]).await.pop().expect("an answer").expect("written");
    }
    println!("{count} metrics, {MINUTES} points each, {} bytes a metric", bytes / metrics.len() / 2);
    let incoming = Arc::new(MemoryIncoming::new(SackCount::DEFAULT, 1 << 20));
    let engine = Engine::new(Arc::new(MemoryIndexer::default()), incoming, store, || Timestamp::EPOCH);
    let query = |metrics: &[MetricId], make: &dyn Fn(Box<Operation>) -> Operation| {
        let references = references(metrics, &policy);
        let names = references.iter().map(|reference| reference.name.clone()).collect();
        CrossMeasuresQuery {
            references,
            operations: Arc::new(make(Box::new(Operation::Metric(Metrics::Many(names))))),
            granularities: None,
            start: None,
            stop: None,
            needed_overlap: 100.0,
            fill: Some(Fill::DropNa),
            may_be_empty: false,
        }
    };
    let aggregate =
        |method: &str, operand| Operation::Aggregate { method: method.parse().expect("a method"), operand };
    let resample = |operand| {
        let to = Resample::Span(Timespan::from_secs(300));
        Box::new(Operation::Resample { method: "mean".parse().expect("a method"), to, operand })
    };
    for (grid, metrics) in [("same times", &metrics), ("shifted", &shifted)] {
        let run = |name: &str, make: &dyn Fn(Box<Operation>) -> Operation| {
            (format!("{grid}: {name}"), query(metrics, make))
        };
        for (name, query) in [
            run("mean of means by 5 minutes", &|operand| aggregate("mean", resample(operand))),
            run("mean", &|operand| aggregate("mean", operand)),
            run("median", &|operand| aggregate("median", operand)),
            run("std", &|operand| aggregate("std", operand)),
            run("each, as it is", &|operand| *operand),
        ] {
            measure(&name, &engine, &query, rounds).await;
        }
    }
}
