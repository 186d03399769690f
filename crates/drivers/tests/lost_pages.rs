//! A sync fails and loses its pages, as on Linux: the bytes stay readable, and later syncs succeed without
//! them. Then the process ends, another one relies on what it finds, and the power is cut. Likewise
//! directories: if their names are not durable, they are lost with their contents.

mod support;

use std::{path::Path, sync::Arc};

use gnudi_drivers::{
    OpenError,
    aggregates::{
        AggregateStore,
        local::{LocalAggregates, LocalAggregatesOptions},
    },
    incoming::{
        IncomingError,
        log::{LocalIncoming, LocalIncomingOptions},
    },
};
use gnudi_model::SackCount;
use support::{
    aggregate_items::{is_large_there as is_there, write_large as write},
    local::{self, waiting},
    sim_disk::SimDisk,
};

const DIR: &str = "/new/levels/store";
/// More than a first start needs.
const OPERATIONS: u64 = 40;

fn open_log(disk: &SimDisk) -> Result<Arc<LocalIncoming>, OpenError> {
    let sack_count = SackCount(1.try_into().unwrap());
    let options =
        LocalIncomingOptions { sack_count, segment_bytes: 1 << 16, ..LocalIncomingOptions::default() };
    LocalIncoming::open_on(Arc::new(disk.clone()), Path::new(DIR), &options)
}

async fn append(log: &LocalIncoming, number: u32) -> Result<(), IncomingError> {
    local::append(log, number, 5000).await
}

fn open_store(disk: &SimDisk) -> Result<Arc<LocalAggregates>, OpenError> {
    let options = LocalAggregatesOptions { segment_bytes: 1 << 16, ..LocalAggregatesOptions::default() };
    LocalAggregates::open_on(Arc::new(disk.clone()), Path::new(DIR), &options)
}

/// Kills the process; the next one finds what it wrote.
fn kill<T>(disk: &SimDisk, process: T) {
    disk.kill_after(0);
    drop(process);
    disk.restart(0);
}

#[tokio::test]
async fn the_log_keeps_what_it_has_found_after_a_sync_that_lost_pages() {
    for seed in 0..40 {
        let disk = SimDisk::default();
        let log = open_log(&disk).unwrap();
        append(&log, 1).await.unwrap();
        disk.lose_pages(0);
        assert!(matches!(append(&log, 2).await, Err(IncomingError::Poisoned(_))));
        kill(&disk, log);
        let log = open_log(&disk).unwrap();
        let mut promised = waiting(&log).await;
        assert_eq!(promised, [1, 2], "the lost bytes can be read");
        append(&log, 3).await.unwrap();
        promised.push(3);
        disk.restart(seed);
        drop(log);
        let log = open_log(&disk).unwrap();
        assert_eq!((waiting(&log).await, log.figures().damaged), (promised, 0), "seed {seed}");
    }
}

#[tokio::test]
async fn aggregates_keep_what_they_have_found_after_a_sync_that_lost_pages() {
    for seed in 0..40 {
        let disk = SimDisk::default();
        let store = open_store(&disk).unwrap();
        write(&*store, 1).await.unwrap();
        store.sync().await.unwrap();
        write(&*store, 2).await.unwrap();
        disk.lose_pages(0);
        store.sync().await.unwrap_err();
        kill(&disk, store);
        let store = open_store(&disk).unwrap();
        assert!(is_there(&*store, 2).await, "the lost bytes can be read");
        // Now the log of measures may be trimmed.
        store.sync().await.unwrap();
        disk.restart(seed);
        drop(store);
        let store = open_store(&disk).unwrap();
        for id in [1, 2] {
            assert!(is_there(&*store, id).await, "seed {seed}: {id} is lost");
        }
        assert_eq!(store.figures().damaged, 0, "seed {seed}");
    }
}

/// The process is killed at any operation of its first start, which creates the directories.
#[tokio::test]
async fn what_lies_in_new_directories_survives_a_kill_and_a_power_cut() {
    let mut kills = 0;
    for operations in 1..OPERATIONS {
        for seed in 0..5 {
            let disk = SimDisk::default();
            disk.kill_after(operations);
            kills += usize::from(open_log(&disk).is_err());
            disk.restart(seed);
            let log = open_log(&disk).unwrap();
            append(&log, 1).await.unwrap();
            disk.restart(seed);
            drop(log);
            let log = open_log(&disk).expect("the log after the power cut");
            assert_eq!(waiting(&log).await, [1], "operations {operations}, seed {seed}");

            let disk = SimDisk::default();
            disk.kill_after(operations);
            kills += usize::from(open_store(&disk).is_err());
            disk.restart(seed);
            let store = open_store(&disk).unwrap();
            write(&*store, 1).await.unwrap();
            store.sync().await.unwrap();
            disk.restart(seed);
            drop(store);
            let store = open_store(&disk).expect("the store after the power cut");
            assert!(is_there(&*store, 1).await, "operations {operations}, seed {seed}");
        }
    }
    assert!(kills > 100, "{kills} starts were cut short");
}
