//! Benchmark of the cache: time to fill it, bytes per metric, time of a look-up.
//!
//! `cargo run --release -p gnudi-indexer --example cache_figures -- [metrics in thousands] [unique|shared names]`

use std::{hint::black_box, sync::Arc, time::Instant};

use fastrand::Rng;
use gnudi_indexer::{
    CacheOptions, CachedIndexer, Indexer, MetricPages, Metrics, NewMetric, SqlIndexer, SqliteOptions,
    create_default_archive_policies,
};
use gnudi_model::{ArchivePolicy, MetricId, Timestamp};
use uuid::Uuid;

const METRICS_CREATED_AT_ONCE: usize = 10_000;

#[tokio::main]
async fn main() {
    let metrics_total = std::env::args().nth(1).map_or(100, |text| text.parse().expect("a number")) * 1000;
    let unique_names = std::env::args().nth(2).is_some_and(|text| text == "unique");
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions { readers_max: 1, ..SqliteOptions::new(folder.path().join("index.sqlite")) };
    let indexer = SqlIndexer::open(&options).await.expect("an index");
    create_default_archive_policies(&indexer, &ArchivePolicy::default_methods()).await.expect("policies");
    let start = Instant::now();
    let mut ids = Vec::new();
    while ids.len() < metrics_total {
        let metrics: Vec<_> =
            (0..METRICS_CREATED_AT_ONCE).map(|index| metric(ids.len() + index, unique_names)).collect();
        ids.extend(metrics.iter().map(|metric| metric.id));
        assert!(indexer.create_metrics(metrics).await.iter().all(Result::is_ok));
    }
    println!("created {} in {:?}, {METRICS_CREATED_AT_ONCE} a call", ids.len(), start.elapsed());

    let cache = CachedIndexer::new(
        indexer,
        &CacheOptions { metrics_cached_max: metrics_total, resources_cached_max: 0 },
    );
    // Measured first, so that the memory of the listing itself does not count.
    list_all(&cache).await;
    let before = resident_bytes();
    let start = Instant::now();
    let warmed = cache.warm().await.expect("a filled cache");
    println!("warmed {warmed} in {:?}", start.elapsed());
    println!("bytes per metric: {:.0}", (resident_bytes() - before) as f64 / warmed as f64);

    let mut shuffled = ids.clone();
    Rng::with_seed(1).shuffle(&mut shuffled);
    look_up("random ids, cached_metric", &shuffled, |id| drop(black_box(cache.cached_metric(id))));
    let few: Vec<_> = shuffled[..1000].repeat(metrics_total / 1000);
    look_up("1,000 ids, cached_metric", &few, |id| drop(black_box(cache.cached_metric(id))));
    let dynamic: Arc<dyn Indexer> = Arc::new(cache);
    look_up("1,000 ids, through the trait", &few, |id| drop(black_box(dynamic.cached_metric(id))));
    look_up("policy of a name", &few, |_| drop(black_box(dynamic.cached_policy("low"))));
    let start = Instant::now();
    for ids in shuffled.chunks(1000) {
        assert!(dynamic.metrics(ids).await.expect("metrics").iter().all(Option::is_some));
    }
    let each = start.elapsed().as_nanos() / shuffled.len() as u128;
    println!("random ids, 1,000 a call of metrics(): {each} ns each");

    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (dynamic, few) = (dynamic.clone(), few.clone());
            std::thread::spawn(move || {
                look_up("1,000 ids, two threads", &few, |id| drop(black_box(dynamic.cached_metric(id))));
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread");
    }
}

fn look_up(what: &str, ids: &[MetricId], one: impl Fn(MetricId)) {
    let start = Instant::now();
    for id in ids {
        one(*id);
    }
    println!("{what}: {} ns each", start.elapsed().as_nanos() / ids.len() as u128);
}

async fn list_all(indexer: &dyn Indexer) {
    let mut pages = MetricPages::new(10_000);
    while pages.next(indexer).await.expect("a page").is_some() {}
}

fn metric(number: usize, unique_name: bool) -> NewMetric {
    let random = Uuid::new_v4();
    let name =
        if unique_name { format!("a.unique.name{number:07}") } else { format!("name.{}", number % 100) };
    let id = MetricId::new(Timestamp(1_700_000_000_000_000_000 + number as i64 * 1000), random.as_u128());
    let creator = format!("0123456789abcdef0123456789abcde{}:0123456789abcdef0123456789abcdef", number % 8);
    NewMetric {
        name: Some(name),
        unit: Some("B/s".to_owned()),
        resource_id: Some(random),
        ..NewMetric::new(id, &creator, "low", Timestamp::EPOCH)
    }
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = status.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("pages");
    pages * 4096
}
