//! Reads the samples of many metrics in chunks: first heads, which determine the sources, then the sources'
//! blocks.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use gnudi_drivers::aggregates::{AggregateStore, BlockKey, BlockRange};
use gnudi_model::{Aggregation, AggregationMethod, ArchivePolicyItem, Measure, Timestamp};
use gnudi_series::{
    head::{Head, Layout},
    raw, read as stored,
};

use super::{
    SampleQuery, SampledMetric, Samples,
    query::{Columns, MILLISECOND, Stamp},
    segments::{Segment, segments},
};
use crate::{
    EngineError, Result,
    cross::{Bulk, CrossMeasuresError, HeldPoints},
    damage::OnDamage,
    reader::{self, MeasuresQuery},
};

/// Maximum metrics per chunk.
const CHUNK_METRICS_MAX: usize = 64;

/// Samples per chunk, estimated for one sample per metric every 10 s.
const CHUNK_SAMPLES: i64 = 1 << 17;
const ASSUMED_INTERVAL_MS: i64 = 10_000;

impl Bulk {
    /// Each metric's samples, in order, and a guard that counts them while held.
    pub(crate) async fn samples(
        &self,
        metrics: Vec<SampledMetric>,
        query: Arc<SampleQuery>,
        samples_max: usize,
    ) -> Result<(Vec<Samples>, HeldPoints), CrossMeasuresError> {
        let mut held = self.hold_nothing();
        let mut answers = vec![Samples::default(); metrics.len()];
        let (order, metrics) = self.as_written(metrics, |metric| metric.metric);
        let span_ms = query.end_ms.saturating_sub(query.start_ms).max(0);
        let fitting = CHUNK_SAMPLES / (span_ms / ASSUMED_INTERVAL_MS + 1);
        let size = (fitting as usize).clamp(1, CHUNK_METRICS_MAX);
        let chunk_end = |from: usize| metrics.len().min(from + size);
        let read = |range: Range<usize>| {
            let (metrics, query, store) = (metrics.clone(), query.clone(), self.store());
            let on_damage = self.on_damage;
            async move { read_chunk(&*store, on_damage, &metrics[range], &query).await }
        };
        let take = |from: usize, samples: Vec<Samples>| {
            for (place, samples) in order[from..].iter().zip(samples) {
                held.add(samples.values.len())?;
                answers[*place] = samples;
            }
            if held.count() > samples_max { Err(CrossMeasuresError::TooManyPoints) } else { Ok(()) }
        };
        self.in_chunks(metrics.len(), chunk_end, read, take).await?;
        Ok((answers, held))
    }
}

/// The segments of one metric, and their index among the chunk's ranges.
struct Reading<'a> {
    metric: &'a SampledMetric,
    head: &'a Head,
    layout: Layout,
    columns: Columns,
    segments: Vec<Segment>,
    first_range: usize,
}

async fn read_chunk(
    store: &dyn AggregateStore,
    on_damage: OnDamage,
    metrics: &[SampledMetric],
    query: &SampleQuery,
) -> Result<Vec<Samples>> {
    let ids: Vec<_> = metrics.iter().map(|metric| metric.metric).collect();
    let mut heads = Vec::with_capacity(ids.len());
    // Heads before blocks: rows sealed in between are seen twice, and never missed.
    for (metric, head) in ids.iter().zip(store.read_heads(&ids).await) {
        heads.push(on_damage.head(*metric, head)?);
    }
    let mut ranges: Vec<BlockRange> = Vec::new();
    let mut readings: Vec<Option<Reading<'_>>> = Vec::with_capacity(metrics.len());
    for (metric, head) in metrics.iter().zip(&heads) {
        let newest = head.as_ref().and_then(Head::last);
        let columns = Columns::of(&metric.policy, query.values);
        let (Some(head), Some(newest), Some(columns)) = (head, newest, columns) else {
            readings.push(None);
            continue;
        };
        let segments = segments(&metric.policy, newest, query);
        let first_range = ranges.len();
        ranges.extend(segments.iter().map(|segment| block_range(metric, segment, columns.value)));
        let layout = Layout::of(&metric.policy);
        readings.push(Some(Reading { metric, head, layout, columns, segments, first_range }));
    }
    let mut found = store.read_blocks(&ranges).await.into_iter();
    let mut answers = Vec::with_capacity(metrics.len());
    for reading in readings {
        let Some(reading) = reading else {
            answers.push(Samples::default());
            continue;
        };
        let own = &ranges[reading.first_range..reading.first_range + reading.segments.len()];
        let blocks = own.iter().zip(&mut found);
        let blocks = blocks.map(|(range, blocks)| on_damage.blocks(range, reading.head, blocks));
        answers.push(reading.join(&blocks.collect::<Result<Vec<_>>>()?, query)?);
    }
    Ok(answers)
}

fn aggregation(item: &ArchivePolicyItem, method: AggregationMethod) -> Aggregation {
    Aggregation { method, granularity: item.granularity, timespan: item.timespan }
}

fn measures_query(segment: &Segment) -> MeasuresQuery {
    let (start, stop) = (Some(segment.from), Some(segment.to));
    MeasuresQuery { aggregations: Vec::new(), start, stop, resample: None }
}

fn block_range(metric: &SampledMetric, segment: &Segment, method: AggregationMethod) -> BlockRange {
    match &segment.buckets {
        Some(item) => reader::block_range(metric.metric, aggregation(item, method), &measures_query(segment)),
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
                counts: (has_buckets && self.columns.count.is_some()).then(Vec::new),
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
            let points = stored::raw_points(&bytes, self.head, &self.layout, from, to);
            let points = points.map_err(|error| self.damaged(&error))?;
            for (time, value) in points.timestamps.iter().zip(points.values) {
                builder.add(time.0.div_euclid(MILLISECOND), value, 1.0, lookback_ms);
            }
        }
        builder.end_segment(query.end_ms.saturating_add(1));
        Ok(builder.samples)
    }

    fn damaged(&self, error: &dyn std::fmt::Display) -> EngineError {
        EngineError::Damaged { metric: self.metric.metric, reason: error.to_string() }
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
            let measures = measures_query(segment);
            reader::assemble(metric, blocks, self.head, &self.layout, aggregation, &measures)
        };
        let values = read(self.columns.value)?;
        let counts = match self.columns.count {
            Some(count) if count != self.columns.value => Some(read(count)?),
            _ => None,
        };
        let mut counted =
            counts.iter().flat_map(|counts| counts.timestamps.iter().zip(&counts.values)).peekable();
        let to_ms = segment.to.0.div_euclid(MILLISECOND);
        let newest_ms = self.head.last().map_or(i64::MAX, |last| last.0.div_euclid(MILLISECOND));
        for (start, value) in values.timestamps.iter().zip(values.values) {
            while counted.next_if(|(time, _)| *time < start).is_some() {}
            let count = match counted.peek() {
                Some((time, count)) if *time == start => **count,
                // The value is its own count, if it has one.
                _ if counts.is_none() && self.columns.count.is_some() => value,
                _ => 1.0,
            };
            let value = if self.columns.is_mean { value * count } else { value };
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
    fn add(&mut self, time_ms: i64, value: f64, count: f64, lookback_ms: Option<i64>) {
        self.end_segment(time_ms);
        self.ends_at = lookback_ms
            .filter(|lookback_ms| *lookback_ms < self.longest_ms)
            .map(|lookback_ms| time_ms.saturating_add(lookback_ms));
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
