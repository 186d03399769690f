//! Failing and full disks under the aggregate store.

mod support;

use std::{io::ErrorKind, sync::Arc, time::Duration};

use gnudi_drivers::aggregates::{
    AggregateStore, StoreError,
    local::{LocalAggregates, LocalAggregatesOptions},
};
use gnudi_model::{Fault, MetricId};
use support::{
    aggregate_items::{
        assert_each_there, is_large_there as is_there, large_head, metric, write_each, write_large as write,
    },
    local::{files, open_aggregates, small_aggregates},
    sim_disk::{Operation, SimDisk},
    wait::{found, until},
};

const FLUSH_AT: u64 = 100_000;

fn open(disk: &SimDisk) -> Arc<LocalAggregates> {
    open_aggregates(disk, &small_aggregates(FLUSH_AT)).unwrap()
}

fn fresh() -> (SimDisk, Arc<LocalAggregates>) {
    let disk = SimDisk::default();
    let store = open(&disk);
    (disk, store)
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_written_any_more() {
    let (disk, store) = fresh();
    write(&*store, 1).await.unwrap();
    store.sync().await.unwrap();
    write(&*store, 2).await.unwrap();
    disk.fail(Operation::SyncData, 0, ErrorKind::Other, false);
    assert!(matches!(store.sync().await, Err(StoreError::Io(_))));
    assert!(store.sync().await.is_err(), "no second try");
    assert!(write(&*store, 3).await.is_err());
    assert!(store.figures().poisoned);
    assert!(matches!(store.fault(), Some(Fault::OutOfOrder(_))));
    assert!(is_there(&*store, 1).await, "reads go on");
    assert!(!is_there(&*store, 3).await);
    drop(store);
    let store = open(&disk);
    assert!(is_there(&*store, 1).await);
    write(&*store, 4).await.expect("a restart makes a new start");
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let (disk, store) = fresh();
    write_each(&*store, 0..10).await;
    disk.set_capacity(Some(disk.used() + 120_000));
    let mut next = 10;
    let error = loop {
        match write(&*store, next).await {
            Ok(()) => next += 1,
            Err(error) => break error,
        }
        assert!(next < 200, "the disk is never full");
    };
    assert!(matches!(error, StoreError::NoSpace(_)), "{error}");
    assert_each_there(&*store, 0..next).await;
    assert!(!is_there(&*store, next).await);
    store.sync().await.unwrap();
    disk.set_capacity(None);
    // The flush retries every second. Writes that fit before may succeed.
    let mut tries = 0;
    for id in [1000].into_iter().chain(2000..2200) {
        while let Err(error) = write(&*store, id).await {
            assert!(matches!(error, StoreError::NoSpace(_)), "{error}");
            tries += 1;
            assert!(tries < 6000, "never recovers");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    drop(store);
    let store = open(&disk);
    assert_each_there(&*store, (0..next).chain([1000, 2000, 2199])).await;
    assert_eq!(store.figures().damaged, 0);
}

/// The next attempt may merge more, into files of other names.
#[tokio::test]
async fn a_merge_that_fails_leaves_no_files() {
    let (disk, store) = fresh();
    disk.fail_named(Operation::Rename, ".heads.run", ErrorKind::StorageFull);
    let mut next = 0;
    while !disk.is_healed() {
        write(&*store, next).await.unwrap();
        next += 1;
        assert!(next < 2000, "nothing is merged");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    until("the removal of the blocks", async || files(&disk, ".blocks.run").is_empty()).await;
    drop(store);
    let store = open(&disk);
    assert_each_there(&*store, 0..next).await;
}

/// A later sync would succeed, but not write what the disk has lost.
#[tokio::test]
async fn a_flush_that_poisons_the_store_is_not_done_again() {
    let disk = SimDisk::default();
    let options = LocalAggregatesOptions { segment_bytes: 1 << 20, ..small_aggregates(FLUSH_AT) };
    let store = open_aggregates(&disk, &options).unwrap();
    disk.fail_named(Operation::SyncDir, "/log", ErrorKind::Other);
    let mut next = 0;
    while !store.figures().poisoned {
        // Writes are refused once the flush has failed.
        write(&*store, next).await.ok();
        next += 1;
        assert!(next < 2000, "nothing is flushed");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // A flush that fails is repeated every second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(store.figures().flushes, 0);
    assert!(write(&*store, next).await.is_err());
    assert!(matches!(store.fault(), Some(Fault::OutOfOrder(_))), "no thread has ended");
    assert!(is_there(&*store, 0).await, "reads go on");
}

#[tokio::test]
async fn a_flush_that_fails_is_done_again() {
    let (disk, store) = fresh();
    for (operation, error) in [
        (Operation::Create, ErrorKind::StorageFull),
        (Operation::Rename, ErrorKind::StorageFull),
        (Operation::Rename, ErrorKind::Other),
    ] {
        let flushes = store.figures().flushes;
        disk.fail_named(operation, if operation == Operation::Create { ".run.tmp" } else { ".run" }, error);
        // Enough for one flush. While it is slow, writes wait for it, and get its error.
        for id in 0..25 {
            while let Err(refused) = write(&*store, id).await {
                assert!(!matches!(refused, StoreError::Damaged(_)), "{refused}");
                assert!(!store.figures().poisoned, "{refused}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        until("a flush", async || store.figures().flushes > flushes).await;
        assert!(disk.is_healed(), "{operation:?} did not fail");
        assert!(!store.figures().poisoned, "{operation:?}");
        assert!(is_there(&*store, 24).await);
    }
    drop(store);
    assert!(is_there(&*open(&disk), 24).await);
}

/// The process is killed between a run's rename and the sync of its name; the next one finds the run, and
/// loses power soon after.
#[tokio::test]
async fn a_run_replaces_nothing_before_its_name_is_durable() {
    for seed in 0..30 {
        let (disk, store) = fresh();
        disk.fail_named(Operation::SyncDir, "/runs", ErrorKind::Other);
        write_each(&*store, 0..25).await;
        store.sync().await.unwrap();
        until("the failure", async || disk.is_healed()).await;
        assert!(!files(&disk, ".run").is_empty(), "the run has its name");
        disk.kill_after(0);
        drop(store);
        disk.restart(0);
        drop(open(&disk));
        disk.restart(seed);
        let store = open(&disk);
        for id in 0..25 {
            assert!(is_there(&*store, id).await, "seed {seed}: {id} is lost");
        }
    }
}

/// Every merge fails. Flushes wait for one, each for a while, and writers for them.
#[tokio::test]
async fn writes_are_slowed_while_merges_lag() {
    let disk = SimDisk::default();
    let merges_wait_max = Duration::from_millis(200);
    let options = LocalAggregatesOptions { merges_wait_max, ..small_aggregates(FLUSH_AT) };
    let store = open_aggregates(&disk, &options).unwrap();
    let (mut slow, mut next, mut failed) = (0, 0, false);
    disk.fail_named(Operation::Create, ".heads.run.tmp", ErrorKind::Other);
    while slow < 3 || store.figures().flushes_waited < 3 {
        // The next attempt comes 10 s after a failure.
        if disk.is_healed() {
            failed = true;
            disk.fail_named(Operation::Create, ".heads.run.tmp", ErrorKind::Other);
        }
        // A busy machine delays a write at any time.
        let lag = store.figures().runs >= 16;
        let start = std::time::Instant::now();
        write(&*store, next).await.unwrap();
        slow += u32::from(lag && start.elapsed() > merges_wait_max / 2);
        next += 1;
        assert!(next < 2_000, "nothing waits: {:?}", store.figures());
    }
    let figures = store.figures();
    assert!(failed && figures.runs >= 16 && figures.flushes_waited >= 3, "{figures:?}");
    assert!(figures.runs <= 16 + figures.flushes_waited, "{figures:?}");
    assert_each_there(&*store, 0..next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_readers_go_on_through_flushes_and_merges() {
    let (disk, store) = fresh();
    let writers: Vec<_> = (0..4usize)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for round in 0..150usize {
                    let id = task * 1000 + round % 20;
                    write(&*store, id).await.unwrap();
                    assert!(is_there(&*store, id).await, "a head is not there after it was written");
                    assert!(is_there(&*store, task * 1000 + round / 8).await);
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
    until("a flush", async || store.figures().flushes > 5 && store.figures().merges > 0).await;
    until("merges", async || store.figures().runs < 12).await;
    // Room for the log twice, the spares, and the 80 heads: superseded values are gone.
    until("room", async || disk.used() < 2_500_000).await;
}

fn open_giving_up(disk: &SimDisk, unreadable_max: Duration) -> Arc<LocalAggregates> {
    let options = LocalAggregatesOptions { unreadable_max, ..small_aggregates(FLUSH_AT) };
    open_aggregates(disk, &options).unwrap()
}

/// File and offset of a metric's head.
fn place_of(disk: &SimDisk, id: usize) -> (std::path::PathBuf, u64) {
    disk.find(&large_head(id)).expect("the head is on the disk")
}

/// The same in a run, once it is there alone.
async fn place_in_run(disk: &SimDisk, id: usize) -> (std::path::PathBuf, u64) {
    let is_run = |(path, _): &(std::path::PathBuf, u64)| path.extension().is_some_and(|end| end == "run");
    found("the head in a run", async || Some(place_of(disk, id)).filter(is_run)).await
}

/// Asserts heads of metrics 1 to 9 except one, whose result is returned.
async fn others_are_there(store: &LocalAggregates, bad: usize) -> Result<Option<bytes::Bytes>, StoreError> {
    let metrics: Vec<MetricId> = (1..10).map(metric).collect();
    let mut heads = store.read_heads(&metrics).await;
    let answer = heads.remove(bad - 1);
    for (id, head) in (1..10).filter(|id| *id != bad).zip(heads) {
        assert_eq!(head.unwrap().unwrap(), large_head(id), "metric {id}");
    }
    answer
}

#[tokio::test]
async fn a_bad_sector_of_the_log_costs_one_head_and_no_flush() {
    for unreadable_max in [Duration::ZERO, Duration::from_hours(1)] {
        let disk = SimDisk::default();
        let store = open_giving_up(&disk, unreadable_max);
        write_each(&*store, 1..10).await;
        let (path, at) = place_of(&disk, 5);
        disk.spoil(&path, at + 1000..at + 1001);
        let answer = others_are_there(&store, 5).await;
        if !unreadable_max.is_zero() {
            assert!(matches!(answer, Err(StoreError::Io(_))), "the disk may come back: {answer:?}");
            continue;
        }
        assert!(matches!(answer, Err(StoreError::Damaged(_))), "{answer:?}");
        for id in 10..60 {
            tokio::time::timeout(Duration::from_mins(1), write(&*store, id)).await.expect("a flush").unwrap();
        }
        until("a flush", async || store.figures().flushes > 0).await;
        assert!(matches!(others_are_there(&store, 5).await, Err(StoreError::Damaged(_))));
        // A new head repairs the metric.
        write(&*store, 5).await.unwrap();
        assert!(is_there(&*store, 5).await);
    }
}

/// Its file has nothing that is worth keeping: the flush reads it whole.
#[tokio::test]
async fn a_read_error_of_the_log_that_passes_leaves_no_file() {
    let disk = SimDisk::default();
    let store = open_giving_up(&disk, Duration::from_hours(1));
    write_each(&*store, 1..10).await;
    let (path, at) = place_of(&disk, 5);
    disk.spoil(&path, at + 1000..at + 1001);
    let answer = others_are_there(&store, 5).await;
    assert!(matches!(answer, Err(StoreError::Io(_))), "{answer:?}");
    disk.heal();
    assert!(is_there(&*store, 5).await);
    write_each(&*store, 10..60).await;
    until("the release of the file", async || !disk.paths().contains(&path)).await;
    assert!(files(&disk, ".unreadable").is_empty(), "{:?}", disk.paths());
    assert!(is_there(&*store, 5).await);
}

#[tokio::test]
async fn a_bad_sector_of_a_run_costs_one_head() {
    for unreadable_max in [Duration::ZERO, Duration::from_hours(1)] {
        let disk = SimDisk::default();
        let store = open_giving_up(&disk, unreadable_max);
        write_each(&*store, 1..30).await;
        until("a flush", async || store.figures().flushes > 0).await;
        let (path, at) = place_in_run(&disk, 5).await;
        // In another piece, within the head.
        let bad = (at + 4096) / 4096 * 4096;
        disk.spoil(&path, bad..bad + 1);
        let answer = others_are_there(&store, 5).await;
        if unreadable_max.is_zero() {
            assert!(matches!(answer, Err(StoreError::Damaged(_))), "{answer:?}");
            write(&*store, 5).await.unwrap();
            assert!(is_there(&*store, 5).await);
        } else {
            assert!(matches!(answer, Err(StoreError::Io(_))), "the disk may come back: {answer:?}");
        }
    }
}

/// Not each after the one before: a pass that needs the head would wait as many times as long.
#[tokio::test]
async fn unreadable_pieces_of_a_run_are_given_up_together() {
    const MAX: Duration = Duration::from_millis(100);
    let disk = SimDisk::default();
    let store = open_giving_up(&disk, MAX);
    write_each(&*store, 1..30).await;
    until("a flush", async || store.figures().flushes > 0).await;
    let (path, at) = place_in_run(&disk, 5).await;
    for bad in [at, (at + 4096) / 4096 * 4096] {
        disk.spoil(&path, bad..bad + 1);
    }
    drop(store.read_heads(&[metric(5)]).await);
    tokio::time::sleep(2 * MAX).await;
    let answer = store.read_heads(&[metric(5)]).await.remove(0);
    assert!(matches!(answer, Err(StoreError::Damaged(_))), "{answer:?}");
}

/// Else passes wait for the flush, and it for one value after the other.
#[tokio::test]
async fn unreadable_values_of_the_log_delay_a_flush_together() {
    let disk = SimDisk::default();
    let unreadable_max = Duration::from_secs(2);
    let options = LocalAggregatesOptions { unreadable_max, ..small_aggregates(3 * FLUSH_AT) };
    let store = open_aggregates(&disk, &options).unwrap();
    write_each(&*store, 1..=40).await;
    for id in 1..=40 {
        let (path, at) = place_of(&disk, id);
        disk.spoil(&path, at + 1000..at + 1001);
    }
    write_each(&*store, 41..70).await;
    until("a flush", async || store.figures().flushes > 0).await;
    assert_each_there(&*store, 41..70).await;
    for id in [1, 40] {
        let answer = store.read_heads(&[metric(id)]).await.remove(0);
        assert!(matches!(answer, Err(StoreError::Damaged(_))), "{id}: {answer:?}");
    }
}

/// What counts as damaged is made anew, without its history.
#[tokio::test]
async fn a_read_error_that_passes_costs_an_opening_nothing() {
    let (disk, store) = fresh();
    write_each(&*store, 1..30).await;
    until("a flush", async || store.figures().flushes > 0).await;
    drop(store);
    // After the length: header, end and first entries, if they were given up at once.
    for _ in 0..5 {
        disk.fail(Operation::Read, 1, ErrorKind::Other, false);
    }
    let store = open_giving_up(&disk, Duration::from_hours(1));
    assert!(disk.is_healed());
    assert_each_there(&*store, 1..30).await;
    assert_eq!(store.figures().damaged, 0);
}

/// Anywhere: in the header, the entries, the index, the end.
#[tokio::test]
async fn a_bad_sector_of_a_run_keeps_no_store_from_opening() {
    for place in [0, 4096, 60_000, u64::MAX - 300, u64::MAX - 10] {
        let (disk, store) = fresh();
        write_each(&*store, 1..30).await;
        until("a flush", async || store.figures().flushes > 0).await;
        drop(store);
        let run = files(&disk, ".run").remove(0);
        let mut length = 0;
        disk.edit(&run, |bytes| length = bytes.len() as u64);
        let at = if place > length { length - (u64::MAX - place) } else { place };
        disk.spoil(&run, at..at + 1);
        for _ in 0..2 {
            let store = open_giving_up(&disk, Duration::ZERO);
            let metrics: Vec<MetricId> = (1..30).map(metric).collect();
            let mut damaged = 0;
            for (id, head) in (1..30).zip(store.read_heads(&metrics).await) {
                match head {
                    Ok(head) => assert_eq!(head.unwrap(), large_head(id), "metric {id}, bad byte {at}"),
                    Err(StoreError::Damaged(_)) => damaged += 1,
                    Err(error) => panic!("metric {id}, bad byte {at}: {error}"),
                }
            }
            assert!(damaged <= 2, "{damaged} heads, bad byte {at}");
        }
    }
}
