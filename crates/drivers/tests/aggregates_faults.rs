//! Disks that fail or run full under the aggregate store.

mod support;

use std::{io::ErrorKind, path::Path, sync::Arc, time::Duration};

use gnudi_drivers::aggregates::{
    AggregateStore, Fence, MetricWrite, StoreError,
    local::{LocalAggregates, LocalAggregatesOptions},
};
use gnudi_model::MetricId;
use support::sim_disk::{Operation, SimDisk};
use uuid::Uuid;

const FLUSH_AT: u64 = 100_000;

fn metric(id: u32) -> MetricId {
    MetricId(Uuid::from_u128(id.into()))
}

fn open(disk: &SimDisk) -> Arc<LocalAggregates> {
    let options = LocalAggregatesOptions {
        segment_bytes: 1 << 16,
        recent_bytes_max: FLUSH_AT,
        spare_segments_max: 2,
        ..LocalAggregatesOptions::default()
    };
    LocalAggregates::open_on(Arc::new(disk.clone()), Path::new("/aggregates"), &options).unwrap()
}

/// Writes a head of a metric of its own.
async fn write(store: &LocalAggregates, id: u32) -> Result<(), StoreError> {
    let head = vec![id as u8; 5000].into();
    let write = MetricWrite { metric: metric(id), blocks: Vec::new(), expired: Vec::new(), head };
    store.write(Fence::EVERYTHING, vec![write]).await.remove(0)
}

async fn is_there(store: &LocalAggregates, id: u32) -> bool {
    match store.read_heads(&[metric(id)]).await.remove(0).unwrap() {
        Some(head) => {
            assert_eq!(head, vec![id as u8; 5000]);
            true
        }
        None => false,
    }
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_written_any_more() {
    let disk = SimDisk::default();
    let store = open(&disk);
    write(&store, 1).await.unwrap();
    store.sync().await.unwrap();
    write(&store, 2).await.unwrap();
    disk.fail(Operation::SyncData, 0, ErrorKind::Other, false);
    assert!(matches!(store.sync().await, Err(StoreError::Io(_))));
    assert!(store.sync().await.is_err(), "no second try");
    assert!(write(&store, 3).await.is_err());
    assert!(store.figures().poisoned);
    assert!(is_there(&store, 1).await, "reads go on");
    assert!(!is_there(&store, 3).await);
    drop(store);
    let store = open(&disk);
    assert!(is_there(&store, 1).await);
    write(&store, 4).await.expect("a restart makes a new start");
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let disk = SimDisk::default();
    let store = open(&disk);
    for id in 0..10 {
        write(&store, id).await.unwrap();
    }
    disk.set_capacity(Some(disk.used() + 120_000));
    let mut next = 10;
    let error = loop {
        match write(&store, next).await {
            Ok(()) => next += 1,
            Err(error) => break error,
        }
        assert!(next < 200, "the disk is never full");
    };
    assert!(matches!(error, StoreError::NoSpace(_)), "{error}");
    for id in 0..next {
        assert!(is_there(&store, id).await, "{id} of {next}");
    }
    assert!(!is_there(&store, next).await);
    store.sync().await.unwrap();
    disk.set_capacity(None);
    // The flush tries again every second.
    let mut tries = 0;
    while let Err(error) = write(&store, 1000).await {
        assert!(matches!(error, StoreError::NoSpace(_)), "{error}");
        tries += 1;
        assert!(tries < 500, "never recovers");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for id in 0..200 {
        write(&store, 2000 + id).await.unwrap();
    }
    drop(store);
    let store = open(&disk);
    for id in (0..next).chain([1000, 2000, 2199]) {
        assert!(is_there(&store, id).await, "{id}");
    }
    assert_eq!(store.figures().damaged, 0);
}

#[tokio::test]
async fn a_flush_that_fails_is_done_again() {
    let disk = SimDisk::default();
    let store = open(&disk);
    for (operation, error) in [
        (Operation::Create, ErrorKind::StorageFull),
        (Operation::Rename, ErrorKind::StorageFull),
        (Operation::Rename, ErrorKind::Other),
    ] {
        let flushes = store.figures().flushes;
        disk.fail_named(operation, if operation == Operation::Create { ".run.tmp" } else { ".run" }, error);
        // Enough for one flush. Where that is slow, writes wait for it, and hear of its failure.
        for id in 0..25 {
            while let Err(refused) = write(&store, id).await {
                assert!(!matches!(refused, StoreError::Damaged(_)), "{refused}");
                assert!(!store.figures().poisoned, "{refused}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        wait_until(|| store.figures().flushes > flushes).await;
        assert!(disk.is_healed(), "{operation:?} did not fail");
        assert!(!store.figures().poisoned, "{operation:?}");
        assert!(is_there(&store, 24).await);
    }
    drop(store);
    assert!(is_there(&open(&disk), 24).await);
}

async fn wait_until(mut condition: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited for ten seconds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_readers_go_on_through_flushes_and_merges() {
    let disk = SimDisk::default();
    let store = open(&disk);
    let writers: Vec<_> = (0..4u32)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for round in 0..150u32 {
                    let id = task * 1000 + round % 20;
                    write(&store, id).await.unwrap();
                    assert!(is_there(&store, id).await, "a head is not there after it was written");
                    assert!(is_there(&store, task * 1000 + round / 8).await);
                    if round % 10 == 0 {
                        store.sync().await.unwrap();
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    wait_until(|| store.figures().flushes > 5 && store.figures().merges > 0).await;
    wait_until(|| store.figures().runs < 12).await;
    // Room for the log twice, the spares, and the 80 heads: what is superseded is gone.
    assert!(disk.used() < 2_500_000, "{} bytes", disk.used());
}
