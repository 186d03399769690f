//! What rounds of an import know of the target and of earlier rounds.

use std::{collections::BTreeMap, slice};

use bytes::Bytes;
use gnudi_drivers::aggregates::memory::MemoryAggregates;
use gnudi_indexer::{Indexer, MemoryIndexer, create_default_archive_policies};
use gnudi_model::ArchivePolicy;
use gnudi_sql::{Host, Server, ServerOptions};

use super::*;
use crate::source::damaged::Damaged;

/// A round that is repeated after an outage does not read complete metrics again, and names what they lack.
#[tokio::test]
async fn what_metrics_lack_that_were_waited_for_is_remembered() {
    let indexer: &dyn Indexer = &MemoryIndexer::default();
    create_default_archive_policies(indexer, &ArchivePolicy::default_methods()).await.unwrap();
    let policy = indexer.archive_policy("low").await.unwrap().unwrap();
    let aggregates = &MemoryAggregates::default();
    let target = Target { indexer, aggregates, now: Timestamp::EPOCH };
    let host = Host::Tcp("localhost".to_owned(), 5432);
    let index = ServerOptions::new(Server::Postgres, host, "gnocchi", "gnocchi");
    let damaged = Arc::new(Damaged { points: Bytes::from_static(b"damaged") });
    let source = Source { index, storage: damaged.clone(), incoming: damaged };
    let (storage, incoming) = (source.storage.clone(), source.incoming.clone());
    let series = SeriesSource::new(storage, incoming, slice::from_ref(&*policy), HashSet::new(), true);
    let mut import = Import::new(&source, target).await.unwrap();
    let metric = MetricId(Uuid::from_u128(1));
    let in_motion = vec![NewMetric::new(metric, "admin", "low", Timestamp::EPOCH)];
    let mut report = Report::default();
    import.settle(&Arc::new(series), in_motion, &mut report).await.unwrap();
    assert!(matches!(&report.skipped[..], [reason] if reason.starts_with("points: ")), "{report:?}");
    assert_eq!(import.skipped, HashMap::from([(metric.0, report.skipped.into_iter().collect())]));
}

/// The target deleted a metric and created another, and did not answer.
#[tokio::test]
async fn writes_without_an_answer_are_found() {
    let indexer: &dyn Indexer = &MemoryIndexer::default();
    create_default_archive_policies(indexer, &ArchivePolicy::default_methods()).await.unwrap();
    let ids = [1, 2, 3].map(|number| MetricId(Uuid::from_u128(number)));
    let new = ids[1..].iter().map(|id| NewMetric::new(*id, "admin", "low", Timestamp::EPOCH));
    for created in indexer.create_metrics(new.collect()).await {
        created.unwrap();
    }
    let last_measures = Some(Timestamp(7));
    let complete = TargetMetric { place: MetricPlace::of(None, None), last_measures };
    let known = HashMap::from([(ids[0], complete), (ids[1], complete)]);
    let aggregates = &MemoryAggregates::default();
    let target = Target { indexer, aggregates, now: Timestamp::EPOCH };
    let found = found(target, &known).await.unwrap();
    let found = ids.map(|id| found.get(&id).map(|metric| metric.last_measures));
    assert_eq!(found, [None, Some(last_measures), Some(None)]);
}

#[test]
fn a_second_with_two_passes_proves_nothing() {
    let at = |second| Some(Timestamp::from_secs(second));
    // A round at 100.5 s imports the pass of 100.1 s. The pass of 100.9 s gets the same time in MySQL.
    assert_eq!(distinct(at(100), at(100)), None);
    assert_eq!(distinct(at(95), at(100)), None);
    assert_eq!(distinct(at(94), at(100)), at(94));
    // In PostgreSQL each pass has a time of its own.
    assert_eq!(distinct(at(100), None), at(100));
    assert_eq!((distinct(None, None), distinct(None, at(100))), (None, None));
}

#[test]
fn the_last_round_names_what_earlier_ones_left_out() {
    let text = str::to_owned;
    let earlier = vec![text("split c"), text("split a"), text("split b"), text("split a")];
    let mut skipped = vec![text("resource"), text("split b")];
    add_missing(&mut skipped, earlier);
    assert_eq!(skipped, ["resource", "split b", "split a", "split c"]);
}

#[test]
fn times_beyond_the_range_are_reported() {
    let revision = |ended_at, warranty: i64| SourceRevision {
        ended_at,
        attributes: BTreeMap::from([
            ("warranty".into(), AttributeValue::Datetime(Timestamp(warranty))),
            ("host".into(), AttributeValue::String("h".into())),
        ]),
        ..SourceRevision::default()
    };
    let skipped = |revisions| with_moved_times(&SourceResource { id: Uuid::from_u128(1), revisions });
    assert!(skipped(vec![revision(Some(Timestamp(5)), 7), revision(None, 7)]).is_empty());
    let beyond = skipped(vec![revision(Some(Timestamp::MAX), i64::MIN), revision(None, i64::MAX)]);
    let [end, warranty] = &beyond[..] else { panic!("{beyond:?}") };
    assert!(end.contains("its ended_at is not between"), "{end}");
    assert!(warranty.contains("its warranty is not between"), "{warranty}");
}

#[test]
fn resources_that_are_left_out_are_reported() {
    let ids = [1, 2, 3].map(Uuid::from_u128);
    let found = |id| SourceResource { id, revisions: Vec::new() };
    let skipped = without_attributes(&ids, &[found(ids[0]), found(ids[2])], "machine");
    let [skipped] = &skipped[..] else { panic!("{skipped:?}") };
    assert!(skipped.starts_with(&format!("resource {}: ", ids[1])) && skipped.contains("machine"));
    assert!(without_attributes(&ids[..1], &[found(ids[0])], "machine").is_empty());
}
