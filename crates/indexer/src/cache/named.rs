//! Cache of few, named items: archive policies, the list of their rules, resource types.
//!
//! As with metrics, a value read before a change is rejected: a reader takes the [`Epoch`] first.

use std::collections::HashMap;

use parking_lot::RwLock;

/// Operators create them by hand; beyond this number the cache is cleared now and then.
const ITEMS_CACHED_MAX: usize = 10_000;

#[derive(Debug)]
pub(super) struct NamedCache<T>(RwLock<Table<T>>);

#[derive(Debug)]
struct Table<T> {
    items: HashMap<String, T>,
    /// Number of changes.
    epoch: u64,
    /// Caching is disabled for now.
    is_shut: bool,
}

/// When a read for the cache began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch(u64);

impl<T> Default for NamedCache<T> {
    fn default() -> Self {
        NamedCache(RwLock::new(Table { items: HashMap::new(), epoch: 0, is_shut: false }))
    }
}

impl<T: Clone> NamedCache<T> {
    pub(super) fn get(&self, name: &str) -> Option<T> {
        self.0.read().items.get(name).cloned()
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.0.read().epoch)
    }

    pub(super) fn keep(&self, items: impl ExactSizeIterator<Item = (String, T)>, epoch: Epoch) {
        let mut table = self.0.write();
        if table.epoch != epoch.0 || table.is_shut {
            return;
        }
        if table.items.len() + items.len() > ITEMS_CACHED_MAX {
            table.items.clear();
        }
        table.items.extend(items.take(ITEMS_CACHED_MAX));
    }

    pub(super) fn invalidate(&self, name: &str) {
        let mut table = self.0.write();
        table.epoch += 1;
        table.items.remove(name);
    }

    pub(super) fn invalidate_all(&self) {
        let mut table = self.0.write();
        table.epoch += 1;
        table.items.clear();
    }

    /// Clears everything, and caches nothing while shut.
    pub(super) fn shut(&self, is_shut: bool) {
        let mut table = self.0.write();
        table.epoch += 1;
        table.items.clear();
        table.is_shut = is_shut;
    }
}
