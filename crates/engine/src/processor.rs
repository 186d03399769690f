//! One pass over a sack: reads what waits, folds it metric by metric, writes heads and blocks, acknowledges.
//!
//! Order of a pass: read heads -> fold -> write blocks and heads, each head with the position it has applied ->
//! acknowledge. A crash anywhere replays the records, and the heads ignore what they have applied. When a pass runs is
//! `metricd`'s business.

use std::{collections::HashMap, ops::Range, sync::Arc, time::Instant};

use bytes::Bytes;
use gnudi_drivers::{
    aggregates::{AggregateStore, BlockKey, BlockRange, Fence, MetricWrite, StoreError},
    incoming::{Incoming, Pending, Position, Record},
};
use gnudi_indexer::Indexer;
use gnudi_model::{ArchivePolicy, Measure, Metric, MetricId, Sack, SackId, Timestamp};
use gnudi_series::{
    head::{Head, Layout},
    points,
};
use tokio::sync::MutexGuard;

use crate::{
    EngineError,
    figures::Figures,
    sacks::{Progress, Sacks},
};

/// How much of a sack one pass reads: bounds the memory of a pass.
pub const PASS_BYTES_MAX: usize = 8 << 20;

/// What a pass found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassOutcome {
    pub measures: u64,
    /// Whether records may be left behind the ones that were read.
    pub more: bool,
}

pub struct Processor {
    indexer: Arc<dyn Indexer>,
    incoming: Arc<dyn Incoming>,
    store: Arc<dyn AggregateStore>,
    sacks: Sacks,
    figures: Figures,
}

/// The records of one metric within a pass.
struct Group {
    metric: Arc<Metric>,
    layout: Arc<Layout>,
    records: Range<usize>,
}

impl Processor {
    pub(crate) fn new(
        indexer: Arc<dyn Indexer>,
        incoming: Arc<dyn Incoming>,
        store: Arc<dyn AggregateStore>,
    ) -> Self {
        let sacks = Sacks::new(incoming.numbering().units());
        Processor { indexer, incoming, store, sacks, figures: Figures::default() }
    }

    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    pub(crate) async fn lock(&self, unit: SackId) -> MutexGuard<'_, Progress> {
        self.sacks.lock(unit).await
    }

    /// Passes over the unit until all that was accepted before the call is applied.
    pub async fn process_all(&self, unit: SackId) -> Result<(), EngineError> {
        let sacks = self.incoming.numbering().sacks_of_unit(unit);
        let newest = self.incoming.positions(&sacks).await?;
        let mut progress = self.sacks.lock(unit).await;
        for (sack, positions) in sacks.into_iter().zip(newest) {
            while self.applied(sack, &mut progress).await? < positions.newest {
                if !self.pass(sack, &mut progress).await?.more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One pass over the unit, when nobody else is at it.
    pub async fn process(&self, unit: SackId) -> Result<PassOutcome, EngineError> {
        let mut progress = self.sacks.lock(unit).await;
        let mut outcome = PassOutcome::default();
        for sack in self.incoming.numbering().sacks_of_unit(unit) {
            outcome = self.pass(sack, &mut progress).await?;
            if outcome.more {
                break;
            }
        }
        Ok(outcome)
    }

    async fn applied(&self, sack: Sack, progress: &mut Progress) -> Result<Position, EngineError> {
        if let Some(position) = progress.applied.get(&sack) {
            return Ok(*position);
        }
        let acknowledged = self.incoming.positions(&[sack]).await?[0].acknowledged;
        progress.applied.insert(sack, acknowledged);
        Ok(acknowledged)
    }

    async fn pass(&self, sack: Sack, progress: &mut Progress) -> Result<PassOutcome, EngineError> {
        let started = Instant::now();
        let after = self.applied(sack, progress).await?;
        let Pending { mut records, more } = self.incoming.pending(sack, after, PASS_BYTES_MAX).await?;
        let Some(up_to) = records.last().map(|record| record.position) else {
            return Ok(PassOutcome::default());
        };
        let measures = records.iter().map(|record| u64::from(record.measures)).sum();
        // Stable: a metric's records stay in the order of their acceptance.
        records.sort_by_key(|record| record.metric);
        let applied = self.apply(Fence { sack, token: 0 }, &records).await;
        Figures::add(&self.figures.pass_time_us, started.elapsed().as_micros() as u64);
        if let Err(error) = applied {
            Figures::add(&self.figures.passes_failed, 1);
            return Err(error);
        }
        Figures::add(&self.figures.passes, 1);
        self.incoming.acknowledge(sack, up_to).await?;
        progress.applied.insert(sack, up_to);
        Ok(PassOutcome { measures, more })
    }

    /// Folds records, sorted by metric, into heads and writes those.
    async fn apply(&self, fence: Fence, records: &[Record]) -> Result<(), EngineError> {
        let groups = self.groups(records).await?;
        let ids: Vec<MetricId> = groups.iter().map(|group| group.metric.id).collect();
        let heads = self.store.read_heads(&ids).await;
        let mut writes = Vec::with_capacity(groups.len());
        let mut points = Vec::new();
        for (group, head) in groups.iter().zip(heads) {
            let mut head = self.decode_head(group.metric.id, head)?;
            self.fold(&mut head, group, &records[group.records.clone()], &mut points);
            writes.push(self.write_of(head, group).await?);
        }
        Figures::add(&self.figures.heads_written, writes.len() as u64);
        Figures::add(&self.figures.blocks_sealed, writes.iter().map(|write| write.blocks.len() as u64).sum());
        // All are tried; the first failure fails the pass, which is then replayed: the heads that were written ignore it.
        self.store.write(fence, writes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(())
    }

    /// Splits sorted records by metric and finds each metric's policy; those of deleted metrics are dropped here.
    async fn groups(&self, records: &[Record]) -> Result<Vec<Group>, EngineError> {
        let mut ranges: Vec<(MetricId, Range<usize>)> = Vec::new();
        for (index, record) in records.iter().enumerate() {
            match ranges.last_mut() {
                Some((metric, range)) if *metric == record.metric => range.end = index + 1,
                _ => ranges.push((record.metric, index..index + 1)),
            }
        }
        let ids: Vec<MetricId> = ranges.iter().map(|(metric, _)| *metric).collect();
        let metrics = self.indexer.metrics(&ids).await?;
        let mut layouts: HashMap<String, Arc<Layout>> = HashMap::new();
        let mut groups = Vec::with_capacity(ranges.len());
        for ((_, range), metric) in ranges.into_iter().zip(metrics) {
            let Some(metric) = metric else {
                let orphaned = records[range].iter().map(|record| u64::from(record.measures)).sum();
                Figures::add(&self.figures.measures_orphaned, orphaned);
                continue;
            };
            let layout = if let Some(layout) = layouts.get(&*metric.archive_policy_name) {
                layout.clone()
            } else {
                let layout = Arc::new(Layout::of(&*self.policy(&metric).await?));
                layouts.insert(metric.archive_policy_name.to_string(), layout.clone());
                layout
            };
            groups.push(Group { metric, layout, records: range });
        }
        Ok(groups)
    }

    async fn policy(&self, metric: &Metric) -> Result<Arc<ArchivePolicy>, EngineError> {
        let name = &metric.archive_policy_name;
        self.indexer.archive_policy(name).await?.ok_or_else(|| {
            // A policy in use cannot be deleted, so this is an index that was changed behind our back.
            gnudi_indexer::IndexerError::NoSuchArchivePolicy(name.to_string()).into()
        })
    }

    /// A damaged head has been reported and set aside by the store; the metric goes on with a new one, since its sealed
    /// blocks are whole.
    fn decode_head(
        &self,
        metric: MetricId,
        bytes: Result<Option<Bytes>, StoreError>,
    ) -> Result<Head, EngineError> {
        let reason = match bytes {
            Ok(None) => return Ok(Head::new()),
            Ok(Some(bytes)) => match Head::decode(&bytes) {
                Ok(head) => return Ok(head),
                Err(error) => error.to_string(),
            },
            Err(StoreError::Damaged(reason)) => reason,
            Err(other) => return Err(other.into()),
        };
        tracing::error!(%metric, reason, "the metric's head is damaged: going on with a new one");
        Figures::add(&self.figures.damaged, 1);
        Ok(Head::new())
    }

    /// Folds the records of one metric, batch by batch.
    fn fold(&self, head: &mut Head, group: &Group, records: &[Record], points: &mut Vec<Measure>) {
        for batch in records.chunk_by(|a, b| a.position == b.position) {
            points.clear();
            for record in batch {
                if let Err(error) = points::decode(&record.points, points) {
                    let metric = record.metric;
                    tracing::error!(%metric, position = record.position.0, %error, "a record does not decode: dropped");
                    Figures::add(&self.figures.damaged, 1);
                }
            }
            let outcome = head.fold(&group.layout, batch[0].position.0, points);
            Figures::add(&self.figures.measures_folded, outcome.accepted as u64);
            Figures::add(&self.figures.measures_late, outcome.late as u64);
        }
    }

    /// What to write of a folded head: sealed blocks leave it, blocks that its policy no longer keeps are named.
    async fn write_of(&self, mut head: Head, group: &Group) -> Result<MetricWrite, EngineError> {
        let metric = group.metric.id;
        let blocks: Vec<(BlockKey, Bytes)> = head
            .take_sealed(&group.layout)
            .into_iter()
            .map(|block| {
                let key =
                    BlockKey { metric, granularity: block.granularity, first: block.first, last: block.last };
                (key, Bytes::from(block.bytes))
            })
            .collect();
        let expired = if head.expiry_moved() { self.expired(&head, group).await? } else { Vec::new() };
        let mut bytes = Vec::with_capacity(1024);
        head.encode(&mut bytes);
        Ok(MetricWrite { metric, blocks, expired, head: bytes.into() })
    }

    async fn expired(&self, head: &Head, group: &Group) -> Result<Vec<BlockKey>, EngineError> {
        let ranges: Vec<BlockRange> = group
            .layout
            .granularities()
            .filter_map(|granularity| {
                let oldest = head.oldest_kept(&group.layout, granularity)?;
                let to = Timestamp(oldest.0 - 1);
                Some(BlockRange { metric: group.metric.id, granularity, from: Timestamp::EPOCH, to })
            })
            .collect();
        let mut expired = Vec::new();
        for (range, keys) in ranges.iter().zip(self.store.list_blocks(&ranges).await) {
            expired.extend(keys?.into_iter().filter(|key| key.last <= range.to));
        }
        Ok(expired)
    }
}
