//! Cache of tables: their indexes, and the whole bytes of some.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::table::ObjectTable;

/// What is cached of a table.
#[derive(Clone, Default)]
pub struct Held {
    pub table: Option<Arc<ObjectTable>>,
    pub whole: Option<Bytes>,
}

impl Held {
    fn bytes(&self) -> u64 {
        let index = self.table.as_ref().map_or(0, |table| table.index.bytes());
        (index + self.whole.as_ref().map_or(0, Bytes::len)) as u64
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

    pub fn get(&self, table: &str) -> Held {
        let state = &mut *self.state.lock();
        let Some((asked, held)) = state.held.get_mut(table) else { return Held::default() };
        let name = state.order.remove(asked).expect("what is held has its place");
        state.asked += 1;
        *asked = state.asked;
        state.order.insert(state.asked, name);
        held.clone()
    }

    /// Adds to what is cached of a table.
    pub fn add(&self, table: &str, more: Held) {
        let state = &mut *self.state.lock();
        let mut held = state.remove(table);
        held.table = more.table.or(held.table);
        held.whole = more.whole.or(held.whole);
        if held.bytes() > self.bytes_max {
            return;
        }
        state.bytes += held.bytes();
        state.asked += 1;
        state.order.insert(state.asked, table.to_owned());
        state.held.insert(table.to_owned(), (state.asked, held));
        while state.bytes > self.bytes_max {
            let (_, oldest) = state.order.first_key_value().expect("something is held");
            let oldest = oldest.clone();
            state.remove(&oldest);
        }
    }

    pub fn remove(&self, table: &str) {
        self.state.lock().remove(table);
    }

    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }
}

impl State {
    fn remove(&mut self, table: &str) -> Held {
        let Some((asked, held)) = self.held.remove(table) else { return Held::default() };
        self.order.remove(&asked);
        self.bytes -= held.bytes();
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(length: usize) -> Held {
        Held { table: None, whole: Some(Bytes::from(vec![0; length])) }
    }

    fn length(cache: &Cache, name: &str) -> Option<usize> {
        cache.get(name).whole.map(|bytes| bytes.len())
    }

    #[test]
    fn what_was_not_asked_for_goes_first() {
        let cache = Cache::new(100);
        for name in ["a", "b", "c"] {
            cache.add(name, whole(30));
        }
        assert_eq!(length(&cache, "a"), Some(30));
        cache.add("d", whole(30));
        assert_eq!(
            (length(&cache, "a"), length(&cache, "b"), length(&cache, "d")),
            (Some(30), None, Some(30))
        );
        cache.add("e", whole(101));
        assert_eq!((length(&cache, "e"), cache.bytes()), (None, 90));
        cache.add("a", whole(40));
        cache.add("a", Held::default());
        assert_eq!((length(&cache, "a"), cache.bytes()), (Some(40), 100), "nothing is taken away");
        for name in ["a", "c", "d"] {
            cache.remove(name);
        }
        assert_eq!(cache.bytes(), 0);
    }
}
