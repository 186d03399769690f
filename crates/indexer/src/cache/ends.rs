//! Cached ends of resources: every pass needs those of the resources that it measures.
//!
//! Separate from cached resources: an entry is small, and changes of a resource's metrics do not invalidate it.

use gnudi_model::Timestamp;
use uuid::Uuid;

use super::clock::{Entry, unpredictable_hash};

/// An existing resource, and its end.
#[derive(Debug)]
pub(super) struct End {
    pub(super) id: Uuid,
    pub(super) ended_at: Option<Timestamp>,
}

impl Entry for End {
    type Key = Uuid;

    fn key(&self) -> Uuid {
        self.id
    }

    fn hash(id: Uuid) -> u64 {
        unpredictable_hash(id)
    }
}
