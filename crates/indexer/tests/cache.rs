//! Race conditions of the cache: overlapping calls, callers that are dropped, other processes.

mod support;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use futures_util::{FutureExt as _, future::join_all};
use gnudi_indexer::{
    ArchivePolicies, ArchivePolicyRules, CacheFigures, CacheOptions, CachedIndexer, Indexer, IndexerError,
    Metrics, NewResource, ResourceTypes, Resources, SqlIndexer, SqliteOptions, Touched,
    conformance::{id, new_metric, new_resource, with_back_window},
    create_default_archive_policies,
};
use gnudi_model::{
    ArchivePolicy, ArchivePolicyRule, Attribute, AttributeKind, ResourceType, resource_type::GENERIC,
};
use sqlx::{ConnectOptions, Executor, sqlite::SqliteConnectOptions};
use support::Gated;
use tempfile::TempDir;
use tokio::task::JoinHandle;

type Cache = Arc<CachedIndexer<Gated>>;

async fn cache() -> (Cache, Gated) {
    let gated = Gated::new();
    create_default_archive_policies(&*gated.index, &ArchivePolicy::default_methods()).await.unwrap();
    let options = CacheOptions { metrics_cached_max: 1000, resources_cached_max: 1000 };
    (Arc::new(CachedIndexer::new(gated.clone(), &options)), gated)
}

/// Begins a call of the cache.
fn start<F: Future<Output: Send> + Send + 'static>(
    cache: &Cache,
    call: impl FnOnce(Cache) -> F,
) -> JoinHandle<F::Output> {
    tokio::spawn(call(cache.clone()))
}

/// Lets every task run until it blocks at a gate.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn look_ups_are_answered_from_memory() {
    let (cache, gated) = cache().await;
    cache.create_metrics(vec![new_metric(1)]).await.remove(0).unwrap();
    gated.index.create_metrics(vec![new_metric(2)]).await.remove(0).unwrap();
    assert!(cache.cached_metric(id(1)).is_some());
    assert!(cache.cached_metric(id(2)).is_none());
    for reads in [1, 1] {
        let found = cache.metrics(&[id(1), id(2), id(1)]).await.unwrap();
        assert!(found.iter().all(Option::is_some));
        assert_eq!(gated.reads.load(Ordering::Relaxed), reads);
    }
    assert_eq!(gated.ids_read.load(Ordering::Relaxed), 1);
    let dynamic: &dyn Indexer = &*cache;
    assert!(dynamic.cached_metric(id(2)).is_some());
    assert_eq!(cache.figures(), CacheFigures { hits: 1 + 2 + 3 + 1, misses: 1 + 1, metrics: 2 });

    assert_eq!(dynamic.cached_policy("low"), None);
    let low = cache.archive_policy("low").await.unwrap();
    assert_eq!(dynamic.cached_policy("low"), low);
    let reads = gated.reads.load(Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(cache.archive_policy("low").await.unwrap(), low);
        assert_eq!(cache.archive_policy_name_for_metric("cpu").await, Ok("low".to_owned()));
    }
    assert_eq!(gated.reads.load(Ordering::Relaxed), reads + 1, "rules are read once");
}

#[tokio::test]
async fn those_who_miss_at_once_share_queries() {
    let (cache, gated) = cache().await;
    gated.index.create_metrics((0..10).map(new_metric).collect()).await;
    gated.behind_reads.close();
    let call = |number: u128| {
        start(&cache, move |cache| async move { cache.metrics(&[id(number % 10), id(100)]).await })
    };
    let calls: Vec<_> = (0..50).map(call).collect();
    settle().await;
    gated.behind_reads.open();
    for (call, found) in join_all(calls).await.into_iter().enumerate() {
        let found = found.unwrap().unwrap();
        assert_eq!(found[0].as_ref().unwrap().id, id(call as u128 % 10));
        assert_eq!(found[1], None);
    }
    assert!(gated.reads.load(Ordering::Relaxed) <= 2);
    assert!(gated.ids_read.load(Ordering::Relaxed) <= 2 + 11);
}

#[tokio::test]
async fn a_load_that_overlaps_a_deletion_leaves_nothing() {
    let (cache, gated) = cache().await;
    gated.index.create_metrics(vec![new_metric(1)]).await;
    gated.behind_reads.close();
    let load = start(&cache, |cache| async move { cache.metrics(&[id(1)]).await });
    settle().await;
    // The load has read the metric, and has not returned yet.
    assert_eq!(cache.delete_metrics(&[id(1)]).await, [Ok(())]);
    gated.behind_reads.open();
    assert!(load.await.unwrap().unwrap()[0].is_some());
    assert_eq!(cache.cached_metric(id(1)), None);
    assert_eq!(cache.metrics(&[id(1)]).await, Ok(vec![None]));
}

#[tokio::test]
async fn a_warming_that_overlaps_a_deletion_leaves_nothing() {
    let (cache, gated) = cache().await;
    gated.index.create_metrics(vec![new_metric(1), new_metric(2)]).await;
    // Policies and rules first, then the page that is blocked.
    gated.behind_reads.close();
    let warming = start(&cache, |cache| async move { cache.warm().await });
    for _ in 0..2 {
        settle().await;
        gated.behind_reads.let_one_pass();
    }
    settle().await;
    assert_eq!(cache.delete_metrics(&[id(1)]).await, [Ok(())]);
    gated.behind_reads.open();
    warming.await.unwrap().unwrap();
    assert_eq!(cache.cached_metric(id(1)), None);
}

/// A deletion whose caller is gone happens later, and invalidates the cache then.
#[tokio::test]
async fn a_deletion_whose_caller_went_away_is_seen() {
    let (cache, gated) = cache().await;
    cache.create_metrics(vec![new_metric(1)]).await.remove(0).unwrap();
    gated.before_writes.close();
    let deletion = start(&cache, |cache| async move { cache.delete_metrics(&[id(1)]).await });
    settle().await;
    deletion.abort();
    assert!(deletion.await.unwrap_err().is_cancelled());
    // Not deleted yet: correct, and cached.
    assert!(cache.metrics(&[id(1)]).await.unwrap()[0].is_some());
    gated.before_writes.open();
    settle().await;
    assert_eq!(gated.index.metrics(&[id(1)]).await, Ok(vec![None]));
    assert_eq!(cache.metrics(&[id(1)]).await, Ok(vec![None]));
}

#[tokio::test]
async fn policies_read_before_a_change_are_not_kept() {
    let (cache, gated) = cache().await;
    let old = cache.archive_policy("low").await.unwrap().unwrap();
    cache.invalidate(&Touched::policies());
    gated.behind_reads.close();
    let overlapping = start(&cache, |cache| async move { cache.archive_policy("low").await });
    settle().await;
    let new = cache.update_archive_policy("low", with_back_window(&old, 7)).await.unwrap();
    assert_eq!(new.back_window, 7);
    gated.behind_reads.open();
    assert_eq!(overlapping.await.unwrap(), Ok(Some(old)));
    assert_eq!(cache.archive_policy("low").await, Ok(Some(new)));
    // Without a policy there is nothing to cache.
    assert_eq!(cache.archive_policy("none").await, Ok(None));
    let none = ArchivePolicy {
        name: "none".to_owned(),
        ..ArchivePolicy::clone(&gated.index.archive_policy("low").await.unwrap().unwrap())
    };
    cache.create_archive_policy(none).await.unwrap();
    assert!(cache.archive_policy("none").await.unwrap().is_some());
    cache.delete_archive_policy("none").await.unwrap();
    assert_eq!((cache.archive_policy("none").await, cache.cached_policy("none")), (Ok(None), None));
}

/// Another process has deleted something that is still cached here when its successor is created.
#[tokio::test]
async fn what_is_created_replaces_what_was_cached_under_its_name() {
    let (cache, gated) = cache().await;
    let others = &gated.index;
    cache.archive_policy("bool").await.unwrap().unwrap();
    others.delete_archive_policy("bool").await.unwrap();
    let low = cache.archive_policy("low").await.unwrap().unwrap();
    let policy = ArchivePolicy { name: "bool".to_owned(), ..ArchivePolicy::clone(&low) };
    cache.create_archive_policy(policy.clone()).await.unwrap();
    assert_eq!(cache.archive_policy("bool").await, Ok(Some(Arc::new(policy))));

    let former = ResourceType { name: "vm".into(), attributes: [].into() };
    cache.create_resource_type(former).await.unwrap();
    cache.resource_type("vm").await.unwrap().unwrap();
    others.delete_resource_type("vm").await.unwrap();
    let attribute = Attribute { kind: AttributeKind::Bool, required: false, fill: None };
    let vm = ResourceType { name: "vm".into(), attributes: [("on".into(), attribute)].into() };
    cache.create_resource_type(vm.clone()).await.unwrap();
    assert_eq!(cache.resource_type("vm").await, Ok(Some(Arc::new(vm))));

    for (number, former, next) in [(1, GENERIC, "vm"), (2, "vm", GENERIC)] {
        let create = async |resource_type: &str| {
            let new = NewResource { resource_type: resource_type.to_owned(), ..new_resource(number) };
            cache.create_resources(vec![new]).await.remove(0).unwrap().id
        };
        let id = create(former).await;
        others.delete_resources(&[id]).await.remove(0).unwrap();
        create(next).await;
        for shown in [former, next] {
            assert_eq!(cache.resource(shown, id).await, others.resource(shown, id).await, "{former}");
        }
    }
}

#[tokio::test]
async fn rules_follow_changes() {
    let (cache, gated) = cache().await;
    let rule = ArchivePolicyRule::new;
    let policy_of = async |name: &str| cache.archive_policy_name_for_metric(name).await.ok();
    assert_eq!(policy_of("cpu").await.as_deref(), Some("low"));
    cache.create_archive_policy_rule(rule("1", "cpu", "high")).await.unwrap();
    assert_eq!(policy_of("cpu").await.as_deref(), Some("high"));
    cache.create_archive_policy_rule(rule("2", "cpu", "medium")).await.unwrap();
    cache.rename_archive_policy_rule("1", "3").await.unwrap();
    assert_eq!(policy_of("cpu").await.as_deref(), Some("medium"));
    cache.delete_archive_policy_rule("2").await.unwrap();
    assert_eq!(policy_of("cpu").await.as_deref(), Some("high"));
    cache.delete_archive_policy_rule("3").await.unwrap();
    cache.delete_archive_policy_rule("default").await.unwrap();
    assert_eq!(
        cache.archive_policy_name_for_metric("cpu").await,
        Err(IndexerError::NoArchivePolicyRuleMatch("cpu".to_owned()))
    );
    // Another process creates one.
    gated.index.create_archive_policy_rule(rule("4", "c*", "bool")).await.unwrap();
    assert_eq!(policy_of("cpu").await.as_deref(), Some("bool"));
}

#[tokio::test]
async fn what_another_process_does_is_seen_once_it_is_told() {
    let (cache, other) = cache().await;
    assert_eq!(cache.metrics(&[id(1)]).await, Ok(vec![None]));
    other.index.create_metrics(vec![new_metric(1)]).await;
    assert!(cache.metrics(&[id(1)]).await.unwrap()[0].is_some());
    other.index.delete_metrics(&[id(1)]).await;
    cache.invalidate(&Touched::default().with_metrics([id(1), id(2)]));
    assert_eq!(cache.metrics(&[id(1)]).await, Ok(vec![None]));
}

#[tokio::test]
async fn warming_loads_as_much_as_fits() {
    let (cache, gated) = cache().await;
    gated.index.create_metrics((0..1500).map(new_metric).collect()).await;
    assert_eq!(cache.warm().await, Ok(1000));
    assert!(cache.cached_policy("low").is_some());
    assert_eq!((0..1500).filter(|number| cache.cached_metric(id(*number)).is_some()).count(), 1000);
    let reads = gated.reads.load(Ordering::Relaxed);
    assert_eq!(cache.archive_policy_name_for_metric("cpu").await, Ok("low".to_owned()));
    assert_eq!(gated.reads.load(Ordering::Relaxed), reads);
}

/// A runtime that shuts down cancels its tasks, and drops those that wait for them.
#[test]
fn a_write_while_the_process_stops_does_not_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (cache, _) = runtime.block_on(cache());
    let stopped = runtime.handle().clone();
    drop(runtime);
    let _within = stopped.enter();
    assert!(cache.delete_archive_policy_rule("absent").now_or_never().is_none());
}

/// A cache in front of a file with the default policies.
async fn cache_of_file() -> (TempDir, PathBuf, CachedIndexer<SqlIndexer>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let index = SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap();
    create_default_archive_policies(&index, &ArchivePolicy::default_methods()).await.unwrap();
    let options = CacheOptions { metrics_cached_max: 10, resources_cached_max: 10 };
    (folder, path, CachedIndexer::new(index, &options))
}

/// Executes a statement behind the index's back.
async fn damage(path: &Path, statement: &'static str) {
    let mut raw = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    raw.execute(statement).await.unwrap();
}

/// What is cached does not hide that it is damaged.
#[tokio::test]
async fn a_current_resource_is_read_past_the_cache() {
    let (_folder, path, cache) = cache_of_file().await;
    let id = cache.create_resources(vec![new_resource(1)]).await.remove(0).unwrap().id;
    damage(&path, "UPDATE resource SET creator = CAST(X'FF' AS TEXT)").await;
    assert!(cache.resource(GENERIC, id).await.unwrap().is_some());
    let read = cache.current_resource(GENERIC, id).await;
    assert!(matches!(read, Err(IndexerError::DamagedResource { id: named, .. }) if named == id), "{read:?}");
}

#[tokio::test]
async fn a_damaged_policy_keeps_no_metric_from_the_cache() {
    let (_folder, path, cache) = cache_of_file().await;
    cache.index().create_metrics(vec![new_metric(1)]).await.remove(0).unwrap();
    damage(&path, "UPDATE archive_policy SET definition = '[' WHERE name = 'bool'").await;
    assert_eq!(cache.warm().await, Ok(1));
}

/// Behind it another rule might be the wrong one.
#[tokio::test]
async fn a_damaged_rule_fails_only_the_metrics_that_it_may_match() {
    let (_folder, path, cache) = cache_of_file().await;
    for (name, pattern) in [("disks", "disk.*"), ("cpus", "cpu.*")] {
        cache.create_archive_policy_rule(ArchivePolicyRule::new(name, pattern, "high")).await.unwrap();
    }
    let rule =
        "UPDATE archive_policy_rule SET metric_pattern = CAST(X'637075FF' AS TEXT) WHERE name = 'cpus'";
    damage(&path, rule).await;
    assert_eq!(cache.archive_policy_name_for_metric("disk.used").await, Ok("high".to_owned()));
    for name in ["cpu.util", "other"] {
        let failed = cache.archive_policy_name_for_metric(name).await;
        let is_named = |item: &str| item == "archive policy rule cpus";
        assert!(
            matches!(&failed, Err(IndexerError::DamagedItem { item, .. }) if is_named(item)),
            "{failed:?}"
        );
    }
    cache.delete_archive_policy_rule("cpus").await.unwrap();
    assert_eq!(cache.archive_policy_name_for_metric("other").await, Ok("low".to_owned()));
}
