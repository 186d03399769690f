//! Cache of segments: indexes, heads, and whole segments that are small and new.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::segment::Index;

/// The cached parts of a segment.
#[derive(Clone, Default)]
pub struct Held {
    pub index: Option<Arc<Index>>,
    /// The segment's first bytes: its heads, or all of it.
    pub front: Option<Bytes>,
}

impl Held {
    fn bytes(&self) -> u64 {
        let index = self.index.as_ref().map_or(0, |index| index.bytes());
        (index + self.front.as_ref().map_or(0, Bytes::len)) as u64
    }
}

/// Evicts the least recently used first.
pub struct Cache {
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: HashMap<String, (u64, Held)>,
    /// By last use.
    order: BTreeMap<u64, String>,
    asked: u64,
    bytes: u64,
}

impl Cache {
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, state: Mutex::default() }
    }

    pub fn get(&self, segment: &str) -> Held {
        let state = &mut *self.state.lock();
        let Some((asked, held)) = state.held.get_mut(segment) else { return Held::default() };
        let name = state.order.remove(asked).expect("what is held has its place");
        state.asked += 1;
        *asked = state.asked;
        state.order.insert(state.asked, name);
        held.clone()
    }

    /// Adds to the cached parts of a segment.
    pub fn add(&self, segment: &str, more: Held) {
        let state = &mut *self.state.lock();
        let mut held = state.remove(segment);
        held.index = more.index.or(held.index);
        held.front = [more.front, held.front].into_iter().flatten().max_by_key(Bytes::len);
        if held.bytes() > self.bytes_max {
            return;
        }
        state.bytes += held.bytes();
        state.asked += 1;
        state.order.insert(state.asked, segment.to_owned());
        state.held.insert(segment.to_owned(), (state.asked, held));
        while state.bytes > self.bytes_max {
            let (_, oldest) = state.order.first_key_value().expect("something is held");
            let oldest = oldest.clone();
            state.remove(&oldest);
        }
    }

    pub fn remove(&self, segment: &str) {
        self.state.lock().remove(segment);
    }

    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }
}

impl State {
    fn remove(&mut self, segment: &str) -> Held {
        let Some((asked, held)) = self.held.remove(segment) else { return Held::default() };
        self.order.remove(&asked);
        self.bytes -= held.bytes();
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(length: usize) -> Held {
        Held { index: None, front: Some(Bytes::from(vec![0; length])) }
    }

    fn length(cache: &Cache, name: &str) -> Option<usize> {
        cache.get(name).front.map(|bytes| bytes.len())
    }

    #[test]
    fn what_was_not_asked_for_goes_first() {
        let cache = Cache::new(100);
        for name in ["a", "b", "c"] {
            cache.add(name, front(30));
        }
        assert_eq!(length(&cache, "a"), Some(30));
        cache.add("d", front(30));
        assert_eq!(
            (length(&cache, "a"), length(&cache, "b"), length(&cache, "d")),
            (Some(30), None, Some(30))
        );
        cache.add("e", front(101));
        assert_eq!((length(&cache, "e"), cache.bytes()), (None, 90));
        cache.add("a", front(40));
        cache.add("a", front(20));
        assert_eq!((length(&cache, "a"), cache.bytes()), (Some(40), 100), "the longer one stays");
        for name in ["a", "c", "d"] {
            cache.remove(name);
        }
        assert_eq!(cache.bytes(), 0);
    }
}
