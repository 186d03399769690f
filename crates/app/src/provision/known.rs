//! A cache of each resource's type, by the resource's id. The hot write path reads it instead of the index.
//!
//! A resource's type never changes, but the resource may be deleted and created again with another type, also by another
//! process. Each entry has a metric that the resource had: a deletion deletes it, and invalidates it in the index's cache.

use std::collections::HashMap;

use gnudi_model::{MetricId, Text};
use parking_lot::RwLock;
use uuid::Uuid;

/// When the cache is full it is cleared.
const RESOURCES_MAX: usize = 200_000;

#[derive(Debug, Default)]
pub struct KnownResources(RwLock<HashMap<Uuid, (Text, MetricId)>>);

impl KnownResources {
    /// A metric of the resource, if the cache has it with this type: while the metric is the resource's, so is the type.
    pub fn metric_of(&self, id: Uuid, resource_type: &str) -> Option<MetricId> {
        let known = self.0.read();
        let (known_type, metric) = known.get(&id)?;
        (known_type.as_str() == resource_type).then_some(*metric)
    }

    /// Caches the type of a resource that has this metric.
    pub fn insert(&self, id: Uuid, resource_type: &str, metric: MetricId) {
        let mut known = self.0.write();
        if known.len() >= RESOURCES_MAX {
            known.clear();
        }
        // There are few types and many resources, so entries share the type's text.
        let shared =
            known.values().next().map(|(text, _)| text).filter(|text| text.as_str() == resource_type);
        let resource_type = shared.cloned().unwrap_or_else(|| Text::from(resource_type));
        known.insert(id, (resource_type, metric));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_no_more_than_its_bound() {
        let known = KnownResources::default();
        let id = |number: usize| Uuid::from_u128(number as u128);
        let metric = |number: usize| MetricId(id(number + 1));
        for number in 0..=RESOURCES_MAX {
            known.insert(id(number), "a", metric(number));
            assert_eq!(known.metric_of(id(number), "a"), Some(metric(number)));
            assert_eq!(known.metric_of(id(number), "b"), None);
        }
        assert_eq!(known.0.read().len(), 1);
        known.insert(id(0), "b", metric(0));
        assert_eq!(known.metric_of(id(0), "b"), Some(metric(0)));
    }
}
