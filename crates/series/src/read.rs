//! Answers a query for one aggregation from sealed blocks and the head, with Gnocchi's results.
//!
//! Gnocchi fetches the whole splits that contain `start` and `stop`, drops points older than the timespan
//! before the last fetched point, resamples if requested, and cuts to `start` and `stop` last.

use gnudi_model::{Aggregation, Timespan, Timestamp};

use crate::{
    CodecError, Result,
    block::{self, ROWS_MAX},
    head::Head,
    layout::{Layout, POINTS_PER_SPLIT, floor, split_start},
    packing::claimed_rows,
    raw,
    resample::{Resample, resample},
};

/// The most points of a read: half a gibibyte.
pub const POINTS_MAX: usize = 1 << 25;

/// An aggregation's points, oldest first; both columns have the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Of the stored aggregation, even if the points are resampled.
    pub granularity: Timespan,
    pub timestamps: Vec<Timestamp>,
    pub values: Vec<f64>,
}

/// The range of a read; by default everything that is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadRange {
    /// The first bucket is the one that contains it.
    pub start: Option<Timestamp>,
    /// Exclusive.
    pub stop: Option<Timestamp>,
    pub resample: Option<Resample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// Gnocchi's text.
    #[error("Cannot derive aggregates on calendar granularities.")]
    RateOnCalendar,
    #[error("the span to resample to must be positive")]
    ResampleSpan,
    /// The blocks have more than [`POINTS_MAX`].
    #[error("more than {POINTS_MAX} points would have to be read")]
    TooManyPoints,
}

/// The range of bucket starts that a query reads: `from..=to`, with `from <= to`.
pub fn block_range(aggregation: Aggregation, range: ReadRange) -> (Timestamp, Timestamp) {
    let (from, to) = wanted(aggregation, range);
    (from, to.max(from))
}

/// As [`block_range`], but `to < from` if the range is empty.
fn wanted(aggregation: Aggregation, range: ReadRange) -> (Timestamp, Timestamp) {
    let ReadRange { start, stop, resample } = range;
    let granularity = aggregation.granularity;
    let split = granularity.0.saturating_mul(POINTS_PER_SPLIT);
    // Whole splits, as Gnocchi fetches them.
    let split_from = start.map_or(Timestamp(0), |start| split_start(start, granularity));
    let split_to = stop.map_or(Timestamp::MAX, |stop| {
        Timestamp(split_start(stop, granularity).0.saturating_add(split - granularity.0))
    });
    match (start, stop) {
        _ if resample.is_some() => (split_from, split_to),
        (None, None) => (split_from, split_to),
        // Without a stop the last point is always fetched, so the timespan drops the same points.
        (Some(start), None) => (Timestamp(floor(start.0, granularity.0)), split_to),
        (start, Some(stop)) => {
            let from = start.map_or(0, |start| floor(start.0, granularity.0));
            let hidden = |timespan: Timespan| from <= split_to.0.saturating_sub(timespan.0);
            if aggregation.timespan.is_some_and(hidden) {
                (split_from, split_to)
            } else {
                // The timespan drops nothing in the range, whatever the last point is.
                (Timestamp(from), Timestamp(stop.0.saturating_sub(1)))
            }
        }
    }
}

/// The points of `aggregation` in the range. `blocks` are the granularity's sealed blocks that overlap
/// [`block_range`], as first start, last start and bytes. Rows that were sealed twice, or are also in the head,
/// count once. Read `head` before the blocks: rows sealed in between are then seen twice and never missed.
pub fn assemble(
    blocks: &[(Timestamp, Timestamp, &[u8])],
    head: Option<&Head>,
    layout: &Layout,
    aggregation: Aggregation,
    range: ReadRange,
) -> Result<Series, ReadError> {
    let ReadRange { start, stop, resample: resample_to } = range;
    let range = wanted(aggregation, range);
    let mut fetched = Fetched { range, seen: None, timestamps: Vec::new(), values: Vec::new() };
    let granularity = aggregation.granularity;
    let mut sorted: Vec<&(Timestamp, Timestamp, &[u8])> = blocks.iter().collect();
    sorted.sort_by_key(|(first, last, _)| (*first, *last));
    sorted.retain(|(first, last, _)| *last >= range.0 && *first <= range.1);
    fetched.reserve(claimed(sorted.iter().map(|(_, _, bytes)| *bytes))?);
    for (_, last, bytes) in sorted {
        fetched.add_block(aggregation, *last, bytes)?;
    }
    if let Some(head) = head {
        head.add_rows(layout, aggregation, &mut fetched)?;
        if let Some(oldest) = head.oldest_kept(granularity) {
            fetched.drop_while(|time| time < oldest);
        }
    }
    if let (Some(timespan), Some(last)) = (aggregation.timespan, fetched.timestamps.last().copied()) {
        // If late points are accepted, the timespan counts from the metric's newest point, not from the
        // newest in the range: late points to the same expired buckets are dropped too.
        let newest = head.filter(|_| layout.takes_late()).map(|head| head.newest_from(layout));
        let last = newest.map_or(last, |newest| newest.floor(granularity).max(last));
        let oldest = last.saturating_sub(timespan);
        fetched.drop_while(|time| time <= oldest);
    }
    let Fetched { mut timestamps, mut values, .. } = fetched;
    let mut from = start.map(|start| Timestamp(floor(start.0, granularity.0)));
    if let Some(to) = resample_to {
        (timestamps, values) = resample(&timestamps, &values, to, aggregation.method)?;
        from = start.map(|start| to.floor(start));
    }
    if let Some(stop) = stop {
        let count = timestamps.partition_point(|&time| time < stop);
        timestamps.truncate(count);
        values.truncate(count);
    }
    if let Some(from) = from {
        let count = timestamps.partition_point(|&time| time < from);
        timestamps.drain(..count);
        values.drain(..count);
    }
    Ok(Series { granularity, timestamps, values })
}

/// The raw points in `start..stop` that the policy's timespan still keeps; none if it keeps no raw points.
/// `blocks` are the blocks of [`raw::GRANULARITY`] in that range, in order; read `head` before them.
pub fn raw_points(
    blocks: &[&[u8]],
    head: &Head,
    layout: &Layout,
    start: Option<Timestamp>,
    stop: Option<Timestamp>,
) -> Result<Series, ReadError> {
    let mut series = Series { granularity: raw::GRANULARITY, ..Series::default() };
    let Some(timespan) = layout.raw_timespan else { return Ok(series) };
    let points = claimed(blocks.iter().copied())?;
    series.timestamps.reserve(points);
    series.values.reserve(points);
    for block in blocks {
        raw::decode(block, &mut series.timestamps, &mut series.values)?;
    }
    // Points that were sealed after the head was read count once.
    head.add_raw_points(start, &mut series)?;
    let newest = series.timestamps.last().copied().unwrap_or_default().max(head.newest_from(layout));
    let oldest = newest.saturating_sub(timespan);
    let is_before = |time: &Timestamp| *time <= oldest || start.is_some_and(|start| *time < start);
    let from = series.timestamps.partition_point(is_before);
    let to = series.timestamps.partition_point(|time| stop.is_none_or(|stop| *time < stop)).max(from);
    series.timestamps.truncate(to);
    series.timestamps.drain(..from);
    series.values.truncate(to);
    series.values.drain(..from);
    Ok(series)
}

/// How many rows blocks of aggregates or of raw points claim to have. A block of a few bytes may have thousands.
///
/// # Errors
/// Beyond [`POINTS_MAX`].
pub fn claimed<'b>(blocks: impl Iterator<Item = &'b [u8]>) -> Result<usize, ReadError> {
    let rows: usize = blocks.map(|block| claimed_rows(block, ROWS_MAX)).sum();
    if rows > POINTS_MAX { Err(ReadError::TooManyPoints) } else { Ok(rows) }
}

/// The rows in the range, each bucket once, in order.
pub(crate) struct Fetched {
    range: (Timestamp, Timestamp),
    /// The last bucket added, whether or not it has a value.
    seen: Option<Timestamp>,
    timestamps: Vec<Timestamp>,
    values: Vec<f64>,
}

impl Fetched {
    /// Adds the rows of a block that are newer than `seen`; `last` is the block's last bucket.
    pub fn add_block(&mut self, aggregation: Aggregation, last: Timestamp, bytes: &[u8]) -> Result<()> {
        if self.seen.is_some_and(|seen| last <= seen) {
            return Ok(());
        }
        let before = self.timestamps.len();
        block::decode(bytes, aggregation.method, &mut self.timestamps, &mut self.values)?;
        let (from, to) = self.range;
        let seen = self.seen;
        let unwanted = |time: &Timestamp| *time < from || seen.is_some_and(|seen| *time <= seen);
        let skip = self.timestamps[before..].partition_point(unwanted);
        self.timestamps.drain(before..before + skip);
        self.values.drain(before..before + skip);
        let count = before + self.timestamps[before..].partition_point(|time| *time <= to);
        self.timestamps.truncate(count);
        self.values.truncate(count);
        self.seen = self.seen.max(Some(last));
        Ok(())
    }

    /// Adds one bucket; buckets must come in order.
    pub fn add_row(&mut self, start: Timestamp, value: Option<f64>) {
        if self.seen.is_some_and(|seen| start <= seen) {
            return;
        }
        self.seen = Some(start);
        if let Some(value) = value
            && start >= self.range.0
            && start <= self.range.1
        {
            self.timestamps.push(start);
            self.values.push(value);
        }
    }

    pub fn reserve(&mut self, rows: usize) {
        self.timestamps.reserve(rows);
        self.values.reserve(rows);
    }

    fn drop_while(&mut self, unwanted: impl Fn(Timestamp) -> bool) {
        let count = self.timestamps.partition_point(|&time| unwanted(time));
        self.timestamps.drain(..count);
        self.values.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::ArchivePolicy;

    use super::*;
    use crate::packing::put_varint;

    #[test]
    fn a_read_has_a_bounded_number_of_points() {
        // Four bytes that claim as many rows as a block may have.
        let mut block = vec![1];
        put_varint(ROWS_MAX as u64, &mut block);
        let blocks = |count: usize| vec![&block[..]; count];
        let most = POINTS_MAX / ROWS_MAX;
        assert_eq!(claimed(blocks(most).into_iter()), Ok(POINTS_MAX));
        assert_eq!(claimed(blocks(most + 1).into_iter()), Err(ReadError::TooManyPoints));
        let policies = ArchivePolicy::defaults(&ArchivePolicy::default_methods());
        let policy = policies.iter().find(|policy| policy.raw_timespan.is_some()).unwrap();
        let layout = Layout::of(policy);
        let raw = raw_points(&blocks(most + 1), &Head::new(), &layout, None, None);
        assert_eq!(raw, Err(ReadError::TooManyPoints));
        let method = *policy.aggregation_methods.first().unwrap();
        let aggregation = policy.aggregation(method, policy.definition[0].granularity).unwrap();
        let at = Timestamp::EPOCH;
        let keyed: Vec<_> = blocks(most + 1).into_iter().map(|bytes| (at, at, bytes)).collect();
        let read = assemble(&keyed, None, &layout, aggregation, ReadRange::default());
        assert_eq!(read, Err(ReadError::TooManyPoints));
    }
}
