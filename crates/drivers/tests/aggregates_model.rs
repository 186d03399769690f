//! Random operations on the local store and on the in-memory model, with reopening and power cuts: the same results. After a
//! power cut the store has everything synced, and a prefix of the later writes; on a failing disk it has the writes that
//! succeeded. Heads are not kept in memory here: `aggregates_write_back` tests that.

mod support;

use std::sync::Arc;

use gnudi_drivers::aggregates::{
    AggregateStore, Fence, MetricWrite, StoreError, local::LocalAggregates, memory::MemoryAggregates,
};
use gnudi_model::MetricId;
use proptest::prelude::*;
use support::{
    aggregate_items::{self, Everything, metric, random_block, random_write},
    local::{open_aggregates, small_aggregates},
    random::Random,
    sim_disk::{FAULTS, Operation as Fault, SimDisk},
    wait::block_on,
};

const METRICS: usize = 6;

fn open(disk: &SimDisk) -> Option<Arc<LocalAggregates>> {
    open_aggregates(disk, &small_aggregates(30_000)).ok()
}

#[derive(Clone, Debug)]
enum Operation {
    Write(Vec<MetricWrite>),
    Delete(Vec<MetricId>),
    Sync,
}

fn operation(random: &mut Random) -> Operation {
    match random.below(12) {
        0 => Operation::Delete((0..=random.below(2)).map(|_| metric(random.below(METRICS))).collect()),
        1 | 2 => Operation::Sync,
        _ => {
            let writes = (0..=random.below(4)).map(|_| {
                let id = random.below(METRICS);
                random_write(random, id, 1500, 4000)
            });
            Operation::Write(writes.collect())
        }
    }
}

/// Large blocks for every metric: an old run that is not merged with newer ones for long.
fn ballast(random: &mut Random) -> Vec<Operation> {
    let write = |id: usize| {
        let mut blocks = std::collections::BTreeMap::new();
        for _ in 0..40 {
            blocks.insert(random_block(random, id), vec![id as u8; 6000].into());
        }
        let blocks = blocks.into_iter().collect();
        Operation::Write(vec![MetricWrite { blocks, ..MetricWrite::of_head(metric(id), vec![1; 9]) }])
    };
    (0..METRICS).map(write).collect()
}

/// Applies an operation; false if the store refused a part of it.
async fn apply(store: &dyn AggregateStore, operation: &Operation) -> bool {
    match operation {
        Operation::Write(writes) => {
            store.write(Fence::EVERYTHING, writes.clone()).await.iter().all(Result::is_ok)
        }
        Operation::Delete(metrics) => {
            store.delete(Fence::EVERYTHING, metrics).await.iter().all(Result::is_ok)
        }
        Operation::Sync => store.sync().await.is_ok(),
    }
}

/// The store's contents for all metrics.
async fn everything(store: &dyn AggregateStore) -> Everything {
    let ids: Vec<usize> = (0..METRICS).collect();
    aggregate_items::everything(store, &ids).await.unwrap()
}

/// A call may be applied in part: splits it into single items, in order.
fn items(operation: &Operation) -> Vec<Operation> {
    match operation {
        Operation::Write(writes) => {
            writes.iter().map(|write| Operation::Write(vec![write.clone()])).collect()
        }
        Operation::Delete(metrics) => metrics.iter().map(|metric| Operation::Delete(vec![*metric])).collect(),
        Operation::Sync => Vec::new(),
    }
}

async fn same_answers(seed: u64) {
    let mut random = Random::new(seed);
    let disk = SimDisk::default();
    let memory = MemoryAggregates::default();
    let mut store = open(&disk).unwrap();
    let mut operations = if random.one_in(2) { ballast(&mut random) } else { Vec::new() };
    operations.extend((0..random.below(120)).map(|_| operation(&mut random)));
    for operation in operations {
        assert!(apply(&*store, &operation).await);
        assert!(apply(&memory, &operation).await);
        if random.one_in(8) {
            drop(store);
            store = open(&disk).unwrap();
        }
        if random.one_in(4) {
            assert_eq!(everything(&*store).await, everything(&memory).await);
        }
    }
    assert_eq!(everything(&*store).await, everything(&memory).await);
    assert_eq!(store.figures().damaged, 0);
}

/// After each power cut or kill the store must equal the model at some point between the last sync or deletion
/// and the last write.
async fn power_cuts(seed: u64, kills: bool) {
    let mut random = Random::new(seed);
    let disk = SimDisk::default();
    // All single items so far, and how many of them are certainly durable.
    let (mut history, mut durable): (Vec<Operation>, usize) = (Vec::new(), 0);
    for _ in 0..4 {
        disk.end_at_random(&mut random, 300, kills);
        if let Some(store) = open(&disk) {
            for _ in 0..random.below(120) {
                let operation = operation(&mut random);
                history.extend(items(&operation));
                if !apply(&*store, &operation).await {
                    break;
                }
                if matches!(operation, Operation::Sync | Operation::Delete(_)) {
                    durable = history.len();
                }
            }
        }
        disk.restart(random.next());
        let store = open(&disk).unwrap();
        let there = everything(&*store).await;
        let memory = MemoryAggregates::default();
        for operation in &history[..durable] {
            apply(&memory, operation).await;
        }
        let mut kept = durable;
        while everything(&memory).await != there {
            assert!(kept < history.len(), "seed {seed}: what is there is no state that ever was");
            apply(&memory, &history[kept]).await;
            kept += 1;
        }
        // Later items are gone for good. A sync makes the present ones durable.
        history.truncate(kept);
        durable = kept;
        assert_eq!(store.figures().damaged, 0, "seed {seed}: a power cut was taken for damage");
        store.sync().await.unwrap();
    }
}

/// Applies an operation's items to the model as the store answered; returns the items with unknown outcome,
/// after a failure that leaves the disk's content unknown.
async fn apply_answered(
    store: &dyn AggregateStore,
    memory: &MemoryAggregates,
    operation: &Operation,
) -> Vec<Operation> {
    let answers = match operation {
        Operation::Write(writes) => store.write(Fence::EVERYTHING, writes.clone()).await,
        Operation::Delete(metrics) => store.delete(Fence::EVERYTHING, metrics).await,
        Operation::Sync => {
            store.sync().await.ok();
            Vec::new()
        }
    };
    let mut unknown = Vec::new();
    for (item, answer) in items(operation).into_iter().zip(answers) {
        match answer {
            Ok(()) => assert!(apply(memory, &item).await),
            Err(StoreError::NoSpace(_)) => {}
            Err(_) => unknown.push(item),
        }
    }
    unknown
}

/// Failures instead of power cuts: accepted writes exist, refused ones do not.
async fn failures(seed: u64) {
    let mut random = Random::new(seed);
    let disk = SimDisk::default();
    let memory = MemoryAggregates::default();
    for _ in 0..5 {
        disk.fail_at_random(&mut random, &[&FAULTS[..], &[Fault::Remove]].concat());
        let mut unknown = Vec::new();
        if let Some(store) = open(&disk) {
            for _ in 0..random.below(60) {
                let operation = operation(&mut random);
                unknown = apply_answered(&*store, &memory, &operation).await;
                if store.figures().poisoned {
                    break;
                }
            }
            let there = everything(&*store).await;
            // A deletion that cannot be made durable is there all the same.
            while matches!(unknown.first(), Some(Operation::Delete(_))) && everything(&memory).await != there
            {
                apply(&memory, &unknown.remove(0)).await;
            }
            assert_eq!(there, everything(&memory).await, "seed {seed}");
        }
        disk.heal();
        let store = open(&disk).unwrap();
        let there = everything(&*store).await;
        let mut unknown = unknown.iter();
        while everything(&memory).await != there {
            let item = unknown.next().unwrap_or_else(|| panic!("seed {seed}: not what was answered"));
            apply(&memory, item).await;
        }
        assert_eq!(store.figures().damaged, 0, "seed {seed}: a failure was taken for damage");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_store_answers_as_the_model(seed in any::<u64>()) {
        block_on(same_answers(seed));
    }

    #[test]
    fn a_failing_disk_loses_nothing_taken(seed in any::<u64>()) {
        block_on(failures(seed));
    }

    #[test]
    fn a_power_cut_loses_nothing_synced(seed in any::<u64>()) {
        block_on(power_cuts(seed, false));
    }

    /// A killed process, perhaps after a sync that lost pages, may leave names and bytes that are not
    /// durable; the next one must not rely on them.
    #[test]
    fn kills_before_a_power_cut_lose_nothing_synced(seed in any::<u64>()) {
        block_on(power_cuts(seed, true));
    }
}
