//! The local stores on a full disk, with a reserve: merges wait, deletions free space, and
//! acknowledgements succeed.

mod support;

use std::{io::ErrorKind, path::Path, sync::Arc, time::Duration};

use gnudi_drivers::{
    aggregates::{
        AggregateStore, Fence, StoreError,
        local::{LocalAggregates, LocalAggregatesOptions},
    },
    disk::Disk,
    incoming::{Consume as _, IncomingError, log::LocalIncomingOptions},
    reserve::Reserve,
};
use gnudi_model::MetricId;
use support::{
    aggregate_items::{
        LARGE_HEAD_BYTES, assert_each_there, is_large_there as is_there, metric, write_large as write,
    },
    local::{ONLY_SACK, append, open_log, small_aggregates, small_log, waiting},
    sim_disk::{Operation, SimDisk},
    wait::until,
};

const DIR: &str = "/data";
const FLUSH_AT: u64 = 100_000;
/// Maximum wait for a condition: far more than needed.
const TRIES_MAX: usize = 12_000;
const PAUSE: Duration = Duration::from_millis(10);

fn reserve(disk: &SimDisk, bytes: u64) -> Reserve {
    disk.create_dir(Path::new(DIR)).unwrap();
    Reserve::open(Arc::new(disk.clone()), Path::new(DIR), bytes).unwrap()
}

fn open(disk: &SimDisk, reserve: &Reserve) -> Arc<LocalAggregates> {
    let options = LocalAggregatesOptions { reserve: reserve.clone(), ..small_aggregates(FLUSH_AT) };
    LocalAggregates::open_on(Arc::new(disk.clone()), Path::new("/data/aggregates"), &options).unwrap()
}

#[tokio::test]
async fn a_merge_waits_until_its_output_fits_beside_the_reserve() {
    let disk = SimDisk::default();
    let store = open(&disk, &reserve(&disk, 50_000));
    let mut capacity = disk.used() + 200_000;
    disk.set_capacity(Some(capacity));
    let (mut next, mut tries) = (0, 0);
    while !store.figures().merge_waits {
        match write(&*store, next).await {
            Ok(()) => next += 1,
            // No more than a flush needs, and not enough to merge four runs of its size.
            Err(StoreError::NoSpace(_)) => {
                capacity += 20_000;
                disk.set_capacity(Some(capacity));
            }
            Err(error) => panic!("{error}"),
        }
        tries += 1;
        assert!(tries < 3000, "every merge has room");
        tokio::time::sleep(PAUSE).await;
    }
    let figures = store.figures();
    assert!(figures.merges_waited > 0);
    disk.set_capacity(None);
    until("the merge", async || store.figures().merges > figures.merges).await;
    until("nothing that waits", async || !store.figures().merge_waits).await;
    assert_each_there(&*store, 0..next).await;
    assert_eq!(store.figures().damaged, 0);
}

/// Writes heads of new metrics until there is no space; returns how many were accepted.
async fn fill(store: &LocalAggregates) -> usize {
    let (mut next, mut refused) = (0, 0);
    // A flush frees a part of the log: the disk is full only after many refusals in a row.
    while refused < 300 {
        match write(store, next).await {
            Ok(()) => (next, refused) = (next + 1, 0),
            Err(error) => {
                assert!(matches!(error, StoreError::NoSpace(_)), "{error}");
                refused += 1;
                tokio::time::sleep(PAUSE).await;
            }
        }
        assert!(next < 2000, "the disk is never full");
    }
    next
}

#[tokio::test]
async fn deletions_give_space_back_on_a_full_disk() {
    let disk = SimDisk::default();
    disk.set_capacity(Some(2_000_000));
    let store = open(&disk, &reserve(&disk, 200_000));
    let next = fill(&store).await;
    assert!(next > 100, "{next} heads fill the disk");
    // All but the last ones.
    let deleted: Vec<MetricId> = (0..next - 3).map(metric).collect();
    for answer in store.delete(Fence::EVERYTHING, &deleted).await {
        answer.expect("a deletion on a full disk");
    }
    store.sync().await.expect("a sync on a full disk");
    let mut tries = 0;
    while let Err(error) = write(&*store, next).await {
        assert!(matches!(error, StoreError::NoSpace(_)), "{error}");
        tries += 1;
        assert!(tries < TRIES_MAX, "no space is given back: {error}, {:?}", store.figures());
        tokio::time::sleep(PAUSE).await;
    }
    assert!(!is_there(&*store, 0).await && !is_there(&*store, next - 4).await);
    assert_each_there(&*store, next - 3..=next).await;
    drop(store);
    let store = open(&disk, &reserve(&disk, 200_000));
    assert!(is_there(&*store, next).await && is_there(&*store, next - 1).await);
    assert_eq!(store.figures().damaged, 0);
}

/// Another program fills the disk.
#[tokio::test]
async fn acknowledgements_go_on_while_nothing_new_is_taken() {
    let disk = SimDisk::default();
    disk.set_capacity(Some(4_000_000));
    let reserve = reserve(&disk, 100_000);
    let options = LocalIncomingOptions { spare_segments_max: 0, reserve: reserve.clone(), ..small_log(1) };
    let log = open_log(&disk, &options).unwrap();
    append(&log, 1, LARGE_HEAD_BYTES).await.unwrap();
    assert!(reserve.is_held());
    disk.set_capacity(Some(disk.used()));
    until("the reserve to be given up", async || !reserve.is_held()).await;
    assert_eq!(reserve.figures().held_bytes, 0);
    let mut taken = 1;
    let error = loop {
        match append(&log, taken + 1, LARGE_HEAD_BYTES).await {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 20, "more than the file that was begun");
    };
    assert!(
        matches!(&error, IncomingError::NoSpace(text) if text.contains("the disk of /data is full")),
        "{error}"
    );
    let newest = log.positions(&[ONLY_SACK]).await.unwrap()[0].newest;
    log.acknowledge(ONLY_SACK, newest).await.unwrap();
    log.trim(&[(ONLY_SACK, newest)]).await.expect("trimming on a full disk");
    disk.set_capacity(None);
    until("the reserve to be taken again", async || reserve.is_held()).await;
    append(&log, 100, LARGE_HEAD_BYTES).await.expect("space for what is new");
    assert_eq!(waiting(&log).await, [100]);
}

/// File systems that copy on write need space to cut a file.
#[tokio::test]
async fn files_are_cut_with_space_of_the_reserve() {
    let disk = SimDisk::default();
    let reserve = reserve(&disk, 100_000);
    let store = open(&disk, &reserve);
    let no_space = || disk.fail(Operation::Truncate, 0, ErrorKind::StorageFull, false);
    no_space();
    // More than a file of the log.
    let deleted: Vec<MetricId> = (0..800).map(metric).collect();
    for answer in store.delete(Fence::EVERYTHING, &deleted).await {
        answer.unwrap();
    }
    assert!(disk.is_healed());
    let options = LocalIncomingOptions { reserve: reserve.clone(), ..small_log(1) };
    let log = open_log(&disk, &options).unwrap();
    until("the reserve to be taken again", async || reserve.is_held()).await;
    append(&log, 1, 1000).await.unwrap();
    disk.fail_batch_write(ErrorKind::StorageFull);
    no_space();
    assert!(matches!(append(&log, 2, 1000).await, Err(IncomingError::NoSpace(_))));
    until("the reserve to be taken again", async || reserve.is_held()).await;
    append(&log, 3, 1000).await.unwrap();
    assert_eq!(waiting(&log).await, [1, 3]);
}

/// A start closes the last file, and begins another.
#[tokio::test]
async fn a_log_opens_with_space_of_the_reserve() {
    for (operation, times) in [(Operation::Truncate, 1), (Operation::Write, 1), (Operation::Allocate, 2)] {
        let disk = SimDisk::default();
        let reserve = reserve(&disk, 100_000);
        let options = LocalIncomingOptions { reserve: reserve.clone(), ..small_log(1) };
        append(&open_log(&disk, &options).unwrap(), 1, 1000).await.unwrap();
        for _ in 0..times {
            disk.fail(operation, 0, ErrorKind::StorageFull, false);
        }
        let log = open_log(&disk, &options).unwrap_or_else(|error| panic!("{operation:?}: {error}"));
        assert!(disk.is_healed());
        assert_eq!(waiting(&log).await, [1]);
    }
}
