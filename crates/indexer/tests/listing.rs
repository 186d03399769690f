//! Pages of a listing are the sorted whole, cut into parts.

mod engines;

use std::cmp::Ordering;

use engines::{Engine, EngineKind};
use gnudi_indexer::{
    ArchivePolicies, MetricFilter, MetricListing, MetricMarker, MetricSort, Metrics, NewMetric, NewResource,
    Page, Resources, SortKey, SqlIndexer, conformance::new_resource,
};
use gnudi_model::{ArchivePolicy, Metric, MetricId, Timestamp};
use proptest::{prelude::*, test_runner::TestRunner};
use uuid::Uuid;

/// A key's name, whether it ascends, whether nulls come first.
type Sort = (&'static str, bool, bool);

fn value(metric: &Metric, key: &str) -> Option<Vec<u8>> {
    let text = |text: &str| text.as_bytes().to_vec();
    match key {
        "id" => Some(metric.id.0.as_bytes().to_vec()),
        "creator" => Some(text(&metric.creator)),
        "name" => metric.name.as_deref().map(text),
        "unit" => metric.unit.as_deref().map(text),
        "archive_policy_name" => Some(text(&metric.archive_policy_name)),
        "resource_id" => metric.resource_id.map(|id| id.as_bytes().to_vec()),
        _ => Some(vec![]),
    }
}

fn compare(a: &Metric, b: &Metric, sorts: &[Sort]) -> Ordering {
    for (key, ascending, nulls_first) in sorts.iter().chain([&("id", true, true)]) {
        let ordering = match (value(a, key), value(b, key)) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) if *nulls_first => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) if *nulls_first => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) if *ascending => a.cmp(&b),
            (Some(a), Some(b)) => b.cmp(&a),
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

fn written(sort: Sort, spell_out: bool) -> MetricSort {
    let (key, ascending, nulls_first) = sort;
    let direction = if ascending { "asc" } else { "desc" };
    let nulls = match (ascending == nulls_first && !spell_out, nulls_first) {
        // Null is the least by default.
        (true, _) => "",
        (false, true) => "-nullsfirst",
        (false, false) => "-nullslast",
    };
    format!("{key}:{direction}{nulls}").parse().unwrap()
}

fn metric(number: u32) -> NewMetric {
    // A hash of the number, to choose from few values.
    let pick =
        |salt: u32, of: u32| (number.wrapping_mul(2_654_435_761).wrapping_add(salt * 40_503) >> 13) % of;
    let id = Uuid::from_u128(u128::from(number.wrapping_mul(2_246_822_519)) << 90 | u128::from(number));
    let (creator, policy) = (format!("creator{}", pick(1, 3)), ["low", "high"][pick(6, 2) as usize]);
    NewMetric {
        name: (pick(2, 4) > 0).then(|| format!("{}\u{e9}", ["b", "a", "B", ""][pick(3, 4) as usize])),
        unit: (pick(4, 2) > 0).then(|| format!("{}", pick(5, 2))),
        resource_id: number.is_multiple_of(3).then(|| resource_id(number / 2)),
        ..NewMetric::new(MetricId(id), &creator, policy, Timestamp::EPOCH)
    }
}

fn resource_id(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number) << 60)
}

fn resource(number: u32) -> NewResource {
    new_resource(resource_id(number).as_u128())
}

#[test]
fn pages_of_sqlite_are_the_sorted_whole_cut() {
    pages_are_the_sorted_whole_cut(EngineKind::Sqlite, 96);
}

#[test]
fn pages_of_postgres_are_the_sorted_whole_cut() {
    pages_are_the_sorted_whole_cut(EngineKind::Postgres, 48);
}

#[test]
fn pages_of_mariadb_are_the_sorted_whole_cut() {
    pages_are_the_sorted_whole_cut(EngineKind::MariaDb, 48);
}

fn pages_are_the_sorted_whole_cut(kind: EngineKind, cases: u32) {
    let engine = Engine::start(kind);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (indexer, metrics) = runtime.block_on(async {
        let indexer = SqlIndexer::open(engine.fresh()).await.unwrap();
        for policy in ArchivePolicy::defaults(&ArchivePolicy::default_methods()) {
            indexer.create_archive_policy(policy).await.unwrap();
        }
        let resources = indexer.create_resources((0..125).map(resource).collect()).await;
        assert!(resources.iter().all(Result::is_ok));
        let metrics: Result<Vec<_>, _> =
            indexer.create_metrics((0..250).map(metric).collect()).await.into_iter().collect();
        (indexer, metrics.unwrap())
    });
    let keys = SortKey::ALL.map(SortKey::name).to_vec();
    let sort = (prop::sample::select(keys), any::<bool>(), any::<bool>());
    let creator = prop::option::of(0..4u32);
    let strategy = (prop::collection::vec(sort, 0..4), any::<bool>(), 1..60usize, creator);
    let mut runner = TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() });
    runner
        .run(&strategy, |(sorts, spell_out, limit, creator)| {
            let filter = MetricFilter {
                creator: creator.map(|number| format!("creator{number}")),
                ..MetricFilter::default()
            };
            let mut expected: Vec<_> = metrics
                .iter()
                .filter(|metric| filter.creator.as_ref().is_none_or(|creator| metric.creator == *creator))
                .cloned()
                .collect();
            expected.sort_by(|a, b| compare(a, b, &sorts));
            let sorts: Vec<_> = sorts.iter().map(|sort| written(*sort, spell_out)).collect();
            let mut marker = None;
            for part in expected.chunks(limit).chain([&[][..]]) {
                let page = Page { limit, marker, sorts: sorts.clone() };
                let listing = MetricListing { filter: filter.clone(), page };
                let found = runtime.block_on(indexer.list_metrics(&listing)).unwrap();
                prop_assert_eq!(&found[..], part, "{:?}", listing);
                marker = found.last().map(|metric| MetricMarker::Id(metric.id));
                if marker.is_none() {
                    break;
                }
            }
            Ok(())
        })
        .unwrap();
}
