//! Compares the catalogue with one that is loaded anew after each change, by this process and by others.

#[path = "../../drivers/tests/engines/database.rs"]
mod database;
#[path = "../../drivers/tests/engines/server.rs"]
mod server;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use database::{Database, Kind};
use fastrand::Rng;
use gnudi_drivers::{aggregates::memory::MemoryAggregates, incoming::memory::MemoryIncoming};
use gnudi_engine::Engine;
use gnudi_indexer::{
    CacheOptions, CachedIndexer, Creators, DatabaseOptions, FollowOptions, Indexer, MemoryIndexer,
    MetricScope, Metrics, MetricsChange, NewMetric, NewNamedMetric, NewResource, ResourceChange,
    ResourceTypeChange, Resources, SqlIndexer,
    conformance::{new_metric, new_resource},
    create_default_archive_policies,
};
use gnudi_model::{
    ArchivePolicy, Attribute, AttributeKind, AttributeValue, MetricId, ResourceType, SackCount, Timestamp,
};
use gnudi_prometheus_api::catalogue::{Catalogue, CatalogueError};
use gnudi_promql::{Limits, Matcher, parse_selector};
use uuid::Uuid;

const CACHE: CacheOptions = CacheOptions { metrics_cached_max: 1000, resources_cached_max: 1000 };
const NOW: Timestamp = Timestamp::from_secs(2_000_000_000);
/// The time limit for changes to become visible, on a busy machine too.
const SEEN_WITHIN: Duration = Duration::from_mins(1);
const UNSEEN_MAX: Duration = Duration::from_secs(10);

/// The catalogue of a process that uses this index.
fn catalogue(indexer: Arc<dyn Indexer>) -> Catalogue {
    let incoming = Arc::new(MemoryIncoming::new(SackCount::DEFAULT, u64::MAX));
    let engine = Engine::new(indexer, incoming, Arc::new(MemoryAggregates::default()), || NOW);
    Catalogue::new(Arc::new(engine), true)
}

fn matchers(text: &str) -> Vec<Matcher> {
    parse_selector(text, &Limits::default()).unwrap()
}

async fn select(catalogue: &Catalogue, query: &str, seen: Option<&MetricScope>) -> Vec<String> {
    select_any(catalogue, &[query], seen).await
}

async fn select_any(catalogue: &Catalogue, queries: &[&str], seen: Option<&MetricScope>) -> Vec<String> {
    let sets: Vec<Vec<Matcher>> = queries.iter().map(|query| matchers(query)).collect();
    let sets: Vec<&[Matcher]> = sets.iter().map(Vec::as_slice).collect();
    let found = catalogue.select(&sets, seen, 1000).await.unwrap();
    let mut found: Vec<String> =
        found.iter().map(|series| format!("{} {}", series.labels, series.archive_policy_name)).collect();
    found.sort();
    found
}

/// All series, including those without a name.
async fn everything(catalogue: &Catalogue) -> Vec<String> {
    let mut found = select(catalogue, "{__name__!=\"\"}", None).await;
    found.extend(select(catalogue, "{metric_id!=\"\",__name__=\"\"}", None).await);
    found
}

fn metric(number: u128) -> MetricId {
    MetricId(Uuid::from_u128(number))
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::String(value.into())
}

fn named(id: MetricId, whole_name: Option<&str>) -> NewNamedMetric {
    let (archive_policy_name, whole_name) = ("low".to_owned(), whole_name.map(str::to_owned));
    NewNamedMetric { id, unit: None, archive_policy_name, whole_name }
}

fn scraped(number: u128, creator: &str, metrics: &[(u128, &str, Option<&str>)]) -> NewResource {
    let metrics = metrics.iter().map(|(number, name, whole_name)| {
        ((*name).to_owned(), MetricsChange::Create(named(metric(*number), *whole_name)))
    });
    NewResource {
        resource_type: "prometheus".to_owned(),
        creator: creator.to_owned(),
        attributes: BTreeMap::from([("job".into(), text("node")), ("instance".into(), text("none"))]),
        metrics: metrics.collect(),
        ..new_resource(number)
    }
}

async fn create_types(indexer: &dyn Indexer) {
    create_default_archive_policies(indexer, &ArchivePolicy::default_methods()).await.unwrap();
    for (name, attributes) in [("prometheus", ["job", "instance"]), ("vm", ["host", "flavor"])] {
        let kind = AttributeKind::String { min_length: 0, max_length: 255 };
        let attribute = Attribute { kind, required: false, fill: None };
        let attributes = attributes.into_iter().map(|name| (name.into(), attribute.clone())).collect();
        indexer.create_resource_type(ResourceType { name: name.into(), attributes }).await.unwrap();
    }
}

fn memory() -> Arc<CachedIndexer<MemoryIndexer>> {
    Arc::new(CachedIndexer::new(MemoryIndexer::default(), &CACHE))
}

#[tokio::test]
async fn series_have_the_labels_of_their_metrics() {
    let indexer = memory();
    create_types(&*indexer).await;
    let catalogue = catalogue(indexer.clone());
    let catalogue = &catalogue;
    assert!(everything(catalogue).await.is_empty());
    let long = format!("x{{a=\"{}\"}}", "1".repeat(300));
    let cut = format!("x{{a=\"{}", "1".repeat(250));
    let series = [(1, "up", None), (2, "y{code=\"200\"}", None), (3, cut.as_str(), Some(long.as_str()))];
    let vm = NewResource {
        resource_type: "vm".to_owned(),
        project_id: Some("p1".to_owned()),
        attributes: BTreeMap::from([("host".into(), text("h1"))]),
        metrics: vec![(
            "disk.read".to_owned(),
            MetricsChange::Create(NewNamedMetric {
                unit: Some("B".to_owned()),
                archive_policy_name: "high".to_owned(),
                ..named(metric(4), None)
            }),
        )],
        ..new_resource(2)
    };
    let created = indexer.create_resources(vec![scraped(1, "c:p1", &series), vm]).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    assert_eq!(select(catalogue, "up", None).await, [r#"{__name__="up", job="node"} low"#]);
    assert_eq!(
        select(catalogue, "{code=~\"2..\"}", None).await,
        [r#"{__name__="y", code="200", job="node"} low"#]
    );
    let whole = format!(r#"{{__name__="x", a="{}", job="node"}} low"#, "1".repeat(300));
    assert_eq!(select(catalogue, "x", None).await, [whole]);
    let id = Uuid::from_u128(2);
    let vm = |name: &str, host: &str| {
        format!(
            "{{__name__=\"{name}\", host=\"{host}\", project=\"p1\", resource=\"{id}\", resource_id=\"{id}\", \
             type=\"vm\", unit=\"B\"}} high"
        )
    };
    assert_eq!(select(catalogue, "{\"disk.read\"}", None).await, [vm("disk.read", "h1")]);
    assert_eq!(select(catalogue, "ceilometer_disk_read", None).await, [vm("ceilometer_disk_read", "h1")]);
    assert!(select(catalogue, "ceilometer_up", None).await.is_empty(), "was written so");
    assert!(select(catalogue, "{__name__=~\"ceilometer_.*\"}", None).await.is_empty());
    let exported = matchers("ceilometer_disk_read");
    let names = catalogue.label_values("__name__", &[&exported], None).await.unwrap();
    assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), ["ceilometer_disk_read"]);
    let names = catalogue.label_values("__name__", &[], None).await.unwrap();
    assert_eq!(
        names.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["ceilometer_disk_read", "disk.read", "up", "x", "y"]
    );
    let units = catalogue.values_by_name("unit", None).await.unwrap();
    let units =
        units.iter().map(|(name, units)| (&**name, units.iter().map(|unit| &**unit).collect::<Vec<_>>()));
    assert_eq!(
        units.collect::<Vec<_>>(),
        [
            ("ceilometer_disk_read", vec!["B"]),
            ("disk.read", vec!["B"]),
            ("up", vec![]),
            ("x", vec![]),
            ("y", vec![])
        ]
    );

    let change = ResourceChange {
        attributes: BTreeMap::from([("host".into(), text("h2"))]),
        now: NOW,
        ..ResourceChange::default()
    };
    indexer.update_resource("vm", Uuid::from_u128(2), change).await.unwrap();
    assert_eq!(select(catalogue, "{host!=\"\"}", None).await, [vm("disk.read", "h2")]);
    indexer.move_metric(metric(1), "medium").await.unwrap();
    assert_eq!(select(catalogue, "up", None).await, [r#"{__name__="up", job="node"} medium"#]);
    indexer.delete_metrics(&[metric(1)]).await.remove(0).unwrap();
    assert!(select(catalogue, "up", None).await.is_empty());
    let census = catalogue.census(None, 1).await.unwrap();
    assert_eq!((census.series, census.values_by_label.len()), (3, 1));
    let refused = catalogue.select(&[&matchers("{__name__!=\"\"}")], None, 2).await.unwrap_err();
    assert_eq!(refused, CatalogueError::TooManySeries(2));
}

#[tokio::test]
async fn who_sees_what() {
    let indexer = memory();
    create_types(&*indexer).await;
    let catalogue = catalogue(indexer.clone());
    let new = vec![
        scraped(1, "c:p1", &[(1, "up", None)]),
        scraped(2, "c:p2", &[(2, "up", None), (3, "down", None)]),
        NewResource {
            project_id: Some("p1".to_owned()),
            ..scraped(3, "c:service", &[(4, "up{a=\"b\"}", None)])
        },
    ];
    assert!(indexer.create_resources(new).await.iter().all(Result::is_ok));
    let of = |project: &str| MetricScope {
        creators: Some(Creators::Of(project.to_owned())),
        resource_project_id: Some(project.to_owned()),
        resource_creators: None,
    };
    let up = r#"{__name__="up", job="node"} low"#;
    let labelled = r#"{__name__="up", a="b", job="node"} low"#;
    for (project, expected) in [("p1", &[labelled, up][..]), ("p2", &[up]), ("p3", &[])] {
        assert_eq!(select(&catalogue, "up", Some(&of(project))).await, expected);
    }
    let sees = async |project: &str| {
        let names = catalogue.label_values("__name__", &[], Some(&of(project))).await.unwrap();
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        (sees("p1").await, sees("p2").await),
        (vec!["up".to_owned()], vec!["down".to_owned(), "up".to_owned()])
    );
    // A caller who sees several writers' series can tell them apart.
    let id = |number| format!("{{__name__=\"up\", job=\"node\", metric_id=\"{}\"}} low", metric(number));
    assert_eq!(select(&catalogue, "up", None).await, [labelled.to_owned(), id(1), id(2)]);
}

#[tokio::test]
async fn a_series_that_several_sets_match_is_found_once() {
    let indexer = memory();
    create_types(&*indexer).await;
    let catalogue = catalogue(indexer.clone());
    let resource = Uuid::from_u128(1);
    let new = |number: u128, name: &str| NewMetric {
        id: metric(number),
        resource_id: Some(resource),
        name: Some(name.to_owned()),
        ..new_metric(1)
    };
    indexer.create_resources(vec![new_resource(1)]).await.remove(0).unwrap();
    let created = indexer.create_metrics(vec![new(1, "cpu"), new(2, "ceilometer_cpu")]).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    let own = select(&catalogue, "{resource_id!=\"\"}", None).await;
    assert_eq!(own.len(), 2);
    assert_eq!(select_any(&catalogue, &["{resource_id!=\"\"}", "{type!=\"\"}"], None).await, own);
    // Both metrics have the name of Ceilometer's exporters. The second one has no other in any set, but one label set in all.
    let exported = select(&catalogue, "ceilometer_cpu", None).await;
    assert!(exported.iter().all(|labels| labels.contains("metric_id")), "{exported:?}");
    let all = select_any(&catalogue, &["{resource_id!=\"\"}", "ceilometer_cpu"], None).await;
    let mut expected = vec![own.iter().find(|labels| labels.contains("\"cpu\"")).unwrap().clone()];
    expected.extend(exported);
    expected.sort();
    assert_eq!(all, expected);
}

#[tokio::test]
async fn nobody_waits_for_a_long_search() {
    let indexer = memory();
    create_types(&*indexer).await;
    let catalogue = catalogue(indexer.clone());
    let mut random = Rng::with_seed(1);
    let mut name = || (0..200).map(|_| if random.bool() { 'a' } else { 'b' }).collect::<String>();
    let new: Vec<NewMetric> =
        (1..6000).map(|number| NewMetric { name: Some(name()), ..new_metric(number) }).collect();
    assert!(indexer.create_metrics(new).await.iter().all(Result::is_ok));
    assert!(select(&catalogue, "absent", None).await.is_empty());
    // It takes seconds: an automaton has to know where each of the last 150 `a` was.
    let query = matchers("{__name__=~\"b*.*a.{150}\"}");
    let sets = [query.as_slice()];
    let mut long = std::pin::pin!(catalogue.select(&sets, None, 10_000));
    assert!(tokio::time::timeout(Duration::from_millis(100), long.as_mut()).await.is_err());
    // It has not locked the index.
    let other = NewMetric { name: Some("other".to_owned()), ..new_metric(9999) };
    indexer.create_metrics(vec![other]).await.remove(0).unwrap();
    assert_eq!(select(&catalogue, "other", None).await.len(), 1);
}

fn one(random: &mut Rng, of: &[&str]) -> String {
    (*random.choice(of).expect("choices")).to_owned()
}

/// One random call; it may be refused.
async fn play(index: &dyn Indexer, random: &mut Rng, time: i64) {
    let resource = Uuid::from_u128(100 + u128::from(random.u64(..5)));
    let id = metric(1 + u128::from(random.u64(..12)));
    let now = Timestamp::from_secs(2_000_000_000 + time);
    let name = one(random, &["up", "x{a=\"1\"}", "m"]);
    let whole_name = (random.u64(..3) == 0).then(|| "w{b=\"2\"}".to_owned());
    let new = named(id, whole_name.as_deref());
    let change = ResourceChange { now, ..ResourceChange::default() };
    match random.u64(..12) {
        0 => drop(index.create_metrics(vec![NewMetric { id, name: Some(name), ..new_metric(1) }]).await),
        1 | 2 => {
            let new =
                NewMetric { id, resource_id: Some(resource), name: Some(name), whole_name, ..new_metric(1) };
            drop(index.create_metrics(vec![new]).await);
        }
        3 => drop(index.delete_metrics(&[id]).await),
        4 => drop(index.move_metric(id, &one(random, &["low", "high"])).await),
        5 | 6 => {
            let resource_type = one(random, &["prometheus", "vm"]);
            let label = if resource_type == "vm" { "host" } else { "job" };
            let attributes = BTreeMap::from([(label.into(), text(&one(random, &["none", "a", "b"])))]);
            let metrics = vec![(name, MetricsChange::Create(new))];
            let new = NewResource { resource_type, attributes, metrics, ..new_resource(resource.as_u128()) };
            drop(index.create_resources(vec![new]).await);
        }
        7 | 8 => {
            let attach = if random.bool() { MetricsChange::Attach(id) } else { MetricsChange::Create(new) };
            let (metrics, append_metrics) = (Some(vec![(name, attach)]), random.bool());
            let change = ResourceChange { metrics, append_metrics, ..change };
            drop(index.update_resource("generic", resource, change).await);
        }
        9 => {
            let resource_type = one(random, &["prometheus", "vm"]);
            let label = if resource_type == "vm" { "host" } else { "instance" };
            let attributes = BTreeMap::from([(label.into(), text(&one(random, &["none", "a", "b"])))]);
            let project_id = Some(Some(one(random, &["p1", "p2"])));
            let change = ResourceChange { attributes, project_id, ..change };
            drop(index.update_resource(&resource_type, resource, change).await);
        }
        10 => drop(index.delete_resources(&[resource]).await),
        _ => {
            let kind = AttributeKind::String { min_length: 0, max_length: 255 };
            let attribute = Attribute { kind, required: false, fill: Some(text("filled")) };
            let change = if random.bool() {
                ResourceTypeChange { add: vec![("extra".into(), attribute)], ..ResourceTypeChange::default() }
            } else {
                ResourceTypeChange { delete: vec!["extra".into()], ..ResourceTypeChange::default() }
            };
            drop(index.update_resource_type("vm", change).await);
        }
    }
}

#[tokio::test]
async fn own_changes_are_seen_at_once() {
    for seed in 1..20 {
        let indexer = memory();
        create_types(&*indexer).await;
        let followed = catalogue(indexer.clone());
        let mut random = Rng::with_seed(seed);
        for step in 0..60 {
            play(&*indexer, &mut random, step).await;
            if random.u64(..3) == 0 {
                let truth = everything(&catalogue(indexer.clone())).await;
                assert_eq!(everything(&followed).await, truth, "seed {seed}, step {step}");
            }
        }
    }
}

/// Another process on the same database.
async fn process(url: &str) -> Arc<CachedIndexer<SqlIndexer>> {
    let index = SqlIndexer::open(DatabaseOptions::from_url(url).unwrap()).await.unwrap();
    let cache = CachedIndexer::new(index, &CACHE);
    let options = FollowOptions { poll_interval: Duration::from_millis(20), unseen_max: UNSEEN_MAX };
    cache.follow(options).await.unwrap();
    Arc::new(cache)
}

async fn changes_of_others_are_seen(kind: Kind) {
    let database = Database::start(kind);
    let url = database.create_database("catalogue");
    let indexers = [process(&url).await, process(&url).await];
    create_types(&*indexers[0]).await;
    let catalogues = [catalogue(indexers[0].clone()), catalogue(indexers[1].clone())];
    let mut random = Rng::with_seed(3);
    for round in 0..20 {
        for step in 0..8 {
            play(&*indexers[random.usize(..2)], &mut random, round * 100 + step).await;
            // Also between changes that were not seen yet.
            everything(&catalogues[random.usize(..2)]).await;
        }
        let truth = everything(&catalogue(process(&url).await)).await;
        for catalogue in &catalogues {
            let asked = Instant::now();
            while everything(catalogue).await != truth {
                assert!(asked.elapsed() < SEEN_WITHIN, "{:?}\n{truth:?}", everything(catalogue).await);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    // More new metrics than the feed lists.
    let new =
        (0..6000).map(|number| NewMetric { name: Some("many".to_owned()), ..new_metric(1 << 64 | number) });
    assert!(indexers[0].create_metrics(new.collect()).await.iter().all(Result::is_ok));
    let asked = Instant::now();
    while catalogues[1].select(&[&matchers("many")], None, 10_000).await.unwrap().len() < 6000 {
        assert!(asked.elapsed() < SEEN_WITHIN);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_other_processes_are_seen_on_postgresql() {
    changes_of_others_are_seen(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_other_processes_are_seen_on_mariadb() {
    changes_of_others_are_seen(Kind::MariaDb).await;
}
