//! Random operations on the incoming log and on the in-memory model, with reopening: the same results.

mod support;

use std::{collections::HashMap, sync::Arc};

use gnudi_drivers::incoming::{
    Append as _, Batch, Consume as _, Position, Record, TrimNeed,
    log::{LocalIncoming, LocalIncomingOptions},
    memory::MemoryIncoming,
};
use gnudi_model::{MetricId, Sack, SackCount, SackId};
use proptest::prelude::*;
use support::{
    local::{open_log, small_log},
    sim_disk::SimDisk,
    wait::block_on,
};
use uuid::Uuid;

const SACKS: u16 = 3;

#[derive(Clone, Debug)]
enum Operation {
    /// Entries of (metric, measures, bytes).
    Append(Vec<(u8, u32, usize)>),
    /// Reads up to this many bytes of a sack, and acknowledges the records.
    Process(u16, usize),
    /// Trims everything acknowledged.
    Trim,
    Reopen,
}

fn sack(id: u16) -> Sack {
    Sack { count: SackCount(SACKS.try_into().unwrap()), id: SackId(id) }
}

fn operation() -> impl Strategy<Value = Operation> {
    let entry = (0u8..12, 0u32..5, prop_oneof![Just(0), 0usize..100, 0usize..20_000]);
    prop_oneof![
        6 => prop::collection::vec(entry, 0..6).prop_map(Operation::Append),
        3 => (0..SACKS, 0usize..30_000).prop_map(|(sack, bytes)| Operation::Process(sack, bytes)),
        1 => Just(Operation::Trim),
        1 => Just(Operation::Reopen),
    ]
}

fn open(disk: &SimDisk) -> Arc<LocalIncoming> {
    // Some frames are held in memory, others must be read.
    let options = LocalIncomingOptions { held_bytes_max: 8 << 10, ..small_log(SACKS) };
    open_log(disk, &options).unwrap()
}

fn batch(entries: &[(u8, u32, usize)], seed: usize) -> Batch {
    let mut batch = Batch::default();
    for (at, (metric, measures, bytes)) in entries.iter().enumerate() {
        let metric = MetricId(Uuid::from_u128((*metric).into()));
        batch.push(metric, *measures, |out| out.extend((0..*bytes).map(|byte| (byte + at + seed) as u8)));
    }
    batch
}

type Shown = (MetricId, u32, bytes::Bytes);

fn show(records: Vec<Record>) -> Vec<Shown> {
    records.into_iter().map(|record| (record.metric, record.measures, record.points)).collect()
}

/// Both drivers, and each sack's acknowledged position in each.
struct Pair {
    disk: SimDisk,
    log: Arc<LocalIncoming>,
    memory: MemoryIncoming,
    /// Records that the model must return after a restart: acknowledged, but not trimmed.
    kept: Vec<Vec<Shown>>,
}

impl Pair {
    async fn apply(&mut self, step: usize, operation: &Operation) {
        match operation {
            Operation::Append(entries) => {
                self.log.append(batch(entries, step)).await.unwrap();
                self.memory.append(batch(entries, step)).await.unwrap();
            }
            Operation::Process(sack, bytes) => {
                let id = self::sack(*sack);
                let records = self.log.pending(id, Position(0), *bytes).await.unwrap().records;
                let Some(last) = records.last().map(|last| last.position) else { return };
                self.log.acknowledge(id, last).await.unwrap();
                // The same records in the model, wherever it ends its own reads.
                let model = self.memory.pending(id, Position(0), usize::MAX).await.unwrap().records;
                let same = model[records.len() - 1].position;
                self.memory.acknowledge(id, same).await.unwrap();
                assert_eq!(show(model[..records.len()].to_vec()), show(records.clone()));
                self.kept[usize::from(*sack)].extend(show(records));
            }
            Operation::Trim => {
                let mut trimmed = Vec::new();
                for sack in self.log.numbering().count.sacks() {
                    trimmed.push((sack, self.log.positions(&[sack]).await.unwrap()[0].acknowledged));
                }
                self.log.trim(&trimmed).await.unwrap();
                self.kept.iter_mut().for_each(Vec::clear);
            }
            Operation::Reopen => self.reopen().await,
        }
    }

    /// The log forgets acknowledgements since the last trim; the model is rebuilt to match.
    async fn reopen(&mut self) {
        // Close first: an open log writes its last frame, and may begin a file that the new one begins, too.
        self.log = open(&SimDisk::default());
        self.log = open(&self.disk);
        let memory = MemoryIncoming::new(self.log.numbering().count, u64::MAX);
        for sack in self.log.numbering().count.sacks() {
            let waiting = show(self.memory.pending(sack, Position(0), usize::MAX).await.unwrap().records);
            let mut wanted = std::mem::take(&mut self.kept[usize::from(sack.id.0)]);
            wanted.extend(waiting);
            let records = self.log.pending(sack, Position(0), usize::MAX).await.unwrap().records;
            assert_eq!(show(records.clone()), wanted, "after reopening");
            for batch_records in records.chunk_by(|left, right| left.position == right.position) {
                let mut batch = Batch::default();
                for record in batch_records {
                    batch.push(record.metric, record.measures, |out| out.extend_from_slice(&record.points));
                }
                memory.append(batch).await.unwrap();
            }
        }
        self.memory = memory;
    }

    async fn compare(&self) {
        assert_eq!(self.log.backlog().await.unwrap().measures, self.memory.backlog().await.unwrap().measures);
        let positive = |counts: HashMap<MetricId, u64>| -> HashMap<MetricId, u64> {
            counts.into_iter().filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(
            positive(self.log.backlog_by_metric().await.unwrap()),
            positive(self.memory.backlog_by_metric().await.unwrap())
        );
        for sack in self.log.numbering().count.sacks() {
            let records = self.log.pending(sack, Position(0), usize::MAX).await.unwrap().records;
            assert_eq!(
                show(records),
                show(self.memory.pending(sack, Position(0), usize::MAX).await.unwrap().records)
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_log_answers_as_the_model(operations in prop::collection::vec(operation(), 0..40)) {
        block_on(async {
            let disk = SimDisk::default();
            let log = open(&disk);
            let memory = MemoryIncoming::new(log.numbering().count, u64::MAX);
            let mut pair = Pair { disk, log, memory, kept: vec![Vec::new(); SACKS.into()] };
            for (step, operation) in operations.iter().enumerate() {
                pair.apply(step, operation).await;
                pair.compare().await;
            }
        });
    }
}

/// Acknowledged measures stay in the log until a trim; one is wanted once it frees some files.
#[test]
fn a_trim_is_wanted_when_it_frees_files() {
    block_on(async {
        let disk = SimDisk::default();
        let log = open(&disk);
        // Two frames a file.
        for number in 0..8 {
            log.append(batch(&[(0, 1, 30_000)], number)).await.unwrap();
        }
        assert!(log.figures().segments >= 4);
        assert_eq!(log.trim_need(), TrimNeed::None, "unacknowledged measures cannot be trimmed");
        let sacks: Vec<Sack> = (0..SACKS).map(sack).collect();
        let newest: Vec<Position> =
            log.positions(&sacks).await.unwrap().iter().map(|position| position.newest).collect();
        for (sack, newest) in sacks.iter().zip(&newest) {
            log.acknowledge(*sack, *newest).await.unwrap();
        }
        assert_eq!(log.trim_need(), TrimNeed::Useful);
        let trimmed: Vec<_> = sacks.into_iter().zip(newest).collect();
        log.trim(&trimmed).await.unwrap();
        assert_eq!(log.trim_need(), TrimNeed::None, "nothing is left to free");
    });
}
