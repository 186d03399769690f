//! Reads many metrics in chunks, each with one call to the store for heads and one for blocks, decoded in
//! parallel.

use std::{collections::HashMap, ops::Range, sync::Arc};

use gnudi_drivers::{
    aggregates::{BlockRange, StoreError},
    stopping,
};
use gnudi_indexer::outcome_of;
use gnudi_model::{Aggregation, ArchivePolicy, MetricId, SackCount, Timestamp};
use gnudi_series::{
    cross::CrossSeries,
    head::{Head, Layout},
};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    task::{JoinError, JoinSet},
};

use super::CrossMeasuresError;
use crate::{
    Engine, EngineError, Result,
    reader::{self, ReadRange, ReadStore},
    turns::{Processors, Project, TIMES_FREE_MAX},
};

/// Maximum points of a query: half a gibibyte, if no two series share their times.
pub const POINTS_MAX: usize = gnudi_series::read::POINTS_MAX;

/// Maximum points of all running queries: twice that of one.
const POINTS_HELD_MAX: usize = 2 * POINTS_MAX;

/// Estimated points per chunk.
const CHUNK_POINTS: i64 = 1 << 17;

/// Maximum metrics per chunk.
const CHUNK_METRICS_MAX: usize = 64;

/// A read of one metric.
#[derive(Clone, Debug)]
pub struct MetricRead {
    pub metric: MetricId,
    pub policy: Arc<ArchivePolicy>,
    pub aggregations: Vec<Aggregation>,
}

/// Reads and computes for queries across metrics, outside the threads that serve requests. All queries together have as
/// many running tasks as there are processors, which projects get by turns.
pub struct Bulk {
    pub(crate) store: ReadStore,
    /// Metrics of one sack were mostly written together.
    sacks: SackCount,
    /// How many there are. The standard library reads several files to find out.
    pub(crate) processors: usize,
    free_processors: Processors,
    /// Points held by the running queries of each project.
    points_held: PointsHeld,
}

type PointsHeld = Arc<Mutex<HashMap<Project, usize>>>;

/// Counts a query's points while they are held.
#[derive(Debug)]
pub struct HeldPoints {
    points: usize,
    project: Project,
    of_all: PointsHeld,
}

impl HeldPoints {
    /// For a query of the current project.
    fn new(of_all: &PointsHeld) -> Self {
        HeldPoints { points: 0, project: Project::current(), of_all: of_all.clone() }
    }

    /// Adds points; fails if the queries of the project, or all of them together, hold too many.
    pub(crate) fn add(&mut self, points: usize) -> Result<(), CrossMeasuresError> {
        let mut held = self.of_all.lock();
        self.points += points;
        let own = held.entry(self.project).or_default();
        *own += points;
        let own = *own;
        let free = POINTS_HELD_MAX.checked_sub(held.values().sum());
        let fits = free.is_some_and(|free| own / TIMES_FREE_MAX <= free);
        if fits { Ok(()) } else { Err(CrossMeasuresError::TooManyHeld) }
    }

    pub fn count(&self) -> usize {
        self.points
    }
}

impl Drop for HeldPoints {
    fn drop(&mut self) {
        let mut held = self.of_all.lock();
        if let Some(own) = held.get_mut(&self.project) {
            *own -= self.points;
            if *own == 0 {
                held.remove(&self.project);
            }
        }
    }
}

impl Engine {
    /// The points of each aggregation of many metrics, in their order; none for a metric without measures. At
    /// most `points_max`, and at most [`POINTS_MAX`]. The guard counts the points of running queries: keep it
    /// with them.
    pub async fn measures_of_many(
        &self,
        reads: Vec<MetricRead>,
        start: Option<Timestamp>,
        stop: Option<Timestamp>,
        points_max: usize,
    ) -> Result<(Vec<Vec<CrossSeries>>, HeldPoints), CrossMeasuresError> {
        let bulk = &self.bulk;
        let (order, reads) = bulk.as_written(reads, |read| read.metric);
        let range = ReadRange { start, stop, resample: None };
        let read = |chunk: Range<usize>| {
            let (reads, store) = (reads.clone(), bulk.store.clone());
            async move { read_chunk(&store, &reads[chunk], range).await }
        };
        let chunk_end = |from| chunk_end(&reads, from, range);
        bulk.in_chunks(&order, points_max.min(POINTS_MAX), chunk_end, read).await
    }

    /// Runs CPU-bound work outside the threads that serve requests.
    pub async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let permit = self.bulk.free_processors.one().await;
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        outcome_of(task).await
    }
}

impl Bulk {
    pub(crate) fn new(store: ReadStore, sacks: SackCount) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Bulk {
            store,
            sacks,
            processors,
            free_processors: Processors::new(processors),
            points_held: Arc::default(),
        }
    }

    /// Sorts `reads` in the order of passes, so that a chunk reads neighbours; also returns their original
    /// indexes.
    pub(crate) fn as_written<T>(
        &self,
        reads: Vec<T>,
        metric: impl Fn(&T) -> MetricId,
    ) -> (Vec<usize>, Arc<[T]>) {
        let mut reads: Vec<(usize, T)> = reads.into_iter().enumerate().collect();
        reads.sort_by_cached_key(|(_, read)| (self.sacks.sack_of(metric(read)), metric(read)));
        let (order, reads): (_, Vec<T>) = reads.into_iter().unzip();
        (order, reads.into())
    }

    /// Reads items in chunks, each on a processor. `order` has the items' original indexes, `chunk_end`
    /// returns the end of the chunk that begins at an index. `read` returns the result of each item of a
    /// chunk, and how many points that holds: at most `points_max` in all. Results are in the original order;
    /// the guard counts their points while held.
    pub(crate) async fn in_chunks<T, F>(
        &self,
        order: &[usize],
        points_max: usize,
        chunk_end: impl Fn(usize) -> usize,
        read: impl Fn(Range<usize>) -> F,
    ) -> Result<(Vec<T>, HeldPoints), CrossMeasuresError>
    where
        T: Send + 'static,
        F: Future<Output = Result<Vec<(T, usize)>>> + Send + 'static,
    {
        let mut held = HeldPoints::new(&self.points_held);
        let mut answers: Vec<Option<T>> = order.iter().map(|_| None).collect();
        let mut chunks: JoinSet<Chunk<T>> = JoinSet::new();
        let mut take = |done: Result<Chunk<T>, JoinError>| {
            let (from, read) =
                done.map_err(|error| EngineError::from(StoreError::Unavailable(stopping(error))))?;
            for (place, (answer, points)) in order[from..].iter().zip(read?) {
                held.add(points)?;
                answers[*place] = Some(answer);
            }
            if held.points > points_max { Err(CrossMeasuresError::TooManyPoints) } else { Ok(()) }
        };
        let mut from = 0;
        while from < order.len() {
            let to = chunk_end(from);
            let permit = self.free_processors.one().await;
            while let Some(done) = chunks.try_join_next() {
                take(done)?;
            }
            let chunk = read(from..to);
            let runtime = Handle::current();
            chunks.spawn_blocking(move || {
                let _permit = permit;
                (from, runtime.block_on(chunk))
            });
            from = to;
        }
        while let Some(done) = chunks.join_next().await {
            take(done)?;
        }
        let answers = answers.into_iter().map(|answer| answer.expect("every item is in a chunk"));
        Ok((answers.collect(), held))
    }
}

/// Where a chunk began, and its results with their points.
type Chunk<T> = (usize, Result<Vec<(T, usize)>>);

/// The end of the chunk that begins at `from`. Each of its metrics counts with the points that its own policy
/// may keep.
fn chunk_end(reads: &[MetricRead], from: usize, range: ReadRange) -> usize {
    let points = |aggregation: &Aggregation| {
        let asked = match (range.start, range.stop) {
            (Some(start), Some(stop)) => Some(stop.0.saturating_sub(start.0)),
            _ => None,
        };
        let kept = aggregation.timespan.map(|timespan| timespan.0);
        let span = asked.into_iter().chain(kept).min().unwrap_or(i64::MAX);
        (span.max(0) / aggregation.granularity.0).saturating_add(1)
    };
    let mut chunk_points = 0_i64;
    let fits = |read: &&MetricRead| {
        let of_read = read.aggregations.iter().map(points).fold(0, i64::saturating_add);
        chunk_points = chunk_points.saturating_add(of_read);
        chunk_points <= CHUNK_POINTS
    };
    let metrics = reads[from..].iter().take(CHUNK_METRICS_MAX).take_while(fits).count();
    from + metrics.max(1)
}

async fn read_chunk(
    store: &ReadStore,
    reads: &[MetricRead],
    range: ReadRange,
) -> Result<Vec<(Vec<CrossSeries>, usize)>> {
    let metrics: Vec<MetricId> = reads.iter().map(|read| read.metric).collect();
    let heads = store.heads(&metrics).await?;
    let mut ranges: Vec<(BlockRange, &Head)> = Vec::new();
    for (read, head) in reads.iter().zip(&heads) {
        let Some(head) = head else { continue };
        let first = ranges.len();
        for aggregation in &read.aggregations {
            let wanted = reader::block_range(read.metric, *aggregation, range);
            if !ranges[first..].iter().any(|(known, _)| *known == wanted) {
                ranges.push((wanted, head));
            }
        }
    }
    let found = store.blocks(&ranges).await?;
    let mut times = SharedTimes::default();
    let mut layout: Option<(&Arc<ArchivePolicy>, Layout)> = None;
    let mut answers = Vec::with_capacity(reads.len());
    let mut next_range = 0;
    for (read, head) in reads.iter().zip(&heads) {
        let Some(head) = head else {
            answers.push((vec![CrossSeries::default(); read.aggregations.len()], 0));
            continue;
        };
        let layout = match layout.take() {
            Some(known) if Arc::ptr_eq(known.0, &read.policy) => layout.insert(known),
            _ => layout.insert((&read.policy, Layout::of(&read.policy))),
        };
        let first = next_range;
        next_range += ranges[first..].iter().take_while(|(range, _)| range.metric == read.metric).count();
        let own = first..next_range;
        let mut points = 0;
        let series = |aggregation: &Aggregation| {
            let place = own.clone().find(|index| ranges[*index].0.granularity == aggregation.granularity);
            let blocks = &found[place.expect("there is a range for each granularity")];
            let series = reader::assemble(read.metric, blocks, head, &layout.1, *aggregation, range)?;
            points += series.values.len();
            if points > POINTS_MAX {
                return Err(EngineError::TooManyPoints(read.metric));
            }
            Ok(CrossSeries { timestamps: times.share(series.timestamps), values: series.values })
        };
        let series: Vec<CrossSeries> = read.aggregations.iter().map(series).collect::<Result<_>>()?;
        answers.push((series, points));
    }
    Ok(answers)
}

/// The times of recent series, which the next ones mostly share. Several, since granularities alternate.
#[derive(Default)]
struct SharedTimes(Vec<Arc<Vec<Timestamp>>>);

impl SharedTimes {
    /// The usual number of granularities of a policy.
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

#[cfg(test)]
mod tests {
    use gnudi_model::{AggregationMethod, Statistic, Timespan};

    use super::*;

    #[test]
    fn a_chunk_is_small_whatever_its_first_metric_keeps() {
        let policy = Arc::new(ArchivePolicy::defaults(&ArchivePolicy::default_methods()).remove(0));
        let keeping = |points: i64| {
            let (granularity, method) = (Timespan::from_secs(1), AggregationMethod::new(Statistic::Sum));
            let timespan = Some(Timespan::from_secs(points));
            let aggregations = vec![Aggregation { method, granularity, timespan }];
            MetricRead { metric: MetricId(uuid::Uuid::nil()), policy: policy.clone(), aggregations }
        };
        let all = ReadRange::default();
        let reads: Vec<MetricRead> = [10, 10, CHUNK_POINTS, 5, CHUNK_POINTS / 4].map(keeping).into();
        assert_eq!([0, 2, 3].map(|from| chunk_end(&reads, from, all)), [2, 3, 5]);
        let small: Vec<MetricRead> = (0..200).map(|_| keeping(10)).collect();
        assert_eq!([0, 150].map(|from| chunk_end(&small, from, all)), [64, 200]);
        let mut endless = keeping(10);
        endless.aggregations[0].timespan = None;
        endless.aggregations[0].granularity = Timespan(1);
        assert_eq!(chunk_end(&[endless, keeping(10)], 0, all), 1);
    }

    #[test]
    fn queries_of_a_project_leave_points_to_others() {
        let of_all = PointsHeld::default();
        let query = |name| HeldPoints { points: 0, project: Project::named(name), of_all: of_all.clone() };
        let (mut first, mut second, mut other) = (query("greedy"), query("greedy"), query("other"));
        first.add(POINTS_MAX).unwrap();
        second.add(POINTS_MAX / 4 * 3).unwrap();
        assert!(matches!(second.add(8), Err(CrossMeasuresError::TooManyHeld)));
        other.add(POINTS_MAX / 5).unwrap();
        drop(second);
        query("greedy").add(POINTS_MAX / 4).unwrap();
        drop((first, other));
        assert!(of_all.lock().is_empty());
    }
}
