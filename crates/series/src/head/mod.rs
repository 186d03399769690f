//! A metric's head: the one record that a pass reads and writes.
//!
//! It contains the raw points of the back window, the finalised buckets that are not sealed yet, and the
//! position of the last applied request. Aggregates are lazy: a bucket inside the raw window is not stored
//! but computed from the raw points when read. It is finalised once, when the window has moved past it. So a
//! pass over in-order points only appends.
//!
//! The head is a pure function of the sequence of requests. It and the sealed blocks do not depend on how the
//! sequence is split into passes, so a replay writes the same blocks under the same names.
//!
//! A bucket is final when it has left the window, or when it is older than the timespan of its granularity. A
//! final bucket is not computed again, even if a policy's back window or timespan grows later.
//!
//! Parts: [`grain`] one granularity's rows, [`fold`] applying a request, [`marks`] state of earlier passes
//! for rates and percentiles, [`archive`] raw points outside the window and [`late`] late points if the
//! policy keeps raw points, [`late_update`] late points otherwise, [`removal`] removing points and buckets,
//! [`conversion`] changing the layout, [`import`] a head from another store, [`codec`] the stored form.

mod archive;
mod codec;
mod compose;
mod conversion;
mod fold;
mod grain;
mod import;
mod late;
mod late_update;
mod marks;
mod removal;

use gnudi_model::{Aggregation, AggregationMethod, Measure, Timespan, Timestamp};

pub use crate::layout::Layout;
use archive::Archive;
pub use compose::Composer;
pub use conversion::{Conversion, Origin, outcome};
pub use fold::FoldOutcome;
use grain::{Buffers, GrainState, Points, aggregated};
pub use import::{ImportOutcome, ImportedGrain};
pub use late::{BlockSpan, LateRows, StoredBlock};

use crate::{
    Result, raw,
    read::{Fetched, Series},
};

/// Buckets sealed into a block; [`crate::block`] decodes its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBlock {
    pub granularity: Timespan,
    /// The first bucket's start.
    pub first: Timestamp,
    /// The last bucket's start.
    pub last: Timestamp,
    pub bytes: Vec<u8>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Head {
    applied: u64,
    /// See [`Head::late_dropped`].
    late_dropped: u64,
    /// See [`Head::lost_before`].
    lost_before: Option<Timestamp>,
    /// The start of the back window: older points are late. 0 before the first point.
    window: i64,
    /// The points inside the window, oldest first, with distinct times. Also earlier points in the bucket of
    /// the window's start, for granularities that do not divide the block.
    raw: Vec<Measure>,
    /// The last point that left `raw`, if the policy has differences or keeps raw points: the first
    /// difference needs it.
    before: Option<Measure>,
    /// Finest first.
    grains: Vec<GrainState>,
    /// Only if the policy keeps raw points.
    archive: Option<Archive>,
    /// The methods of the last folded layout and of all rows in memory. Stored if raw points are kept.
    methods: Vec<AggregationMethod>,
    /// Not stored: the result of [`Head::take_sealed`].
    sealed: Vec<SealedBlock>,
    /// Not stored: points before the window that are to be merged, ordered by time ([`late`]); without raw
    /// points in order of arrival ([`late_update`]).
    late: Vec<Measure>,
    /// Not stored: the result of [`Head::take_removed`].
    removed: Vec<(Timespan, BlockSpan)>,
    /// Not stored: see [`Head::expiry_moved`].
    expiry_moved: bool,
    /// Not stored.
    buffers: Buffers,
}

impl Head {
    /// The head of a metric without points.
    pub fn new() -> Self {
        Self::default()
    }

    /// The head of a metric whose former head was found damaged at `now`.
    pub fn after_loss(now: Timestamp) -> Self {
        Head { lost_before: Some(now), ..Self::default() }
    }

    /// When an earlier head of the metric was found damaged: buckets that start before may lack points.
    pub fn lost_before(&self) -> Option<Timestamp> {
        self.lost_before
    }

    /// The position of the last applied request; 0 before any.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// How many late points were dropped since the metric was created or its head was lost.
    pub fn late_dropped(&self) -> u64 {
        self.late_dropped
    }

    /// The newest point's time; `None` if the back window has no points.
    pub fn last(&self) -> Option<Timestamp> {
        self.raw.last().map(|point| point.timestamp)
    }

    /// Like [`Head::last`], also after a removal of the newest points: then the time of the point before them or, if that is
    /// no longer known, the last nanosecond of its bucket.
    pub fn newest(&self) -> Option<Timestamp> {
        let before = self.before.map(|before| before.timestamp);
        self.last().or(before).or_else(|| (self.window > 0).then(|| Timestamp(self.window - 1)))
    }

    /// The newest point's time, from which timespans count. If a removal has left it unknown, the earliest time that it may
    /// have: the last bucket's start.
    pub(crate) fn newest_from(&self, layout: &Layout) -> Timestamp {
        let before = self.before.map(|before| before.timestamp);
        let bucket = Timestamp(self.window.saturating_sub(layout.block_size.0).max(0));
        self.last().or(before).unwrap_or(bucket)
    }

    /// Removes and returns the blocks that became full. Store them before or with the head; a replay returns
    /// the same ones.
    pub fn take_sealed(&mut self) -> Vec<SealedBlock> {
        std::mem::take(&mut self.sealed)
    }

    /// Buckets of the granularity that start before this have expired: delete sealed blocks whose last bucket
    /// does. `None` if nothing has expired. Moves in whole splits of 3600 buckets, as Gnocchi deletes.
    pub fn oldest_kept(&self, granularity: Timespan) -> Option<Timestamp> {
        let grain = self.grain(granularity)?;
        (grain.kept_from > 0).then_some(Timestamp(grain.kept_from))
    }

    /// Blocks of raw points that end before this have expired, except the last of them: it contains the point
    /// before those that are kept. `None` if nothing has expired.
    pub fn oldest_raw_kept(&self) -> Option<Timestamp> {
        let archive = self.archive.as_ref()?;
        (archive.kept_from > 0).then_some(Timestamp(archive.kept_from))
    }

    /// Appends the points that are newer than the series' last one, oldest first; without a raw timespan only
    /// those of the window. May leave out points before `start`.
    pub(crate) fn add_raw_points(&self, start: Option<Timestamp>, series: &mut Series) -> Result<()> {
        let Series { timestamps, values, .. } = series;
        let seen = timestamps.last().copied();
        let is_seen = |time: &Timestamp| seen.is_some_and(|seen| *time <= seen);
        let sealed = self.sealed.iter().filter(|block| block.granularity == raw::GRANULARITY);
        let sealed = sealed.map(|block| (block.last, &block.bytes));
        let pending = self.archive.iter().flat_map(|archive| &archive.open);
        for (last, part) in sealed.chain(pending.map(|part| (part.extent.last, &part.bytes))) {
            if is_seen(&last) || start.is_some_and(|start| last < start) {
                continue;
            }
            let before = timestamps.len();
            raw::decode(part, timestamps, values)?;
            let skip = timestamps[before..].partition_point(is_seen);
            timestamps.drain(before..before + skip);
            values.drain(before..before + skip);
        }
        for point in self.raw.iter().filter(|point| !is_seen(&point.timestamp)) {
            timestamps.push(point.timestamp);
            values.push(point.value);
        }
        Ok(())
    }

    /// The time from which a granularity, or the raw points, may be complete: what is older has expired, or came
    /// before the metric had them. The earliest time if that is unknown.
    pub fn known_from(&self, granularity: Timespan) -> Timestamp {
        // Blocks may be left from before a loss.
        if self.grains.is_empty() {
            return Timestamp(i64::MIN);
        }
        let from = if granularity == raw::GRANULARITY {
            self.archive
                .as_ref()
                .map_or_else(|| self.raw_start(), |archive| archive.from.max(archive.kept_from))
        } else {
            self.grain(granularity).map_or(i64::MAX, |grain| grain.kept_from)
        };
        Timestamp(from)
    }

    /// No stored block of the granularity ends at this time or later: this head has all that does. `None` if
    /// unknown.
    pub fn blocks_end_before(&self, granularity: Timespan) -> Option<Timestamp> {
        // Blocks may be left from before a loss.
        if self.lost_before.is_some() || !self.sealed.is_empty() {
            return None;
        }
        if granularity == raw::GRANULARITY {
            let pending = self.archive.as_ref()?.first();
            return pending.or_else(|| self.raw.first().map(|point| point.timestamp));
        }
        let grain = self.grain(granularity)?;
        Some(grain.open.first().unwrap_or(Timestamp(grain.final_until)))
    }

    /// Whether [`Head::oldest_kept`] of any granularity, or [`Head::oldest_raw_kept`], has moved since the
    /// head was created or decoded. If not, no sealed block has to be checked.
    pub fn expiry_moved(&self) -> bool {
        self.expiry_moved
    }

    fn grain(&self, granularity: Timespan) -> Option<&GrainState> {
        self.grains.iter().find(|grain| grain.granularity == granularity)
    }

    /// Adds the rows of an aggregation that are not in stored blocks to `fetched`, oldest first.
    pub(crate) fn add_rows(
        &self,
        layout: &Layout,
        aggregation: Aggregation,
        fetched: &mut Fetched,
    ) -> Result<()> {
        let known = layout.methods.contains(&aggregation.method);
        let grain = self.grain(aggregation.granularity);
        let Some(grain) = grain.filter(|_| known) else { return Ok(()) };
        for block in self.sealed.iter().filter(|block| block.granularity == aggregation.granularity) {
            fetched.add_block(aggregation, block.last, &block.bytes)?;
        }
        grain.add_open(&layout.methods, aggregation, fetched)?;
        let raw = aggregated(&self.raw, self.archive.is_some());
        grain.add_lazy(Points { raw: &raw, before: self.before }, aggregation.method, fetched);
        Ok(())
    }
}
