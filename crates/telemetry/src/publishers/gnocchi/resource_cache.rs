//! Cache of resources, to avoid requests: the attributes that were sent, and hashes of the metadata they came from, so
//! that unchanged metadata are not even parsed.
//!
//! Bounded: approximately the least recently used resource is evicted.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::definitions::{Definition, Metric};
use crate::{
    hash::quick_hash,
    sample::{Metadata, Sample},
};

/// A resource. It may outlive its cache entry while a batch refers to it.
#[derive(Debug)]
pub struct Resource {
    pub id: Arc<str>,
    pub state: Mutex<State>,
    /// Held while its attributes are sent, so that patches stay in order.
    pub patching: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
pub struct State {
    /// The definition that determines its type.
    pub kind: u16,
    /// From the first sample; sent only when the resource is created.
    pub user_id: Option<Box<str>>,
    /// The desired attributes, as a JSON object.
    pub attributes: Box<str>,
    /// Incremented with each change of the attributes.
    pub version: u32,
    /// Whether the store has these attributes.
    pub is_stored: bool,
    /// For each meter, its number and a hash of its last metadata.
    seen: Vec<u64>,
    /// The open batch that it is in, and its index there.
    pub place: Option<(u64, u32)>,
    /// When the attributes must be sent again, in seconds on the publisher's clock.
    refresh_at_s: u32,
    is_used: bool,
    /// Whether samples have described it, and not only events.
    has_samples: bool,
}

pub struct ResourceCache {
    by_id: HashMap<Arc<str>, Arc<Resource>>,
    /// CLOCK eviction: the hand advances to an entry that was not used since it last passed.
    ring: Vec<Arc<Resource>>,
    hand: usize,
    resources_max: usize,
    has_warned: bool,
}

impl ResourceCache {
    pub fn new(resources_max: usize) -> Self {
        ResourceCache {
            by_id: HashMap::new(),
            ring: Vec::new(),
            hand: 0,
            resources_max: resources_max.max(1),
            has_warned: false,
        }
    }

    /// The resource with this id; a new one without attributes, of type `kind`, if it is not cached.
    pub fn resource(&mut self, id: &str, kind: u16) -> Arc<Resource> {
        if let Some(known) = self.by_id.get(id) {
            return known.clone();
        }
        let state = State { kind, attributes: "{}".into(), ..State::default() };
        let resource = Arc::new(Resource {
            id: id.into(),
            state: Mutex::new(state),
            patching: tokio::sync::Mutex::default(),
        });
        if self.ring.len() < self.resources_max {
            self.ring.push(resource.clone());
        } else {
            let place = self.place_of_unused();
            let evicted = std::mem::replace(&mut self.ring[place], resource.clone());
            self.by_id.remove(&*evicted.id);
            if !std::mem::replace(&mut self.has_warned, true) {
                let max = self.resources_max;
                tracing::warn!(
                    "more than {max} resources: attributes of those beyond are sent again and again"
                );
            }
        }
        self.by_id.insert(resource.id.clone(), resource.clone());
        resource
    }

    fn place_of_unused(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.ring.len();
            if !std::mem::take(&mut self.ring[place].state.lock().is_used) {
                return place;
            }
        }
    }
}

/// The publisher's clock, and the refresh interval.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Since the publisher started.
    pub now_s: u32,
    pub refresh_after_s: u32,
}

impl State {
    /// Records a sample's metadata. Returns whether the store needs an update.
    pub fn observe(
        &mut self,
        sample: &Sample<'_>,
        metric: &Metric,
        definition: &Definition,
        id: &str,
        clock: Clock,
    ) -> bool {
        self.is_used = true;
        if !std::mem::replace(&mut self.has_samples, true) {
            self.user_id = sample.user_id.as_deref().map(Into::into);
        }
        // The cached attributes are of another type with the same id.
        if definition.kind == self.kind && !self.has_seen(sample, metric, definition) {
            let version = self.version;
            self.merge(sample, definition);
            if self.version != version {
                // Metadata of other meters may carry changes again.
                self.seen.retain(|seen| *seen as u16 == metric.number);
            }
        }
        if clock.now_s >= self.refresh_at_s {
            if self.refresh_at_s != 0 {
                self.is_stored = false;
            }
            // Half to one and a half of the interval, by a hash of the id, so that refreshes spread out.
            let spread = quick_hash(id.as_bytes(), 0) % u64::from(clock.refresh_after_s.max(1));
            self.refresh_at_s = clock.now_s + clock.refresh_after_s / 2 + spread as u32 + 1;
        }
        !self.is_stored
    }

    /// Whether the meter had the same metadata the last time.
    fn has_seen(&mut self, sample: &Sample<'_>, metric: &Metric, definition: &Definition) -> bool {
        if !definition.is_of_metadata {
            return false;
        }
        let metadata = match &sample.resource_metadata {
            Metadata::Text(text) => quick_hash(text.get().as_bytes(), 0),
            Metadata::Escaped { hash, .. } => *hash,
            Metadata::Parsed(map) => quick_hash(&serde_json::to_vec(map).expect("a map of JSON is JSON"), 0),
        };
        let project = sample.project_id.as_deref().map_or(1, |project| quick_hash(project.as_bytes(), 2));
        let hash = quick_hash(&metadata.to_le_bytes(), project);
        let entry = hash & !0xffff | u64::from(metric.number);
        if let Some(seen) = self.seen.iter_mut().find(|seen| **seen as u16 == metric.number) {
            return std::mem::replace(seen, entry) == entry;
        }
        self.seen.push(entry);
        false
    }

    fn merge(&mut self, sample: &Sample<'_>, definition: &Definition) {
        let mut attributes = definition.attributes(&sample.record());
        attributes.insert("project_id".to_owned(), sample.project_id.as_deref().into());
        self.add(attributes, self.version == 0);
    }

    /// Records an event's attributes. They must be sent though they are known: the events between may have gone to another
    /// agent.
    pub fn apply_event(&mut self, attributes: Map<String, Value>) {
        self.seen.clear();
        self.add(attributes, true);
    }

    /// Merges attributes into the desired ones, which must be sent if they change, or `must_be_sent`.
    fn add(&mut self, attributes: Map<String, Value>, mut must_be_sent: bool) {
        let mut all = self.attributes();
        for (name, value) in attributes {
            if all.get(&name) != Some(&value) {
                all.insert(name, value);
                must_be_sent = true;
            }
        }
        if must_be_sent {
            self.attributes = serde_json::to_string(&all).expect("a map of JSON is JSON").into();
            self.version = self.version.wrapping_add(1).max(1);
            self.is_stored = false;
        }
    }

    pub fn attributes(&self) -> Map<String, Value> {
        serde_json::from_str(&self.attributes).expect("written here")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_keeps_what_is_used() {
        let mut known = ResourceCache::new(3);
        let touch = |known: &mut ResourceCache, id: &str| {
            let resource = known.resource(id, 0);
            resource.state.lock().is_used = true;
            resource
        };
        for id in ["a", "b", "c"] {
            touch(&mut known, id);
        }
        let a = touch(&mut known, "a");
        // All were used: the hand makes one turn and evicts the first.
        touch(&mut known, "d");
        assert_eq!(known.ring.len(), 3);
        assert!(!Arc::ptr_eq(&a, &touch(&mut known, "a")), "made anew");
        let d = touch(&mut known, "d");
        known.resource("e", 0);
        assert!(Arc::ptr_eq(&d, &known.resource("d", 0)));
    }
}
