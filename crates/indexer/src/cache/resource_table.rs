//! Cache of resources, in two forms: under their own type, and as generic ones. A second cache has only their ends.
//!
//! A resource includes its metrics. If a metric is deleted or moved to another resource, its former resource is
//! unknown: all cached resources are invalidated. This is rare; most metrics are deleted with their resource.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use gnudi_model::{Resource, Timestamp, resource_type::GENERIC};
use uuid::Uuid;

use super::{
    clock::{Entry, unpredictable_hash},
    shards::{self, Shards},
};

#[derive(Debug)]
pub(super) struct ResourceCache {
    shown: Shards<Shown>,
    /// Number of times that all resources were invalidated.
    generation: AtomicU64,
}

#[derive(Debug)]
struct Shown {
    resource: Arc<Resource>,
    is_generic: bool,
    generation: u64,
}

/// When a read for the cache began.
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

    fn hash(key: (Uuid, bool)) -> u64 {
        unpredictable_hash(key)
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

    /// Take it before reading the index.
    pub(super) fn epoch(&self, resource_type: &str, id: Uuid) -> Epoch {
        let generation = self.generation.load(Ordering::Acquire);
        Epoch { shard: self.shown.epoch((id, resource_type == GENERIC)), generation }
    }

    /// Caches a resource read under a type since `epoch`, unless something changed meanwhile.
    pub(super) fn insert(&self, resource_type: &str, resource: &Arc<Resource>, epoch: Epoch) {
        let is_generic = resource_type == GENERIC;
        let shown = Shown { resource: resource.clone(), is_generic, generation: epoch.generation };
        self.shown.insert(&Arc::new(shown), epoch.shard);
    }

    /// Invalidates resources that were changed or deleted.
    pub(super) fn invalidate(&self, ids: impl IntoIterator<Item = Uuid>) {
        self.shown.invalidate(ids.into_iter().flat_map(|id| [(id, false), (id, true)]));
    }

    /// Invalidates a former resource with the id of a new one. Mostly there is none, and an invalidation would reject
    /// reads of others.
    pub(super) fn invalidate_former(&self, id: Uuid) {
        if [false, true].into_iter().any(|is_generic| self.shown.get((id, is_generic)).is_some()) {
            self.invalidate([id]);
        }
    }

    pub(super) fn invalidate_all(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Clears everything, and caches nothing while shut.
    pub(super) fn shut(&self, is_shut: bool) {
        self.shown.shut(is_shut);
    }
}

/// An existing resource, and its end, which every pass that measures the resource needs. Separate from cached
/// resources: an entry is small, and changes of a resource's metrics do not invalidate it.
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
