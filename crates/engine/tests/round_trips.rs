//! The number of a pass's calls to the stores is the same for 1,000 metrics as for 10, including sealing and
//! expiry.

mod support;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use gnudi_drivers::aggregates::memory::MemoryAggregates;
use gnudi_engine::{Engine, Metricd, MetricdOptions};
use gnudi_model::{Measure, Timestamp};
use parking_lot::Mutex;
use support::{
    batch_of,
    incoming::{Tap, TappedIncoming},
    indexer, indexer_of_sums, metric, options, point,
    store::Tapped,
    wait::until,
};

/// The number of calls by name.
#[derive(Default)]
struct Calls(Mutex<BTreeMap<&'static str, usize>>);

impl Calls {
    fn count(&self, call: &'static str) {
        *self.0.lock().entry(call).or_default() += 1;
    }

    fn take(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Tap for Arc<Calls> {
    fn called(&self, call: &'static str) {
        self.count(call);
    }
}

/// The calls of each of several passes over one sack with this many metrics: each pass seals blocks, the last
/// ones let the first blocks expire.
async fn passes(metrics: u128) -> Vec<BTreeMap<&'static str, usize>> {
    let (indexer, _) = indexer_of_sums(metrics, 3600).await;
    let calls = Arc::new(Calls::default());
    let incoming = TappedIncoming::new(1, calls.clone());
    let of_store = calls.clone();
    let store = Tapped::new(move |call, writes| {
        of_store.count(call);
        if writes.iter().any(|write| !write.blocks.is_empty()) {
            of_store.count("write: blocks sealed");
        }
        if writes.iter().any(|write| !write.expired.is_empty()) {
            of_store.count("write: blocks expired");
        }
        writes.len()
    });
    let engine = Engine::new(indexer, incoming, Arc::new(store), || Timestamp::EPOCH);
    let mut counted = Vec::new();
    for pass in 0..5 {
        // An hour apart, some points at each end.
        let points: Vec<Measure> = (0..130).map(|second| point(pass * 3600 + second, 1.0)).collect();
        engine.append(batch_of((0..metrics).map(|number| (metric(number), &points[..])))).await.unwrap();
        calls.take();
        engine.refresh(&[metric(0)], Duration::from_mins(1)).await.unwrap();
        counted.push(calls.take());
    }
    counted
}

#[tokio::test]
async fn a_pass_makes_as_many_calls_for_many_metrics_as_for_few() {
    let few = passes(10).await;
    assert_eq!(few, passes(1000).await);
    let total = |call| few.iter().filter_map(|pass| pass.get(call)).sum::<usize>();
    assert!(total("write: blocks sealed") > 0, "{few:?}");
    assert!(total("write: blocks expired") > 0, "{few:?}");
    for pass in &few {
        for call in ["pending", "read_heads", "write", "acknowledge"] {
            assert_eq!(pass.get(call), Some(&1), "{few:?}");
        }
        assert!(pass.get("list_blocks").is_none_or(|calls| *calls == 1), "{few:?}");
    }
}

/// With `greedy` off each sack is polled. On a store of objects the positions take a request for each process.
#[tokio::test]
async fn a_pass_over_nothing_asks_for_records_only() {
    let calls = Arc::new(Calls::default());
    let incoming = TappedIncoming::new(1, calls.clone());
    let (indexer, store) = (indexer(0, "low").await, MemoryAggregates::default());
    let engine = Engine::new(indexer, incoming, Arc::new(store), || Timestamp::EPOCH);
    let options = MetricdOptions {
        greedy: false,
        processing_delay: Duration::from_millis(2),
        ..options("test", Duration::from_hours(1))
    };
    let metricd = Metricd::start(Arc::new(engine), &options);
    // The first pass looks for the position to begin with.
    until("a pass", async || calls.take().contains_key("pending")).await;
    calls.take();
    until("more passes", async || calls.0.lock().get("pending").is_some_and(|passes| *passes > 2)).await;
    assert_eq!(calls.take().get("positions"), None);
    metricd.stop().await;
}
