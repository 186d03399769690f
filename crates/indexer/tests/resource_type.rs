//! A change of a type with many resources writes none of them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use gnudi_indexer::{
    Metrics, ResourceTypeChange, ResourceTypes, Resources, SqlIndexer, SqliteOptions,
    conformance::new_metric, create_default_archive_policies,
};
use gnudi_model::{ArchivePolicy, Attribute, AttributeKind, AttributeValue, ResourceType, Text};
use sqlx::{ConnectOptions, Executor, SqliteConnection, sqlite::SqliteConnectOptions};
use uuid::Uuid;

const RESOURCES: u32 = 120_000;

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

/// What changes when a resource's row or one of its values is written.
async fn written(connection: &mut SqliteConnection) -> (i64, i64, i64) {
    let rows = "SELECT COUNT(*), SUM(LENGTH(attributes) + type_version * 1000), (SELECT COUNT(*) FROM resource_value) \
                FROM resource";
    sqlx::query_as(rows).fetch_one(connection).await.unwrap()
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
    let (folder, indexer) = populated().await;
    let mut connection =
        SqliteConnectOptions::new().filename(folder.path().join("index")).connect().await.unwrap();
    let before = written(&mut connection).await;
    let indexer = Arc::new(indexer);
    let stop = Arc::new(AtomicBool::new(false));
    // Concurrent writes.
    let writer = tokio::spawn({
        let (indexer, stop) = (indexer.clone(), stop.clone());
        async move {
            let mut number = 0u128;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                indexer.create_metrics(vec![new_metric(number)]).await.remove(0).unwrap();
            }
            number
        }
    });
    let changes = [
        ResourceTypeChange { add: vec![("colour".into(), attribute(Some("red")))], ..Default::default() },
        ResourceTypeChange { add: vec![("empty".into(), attribute(None))], ..Default::default() },
        ResourceTypeChange { update: vec![("empty".into(), attribute(Some("full")))], ..Default::default() },
        ResourceTypeChange { delete: vec!["host".into()], ..Default::default() },
    ];
    for change in changes {
        indexer.update_resource_type("instance", change.clone()).await.unwrap();
        assert_eq!(written(&mut connection).await, before, "{change:?}");
    }
    let text = |text: &str| AttributeValue::String(text.into());
    let expected = vec![("colour".into(), text("red")), ("empty".into(), text("full"))];
    for number in [1, RESOURCES / 2, RESOURCES] {
        assert_eq!(shown(&indexer, number).await, expected);
    }
    // Left-over values are swept in steps.
    let mut swept = 0;
    loop {
        let found = indexer.sweep_values(1000).await.unwrap();
        assert!(found <= 1000, "{found} in one step");
        swept += found;
        if found < 1000 {
            break;
        }
    }
    assert_eq!(swept, RESOURCES as usize);
    stop.store(true, Ordering::Relaxed);
    assert!(writer.await.unwrap() > 10);
}
