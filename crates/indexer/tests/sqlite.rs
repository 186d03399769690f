//! Failures specific to a file: restarts, full disks, foreign files, other processes, crashes.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use futures_util::{FutureExt, future::join_all};
use gnudi_indexer::{
    Annotation, AnnotationListing, Annotations, ArchivePolicies, ArchivePolicyRules, CacheOptions,
    CachedIndexer, Filter, FilterValue, Indexer, IndexerError, MemoryIndexer, MetricFilter, MetricListing,
    MetricMarker, Metrics, MetricsChange, NewMetric, NewNamedMetric, NewResource, OpenError, Page,
    ResourceChange, ResourceListing, ResourceMarker, ResourcePage, ResourceTypeChange, ResourceTypes,
    Resources, SqlIndexer, SqliteOptions,
    conformance::{new_metric, new_resource},
    create_default_archive_policies, has_no_archive_policies,
};
use gnudi_model::{
    ArchivePolicy, ArchivePolicyRule, Attribute, AttributeKind, AttributeValue, MetricId, Resource,
    ResourceType, Timestamp, resource_type::GENERIC,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, Executor, sqlite::SqliteConnectOptions};
use tempfile::TempDir;
use uuid::Uuid;

async fn open(path: &Path) -> SqlIndexer {
    let indexer = SqlIndexer::open(&SqliteOptions::new(path)).await.unwrap();
    create_default_archive_policies(&indexer, &ArchivePolicy::default_methods()).await.unwrap();
    indexer
}

/// A new index with the default policies, and its file.
async fn fresh() -> (TempDir, PathBuf, SqlIndexer) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let indexer = open(&path).await;
    (folder, path, indexer)
}

fn metric(number: u128, name: &str) -> NewMetric {
    NewMetric { name: Some(name.to_owned()), ..new_metric(number) }
}

async fn all(indexer: &SqlIndexer) -> Vec<MetricId> {
    let listing = MetricListing { filter: MetricFilter::default(), page: Page::first(1_000_000) };
    indexer.list_metrics(&listing).await.unwrap().iter().map(|metric| metric.id).collect()
}

async fn raw(path: &Path) -> sqlx::SqliteConnection {
    SqliteConnectOptions::new().filename(path).connect().await.unwrap()
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let (_folder, path, indexer) = fresh().await;
    let created = indexer.create_metrics(vec![metric(1, "cpu"), metric(2, "disk")]).await;
    assert_eq!(indexer.delete_metrics(&[MetricId(Uuid::from_u128(2))]).await, [Ok(())]);
    let (policies, rules) = (indexer.archive_policies().await, indexer.archive_policy_rules().await);
    indexer.close().await;

    let indexer = SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap();
    assert_eq!(indexer.archive_policies().await, policies);
    assert_eq!(indexer.archive_policy_rules().await, rules);
    let found = indexer.metrics(&[MetricId(Uuid::from_u128(1)), MetricId(Uuid::from_u128(2))]).await.unwrap();
    assert_eq!(found, [Some(created[0].clone().unwrap()), None]);
    assert_eq!(indexer.deleted_metrics(None, 10).await, Ok(vec![MetricId(Uuid::from_u128(2))]));
}

#[tokio::test]
async fn the_log_is_folded_into_the_file_while_it_is_open_and_gone_when_it_is_closed() {
    let (folder, path, indexer) = fresh().await;
    let bytes = |name: &str| std::fs::metadata(folder.path().join(name)).map_or(0, |file| file.len());
    for group in 0..40 {
        let metrics = (0..100).map(|number| metric(group * 100 + number + 1, &format!("{number:0>200}")));
        for created in indexer.create_metrics(metrics.collect()).await {
            created.unwrap();
        }
    }
    assert!(bytes("index") > 4000 * 200 / 4, "{} bytes", bytes("index"));
    assert!(bytes("index-wal") > 0);
    indexer.close().await;
    assert!(bytes("index") > 4000 * 200);
    assert_eq!(bytes("index-wal"), 0);
    assert!(matches!(indexer.archive_policies().await, Err(IndexerError::Database(_))));
    let refused = indexer.create_metrics(vec![metric(10_000, "late")]).await.remove(0);
    assert!(matches!(refused, Err(IndexerError::Database(_))), "{refused:?}");
    assert_eq!(all(&open(&path).await).await.len(), 4000);
}

/// A filter within all of its limits may have more values than a statement takes.
#[tokio::test]
async fn a_search_with_too_many_values_is_refused() {
    let (_folder, _, indexer) = fresh().await;
    let id = |number: u128| FilterValue::Text(Uuid::from_u128(number).to_string());
    let field = "original_resource_id";
    let many = Filter::In { field: field.to_owned(), values: (0..10_000).map(id).collect() };
    let more = (0..1_990).map(|number| Filter::equal(field, id(number)));
    let filter = Some(Filter::Or(std::iter::once(many).chain(more).collect()));
    let mut listing = ResourceListing { filter, ..ResourceListing::of(GENERIC, Timestamp::EPOCH) };
    assert_eq!(indexer.list_resources(&listing).await, Ok(vec![]));
    listing.history = true;
    let refused = indexer.list_resources(&listing).await.unwrap_err();
    assert!(matches!(refused, IndexerError::FilterTooLarge { max: 32_766, .. }), "{refused}");
}

/// A start that is interrupted must not leave some of the default policies: then no start would create the others.
#[tokio::test]
async fn default_policies_come_all_at_once_and_only_to_an_empty_index() {
    let methods = ArchivePolicy::default_methods();
    let folder = tempfile::tempdir().unwrap();
    let indexer = SqlIndexer::open(&SqliteOptions::new(folder.path().join("index"))).await.unwrap();
    let rule = ArchivePolicyRule::new("default", "*", "none");
    let memory = MemoryIndexer::default();
    let indexers: [&dyn Indexer; 2] = [&indexer, &memory];
    for indexer in indexers {
        let policies = ArchivePolicy::defaults(&methods);
        let refused = indexer.create_missing_policies(policies, vec![rule.clone()]).await;
        assert_eq!(refused, Err(IndexerError::NoSuchArchivePolicy("none".to_owned())));
        assert_eq!(has_no_archive_policies(indexer).await, Ok(true));
        for _ in 0..2 {
            create_default_archive_policies(indexer, &methods).await.unwrap();
        }
        let policies = indexer.archive_policies().await.unwrap();
        let names: Vec<_> = policies.iter().map(|policy| policy.name.as_str()).collect();
        assert_eq!(names, ["bool", "high", "low", "medium", "raw"]);
        assert_eq!(indexer.archive_policy_name_for_metric("anything").await, Ok("low".to_owned()));
        // What an operator has deleted is not created again at a start.
        indexer.delete_archive_policy("bool").await.unwrap();
        assert_eq!(has_no_archive_policies(indexer).await, Ok(false));
        create_default_archive_policies(indexer, &methods).await.unwrap();
        assert!(indexer.archive_policy("bool").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let (_folder, path, indexer) = fresh().await;
    indexer.close().await;
    raw(&path).await.execute("INSERT INTO schema_version (version) VALUES (1000)").await.unwrap();
    let refused = SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap_err();
    assert!(matches!(refused, OpenError::SchemaTooNew { found: 1000, .. }), "{refused}");
    assert!(refused.to_string().contains("schema version 1000"), "{refused}");
}

#[tokio::test]
async fn what_a_newer_schema_lacks_is_no_damage() {
    let (_folder, path, indexer) = fresh().await;
    indexer.close().await;
    assert!(SqlIndexer::check_file(&path).await.unwrap().is_file_whole);
    let mut connection = raw(&path).await;
    connection.execute("INSERT INTO schema_version (version) VALUES (1000)").await.unwrap();
    connection.execute("ALTER TABLE metric RENAME COLUMN status TO state").await.unwrap();
    connection.close().await.unwrap();
    let refused = SqlIndexer::check_file(&path).await.unwrap_err();
    assert!(matches!(refused, OpenError::SchemaTooNew { found: 1000, .. }), "{refused}");
}

#[tokio::test]
async fn what_is_no_index_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    std::fs::write(&path, "this is no database, and long enough to be looked at as one".repeat(100)).unwrap();
    for (path, reason) in
        [(path.as_path(), "not a database"), (&folder.path().join("none/index"), "unable to open")]
    {
        let refused = SqlIndexer::open(&SqliteOptions::new(path)).await.unwrap_err().to_string();
        assert!(refused.contains(path.to_str().unwrap()) && refused.contains(reason), "{refused}");
    }
}

#[tokio::test]
async fn a_full_disk_changes_nothing_and_passes() {
    let (_folder, path, indexer) = fresh().await;
    indexer.close().await;
    let options = SqliteOptions { bytes_max: Some(400_000), ..SqliteOptions::new(&path) };
    let indexer = SqlIndexer::open(&options).await.unwrap();
    let long = "n".repeat(250);
    let mut created = Vec::new();
    let refused = loop {
        let first = created.len() as u128;
        let batch: Vec<_> = (first..first + 100).map(|number| metric(number, &long)).collect();
        let ids: Vec<_> = batch.iter().map(|metric| metric.id).collect();
        let outcomes = indexer.create_metrics(batch).await;
        match &outcomes[0] {
            Ok(_) => assert!(outcomes.iter().all(Result::is_ok)),
            Err(error) => {
                assert!(outcomes.iter().all(|outcome| outcome.as_ref() == Err(error)));
                break error.clone();
            }
        }
        created.extend(ids);
        assert!(created.len() < 10_000, "the bound is not kept");
    };
    assert!(matches!(refused, IndexerError::NoSpace(_)), "{refused:?}");
    assert!(created.len() > 100);
    assert_eq!(all(&indexer).await, created);
    // Other calls of the group fail as well; reads continue to work.
    let bulky: Vec<_> = (100_000..101_000).map(|number| metric(number, &long)).collect();
    let policy = ArchivePolicy {
        name: "x".repeat(200_000),
        ..(*indexer.archive_policy("low").await.unwrap().unwrap()).clone()
    };
    let (metrics, policy) =
        tokio::join!(indexer.create_metrics(bulky), indexer.create_archive_policy(policy));
    assert!(metrics.iter().all(|outcome| matches!(outcome, Err(IndexerError::NoSpace(_)))));
    assert!(matches!(policy, Err(IndexerError::NoSpace(_))), "{policy:?}");
    assert_eq!(all(&indexer).await, created);

    // Space becomes free: metrics are expunged, so few that marking them needs no further page.
    assert!(indexer.delete_metrics(&created[..100]).await.iter().all(Result::is_ok));
    indexer.expunge_metrics(&created[..100]).await.unwrap();
    let after = indexer.create_metrics((0..50).map(|number| metric(number, &long)).collect()).await;
    assert!(after.iter().all(Result::is_ok), "{:?}", after[0]);
    assert_eq!(all(&indexer).await.len(), created.len() - 50);
}

#[tokio::test]
async fn a_damaged_resource_keeps_no_other_from_its_end() {
    let (_folder, path, indexer) = fresh().await;
    let created = indexer.create_resources((1..=3).map(new_resource).collect()).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    let damage = "UPDATE resource SET attributes = '[' WHERE id = X'00000000000000000000000000000002'";
    raw(&path).await.execute(damage).await.unwrap();
    let (ids, at) = ([1, 2, 3].map(Uuid::from_u128), Timestamp::from_secs(1_800_000_000));
    assert_eq!(indexer.end_resources(&ids, at).await, Ok(2));
    assert_eq!(indexer.ends(&ids).await, Ok(vec![Some(Some(at)), Some(None), Some(Some(at))]));
    assert_eq!(indexer.revive_resources(&ids.map(|id| (id, at)), at).await, Ok(2));
    assert_eq!(indexer.ends(&ids).await, Ok(vec![Some(None); 3]));
}

#[tokio::test]
async fn a_damaged_resource_is_named_and_left_out_of_listings() {
    let (_folder, path, indexer) = fresh().await;
    let kind = AttributeKind::String { min_length: 0, max_length: 10 };
    let host = Attribute { kind, required: false, fill: None };
    let vm = ResourceType { name: "vm".into(), attributes: [("host".into(), host)].into() };
    indexer.create_resource_type(vm).await.unwrap();
    let new = (1..=7).map(|number| NewResource { resource_type: "vm".to_owned(), ..new_resource(number) });
    assert!(indexer.create_resources(new.collect()).await.iter().all(Result::is_ok));
    let damage = "UPDATE resource SET attributes = '[' WHERE number IN (2, 3, 7)";
    raw(&path).await.execute(damage).await.unwrap();

    let page = async |resource_type: &str, history: bool, after: Option<u128>| {
        let id = |number| Uuid::from_u128(number);
        let marker =
            after.map(|after| ResourceMarker::Revision { id: id(after), revision: Resource::CURRENT });
        let page = ResourcePage { limit: Some(2), marker, sorts: Vec::new() };
        let listing =
            ResourceListing { history, page, ..ResourceListing::of(resource_type, Timestamp::EPOCH) };
        let found = indexer.list_resources(&listing).await.unwrap();
        found.iter().map(|resource| resource.id.as_u128()).collect::<Vec<_>>()
    };
    for history in [false, true] {
        // A short page would be the last one.
        assert_eq!(page("vm", history, None).await, [1, 4]);
        assert_eq!(page("vm", history, Some(4)).await, [5, 6]);
        assert!(page("vm", history, Some(6)).await.is_empty());
        // Without their attributes they can be shown.
        assert_eq!(page(GENERIC, history, Some(2)).await, [3, 4]);
    }
    assert_eq!(indexer.damaged(), 3);
    let id = Uuid::from_u128(2);
    let is_named = |error: &IndexerError| matches!(error, IndexerError::DamagedResource { id: named, .. } if *named == id);
    assert!(indexer.resource("vm", id).await.is_err_and(|error| is_named(&error)));
    let change = ResourceChange { user_id: Some(None), ..ResourceChange::default() };
    assert!(indexer.update_resource("vm", id, change).await.is_err_and(|error| is_named(&error)));
}

/// Bytes that are not UTF-8 instead of a text.
async fn damage(path: &Path, table: &str, column: &str, number: u128) {
    let id = Uuid::from_u128(number).simple();
    let update = format!("UPDATE {table} SET {column} = CAST(X'FF' AS TEXT) WHERE id = X'{id}'");
    raw(path).await.execute(AssertSqlSafe(update)).await.unwrap();
}

#[tokio::test]
async fn a_damaged_metric_is_named_and_left_out_of_listings() {
    let (_folder, path, indexer) = fresh().await;
    let id = |number| MetricId(Uuid::from_u128(number));
    let named = |number: u128| {
        let new = NewNamedMetric::new(id(number), "low");
        (format!("metric{number}"), MetricsChange::Create(new))
    };
    let new = NewResource { metrics: (11..=13).map(named).collect(), ..new_resource(1) };
    indexer.create_resources(vec![new]).await.remove(0).unwrap();
    damage(&path, "metric", "creator", 12).await;

    let page = async |after: Option<u128>| {
        let page = Page { marker: after.map(id).map(MetricMarker::Id), ..Page::first(1) };
        let listing = MetricListing { filter: MetricFilter::default(), page };
        let found = indexer.list_metrics(&listing).await.unwrap();
        found.iter().map(|metric| metric.id.0.as_u128()).collect::<Vec<_>>()
    };
    // A short page would be the last one.
    assert_eq!((page(None).await, page(Some(11)).await), (vec![11], vec![13]));
    assert!(page(Some(13)).await.is_empty());
    let shown = |resource: &Resource| resource.metrics.iter().map(|metric| metric.id).collect::<Vec<_>>();
    let found = indexer.resource(GENERIC, Uuid::from_u128(1)).await.unwrap().unwrap();
    assert_eq!(shown(&found), [id(11), id(13)]);
    let change = ResourceChange { user_id: Some(Some("u".to_owned())), ..ResourceChange::default() };
    let updated = indexer.update_resource(GENERIC, found.id, change).await.unwrap();
    assert_eq!(shown(&updated.resource), [id(11), id(13)]);
    assert_eq!(indexer.damaged(), 1);
    // Known by now, and left out once more.
    let before = indexer.left_out();
    indexer.resource(GENERIC, found.id).await.unwrap().unwrap();
    assert_eq!((indexer.damaged(), indexer.left_out()), (1, before + 1));

    // Look-ups that wait together are one query.
    let cached =
        CachedIndexer::new(indexer, &CacheOptions { metrics_cached_max: 10, resources_cached_max: 10 });
    let (good, bad) = ([id(11)], [id(12)]);
    let (found, refused) = tokio::join!(cached.metrics(&good), cached.metrics(&bad));
    assert_eq!(found.unwrap()[0].as_ref().unwrap().id, good[0]);
    assert!(matches!(refused, Err(IndexerError::DamagedMetric { id, .. }) if id == bad[0]), "{refused:?}");
}

/// The read ends.
#[tokio::test]
async fn a_metric_of_a_policy_that_does_not_exist_is_named() {
    let (_folder, path, indexer) = fresh().await;
    let id = indexer.create_metrics(vec![metric(1, "cpu")]).await.remove(0).unwrap().id;
    let update = "PRAGMA foreign_keys = OFF; UPDATE metric SET archive_policy_name = 'lov'";
    raw(&path).await.execute(update).await.unwrap();
    let refused = indexer.current_metric(id).await;
    assert!(
        matches!(refused, Err(IndexerError::DamagedMetric { id: named, .. }) if named == id),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_damaged_resource_keeps_no_other_from_listings_and_can_be_deleted() {
    let (_folder, path, indexer) = fresh().await;
    let created = indexer.create_resources((1..=3).map(new_resource).collect()).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    damage(&path, "resource", "creator", 1).await;
    damage(&path, "resource", "attributes", 2).await;
    let [first, second, third] = [1, 2, 3].map(Uuid::from_u128);
    let listing = ResourceListing { details: true, ..ResourceListing::of(GENERIC, Timestamp::EPOCH) };
    let found = indexer.list_resources(&listing).await.unwrap();
    assert_eq!(found.iter().map(|resource| resource.id).collect::<Vec<_>>(), [third]);
    let refused = indexer.resource(GENERIC, first).await;
    assert!(matches!(refused, Err(IndexerError::DamagedResource { id, .. }) if id == first), "{refused:?}");
    // Both in one transaction.
    let ids = [second];
    let (deleted, created) =
        tokio::join!(indexer.delete_resources(&ids), indexer.create_metrics(vec![metric(1, "cpu")]));
    assert_eq!(deleted, [Ok(Vec::new())]);
    assert!(created[0].is_ok(), "{created:?}");
}

#[tokio::test]
async fn a_damaged_resource_keeps_no_other_from_a_deletion_by_filter() {
    let (_folder, path, indexer) = fresh().await;
    let vm = ResourceType { name: "vm".into(), attributes: [].into() };
    indexer.create_resource_type(vm).await.unwrap();
    let new = |number| NewResource { resource_type: "vm".to_owned(), ..new_resource(number) };
    let created = indexer.create_resources((1..=4).map(new).collect()).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    damage(&path, "resource", "attributes", 2).await;
    damage(&path, "resource", "attributes", 4).await;
    let delete = async |resource_type: &str, numbers: [u128; 2]| {
        let values = numbers.map(|number| FilterValue::Uuid(Uuid::from_u128(number))).to_vec();
        let filter = Filter::In { field: "id".to_owned(), values };
        let deleted = indexer.delete_matching_resources(resource_type, &filter, Timestamp::EPOCH).await;
        let mut ids: Vec<_> = deleted.unwrap().ids.iter().map(Uuid::as_u128).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(delete("vm", [1, 2]).await, [1]);
    assert_eq!(indexer.damaged(), 1);
    // Without attributes it can be read.
    assert_eq!(delete(GENERIC, [3, 4]).await, [3, 4]);
}

#[tokio::test]
async fn damaged_definitions_and_annotations_are_named() {
    let (_folder, path, indexer) = fresh().await;
    indexer.create_archive_policy_rule(ArchivePolicyRule::new("all", "*", "low")).await.unwrap();
    assert!(indexer.create_resources(vec![new_resource(1)]).await[0].is_ok());
    let annotation = Annotation {
        id: Uuid::from_u128(7),
        resource_id: Uuid::from_u128(1),
        timestamp: Timestamp::EPOCH,
        text: "moved".to_owned(),
        creator: "me".to_owned(),
    };
    indexer.create_annotation(annotation.clone()).await.unwrap();
    damage(&path, "resource_annotation", "content", 7).await;
    let definitions = "UPDATE archive_policy_rule SET metric_pattern = CAST(X'FF' AS TEXT); \
         UPDATE archive_policy SET definition = CAST(X'FF' AS TEXT) WHERE name = 'low'";
    raw(&path).await.execute(definitions).await.unwrap();
    let listing = AnnotationListing::of(annotation.resource_id);
    for (error, named) in [
        (indexer.archive_policy_rules().await.unwrap_err(), "archive policy rule all is damaged".to_owned()),
        (indexer.archive_policies().await.unwrap_err(), "archive policy low is damaged".to_owned()),
        (
            indexer.list_annotations(&listing).await.unwrap_err(),
            format!("annotation {} is damaged", annotation.id),
        ),
    ] {
        assert!(error.to_string().contains(&named), "{error}");
    }
    // A server starts all the same.
    assert_eq!(has_no_archive_policies(&indexer).await, Ok(false));
}

/// What a deleted attribute has left behind does not become the value of a later one.
#[tokio::test]
async fn a_repaired_file_gives_no_number_again() {
    let (_folder, path, indexer) = fresh().await;
    let attribute = |kind| Attribute { kind, required: false, fill: None };
    let host = attribute(AttributeKind::String { min_length: 0, max_length: 10 });
    let vm = ResourceType { name: "vm".into(), attributes: [("host".into(), host)].into() };
    indexer.create_resource_type(vm).await.unwrap();
    let new = NewResource {
        resource_type: "vm".to_owned(),
        attributes: [("host".into(), AttributeValue::String("one".into()))].into(),
        ..new_resource(1)
    };
    indexer.create_resources(vec![new]).await.remove(0).unwrap();
    let delete = ResourceTypeChange { delete: vec!["host".into()], ..ResourceTypeChange::default() };
    indexer.update_resource_type("vm", delete).await.unwrap();
    indexer.close().await;
    SqlIndexer::repair_file(&path, |_| Ok(())).await.unwrap();

    let indexer = SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap();
    let vcpus = attribute(AttributeKind::Number { min: None, max: None });
    let add = ResourceTypeChange { add: vec![("vcpus".into(), vcpus)], ..ResourceTypeChange::default() };
    indexer.update_resource_type("vm", add).await.unwrap();
    let shown = indexer.resource("vm", Uuid::from_u128(1)).await.unwrap().unwrap();
    assert_eq!(shown.attributes.get("vcpus"), Some(&AttributeValue::Null));
}

/// As with separate processes for API and workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_share_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let indexers = Arc::new(join_all((0..3).map(|_| open(&path))).await);
    assert_eq!(indexers[2].archive_policies().await.unwrap().len(), 5);
    let tasks = (0..3).map(|index| {
        let indexers = indexers.clone();
        tokio::spawn(async move {
            for number in 0..50 {
                let metric = metric(number * 10 + index as u128, "cpu");
                let id = metric.id;
                indexers[index].create_metrics(vec![metric]).await.remove(0).unwrap();
                let other = &indexers[(index + 1) % 3];
                assert!(other.metrics(&[id]).await.unwrap()[0].is_some());
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    assert_eq!(all(&indexers[0]).await.len(), 150);
}

/// A write whose caller is dropped is executed all the same, and the writer continues.
#[tokio::test]
async fn callers_may_go_away() {
    let (_folder, _, indexer) = fresh().await;
    for number in 0..20 {
        assert!(indexer.create_metrics(vec![metric(number, "cpu")]).now_or_never().is_none());
    }
    indexer.create_metrics(vec![metric(20, "cpu")]).await.remove(0).unwrap();
    assert_eq!(all(&indexer).await.len(), 21);
}

/// The name of the file, for a child with a file size limit.
const LIMITED: &str = "GNUDI_TEST_LIMITED_INDEX";

/// A file size limit makes writes to the log fail, at the commit.
#[tokio::test]
async fn a_commit_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let child = Command::new("sh")
        .args(["-c", "ulimit -f 800; trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "creates_until_a_commit_fails", "--nocapture"])
        .env(LIMITED, &path)
        .output()
        .unwrap();
    let output = String::from_utf8(child.stdout).unwrap();
    assert!(child.status.success() && output.contains("a commit failed: "), "{output}");
    // Without the limit everything works.
    let indexer = SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap();
    assert!(output.contains(&format!("kept {}\n", all(&indexer).await.len())), "{output}");
    indexer.create_metrics(vec![metric(u128::MAX, "cpu")]).await.remove(0).unwrap();
}

/// The child process of the test above; does nothing on its own.
#[tokio::test]
async fn creates_until_a_commit_fails() {
    let Some(path) = std::env::var_os(LIMITED) else { return };
    let indexer = open(Path::new(&path)).await;
    let mut created = Vec::new();
    let error = loop {
        let metric = metric(created.len() as u128, "cpu");
        let id = metric.id;
        match indexer.create_metrics(vec![metric]).await.remove(0) {
            Ok(_) => created.push(id),
            Err(error) => break error,
        }
    };
    println!("a commit failed: {error}");
    assert_eq!(all(&indexer).await, created);
    // The next one fails, too, and changes nothing either.
    indexer.create_metrics(vec![metric(u128::MAX, "cpu")]).await.remove(0).unwrap_err();
    assert_eq!(all(&indexer).await, created);
    // New resources are written in one trip with their commit.
    indexer.create_resources(vec![new_resource(1)]).await.remove(0).unwrap_err();
    assert_eq!(indexer.resource(GENERIC, Uuid::from_u128(1)).await, Ok(None));
    println!("kept {}", created.len());
}

const CRASHING: &str = "GNUDI_TEST_CRASHING_INDEX";

/// Killed at any time, an index has all metrics whose creation was acknowledged.
#[tokio::test]
async fn what_was_answered_survives_a_kill() {
    for round in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "creates_until_it_is_killed", "--nocapture"])
            .env(CRASHING, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut answered: Vec<Uuid> = Vec::new();
        let id_of =
            |line: &str| Some(Uuid::from_u128(line.strip_prefix("created ")?.parse().expect("a number")));
        while answered.len() < 50 + 37 * round {
            let line = lines.next().expect("the child lives until it is killed");
            answered.extend(id_of(&line));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it printed before it was killed.
        answered.extend(lines.filter_map(|line| id_of(&line)));

        let indexer = SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap();
        let metrics: Vec<_> = answered.iter().map(|id| MetricId(*id)).collect();
        assert!(indexer.metrics(&metrics).await.unwrap().iter().all(Option::is_some));
        for id in &answered {
            assert!(indexer.resource(GENERIC, *id).await.unwrap().is_some());
        }
        indexer.create_metrics(vec![metric(u128::MAX, "cpu")]).await.remove(0).unwrap();
        indexer.create_resources(vec![new_resource(u128::MAX)]).await.remove(0).unwrap();
    }
}

/// The child process of the test above; does nothing on its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_until_it_is_killed() {
    let Some(path) = std::env::var_os(CRASHING) else { return };
    let indexer = Arc::new(open(Path::new(&path)).await);
    let callers = (0..8u128).map(|caller| {
        let indexer = indexer.clone();
        tokio::spawn(async move {
            for number in 0..20_000 {
                let number = number * 8 + caller;
                // Half of the callers create a metric and a resource one after the other, half both at once.
                if number % 2 == 0 {
                    indexer.create_metrics(vec![metric(number, "cpu")]).await.remove(0).unwrap();
                    indexer.create_resources(vec![new_resource(number)]).await.remove(0).unwrap();
                } else {
                    let created = NewNamedMetric::new(MetricId(Uuid::from_u128(number)), "low");
                    let metrics = vec![("cpu".to_owned(), MetricsChange::Create(created))];
                    let resource = NewResource { metrics, ..new_resource(number) };
                    indexer.create_resources(vec![resource]).await.remove(0).unwrap();
                }
                println!("created {number}");
            }
        })
    });
    join_all(callers).await;
}
