//! Cache of results per event type: there are few event types, and they recur.

use std::collections::HashMap;

use parking_lot::RwLock;

/// Maximum number of cached event types; beyond it the cache is cleared.
const EVENT_TYPES_MAX: usize = 4096;

/// A longer event type is not cached.
const EVENT_TYPE_BYTES_MAX: usize = 1024;

/// Cached values by event type.
#[derive(Debug)]
pub struct ByEventType<T> {
    known: RwLock<HashMap<Box<str>, T>>,
}

impl<T> Default for ByEventType<T> {
    fn default() -> Self {
        ByEventType { known: RwLock::default() }
    }
}

impl<T: Clone> ByEventType<T> {
    /// The cached value, or the result of `find`, which is then cached.
    pub fn get_or<E>(&self, event_type: &str, find: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if let Some(known) = self.known.read().get(event_type) {
            return Ok(known.clone());
        }
        let found = find()?;
        if event_type.len() <= EVENT_TYPE_BYTES_MAX {
            let mut known = self.known.write();
            if known.len() >= EVENT_TYPES_MAX {
                known.clear();
            }
            known.insert(event_type.into(), found.clone());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn no_more_than_a_limit_is_kept() {
        let kept = ByEventType::default();
        let get = |name: &str, value: usize| kept.get_or(name, || Ok::<_, Infallible>(value)).unwrap();
        assert_eq!((get("a", 1), get("a", 2)), (1, 1));
        (0..2 * EVENT_TYPES_MAX).for_each(|at| assert_eq!(get(&format!("x{at}"), at), at));
        assert!(kept.known.read().len() <= EVENT_TYPES_MAX);
        let long = "x".repeat(EVENT_TYPE_BYTES_MAX + 1);
        assert_eq!((get(&long, 1), get(&long, 2)), (1, 2));
    }
}
