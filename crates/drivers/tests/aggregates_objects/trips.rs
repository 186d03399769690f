//! A call takes as many requests for a thousand metrics as for ten.

use std::time::Duration;

use gnudi_drivers::{
    aggregates::{AggregateStore, Fence, objects::ObjectAggregatesOptions},
    objects::memory::{Call, MemoryObjects},
};
use gnudi_model::MetricId;

use crate::{
    setup::{TestClock, named, open, open_with, options},
    support::aggregate_items::{all_blocks, head, key, metric, write},
    world::apply,
};

/// Requests of: a pass's read in another process, its write, a read of all blocks in a third, and a listing.
async fn requests(metrics: usize) -> [u64; 4] {
    let objects = MemoryObjects::default();
    // All in shard 3 of 128.
    let ids: Vec<usize> = (0..metrics).map(|at| at * 128 + 3).collect();
    let (head, block) = ("h".repeat(550), "b".repeat(700));
    let pass = |round: i64| {
        let write = |id: &usize| write(*id, &head, &[(key(*id, round * 60), &block)]);
        ids.iter().map(write).collect::<Vec<_>>()
    };
    let options = ObjectAggregatesOptions {
        in_manifest_bytes_max: 2 << 20,
        merged_runs_min: 100,
        runs_max: 100,
        ..Default::default()
    };
    let store = open(&objects, options.clone()).await;
    for round in 0..4 {
        assert!(store.write(Fence::EVERYTHING, pass(round)).await.iter().all(Result::is_ok));
    }
    store.settle().await;
    let known: Vec<MetricId> = ids.iter().copied().map(metric).collect();
    let other = open(&objects, options.clone()).await;
    // The first read of a process searches for the newest manifest.
    assert!(other.read_heads(&known[..1]).await[0].is_ok());
    let other_reader = open(&objects, options).await;
    assert!(other_reader.read_heads(&known[..1]).await[0].is_ok());
    let mut last = objects.calls_total();
    let mut since = || {
        let total = objects.calls_total();
        total - std::mem::replace(&mut last, total)
    };
    assert!(other.read_heads(&known).await.iter().all(|head| head.as_ref().is_ok_and(Option::is_some)));
    let read = since();
    assert!(other.write(Fence::EVERYTHING, pass(4)).await.iter().all(Result::is_ok));
    let written = since();
    let ranges: Vec<_> = ids.iter().copied().map(all_blocks).collect();
    let blocks = other_reader.read_blocks(&ranges).await;
    assert!(blocks.iter().all(|blocks| blocks.as_ref().unwrap().whole.len() == 5));
    let of_blocks = since();
    let keys = other_reader.list_blocks(&ranges).await;
    assert!(keys.iter().all(|keys| keys.as_ref().unwrap().len() == 5));
    [read, written, of_blocks, since()]
}

#[tokio::test]
async fn they_do_not_grow_with_the_metrics() {
    let [few, many] = [requests(10).await, requests(1000).await];
    assert_eq!(few, many);
    let [read, written, of_blocks, listed] = many;
    // A check for a newer manifest, and the heads of the newest run; the indexes are cached.
    assert!(read <= 2, "{read}");
    // A manifest, with the table.
    assert_eq!(written, 1);
    // Manifests (one new, then none), an index, and the blocks of five runs.
    assert!(of_blocks <= 5 + 1 + 5, "{of_blocks}");
    assert_eq!(listed, 1);
}

#[tokio::test]
async fn a_pass_over_what_is_known_takes_one() {
    passes_over_what_is_known(ObjectAggregatesOptions::default(), 1).await;
    // With tables in objects of their own.
    passes_over_what_is_known(ObjectAggregatesOptions { in_manifest_bytes_max: 0, ..Default::default() }, 2)
        .await;
}

async fn passes_over_what_is_known(options: ObjectAggregatesOptions, wanted: u64) {
    let objects = MemoryObjects::default();
    let store = open(&objects, options).await;
    let ids: Vec<usize> = (0..100).map(|at| at * 128).collect();
    let known: Vec<MetricId> = ids.iter().copied().map(metric).collect();
    store.raise(Fence::EVERYTHING).await.unwrap();
    for round in 0..3 {
        let before = objects.calls_total();
        assert!(store.read_own_heads(Fence::EVERYTHING, &known).await.iter().all(Result::is_ok));
        let writes = ids.iter().map(|id| write(*id, &format!("head {round}"), &[])).collect();
        assert!(store.write(Fence::EVERYTHING, writes).await.iter().all(Result::is_ok));
        let requests = objects.calls_total() - before;
        assert_eq!(requests, wanted, "in round {round}");
        store.settle().await;
    }
    // Of each shard when it was found empty, and never again.
    assert_eq!(objects.calls(Call::List), 128);
}

/// Requests and bytes, read and written, of so many passes over 100 metrics with a block each; of them all, and without
/// what merges take.
async fn passes(count: i64) -> [f64; 3] {
    let (objects, clock) = (MemoryObjects::default(), TestClock::default());
    let store = open_with(objects.clone(), &clock, ObjectAggregatesOptions::default()).await;
    store.raise(Fence::EVERYTHING).await.unwrap();
    let (requests, stored) = (objects.calls_total(), objects.bytes_total());
    let ids: Vec<usize> = (0..100).map(|at| at * 128).collect();
    let known: Vec<MetricId> = ids.iter().copied().map(metric).collect();
    let (head, block) = ("h".repeat(500), "b".repeat(700));
    let mut bytes = 0;
    for round in 0..count {
        clock.advance(4_000);
        let before = objects.bytes_total();
        assert!(store.read_own_heads(Fence::EVERYTHING, &known).await.iter().all(Result::is_ok));
        let writes = ids.iter().map(|id| write(*id, &head, &[(key(*id, round * 60), &block)])).collect();
        assert!(store.write(Fence::EVERYTHING, writes).await.iter().all(Result::is_ok));
        bytes += objects.bytes_total() - before;
        store.settle().await;
    }
    let totals = [objects.calls_total() - requests, objects.bytes_total() - stored, bytes];
    totals.map(|total| total as f64 / count as f64)
}

/// With ten times as much stored a block is merged once more: runs of six are merged to one.
#[tokio::test]
async fn what_a_pass_takes_does_not_depend_on_what_is_stored() {
    let (few, many) = (passes(36).await, passes(360).await);
    let [requests, bytes, without_merges] = [0, 1, 2].map(|figure| many[figure] / few[figure]);
    assert!(requests < 1.2, "{few:?} {many:?}");
    assert!(bytes < 2.0, "{few:?} {many:?}");
    assert!(without_merges < 1.2, "{few:?} {many:?}");
}

/// Each has runs and tables in memory, and shards grow alike.
#[tokio::test]
async fn large_merges_of_shards_follow_each_other() {
    let objects = MemoryObjects::default();
    let options =
        ObjectAggregatesOptions { large_merges_max: 1, in_manifest_bytes_max: 1 << 20, ..options() };
    let store = open(&objects, options).await;
    let long = "l".repeat(500);
    // Metric 2 lies in shard 0 of 2, and metric 1 in shard 1. The first table of a shard is an object of its own, the
    // second one is in a manifest's.
    for id in [2, 1] {
        apply(&store, Fence::EVERYTHING, id, &long).await.unwrap();
    }
    let [first, second] = [0, 1].map(|shard| objects.hold(Call::Put, &format!("shard/{shard}/table/")));
    apply(&store, Fence::EVERYTHING, 2, &long).await.unwrap();
    first.arrival().await;
    apply(&store, Fence::EVERYTHING, 1, &long).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(300), second.arrival()).await;
    assert!(early.is_err(), "two merges at once");
    drop(first);
    second.arrival().await;
    drop(second);
    store.settle().await;
    for (shard, id) in [(0, 2), (1, 1)] {
        assert!(!named(&objects, &format!("shard/{shard}/table/")).is_empty());
        assert_eq!(head(&*store, id).await.unwrap().as_deref(), Some(&long[..]));
    }
}
