//! Raw points that have left the window, if the policy keeps them: pending until they fill a block.

use gnudi_model::{Measure, Timespan, Timestamp};

use super::SealedBlock;
use crate::{CodecError, raw};

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
    /// The points that are not sealed yet: blocks as in [`raw`], one for each move of the window, in order.
    pub open: Vec<Vec<u8>>,
}

impl Archive {
    /// The pending points.
    pub fn points(&self) -> Result<Vec<Measure>, CodecError> {
        let mut points = Vec::new();
        self.open.iter().try_for_each(|part| raw::decode_points(part, &mut points))?;
        Ok(points)
    }

    /// The first pending point.
    pub fn first(&self) -> Option<Timestamp> {
        self.open.first().map(|part| extent(part).first)
    }

    /// The last pending point.
    pub fn last(&self) -> Option<Timestamp> {
        self.open.last().map(|part| extent(part).last)
    }

    /// The number of pending points.
    fn len(&self) -> usize {
        self.open.iter().map(|part| extent(part).points).sum()
    }

    /// Adds points that are newer than all existing ones.
    pub fn push(&mut self, points: &[Measure], sealed: &mut Vec<SealedBlock>) {
        if points.is_empty() {
            return;
        }
        if self.open.len() < PARTS_MAX && self.len() + points.len() < SEAL_POINTS {
            let mut part = Vec::new();
            raw::encode(points, &mut part);
            self.open.push(part);
            return;
        }
        let mut all = self.points().unwrap_or_else(|_| {
            // Readers of these blocks are told the error.
            sealed.extend(self.open.drain(..).map(as_sealed));
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
            let mut part = Vec::new();
            raw::encode(points, &mut part);
            self.open.push(part);
        }
    }

    /// An error if the header of a part cannot be decoded.
    pub fn check(&self) -> Result<(), CodecError> {
        self.open.iter().try_for_each(|part| raw::extent(part).map(drop))
    }
}

/// Converts a part to a block, undecoded.
fn as_sealed(bytes: Vec<u8>) -> SealedBlock {
    let raw::Extent { first, last, .. } = extent(&bytes);
    SealedBlock { granularity: raw::GRANULARITY, first, last, bytes }
}

fn extent(part: &[u8]) -> raw::Extent {
    raw::extent(part).expect("checked when the head was decoded")
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
