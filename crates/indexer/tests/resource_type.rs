//! A type that many resources have changes at once, and nobody waits for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use gnudi_indexer::{
    Metrics, NewMetric, ResourceTypeChange, ResourceTypes, Resources, SqlIndexer, SqliteOptions,
    create_default_archive_policies,
};
use gnudi_model::{
    ArchivePolicy, Attribute, AttributeKind, AttributeValue, MetricId, ResourceType, Text, Timestamp,
};
use sqlx::{ConnectOptions, Executor, sqlite::SqliteConnectOptions};
use uuid::Uuid;

const RESOURCES: u32 = 120_000;
/// Rewriting so many resources takes seconds; the change itself is a few rows.
const CHANGE_MAX: Duration = Duration::from_millis(500);

fn attribute(fill: Option<&str>) -> Attribute {
    Attribute {
        kind: AttributeKind::String { min_length: 0, max_length: 256 },
        required: false,
        fill: fill.map(|fill| AttributeValue::String(fill.into())),
    }
}

/// An index with a type `instance`, its attribute `host`, and many resources of it.
async fn populated() -> (tempfile::TempDir, SqlIndexer) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let indexer = SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap();
    create_default_archive_policies(&indexer, &ArchivePolicy::default_methods()).await.unwrap();
    let attributes = [("host".into(), attribute(None))].into();
    indexer.create_resource_type(ResourceType { name: "instance".into(), attributes }).await.unwrap();
    let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    let numbers =
        format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {RESOURCES})");
    let resources = format!(
        "{numbers} INSERT INTO resource (number, id, type_number, original_resource_id, creator, started_at, \
         revision_start, attributes, type_version) \
         SELECT i, CAST(printf('%016d', i) AS BLOB), (SELECT number FROM resource_type WHERE name = 'instance'), '', '', \
         0, 0, json_object(CAST(a.number AS TEXT), 'compute' || i % 100), (SELECT version FROM resource_type_version) \
         FROM n, resource_attribute a"
    );
    let values = "INSERT INTO resource_value SELECT a.number, CAST('compute' || r.number % 100 AS BLOB), r.number \
                  FROM resource r, resource_attribute a";
    connection.execute(sqlx::AssertSqlSafe(resources)).await.unwrap();
    connection.execute(values).await.unwrap();
    (folder, indexer)
}

fn id(number: u32) -> Uuid {
    Uuid::from_slice(format!("{number:016}").as_bytes()).unwrap()
}

async fn shown(indexer: &SqlIndexer, number: u32) -> Vec<(Text, AttributeValue)> {
    let resource = indexer.resource("instance", id(number)).await.unwrap().unwrap();
    resource.attributes.clone().into_iter().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_does_not_write_resources() {
    let (_folder, indexer) = populated().await;
    let indexer = Arc::new(indexer);
    let stop = Arc::new(AtomicBool::new(false));
    // Someone else writes all the while, and notes the longest wait.
    let writer = tokio::spawn({
        let (indexer, stop) = (indexer.clone(), stop.clone());
        async move {
            let (mut longest, mut number) = (Duration::ZERO, 0u128);
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                let metric = NewMetric {
                    id: MetricId(Uuid::from_u128(number)),
                    creator: String::new(),
                    name: None,
                    unit: None,
                    archive_policy_name: "low".to_owned(),
                    resource_id: None,
                    created_at: Timestamp::EPOCH,
                };
                let start = Instant::now();
                indexer.create_metrics(vec![metric]).await.remove(0).unwrap();
                longest = longest.max(start.elapsed());
            }
            (longest, number)
        }
    });
    let changes = [
        ResourceTypeChange { add: vec![("colour".into(), attribute(Some("red")))], ..Default::default() },
        ResourceTypeChange { add: vec![("empty".into(), attribute(None))], ..Default::default() },
        ResourceTypeChange { update: vec![("empty".into(), attribute(Some("full")))], ..Default::default() },
        ResourceTypeChange { delete: vec!["host".into()], ..Default::default() },
    ];
    for change in changes {
        let start = Instant::now();
        indexer.update_resource_type("instance", change.clone()).await.unwrap();
        assert!(start.elapsed() < CHANGE_MAX, "{change:?} took {:?}", start.elapsed());
    }
    let text = |text: &str| AttributeValue::String(text.into());
    let expected = vec![("colour".into(), text("red")), ("empty".into(), text("full"))];
    for number in [1, RESOURCES / 2, RESOURCES] {
        assert_eq!(shown(&indexer, number).await, expected);
    }
    // What is left is swept in steps.
    let mut swept = 0;
    loop {
        let start = Instant::now();
        let found = indexer.sweep_values(1000).await.unwrap();
        assert!(start.elapsed() < CHANGE_MAX, "a step took {:?}", start.elapsed());
        swept += found;
        if found < 1000 {
            break;
        }
    }
    assert_eq!(swept, RESOURCES as usize);
    stop.store(true, Ordering::Relaxed);
    let (longest, written) = writer.await.unwrap();
    assert!(written > 10 && longest < 2 * CHANGE_MAX, "{written} writes, {longest:?} at most");
}
