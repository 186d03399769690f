//! A map in insertion order; a later value of a key replaces an earlier one.

use std::{collections::HashMap, hash::Hash};

/// Up to this many entries, keys are found by a linear search; beyond, by hashing.
const COMPARED_MAX: usize = 16;

/// A map in insertion order. Keys are cloned once there are more than [`COMPARED_MAX`].
#[derive(Debug)]
pub struct ByKey<K, V> {
    entries: Vec<(K, V)>,
    /// The index of each key; empty while the search is linear.
    places: HashMap<K, usize>,
}

impl<K, V> Default for ByKey<K, V> {
    fn default() -> Self {
        ByKey { entries: Vec::new(), places: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash, V> ByKey<K, V> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Inserts an entry, or replaces the value of an existing key.
    pub fn put(&mut self, key: K, value: V) {
        if let Some(place) = self.place(&key) {
            self.entries[place].1 = value;
            return;
        }
        if self.entries.len() == COMPARED_MAX {
            let keys = self.entries.iter().enumerate();
            self.places = keys.map(|(place, (key, _))| (key.clone(), place)).collect();
        }
        if self.entries.len() >= COMPARED_MAX {
            self.places.insert(key.clone(), self.entries.len());
        }
        self.entries.push((key, value));
    }

    fn place(&self, key: &K) -> Option<usize> {
        if self.places.is_empty() {
            self.entries.iter().position(|(known, _)| known == key)
        } else {
            self.places.get(key).copied()
        }
    }

    pub fn into_entries(self) -> Vec<(K, V)> {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_what_a_list_would_be(puts in prop::collection::vec((0_u8..40, any::<u8>()), 0..200)) {
            let (mut by_key, mut list) = (ByKey::default(), Vec::<(u8, u8)>::new());
            for (key, value) in puts {
                by_key.put(key, value);
                match list.iter_mut().find(|(known, _)| *known == key) {
                    Some(entry) => entry.1 = value,
                    None => list.push((key, value)),
                }
                prop_assert_eq!(by_key.len(), list.len());
            }
            prop_assert_eq!(by_key.into_entries(), list);
        }
    }
}
