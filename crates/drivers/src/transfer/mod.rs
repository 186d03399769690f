//! Copies the aggregates of one store to another while the first is written, in rounds: each brings the second up to date with the
//! heads of the first as it meets them.
//!
//! A pass that changes a block changes its metric's head in the same write: the head carries its granularities, and the position of the
//! last request that was applied. So equal heads have equal blocks, once these were compared. A metric is copied in the order head, names of blocks, blocks: if
//! a pass comes in between, the head that is copied is the older one, and the next round meets another.
//!
//! ARCHITECTURE.md has the invariants. Which metrics there are, and when the source is closed, is the caller's.

mod chunk;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use gnudi_model::{MetricId, SackCount, Timespan};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::aggregates::{Fence, Movable, StoreError};

/// Metrics that are copied together: those of one shard, so that one object or one call takes them.
const CHUNK_METRICS_MAX: usize = 256;
const CHUNKS_AT_ONCE: usize = 8;
/// Damage that is named; beyond it is only counted.
const NAMED_MAX: usize = 100;

/// The granularities of the blocks that belong to a head; `None` where it is none.
pub type Granularities = fn(&Bytes) -> Option<Vec<Timespan>>;

/// What a round looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Metrics whose heads differ, and of these the blocks that the target lacks.
    Changes,
    /// All blocks of all metrics, but of those that were found equal before, if their heads are what they were then.
    Everything,
}

/// What a round has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub metrics_total: u64,
    /// Looked at so far.
    pub metrics: u64,
    /// Of these, written because they differed.
    pub metrics_written: u64,
    pub blocks_written: u64,
    pub bytes_written: u64,
    /// Read from both and found equal, in whole.
    pub metrics_compared: u64,
    /// Removed from the target, as the source, or the index, no longer has them.
    pub metrics_removed: u64,
    /// Damaged heads and blocks of the source.
    pub damaged: u64,
    /// Where the first of them are.
    pub damaged_places: Vec<String>,
}

impl Report {
    fn damage(&mut self, place: String) {
        self.damaged += 1;
        if self.damaged_places.len() < NAMED_MAX {
            self.damaged_places.push(place);
        }
    }

    fn add(&mut self, other: Report) {
        let Report { metrics_total: _, metrics, metrics_written, blocks_written, bytes_written, .. } = other;
        self.metrics += metrics;
        self.metrics_written += metrics_written;
        self.blocks_written += blocks_written;
        self.bytes_written += bytes_written;
        self.metrics_compared += other.metrics_compared;
        self.metrics_removed += other.metrics_removed;
        let named = other.damaged_places.len() as u64;
        other.damaged_places.into_iter().for_each(|place| self.damage(place));
        self.damaged += other.damaged - named;
    }
}

/// Told what was done so far, now and then, and that a store does not answer.
pub trait Observer {
    fn tell(&mut self, report: &Report);
    fn no_answer(&mut self, error: &StoreError);
}

/// What is done where a store does not answer.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// Between two tries.
    pub pause: Duration,
    /// How long it is tried without any answer.
    pub timeout: Duration,
}

/// See the module.
pub struct Transfer {
    source: Arc<dyn Movable>,
    target: Arc<dyn Movable>,
    /// Under which the target is written.
    fence: Fence,
    granularities: Granularities,
    retries: Retries,
    /// Checksums of the heads of metrics that were found equal.
    compared: Mutex<HashMap<MetricId, u32>>,
}

impl Transfer {
    /// Raises the fence in the target: an earlier transfer that still runs writes nothing more.
    pub async fn begin(
        source: Arc<dyn Movable>,
        target: Arc<dyn Movable>,
        fence: Fence,
        granularities: Granularities,
        retries: Retries,
    ) -> Result<Self, StoreError> {
        target.raise(fence).await?;
        Ok(Self { source, target, fence, granularities, retries, compared: Mutex::default() })
    }

    /// Brings all metrics up to date. A round that looks at everything removes from the target what is none of them.
    pub async fn round(
        &self,
        metrics: &[MetricId],
        depth: Depth,
        observer: &mut dyn Observer,
    ) -> Result<Report, StoreError> {
        let mut report = Report { metrics_total: metrics.len() as u64, ..Report::default() };
        if depth == Depth::Everything {
            report.metrics_removed = self.remove_strangers(metrics, observer).await?;
        }
        let mut waiting = chunks(metrics);
        let mut failing: Option<Instant> = None;
        while !waiting.is_empty() {
            let mut again = Vec::new();
            let tried = std::mem::take(&mut waiting).into_iter().map(async |chunk| {
                let done = self.chunk(&chunk, depth).await;
                (chunk, done)
            });
            let tried = stream::iter(tried).buffer_unordered(CHUNKS_AT_ONCE);
            futures_util::pin_mut!(tried);
            while let Some((chunk, done)) = tried.next().await {
                match done {
                    Ok(part) => {
                        failing = None;
                        report.add(part);
                        observer.tell(&report);
                    }
                    Err(error) => {
                        self.wait(&error, &mut failing, observer).await?;
                        again.push(chunk);
                    }
                }
            }
            waiting = again;
        }
        self.target.sync().await?;
        Ok(report)
    }

    /// Removes what earlier rounds have written of metrics that are gone from the index by now.
    async fn remove_strangers(
        &self,
        metrics: &[MetricId],
        observer: &mut dyn Observer,
    ) -> Result<u64, StoreError> {
        let known: HashSet<&MetricId> = metrics.iter().collect();
        let mut failing = None;
        loop {
            let removed = async {
                let mut strangers = self.target.list_metrics().await?;
                strangers.retain(|metric| !known.contains(metric));
                let deleted = self.target.delete(self.fence, &strangers).await;
                deleted.into_iter().collect::<Result<(), _>>()?;
                Ok(strangers.len() as u64)
            };
            match removed.await {
                Ok(removed) => return Ok(removed),
                Err(error) => self.wait(&error, &mut failing, observer).await?,
            }
        }
    }

    /// Waits for a store that does not answer; any other error is final.
    async fn wait(
        &self,
        error: &StoreError,
        failing: &mut Option<Instant>,
        observer: &mut dyn Observer,
    ) -> Result<(), StoreError> {
        let since = *failing.get_or_insert_with(Instant::now);
        if !matches!(error, StoreError::Unavailable(_)) || since.elapsed() >= self.retries.timeout {
            return Err(error.clone());
        }
        observer.no_answer(error);
        tokio::time::sleep(self.retries.pause).await;
        Ok(())
    }
}

/// Metrics by shard, cut into chunks.
fn chunks(metrics: &[MetricId]) -> Vec<Vec<MetricId>> {
    let count = SackCount::DEFAULT;
    let mut by_shard: Vec<Vec<MetricId>> = vec![Vec::new(); usize::from(count.get())];
    for metric in metrics {
        by_shard[usize::from(count.sack_of(*metric).0)].push(*metric);
    }
    by_shard.iter().flat_map(|shard| shard.chunks(CHUNK_METRICS_MAX)).map(<[MetricId]>::to_vec).collect()
}
