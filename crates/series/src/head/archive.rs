//! Raw points that have left the window, if the policy keeps them: pending until they fill a block.

use gnudi_model::{Measure, Timespan, Timestamp};

use super::SealedBlock;
use crate::{Result, raw};

/// Seal at this many pending points. A head has half of it on average, at about two bytes each.
const SEAL_POINTS: usize = 256;

/// Merge this many pending parts into one: each has an overhead of some bytes.
pub(super) const PARTS_MAX: usize = 16;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Archive {
    /// All points from this time on are kept; earlier ones came before the policy kept any, or were lost.
    pub from: i64,
    /// Blocks whose last point is before this have expired.
    pub kept_from: i64,
    /// The points that are not sealed yet, one part for each move of the window, in order.
    pub open: Vec<Pending>,
}

/// A part of the pending points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pending {
    /// A block as in [`raw`].
    pub bytes: Vec<u8>,
    pub extent: raw::Extent,
}

impl Pending {
    /// At least one point.
    fn new(points: &[Measure]) -> Self {
        let mut bytes = Vec::new();
        raw::encode(points, &mut bytes);
        let (first, last) = (points[0].timestamp, points[points.len() - 1].timestamp);
        Pending { bytes, extent: raw::Extent { points: points.len(), first, last } }
    }

    /// As stored in a head with a valid checksum; an error if the header cannot be decoded.
    pub fn stored(bytes: Vec<u8>) -> Result<Self> {
        let extent = raw::extent_in_head(&bytes)?;
        Ok(Pending { bytes, extent })
    }

    /// Converts it to a block, undecoded.
    fn sealed(self) -> SealedBlock {
        let raw::Extent { first, last, .. } = self.extent;
        SealedBlock { granularity: raw::GRANULARITY, first, last, bytes: self.bytes }
    }
}

impl Archive {
    /// The pending points.
    pub fn points(&self) -> Result<Vec<Measure>> {
        let mut points = Vec::new();
        self.open.iter().try_for_each(|part| raw::decode_points(&part.bytes, &mut points))?;
        Ok(points)
    }

    /// The first pending point.
    pub fn first(&self) -> Option<Timestamp> {
        self.open.first().map(|part| part.extent.first)
    }

    /// The last pending point.
    pub fn last(&self) -> Option<Timestamp> {
        self.open.last().map(|part| part.extent.last)
    }

    /// The number of pending points.
    fn len(&self) -> usize {
        self.open.iter().map(|part| part.extent.points).sum()
    }

    /// Adds points that are newer than all existing ones.
    pub fn push(&mut self, points: &[Measure], sealed: &mut Vec<SealedBlock>) {
        if points.is_empty() {
            return;
        }
        if self.open.len() < PARTS_MAX && self.len() + points.len() < SEAL_POINTS {
            self.open.push(Pending::new(points));
            return;
        }
        let mut all = self.points().unwrap_or_else(|_| {
            // Readers of these blocks are told the error.
            sealed.extend(self.open.drain(..).map(Pending::sealed));
            Vec::new()
        });
        all.extend_from_slice(points);
        self.set(&all, sealed);
    }

    /// Replaces the pending points, or seals them if there are enough.
    pub fn set(&mut self, points: &[Measure], sealed: &mut Vec<SealedBlock>) {
        self.open.clear();
        if points.len() >= SEAL_POINTS {
            sealed.extend(blocks_of(points));
        } else if !points.is_empty() {
            self.open.push(Pending::new(points));
        }
    }
}

/// Splits ordered points into blocks of about equal size.
pub(super) fn blocks_of(points: &[Measure]) -> impl Iterator<Item = SealedBlock> + '_ {
    let count = points.len().div_ceil(raw::BLOCK_POINTS);
    points.chunks(points.len().div_ceil(count.max(1)).max(1)).map(|points| {
        let mut bytes = Vec::with_capacity(32 + 3 * points.len());
        raw::encode(points, &mut bytes);
        SealedBlock {
            granularity: raw::GRANULARITY,
            first: points[0].timestamp,
            last: points[points.len() - 1].timestamp,
            bytes,
        }
    })
}

/// Blocks that end before this are not needed to recompute buckets after a late point, if `newest` is the
/// newest point.
pub(super) fn oldest_needed(newest: Timestamp, timespan: Timespan, coarsest: Timespan) -> i64 {
    newest.0.saturating_sub(timespan.0).saturating_sub(coarsest.0)
}
