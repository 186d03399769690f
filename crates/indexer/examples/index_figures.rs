//! Benchmark of the index: creations per second from concurrent callers, listings and look-ups among many metrics.
//!
//! `cargo run --release -p gnudi-indexer --example index_figures -- [metrics in thousands]`

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use gnudi_indexer::{
    MetricFilter, MetricListing, MetricMarker, MetricSort, Metrics, NewMetric, Page, SqlIndexer,
    SqliteOptions, create_default_archive_policies,
};
use gnudi_model::{ArchivePolicy, MetricId, Timestamp};
use uuid::Uuid;

const CALLERS: usize = 64;

#[tokio::main]
async fn main() {
    let metrics_total: usize =
        std::env::args().nth(1).map_or(100, |text| text.parse().expect("a number")) * 1000;
    let ordered_ids = std::env::args().nth(2).is_some_and(|text| text == "ordered");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.sqlite");
    let indexer = Arc::new(SqlIndexer::open(&SqliteOptions::new(&path)).await.expect("an index"));
    create_default_archive_policies(&*indexer, &ArchivePolicy::default_methods()).await.expect("policies");

    let step = (metrics_total / 10).max(1);
    for _ in 0..10 {
        create(&indexer, step, ordered_ids).await;
    }
    let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
    println!("file: {} MB", bytes / 1_000_000);
    list(&indexer).await;
}

async fn create(indexer: &Arc<SqlIndexer>, count: usize, ordered_ids: bool) {
    let left = Arc::new(AtomicUsize::new(count));
    let start = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (indexer, left) = (indexer.clone(), left.clone());
            tokio::spawn(async move {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    let outcomes = indexer.create_metrics(vec![metric(caller, ordered_ids)]).await;
                    assert!(outcomes[0].is_ok());
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("a caller");
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("create: {count} in {seconds:.2} s, {:.0}/s", count as f64 / seconds);
}

fn metric(caller: usize, ordered_id: bool) -> NewMetric {
    let random = Uuid::new_v4();
    let now = Timestamp::from(std::time::SystemTime::now());
    let id = if ordered_id { MetricId::new(now, random.as_u128()) } else { MetricId(random) };
    let creator = format!("0123456789abcdef0123456789abcde{}:0123456789abcdef0123456789abcdef", caller % 8);
    NewMetric {
        name: Some(format!("name.{}", random.as_u128() % 100)),
        unit: Some("B/s".to_owned()),
        ..NewMetric::new(id, &creator, "low", now)
    }
}

async fn list(indexer: &SqlIndexer) {
    let creator = Some("0123456789abcdef0123456789abcde1:0123456789abcdef0123456789abcdef".to_owned());
    let none = MetricFilter::default();
    let cases = [
        ("all by id", none.clone(), vec![]),
        ("a creator's", MetricFilter { creator: creator.clone(), ..none.clone() }, vec![]),
        ("a name's", MetricFilter { name: Some("name.7".to_owned()), ..none.clone() }, vec![]),
        (
            "a creator's, a name's",
            MetricFilter { creator, name: Some("name.7".to_owned()), ..none.clone() },
            vec![],
        ),
        ("a policy's", MetricFilter { archive_policy_name: Some("low".to_owned()), ..none.clone() }, vec![]),
        (
            "no policy's",
            MetricFilter { archive_policy_name: Some("high".to_owned()), ..none.clone() },
            vec![],
        ),
        ("a unit's", MetricFilter { unit: Some("B/s".to_owned()), ..none.clone() }, vec![]),
        ("no unit's", MetricFilter { unit: Some("none".to_owned()), ..none.clone() }, vec![]),
        ("all by name", none.clone(), vec!["name:asc"]),
        ("all by name, descending", none.clone(), vec!["name:desc"]),
        ("all by creator", none.clone(), vec!["creator:asc"]),
        ("all by unit", none.clone(), vec!["unit:asc"]),
        ("all by resource", none.clone(), vec!["resource_id:desc"]),
    ];
    for (what, filter, sorts) in cases {
        let sorts: Vec<MetricSort> = sorts.iter().map(|sort| sort.parse().expect("a sort")).collect();
        let mut page = Page { limit: 1000, marker: None, sorts };
        let mut times = Vec::new();
        for _ in 0..20 {
            let start = Instant::now();
            let found = indexer
                .list_metrics(&MetricListing { filter: filter.clone(), page: page.clone() })
                .await
                .expect("a page");
            times.push(start.elapsed());
            page.marker = found.last().map(|metric| MetricMarker::Id(metric.id));
            if found.len() < 1000 {
                break;
            }
        }
        let first = times[0];
        times.sort();
        println!(
            "list {what}: first page {first:?}, median of {} pages {:?}",
            times.len(),
            times[times.len() / 2]
        );
    }
}
