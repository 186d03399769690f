//! A metric's head: the one record that a pass reads and writes.
//!
//! It holds the raw points that the back window demands, the finalised buckets that wait to be sealed, and the position
//! of the last applied request. Aggregates are lazy: a bucket inside the raw window is not stored, whoever reads it
//! computes it from the raw points; it is finalised once, when the window has moved past it. So a pass over in-order
//! points is a push.
//!
//! The head is a pure function of the sequence of requests: how passes cut the sequence changes nothing, sealed
//! blocks included, so that a replay writes the same blocks under the same names.
//!
//! A bucket is final when it has left the window, or when the timespan of its granularity has passed it. A
//! final bucket is never computed again, also when a policy's back window or timespan grows later.
//!
//! Parts: [`grain`] one granularity's rows, [`fold`] applying a request, [`marks`] what rates and percentiles remember of
//! earlier passes, [`archive`] raw points outside the window and [`late`] late points, where the policy keeps raw points, [`added`] late points elsewhere,
//! [`removal`] points and buckets that are removed, [`conversion`] another layout in place of the one it was folded with,
//! [`import`] a head out of another store, [`codec`] the stored form.

mod added;
mod archive;
mod codec;
mod compose;
mod conversion;
mod fold;
mod grain;
mod import;
mod late;
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

use crate::{CodecError, raw, read::Fetched};

/// Buckets that became a block of their own; its bytes are read by [`crate::block`].
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
    /// Where the back window starts: older points are late. 0 before the first point.
    window: i64,
    /// The points inside the window, oldest first, distinct times; and before them those that share a bucket with the
    /// window's start, for granularities that do not divide the block.
    raw: Vec<Measure>,
    /// The last point that left `raw`, where differences are wanted or raw points are kept: the first one is the difference from it.
    before: Option<Measure>,
    /// Finest first.
    grains: Vec<GrainState>,
    /// Where the policy keeps raw points.
    archive: Option<Archive>,
    /// Of the layout that was folded with, and of all rows in memory. Stored where raw points are kept.
    methods: Vec<AggregationMethod>,
    /// Not stored: what [`Head::take_sealed`] hands out.
    sealed: Vec<SealedBlock>,
    /// Not stored: points before the window that are to be merged, in order; see [`late`]. Without raw points in the order in which they came;
    /// see [`added`].
    late: Vec<Measure>,
    /// Not stored: what [`Head::take_removed`] hands out.
    removed: Vec<(Timespan, BlockSpan)>,
    /// Not stored: what [`Head::expiry_moved`] tells.
    expiry_moved: bool,
    /// Not stored.
    buffers: Buffers,
}

impl Head {
    /// Of a metric without points.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of a metric whose head was found damaged at a time.
    pub fn after_loss(now: Timestamp) -> Self {
        Head { lost_before: Some(now), ..Self::default() }
    }

    /// When an earlier head of the metric was found damaged: buckets that start before lack points that it had.
    pub fn lost_before(&self) -> Option<Timestamp> {
        self.lost_before
    }

    /// The position of the last applied request; 0 before any.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// How many points were dropped because they were late, since the metric began or its head was lost.
    pub fn late_dropped(&self) -> u64 {
        self.late_dropped
    }

    /// The newest point's time.
    pub fn last(&self) -> Option<Timestamp> {
        self.raw.last().map(|point| point.timestamp)
    }

    /// Hands out the blocks that became full. They are stored before or with the head; a replay gives the same ones.
    pub fn take_sealed(&mut self, _layout: &Layout) -> Vec<SealedBlock> {
        std::mem::take(&mut self.sealed)
    }

    /// Buckets of the granularity that start before this have expired: sealed blocks whose last bucket does are to be
    /// deleted. `None` where nothing has expired. Moves in whole splits of 3600 buckets, as Gnocchi deletes.
    pub fn oldest_kept(&self, _layout: &Layout, granularity: Timespan) -> Option<Timestamp> {
        let grain = self.grain(granularity)?;
        (grain.kept_from > 0).then_some(Timestamp(grain.kept_from))
    }

    /// Blocks of raw points whose last point is before this have expired, but for the last of them: it has the point before those that
    /// are kept. `None` where nothing has expired.
    pub fn oldest_raw_kept(&self) -> Option<Timestamp> {
        let archive = self.archive.as_ref()?;
        (archive.kept_from > 0).then_some(Timestamp(archive.kept_from))
    }

    /// The points that are not in stored blocks, oldest first; all that the policy's raw timespan asks for, if there is one.
    pub(crate) fn raw_points(&self) -> Vec<Measure> {
        let mut points = Vec::new();
        for block in self.sealed.iter().filter(|block| block.granularity == raw::GRANULARITY) {
            raw::decode_points(&block.bytes, &mut points).expect("this head has encoded it");
        }
        points.extend(self.archive.iter().flat_map(Archive::points));
        points.extend_from_slice(&self.raw);
        points
    }

    /// Buckets of the granularity that start before this are final: no block is beyond it. `None` where the head does not have it.
    pub fn final_until(&self, granularity: Timespan) -> Option<Timestamp> {
        self.grain(granularity).map(|grain| Timestamp(grain.final_until))
    }

    /// Whether [`Head::oldest_kept`] of any granularity, or [`Head::oldest_raw_kept`], has moved since the head was made or decoded. Where it has not,
    /// no sealed block needs to be looked at.
    pub fn expiry_moved(&self) -> bool {
        self.expiry_moved
    }

    fn grain(&self, granularity: Timespan) -> Option<&GrainState> {
        self.grains.iter().find(|grain| grain.granularity == granularity)
    }

    /// Hands the rows of an aggregation that are not in stored blocks to a reader, oldest first.
    pub(crate) fn add_rows(
        &self,
        layout: &Layout,
        aggregation: Aggregation,
        fetched: &mut Fetched,
    ) -> Result<(), CodecError> {
        let known = layout.methods.contains(&aggregation.method);
        let grain = self.grains.iter().find(|grain| grain.granularity == aggregation.granularity);
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
