//! Fences: which lease on a sack may still write.
//!
//! Tokens grow with each lease, over all sacks. A fence covers its sack's metrics, also after the sack count
//! was doubled: then it covers both halves.

use std::num::NonZeroU16;

use gnudi_model::{Sack, SackCount, SackId};
use parking_lot::RwLock;

/// The writer: owner of the sack by a lease with this token. A store of a single process uses token 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub sack: Sack,
    pub token: u64,
}

impl Fence {
    /// The fence of the only owner of an unshared store.
    pub const EVERYTHING: Fence =
        Fence { sack: Sack { count: SackCount(NonZeroU16::MIN), id: SackId(0) }, token: 0 };

    /// Closes a store to all writers for good: no lease has this token. Fits coordinators' signed 64-bit
    /// tokens.
    pub const CLOSING: Fence = Fence { token: i64::MAX as u64, ..Fence::EVERYTHING };

    /// The highest token among `raised` that fences this one off.
    pub fn held_by(self, raised: impl IntoIterator<Item = Fence>) -> Option<u64> {
        raised
            .into_iter()
            .filter(|other| other.token > self.token && other.sack.intersects(self.sack))
            .map(|other| other.token)
            .max()
    }
}

/// The fences of a store in this process.
#[derive(Debug, Default)]
pub(crate) struct Fences(RwLock<Vec<Fence>>);

impl Fences {
    /// Fails with the fencing token.
    pub(crate) fn check(&self, fence: Fence) -> Result<(), u64> {
        fence.held_by(self.0.read().iter().copied()).map_or(Ok(()), Err)
    }

    pub(crate) fn raise(&self, fence: Fence) -> Result<(), u64> {
        let mut fences = self.0.write();
        if let Some(held) = fence.held_by(fences.iter().copied()) {
            return Err(held);
        }
        fences.retain(|other| other.sack != fence.sack);
        fences.push(fence);
        Ok(())
    }
}
