//! Cache of the ends of resources: every pass needs those of the resources that it measures.
//!
//! Separate from cached resources: an entry is small, and changes of a resource's metrics do not invalidate it.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock},
};

use gnudi_model::Timestamp;
use uuid::Uuid;

use super::{clock::Entry, shards::Shards};

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

    /// Clients choose ids of resources: their slots must not be predictable.
    fn hash(id: Uuid) -> u64 {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        HASHER.hash_one(id)
    }
}

#[derive(Debug)]
pub(super) struct EndCache(pub(super) Shards<End>);

impl EndCache {
    pub(super) fn new(len_max: usize) -> Self {
        EndCache(Shards::new(len_max))
    }

    pub(super) fn get(&self, id: Uuid) -> Option<Arc<End>> {
        self.0.get(id)
    }

    pub(super) fn invalidate(&self, ids: impl IntoIterator<Item = Uuid>) {
        self.0.invalidate(ids);
    }
}
