//! Caches of several processes on one database: each sees changes of the others within the interval, and bypasses its
//! cache if it cannot poll.

mod engines;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use engines::database::{Database, Kind};
use fastrand::Rng;
use gnudi_indexer::{
    ArchivePolicies, ArchivePolicyRules, CacheOptions, CachedIndexer, DatabaseOptions, FollowOptions,
    Indexer, IndexerError, Metrics, MetricsChange, NewMetric, NewNamedMetric, NewResource, NewRevision,
    ResourceChange, ResourceTypeChange, ResourceTypes, Resources, SqlIndexer, Touched, Which,
    conformance::{id as metric, named_metric, new_metric, new_resource, with_back_window},
    create_default_archive_policies,
};
use gnudi_model::{
    ArchivePolicy, ArchivePolicyRule, Attribute, AttributeKind, AttributeValue, MetricId, ResourceType,
    Timestamp,
};
use uuid::Uuid;

type Cache = CachedIndexer<SqlIndexer>;

const POLL: Duration = Duration::from_millis(20);
/// By then changes must be visible, even on a busy machine.
const SEEN_WITHIN: Duration = Duration::from_secs(30);
/// A machine that stands still polls late, and keeps what it knows.
const UNSEEN_MAX: Duration = Duration::from_mins(10);

async fn cache(url: &str) -> Cache {
    cache_within(url, SEEN_WITHIN, UNSEEN_MAX).await
}

/// With limits for calls of the database, and for contents without a poll.
async fn cache_within(url: &str, timeout: Duration, unseen_max: Duration) -> Cache {
    let mut options = DatabaseOptions::from_url(url).unwrap();
    if let DatabaseOptions::Server(options) = &mut options {
        options.timeout = timeout;
    }
    let index = SqlIndexer::open(&options).await.unwrap();
    let cache = Cache::new(index, &CacheOptions { metrics_cached_max: 1000, resources_cached_max: 1000 });
    cache.follow(FollowOptions { poll_interval: POLL, unseen_max }).await.unwrap();
    cache
}

fn created(number: u128) -> MetricsChange {
    MetricsChange::Create(NewNamedMetric::new(metric(number), "low"))
}

/// Repeats a request until the answer is as expected.
async fn until<T: PartialEq + std::fmt::Debug>(wanted: T, ask: impl AsyncFn() -> T) {
    let asked = Instant::now();
    loop {
        let answer = ask().await;
        if answer == wanted {
            return;
        }
        assert!(asked.elapsed() < SEEN_WITHIN, "still {answer:?}, not {wanted:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Every kind of change, seen through a cache with the previous state.
async fn changes_are_seen(url: &str) {
    let (one, two) = (cache(url).await, cache(url).await);
    create_default_archive_policies(&one, &ArchivePolicy::default_methods()).await.unwrap();
    let of_resource = |number, resource| named_metric(number, Some(resource), &format!("cpu{number}"));
    // New items are reported to subscribers.
    let subscriptions = [&one, &two].map(|cache| cache.change_log().unwrap().subscribe());
    let new = NewResource { metrics: vec![("new".to_owned(), created(901))], ..new_resource(900) };
    one.create_resources(vec![new]).await.remove(0).unwrap();
    one.create_metrics(vec![new_metric(902)]).await.remove(0).unwrap();
    for subscription in &subscriptions {
        let mut seen = BTreeSet::new();
        let asked = Instant::now();
        while seen != BTreeSet::from([901, 902].map(Uuid::from_u128)) {
            match subscription.take().created {
                Which::These(ids) => seen.extend(ids),
                Which::All => panic!("each is named"),
            }
            assert!(asked.elapsed() < SEEN_WITHIN, "only {seen:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    // A metric that is deleted, by itself and with its resource.
    let resources = one.create_resources(vec![new_resource(1), new_resource(2)]).await;
    assert!(resources.iter().all(Result::is_ok), "{resources:?}");
    let metrics = one.create_metrics(vec![new_metric(1), of_resource(2, 1)]).await;
    assert!(metrics.iter().all(Result::is_ok), "{metrics:?}");
    assert!(two.metrics(&[metric(1), metric(2)]).await.unwrap().iter().all(Option::is_some));
    assert!(two.cached_metric(metric(1)).is_some() && two.cached_metric(metric(2)).is_some());
    one.delete_metrics(&[metric(1)]).await.remove(0).unwrap();
    until(true, async || two.cached_metric(metric(1)).is_none()).await;
    assert_eq!(two.metrics(&[metric(1)]).await.unwrap(), [None]);
    assert!(two.metrics(&[metric(2)]).await.unwrap()[0].is_some());

    // A resource that gets a metric, an end, and is deleted with its metrics.
    let shown = async |cache: &Cache| {
        let resource = cache.resource("generic", Uuid::from_u128(1)).await.unwrap();
        resource.map(|resource| (resource.metrics.len(), resource.ended_at))
    };
    assert_eq!(shown(&two).await, Some((1, None)));
    one.create_metrics(vec![of_resource(3, 1)]).await.remove(0).unwrap();
    until(Some((2, None)), async || shown(&two).await).await;
    let end = Timestamp::from_secs(4_000_000_000);
    let change = ResourceChange { ended_at: Some(Some(end)), now: end, ..ResourceChange::default() };
    two.update_resource("generic", Uuid::from_u128(1), change).await.unwrap();
    assert_eq!(shown(&two).await, Some((2, Some(end))), "one's own change is seen at once");
    until(Some((2, Some(end))), async || shown(&one).await).await;
    assert!(two.named_metrics(&[(Uuid::from_u128(1), "cpu2")]).await.unwrap()[0].is_some());
    one.delete_resources(&[Uuid::from_u128(1)]).await;
    until(None, async || shown(&two).await).await;
    until(true, async || two.cached_metric(metric(2)).is_none()).await;
    assert_eq!(two.named_metrics(&[(Uuid::from_u128(1), "cpu2")]).await.unwrap(), [None]);

    // A metric that moves to another resource.
    one.create_metrics(vec![new_metric(5)]).await.remove(0).unwrap();
    let owner = async || two.metrics(&[metric(5)]).await.unwrap()[0].as_ref().unwrap().resource_id;
    assert_eq!(owner().await, None);
    let attach = ResourceChange {
        metrics: Some(vec![("cpu".to_owned(), MetricsChange::Attach(metric(5)))]),
        append_metrics: true,
        now: end,
        ..ResourceChange::default()
    };
    one.update_resource("generic", Uuid::from_u128(2), attach).await.unwrap();
    until(Some(Uuid::from_u128(2)), owner).await;

    policies_and_types_are_seen(&one, &two).await;

    // A change of one's own past the cache, as one that is committed after its caller has given up.
    one.create_metrics(vec![new_metric(6)]).await.remove(0).unwrap();
    assert!(one.cached_metric(metric(6)).is_some());
    one.index().delete_metrics(&[metric(6)]).await.remove(0).unwrap();
    until(true, async || one.cached_metric(metric(6)).is_none()).await;
}

async fn policies_and_types_are_seen(one: &Cache, two: &Cache) {
    let low = two.archive_policy("low").await.unwrap().unwrap();
    let back_window = async || two.archive_policy("low").await.unwrap().unwrap().back_window;
    one.update_archive_policy("low", with_back_window(&low, 7)).await.unwrap();
    until(7, back_window).await;
    let policy = async |name: &str| two.archive_policy_name_for_metric(name).await.ok();
    let rule = ArchivePolicyRule::new;
    let before = policy("disk.io").await;
    one.create_archive_policy_rule(rule("disk", "disk.*", "high")).await.unwrap();
    until(Some("high".to_owned()), async || policy("disk.io").await).await;
    one.delete_archive_policy_rule("disk").await.unwrap();
    until(before, async || policy("disk.io").await).await;
    one.create_archive_policy(ArchivePolicy { name: "gone".to_owned(), ..(*low).clone() }).await.unwrap();
    assert!(two.archive_policy("gone").await.unwrap().is_some());
    one.delete_archive_policy("gone").await.unwrap();
    until(None, async || two.archive_policy("gone").await.unwrap().map(|policy| policy.name.clone())).await;

    let kind = AttributeKind::Number { min: None, max: None };
    let attribute = Attribute { kind, required: false, fill: None };
    let attributes = BTreeMap::from([("vcpus".into(), attribute.clone())]);
    one.create_resource_type(ResourceType { name: "vm".into(), attributes }).await.unwrap();
    let names = async || {
        let vm = two.resource_type("vm").await.unwrap()?;
        Some(vm.attributes.keys().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(names().await, Some(vec!["vcpus".to_owned()]));
    let change =
        ResourceTypeChange { add: vec![("host".into(), attribute)], ..ResourceTypeChange::default() };
    one.update_resource_type("vm", change).await.unwrap();
    until(Some(vec!["host".to_owned(), "vcpus".to_owned()]), names).await;
    one.delete_resource_type("vm").await.unwrap();
    until(None, names).await;
}

const METRICS: u64 = 8;
const RESOURCES: u64 = 4;

/// One random call; errors are valid results.
async fn play(cache: &Cache, random: &mut Rng, time: i64) {
    let resource = Uuid::from_u128(100 + u128::from(random.u64(..RESOURCES)));
    let id = metric(1 + u128::from(random.u64(..METRICS)));
    let now = Timestamp::from_secs(2_000_000_000 + time);
    match random.u64(..12) {
        0 => drop(cache.create_metrics(vec![NewMetric { id, ..new_metric(1) }]).await),
        1 => {
            let name = Some(format!("m{}", random.u64(..3)));
            let new = NewMetric { id, resource_id: Some(resource), name, ..new_metric(1) };
            drop(cache.create_metrics(vec![new]).await);
        }
        2 => drop(cache.delete_metrics(&[id]).await),
        3 => {
            let number = resource.as_u128();
            drop(cache.create_resources(vec![new_resource(number)]).await);
        }
        4 => {
            let change = [created(id.0.as_u128()), MetricsChange::Attach(id)][random.usize(..2)].clone();
            let metrics = Some(vec![(format!("m{}", random.u64(..3)), change)]);
            let change =
                ResourceChange { metrics, append_metrics: random.bool(), now, ..ResourceChange::default() };
            drop(cache.update_resource("generic", resource, change).await);
        }
        5 => {
            let user_id = Some(Some(format!("user{}", random.u64(..9))));
            let change = ResourceChange {
                user_id,
                now,
                revision: NewRevision::IfChanged,
                ..ResourceChange::default()
            };
            drop(cache.update_resource("generic", resource, change).await);
        }
        6 => drop(cache.delete_resources(&[resource]).await),
        7 => {
            let low = cache.archive_policy("low").await.unwrap().unwrap();
            drop(cache.update_archive_policy("low", with_back_window(&low, random.u64(..9))).await);
        }
        8 => {
            let name = format!("rule{}", random.u64(..3));
            let pattern = ["cpu.*", "cpu.util", "*"][random.usize(..3)];
            let rule = ArchivePolicyRule::new(&name, pattern, ["low", "high"][random.usize(..2)]);
            drop(cache.create_archive_policy_rule(rule).await);
        }
        9 => drop(cache.delete_archive_policy_rule(&format!("rule{}", random.u64(..3))).await),
        _ => drop(answers(cache).await),
    }
}

/// Everything that may be cached, as text.
async fn answers(index: &(impl Indexer + Sized)) -> Vec<String> {
    let ids: Vec<MetricId> = (1..=u128::from(METRICS)).map(metric).collect();
    let mut answers = vec![format!("{:?}", index.metrics(&ids).await)];
    for resource in (100..).take(RESOURCES as usize).map(Uuid::from_u128) {
        answers.push(format!("{:?}", index.resource("generic", resource).await));
        let names = [(resource, "m0"), (resource, "m1"), (resource, "m2")];
        answers.push(format!("{:?}", index.named_metrics(&names).await));
    }
    for name in ["low", "high"] {
        answers.push(format!("{:?}", index.archive_policy(name).await));
    }
    for name in ["cpu.util", "cpu.idle", "disk"] {
        answers.push(format!("{:?}", index.archive_policy_name_for_metric(name).await));
    }
    answers
}

async fn random_changes_are_seen(url: &str, seed: u64) {
    let caches = [cache(url).await, cache(url).await];
    create_default_archive_policies(&caches[0], &ArchivePolicy::default_methods()).await.unwrap();
    let mut random = Rng::with_seed(seed);
    for round in 0..25 {
        for step in 0..8 {
            let cache = &caches[random.usize(..2)];
            play(cache, &mut random, round * 100 + step).await;
        }
        // Whatever was cached at any time, even a moment ago, is correct after the interval.
        let truth = answers(caches[0].index()).await;
        for cache in &caches {
            until(truth.clone(), async || answers(cache).await).await;
        }
    }
}

/// A cache that cannot poll does not use its contents.
async fn nothing_is_remembered_unseen(database: &Database) {
    let unseen_max = Duration::from_millis(500);
    let url = database.create_database("unseen");
    let cache = cache_within(&url, Duration::from_secs(3), unseen_max).await;
    create_default_archive_policies(&cache, &ArchivePolicy::default_methods()).await.unwrap();
    cache.create_metrics(vec![new_metric(1)]).await.remove(0).unwrap();
    let mut tries = 0;
    loop {
        assert!(cache.metrics(&[metric(1)]).await.unwrap()[0].is_some());
        cache.archive_policy("low").await.unwrap().unwrap();
        tokio::time::sleep(unseen_max * 2).await;
        if cache.cached_metric(metric(1)).is_some() {
            break;
        }
        // The machine may have stood still.
        tries += 1;
        assert!(tries < 10, "remembered as long as nothing changes");
    }
    database.process.pause();
    let paused = Instant::now();
    until(true, async || cache.cached_metric(metric(1)).is_none() && cache.cached_policy("low").is_none())
        .await;
    assert!(paused.elapsed() < unseen_max * 20, "{:?}", paused.elapsed());
    assert!(matches!(cache.metrics(&[metric(1)]).await, Err(IndexerError::Unavailable(_))));
    database.process.resume();
    until(true, async || {
        cache.metrics(&[metric(1)]).await.is_ok_and(|found| found[0].is_some())
            && cache.cached_metric(metric(1)).is_some()
    })
    .await;
}

/// The feed itself: contiguous numbers, and old entries are removed.
async fn old_entries_go(url: &str) {
    let index = SqlIndexer::open(&DatabaseOptions::from_url(url).unwrap()).await.unwrap();
    create_default_archive_policies(&index, &ArchivePolicy::default_methods()).await.unwrap();
    let before = index.latest().await.unwrap().number;
    for _ in 0..3 {
        let low = index.archive_policy("low").await.unwrap().unwrap();
        index.update_archive_policy("low", with_back_window(&low, 1)).await.unwrap();
    }
    index.create_metrics(vec![new_metric(1)]).await.remove(0).unwrap();
    let last = index.entries_from(before + 4).await.unwrap().pop().unwrap();
    assert_eq!(last.touched, Touched::default().with_created([metric(1)]), "what is new is told as such");
    let entries = index.entries_from(before + 1).await.unwrap();
    let numbers: Vec<_> = entries.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [before + 1, before + 2, before + 3, before + 4]);
    assert_eq!(entries[0].touched, entries[1].touched);
    assert_ne!(entries[0].transaction, entries[1].transaction, "they are told apart with one number, too");
}

/// A cache of a new database that has seen a change of another process.
async fn follower(database: &Database, name: &str, unseen_max: Duration) -> Cache {
    let cache = cache_within(&database.create_database(name), SEEN_WITHIN, unseen_max).await;
    create_default_archive_policies(&cache, &ArchivePolicy::default_methods()).await.unwrap();
    let other = SqlIndexer::open(&DatabaseOptions::from_url(&database.url(name)).unwrap()).await.unwrap();
    let subscription = cache.change_log().unwrap().subscribe();
    other.create_metrics(vec![new_metric(1)]).await.remove(0).unwrap();
    until(true, async || subscription.take().created != Which::default()).await;
    cache
}

/// Another primary has the number of the cache's last change, and this change instead.
async fn replace_last_change(cache: &Cache, database: &Database, name: &str, change: &str) {
    let number = cache.index().latest().await.unwrap().number;
    let replace = format!("UPDATE index_change SET process = 1, touched = '{{}}' WHERE number = {number}");
    database.execute(name, &format!("BEGIN; {change}; {replace}; COMMIT"));
}

/// A replica that lacks the latest transaction becomes the primary, and another one gets its number.
async fn a_lost_entry_is_noticed(database: &Database) {
    let cache = follower(database, "lost", UNSEEN_MAX).await;
    let back_window = async || cache.archive_policy("low").await.unwrap().unwrap().back_window;
    assert_eq!(back_window().await, 0);
    let change = "UPDATE archive_policy SET back_window = 3 WHERE name = 'low'";
    replace_last_change(&cache, database, "lost", change).await;
    until(3, back_window).await;
}

/// With such a transaction goes its change of a type, and another change gets its version. The connection stays, as with a
/// proxy.
async fn a_lost_change_of_a_type_is_noticed(database: &Database) {
    let cache = follower(database, "types", UNSEEN_MAX).await;
    create_vm(&cache).await;
    replace_last_change(&cache, database, "types", RENAME_ATTRIBUTE).await;
    until(true, async || has_host(&cache).await).await;
}

/// As above, but while there are no polls: the feed has nothing of it.
async fn a_change_of_a_type_that_is_lost_unseen_is_noticed(database: &Database) {
    let cache = follower(database, "outage", Duration::from_millis(500)).await;
    create_vm(&cache).await;
    database.execute("outage", "ALTER TABLE index_change RENAME TO unseen");
    let is_used = async || {
        cache.archive_policy("low").await.unwrap().unwrap();
        cache.cached_policy("low").is_some()
    };
    until(false, is_used).await;
    database.execute("outage", &format!("{RENAME_ATTRIBUTE}; ALTER TABLE unseen RENAME TO index_change"));
    until(true, async || has_host(&cache).await).await;
}

/// Creates a type with the attribute `vcpus`, and a resource of it: neither is in the feed.
async fn create_vm(cache: &Cache) {
    let kind = AttributeKind::Number { min: None, max: None };
    let attributes = BTreeMap::from([("vcpus".into(), Attribute { kind, required: false, fill: None })]);
    cache.create_resource_type(ResourceType { name: "vm".into(), attributes }).await.unwrap();
    let new = NewResource { resource_type: "vm".to_owned(), ..new_resource(1) };
    cache.create_resources(vec![new]).await.remove(0).unwrap();
}

/// Another type at the same version.
const RENAME_ATTRIBUTE: &str = "UPDATE resource_attribute SET name = 'host'";

/// Whether that type's attribute is known.
async fn has_host(cache: &Cache) -> bool {
    let attributes = BTreeMap::from([("host".into(), AttributeValue::Number(1.0))]);
    let change = ResourceChange { attributes, ..ResourceChange::default() };
    cache.update_resource("vm", Uuid::from_u128(1), change).await.is_ok()
}

async fn changes_are_told(kind: Kind, seed: u64) {
    let database = Database::start(kind);
    changes_are_seen(&database.create_database("seen")).await;
    random_changes_are_seen(&database.create_database("random"), seed).await;
    old_entries_go(&database.create_database("old")).await;
    a_lost_entry_is_noticed(&database).await;
    a_lost_change_of_a_type_is_noticed(&database).await;
    a_change_of_a_type_that_is_lost_unseen_is_noticed(&database).await;
    nothing_is_remembered_unseen(&database).await;
}

tests! {
    postgresql_tells_of_changes: changes_are_told(Kind::Postgres, 0x5eed_0001);
    mariadb_tells_of_changes: changes_are_told(Kind::MariaDb, 0x5eed_0002);
}
