//! Failing and full disks under the incoming log.

mod support;

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use gnudi_drivers::{
    disk::{Disk as _, replace_file},
    incoming::{
        Append as _, Consume as _, Incoming, IncomingError, Position,
        log::{Durability, LocalIncoming, LocalIncomingOptions},
    },
};
use gnudi_model::Fault;
use support::{
    local::{ONLY_SACK, append, append_each, files, open_log, small_log, waiting},
    sim_disk::{Operation, SimDisk},
};

fn open(disk: &SimDisk) -> Arc<LocalIncoming> {
    open_log(disk, &small_log(1)).unwrap()
}

fn fresh() -> (SimDisk, Arc<LocalIncoming>) {
    let disk = SimDisk::default();
    let log = open(&disk);
    (disk, log)
}

/// Appends until there is no space; returns the numbers of what was accepted.
async fn fill(log: &LocalIncoming) -> Vec<u32> {
    for next in 1.. {
        match append(log, next, 9000).await {
            Ok(()) => {}
            Err(IncomingError::NoSpace(_)) => return (1..next).collect(),
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("numbers do not end")
}

async fn trim_all(log: &LocalIncoming) -> Result<(), IncomingError> {
    let newest = log.positions(&[ONLY_SACK]).await.unwrap()[0].newest;
    log.acknowledge(ONLY_SACK, newest).await.unwrap();
    log.trim(&[(ONLY_SACK, newest)]).await
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_taken_any_more() {
    let (disk, log) = fresh();
    append(&log, 1, 10).await.unwrap();
    disk.fail(Operation::SyncData, 0, ErrorKind::Other, false);
    assert_eq!(log.fault(), None);
    assert!(matches!(append(&log, 2, 10).await, Err(IncomingError::Poisoned(_))));
    assert!(matches!(log.fault(), Some(Fault::OutOfOrder(_))));
    // The disk would work again, but the log does not retry.
    assert!(matches!(append(&log, 3, 10).await, Err(IncomingError::Poisoned(_))));
    assert_eq!(waiting(&log).await, [1], "what was refused is seen by nobody, what was taken is there");
    assert!(log.figures().poisoned);
    assert_eq!(log.backlog().await.unwrap().measures, 1);
    drop(log);
    let log = open(&disk);
    assert_eq!(waiting(&log).await[0], 1);
    append(&log, 4, 10).await.expect("a restart makes a new start");
}

/// The process is killed between the rename of a file for reuse and the sync of its old name; the next one
/// finds the file, and loses power while it opens the log.
#[tokio::test]
async fn a_file_is_not_written_again_before_its_old_name_is_gone() {
    for operations in 1..20 {
        for seed in 0..10 {
            let (disk, log) = fresh();
            append_each(&log, 1..5, 30_000).await;
            // The first sync is that of the checkpoint's name.
            disk.fail(Operation::SyncDir, 1, ErrorKind::Other, false);
            trim_all(&log).await.unwrap_err();
            disk.kill_after(0);
            drop(log);
            disk.restart(0);
            assert!(!files(&disk, ".spare").is_empty());
            disk.cut_after(operations, seed);
            open_log(&disk, &small_log(1)).ok();
            disk.restart(seed);
            assert_eq!(open(&disk).figures().damaged, 0, "seed {seed}, cut at {operations}");
        }
    }
}

/// The same within one process.
#[tokio::test]
async fn a_file_whose_old_name_may_come_back_is_not_used_again() {
    let (disk, log) = fresh();
    append_each(&log, 1..5, 30_000).await;
    disk.fail(Operation::SyncDir, 1, ErrorKind::Other, false);
    trim_all(&log).await.unwrap_err();
    let spares = files(&disk, ".spare");
    assert_eq!(spares.len(), 1);
    append_each(&log, 5..10, 30_000).await;
    assert_eq!(files(&disk, ".spare"), spares);
    assert_eq!(waiting(&log).await, [5, 6, 7, 8, 9]);
}

/// Whether files are used again or removed.
#[tokio::test]
async fn a_file_that_is_gone_does_not_keep_the_others() {
    for spare_segments_max in [0, 2] {
        let disk = SimDisk::default();
        let options = LocalIncomingOptions { spare_segments_max, ..small_log(1) };
        let log = open_log(&disk, &options).unwrap();
        append_each(&log, 1..14, 30_000).await;
        let before = files(&disk, ".log");
        assert!(before.len() > 5, "{before:?}");
        for gone in [&before[0], &before[3]] {
            disk.remove(gone).unwrap();
        }
        trim_all(&log).await.unwrap();
        assert_eq!(files(&disk, ".log"), before[before.len() - 1..]);
        assert_eq!(files(&disk, ".spare").len(), spare_segments_max);
        append(&log, 14, 30_000).await.unwrap();
        assert_eq!(waiting(&log).await, [14]);
    }
}

/// Nothing else would remove them before the next start.
#[tokio::test]
async fn what_is_not_used_again_is_removed_though_names_cannot_be_synced() {
    let (disk, log) = fresh();
    append_each(&log, 1..14, 30_000).await;
    let before = files(&disk, ".log");
    assert!(before.len() > 5, "{before:?}");
    // The first sync is that of the checkpoint's name.
    disk.fail(Operation::SyncDir, 1, ErrorKind::StorageFull, false);
    trim_all(&log).await.unwrap_err();
    assert_eq!(files(&disk, ".log"), before[before.len() - 1..]);
    append(&log, 14, 30_000).await.unwrap();
    assert_eq!(waiting(&log).await, [14]);
}

#[tokio::test]
async fn a_failed_write_poisons_too() {
    let (disk, log) = fresh();
    append(&log, 1, 10).await.unwrap();
    disk.fail_batch_write(ErrorKind::Other);
    assert!(matches!(append(&log, 2, 1000).await, Err(IncomingError::Poisoned(_))));
    drop(log);
    assert_eq!(waiting(&open(&disk)).await, [1]);
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let (disk, log) = fresh();
    disk.set_capacity(Some(disk.used() + 150_000));
    let taken = fill(&log).await;
    assert!(taken.len() > 10, "{taken:?}");
    assert!(matches!(append(&log, 98, 9000).await, Err(IncomingError::NoSpace(_))), "again");
    assert_eq!(waiting(&log).await, taken, "what was acknowledged is there, what was refused is not");
    let backlog = log.backlog().await.unwrap();
    assert_eq!(backlog.measures, taken.iter().map(|id| u64::from(*id)).sum::<u64>());
    trim_all(&log).await.unwrap();
    append(&log, 99, 9000).await.expect("trimming makes room");
    assert_eq!(waiting(&log).await, [99]);
    drop(log);
    assert_eq!(waiting(&open(&disk)).await, [99]);
}

/// Otherwise a part of what is set aside of a damaged file takes the last space.
#[test]
fn a_file_without_room_leaves_nothing() {
    let disk = SimDisk::default();
    disk.set_capacity(Some(1000));
    replace_file(&disk, Path::new("/file"), &[1; 600]).unwrap();
    replace_file(&disk, Path::new("/file"), &[2; 600]).unwrap_err();
    assert_eq!((disk.paths(), disk.used()), (vec![PathBuf::from("/file")], 600));
}

#[tokio::test]
async fn a_log_on_a_full_disk_opens() {
    let (disk, log) = fresh();
    append_each(&log, 1..=20, 9000).await;
    drop(log);
    // Room for a header, and as much again; the space freed by closing the last file is taken, too.
    let last = files(&disk, ".log").into_iter().max().unwrap();
    disk.edit(&last, |bytes| bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 200));
    disk.set_capacity(Some(disk.used() + 9000));
    let log = open(&disk);
    assert_eq!(waiting(&log).await, (1..=20).collect::<Vec<_>>());
    assert!(matches!(append(&log, 21, 9000).await, Err(IncomingError::NoSpace(_))));
    disk.set_capacity(None);
    append(&log, 22, 9000).await.unwrap();
    drop(log);
    assert_eq!(waiting(&open(&disk)).await.last(), Some(&22));
}

#[tokio::test]
async fn a_write_that_runs_out_of_space_half_way_is_taken_back() {
    let (disk, log) = fresh();
    append(&log, 1, 1000).await.unwrap();
    disk.fail_batch_write(ErrorKind::StorageFull);
    assert!(matches!(append(&log, 2, 1000).await, Err(IncomingError::NoSpace(_))));
    append(&log, 3, 1000).await.expect("space is back");
    assert_eq!(waiting(&log).await, [1, 3]);
    drop(log);
    let log = open(&disk);
    assert_eq!(waiting(&log).await, [1, 3]);
    assert_eq!(log.figures().damaged, 0);
    // The undo freed the allocated space: it is allocated again before the next write.
    disk.fail(Operation::Allocate, 0, ErrorKind::StorageFull, true);
    disk.fail_batch_write(ErrorKind::StorageFull);
    assert!(matches!(append(&log, 4, 1000).await, Err(IncomingError::NoSpace(_))));
    assert!(matches!(append(&log, 5, 1000).await, Err(IncomingError::NoSpace(_))));
    disk.heal();
    append(&log, 6, 1000).await.unwrap();
    drop(log);
    assert_eq!(waiting(&open(&disk)).await, [1, 3, 6]);
}

#[tokio::test]
async fn what_cannot_be_taken_back_poisons() {
    let (disk, log) = fresh();
    disk.fail_batch_write(ErrorKind::StorageFull);
    disk.fail(Operation::Truncate, 0, ErrorKind::Other, false);
    assert!(matches!(append(&log, 1, 1000).await, Err(IncomingError::Poisoned(_))));
    assert!(matches!(append(&log, 2, 1000).await, Err(IncomingError::Poisoned(_))));
}

/// On file systems that copy on write even that takes space.
#[tokio::test]
async fn a_full_disk_may_not_even_cut_a_file() {
    let (disk, log) = fresh();
    disk.fail(Operation::Truncate, 0, ErrorKind::StorageFull, false);
    let mut taken = fill(&log).await;
    append(&log, 99, 9000).await.unwrap();
    taken.push(99);
    drop(log);
    assert_eq!(waiting(&open(&disk)).await, taken);
}

#[tokio::test]
async fn without_syncs_the_log_works_and_never_syncs() {
    let disk = SimDisk::default();
    let options = LocalIncomingOptions { durability: Durability::Os, ..small_log(1) };
    let log = open_log(&disk, &options).unwrap();
    append_each(&log, 1..20, 9000).await;
    assert_eq!(log.figures().syncs, 0);
    assert_eq!(log.figures().appends, 19);
    drop(log);
    let log = open_log(&disk, &options).unwrap();
    assert_eq!(waiting(&log).await, (1..20).collect::<Vec<_>>());
    assert_eq!(log.figures().damaged, 0);
}

#[tokio::test]
async fn files_are_used_again_and_the_log_stays_small() {
    let (disk, log) = fresh();
    for id in 1..200 {
        append(&log, id, 9000).await.unwrap();
        if id % 10 == 0 {
            trim_all(&log).await.unwrap();
        }
    }
    assert!(log.figures().segments <= 3, "{} segments", log.figures().segments);
    assert!(disk.used() < 9 << 16, "{} bytes", disk.used());
    // The log used 30 segments, and each trim replaced the checkpoint.
    assert!(disk.created() - 19 < 10, "{} files were made", disk.created());
}

#[tokio::test]
async fn a_batch_larger_than_a_segment_gets_its_own() {
    let (disk, log) = fresh();
    append(&log, 1, 10).await.unwrap();
    append(&log, 2, 300_000).await.unwrap();
    append(&log, 3, 10).await.unwrap();
    drop(log);
    let log = open(&disk);
    assert_eq!(waiting(&log).await, [1, 2, 3]);
    assert_eq!(
        log.pending(ONLY_SACK, Position(0), usize::MAX).await.unwrap().records[1].points,
        vec![2; 300_000]
    );
    trim_all(&log).await.unwrap();
    append(&log, 4, 10).await.unwrap();
    assert!(disk.used() < 300_000, "a long file is not kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_queue_makes_callers_wait_but_loses_nobody() {
    let disk = SimDisk::default();
    let options = LocalIncomingOptions { queue_bytes_max: 4096, ..small_log(1) };
    let log = open_log(&disk, &options).unwrap();
    let appends: Vec<_> = (1..=50u32)
        .map(|id| {
            let log = Arc::clone(&log);
            tokio::spawn(
                async move { append(&log, id, if id % 10 == 0 { 20_000 } else { 300 }).await.unwrap() },
            )
        })
        .collect();
    for append in appends {
        append.await.unwrap();
    }
    let mut found = waiting(&log).await;
    found.sort_unstable();
    assert_eq!(found, (1..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_writer_that_panics_answers_and_is_told() {
    let (disk, log) = fresh();
    append(&log, 1, 10).await.unwrap();
    disk.panic_at_write();
    for id in 2..10 {
        let answer = tokio::time::timeout(std::time::Duration::from_mins(1), append(&log, id, 10)).await;
        assert!(matches!(answer.expect("an answer"), Err(IncomingError::Poisoned(_))), "{id}");
    }
    assert_eq!(log.fault(), Some(Fault::Ended("the writer of the incoming log")));
    assert_eq!(waiting(&log).await, [1]);
    drop(log);
    let log = open(&disk);
    append(&log, 10, 10).await.unwrap();
    assert_eq!(waiting(&log).await, [1, 10]);
}

/// Unlike other failures it passes, and happens before anything is written.
#[tokio::test]
async fn a_log_goes_on_once_there_is_memory_again() {
    for operation in [Operation::Create, Operation::Truncate, Operation::Allocate] {
        let (disk, log) = fresh();
        for _ in 0..2 {
            disk.fail(operation, 0, ErrorKind::OutOfMemory, false);
        }
        let mut accepted = Vec::new();
        for id in 1..10 {
            match append(&log, id, 30_000).await {
                Ok(()) => accepted.push(id),
                Err(error) => assert!(matches!(error, IncomingError::Io(_)), "{operation:?}: {error:?}"),
            }
        }
        assert!(disk.is_healed() && accepted.len() < 9, "{operation:?}: {accepted:?}");
        assert_eq!(waiting(&log).await, accepted, "{operation:?}");
        assert_eq!(log.fault(), None);
    }
}
