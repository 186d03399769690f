//! Queries across metrics read the same as queries of single metrics, wherever the data is: head or blocks.

use std::sync::{Arc, Mutex, mpsc};

use futures_util::FutureExt as _;
use gnudi_drivers::{
    aggregates::{AggregateStore, BlockKey, Fence, MetricWrite, memory::MemoryAggregates},
    incoming::memory::MemoryIncoming,
};
use gnudi_engine::{
    CrossMeasuresError, CrossMeasuresQuery, CrossReference, Engine, MeasuresQuery, ReadRange,
    cross::MetricRead,
};
use gnudi_indexer::MemoryIndexer;
use gnudi_model::{ArchivePolicy, ArchivePolicyItem, Measure, MetricId, SackCount, Timespan, Timestamp};
use gnudi_series::{
    cross::{CrossError, Fill},
    head::{Head, Layout},
    operations::{MetricName, Metrics, Operation},
};
use proptest::prelude::*;

fn policy(granularities: &[i64], methods: &[&str]) -> Arc<ArchivePolicy> {
    let item = |&seconds: &i64| ArchivePolicyItem::unlimited(Timespan::from_secs(seconds));
    let methods = methods.iter().map(|name| name.parse().unwrap()).collect();
    let definition = granularities.iter().map(item).collect();
    Arc::new(ArchivePolicy::new("p".to_owned(), 0, definition, methods).unwrap())
}

fn id(number: usize) -> MetricId {
    MetricId::new(Timestamp::from_secs(number as i64), number as u128)
}

/// An engine whose metrics have the points at these seconds.
async fn engine(policies: &[Arc<ArchivePolicy>], metrics: &[Vec<u32>]) -> Engine {
    let store = Arc::new(MemoryAggregates::default());
    for (number, (seconds, policy)) in metrics.iter().zip(policies).enumerate() {
        let (metric, layout) = (id(number), Layout::of(policy));
        let (mut head, mut blocks) = (Head::new(), Vec::new());
        for (position, chunk) in seconds.chunks(100).enumerate() {
            let point = |&second: &u32| Measure {
                timestamp: Timestamp::from_secs(i64::from(second)),
                value: f64::from(second) + number as f64,
            };
            head.fold(&layout, position as u64 + 1, &mut chunk.iter().map(point).collect());
            for block in head.take_sealed() {
                let key =
                    BlockKey { metric, granularity: block.granularity, first: block.first, last: block.last };
                blocks.push((key, block.bytes.into()));
            }
        }
        if !seconds.is_empty() {
            let write = MetricWrite { metric, blocks, expired: Vec::new(), head: head.encoded().into() };
            store.write(Fence::EVERYTHING, vec![write]).await.pop().unwrap().unwrap();
        }
    }
    let incoming = Arc::new(MemoryIncoming::new(SackCount::DEFAULT, 1 << 20));
    Engine::new(Arc::new(MemoryIndexer::default()), incoming, store, || Timestamp::EPOCH)
}

fn reference(number: usize, policy: &Arc<ArchivePolicy>, aggregation: &str) -> CrossReference {
    CrossReference {
        metric: id(number),
        policy: policy.clone(),
        shown_name: format!("shown-{number}"),
        name: MetricName { name: id(number).to_string(), aggregation: aggregation.to_owned() },
    }
}

fn query(references: Vec<CrossReference>) -> CrossMeasuresQuery {
    let names = references.iter().map(|reference| reference.name.clone()).collect();
    CrossMeasuresQuery {
        references,
        operations: Arc::new(Operation::Metric(Metrics::Many(names))),
        granularities: None,
        start: None,
        stop: None,
        needed_overlap: 0.0,
        fill: Some(Fill::DropNa),
        may_be_empty: false,
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(future)
}

fn seconds() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        1 => Just(Vec::new()),
        4 => prop::collection::btree_set(0u32..3_000, 1..100).prop_map(|set| set.into_iter().collect()),
        2 => Just((0..3_000).step_by(10).collect()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_series_is_what_a_query_of_its_metric_gives(
        // More than a chunk of metrics, of different lengths.
        metrics in prop::collection::vec(seconds(), 1..150),
        start in prop::option::of(0i64..3_000),
        stop in prop::option::of(0i64..3_000),
        twice in any::<prop::sample::Index>(),
    ) {
        let policy = policy(&[10, 60], &["mean", "max", "rate:mean"]);
        let policies = vec![policy.clone(); metrics.len()];
        let methods = ["mean", "max", "rate:mean"];
        let mut references: Vec<CrossReference> =
            (0..metrics.len()).map(|number| reference(number, &policy, methods[number % 3])).collect();
        let other = twice.index(metrics.len());
        references.push(reference(other, &policy, "max"));
        references.push(reference(other, &policy, "max"));
        let (start, stop) = (start.map(Timestamp::from_secs), stop.map(Timestamp::from_secs));
        run(async {
            let engine = engine(&policies, &metrics).await;
            let query = CrossMeasuresQuery { start, stop, ..query(references.clone()) };
            let answers = engine.cross_measures(query).await.unwrap();
            prop_assert_eq!(answers.len(), 2);
            for (answer, granularity) in answers.iter().zip([60, 10].map(Timespan::from_secs)) {
                prop_assert!(!answer.aggregated);
                prop_assert_eq!(answer.columns.len(), references.len());
                for (column, reference) in answer.columns.iter().zip(&references) {
                    let method = reference.name.aggregation.parse().unwrap();
                    let aggregations = vec![policy.aggregation(method, granularity).unwrap()];
                    let range = ReadRange { start, stop, resample: None };
                    let single = MeasuresQuery { aggregations, range };
                    let single = engine.measures(reference.metric, &policy, &single).await.unwrap().remove(0);
                    prop_assert_eq!(&*column.timestamps, &single.timestamps);
                    prop_assert_eq!(&column.values, &single.values);
                }
            }
            Ok(())
        })?;
    }
}

#[test]
fn what_policies_do_not_have_is_refused() {
    let minutes = policy(&[60, 300], &["mean"]);
    let hours = policy(&[3600, 300], &["mean", "max"]);
    let days = policy(&[86400], &["mean"]);
    let policies = [minutes.clone(), hours.clone(), days.clone()];
    run(async {
        let engine = engine(&policies, &[vec![0, 400], vec![0], vec![0]]).await;
        let common = query(vec![reference(0, &minutes, "mean"), reference(1, &hours, "mean")]);
        let answers = engine.cross_measures(common.clone()).await.unwrap();
        assert_eq!(answers.len(), 1, "they have five minutes in common");
        assert_eq!(answers[0].columns[0].values, [0.0, 400.0]);

        let none = query(vec![reference(0, &minutes, "mean"), reference(2, &days, "mean")]);
        let refused = engine.cross_measures(none).await.unwrap_err();
        let CrossMeasuresError::Cross(CrossError::Unaggregable(why)) = refused else { panic!("{refused}") };
        assert_eq!(why.reason, "No granularity match");
        assert_eq!(why.references[1].0.name, "shown-2");

        let missing = CrossMeasuresQuery { granularities: Some(vec![Timespan::from_secs(60)]), ..common };
        let refused = engine.cross_measures(missing).await.unwrap_err();
        let CrossMeasuresError::Cross(CrossError::Unaggregable(why)) = refused else { panic!("{refused}") };
        assert_eq!(why.reason, "Granularities are missing");
        let name = MetricName { name: "shown-1".to_owned(), aggregation: "mean".to_owned() };
        assert_eq!(why.references, [(name, Some(Timespan::from_secs(60)))]);

        let unknown = query(vec![reference(1, &hours, "max"), reference(0, &minutes, "nonsense")]);
        let refused = engine.cross_measures(unknown).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "Aggregation method 'nonsense' at granularity '0:01:00' for metric {} does not exist",
                id(0)
            )
        );
    });
}

#[test]
fn a_query_reads_a_bounded_number_of_points() {
    let policy = policy(&[10], &["mean"]);
    run(async {
        let engine = engine(std::slice::from_ref(&policy), &[(0..1000).step_by(10).collect()]).await;
        let method = "mean".parse().unwrap();
        let aggregations = vec![policy.aggregation(method, Timespan::from_secs(10)).unwrap()];
        let reads = vec![MetricRead { metric: id(0), policy: policy.clone(), aggregations }];
        let (series, held) = engine.measures_of_many(reads.clone(), None, None, 100).await.unwrap();
        assert_eq!(series[0][0].values.len(), 100);
        assert_eq!(held.count(), 100, "they count while they are held");
        let refused = engine.measures_of_many(reads, None, None, 99).await.unwrap_err();
        assert!(matches!(refused, CrossMeasuresError::TooManyPoints), "{refused}");
    });
}

/// While all processors are taken a short history can be read, and a long one waits.
#[test]
fn a_long_history_is_read_off_the_request_threads() {
    let policy = policy(&[1], &["mean"]);
    run(async {
        let metrics: [Vec<u32>; 2] = [1_000, 60_000].map(|points| (0..points).collect());
        let engine = engine(&[policy.clone(), policy.clone()], &metrics).await;
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let take = |_| {
            let released = released.clone();
            Box::pin(engine.compute(move || released.lock().unwrap().recv().is_err()))
        };
        let mut taken: Vec<_> = (0..engine.processor_count()).map(take).collect();
        assert!(taken.iter_mut().all(|work| work.as_mut().now_or_never().is_none()));
        let read = async |number: usize| {
            let aggregation = policy.aggregation("mean".parse().unwrap(), Timespan::from_secs(1)).unwrap();
            let query = MeasuresQuery { aggregations: vec![aggregation], range: ReadRange::default() };
            engine.measures(id(number), &policy, &query).await.unwrap()[0].values.len()
        };
        assert_eq!(read(0).await, 1_000);
        let mut long = Box::pin(read(1));
        for _ in 0..100 {
            assert!(long.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(release);
        for work in taken {
            assert!(work.await);
        }
        assert_eq!(long.await, 60_000);
    });
}
