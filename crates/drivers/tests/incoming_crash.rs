//! The incoming log with power cuts and failures at any disk operation: every acknowledged batch exists
//! exactly once, no refused one does, none exists in part, and found batches stay.

mod support;

use std::{collections::HashMap, num::NonZeroU16, sync::Arc};

use gnudi_drivers::incoming::{
    Append as _, Batch, Consume as _, IncomingError, Position, Record,
    log::{Durability, LocalIncoming, LocalIncomingOptions},
};
use gnudi_model::{MetricId, Sack, SackCount, SackId};
use proptest::prelude::*;
use support::{
    local::{open_log, small_log},
    random::Random,
    sim_disk::{FAULTS, Operation, SimDisk},
    wait::block_on,
};
use uuid::Uuid;

const SACKS: u16 = 3;

fn sack(id: u16) -> Sack {
    Sack { count: SackCount(NonZeroU16::new(SACKS).unwrap()), id: SackId(id) }
}

fn options(durability: Durability) -> LocalIncomingOptions {
    let held_bytes_max = LocalIncomingOptions::default().held_bytes_max;
    LocalIncomingOptions { durability, held_bytes_max, ..small_log(SACKS) }
}

/// A sent batch.
#[derive(Clone, Debug, Default)]
struct Sent {
    entries: Vec<Entry>,
    /// Acknowledged by the log, or found after a restart: it must exist from then on.
    promised: bool,
    /// Refused by a working log: it must never exist.
    refused: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    sack: u16,
    /// Acknowledged by the worker: it may be gone.
    done: bool,
}

struct Run {
    durability: Durability,
    disk: SimDisk,
    random: Random,
    sent: HashMap<u64, Sent>,
    /// Sack and batch of records acknowledged since the last restart.
    acknowledged: Vec<(u16, u64)>,
    next: u64,
}

/// The waiting records; `None` after the power was cut.
async fn waiting(log: &LocalIncoming, sack: Sack, bytes_max: usize) -> Option<Vec<Record>> {
    match log.pending(sack, Position(0), bytes_max).await {
        Ok(pending) => Some(pending.records),
        Err(error) => {
            assert!(error.to_string().contains("the power is off"), "{error}");
            None
        }
    }
}

impl Run {
    fn new(disk: SimDisk, seed: u64, durability: Durability) -> Self {
        let random = Random::new(seed);
        Run { durability, disk, random, sent: HashMap::new(), acknowledged: Vec::new(), next: 1 }
    }

    /// A batch with the number `id` in all entries.
    fn batch(&mut self) -> (u64, Batch) {
        let id = self.next;
        self.next += 1;
        let (mut batch, mut sent) = (Batch::default(), Sent::default());
        for _ in 0..=self.random.below(4) {
            let sack = self.random.below(SACKS.into()) as u16;
            let padding = [0, 10, 900, 9000][self.random.below(4)];
            batch.push(
                MetricId(Uuid::from_u128(u128::from(sack) + 3 * self.random.below(9) as u128)),
                1,
                |out| {
                    out.extend_from_slice(&id.to_le_bytes());
                    out.extend(std::iter::repeat_n(id as u8, padding));
                },
            );
            sent.entries.push(Entry { sack, done: false });
        }
        self.sent.insert(id, sent);
        (id, batch)
    }

    /// Appends, acknowledges and trims until the disk fails or enough is done.
    async fn work(&mut self, log: &Arc<LocalIncoming>) {
        for _ in 0..self.random.below(30) {
            if self.random.one_in(4) {
                self.process(log).await;
                continue;
            }
            let mut appends = tokio::task::JoinSet::new();
            for _ in 0..=self.random.below(5) {
                let (id, batch) = self.batch();
                let log = Arc::clone(log);
                appends.spawn(async move { (id, log.append(batch).await) });
            }
            let mut failed = false;
            while let Some(answer) = appends.join_next().await {
                let (id, answer) = answer.unwrap();
                let sent = self.sent.get_mut(&id).unwrap();
                sent.promised = answer.is_ok() && self.durability == Durability::Sync;
                sent.refused = matches!(answer, Err(IncomingError::NoSpace(_)));
                failed |= matches!(answer, Err(IncomingError::Poisoned(_)));
            }
            if failed {
                return;
            }
        }
    }

    /// Like a worker: reads some records of a sack, acknowledges them, and sometimes trims.
    async fn process(&mut self, log: &LocalIncoming) {
        let id = self.random.below(SACKS.into()) as u16;
        let sack = sack(id);
        let Some(records) = waiting(log, sack, 1 + self.random.below(20_000)).await else { return };
        let Some(last) = records.last() else { return };
        log.acknowledge(sack, last.position).await.unwrap();
        self.acknowledged.extend(records.iter().map(|record| (id, id_of(record))));
        if self.random.one_in(2) {
            // From here on the records may be gone, whether the call returns or not.
            for (_, batch) in self.acknowledged.extract_if(.., |(of, _)| *of == id) {
                let entries = &mut self.sent.get_mut(&batch).unwrap().entries;
                entries.iter_mut().filter(|entry| entry.sack == id).for_each(|entry| entry.done = true);
            }
            log.trim(&[(sack, last.position)]).await.ok();
        }
    }

    /// Compares the contents with the expected ones.
    async fn check(&mut self, log: &LocalIncoming) {
        let mut found: HashMap<(u64, u16), usize> = HashMap::new();
        let mut measures = 0;
        for sack in 0..SACKS {
            let mut before = Position(0);
            let Some(records) = waiting(log, self::sack(sack), usize::MAX).await else { return };
            for record in records {
                assert!(record.position >= before, "out of order");
                before = record.position;
                measures += u64::from(record.measures);
                let id = id_of(&record);
                assert!(record.points[8..].iter().all(|byte| *byte == id as u8), "mixed up points");
                *found.entry((id, sack)).or_default() += 1;
            }
        }
        if !self.disk.is_on() {
            // The power was cut while reading: this proves nothing.
            return;
        }
        assert_eq!(log.backlog().await.unwrap().measures, measures);
        for (id, sent) in &mut self.sent {
            let wanted = |sack: u16| sent.entries.iter().filter(|entry| entry.sack == sack).count();
            let there: Vec<(u16, usize)> =
                (0..SACKS).filter_map(|sack| Some((sack, *found.get(&(*id, sack))?))).collect();
            assert!(
                there.iter().all(|(sack, count)| *count == wanted(*sack)),
                "batch {id} by half or twice: {there:?} of {sent:?}"
            );
            assert!(!sent.refused || there.is_empty(), "batch {id} was refused, and is there");
            let done = |entry: &Entry| entry.done || self.acknowledged.contains(&(entry.sack, *id));
            let missing = |entry: &&Entry| !done(entry) && !found.contains_key(&(*id, entry.sack));
            let missing = sent.entries.iter().filter(missing).count();
            if sent.promised {
                assert_eq!(missing, 0, "batch {id} is lost: {sent:?}, there is {there:?}");
            } else if !there.is_empty() {
                assert_eq!(missing, 0, "batch {id} is there by half: {sent:?}, there is {there:?}");
                sent.promised = true;
            }
        }
        assert!(found.keys().all(|(id, _)| self.sent.contains_key(id)), "a batch that was never sent");
    }
}

fn id_of(record: &Record) -> u64 {
    u64::from_le_bytes(record.points[..8].try_into().unwrap())
}

/// With `kills` the process is killed at times, instead of the power cut.
async fn run(seed: u64, durability: Durability, kills: bool) {
    let options = options(durability);
    let mut run = Run::new(SimDisk::default(), seed, durability);
    for _ in 0..5 {
        run.disk.end_at_random(&mut run.random, 120, kills);
        // The power may be cut while the log is being opened.
        if let Ok(log) = open_log(&run.disk, &options) {
            run.check(&log).await;
            run.work(&log).await;
        }
        run.disk.restart(run.random.next());
        run.acknowledged.clear();
    }
    let log = open_log(&run.disk, &options).unwrap();
    run.check(&log).await;
    if durability == Durability::Sync {
        assert_eq!(log.figures().damaged, 0, "a power cut was taken for damage");
    }
    log.append(run.batch().1).await.unwrap();
}

/// Failures instead of power cuts: the process restarts, the disk keeps what was written.
async fn run_with_failures(seed: u64) {
    let options = options(Durability::Sync);
    let disk = SimDisk::default();
    let mut run = Run::new(disk, seed, Durability::Sync);
    for _ in 0..6 {
        run.disk.fail_at_random(&mut run.random, &[&FAULTS[..], &[Operation::Remove]].concat());
        if let Ok(log) = open_log(&run.disk, &options) {
            run.check(&log).await;
            run.work(&log).await;
            run.check(&log).await;
        }
        run.disk.heal();
        run.acknowledged.clear();
    }
    let log = open_log(&run.disk, &options).unwrap();
    run.check(&log).await;
    assert_eq!(log.figures().damaged, 0, "a failure was taken for damage");
    log.append(run.batch().1).await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_power_cut_loses_nothing_acknowledged(seed in any::<u64>()) {
        block_on(run(seed, Durability::Sync, false));
    }

    /// Also if a sync that lost pages precedes the kill.
    #[test]
    fn kills_before_a_power_cut_lose_nothing_acknowledged(seed in any::<u64>()) {
        block_on(run(seed, Durability::Sync, true));
    }

    #[test]
    fn a_failing_disk_loses_nothing_acknowledged(seed in any::<u64>()) {
        block_on(run_with_failures(seed));
    }

    /// Without syncs acknowledged batches may be lost, but only whole ones, and found ones stay.
    #[test]
    fn without_syncs_a_power_cut_leaves_whole_batches(seed in any::<u64>()) {
        block_on(run(seed, Durability::Os, false));
    }
}
