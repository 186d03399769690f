//! Which resources have been seen, and of which type: what the hot way in asks instead of the index.
//!
//! A resource keeps its type for life. One that is deleted takes its metrics with it, which the index's cache forgets, so
//! that a stale entry here finds none of them and leads to the index.

use std::collections::HashMap;

use gnudi_model::Text;
use parking_lot::RwLock;
use uuid::Uuid;

/// Beyond it all are forgotten, and found again as they are asked for.
const RESOURCES_MAX: usize = 200_000;

#[derive(Debug, Default)]
pub struct KnownResources(RwLock<HashMap<Uuid, Text>>);

impl KnownResources {
    /// Whether the resource is known to be of the type.
    pub fn is(&self, id: Uuid, resource_type: &str) -> bool {
        self.0.read().get(&id).is_some_and(|known| known.as_str() == resource_type)
    }

    pub fn insert(&self, id: Uuid, resource_type: &str) {
        let mut known = self.0.write();
        if known.len() >= RESOURCES_MAX {
            known.clear();
        }
        // Few types, many resources: the text is shared with another one that has it.
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
