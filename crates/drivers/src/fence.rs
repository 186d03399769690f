//! Fences: which lease on a sack may still write.
//!
//! Tokens grow from lease to lease, over all sacks. A fence covers the metrics of its sack; where the count of sacks was
//! doubled meanwhile, it covers those of the halves, too.

use std::num::NonZeroU16;

use gnudi_model::{Sack, SackCount, SackId};
use parking_lot::RwLock;

/// Who writes: the owner of the sack, by a lease with this token. A store that belongs to one process uses token 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub sack: Sack,
    pub token: u64,
}

impl Fence {
    /// Of somebody who owns all sacks of a store that nobody shares.
    pub const EVERYTHING: Fence =
        Fence { sack: Sack { count: SackCount(NonZeroU16::MIN), id: SackId(0) }, token: 0 };

    /// Raised, it closes a store to all writers for good: no lease has this token. It fits what coordinators keep of one.
    pub const CLOSING: Fence = Fence { token: i64::MAX as u64, ..Fence::EVERYTHING };

    /// The higher token that some fence among `raised` holds against this one.
    pub fn held_by(self, raised: impl IntoIterator<Item = Fence>) -> Option<u64> {
        raised
            .into_iter()
            .filter(|other| other.token > self.token && other.sack.intersects(self.sack))
            .map(|other| other.token)
            .max()
    }
}

/// The fences of a store that lies in this process.
#[derive(Debug, Default)]
pub(crate) struct Fences(RwLock<Vec<Fence>>);

impl Fences {
    /// Refuses with the token that is held.
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
