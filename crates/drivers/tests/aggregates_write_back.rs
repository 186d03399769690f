//! Heads in memory: random operations on the local store, with the ends of processes, power cuts and a failing
//! disk. The store answers as the in-memory model; afterwards each metric has what was synced, or one of its
//! later states.

mod support;

use std::sync::Arc;

use gnudi_drivers::aggregates::{
    AggregateStore, Fence, MetricWrite, StoreError,
    local::{LocalAggregates, LocalAggregatesOptions},
    memory::MemoryAggregates,
};
use proptest::prelude::*;
use support::{
    aggregate_items::{
        Everything, LARGE_HEAD_BYTES, assert_each_there, everything, is_large_there, metric, random_bytes,
        random_write, write_each, write_large,
    },
    local::{open_aggregates, small_aggregates},
    random::Random,
    sim_disk::{FAULTS, Operation, SimDisk},
    wait::{block_on, until},
};

const METRICS: usize = 5;

fn open(disk: &SimDisk, dirty_bytes_max: u64) -> Option<Arc<LocalAggregates>> {
    let options = LocalAggregatesOptions { dirty_bytes_max, ..small_aggregates(30_000) };
    open_aggregates(disk, &options).ok()
}

/// A change to one metric.
#[derive(Clone, Debug)]
enum Change {
    Write(MetricWrite),
    Delete,
}

/// What was done to a metric.
#[derive(Default)]
struct History {
    changes: Vec<Change>,
    /// So many of them are certainly durable.
    durable: usize,
}

async fn apply(store: &dyn AggregateStore, id: usize, change: &Change) -> Result<(), StoreError> {
    match change {
        Change::Write(write) => store.write(Fence::EVERYTHING, vec![write.clone()]).await.remove(0),
        Change::Delete => store.delete(Fence::EVERYTHING, &[metric(id)]).await.remove(0),
    }
}

/// Mostly heads without blocks.
fn random_change(random: &mut Random, id: usize) -> Change {
    match random.below(10) {
        0 => Change::Delete,
        1..=3 => Change::Write(random_write(random, id, 1500, 1500)),
        _ => Change::Write(MetricWrite::of_head(metric(id), random_bytes(random, 1500))),
    }
}

/// A model with these changes.
async fn model_of(histories: &[History]) -> MemoryAggregates {
    let model = MemoryAggregates::default();
    for (id, history) in histories.iter().enumerate() {
        for change in &history.changes {
            apply(&model, id, change).await.unwrap();
        }
    }
    model
}

async fn of_metric(store: &dyn AggregateStore, id: usize) -> Everything {
    everything(store, &[id]).await.unwrap()
}

/// As far as the store can be read: not once the power is off.
async fn assert_equal(store: &dyn AggregateStore, model: &dyn AggregateStore, seed: u64) {
    for id in 0..METRICS {
        if let Ok(there) = everything(store, &[id]).await {
            assert_eq!(there, of_metric(model, id).await, "seed {seed}: metric {id}");
        }
    }
}

/// Changes random metrics until the disk fails or the time is up.
async fn change_metrics(store: &LocalAggregates, histories: &mut [History], random: &mut Random, seed: u64) {
    let model = model_of(histories).await;
    for _ in 0..random.below(100) {
        if random.one_in(8) {
            if store.sync().await.is_ok() {
                for history in &mut *histories {
                    history.durable = history.changes.len();
                }
            }
            continue;
        }
        let id = random.below(METRICS);
        let change = random_change(random, id);
        match apply(store, id, &change).await {
            Ok(()) => {
                apply(&model, id, &change).await.unwrap();
                let (history, is_durable) = (&mut histories[id], matches!(change, Change::Delete));
                history.changes.push(change);
                if is_durable {
                    history.durable = history.changes.len();
                }
            }
            Err(StoreError::NoSpace(_)) => {}
            // It may be there or not.
            Err(_) => {
                histories[id].changes.push(change);
                return;
            }
        }
        if random.one_in(10) {
            assert_equal(store, &model, seed).await;
        }
    }
    assert_equal(store, &model, seed).await;
}

/// Finds out what each metric has kept.
async fn check(store: &LocalAggregates, histories: &mut [History], seed: u64) {
    for (id, history) in histories.iter_mut().enumerate() {
        let there = of_metric(store, id).await;
        let model = MemoryAggregates::default();
        for change in &history.changes[..history.durable] {
            apply(&model, id, change).await.unwrap();
        }
        let mut kept = history.durable;
        while of_metric(&model, id).await != there {
            assert!(kept < history.changes.len(), "seed {seed}: metric {id} has no state that it ever had");
            apply(&model, id, &history.changes[kept]).await.unwrap();
            kept += 1;
        }
        history.changes.truncate(kept);
        history.durable = kept;
    }
    assert_eq!(store.figures().damaged, 0, "seed {seed}: taken for damage");
    store.sync().await.unwrap();
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Close,
    PowerCut,
    Kill,
    Failure,
}

async fn lives(seed: u64, end: End) {
    let mut random = Random::new(seed);
    let disk = SimDisk::default();
    let mut histories: Vec<History> = (0..METRICS).map(|_| History::default()).collect();
    for _ in 0..4 {
        match end {
            End::Close => {}
            End::PowerCut | End::Kill => disk.end_at_random(&mut random, 300, end == End::Kill),
            End::Failure => disk.fail_at_random(&mut random, &[&FAULTS[..], &[Operation::Remove]].concat()),
        }
        let dirty_bytes_max = [1, 5_000, 1 << 20][random.below(3)];
        if let Some(store) = open(&disk, dirty_bytes_max) {
            change_metrics(&store, &mut histories, &mut random, seed).await;
        }
        match end {
            End::Close => {}
            End::PowerCut | End::Kill => disk.restart(random.next()),
            End::Failure => disk.heal(),
        }
        let store = open(&disk, dirty_bytes_max).unwrap();
        check(&store, &mut histories, seed).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn an_ended_process_loses_nothing_synced(seed in any::<u64>()) {
        block_on(lives(seed, End::Close));
    }

    #[test]
    fn a_power_cut_loses_nothing_synced(seed in any::<u64>()) {
        block_on(lives(seed, End::PowerCut));
    }

    #[test]
    fn kills_before_a_power_cut_lose_nothing_synced(seed in any::<u64>()) {
        block_on(lives(seed, End::Kill));
    }

    #[test]
    fn a_failing_disk_loses_nothing_synced(seed in any::<u64>()) {
        block_on(lives(seed, End::Failure));
    }
}

/// Soon the index does not know the metric any more: what came back would stay.
#[tokio::test]
async fn a_power_cut_brings_no_deleted_metric_back() {
    for seed in 0..20 {
        let disk = SimDisk::default();
        let store = open(&disk, 1 << 20).unwrap();
        write_each(&*store, 0..2).await;
        store.sync().await.unwrap();
        store.delete(Fence::EVERYTHING, &[metric(0)]).await.remove(0).unwrap();
        disk.restart(seed);
        drop(store);
        let store = open(&disk, 1 << 20).unwrap();
        assert!(!is_large_there(&*store, 0).await, "seed {seed}: it is back");
        assert!(is_large_there(&*store, 1).await, "seed {seed}");
    }
}

/// Metrics that are measured all the time cost one write a sync, not one a pass.
#[tokio::test]
async fn a_head_is_written_once_a_sync() {
    let disk = SimDisk::default();
    let store = open(&disk, 1 << 20).unwrap();
    for _ in 0..100 {
        write_each(&*store, 0..5).await;
    }
    let figures = store.figures();
    assert_eq!((figures.writes, figures.log_bytes, figures.dirty_heads), (500, 0, 5));
    store.sync().await.unwrap();
    let figures = store.figures();
    let heads_bytes = 5 * LARGE_HEAD_BYTES as u64;
    assert!((heads_bytes..heads_bytes + 5 * 200).contains(&figures.log_bytes), "{figures:?}");
    assert_eq!((figures.dirty_heads, figures.dirty_bytes), (0, 0));
    drop(store);
    let store = open(&disk, 1 << 20).unwrap();
    assert_each_there(&*store, 0..5).await;
}

/// Beyond the limit heads go to a run, without the log.
#[tokio::test]
async fn memory_is_bounded() {
    const LIMIT: u64 = 200_000;
    let disk = SimDisk::default();
    let store = open(&disk, LIMIT).unwrap();
    for id in 0..200 {
        write_large(&*store, id).await.unwrap();
        // And one write.
        assert!(store.figures().dirty_bytes <= 2 * LIMIT + 6_000, "{:?}", store.figures());
    }
    until("flushes", async || store.figures().flushes >= 2).await;
    assert_eq!(store.figures().log_bytes, 0);
    assert_each_there(&*store, 0..200).await;
}

/// A head that changes while a sync writes its former version stays the newer one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_change_during_a_sync_are_kept() {
    const METRICS: usize = 300;
    const ROUNDS: u8 = 100;
    let disk = SimDisk::default();
    let store = open(&disk, 1 << 20).unwrap();
    let writes = |round: u8| {
        (0..METRICS).map(|id| MetricWrite::of_head(metric(id), vec![round; 200])).collect::<Vec<_>>()
    };
    let metrics: Vec<_> = (0..METRICS).map(metric).collect();
    let writer = tokio::spawn({
        let (store, metrics) = (Arc::clone(&store), metrics.clone());
        async move {
            for round in 0..ROUNDS {
                for written in store.write(Fence::EVERYTHING, writes(round)).await {
                    written.unwrap();
                }
                tokio::task::yield_now().await;
                for head in store.read_heads(&metrics).await {
                    assert_eq!(head.unwrap().unwrap()[..], vec![round; 200]);
                }
            }
        }
    });
    while !writer.is_finished() {
        store.sync().await.unwrap();
    }
    writer.await.unwrap();
    store.sync().await.unwrap();
    drop(store);
    let store = open(&disk, 1 << 20).unwrap();
    for head in store.read_heads(&metrics).await {
        assert_eq!(head.unwrap().unwrap()[..], vec![ROUNDS - 1; 200]);
    }
}

/// A head that grows during a sync moves, here to a place that the sync has passed.
#[tokio::test]
async fn a_head_that_moves_during_a_sync_is_written() {
    const LAST: usize = 599;
    let disk = SimDisk::default();
    let open = || {
        let options = LocalAggregatesOptions {
            segment_bytes: 1 << 20,
            recent_bytes_max: 1 << 20,
            ..LocalAggregatesOptions::default()
        };
        open_aggregates(&disk, &options).unwrap()
    };
    let with_head = |id, length| MetricWrite::of_head(metric(id), vec![7; length]);
    let store = open();
    // A frame of long heads, and others.
    let writes = (0..=LAST).map(|id| with_head(id, if id < 256 { 300 } else { 100 })).collect();
    for written in store.write(Fence::EVERYTHING, writes).await {
        written.unwrap();
    }
    disk.before_batch_write(1, {
        let store = Arc::clone(&store);
        move || block_on(store.write(Fence::EVERYTHING, vec![with_head(LAST, 300)])).remove(0).unwrap()
    });
    store.sync().await.unwrap();
    assert_eq!(store.figures().writes as usize, LAST + 2, "the head has grown");
    drop(store);
    let store = open();
    let head = store.read_heads(&[metric(LAST)]).await.remove(0).unwrap();
    assert_eq!(head.map(|head| head.len()), Some(300));
}
