//! When resources ended, for those whose metrics are measured: each pass asks.
//!
//! Apart from the cached resources: one entry is small, and what only concerns a resource's metrics leaves it as it is.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock},
};

use gnudi_model::Timestamp;
use uuid::Uuid;

use super::{clock::Entry, shards::Shards};

/// A resource that is there, and its end.
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

    /// Clients choose the ids of resources: nobody may know where they go.
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
