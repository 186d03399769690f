//! Cached things that have names, of which there are few: archive policies, the list of their rules, resource types.
//!
//! As with metrics, what was read before a change is refused: a reader takes the [`Epoch`] first.

use std::collections::HashMap;

use parking_lot::RwLock;

/// Operators make them by hand; whoever makes more than these loses the cache's help now and then.
const ITEMS_CACHED_MAX: usize = 10_000;

#[derive(Debug)]
pub(super) struct NamedCache<T>(RwLock<Table<T>>);

#[derive(Debug)]
struct Table<T> {
    items: HashMap<String, T>,
    /// How often one of them was changed.
    epoch: u64,
    /// Nothing is kept, for now.
    is_shut: bool,
}

/// When a reading for the cache began.
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

    /// Forgets everything, and keeps nothing while it is shut.
    pub(super) fn shut(&self, is_shut: bool) {
        let mut table = self.0.write();
        table.epoch += 1;
        table.items.clear();
        table.is_shut = is_shut;
    }
}
