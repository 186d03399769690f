//! Cached resources, each as it is shown under its own type and as a generic one.
//!
//! A resource shows its metrics. Where a metric is deleted, or goes over to another resource, nobody says which resource had
//! it: then all resources are out of date at once. Metrics go one by one seldom; most go with their resource.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use gnudi_model::{Resource, resource_type::GENERIC};
use uuid::Uuid;

use super::{
    clock::Entry,
    shards::{self, Shards},
};

#[derive(Debug)]
pub(super) struct ResourceCache {
    shown: Shards<Shown>,
    /// How often all resources were out of date.
    generation: AtomicU64,
}

#[derive(Debug)]
struct Shown {
    resource: Arc<Resource>,
    is_generic: bool,
    generation: u64,
}

/// When a reading for the cache began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    shard: shards::Epoch,
    generation: u64,
}

impl Entry for Shown {
    type Key = (Uuid, bool);

    fn key(&self) -> (Uuid, bool) {
        (self.resource.id, self.is_generic)
    }

    /// Ids are chosen by clients, who must not know where they go.
    fn hash(key: (Uuid, bool)) -> u64 {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        HASHER.hash_one(key)
    }
}

impl ResourceCache {
    pub(super) fn new(len_max: usize) -> Self {
        ResourceCache { shown: Shards::new(len_max), generation: AtomicU64::new(0) }
    }

    pub(super) fn get(&self, resource_type: &str, id: Uuid) -> Option<Arc<Resource>> {
        let is_generic = resource_type == GENERIC;
        let shown = self.shown.get((id, is_generic))?;
        let is_valid = shown.generation == self.generation.load(Ordering::Acquire)
            && (is_generic || shown.resource.resource_type == resource_type);
        is_valid.then(|| shown.resource.clone())
    }

    /// To be taken before the index is read.
    pub(super) fn epoch(&self, resource_type: &str, id: Uuid) -> Epoch {
        let generation = self.generation.load(Ordering::Acquire);
        Epoch { shard: self.shown.epoch((id, resource_type == GENERIC)), generation }
    }

    /// Keeps a resource that was read under a type since `epoch`, unless something changed meanwhile.
    pub(super) fn insert(&self, resource_type: &str, resource: &Arc<Resource>, epoch: Epoch) {
        let is_generic = resource_type == GENERIC;
        let shown = Shown { resource: resource.clone(), is_generic, generation: epoch.generation };
        self.shown.insert(&Arc::new(shown), epoch.shard);
    }

    /// Forgets resources that were changed or deleted.
    pub(super) fn invalidate(&self, ids: impl IntoIterator<Item = Uuid>) {
        self.shown.invalidate(ids.into_iter().flat_map(|id| [(id, false), (id, true)]));
    }

    pub(super) fn invalidate_all(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Forgets everything, and keeps nothing while it is shut.
    pub(super) fn shut(&self, is_shut: bool) {
        self.shown.shut(is_shut);
    }
}
