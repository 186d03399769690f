//! What the publisher remembers of resources, so that it asks the store for nothing that it knows: the attributes that were
//! sent, and by which metadata they came, so that metadata that says nothing new is not even parsed.
//!
//! Bounded: the resource that was not met for longest, about, makes room for a new one.

use std::{
    borrow::Borrow,
    collections::HashSet,
    hash::{Hash, Hasher},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::definitions::{Definition, Metric};
use crate::{
    hash::quick_hash,
    sample::{Metadata, Sample},
};

/// A resource by its id. What is known of it outlives its place in the memory, for as long as a batch needs it.
#[derive(Debug)]
pub struct Resource {
    pub id: Box<str>,
    pub state: Mutex<State>,
    /// Held by who sends its attributes, so that they arrive in their order.
    pub patching: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
pub struct State {
    /// The definition that says its type.
    pub kind: u16,
    /// Of the first sample; sent only where the resource is created.
    pub user_id: Option<Box<str>>,
    /// The attributes that it should have, as the text of a JSON object.
    pub attributes: Box<str>,
    /// Counts the changes of the attributes.
    pub version: u32,
    /// Whether the store has these attributes.
    pub is_stored: bool,
    /// For each meter its number and a hash of the metadata that it came with last.
    seen: Vec<u64>,
    /// The batch that it is in, and its place there.
    pub place: Option<(u64, u32)>,
    /// Seconds on the publisher's clock when the attributes have to be sent again.
    refresh_at_s: u32,
    is_used: bool,
    /// Whether samples have told of it, and not only events.
    has_samples: bool,
}

/// By id.
struct ById(Arc<Resource>);

impl Borrow<str> for ById {
    fn borrow(&self) -> &str {
        &self.0.id
    }
}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ById {}

pub struct ResourceCache {
    by_id: HashSet<ById>,
    /// Round which a hand goes, looking for one that was not used since it last came by.
    ring: Vec<Arc<Resource>>,
    hand: usize,
    resources_max: usize,
    has_warned: bool,
}

impl ResourceCache {
    pub fn new(resources_max: usize) -> Self {
        ResourceCache {
            by_id: HashSet::new(),
            ring: Vec::new(),
            hand: 0,
            resources_max: resources_max.max(1),
            has_warned: false,
        }
    }

    /// The resource of this id; a new one is made by `kind`, of which nothing is known.
    pub fn resource(&mut self, id: &str, kind: u16) -> Arc<Resource> {
        if let Some(known) = self.by_id.get(id) {
            return known.0.clone();
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
        self.by_id.insert(ById(resource.clone()));
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

/// When attributes have to be sent again.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Since the publisher began.
    pub now_s: u32,
    pub refresh_after_s: u32,
}

impl State {
    /// Notes what a sample tells of the resource. Answers whether the store has to be told.
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
        // What another type knows of the same id is not about this resource.
        if definition.kind == self.kind && !self.has_seen(sample, metric, definition) {
            let version = self.version;
            self.merge(sample, definition);
            if self.version != version {
                // What other meters say may be news again.
                self.seen.retain(|seen| *seen as u16 == metric.number);
            }
        }
        if clock.now_s >= self.refresh_at_s {
            if self.refresh_at_s != 0 {
                self.is_stored = false;
            }
            // From a half to one and a half of the time, by the id, so that those that came together part.
            let spread = quick_hash(id.as_bytes(), 0) % u64::from(clock.refresh_after_s.max(1));
            self.refresh_at_s = clock.now_s + clock.refresh_after_s / 2 + spread as u32 + 1;
        }
        !self.is_stored
    }

    /// Whether the meter came with the same metadata the last time.
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
        self.add(attributes);
    }

    /// What an event tells.
    pub fn tell(&mut self, attributes: Map<String, Value>) {
        self.seen.clear();
        self.add(attributes);
    }

    /// Adds attributes to those that the resource should have.
    fn add(&mut self, attributes: Map<String, Value>) {
        let mut all = self.attributes();
        let mut has_changed = self.version == 0;
        for (name, value) in attributes {
            if all.get(&name) != Some(&value) {
                all.insert(name, value);
                has_changed = true;
            }
        }
        if has_changed {
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
        // All were used: the hand goes round once, and takes the first.
        touch(&mut known, "d");
        assert_eq!(known.ring.len(), 3);
        assert!(!Arc::ptr_eq(&a, &touch(&mut known, "a")), "made anew");
        let d = touch(&mut known, "d");
        known.resource("e", 0);
        assert!(Arc::ptr_eq(&d, &known.resource("d", 0)));
    }
}
