//! Measures in memory: for tests, and the reference model for the durable drivers.
//!
//! Simple and slow on purpose. Nothing survives the process.

use std::collections::{BTreeSet, HashMap, VecDeque};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{MetricId, Numbering, Sack, SackCount};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions, Record, Result,
    Topology, too_many,
};

pub struct MemoryIncoming {
    backlog_bytes_max: u64,
    state: Mutex<State>,
    arrived: Notify,
}

struct State {
    numbering: Numbering,
    last: u64,
    sacks: HashMap<Sack, PendingRecords>,
    unnamed: BTreeSet<Sack>,
}

#[derive(Default)]
struct PendingRecords {
    records: VecDeque<Record>,
    positions: Positions,
}

impl MemoryIncoming {
    pub fn new(sack_count: SackCount, backlog_bytes_max: u64) -> Self {
        let numbering = Numbering::settled(sack_count);
        let state = State { numbering, last: 0, sacks: HashMap::new(), unnamed: BTreeSet::new() };
        Self { backlog_bytes_max, state: Mutex::new(state), arrived: Notify::new() }
    }
}

impl State {
    fn backlog(&self) -> Backlog {
        let records = || self.sacks.values().flat_map(|sack| &sack.records);
        Backlog {
            measures: records().map(|record| u64::from(record.measures)).sum(),
            bytes: records().map(stored_bytes).sum(),
        }
    }

    fn positions(&self, sack: Sack) -> Positions {
        self.sacks.get(&sack).map_or_else(Positions::default, |waiting| waiting.positions)
    }
}

/// Models the size of a stored record: an id, a count and the points.
fn stored_bytes(record: &Record) -> u64 {
    20 + record.points.len() as u64
}

impl Incoming for MemoryIncoming {
    fn topology(&self) -> Option<&dyn Topology> {
        Some(self)
    }
}

#[async_trait]
impl Append for MemoryIncoming {
    async fn append(&self, batch: Batch) -> Result<()> {
        let mut state = self.state.lock();
        let position = Position(state.last + 1);
        let records: Vec<Record> = batch
            .entries
            .iter()
            .map(|entry| Record {
                position,
                metric: entry.metric,
                measures: entry.measures,
                points: Bytes::copy_from_slice(&batch.bytes[entry.start..entry.end]),
            })
            .collect();
        let bytes = state.backlog().bytes + records.iter().map(stored_bytes).sum::<u64>();
        if bytes > self.backlog_bytes_max {
            return Err(IncomingError::BacklogFull { bytes, limit: self.backlog_bytes_max });
        }
        state.last = position.0;
        for record in records {
            let sack = Sack::of(record.metric, state.numbering.count);
            let waiting = state.sacks.entry(sack).or_default();
            waiting.positions.newest = position;
            waiting.records.push_back(record);
            state.unnamed.insert(sack);
        }
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    async fn backlog(&self) -> Result<Backlog> {
        Ok(self.state.lock().backlog())
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>> {
        let mut measures = HashMap::new();
        for record in self.state.lock().sacks.values().flat_map(|waiting| &waiting.records) {
            *measures.entry(record.metric).or_default() += u64::from(record.measures);
        }
        Ok(measures)
    }
}

#[async_trait]
impl Consume for MemoryIncoming {
    fn numbering(&self) -> Numbering {
        self.state.lock().numbering
    }

    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending> {
        let state = self.state.lock();
        let mut pending = Pending::default();
        let mut bytes = 0;
        for record in state.sacks.get(&sack).iter().flat_map(|waiting| &waiting.records) {
            if record.position <= after {
                continue;
            }
            let begins_batch = pending.records.last().is_none_or(|last| last.position != record.position);
            if begins_batch && !pending.records.is_empty() && bytes >= bytes_max {
                pending.more = true;
                break;
            }
            bytes += stored_bytes(record) as usize;
            pending.records.push(record.clone());
        }
        Ok(pending)
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<()> {
        let mut state = self.state.lock();
        if sack.count < state.numbering.units() {
            // A late acknowledgement of a sack that was split since.
            return Ok(());
        }
        let waiting = state.sacks.entry(sack).or_default();
        assert!(up_to <= waiting.positions.newest, "acknowledged what was never accepted");
        waiting.records.retain(|record| record.position > up_to);
        waiting.positions.acknowledged = waiting.positions.acknowledged.max(up_to);
        Ok(())
    }

    async fn trim(&self, _up_to: &[(Sack, Position)]) -> Result<()> {
        Ok(())
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>> {
        let state = self.state.lock();
        Ok(sacks.iter().map(|sack| state.positions(*sack)).collect())
    }

    async fn arrivals(&self) -> Vec<Sack> {
        loop {
            let unnamed = std::mem::take(&mut self.state.lock().unnamed);
            if !unnamed.is_empty() {
                return unnamed.into_iter().collect();
            }
            self.arrived.notified().await;
        }
    }
}

#[async_trait]
impl Topology for MemoryIncoming {
    async fn split(&self) -> Result<Numbering> {
        let mut state = self.state.lock();
        if !state.numbering.draining {
            let count = state.numbering.count.doubled().ok_or_else(|| too_many(state.numbering))?;
            state.numbering = Numbering { count, draining: true };
        }
        Ok(state.numbering)
    }

    async fn settle(&self) -> Result<Numbering> {
        let mut state = self.state.lock();
        let old = state.numbering.units();
        if state.numbering.draining && old.sacks().all(|sack| state.positions(sack).is_idle()) {
            state.numbering.draining = false;
            state.sacks.retain(|sack, _| sack.count != old);
        }
        Ok(state.numbering)
    }
}
