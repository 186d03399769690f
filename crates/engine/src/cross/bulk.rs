//! Reads many metrics: in chunks, each with one call to the store for heads and one for blocks, decoded on several
//! processors.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use gnudi_drivers::aggregates::{AggregateStore, BlockRange};
use gnudi_model::{Aggregation, ArchivePolicy, MetricId, Timestamp};
use gnudi_series::{cross::CrossSeries, head::Layout};
use tokio::{runtime::Handle, sync::Semaphore, task::JoinSet};

use super::CrossMeasuresError;
use crate::{
    Result,
    damage::OnDamage,
    reader::{self, MeasuresQuery},
};

/// A query may read so many points: half a gibibyte, if no two series have the same times.
pub const POINTS_MAX: usize = 1 << 25;

/// All queries that run may hold so many points: twice what one may.
const POINTS_HELD_MAX: usize = 2 * POINTS_MAX;

/// A chunk has about so many points, as far as it can be told before.
const CHUNK_POINTS: i64 = 1 << 17;

/// A chunk has at most so many metrics.
const CHUNK_METRICS_MAX: i64 = 64;

/// What to read of one metric.
#[derive(Clone, Debug)]
pub struct MetricRead {
    pub metric: MetricId,
    pub policy: Arc<ArchivePolicy>,
    pub aggregations: Vec<Aggregation>,
}

/// Reads and computes for queries across metrics, beside the threads that serve requests, on all processors and no more.
pub struct Bulk {
    store: Arc<dyn AggregateStore>,
    pub(crate) on_damage: OnDamage,
    processors: Arc<Semaphore>,
    /// How many points the queries hold that run.
    points_held: Arc<AtomicUsize>,
}

/// What a query has read, as long as it is held.
#[derive(Debug)]
pub struct HeldPoints {
    points: usize,
    of_all: Arc<AtomicUsize>,
}

impl HeldPoints {
    /// Counts more; whether all queries together hold too many now.
    fn add(&mut self, points: usize) -> Result<(), CrossMeasuresError> {
        self.points += points;
        let held = self.of_all.fetch_add(points, Ordering::Relaxed) + points;
        if held > POINTS_HELD_MAX { Err(CrossMeasuresError::TooManyHeld) } else { Ok(()) }
    }
}

impl Drop for HeldPoints {
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.points, Ordering::Relaxed);
    }
}

impl Bulk {
    pub fn new(store: Arc<dyn AggregateStore>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Bulk {
            store,
            on_damage: OnDamage::default(),
            processors: Arc::new(Semaphore::new(processors)),
            points_held: Arc::default(),
        }
    }

    /// The series of each aggregation of each metric, in their order, and what counts them as long as they are held. A metric
    /// without measures has empty ones.
    pub async fn read(
        &self,
        reads: Arc<[MetricRead]>,
        start: Option<Timestamp>,
        stop: Option<Timestamp>,
        points_max: usize,
    ) -> Result<(Vec<Vec<CrossSeries>>, HeldPoints), CrossMeasuresError> {
        let mut chunks = JoinSet::new();
        let held = HeldPoints { points: 0, of_all: self.points_held.clone() };
        let mut answers = Answers { series: vec![Vec::new(); reads.len()], held, points_max };
        let query = Arc::new(MeasuresQuery { aggregations: Vec::new(), start, stop, resample: None });
        let mut from = 0;
        while from < reads.len() {
            let to = chunk_end(&reads, from, &query);
            let permit = self.permit().await;
            while let Some(done) = chunks.try_join_next() {
                answers.add(done)?;
            }
            let (reads, query, store) = (reads.clone(), query.clone(), self.store.clone());
            let on_damage = self.on_damage;
            let runtime = Handle::current();
            chunks.spawn_blocking(move || {
                let _permit = permit;
                let series = runtime.block_on(read_chunk(&*store, on_damage, &reads[from..to], &query));
                (from, series)
            });
            from = to;
        }
        while let Some(done) = chunks.join_next().await {
            answers.add(done)?;
        }
        Ok((answers.series, answers.held))
    }

    /// Runs what only computes.
    pub async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let permit = self.permit().await;
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.expect("the work does not panic")
    }

    async fn permit(&self) -> tokio::sync::OwnedSemaphorePermit {
        self.processors.clone().acquire_owned().await.expect("the semaphore is never closed")
    }
}

/// Where the chunk that begins at `from` ends.
fn chunk_end(reads: &[MetricRead], from: usize, query: &MeasuresQuery) -> usize {
    let read = &reads[from];
    let points = |aggregation: &Aggregation| {
        let asked = match (query.start, query.stop) {
            (Some(start), Some(stop)) => Some(stop.0.saturating_sub(start.0)),
            _ => None,
        };
        let kept = aggregation.timespan.map(|timespan| timespan.0);
        let span = asked.into_iter().chain(kept).min().unwrap_or(i64::MAX);
        span.max(0) / aggregation.granularity.0 + 1
    };
    let points = read.aggregations.iter().map(points).fold(0, i64::saturating_add);
    let metrics = (CHUNK_POINTS / points.max(1)).clamp(1, CHUNK_METRICS_MAX);
    reads.len().min(from + metrics as usize)
}

async fn read_chunk(
    store: &dyn AggregateStore,
    on_damage: OnDamage,
    reads: &[MetricRead],
    query: &MeasuresQuery,
) -> Result<Vec<Vec<CrossSeries>>> {
    let metrics: Vec<MetricId> = reads.iter().map(|read| read.metric).collect();
    // The heads before the blocks, as for one metric.
    let mut heads = Vec::with_capacity(metrics.len());
    for (metric, head) in metrics.iter().zip(store.read_heads(&metrics).await) {
        heads.push(on_damage.head(*metric, head)?);
    }
    let mut ranges: Vec<BlockRange> = Vec::new();
    for (read, _) in reads.iter().zip(&heads).filter(|(_, head)| head.is_some()) {
        let first = ranges.len();
        for aggregation in &read.aggregations {
            let range = reader::block_range(read.metric, *aggregation, query);
            if !ranges[first..].contains(&range) {
                ranges.push(range);
            }
        }
    }
    let mut found = store.read_blocks(&ranges).await.into_iter();
    let mut times = SharedTimes::default();
    let mut layout: Option<(&Arc<ArchivePolicy>, Layout)> = None;
    let mut answers = Vec::with_capacity(reads.len());
    let mut next_range = 0;
    for (read, head) in reads.iter().zip(&heads) {
        let Some(head) = head else {
            answers.push(vec![CrossSeries::default(); read.aggregations.len()]);
            continue;
        };
        let layout = match layout.take() {
            Some(known) if Arc::ptr_eq(known.0, &read.policy) => layout.insert(known),
            _ => layout.insert((&read.policy, Layout::of(&read.policy))),
        };
        let first = next_range;
        next_range += ranges[first..].iter().take_while(|range| range.metric == read.metric).count();
        let own = &ranges[first..next_range];
        let blocks = own.iter().zip(&mut found).map(|(range, blocks)| on_damage.blocks(range, head, blocks));
        let blocks = blocks.collect::<Result<Vec<_>>>()?;
        let series = |aggregation: &Aggregation| {
            let range = own.iter().position(|range| range.granularity == aggregation.granularity);
            let blocks = &blocks[range.expect("there is a range for each granularity")];
            let series = reader::assemble(read.metric, blocks, head, &layout.1, *aggregation, query)?;
            Ok(CrossSeries { timestamps: times.share(series.timestamps), values: series.values })
        };
        answers.push(read.aggregations.iter().map(series).collect::<Result<_>>()?);
    }
    Ok(answers)
}

/// The times of the last series: the next ones mostly have the same. Several, since granularities take turns.
#[derive(Default)]
struct SharedTimes(Vec<Arc<Vec<Timestamp>>>);

impl SharedTimes {
    /// As many granularities as policies have.
    const KEPT_MAX: usize = 4;

    fn share(&mut self, times: Vec<Timestamp>) -> Arc<Vec<Timestamp>> {
        if let Some(known) = self.0.iter().find(|known| ***known == times) {
            return known.clone();
        }
        let times = Arc::new(times);
        if self.0.len() == Self::KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push(times.clone());
        times
    }
}

/// What the chunks brought.
struct Answers {
    series: Vec<Vec<CrossSeries>>,
    held: HeldPoints,
    points_max: usize,
}

type ChunkDone = (usize, Result<Vec<Vec<CrossSeries>>>);

impl Answers {
    fn add(&mut self, done: Result<ChunkDone, tokio::task::JoinError>) -> Result<(), CrossMeasuresError> {
        let (from, series) = done.expect("reading does not panic");
        for (place, series) in self.series[from..].iter_mut().zip(series?) {
            self.held.add(series.iter().map(|series| series.values.len()).sum())?;
            *place = series;
        }
        if self.held.points > self.points_max { Err(CrossMeasuresError::TooManyPoints) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_together_hold_twice_what_one_may() {
        let of_all = Arc::new(AtomicUsize::new(0));
        let query = || HeldPoints { points: 0, of_all: of_all.clone() };
        let (mut first, mut second, mut third) = (query(), query(), query());
        first.add(POINTS_MAX).unwrap();
        second.add(POINTS_MAX - 1).unwrap();
        third.add(1).unwrap();
        assert!(matches!(third.add(1), Err(CrossMeasuresError::TooManyHeld)));
        drop((second, third));
        query().add(POINTS_MAX).unwrap();
        drop(first);
        assert_eq!(of_all.load(Ordering::Relaxed), 0);
    }
}
