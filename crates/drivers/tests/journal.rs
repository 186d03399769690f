//! The journal with power cuts, kills and failures at any disk operation: acknowledged batches are read
//! exactly once and in order, batches refused for lack of space are not, none exists in part, and none of
//! this counts as damage. Real damage is reported with its place, and costs the batches that it touches.

mod support;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use gnudi_drivers::{
    disk::Disk,
    incoming::{
        Append as _, Batch, IncomingError,
        journal::{Found, Journal, JournalOptions, JournalPosition, JournalReader, Journaled},
        log::Durability,
    },
    reserve::Reserve,
};
use gnudi_model::{MetricId, Timestamp};
use proptest::prelude::*;
use support::{
    local::{heal_soon, open_log, small_log},
    random::Random,
    sim_disk::{FAULTS, SimDisk},
    wait::{block_on, until},
};
use uuid::Uuid;

const DIR: &str = "/data/journal";
const STORE: Uuid = Uuid::from_u128(0xabcd << 64);

fn options() -> JournalOptions {
    JournalOptions {
        store: STORE,
        durability: Durability::Sync,
        segment_bytes: 1 << 16,
        queue_bytes_max: 1 << 20,
        reserve: Reserve::default(),
        clock: || Timestamp(7),
    }
}

fn open(disk: &SimDisk) -> Option<Journal> {
    Journal::open_on(Arc::new(disk.clone()), Path::new(DIR), &options()).ok()
}

/// A batch of `entries` metrics with the number in all of them.
fn batch(id: u64, entries: usize, padding: usize) -> Batch {
    let mut batch = Batch::default();
    for entry in 0..entries {
        batch.push(MetricId(Uuid::from_u128(entry as u128)), 1, |out| {
            out.extend_from_slice(&id.to_le_bytes());
            out.extend(std::iter::repeat_n(id as u8, padding));
        });
    }
    batch
}

/// The numbers of the batches after a position, where the journal ends, and the number of damaged places.
fn read(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    from: JournalPosition,
) -> (Vec<(u64, usize)>, JournalPosition, usize) {
    read_all(JournalReader::open_on(Arc::clone(disk), dir, STORE, from).unwrap())
}

fn read_all(mut reader: JournalReader) -> (Vec<(u64, usize)>, JournalPosition, usize) {
    let (mut ids, mut damaged) = (Vec::new(), 0);
    while let Some(found) = reader.next().unwrap() {
        match found {
            Found::Damage { .. } => damaged += 1,
            Found::Entry(entry) => {
                let id = u64::from_le_bytes(entry.records[0].points[..8].try_into().unwrap());
                for record in &entry.records {
                    assert_eq!(record.points[..8], id.to_le_bytes());
                    assert!(record.points[8..].iter().all(|byte| *byte == id as u8), "mixed up points");
                }
                ids.push((id, entry.records.len()));
            }
        }
    }
    assert_eq!(reader.next().unwrap(), None, "the end stays the end");
    (ids, reader.position(), damaged)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    Refused,
    Unknown,
}

struct Run {
    disk: SimDisk,
    random: Random,
    /// Sent batches: number of entries, and outcome.
    sent: BTreeMap<u64, (usize, Fate)>,
    next: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        Run { disk: SimDisk::default(), random: Random::new(seed), sent: BTreeMap::new(), next: 1 }
    }

    /// Appends, several at a time, until the disk fails or enough is done.
    async fn work(&mut self, journal: Journal) {
        let journal = Arc::new(journal);
        for _ in 0..self.random.below(30) {
            let mut appends = tokio::task::JoinSet::new();
            for _ in 0..=self.random.below(5) {
                let (id, entries) = (self.next, 1 + self.random.below(4));
                self.next += 1;
                self.sent.insert(id, (entries, Fate::Unknown));
                let batch = batch(id, entries, [0, 10, 900, 9000][self.random.below(4)]);
                let journal = Arc::clone(&journal);
                appends.spawn(async move { (id, journal.append(&batch).await) });
            }
            let mut failed = false;
            while let Some(answer) = appends.join_next().await {
                let (id, answer) = answer.unwrap();
                let fate = match answer {
                    Ok(()) => Fate::Acknowledged,
                    Err(IncomingError::NoSpace(_)) => Fate::Refused,
                    Err(_) => Fate::Unknown,
                };
                failed |= fate == Fate::Unknown;
                self.sent.get_mut(&id).unwrap().1 = fate;
            }
            if failed {
                return;
            }
        }
    }

    fn check(&mut self) {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let (found, end, damaged) = read(&disk, Path::new(DIR), JournalPosition::default());
        assert_eq!(damaged, 0, "a crash was taken for damage");
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for (id, entries) in &found {
            assert_eq!(self.sent.get(id).map(|(entries, _)| entries), Some(entries), "batch {id} by half");
            *counts.entry(*id).or_default() += 1;
        }
        assert!(counts.values().all(|count| *count == 1), "a batch twice: {counts:?}");
        for (id, (_, fate)) in &mut self.sent {
            match fate {
                Fate::Acknowledged => assert!(counts.contains_key(id), "batch {id} is lost"),
                Fate::Refused => assert!(!counts.contains_key(id), "batch {id} was refused, and is there"),
                // Batches that were read once stay.
                Fate::Unknown if counts.contains_key(id) => *fate = Fate::Acknowledged,
                Fate::Unknown => {}
            }
        }
        // Reading from any place on gives the rest.
        if let Some(take) = found.len().checked_sub(1) {
            let take = self.random.below(take + 1);
            let mut reader =
                JournalReader::open_on(Arc::clone(&disk), Path::new(DIR), STORE, JournalPosition::default())
                    .unwrap();
            for _ in 0..take {
                reader.next().unwrap();
            }
            let position: JournalPosition = reader.position().to_string().parse().unwrap();
            let (rest, rest_end, _) = read(&disk, Path::new(DIR), position);
            assert_eq!((&rest[..], rest_end), (&found[take..], end));
        }
    }
}

async fn run_with_cuts(seed: u64, kills: bool) {
    let mut run = Run::new(seed);
    for _ in 0..5 {
        run.disk.end_at_random(&mut run.random, 120, kills);
        if let Some(journal) = open(&run.disk) {
            run.work(journal).await;
        }
        run.disk.restart(run.random.next());
        // The next start cuts a torn end; a reader before that reports no damage, either.
        if let Some(journal) = open(&run.disk) {
            drop(journal);
            run.check();
        }
    }
    run.check();
}

async fn run_with_failures(seed: u64) {
    let mut run = Run::new(seed);
    for _ in 0..6 {
        run.disk.fail_at_random(&mut run.random, &FAULTS);
        if let Some(journal) = open(&run.disk) {
            run.work(journal).await;
        }
        run.disk.heal();
        drop(open(&run.disk));
        run.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_power_cut_loses_nothing_acknowledged(seed in any::<u64>()) {
        block_on(run_with_cuts(seed, false));
    }

    #[test]
    fn kills_before_a_power_cut_lose_nothing_acknowledged(seed in any::<u64>()) {
        block_on(run_with_cuts(seed, true));
    }

    #[test]
    fn a_failing_disk_loses_nothing_acknowledged(seed in any::<u64>()) {
        block_on(run_with_failures(seed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, ..ProptestConfig::default() })]

    /// Files truncated at any byte: gives a prefix of what was written, and all other files.
    #[test]
    fn a_file_that_is_cut_costs_its_end(seed in any::<u64>()) {
        block_on(async {
            let mut random = Random::new(seed);
            let root = tempfile::tempdir().unwrap();
            let mut sent = Vec::new();
            for _ in 0..3 {
                let journal = Journal::open(root.path(), &options()).unwrap();
                for _ in 0..=random.below(40) {
                    let id = sent.len() as u64 + 1;
                    journal.append(&batch(id, 1, [0, 10, 900, 9000][random.below(4)])).await.unwrap();
                    sent.push(id);
                }
            }
            let disk: Arc<dyn Disk> = Arc::new(gnudi_drivers::disk::LocalDisk);
            let whole = read(&disk, root.path(), JournalPosition::default());
            assert_eq!((whole.0.iter().map(|(id, _)| *id).collect::<Vec<_>>(), whole.2), (sent.clone(), 0));
            let mut files: Vec<_> = std::fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
            files.sort();
            let which = random.below(files.len());
            let file = std::fs::OpenOptions::new().write(true).open(&files[which]).unwrap();
            let length = file.metadata().unwrap().len();
            let cut = 4096 + random.next() % (length.max(4097) - 4096);
            file.set_len(cut.min(length)).unwrap();
            let (left, _, damaged) = read(&disk, root.path(), JournalPosition::default());
            let left: Vec<u64> = left.iter().map(|(id, _)| *id).collect();
            let lost: Vec<u64> = sent.iter().copied().filter(|id| !left.contains(id)).collect();
            assert!(lost.windows(2).all(|pair| pair[1] == pair[0] + 1), "what is lost is in one place: {lost:?}");
            if which + 1 < files.len() && cut < length {
                assert!(damaged > 0, "cut at {cut} of {length} in file {which} is not told");
            }
            // The writer continues behind it.
            let journal = Journal::open(root.path(), &options()).unwrap();
            journal.append(&batch(9999, 1, 0)).await.unwrap();
            let (again, ..) = read(&disk, root.path(), JournalPosition::default());
            assert_eq!(again.last().map(|(id, _)| *id), Some(9999));
            assert_eq!(again.len(), left.len() + 1);
        });
    }

    /// A flipped bit in a file that is full is reported, and costs one batch, even if nothing was synced.
    #[test]
    fn damage_costs_what_it_touches(seed in any::<u64>()) {
        block_on(async {
            let mut random = Random::new(seed);
            let root = tempfile::tempdir().unwrap();
            let durability = [Durability::Sync, Durability::Os][random.below(2)];
            let options = JournalOptions { durability, ..options() };
            let journal = Journal::open(root.path(), &options).unwrap();
            for id in 1..=60 {
                journal.append(&batch(id, 2, random.below(3000))).await.unwrap();
            }
            drop(journal);
            drop(Journal::open(root.path(), &options).unwrap());
            let disk: Arc<dyn Disk> = Arc::new(gnudi_drivers::disk::LocalDisk);
            let file = root.path().join("00000001.log");
            let mut bytes = std::fs::read(&file).unwrap();
            let at = 4096 + random.below(bytes.len() - 4096);
            bytes[at] ^= 1 << random.below(8);
            std::fs::write(&file, bytes).unwrap();
            let (left, _, damaged) = read(&disk, root.path(), JournalPosition::default());
            // Padding and marks hold no batches.
            assert!(left.len() >= 59 && damaged == usize::from(left.len() == 59) || damaged == 1, "{} {damaged}", left.len());
        });
    }
}

/// A journal of two files with 90 batches; where the batch with this number lies.
async fn filled(id: u8) -> (SimDisk, PathBuf, u64) {
    let disk = SimDisk::default();
    let journal = open(&disk).unwrap();
    for id in 1..=90 {
        journal.append(&batch(id, 1, 900)).await.unwrap();
    }
    drop(journal);
    let (file, at) = disk.find(&[id; 100]).unwrap();
    (disk, file, at)
}

fn reader_giving_up_after(disk: &SimDisk, unreadable_max: Duration) -> JournalReader {
    let from = JournalPosition::default();
    let reader = JournalReader::open_on(Arc::new(disk.clone()), Path::new(DIR), STORE, from).unwrap();
    reader.giving_up_after(unreadable_max)
}

#[tokio::test]
async fn a_place_that_cannot_be_read_for_a_moment_costs_nothing() {
    let (disk, file, at) = filled(10).await;
    disk.spoil(&file, at..at + 1);
    let (left, _, damaged) = read_all(reader_giving_up_after(&disk, Duration::ZERO));
    assert!(left.len() < 90 && damaged == 1, "{} {damaged}", left.len());
    let healing = heal_soon(&disk);
    let (left, _, damaged) = read_all(reader_giving_up_after(&disk, Duration::from_hours(1)));
    healing.join().unwrap();
    assert_eq!((left.len(), damaged), (90, 0));
}

/// What cannot be read is not torn: it may be acknowledged.
#[tokio::test]
async fn an_end_that_cannot_be_read_is_not_the_end() {
    let (disk, file, at) = filled(90).await;
    disk.spoil(&file, at..u64::MAX);
    let mut reader = reader_giving_up_after(&disk, Duration::ZERO);
    let mut batches = 0;
    let error = loop {
        match reader.next() {
            Ok(Some(Found::Entry(_))) => batches += 1,
            Ok(found) => panic!("{found:?} after {batches} batches"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("00000002.log: unreadable at"), "{error}");
    disk.heal();
    let (rest, _, damaged) = read_all(reader);
    assert_eq!((batches + rest.len(), damaged), (90, 0));
}

/// While the disk of both is full, clients repeat what the store refuses.
#[tokio::test]
async fn a_journal_leaves_the_reserve_of_the_store_alone() {
    const RESERVED: u64 = 1 << 20;
    let (disk, dir) = (SimDisk::default(), Path::new("/data"));
    disk.create_dir(dir).unwrap();
    let reserve = Reserve::open(Arc::new(disk.clone()), dir, RESERVED).unwrap();
    let options = JournalOptions { reserve: reserve.clone(), ..options() };
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap();
    disk.set_capacity(Some(disk.used()));
    assert!(reserve.release());
    let mut refused = None;
    for id in 1..=200 {
        refused = journal.append(&batch(id, 1, 900)).await.err();
    }
    assert!(matches!(refused, Some(IncomingError::NoSpace(_))), "{refused:?}");
    assert_eq!(disk.space(dir).unwrap().free_bytes, RESERVED);
    // There is space again.
    disk.set_capacity(None);
    until("the reserve is taken again", async || reserve.is_held()).await;
    journal.append(&batch(201, 1, 900)).await.unwrap();
}

/// The journal has a disk of its own, with space, and clients repeat what is refused.
#[tokio::test]
async fn what_a_full_store_refuses_again_and_again_does_not_fill_the_journal() {
    let (full, disk) = (SimDisk::default(), SimDisk::default());
    let store = open_log(&full, &small_log(1)).unwrap();
    let journaled = Journaled::new(open(&disk).unwrap(), store.clone());
    full.set_capacity(Some(full.used()));
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    for id in 1..=100 {
        match journaled.append(batch(id, 1, 9000)).await {
            Ok(()) => taken.push(id),
            Err(error) => {
                assert!(matches!(error, IncomingError::NoSpace(_)), "{error}");
                refused.push(id);
            }
        }
    }
    assert!(refused.len() > 50, "{refused:?}");
    full.set_capacity(None);
    journaled.append(batch(101, 1, 9000)).await.unwrap();
    taken.push(101);
    assert_eq!(store.backlog().await.unwrap().measures, taken.len() as u64);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let (found, ..) = read(&disk, Path::new(DIR), JournalPosition::default());
    let found: Vec<u64> = found.into_iter().map(|(id, _)| id).filter(|id| *id != refused[0]).collect();
    assert_eq!(found, taken, "only what is refused first is written");
}

/// A removed file keeps its space while it is open.
#[tokio::test]
async fn files_that_are_full_are_closed() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().canonicalize().unwrap();
    let journal = Journal::open(&dir, &options()).unwrap();
    for id in 1..=60 {
        journal.append(&batch(id, 1, 9000)).await.unwrap();
    }
    assert!(journal.figures().files > 5);
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut open: Vec<_> = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok()).collect();
    open.retain(|file| file.starts_with(&dir));
    assert!(open.len() <= 2, "the lock and the file that is written: {open:?}");
}

/// A reader follows a writer across files: reads everything once, in order, and reports no damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_is_read_while_it_is_written() {
    const BATCHES: u64 = 600;
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), &options()).unwrap();
    let mut reader = JournalReader::open(root.path(), STORE, JournalPosition::default()).unwrap();
    let writer = tokio::spawn(async move {
        for id in 1..=BATCHES {
            journal.append(&batch(id, 1, (id % 7 * 300) as usize)).await.unwrap();
        }
    });
    let mut expected = 1;
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while expected <= BATCHES {
        assert!(std::time::Instant::now() < deadline, "read {expected}");
        match reader.next().unwrap() {
            Some(Found::Entry(entry)) => {
                assert_eq!(entry.records[0].points[..8], expected.to_le_bytes());
                expected += 1;
            }
            Some(damage) => panic!("{damage:?}"),
            None => tokio::task::yield_now().await,
        }
    }
    writer.await.unwrap();
    assert_eq!(reader.next().unwrap(), None);
}

/// The file system of a broken host, or a snapshot, may be mounted read-only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_opens_no_file_to_write() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), &options()).unwrap();
    for id in 1..=2 {
        journal.append(&batch(id, 1, 9000)).await.unwrap();
    }
    drop(journal);
    let dir = root.path().canonicalize().unwrap();
    let mut reader = JournalReader::open(&dir, STORE, JournalPosition::default()).unwrap();
    assert!(reader.bytes_left().unwrap() > 0);
    assert!(matches!(reader.next().unwrap(), Some(Found::Entry(_))));
    let mut modes = Vec::new();
    for link in std::fs::read_dir("/proc/self/fd").unwrap() {
        let link = link.unwrap();
        // Other tests open and close theirs.
        let Ok(file) = std::fs::read_link(link.path()) else { continue };
        if file.starts_with(&dir) {
            let about = Path::new("/proc/self/fdinfo").join(link.file_name());
            let about = std::fs::read_to_string(about).unwrap();
            let flags = about.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            modes.push(u32::from_str_radix(flags.trim(), 8).unwrap() & 0o3);
        }
    }
    assert!(!modes.is_empty() && modes.iter().all(|mode| *mode == 0), "0 is O_RDONLY: {modes:?}");
}

#[test]
fn a_directory_without_a_journal_is_not_an_empty_one() {
    let root = tempfile::tempdir().unwrap();
    let open = || JournalReader::open(root.path(), STORE, JournalPosition::default());
    std::fs::write(root.path().join("other"), "").unwrap();
    let refused = open().err().unwrap().to_string();
    assert!(refused.contains("there is no journal in this directory"), "{refused}");
    drop(Journal::open(root.path(), &options()).unwrap());
    assert_eq!(open().unwrap().next().unwrap(), None, "it has a file before its first measure");
}

#[test]
fn a_journal_of_a_newer_program_is_refused() {
    let root = tempfile::tempdir().unwrap();
    drop(Journal::open(root.path(), &options()).unwrap());
    let file = root.path().join("00000001.log");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[31] = 2;
    let checksum = crc_fast::crc32_iscsi(&bytes[..36]).to_le_bytes();
    bytes[36..40].copy_from_slice(&checksum);
    std::fs::write(&file, bytes).unwrap();
    let refused = [
        Journal::open(root.path(), &options()).err().unwrap().to_string(),
        JournalReader::open(root.path(), STORE, JournalPosition::default()).err().unwrap().to_string(),
    ];
    for refused in refused {
        assert!(
            refused.contains("00000001.log has format version 2, but this program knows versions up to 1"),
            "{refused}"
        );
    }
}
