//! All caches of an index, and what a change invalidates.

use std::sync::Arc;

use gnudi_model::{ArchivePolicy, ArchivePolicyRule, MetricId, ResourceType};
use uuid::Uuid;

use super::{
    CacheOptions,
    metrics::MetricCache,
    named::NamedCache,
    resource_table::{End, ResourceCache},
    shards::Shards,
};
use crate::{ChangeLog, Touched, Which};

/// The key of the list of all rules.
pub(super) const ALL_RULES: &str = "";

#[derive(Debug)]
pub(super) struct Caches {
    pub(super) metrics: MetricCache,
    pub(super) policies: NamedCache<Arc<ArchivePolicy>>,
    /// One list: [`ALL_RULES`].
    pub(super) rules: NamedCache<Arc<[ArchivePolicyRule]>>,
    pub(super) resources: ResourceCache,
    pub(super) ends: Shards<End>,
    pub(super) types: NamedCache<Arc<ResourceType>>,
    /// Notified of changes after the caches are invalidated.
    pub(super) log: ChangeLog,
}

impl Caches {
    pub(super) fn new(options: &CacheOptions) -> Self {
        Caches {
            metrics: MetricCache::new(options.metrics_cached_max),
            policies: NamedCache::default(),
            rules: NamedCache::default(),
            resources: ResourceCache::new(options.resources_cached_max),
            ends: Shards::new(options.metrics_cached_max),
            types: NamedCache::default(),
            log: ChangeLog::default(),
        }
    }

    pub(super) fn invalidate_policies(&self) {
        self.policies.invalidate_all();
        self.rules.invalidate_all();
    }

    /// Invalidates resources that were changed or deleted.
    pub(super) fn invalidate_resources(&self, ids: &[Uuid]) {
        self.resources.invalidate(ids.iter().copied());
        self.ends.invalidate(ids.iter().copied());
    }

    /// Invalidates metrics that were changed or deleted, and notifies of it.
    pub(super) fn invalidate_metrics(&self, ids: &[MetricId]) {
        self.metrics.invalidate(ids);
        self.log.metrics(ids);
    }

    /// As [`Caches::invalidate_metrics`], with the resources that may have had them.
    pub(super) fn invalidate_metrics_of_any_resource(&self, ids: &[MetricId]) {
        if !ids.is_empty() {
            self.resources.invalidate_all();
            self.invalidate_metrics(ids);
        }
    }

    pub(super) fn invalidate(&self, touched: &Touched) {
        match &touched.metrics {
            Which::All => self.metrics.by_id.invalidate_all(),
            Which::These(ids) => {
                self.metrics.invalidate(&ids.iter().copied().map(MetricId).collect::<Vec<_>>());
            }
        }
        match &touched.resources {
            Which::All => {
                self.resources.invalidate_all();
                self.ends.invalidate_all();
            }
            Which::These(ids) => self.invalidate_resources(ids),
        }
        if touched.policies {
            self.invalidate_policies();
        }
        if touched.types {
            self.types.invalidate_all();
        }
        self.log.touched(touched);
    }

    /// Clears everything, and caches nothing while shut.
    pub(super) fn shut(&self, is_shut: bool) {
        self.metrics.by_id.shut(is_shut);
        self.policies.shut(is_shut);
        self.rules.shut(is_shut);
        self.resources.shut(is_shut);
        self.ends.shut(is_shut);
        self.types.shut(is_shut);
        self.log.shut(is_shut);
    }
}
