//! Cached archive policies and their rules: all that are asked for, since there are few.
//!
//! As with metrics, what was read before a change is refused: a reader takes the [`Epoch`] first.

use std::{collections::HashMap, sync::Arc};

use gnudi_model::{ArchivePolicy, ArchivePolicyRule};
use parking_lot::RwLock;

/// Operators make policies by hand; whoever makes more than these loses the cache's help now and then.
const POLICIES_CACHED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct PolicyCache {
    tables: RwLock<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    policies: HashMap<String, Arc<ArchivePolicy>>,
    rules: Option<Arc<[ArchivePolicyRule]>>,
    /// How often a policy or a rule was changed.
    epoch: u64,
    /// Nothing is kept, for now.
    is_shut: bool,
}

/// When a reading for the cache began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch(u64);

impl PolicyCache {
    pub(super) fn policy(&self, name: &str) -> Option<Arc<ArchivePolicy>> {
        self.tables.read().policies.get(name).cloned()
    }

    pub(super) fn rules(&self) -> Option<Arc<[ArchivePolicyRule]>> {
        self.tables.read().rules.clone()
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.tables.read().epoch)
    }

    pub(super) fn keep_policies(&self, policies: &[Arc<ArchivePolicy>], epoch: Epoch) {
        let mut tables = self.tables.write();
        if tables.epoch != epoch.0 || tables.is_shut {
            return;
        }
        if tables.policies.len() + policies.len() > POLICIES_CACHED_MAX {
            tables.policies.clear();
        }
        for policy in policies.iter().take(POLICIES_CACHED_MAX) {
            tables.policies.insert(policy.name.clone(), policy.clone());
        }
    }

    pub(super) fn keep_rules(&self, rules: Arc<[ArchivePolicyRule]>, epoch: Epoch) {
        let mut tables = self.tables.write();
        if tables.epoch == epoch.0 && !tables.is_shut {
            tables.rules = Some(rules);
        }
    }

    pub(super) fn invalidate_policy(&self, name: &str) {
        let mut tables = self.tables.write();
        tables.epoch += 1;
        tables.policies.remove(name);
    }

    pub(super) fn invalidate_rules(&self) {
        let mut tables = self.tables.write();
        tables.epoch += 1;
        tables.rules = None;
    }

    pub(super) fn invalidate_all(&self) {
        let mut tables = self.tables.write();
        tables.epoch += 1;
        tables.policies.clear();
        tables.rules = None;
    }

    /// Forgets everything, and keeps nothing while it is shut.
    pub(super) fn shut(&self, is_shut: bool) {
        let mut tables = self.tables.write();
        tables.epoch += 1;
        tables.policies.clear();
        tables.rules = None;
        tables.is_shut = is_shut;
    }
}
