//! Cached resource types: all that are asked for, since there are few.
//!
//! As with metrics, what was read before a change is refused: a reader takes the [`Epoch`] first.

use std::{collections::HashMap, sync::Arc};

use gnudi_model::{ResourceType, Text};
use parking_lot::RwLock;

/// Operators make types by hand; whoever makes more than these loses the cache's help now and then.
const TYPES_CACHED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct TypeCache {
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    types: HashMap<Text, Arc<ResourceType>>,
    /// How often a type was changed.
    epoch: u64,
    /// Nothing is kept, for now.
    is_shut: bool,
}

/// When a reading for the cache began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch(u64);

impl TypeCache {
    pub(super) fn get(&self, name: &str) -> Option<Arc<ResourceType>> {
        self.table.read().types.get(name).cloned()
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.table.read().epoch)
    }

    pub(super) fn keep(&self, types: &[Arc<ResourceType>], epoch: Epoch) {
        let mut table = self.table.write();
        if table.epoch != epoch.0 || table.is_shut {
            return;
        }
        if table.types.len() + types.len() > TYPES_CACHED_MAX {
            table.types.clear();
        }
        for resource_type in types.iter().take(TYPES_CACHED_MAX) {
            table.types.insert(resource_type.name.clone(), resource_type.clone());
        }
    }

    pub(super) fn invalidate(&self, name: &str) {
        let mut table = self.table.write();
        table.epoch += 1;
        table.types.remove(name);
    }

    pub(super) fn invalidate_all(&self) {
        let mut table = self.table.write();
        table.epoch += 1;
        table.types.clear();
    }

    /// Forgets everything, and keeps nothing while it is shut.
    pub(super) fn shut(&self, is_shut: bool) {
        let mut table = self.table.write();
        table.epoch += 1;
        table.types.clear();
        table.is_shut = is_shut;
    }
}
