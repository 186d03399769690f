//! Measures that wait in memory: for tests, and the model that the durable drivers are compared with.
//!
//! Deliberately simple and slow. Nothing survives the process.

use std::collections::{BTreeSet, HashMap, VecDeque};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{MetricId, SackCount, SackId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Backlog, Batch, Incoming, IncomingError, Position, Record};

pub struct MemoryIncoming {
    sack_count: SackCount,
    backlog_bytes_max: u64,
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Default)]
struct State {
    last: u64,
    sacks: HashMap<SackId, Sack>,
    unnamed: BTreeSet<SackId>,
}

#[derive(Default)]
struct Sack {
    waiting: VecDeque<Record>,
    acknowledged: Position,
    newest: Position,
}

impl MemoryIncoming {
    pub fn new(sack_count: SackCount, backlog_bytes_max: u64) -> Self {
        Self { sack_count, backlog_bytes_max, state: Mutex::default(), arrived: Notify::new() }
    }
}

impl State {
    fn backlog(&self) -> Backlog {
        let records = || self.sacks.values().flat_map(|sack| &sack.waiting);
        Backlog {
            measures: records().map(|record| u64::from(record.measures)).sum(),
            bytes: records().map(stored_bytes).sum(),
        }
    }
}

/// Stands for what a stored record takes: an id, a count and the points.
fn stored_bytes(record: &Record) -> u64 {
    20 + record.points.len() as u64
}

#[async_trait]
impl Incoming for MemoryIncoming {
    fn sack_count(&self) -> SackCount {
        self.sack_count
    }

    async fn append(&self, batch: Batch) -> Result<(), IncomingError> {
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
            let id = self.sack_count.sack_of(record.metric);
            let sack = state.sacks.entry(id).or_default();
            sack.newest = position;
            sack.waiting.push_back(record);
            state.unnamed.insert(id);
        }
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    async fn pending(
        &self,
        sack: SackId,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<Record>, IncomingError> {
        let state = self.state.lock();
        let mut records: Vec<Record> = Vec::new();
        let mut bytes = 0;
        for record in state.sacks.get(&sack).iter().flat_map(|sack| &sack.waiting) {
            if record.position <= after {
                continue;
            }
            let begins_batch = records.last().is_none_or(|last| last.position != record.position);
            if begins_batch && !records.is_empty() && bytes >= bytes_max {
                break;
            }
            bytes += stored_bytes(record) as usize;
            records.push(record.clone());
        }
        Ok(records)
    }

    async fn acknowledge(&self, sack: SackId, up_to: Position) -> Result<(), IncomingError> {
        let mut state = self.state.lock();
        let sack = state.sacks.entry(sack).or_default();
        assert!(up_to <= sack.newest, "acknowledged what was never accepted");
        sack.waiting.retain(|record| record.position > up_to);
        sack.acknowledged = sack.acknowledged.max(up_to);
        Ok(())
    }

    async fn trim(&self, _up_to: &[(SackId, Position)]) -> Result<(), IncomingError> {
        Ok(())
    }

    async fn positions(&self, sack: SackId) -> (Position, Position) {
        let state = self.state.lock();
        state.sacks.get(&sack).map_or_else(Default::default, |sack| (sack.acknowledged, sack.newest))
    }

    async fn arrivals(&self) -> Vec<SackId> {
        loop {
            let unnamed = std::mem::take(&mut self.state.lock().unnamed);
            if !unnamed.is_empty() {
                return unnamed.into_iter().collect();
            }
            self.arrived.notified().await;
        }
    }

    async fn backlog(&self) -> Backlog {
        self.state.lock().backlog()
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>, IncomingError> {
        let mut measures = HashMap::new();
        for record in self.state.lock().sacks.values().flat_map(|sack| &sack.waiting) {
            *measures.entry(record.metric).or_default() += u64::from(record.measures);
        }
        Ok(measures)
    }
}
