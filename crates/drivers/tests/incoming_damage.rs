//! Damage to the incoming log's files: reported, quarantined, and everything around it readable.

mod support;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use gnudi_drivers::{
    OpenError,
    incoming::{
        Append as _, Batch, Consume as _, IncomingError, Position, Record,
        log::{LocalIncoming, LocalIncomingOptions},
    },
};
use gnudi_model::{MetricId, Sack, SackCount, SackId};
use support::{
    local::{files, heal_soon, open_log, small_log},
    random::Random,
    sim_disk::{Operation, SimDisk},
};
use uuid::Uuid;

const SACKS: u16 = 2;

fn sack(id: u16) -> Sack {
    Sack { count: SackCount(SACKS.try_into().unwrap()), id: SackId(id) }
}

fn options() -> LocalIncomingOptions {
    // Unreadable places count as damaged at once.
    LocalIncomingOptions { unreadable_max: Duration::ZERO, ..small_log(SACKS) }
}

fn open(disk: &SimDisk) -> Arc<LocalIncoming> {
    open_log(disk, &options()).unwrap()
}

/// A batch of one entry in each sack, both with the number `id`.
async fn append(log: &LocalIncoming, id: u32) {
    let mut batch = Batch::default();
    for sack in 0..SACKS {
        batch.push(MetricId(Uuid::from_u128(sack.into())), 1, |out| {
            out.extend_from_slice(&id.to_le_bytes());
            out.resize(out.len() + 500, id as u8);
        });
    }
    log.append(batch).await.unwrap();
}

/// A log with this many batches.
async fn filled(batches: u32) -> (SimDisk, Arc<LocalIncoming>) {
    filled_with(batches, Duration::ZERO).await
}

/// The same; places count as damaged once they are unreadable for so long.
async fn filled_with(batches: u32, unreadable_max: Duration) -> (SimDisk, Arc<LocalIncoming>) {
    let disk = SimDisk::default();
    let log = open_log(&disk, &LocalIncomingOptions { unreadable_max, ..options() }).unwrap();
    for id in 1..=batches {
        append(&log, id).await;
    }
    (disk, log)
}

/// The numbers of the batches in a sack.
async fn ids(log: &LocalIncoming, sack: u16) -> Vec<u32> {
    numbers(&log.pending(self::sack(sack), Position(0), usize::MAX).await.unwrap().records)
}

fn numbers(records: &[Record]) -> Vec<u32> {
    records
        .iter()
        .map(|record| {
            let id = u32::from_le_bytes(record.points[..4].try_into().unwrap());
            assert!(record.points[4..].iter().all(|byte| *byte == id as u8), "wrong points were given out");
            id
        })
        .collect()
}

fn quarantined(disk: &SimDisk) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.starts_with("/data/incoming/quarantine")).collect()
}

const FILE: &str = "/data/incoming/00000001.log";

/// The offset of batch `id` in `FILE`: the first of its two runs of 500 equal bytes.
fn find(disk: &SimDisk, id: u32) -> usize {
    let mut at = None;
    disk.edit(Path::new(FILE), |bytes| at = bytes.windows(500).position(|run| run == [id as u8; 500]));
    at.unwrap()
}

fn flip(disk: &SimDisk, at: usize) {
    disk.edit(Path::new(FILE), |bytes| bytes[at] ^= 0x10);
}

#[tokio::test]
async fn a_flipped_byte_costs_one_sacks_part_of_one_batch() {
    let (disk, log) = filled(5).await;
    drop(log);
    flip(&disk, find(&disk, 3) + 100);
    let log = open(&disk);
    assert_eq!(ids(&log, 0).await, [1, 2, 4, 5]);
    assert_eq!(ids(&log, 1).await, [1, 2, 3, 4, 5], "the other sack's part of the batch");
    assert_eq!(log.figures().damaged, 1);
    assert_eq!(quarantined(&disk).len(), 1);
    assert_eq!(log.backlog().await.unwrap().measures, 9);
    drop(log);
    let log = open(&disk);
    assert_eq!(ids(&log, 0).await, [1, 2, 4, 5], "the same after another restart");
    assert_eq!(quarantined(&disk).len(), 1, "set aside once");
}

#[tokio::test]
async fn damage_while_running_is_left_out_and_no_longer_counted() {
    let (disk, log) = filled(3).await;
    flip(&disk, find(&disk, 1) + 7);
    assert_eq!(ids(&log, 0).await, [2, 3]);
    assert_eq!(ids(&log, 1).await, [1, 2, 3]);
    assert_eq!(log.backlog().await.unwrap().measures, 5);
    assert_eq!(log.figures().damaged, 1);
    let name = quarantined(&disk).remove(0);
    assert!(
        name.to_str().unwrap().contains("00000001.log."),
        "the copy is named by file and offset: {name:?}"
    );
    // The worker continues behind it.
    let newest = log.positions(&[sack(0)]).await.unwrap()[0].newest;
    log.acknowledge(sack(0), newest).await.unwrap();
    assert_eq!(ids(&log, 0).await, [] as [u32; 0]);
}

#[tokio::test]
async fn when_all_that_waits_is_damaged_a_read_goes_on_to_what_comes() {
    let (disk, log) = filled(2).await;
    flip(&disk, find(&disk, 1));
    let records = log.pending(sack(0), Position(0), 1).await.unwrap().records;
    assert_eq!(u32::from_le_bytes(records[0].points[..4].try_into().unwrap()), 2);
    flip(&disk, find(&disk, 2));
    assert_eq!(log.pending(sack(0), Position(0), 1).await.unwrap().records, []);
    assert_eq!(log.backlog().await.unwrap().measures, 2, "the other sack's");
}

/// Any single byte of any segment, in frames or headers: at most one batch is lost.
#[tokio::test]
async fn any_damaged_byte_costs_at_most_one_batch() {
    let mut random = Random::new(7);
    for _ in 0..300 {
        let (disk, log) = filled(90).await;
        drop(log);
        let files = files(&disk, ".log");
        let file = &files[random.below(files.len())];
        // The first third: behind it the last file has only allocated space.
        disk.edit(file, |bytes| {
            let at = random.below(bytes.len() / 3);
            bytes[at] ^= 1 << random.below(8);
        });
        let log = open(&disk);
        for sack in 0..SACKS {
            let ids = ids(&log, sack).await;
            assert!(ids.len() >= 89, "{} of 90 batches left", ids.len());
            assert!(ids.is_sorted());
        }
        // Damage between frames costs nothing; any other is noticed.
        if ids(&log, 0).await.len() + ids(&log, 1).await.len() < 180 {
            assert_eq!(log.figures().damaged, 1);
            assert_eq!(quarantined(&disk).len(), 1);
        }
    }
}

#[tokio::test]
async fn a_whole_damaged_page_leaves_what_is_around_it() {
    let (disk, log) = filled(40).await;
    drop(log);
    let at = find(&disk, 10);
    disk.edit(Path::new(FILE), |bytes| bytes[at..at + 4096].fill(0xaa));
    let log = open(&disk);
    let ids = ids(&log, 1).await;
    assert!(
        ids.len() >= 34 && ids.starts_with(&[1, 2, 3, 4, 5, 6, 7, 8, 9]) && ids.ends_with(&[39, 40]),
        "{ids:?}"
    );
}

#[tokio::test]
async fn a_shortened_file_is_reported_and_the_others_stay() {
    let (disk, log) = filled(90).await;
    drop(log);
    disk.edit(Path::new(FILE), |bytes| bytes.truncate(20_000));
    let log = open(&disk);
    assert!(log.figures().damaged >= 1);
    let ids = ids(&log, 0).await;
    assert!(ids.len() > 40 && ids[0] == 1 && ids.ends_with(&[89, 90]), "{ids:?}");
}

#[tokio::test]
async fn a_page_that_cannot_be_read_costs_no_more_than_itself() {
    let (disk, log) = filled(10).await;
    disk.fail(Operation::Read, 0, std::io::ErrorKind::Other, false);
    assert_eq!(ids(&log, 0).await, [2, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(log.figures().damaged, 1);
}

/// A device may recover: until then nothing overtakes the record, and earlier ones are readable.
#[tokio::test]
async fn a_page_that_cannot_be_read_for_a_moment_costs_nothing() {
    let (disk, log) = filled_with(5, Duration::from_hours(1)).await;
    for (failing, expected) in [(2, vec![1, 2]), (0, vec![])] {
        disk.fail(Operation::Read, failing, std::io::ErrorKind::Other, false);
        let read = log.pending(sack(0), Position(0), usize::MAX).await;
        match read {
            Ok(pending) => {
                assert_eq!(numbers(&pending.records), expected);
                assert!(pending.more, "the others are still there");
            }
            Err(IncomingError::Io(reason)) => {
                assert!(expected.is_empty() && reason.contains(FILE), "{reason}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(ids(&log, 0).await, [1, 2, 3, 4, 5]);
    assert_eq!(log.figures().damaged, 0);
}

/// Not each after the one before: the sack would stand still as many times as long.
#[tokio::test]
async fn unreadable_records_are_given_up_together() {
    const MAX: Duration = Duration::from_millis(100);
    let (disk, log) = filled_with(5, MAX).await;
    for id in [2, 3] {
        let at = find(&disk, id) as u64;
        disk.spoil(Path::new(FILE), at..at + 1);
    }
    ids(&log, 0).await;
    tokio::time::sleep(2 * MAX).await;
    assert_eq!(ids(&log, 0).await, [1, 4, 5]);
}

/// Errors that lie apart are not one that lasts.
#[tokio::test]
async fn a_place_that_was_read_since_its_first_error_is_not_given_up_at_the_next() {
    const MAX: Duration = Duration::from_millis(100);
    let (disk, log) = filled_with(1, MAX).await;
    for _ in 0..2 {
        disk.fail(Operation::Read, 0, std::io::ErrorKind::Other, false);
        let read = log.pending(sack(0), Position(0), usize::MAX).await;
        assert!(matches!(read, Err(IncomingError::Io(_))), "a later read may succeed");
        assert_eq!(ids(&log, 0).await, [1]);
        tokio::time::sleep(2 * MAX).await;
    }
    assert_eq!(log.figures().damaged, 0);
}

/// What cannot be read is not torn: it may be acknowledged.
#[tokio::test]
async fn a_start_that_cannot_read_the_logs_end_fails_and_cuts_nothing_off() {
    let (disk, log) = filled(5).await;
    drop(log);
    disk.spoil(Path::new(FILE), find(&disk, 5) as u64..u64::MAX);
    let error = open_log(&disk, &options()).err().unwrap();
    assert!(matches!(&error, OpenError::Unreadable { path, .. } if path == Path::new(FILE)), "{error}");
    for part in ["unreadable at", "`gnudi verify --repair`"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    disk.heal();
    let log = open(&disk);
    for sack in 0..SACKS {
        assert_eq!(ids(&log, sack).await, [1, 2, 3, 4, 5]);
    }
    assert_eq!(log.figures().damaged, 0);
}

/// What was durable once is not given up at once either.
#[tokio::test]
async fn a_start_waits_for_a_place_of_a_full_file_that_cannot_be_read() {
    let (disk, log) = filled(90).await;
    drop(log);
    let at = find(&disk, 10) as u64;
    disk.spoil(Path::new(FILE), at..at + 1);
    let log = open(&disk);
    assert!(ids(&log, 0).await.len() < 90 && log.figures().damaged > 0);
    drop(log);
    let healing = heal_soon(&disk);
    let patient = LocalIncomingOptions { unreadable_max: Duration::from_hours(1), ..options() };
    let log = open_log(&disk, &patient).unwrap();
    healing.join().unwrap();
    for sack in 0..SACKS {
        assert_eq!(ids(&log, sack).await, (1..=90).collect::<Vec<u32>>());
    }
    assert_eq!(log.figures().damaged, 0);
}

#[tokio::test]
async fn losing_the_checkpoint_costs_no_measure() {
    let (disk, log) = filled(1).await;
    let newest = log.positions(&[sack(0)]).await.unwrap()[0].newest;
    log.acknowledge(sack(0), newest).await.unwrap();
    log.trim(&[(sack(0), newest)]).await.unwrap();
    append(&log, 2).await;
    drop(log);
    let log = open(&disk);
    assert_eq!(ids(&log, 0).await, [2], "trimmed records are gone");
    assert_eq!(log.positions(&[sack(0)]).await.unwrap()[0].acknowledged, newest);
    drop(log);
    disk.edit(Path::new("/data/incoming/trimmed"), |bytes| bytes[20] ^= 1);
    let log = open(&disk);
    assert_eq!(ids(&log, 0).await, [1, 2], "they are pending again");
    assert_eq!(log.figures().damaged, 1);
    assert_eq!(log.numbering().count.get(), SACKS);
}

#[tokio::test]
async fn the_sack_count_of_the_directory_wins() {
    let disk = SimDisk::default();
    append(&open(&disk), 1).await;
    let options = LocalIncomingOptions { sack_count: SackCount(7.try_into().unwrap()), ..options() };
    let log = open_log(&disk, &options).unwrap();
    assert_eq!(log.numbering().count.get(), SACKS);
    assert_eq!(ids(&log, 1).await, [1]);
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let disk = SimDisk::default();
    append(&open(&disk), 1).await;
    disk.edit(Path::new(FILE), |bytes| {
        bytes[8] = 2;
        let checksum = crc_fast::crc32_iscsi(&bytes[..36]).to_le_bytes();
        bytes[36..40].copy_from_slice(&checksum);
    });
    let error = open_log(&disk, &options()).err().unwrap();
    assert!(
        matches!(&error, OpenError::TooNew { path, found: 2, known: 1 } if path == Path::new(FILE)),
        "{error}"
    );
}
