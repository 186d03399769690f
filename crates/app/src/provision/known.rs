//! A cache of resources and their types. The hot write path reads it instead of the index.
//!
//! A resource's type never changes. Deleting a resource deletes its metrics, which invalidates them in the
//! index's cache, so a stale entry here finds no metrics and falls back to the index.

use std::collections::HashMap;

use gnudi_model::Text;
use parking_lot::RwLock;
use uuid::Uuid;

/// When the cache is full it is cleared.
const RESOURCES_MAX: usize = 200_000;

#[derive(Debug, Default)]
pub struct KnownResources(RwLock<HashMap<Uuid, Text>>);

impl KnownResources {
    /// Whether the cache has the resource with this type.
    pub fn is(&self, id: Uuid, resource_type: &str) -> bool {
        self.0.read().get(&id).is_some_and(|known| known.as_str() == resource_type)
    }

    pub fn insert(&self, id: Uuid, resource_type: &str) {
        let mut known = self.0.write();
        if known.len() >= RESOURCES_MAX {
            known.clear();
        }
        // There are few types and many resources, so entries share the type's text.
        let shared = known.values().next().filter(|text| text.as_str() == resource_type).cloned();
        known.insert(id, shared.unwrap_or_else(|| Text::from(resource_type)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_no_more_than_its_bound() {
        let known = KnownResources::default();
        let id = |number: usize| Uuid::from_u128(number as u128);
        for number in 0..=RESOURCES_MAX {
            known.insert(id(number), "a");
            assert!(known.is(id(number), "a") && !known.is(id(number), "b"));
        }
        assert_eq!(known.0.read().len(), 1);
        known.insert(id(0), "b");
        assert!(known.is(id(0), "b"));
    }
}
