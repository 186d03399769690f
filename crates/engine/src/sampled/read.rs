//! Reads the samples of many metrics in chunks: first heads, which determine the sources, then the sources'
//! blocks.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use gnudi_drivers::aggregates::{BlockKey, BlockRange};
use gnudi_model::{Aggregation, AggregationMethod, ArchivePolicy, ArchivePolicyItem, Measure, Timestamp};
use gnudi_series::{
    head::{Head, Layout},
    raw, read as stored,
};

use super::{
    SampleQuery, SampledMetric, Samples,
    query::{Columns, MILLISECOND, Stamp},
    segments::{Segment, candidates, segments},
};
use crate::{
    Engine, EngineError, Result,
    cross::{CrossMeasuresError, HeldPoints, POINTS_MAX},
    reader::{self, ReadRange, ReadStore},
};

/// Metrics per chunk. Fewer than the minimum cost more for their task than for themselves.
const CHUNK_METRICS_MAX: usize = 256;
const CHUNK_METRICS_MIN: usize = 4;

/// Samples per chunk, estimated for one sample per metric every 10 s.
const CHUNK_SAMPLES: i64 = 1 << 17;
const ASSUMED_INTERVAL_MS: i64 = 10_000;

impl Engine {
    /// Evaluates the samples of many metrics, each right after it was read. `evaluate` returns its result and
    /// how many points that holds: at most `points_max` in all. Results are in the order of the metrics; the
    /// guard counts their points while held. Without waiting measures.
    pub async fn samples<T: Send + 'static>(
        &self,
        metrics: Vec<SampledMetric>,
        query: Arc<SampleQuery>,
        points_max: usize,
        evaluate: impl Fn(Samples) -> (T, usize) + Send + Sync + 'static,
    ) -> Result<(Vec<T>, HeldPoints), CrossMeasuresError> {
        let (bulk, evaluate) = (&self.bulk, Arc::new(evaluate));
        let (order, metrics) = bulk.as_written(metrics, |metric| metric.metric);
        let span_ms = query.end_ms.saturating_sub(query.start_ms).max(0);
        let fitting = CHUNK_SAMPLES / (span_ms / ASSUMED_INTERVAL_MS + 1);
        let share = metrics.len().div_ceil(bulk.processors);
        let size = (fitting as usize).min(share).clamp(CHUNK_METRICS_MIN, CHUNK_METRICS_MAX);
        let chunk_end = |from: usize| metrics.len().min(from + size);
        let read = |range: Range<usize>| {
            let (metrics, query) = (metrics.clone(), query.clone());
            let (store, evaluate) = (bulk.store.clone(), evaluate.clone());
            async move { read_chunk(&store, &metrics[range], &query, &*evaluate).await }
        };
        bulk.in_chunks(&order, points_max.min(POINTS_MAX), chunk_end, read).await
    }
}

/// What the metrics of a policy have in common.
struct PolicyReading {
    layout: Layout,
    columns: Columns,
    granularities: Vec<ArchivePolicyItem>,
}

impl PolicyReading {
    /// `None` if the policy does not keep what the query asks for.
    fn new(policy: &ArchivePolicy, query: &SampleQuery) -> Option<Self> {
        let columns = Columns::of(policy, query.values)?;
        Some(PolicyReading { layout: Layout::of(policy), columns, granularities: candidates(policy, query) })
    }
}

/// The segments of one metric, and their index among the chunk's ranges.
struct Reading<'a> {
    metric: &'a SampledMetric,
    head: &'a Head,
    of_policy: Arc<PolicyReading>,
    segments: Vec<Segment>,
    first_range: usize,
}

async fn read_chunk<T>(
    store: &ReadStore,
    metrics: &[SampledMetric],
    query: &SampleQuery,
    evaluate: &(impl Fn(Samples) -> (T, usize) + Sync),
) -> Result<Vec<(T, usize)>> {
    let ids: Vec<_> = metrics.iter().map(|metric| metric.metric).collect();
    let heads = store.heads(&ids).await?;
    // Most metrics of a chunk have the same policy.
    let mut last: Option<(&Arc<ArchivePolicy>, Option<Arc<PolicyReading>>)> = None;
    let mut ranges: Vec<(BlockRange, &Head)> = Vec::new();
    let mut readings: Vec<Option<Reading<'_>>> = Vec::with_capacity(metrics.len());
    let end = Timestamp(query.end_ms.saturating_mul(MILLISECOND).max(0));
    for (metric, head) in metrics.iter().zip(&heads) {
        let of_policy = match last {
            Some((policy, ref of_policy)) if Arc::ptr_eq(policy, &metric.policy) => of_policy.clone(),
            _ => PolicyReading::new(&metric.policy, query).map(Arc::new),
        };
        last = Some((&metric.policy, of_policy.clone()));
        let (Some(head), Some(of_policy)) = (head, of_policy) else {
            readings.push(None);
            continue;
        };
        // Unknown if the head is damaged, and what is left is served.
        let newest = head.newest().unwrap_or(end);
        let known_from = |granularity| head.known_from(granularity);
        let segments = segments(&metric.policy, &of_policy.granularities, newest, known_from, query);
        let first_range = ranges.len();
        let value = of_policy.columns.value;
        ranges.extend(segments.iter().map(|segment| (block_range(metric, segment, value), head)));
        readings.push(Some(Reading { metric, head, of_policy, segments, first_range }));
    }
    let found = store.blocks(&ranges).await?;
    let mut answers = Vec::with_capacity(metrics.len());
    let mut held = 0;
    for reading in readings {
        let Some(reading) = reading else {
            answers.push(evaluate(Samples::default()));
            continue;
        };
        let own = reading.first_range..reading.first_range + reading.segments.len();
        let answer = evaluate(reading.join(&found[own], query)?);
        held += answer.1;
        if held > POINTS_MAX {
            return Err(EngineError::TooManyPoints(reading.metric.metric));
        }
        answers.push(answer);
    }
    Ok(answers)
}

fn aggregation(item: &ArchivePolicyItem, method: AggregationMethod) -> Aggregation {
    Aggregation { method, granularity: item.granularity, timespan: item.timespan }
}

fn read_range(segment: &Segment) -> ReadRange {
    ReadRange { start: Some(segment.from), stop: Some(segment.to), resample: None }
}

fn block_range(metric: &SampledMetric, segment: &Segment, method: AggregationMethod) -> BlockRange {
    match &segment.buckets {
        Some(item) => reader::block_range(metric.metric, aggregation(item, method), read_range(segment)),
        None => BlockRange {
            metric: metric.metric,
            granularity: raw::GRANULARITY,
            from: segment.from,
            to: segment.to,
        },
    }
}

type Stored = Vec<(BlockKey, Bytes)>;

impl Reading<'_> {
    /// `blocks` has those of each segment.
    fn join(&self, blocks: &[Stored], query: &SampleQuery) -> Result<Samples> {
        let lookback_ms = |segment: &Segment| match &segment.buckets {
            Some(item) => query.bucket_lookback_ms(item.granularity),
            None => query.lookback_ms,
        };
        let longest_ms = self.segments.iter().filter_map(lookback_ms).max();
        let has_buckets = self.segments.iter().any(|segment| segment.buckets.is_some());
        let mut builder = Builder {
            samples: Samples {
                counts: (has_buckets && self.of_policy.columns.count.is_some()).then(Vec::new),
                lookback_ms: longest_ms.filter(|_| has_buckets),
                ..Samples::default()
            },
            longest_ms: longest_ms.unwrap_or(0),
            ends_at: None,
        };
        for (segment, blocks) in self.segments.iter().zip(blocks) {
            let lookback_ms = lookback_ms(segment);
            if let Some(item) = &segment.buckets {
                self.add_buckets(segment, item, blocks, query, lookback_ms, &mut builder)?;
                continue;
            }
            let bytes: Vec<&[u8]> = blocks.iter().map(|(_, bytes)| &bytes[..]).collect();
            let (from, to) = (Some(segment.from), Some(segment.to));
            let points = stored::raw_points(&bytes, self.head, &self.of_policy.layout, from, to);
            let points = points.map_err(|error| reader::refused(self.metric.metric, &error))?;
            let to_ms = |time: Timestamp| time.0.div_euclid(MILLISECOND);
            let times_ms: Vec<i64> = points.timestamps.into_iter().map(to_ms).collect();
            if !has_buckets && times_ms.is_sorted_by(|a, b| a < b) {
                return Ok(Samples { times_ms, values: points.values, ..builder.samples });
            }
            for (time_ms, value) in times_ms.into_iter().zip(points.values) {
                builder.add(time_ms, value, 1.0, lookback_ms);
            }
        }
        builder.end_segment(query.end_ms.saturating_add(1));
        Ok(builder.samples)
    }

    fn add_buckets(
        &self,
        segment: &Segment,
        item: &ArchivePolicyItem,
        blocks: &Stored,
        query: &SampleQuery,
        lookback_ms: Option<i64>,
        builder: &mut Builder,
    ) -> Result<()> {
        let read = |method| {
            let (metric, aggregation) = (self.metric.metric, aggregation(item, method));
            let layout = &self.of_policy.layout;
            reader::assemble(metric, blocks, self.head, layout, aggregation, read_range(segment))
        };
        let values = read(self.of_policy.columns.value)?;
        let counts = match self.of_policy.columns.count {
            Some(count) if count != self.of_policy.columns.value => Some(read(count)?),
            _ => None,
        };
        let mut counted =
            counts.iter().flat_map(|counts| counts.timestamps.iter().zip(&counts.values)).peekable();
        let to_ms = segment.to.0.div_euclid(MILLISECOND);
        let newest_ms = self.head.newest().map_or(i64::MAX, |newest| newest.0.div_euclid(MILLISECOND));
        for (start, value) in values.timestamps.iter().zip(values.values) {
            while counted.next_if(|(time, _)| *time < start).is_some() {}
            let count = match counted.peek() {
                Some((time, count)) if *time == start => **count,
                // The value is its own count, if it has one.
                _ if counts.is_none() && self.of_policy.columns.count.is_some() => value,
                _ => 1.0,
            };
            let value = if self.of_policy.columns.is_mean { value * count } else { value };
            let time_ms = stamp_ms(query.stamp, *start, item, newest_ms);
            // A bucket that extends into the next segment is incomplete.
            if time_ms < to_ms {
                builder.add(time_ms, value, count, lookback_ms);
            }
        }
        Ok(())
    }
}

/// The time of a bucket's sample.
fn stamp_ms(stamp: Stamp, start: Timestamp, item: &ArchivePolicyItem, newest_ms: i64) -> i64 {
    let start_ms = start.0.div_euclid(MILLISECOND);
    match stamp {
        Stamp::Start => start_ms,
        Stamp::End => {
            let last = start.0.saturating_add(item.granularity.0 - 1);
            last.div_euclid(MILLISECOND).min(newest_ms).max(start_ms)
        }
    }
}

/// Joins segments.
struct Builder {
    samples: Samples,
    /// The longest lookback of the series.
    longest_ms: i64,
    /// When the last sample's lookback ends, if earlier.
    ends_at: Option<i64>,
}

impl Builder {
    #[inline]
    fn add(&mut self, time_ms: i64, value: f64, count: f64, lookback_ms: Option<i64>) {
        if let Some(lookback_ms) = lookback_ms {
            self.end_segment(time_ms);
            let ends_at = || time_ms.saturating_add(lookback_ms);
            self.ends_at = (lookback_ms < self.longest_ms).then(ends_at);
        }
        let samples = &mut self.samples;
        // The last one in a millisecond wins.
        if samples.times_ms.last() == Some(&time_ms) {
            samples.times_ms.pop();
            samples.values.pop();
            samples.counts.as_mut().map(Vec::pop);
        }
        self.put(time_ms, value, count);
    }

    /// Adds an end marker if the next sample is later than the last one's lookback.
    fn end_segment(&mut self, next_ms: i64) {
        if let Some(end) = self.ends_at.take().filter(|end| *end < next_ms) {
            self.put(end, f64::from_bits(Measure::END_MARKER), 1.0);
        }
    }

    fn put(&mut self, time_ms: i64, value: f64, count: f64) {
        self.samples.times_ms.push(time_ms);
        self.samples.values.push(value);
        if let Some(counts) = &mut self.samples.counts {
            counts.push(count);
        }
    }
}
