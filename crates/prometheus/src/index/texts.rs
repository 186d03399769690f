//! Texts that are kept once: names and values of labels, names of archive policies.
//!
//! Equal texts are the same allocation, so that they compare by their address. Those that nobody has any more go from time to time.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use hashbrown::HashTable;

/// After fewer removals texts are not looked through for those that nobody has.
const SWEPT_MIN: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Texts {
    table: HashTable<Arc<str>>,
    hasher: RandomState,
    /// How many series were removed since the last sweep.
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

    /// To be called after so many series were removed: looks for texts that nobody has, if there may be many.
    pub(super) fn sweep(&mut self, removed: usize) {
        self.removed += removed;
        if self.removed >= SWEPT_MIN.max(self.table.len() / 2) {
            self.removed = 0;
            self.table.retain(|text| Arc::strong_count(text) > 1);
            let hasher = &self.hasher;
            self.table.shrink_to_fit(|known| hasher.hash_one(&**known));
        }
    }
}

/// Which text it is: equal texts of one [`Texts`] have equal addresses.
pub(super) fn address(text: &Arc<str>) -> usize {
    Arc::as_ptr(text).cast::<u8>() as usize
}
