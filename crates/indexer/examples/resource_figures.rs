//! Benchmark of resources: creations per second from concurrent callers, with and without attributes and metrics;
//! look-ups, changes, deletions, and a new attribute among many resources.
//!
//! `cargo run --release -p gnudi-indexer --example resource_figures -- [resources in thousands] [resources a call] [callers]`

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use gnudi_indexer::{
    CacheOptions, CachedIndexer, Indexer, MetricsChange, NewNamedMetric, NewResource, NewRevision,
    ResourceChange, ResourceTypeChange, ResourceTypes, SqlIndexer, SqliteOptions,
    create_default_archive_policies,
};
use gnudi_model::{
    ArchivePolicy, Attribute, AttributeKind, AttributeValue, MetricId, ResourceType, Text, Timestamp,
    resource_type::GENERIC,
};
use uuid::Uuid;

const TYPE: &str = "instance";
const TEXT: AttributeKind = AttributeKind::String { min_length: 0, max_length: 256 };
const ATTRIBUTES: [(&str, AttributeKind); 8] = [
    ("display_name", TEXT),
    ("flavor_name", TEXT),
    ("host", TEXT),
    ("server_group", TEXT),
    ("image_ref", AttributeKind::Uuid),
    ("vcpus", AttributeKind::Number { min: None, max: None }),
    ("protected", AttributeKind::Bool),
    ("launched_at", AttributeKind::Datetime),
];

#[derive(Clone, Copy)]
struct Load {
    resources: usize,
    per_call: usize,
    callers: usize,
}

#[tokio::main]
async fn main() {
    let argument = |nth: usize, default: usize| {
        std::env::args().nth(nth).map_or(default, |text| text.parse().expect("a number"))
    };
    let load =
        Load { resources: argument(1, 100) * 1000, per_call: argument(2, 1), callers: argument(3, 64) };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.sqlite");
    let sql = SqlIndexer::open(&SqliteOptions::new(&path)).await.expect("an index");
    create_default_archive_policies(&sql, &ArchivePolicy::default_methods()).await.expect("policies");
    let attributes =
        ATTRIBUTES.map(|(name, kind)| (Text::from(name), Attribute { kind, required: false, fill: None }));
    sql.create_resource_type(ResourceType { name: TYPE.into(), attributes: attributes.into() })
        .await
        .expect("a type");
    let options = CacheOptions { metrics_cached_max: 1_000_000, resources_cached_max: 1_000_000 };
    let indexer = Arc::new(CachedIndexer::new(sql, &options));

    let generic = create(&indexer, "generic", load, |_| {}).await;
    let typed = create(&indexer, "with 8 attributes", load, add_attributes).await;
    create(&indexer, "with 3 metrics", Load { resources: load.resources / 4, ..load }, add_metrics).await;
    let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
    println!("file: {} MB", bytes / 1_000_000);
    for (what, resource_type, ids) in [("generic", GENERIC, &generic), ("typed", TYPE, &typed)] {
        for from in ["the database", "memory"] {
            show(&indexer, &format!("{what} from {from}"), resource_type, &ids[..ids.len().min(20_000)])
                .await;
        }
    }
    update(&indexer, &typed[..typed.len().min(5_000)]).await;
    extend_type(&indexer, &generic).await;
    delete(&indexer, &typed[..typed.len().min(20_000)]).await;
}

fn now() -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    Timestamp(now.as_micros() as i64 * 1000)
}

fn resource(number: usize) -> NewResource {
    let id = Uuid::new_v4();
    let now = now();
    let creator = format!("0123456789abcdef0123456789abcde{}:0123456789abcdef0123456789abcdef", number % 8);
    NewResource {
        user_id: Some(format!("0123456789abcdef0123456789abcd{}", number % 90 + 10)),
        project_id: Some(format!("0123456789abcdef0123456789abcd{}", number % 30 + 10)),
        ..NewResource::new(id, GENERIC, &creator, now)
    }
}

fn add_attributes(new: &mut NewResource) {
    let number = new.id.as_u128() as usize;
    TYPE.clone_into(&mut new.resource_type);
    let text = |text: String| AttributeValue::String(text.into());
    let values = [
        text(format!("vm-{number:x}")),
        text(format!("flavor{}", number % 20)),
        text(format!("compute{}", number % 300)),
        text(format!("group{}", number % 3000)),
        AttributeValue::Uuid(Uuid::from_u128(number as u128 % 50)),
        AttributeValue::Number((number % 64) as f64),
        AttributeValue::Bool(number.is_multiple_of(2)),
        AttributeValue::Datetime(new.now),
    ];
    new.attributes =
        ATTRIBUTES.into_iter().zip(values).map(|((name, _), value)| (name.into(), value)).collect();
}

fn add_metrics(new: &mut NewResource) {
    new.metrics = ["cpu", "memory.usage", "disk.root.size"]
        .into_iter()
        .map(|name| {
            let id = MetricId::new(new.now, Uuid::new_v4().as_u128());
            let metric = NewNamedMetric { unit: Some("B".to_owned()), ..NewNamedMetric::new(id, "low") };
            (name.to_owned(), MetricsChange::Create(metric))
        })
        .collect();
}

/// Processor time of this process so far.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.rsplit(')').next().map(|rest| {
        rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
    });
    Duration::from_millis(10 * ticks.unwrap_or(0))
}

async fn create<I: Indexer>(
    indexer: &Arc<I>,
    what: &str,
    load: Load,
    complete: fn(&mut NewResource),
) -> Vec<Uuid> {
    let left = Arc::new(AtomicUsize::new(load.resources));
    let (start, processor_before) = (Instant::now(), processor());
    let callers: Vec<_> = (0..load.callers)
        .map(|caller| {
            let (indexer, left) = (indexer.clone(), left.clone());
            tokio::spawn(async move {
                let mut ids = Vec::new();
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                        left.checked_sub(load.per_call)
                    })
                    .is_ok()
                {
                    let mut new: Vec<_> =
                        (0..load.per_call).map(|number| resource(caller + number)).collect();
                    new.iter_mut().for_each(complete);
                    let outcomes = indexer.create_resources(new).await;
                    ids.extend(outcomes.into_iter().map(|outcome| outcome.expect("a new resource").id));
                }
                ids
            })
        })
        .collect();
    let mut ids = Vec::new();
    for caller in callers {
        ids.append(&mut caller.await.expect("a caller"));
    }
    let seconds = start.elapsed().as_secs_f64();
    let processor = processor().saturating_sub(processor_before).as_secs_f64();
    println!(
        "create {what}: {} in {seconds:.2} s, {:.0}/s; {:.1} us of processor time each",
        ids.len(),
        ids.len() as f64 / seconds,
        processor * 1e6 / ids.len() as f64
    );
    ids
}

async fn show<I: Indexer>(indexer: &Arc<I>, what: &str, resource_type: &str, ids: &[Uuid]) {
    let start = Instant::now();
    for id in ids {
        assert!(indexer.resource(resource_type, *id).await.expect("an answer").is_some());
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("show {what}: {:.0}/s, one after the other", ids.len() as f64 / seconds);
}

async fn update<I: Indexer>(indexer: &Arc<I>, ids: &[Uuid]) {
    let start = Instant::now();
    let changes = ids.iter().map(|id| {
        let change = ResourceChange {
            attributes: [("host".into(), AttributeValue::String("compute999".into()))].into(),
            revision: NewRevision::IfChanged,
            now: now(),
            ..ResourceChange::default()
        };
        indexer.update_resource(TYPE, *id, change)
    });
    for outcome in futures_util::future::join_all(changes).await {
        outcome.expect("a change");
    }
    println!("update with history: {:.0}/s", ids.len() as f64 / start.elapsed().as_secs_f64());
}

/// Adds an attribute with a fill value, while something writes.
async fn extend_type<I: Indexer>(indexer: &Arc<I>, ids: &[Uuid]) {
    let attribute = |fill: &str| Attribute {
        kind: TEXT,
        required: false,
        fill: Some(AttributeValue::String(fill.into())),
    };
    let start = Instant::now();
    for number in 0..10 {
        let add = vec![(Text::from(format!("new{number}")), attribute("x"))];
        let change = ResourceTypeChange { add, ..ResourceTypeChange::default() };
        indexer.update_resource_type(TYPE, change).await.expect("a change");
    }
    println!("a new attribute with a fill: {:?}", start.elapsed() / 10);
    let start = Instant::now();
    let change = ResourceTypeChange { delete: vec!["host".into()], ..ResourceTypeChange::default() };
    indexer.update_resource_type(TYPE, change).await.expect("a change");
    println!("an attribute is gone: {:?}", start.elapsed());
    let start = Instant::now();
    let mut steps: Vec<Duration> = Vec::new();
    loop {
        let step = Instant::now();
        let swept = indexer.sweep_values(1000).await.expect("a step");
        steps.push(step.elapsed());
        if swept < 1000 {
            break;
        }
    }
    println!(
        "sweep its values: {:?} in {} steps of {:?} at most",
        start.elapsed(),
        steps.len(),
        steps.iter().max().expect("a step")
    );
    assert!(indexer.resource(GENERIC, ids[0]).await.expect("an answer").is_some());
}

async fn delete<I: Indexer>(indexer: &Arc<I>, ids: &[Uuid]) {
    let start = Instant::now();
    let outcomes = indexer.delete_resources(ids).await;
    assert!(outcomes.iter().all(Result::is_ok));
    println!("delete: {:.0}/s", ids.len() as f64 / start.elapsed().as_secs_f64());
}
