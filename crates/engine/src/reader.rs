//! Reads a metric's aggregates: its head and the sealed blocks in the range, joined by `gnudi_series::read`.

use std::sync::Arc;

use bytes::Bytes;
use gnudi_drivers::aggregates::{BlockKey, BlockRange, Blocks};
use gnudi_model::{Aggregation, ArchivePolicy, MetricId, Timestamp};
use gnudi_series::{
    head::{Head, Layout},
    raw,
    read::{self, ReadError},
};

pub use gnudi_series::{
    read::{ReadRange, Series as Measures},
    resample::Resample,
};

use crate::{
    Engine, EngineError, Result,
    damage::{OnDamage, StoredHead},
    processor::Processor,
};

/// So many points are joined in a few milliseconds.
const FEW_POINTS_MAX: usize = 50_000;

/// The aggregates as readers see them: with all that passes have taken up.
#[derive(Clone)]
pub struct ReadStore {
    processor: Arc<Processor>,
    pub(crate) on_damage: OnDamage,
}

impl ReadStore {
    pub(crate) fn new(processor: Arc<Processor>) -> Self {
        ReadStore { processor, on_damage: OnDamage::default() }
    }

    /// The stored heads of metrics, after what is deferred of the metrics is folded.
    pub(crate) async fn read_heads(&self, metrics: &[MetricId]) -> Vec<StoredHead> {
        self.processor.fold_for_reader(metrics).await;
        self.processor.store.read_heads(metrics).await
    }

    /// The heads of metrics; `None` for a metric without one. Heads are read before blocks: rows sealed in
    /// between are then seen twice, which joining resolves, and never missed.
    pub(crate) async fn heads(&self, metrics: &[MetricId]) -> Result<Vec<Option<Head>>> {
        let stored = self.read_heads(metrics).await;
        metrics.iter().zip(&stored).map(|(metric, head)| self.on_damage.head(*metric, head)).collect()
    }

    /// The blocks of each range of a metric, whose head was read before. Ranges that are in the head alone are
    /// not read from the store.
    pub(crate) async fn blocks(&self, wanted: &[(BlockRange, &Head)]) -> Result<Vec<MetricBlocks>> {
        let may_exist = |range: &BlockRange, head: &Head| {
            head.blocks_end_before(range.granularity).is_none_or(|end| range.from < end)
        };
        let stored: Vec<BlockRange> =
            wanted.iter().filter(|(range, head)| may_exist(range, head)).map(|(range, _)| *range).collect();
        let mut found = match &stored[..] {
            [] => Vec::new(),
            stored => self.processor.store.read_blocks(stored).await,
        }
        .into_iter();
        let blocks = |(range, head): &(BlockRange, &Head)| {
            let found = if may_exist(range, head) {
                found.next().expect("one answer per range")
            } else {
                Ok(Blocks::default())
            };
            self.on_damage.blocks(range, head, found)
        };
        wanted.iter().map(blocks).collect()
    }
}

/// Blocks of one range of a metric.
type MetricBlocks = Vec<(BlockKey, Bytes)>;

/// A read of one metric.
#[derive(Clone, Debug)]
pub struct MeasuresQuery {
    /// The requested aggregations, coarsest granularity first.
    pub aggregations: Vec<Aggregation>,
    pub range: ReadRange,
}

impl Engine {
    /// The points of each aggregation of the query, in its order, without waiting measures: see
    /// [`Engine::refresh`].
    pub async fn measures(
        &self,
        metric: MetricId,
        policy: &ArchivePolicy,
        query: &MeasuresQuery,
    ) -> Result<Vec<Measures>> {
        let head = self.readers().heads(&[metric]).await?.pop().expect("one answer per metric");
        let Some(head) = head else {
            let empty = |granularity| Measures { granularity, ..Measures::default() };
            return Ok(query.aggregations.iter().map(|aggregation| empty(aggregation.granularity)).collect());
        };
        let layout = Layout::of(policy);
        let blocks = {
            let range = |aggregation: &Aggregation| (block_range(metric, *aggregation, query.range), &head);
            let wanted: Vec<_> = query.aggregations.iter().map(range).collect();
            self.readers().blocks(&wanted).await?
        };
        let MeasuresQuery { aggregations, range } = query.clone();
        let join = move |blocks: &[MetricBlocks]| {
            let answers = aggregations.iter().zip(blocks);
            answers
                .map(|(aggregation, blocks)| assemble(metric, blocks, &head, &layout, *aggregation, range))
                .collect::<Result<Vec<Measures>>>()
        };
        self.joined(metric, blocks, join).await
    }

    /// A metric's raw points in `start..stop`, as far as its policy keeps them; the granularity is 0.
    pub async fn raw_points(
        &self,
        metric: MetricId,
        policy: &ArchivePolicy,
        start: Option<Timestamp>,
        stop: Option<Timestamp>,
    ) -> Result<Measures> {
        let head = self.readers().heads(&[metric]).await?.pop().expect("one answer per metric");
        let Some(head) = head else {
            return Ok(Measures { granularity: raw::GRANULARITY, ..Measures::default() });
        };
        let oldest =
            policy.raw_timespan.zip(head.last()).map(|(timespan, last)| last.saturating_sub(timespan));
        let from = start.max(oldest).unwrap_or(Timestamp::EPOCH);
        let to = stop.unwrap_or(Timestamp::MAX).max(from);
        let range = BlockRange { metric, granularity: raw::GRANULARITY, from, to };
        let blocks = self.readers().blocks(&[(range, &head)]).await?;
        let layout = Layout::of(policy);
        let join = move |blocks: &[MetricBlocks]| {
            let blocks: Vec<&[u8]> = blocks.iter().flatten().map(|(_, bytes)| &bytes[..]).collect();
            read::raw_points(&blocks, &head, &layout, start, stop).map_err(|error| refused(metric, &error))
        };
        self.joined(metric, blocks, join).await
    }

    /// Joins all blocks of a read: off the request threads if they have many points.
    async fn joined<T: Send + 'static>(
        &self,
        metric: MetricId,
        blocks: Vec<MetricBlocks>,
        join: impl FnOnce(&[MetricBlocks]) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let claimed = read::claimed(blocks.iter().flatten().map(|(_, bytes)| &bytes[..]));
        let points = claimed.map_err(|error| refused(metric, &error))?;
        if points <= FEW_POINTS_MAX { join(&blocks) } else { self.compute(move || join(&blocks)).await }
    }
}

/// The range of blocks that the read of an aggregation needs.
pub(crate) fn block_range(metric: MetricId, aggregation: Aggregation, range: ReadRange) -> BlockRange {
    let (from, to) = read::block_range(aggregation, range);
    BlockRange { metric, granularity: aggregation.granularity, from, to }
}

/// Joins the head and the blocks of one aggregation.
pub(crate) fn assemble(
    metric: MetricId,
    blocks: &[(BlockKey, Bytes)],
    head: &Head,
    layout: &Layout,
    aggregation: Aggregation,
    range: ReadRange,
) -> Result<Measures> {
    let blocks: Vec<_> = blocks.iter().map(|(key, bytes)| (key.first, key.last, &bytes[..])).collect();
    read::assemble(&blocks, Some(head), layout, aggregation, range).map_err(|error| refused(metric, &error))
}

/// The error of a metric that cannot be read.
pub(crate) fn refused(metric: MetricId, error: &ReadError) -> EngineError {
    match error {
        ReadError::Codec(error) => EngineError::Damaged { metric, reason: error.to_string() },
        ReadError::TooManyPoints => EngineError::TooManyPoints(metric),
        ReadError::RateOnCalendar | ReadError::ResampleSpan => EngineError::Resample(error.to_string()),
    }
}
