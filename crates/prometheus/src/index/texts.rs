//! Interned texts: label names, label values, names of archive policies, and the texts of owners.
//!
//! Equal texts share one allocation, so they are compared by address. Unused texts are freed from time to time.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use hashbrown::HashTable;

/// The minimum number of removed series between two sweeps.
const SWEEP_REMOVED_MIN: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Texts {
    table: HashTable<Arc<str>>,
    hasher: RandomState,
    /// The number of series removed since the last sweep.
    removed: usize,
}

impl Texts {
    pub(super) fn intern(&mut self, text: &str) -> Arc<str> {
        let hash = self.hasher.hash_one(text);
        let hasher = &self.hasher;
        let entry = self.table.entry(hash, |known| **known == *text, |known| hasher.hash_one(&**known));
        entry.or_insert_with(|| text.into()).get().clone()
    }

    pub(super) fn find(&self, text: &str) -> Option<&Arc<str>> {
        self.table.find(self.hasher.hash_one(text), |known| **known == *text)
    }

    /// Frees unused texts if there may be many. To be called after each removal, with the number of removed series.
    pub(super) fn sweep(&mut self, removed: usize) {
        self.removed += removed;
        if self.removed >= SWEEP_REMOVED_MIN.max(self.table.len() / 2) {
            self.removed = 0;
            self.table.retain(|text| Arc::strong_count(text) > 1);
            let hasher = &self.hasher;
            self.table.shrink_to_fit(|known| hasher.hash_one(&**known));
        }
    }
}

/// The identity of an interned text: equal texts of one [`Texts`] have equal addresses.
pub(super) fn address(text: &Arc<str>) -> usize {
    Arc::as_ptr(text).cast::<u8>() as usize
}
