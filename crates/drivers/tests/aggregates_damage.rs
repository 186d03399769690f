//! Damage to the aggregate store's files: reported, quarantined, and everything around it readable. An older
//! version never replaces a lost newer one.

mod support;

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use gnudi_drivers::{
    OpenError,
    aggregates::{
        AggregateStore, Blocks, Fence, MetricWrite, StoreError,
        local::{LocalAggregates, LocalAggregatesOptions},
    },
    disk::Disk as _,
};
use gnudi_model::{MetricId, Timestamp};
use support::{
    aggregate_items::{all_blocks, key, metric as metric_of},
    local::{files, open_aggregates, small_aggregates},
    random::Random,
    sim_disk::SimDisk,
    wait::until,
};

const METRICS: u8 = 100;

fn metric(id: u8) -> MetricId {
    metric_of(id.into())
}

/// A run is made at `flush_at` bytes of log.
fn open(disk: &SimDisk, flush_at: u64) -> Arc<LocalAggregates> {
    let options = LocalAggregatesOptions { spare_segments_max: 1, ..small_aggregates(flush_at) };
    open_aggregates(disk, &options).unwrap()
}

/// All that is written stays in the log.
fn open_unflushed(disk: &SimDisk) -> Arc<LocalAggregates> {
    open(disk, 1 << 20)
}

/// A head and a block of 300 bytes: id, version, then bytes derived from both.
fn value(id: u8, version: u8) -> Bytes {
    [id, version].into_iter().chain((2..300).map(|at| (at as u8).wrapping_mul(id | 1) ^ version)).collect()
}

/// A head alone.
fn head_write(id: u8, version: u8) -> MetricWrite {
    MetricWrite::of_head(metric(id), value(id, version))
}

async fn write_all(store: &LocalAggregates, writes: impl Iterator<Item = MetricWrite>) {
    assert!(store.write(Fence::EVERYTHING, writes.collect()).await.iter().all(Result::is_ok));
}

async fn write(store: &LocalAggregates, version: u8) {
    let block = |id: u8| (key(id.into(), 60 * i64::from(version)), value(id, version));
    let with_block = |id| MetricWrite { blocks: vec![block(id)], ..head_write(id, version) };
    write_all(store, (0..METRICS).map(with_block)).await;
    store.sync().await.unwrap();
}

/// Waits until the runs of so many flushes are there. The flush's part of the log is gone once the store is dropped.
async fn settle(store: &LocalAggregates, flushes: u64) {
    until("a flush", async || store.figures().flushes >= flushes).await;
}

/// How many heads and blocks are missing or damaged; asserts that all others have the newest version.
async fn count_lost(store: &LocalAggregates, versions: u8) -> (usize, usize) {
    let metrics: Vec<MetricId> = (0..METRICS).map(metric).collect();
    let (mut heads_lost, mut blocks_lost) = (0, 0);
    for (id, head) in (0..METRICS).zip(store.read_heads(&metrics).await) {
        match head {
            Ok(Some(head)) => assert_eq!(head, value(id, versions), "an older head of {id}, or rubbish"),
            Err(StoreError::Damaged(place)) => {
                assert!(place.contains("/aggregates/") && place.contains(" at "), "{place}");
                heads_lost += 1;
            }
            answer => panic!("{answer:?}"),
        }
        let range = all_blocks(id.into());
        let Blocks { whole: blocks, damaged } = store.read_blocks(&[range]).await.remove(0).unwrap();
        assert!(blocks.is_sorted_by_key(|(key, _)| *key));
        for (key, bytes) in &blocks {
            let version = (key.first.secs() / 60) as u8;
            assert_eq!(*bytes, value(id, version), "a wrong block");
        }
        let lost = usize::from(versions) - blocks.len();
        assert!(lost == 0 || !damaged.is_empty(), "{lost} blocks of {id} are missing, and nothing says so");
        blocks_lost += lost;
    }
    (heads_lost, blocks_lost)
}

/// Like [`count_lost`], after a restart.
async fn count_lost_in(disk: &SimDisk, versions: u8) -> (usize, usize) {
    count_lost(&open_unflushed(disk), versions).await
}

fn quarantined(disk: &SimDisk) -> usize {
    disk.paths().into_iter().filter(|path| path.starts_with("/aggregates/quarantine")).count()
}

/// Flips a bit of the used part of a file.
fn flip(disk: &SimDisk, file: &Path, random: &mut Random) -> usize {
    let mut at = 0;
    disk.edit(file, |bytes| {
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        at = random.below(used);
        bytes[at] ^= 1 << random.below(8);
    });
    at
}

/// Flips a bit of a head in the log, in the last of the two copies of its value.
fn flip_head(disk: &SimDisk, head: &Bytes) {
    for file in files(disk, ".log") {
        disk.edit(&file, |bytes| {
            if let Some(at) = bytes.windows(head.len()).rposition(|window| window == head) {
                bytes[at + 100] ^= 1;
            }
        });
    }
}

/// Two versions of everything in the log.
async fn two_in_log() -> (SimDisk, Arc<LocalAggregates>) {
    let disk = SimDisk::default();
    let store = open_unflushed(&disk);
    write(&store, 1).await;
    write(&store, 2).await;
    (disk, store)
}

#[tokio::test]
async fn a_flipped_bit_in_the_log_costs_one_value() {
    let mut random = Random::new(1);
    for round in 0..60 {
        let (disk, store) = two_in_log().await;
        let reopened = round % 2 == 0;
        if reopened {
            drop(store);
        }
        let files = files(&disk, ".log");
        let at = flip(&disk, &files[random.below(files.len())], &mut random);
        let store = open_unflushed(&disk);
        // The first item of a frame, which names the metric, has no value of its own.
        let (heads, blocks) = count_lost(&store, 2).await;
        assert!(heads + blocks <= 1, "round {round}, byte {at}: {heads} heads and {blocks} blocks");
        if heads + blocks > 0 {
            assert_eq!(store.figures().damaged, 1);
            assert!(quarantined(&disk) >= 1);
        }
    }
}

/// A power cut may take the mark that proves the last sync; the roster proves it, too.
#[tokio::test]
async fn damage_before_a_mark_that_is_lost_costs_one_value() {
    const MARK_BYTES: usize = 32;
    let disk = SimDisk::default();
    let store = open_unflushed(&disk);
    write(&store, 1).await;
    drop(store);
    let file = files(&disk, ".log").pop().unwrap();
    disk.edit(&file, |bytes| {
        let end = (bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1).next_multiple_of(8);
        bytes[end - MARK_BYTES..end].fill(0);
    });
    // In the last file, with other frames behind it.
    flip_head(&disk, &value(METRICS - 10, 1));
    assert_eq!(count_lost_in(&disk, 1).await, (1, 0));
}

/// Sixteen consecutive bytes may span two frames: the head of one, and the header of the next.
#[tokio::test]
async fn damage_across_a_seam_never_brings_an_old_value_back() {
    const BYTES: usize = 16;
    const FRAMES: usize = 3;
    let (disk, store) = two_in_log().await;
    drop(store);
    let file = files(&disk, ".log").pop().unwrap();
    let mut whole = Vec::new();
    disk.edit(&file, |bytes| whole.clone_from(bytes));
    // The head is the second copy of the value, and the frame's last item.
    let end_of_head = |id: u8| {
        let wanted = value(id, 2);
        Some(whole.windows(wanted.len()).rposition(|window| *window == wanted[..])? + wanted.len())
    };
    let ends: Vec<usize> = (0..METRICS).filter_map(end_of_head).take(FRAMES).collect();
    assert_eq!(ends.len(), FRAMES, "the last file has none of the newer heads");
    for end in ends {
        for at in (end - 24..end + 48).step_by(4) {
            disk.edit(&file, |bytes| {
                bytes.clone_from(&whole);
                bytes[at..at + BYTES].iter_mut().for_each(|byte| *byte ^= 0xff);
            });
            let (heads, blocks) = count_lost_in(&disk, 2).await;
            assert!(heads + blocks <= 2, "byte {at}: {heads} heads and {blocks} blocks");
        }
    }
}

#[tokio::test]
async fn damage_to_the_log_while_running_costs_one_value() {
    let disk = SimDisk::default();
    let store = open_unflushed(&disk);
    write(&store, 1).await;
    flip_head(&disk, &value(7, 1));
    assert_eq!(count_lost(&store, 1).await, (1, 0));
    assert_eq!(count_lost(&store, 1).await, (1, 0));
    assert_eq!(store.figures().damaged, 1, "reported once");
    assert_eq!(quarantined(&disk), 1);
    write(&store, 2).await;
    assert_eq!(count_lost(&store, 2).await, (0, 0), "writing a head makes it whole again");
}

/// Two runs: the newer one has a newer head of each metric, and another block.
async fn two_runs() -> SimDisk {
    let disk = SimDisk::default();
    let store = open(&disk, 1000);
    write(&store, 1).await;
    settle(&store, 1).await;
    write(&store, 2).await;
    settle(&store, 2).await;
    assert_eq!(store.figures().runs, 2);
    disk
}

fn newer_run(disk: &SimDisk) -> PathBuf {
    files(disk, ".run").remove(1)
}

#[tokio::test]
async fn a_flipped_bit_in_a_run_costs_one_value_and_never_brings_an_old_one_back() {
    let mut random = Random::new(2);
    let mut hurt = 0;
    for round in 0..150 {
        let disk = two_runs().await;
        let files = files(&disk, ".run");
        assert_eq!(files.len(), 2);
        let at = flip(&disk, &files[random.below(2)], &mut random);
        let store = open_unflushed(&disk);
        let (heads, blocks) = count_lost(&store, 2).await;
        assert!(heads + blocks <= 1, "round {round}, byte {at}: {heads} heads and {blocks} blocks");
        if heads + blocks > 0 {
            hurt += 1;
            assert_eq!(store.figures().damaged, 1, "round {round}, byte {at}");
            assert_eq!(quarantined(&disk), 1, "round {round}, byte {at}");
        }
        assert_eq!(count_lost(&store, 2).await, (heads, blocks));
        assert!(store.figures().damaged <= 1, "a find is reported once");
    }
    assert!(hurt > 75, "the flips hit nothing: {hurt}");
}

#[tokio::test]
async fn a_damaged_page_costs_what_lies_in_it() {
    let disk = two_runs().await;
    let file = newer_run(&disk);
    disk.edit(&file, |bytes| bytes[20_000..24_096].fill(0x55));
    let (heads, blocks) = count_lost_in(&disk, 2).await;
    assert!((3..=8).contains(&heads) && (3..=8).contains(&blocks), "{heads} heads and {blocks} blocks");
    // Metrics with losses can be deleted and rewritten.
    let store = open_unflushed(&disk);
    write(&store, 3).await;
    assert_eq!(count_lost(&store, 3).await.0, 0);
}

#[tokio::test]
async fn a_run_without_its_end_is_read_by_its_entries() {
    let disk = two_runs().await;
    for file in files(&disk, ".run") {
        disk.edit(&file, |bytes| {
            let length = bytes.len();
            bytes[length - 200..].fill(0);
        });
    }
    let store = open_unflushed(&disk);
    assert_eq!(count_lost(&store, 2).await, (0, 0));
    assert_eq!(store.figures().damaged, 2);
}

/// Whatever part of a run is lost (entries, index, end): a head is the newest or damaged, never an older one.
#[tokio::test]
async fn a_run_that_lost_a_stretch_or_its_end_never_brings_an_old_head_back() {
    let mut random = Random::new(4);
    let (mut stretches, mut cuts) = (0, 0);
    for round in 0..150 {
        let disk = two_runs().await;
        let file = newer_run(&disk);
        disk.edit(&file, |bytes| {
            let at = random.below(bytes.len());
            if round % 2 == 0 {
                bytes.truncate(at);
            } else {
                // Up to and beyond the size of index, filter and footer together.
                let end = (at + 512 + random.below(4096)).min(bytes.len());
                bytes[at..end].fill(0);
            }
        });
        let store = open_unflushed(&disk);
        let (heads, _) = count_lost(&store, 2).await;
        *(if round % 2 == 0 { &mut cuts } else { &mut stretches }) += heads;
        drop(store);
        assert_eq!(count_lost_in(&disk, 2).await.0, heads, "round {round}: the same after a restart");
    }
    assert!(stretches > 100 && cuts > 1000, "{stretches} heads lost to stretches, {cuts} to cuts");
}

/// Somebody removed a run's file: older heads do not come back, nor once the log continues behind the gap.
#[tokio::test]
async fn a_run_that_is_gone_never_brings_an_old_head_back() {
    for (gone, heads_lost) in [(0, 0), (1, usize::from(METRICS))] {
        let disk = two_runs().await;
        disk.remove(&files(&disk, ".run")[gone]).unwrap();
        for _ in 0..2 {
            let store = open_unflushed(&disk);
            assert_eq!(count_lost(&store, 2).await, (heads_lost, usize::from(METRICS)), "run {gone}");
            assert_eq!(store.figures().damaged, 1, "run {gone}");
        }
        let store = open(&disk, 1000);
        write(&store, 3).await;
        settle(&store, 1).await;
        drop(store);
        let store = open_unflushed(&disk);
        assert_eq!(count_lost(&store, 3).await, (0, usize::from(METRICS)), "run {gone}");
        assert_eq!(store.figures().damaged, 1, "run {gone}");
    }
}

/// A machine that starts without a clock has metrics that were created later than that.
#[tokio::test]
async fn a_run_that_is_gone_brings_no_old_head_back_by_a_clock_that_is_behind() {
    let now = Timestamp::from(SystemTime::now());
    let newer = MetricId::new(Timestamp::from_secs(now.secs() + 86_400), 7);
    let disk = SimDisk::default();
    let store = open(&disk, 1000);
    for version in 1..=2 {
        let head = Bytes::from(vec![version; 2000]);
        write_all(&store, [MetricWrite::of_head(newer, head)].into_iter()).await;
        settle(&store, version.into()).await;
    }
    assert_eq!(store.figures().runs, 2);
    drop(store);
    disk.remove(&newer_run(&disk)).unwrap();
    let head = open_unflushed(&disk).read_heads(&[newer]).await.remove(0);
    assert!(matches!(head, Err(StoreError::Damaged(_))), "{head:?}");
}

/// A lost part of the log that was durable: the affected metrics are known, and their writes count as
/// damaged.
#[tokio::test]
async fn a_hole_in_the_log_costs_what_was_in_it() {
    let mut random = Random::new(5);
    let mut lost = 0;
    for round in 0..40 {
        let (disk, store) = two_in_log().await;
        drop(store);
        let logs = files(&disk, ".log");
        let file = &logs[random.below(logs.len())];
        disk.edit(file, |bytes| {
            let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            let at = random.below(used);
            let end = (at + 4096).min(bytes.len());
            // Or everything behind it, whether later frames prove its sync or not.
            if round % 4 == 0 { bytes.truncate(at) } else { bytes[at..end].fill(0) }
        });
        let store = open_unflushed(&disk);
        let (heads, blocks) = count_lost(&store, 2).await;
        if round % 4 != 0 {
            assert!(heads <= 8 && blocks <= 8, "round {round}: {heads} heads and {blocks} blocks");
        }
        lost += heads;
        drop(store);
        assert_eq!(count_lost_in(&disk, 2).await, (heads, blocks), "round {round}: after a restart");
        // A new head is valid, even when recovered from the log beside older damage.
        let store = open_unflushed(&disk);
        write(&store, 3).await;
        drop(store);
        for _ in 0..2 {
            assert_eq!(count_lost_in(&disk, 3).await, (0, blocks), "round {round}: written again");
        }
    }
    assert!(lost > 200, "the holes hit little: {lost}");
}

/// Two versions of five heads in the log, each head in a frame of its own; and where each version ends in the file.
async fn five_heads_twice() -> (SimDisk, Vec<usize>) {
    let disk = SimDisk::default();
    let store = open_unflushed(&disk);
    let mut ends = Vec::new();
    for version in 1..=2 {
        write_all(&store, (0..5).map(|id| head_write(id, version))).await;
        store.sync().await.unwrap();
        disk.edit(&files(&disk, ".log")[0], |bytes| {
            ends.push(bytes.iter().rposition(|byte| *byte != 0).unwrap() / 8 * 8 + 8);
        });
    }
    (disk, ends)
}

/// A file that is used again has frames of its earlier use behind its end, with items that are whole. They are not taken
/// for those of frames that are lost before the end.
#[tokio::test]
async fn items_of_an_earlier_use_of_a_file_are_not_taken() {
    for shift in [0, 8, 16, 24] {
        let (disk, ends) = five_heads_twice().await;
        disk.edit(&files(&disk, ".log")[0], |bytes| {
            let earlier = bytes[4096..ends[0]].to_vec();
            bytes.resize(bytes.len().max(ends[1] + shift + earlier.len()), 0);
            bytes[ends[0]..ends[1]].fill(0);
            bytes[ends[1] + shift..][..earlier.len()].copy_from_slice(&earlier);
        });
        for start in 1..=3 {
            let lost = lost_heads(&open_unflushed(&disk), 0..5, |_| 2).await;
            assert_eq!(lost, [0, 1, 2, 3, 4], "shift {shift}, start {start}");
        }
    }
}

/// Where the disk did not write a page, it has frames of the file's earlier use, with items that are whole. They are not
/// taken for those of the frames that are lost, though others follow.
#[tokio::test]
async fn items_of_a_page_that_was_not_written_are_not_taken() {
    const MARK_BYTES: usize = 32;
    for shift in [0, 8, 16, 24, 32] {
        let (disk, ends) = five_heads_twice().await;
        disk.edit(&files(&disk, ".log")[0], |bytes| {
            let frame = (ends[0] - MARK_BYTES - 4096) / 5;
            bytes.copy_within(4096..4096 + 4 * frame - shift, ends[0] + shift);
        });
        for start in 1..=3 {
            let lost = lost_heads(&open_unflushed(&disk), 0..5, |_| 2).await;
            assert_eq!(lost, [0, 1, 2, 3], "shift {shift}, start {start}");
        }
    }
}

/// The end of a run is lost: the heads there count as lost until rewritten, while newer runs are merged and
/// older ones read.
#[tokio::test]
async fn a_cut_run_takes_no_neighbours_along() {
    let disk = two_runs().await;
    let file = newer_run(&disk);
    disk.edit(&file, |bytes| bytes.truncate(bytes.len() / 2));
    let lost: Vec<u8> = lost_heads(&open_unflushed(&disk), 0..METRICS, |_| 2).await;
    assert!((40..70).contains(&lost.len()), "{lost:?}");
    let rewritten: Vec<u8> = lost.iter().copied().step_by(2).collect();
    let store = open(&disk, 1000);
    for version in 3..10 {
        write_all(&store, rewritten.iter().map(|id| head_write(*id, version))).await;
        settle(&store, u64::from(version) - 2).await;
    }
    until("a merge", async || store.figures().merges > 0).await;
    let version = |id| if rewritten.contains(&id) { 9 } else { 2 };
    let left: Vec<u8> = lost.iter().copied().skip(1).step_by(2).collect();
    assert_eq!(lost_heads(&store, 0..METRICS, version).await, left);
    drop(store);
    assert_eq!(lost_heads(&open_unflushed(&disk), 0..METRICS, version).await, left, "after a restart");
    assert!(disk.paths().contains(&file), "the run stays between the older and the newer");
}

/// Those of the metrics with damaged heads; asserts that the others have the expected version.
async fn lost_heads(store: &LocalAggregates, ids: Range<u8>, version: impl Fn(u8) -> u8) -> Vec<u8> {
    let metrics: Vec<MetricId> = ids.clone().map(metric).collect();
    let mut lost = Vec::new();
    for (id, head) in ids.zip(store.read_heads(&metrics).await) {
        match head {
            Ok(head) => assert_eq!(head, Some(value(id, version(id))), "metric {id}"),
            Err(StoreError::Damaged(_)) => lost.push(id),
            Err(error) => panic!("metric {id}: {error}"),
        }
    }
    lost
}

/// A metric created after the damage was found has lost nothing.
#[tokio::test]
async fn a_cut_run_says_nothing_of_metrics_made_later() {
    let disk = two_runs().await;
    for file in files(&disk, ".run") {
        disk.edit(&file, |bytes| bytes.truncate(bytes.len() / 2));
    }
    let store = open_unflushed(&disk);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap() + Duration::from_mins(1);
    let new = MetricId::new(Timestamp(now.as_nanos() as i64), u128::MAX);
    let old = MetricId::new(Timestamp(now.as_nanos() as i64 - 120_000_000_000), u128::MAX);
    let heads = store.read_heads(&[new, old]).await;
    assert!(matches!(heads[..], [Ok(None), Err(StoreError::Damaged(_))]), "{heads:?}");
}

#[tokio::test]
async fn merging_carries_on_past_damage() {
    let mut random = Random::new(3);
    for round in 0..40 {
        let disk = two_runs().await;
        let files = files(&disk, ".run");
        let at = flip(&disk, &files[random.below(2)], &mut random);
        let store = open(&disk, 1000);
        let before = count_lost(&store, 2).await;
        for flushes in 1..=4 {
            write(&store, flushes as u8 + 2).await;
            settle(&store, flushes).await;
        }
        until("a merge", async || store.figures().merges > 0).await;
        let (heads, blocks) = count_lost(&store, 6).await;
        assert_eq!(heads, 0, "new heads were written");
        assert!(blocks <= 1, "round {round}, byte {at}: {before:?} before, {blocks} blocks lost now");
        drop(store);
        assert_eq!(count_lost_in(&disk, 6).await, (0, blocks), "the same after a restart");
    }
}

#[tokio::test]
async fn a_damaged_head_stays_damaged_through_flush_and_merge() {
    let disk = SimDisk::default();
    let store = open_unflushed(&disk);
    write(&store, 1).await;
    drop(store);
    let store = open(&disk, 1000);
    settle(&store, 1).await;
    drop(store);
    let store = open_unflushed(&disk);
    write(&store, 2).await;
    drop(store);
    flip_head(&disk, &value(7, 2));
    // Opening finds the log too long, and flushes it.
    let store = open(&disk, 1000);
    settle(&store, 1).await;
    assert_eq!(store.figures().recent_entries, 0);
    assert_eq!(count_lost(&store, 2).await, (1, 0), "the old head must not come back");
    drop(store);
    assert_eq!(count_lost_in(&disk, 2).await, (1, 0));
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let disk = two_runs().await;
    let file = files(&disk, ".run").remove(0);
    disk.edit(&file, |bytes| {
        bytes[8] = 9;
        let checksum = crc_fast::crc32_iscsi(&bytes[..12]).to_le_bytes();
        bytes[12..16].copy_from_slice(&checksum);
    });
    let error = open_aggregates(&disk, &LocalAggregatesOptions::default()).err().unwrap();
    assert!(matches!(&error, OpenError::TooNew { path, found: 9, known: 1 } if *path == file), "{error}");
}
