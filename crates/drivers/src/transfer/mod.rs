//! Copies the aggregates of one store to another in rounds, while the source is written: each round updates
//! the target to the source's heads at that time.
//!
//! A pass that changes a block changes its metric's head in the same write: the head has its granularities,
//! and the position of the last applied request. So equal heads imply equal blocks, once these were compared.
//! A metric is copied in the order head, names of blocks, blocks: if a pass comes in between, the older head
//! is copied, and the next round finds a newer one.
//!
//! ARCHITECTURE.md has the invariants. The caller provides the metrics, and closes the source.

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

/// Metrics that are copied together: all of one shard, so that one object or call takes them.
const CHUNK_METRICS_MAX: usize = 256;
const CHUNKS_AT_ONCE: usize = 8;
/// Damaged places listed; more are only counted.
const NAMED_MAX: usize = 100;

/// Decodes a head's granularities; `None` if the head is invalid. Fails if a newer program wrote it.
pub type Granularities = fn(&Bytes) -> Result<Option<Vec<Timespan>>, StoreError>;

/// The scope of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Metrics whose heads differ, and of these the blocks that the target lacks.
    Changes,
    /// All blocks of all metrics, except those that were equal before and whose heads have not changed since.
    Everything,
}

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub metrics_total: u64,
    /// Processed so far.
    pub metrics: u64,
    /// Written because they differed.
    pub metrics_written: u64,
    pub blocks_written: u64,
    pub bytes_written: u64,
    /// Compared completely and found equal.
    pub metrics_compared: u64,
    /// Removed from the target because the source, or the index, no longer has them.
    pub metrics_removed: u64,
    /// Damaged heads and blocks of the source.
    pub damaged: u64,
    /// The first of these places.
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
        self.metrics += other.metrics;
        self.metrics_written += other.metrics_written;
        self.blocks_written += other.blocks_written;
        self.bytes_written += other.bytes_written;
        self.metrics_compared += other.metrics_compared;
        self.metrics_removed += other.metrics_removed;
        let named = other.damaged_places.len() as u64;
        other.damaged_places.into_iter().for_each(|place| self.damage(place));
        self.damaged += other.damaged - named;
    }
}

/// Notified of progress, and of a store that does not respond.
pub trait Observer {
    fn tell(&mut self, report: &Report);
    fn no_answer(&mut self, error: &StoreError);
}

/// Retries while a store does not respond.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// Delay between attempts.
    pub pause: Duration,
    /// How long to retry without any success.
    pub timeout: Duration,
}

/// See the module.
pub struct Transfer {
    source: Arc<dyn Movable>,
    target: Arc<dyn Movable>,
    /// The fence for writes to the target.
    fence: Fence,
    granularities: Granularities,
    retries: Retries,
    /// Checksums of heads of metrics found equal.
    compared: Mutex<HashMap<MetricId, u32>>,
}

impl Transfer {
    /// Raises the fence in the target: an earlier transfer that still runs can write no more.
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

    /// Updates all metrics. With [`Depth::Everything`] also removes all other metrics from the target.
    pub async fn round(
        &self,
        metrics: &[MetricId],
        depth: Depth,
        observer: &mut dyn Observer,
    ) -> Result<Report, StoreError> {
        let mut report = Report { metrics_total: metrics.len() as u64, ..Report::default() };
        if depth == Depth::Everything {
            report.metrics_removed = self.remove_orphans(metrics, observer).await?;
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

    /// Removes metrics written by earlier rounds that the index no longer has.
    async fn remove_orphans(
        &self,
        metrics: &[MetricId],
        observer: &mut dyn Observer,
    ) -> Result<u64, StoreError> {
        let known: HashSet<&MetricId> = metrics.iter().collect();
        let mut failing = None;
        loop {
            let removed = async {
                let mut orphans = self.target.list_metrics().await?;
                orphans.retain(|metric| !known.contains(metric));
                let deleted = self.target.delete(self.fence, &orphans).await;
                deleted.into_iter().collect::<Result<(), _>>()?;
                Ok(orphans.len() as u64)
            };
            match removed.await {
                Ok(removed) => return Ok(removed),
                Err(error) => self.wait(&error, &mut failing, observer).await?,
            }
        }
    }

    /// Waits while a store does not respond; any other error is final.
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

/// Metrics by shard, in chunks.
fn chunks(metrics: &[MetricId]) -> Vec<Vec<MetricId>> {
    let count = SackCount::DEFAULT;
    let mut by_shard: Vec<Vec<MetricId>> = vec![Vec::new(); usize::from(count.get())];
    for metric in metrics {
        by_shard[usize::from(count.sack_of(*metric).0)].push(*metric);
    }
    by_shard.iter().flat_map(|shard| shard.chunks(CHUNK_METRICS_MAX)).map(<[MetricId]>::to_vec).collect()
}
