//! Cache of each resource's last metadata, as raw bytes of the message.
//!
//! Agents send the same metadata with each meter of a resource, round after round. Comparing bytes takes a fraction of
//! the time of parsing. Metadata are a complete object, so a message that continues with the same bytes continues with
//! the same object.

use parking_lot::Mutex;

use crate::hash::quick_hash;

/// Approximate number of resources; a power of two. A resource evicts another in the same slot.
const SLOTS: usize = 1 << 14;

/// Shorter metadata are parsed as quickly; longer ones would take too much memory.
const BYTES: std::ops::RangeInclusive<usize> = 64..=2048;

#[derive(Debug)]
struct Entry {
    text: Box<str>,
    hash: u64,
}

#[derive(Debug)]
pub struct MetadataMemory {
    slots: Box<[Mutex<Option<Entry>>]>,
}

impl Default for MetadataMemory {
    fn default() -> Self {
        MetadataMemory { slots: (0..SLOTS).map(|_| Mutex::new(None)).collect() }
    }
}

impl MetadataMemory {
    /// The length of the metadata at the start of `rest` if they equal the cached ones, and their hash.
    pub fn matching_prefix(&self, resource: &str, rest: &str) -> Option<(usize, u64)> {
        let slot = self.slot(resource).lock();
        let entry = slot.as_ref().filter(|entry| rest.starts_with(&*entry.text))?;
        Some((entry.text.len(), entry.hash))
    }

    /// Caches parsed metadata. Returns their hash.
    pub fn insert(&self, resource: &str, text: &str) -> u64 {
        let hash = quick_hash(text.as_bytes(), 0);
        // Only an object is certain to end where it ended before.
        if !resource.is_empty() && text.starts_with('{') && BYTES.contains(&text.len()) {
            *self.slot(resource).lock() = Some(Entry { text: text.into(), hash });
        }
        hash
    }

    fn slot(&self, resource: &str) -> &Mutex<Option<Entry>> {
        &self.slots[quick_hash(resource.as_bytes(), 0) as usize % SLOTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_known_again() {
        let memory = MetadataMemory::default();
        let text = format!("{{\\\"a\\\": \\\"{}\\\"}}", "x".repeat(100));
        let rest = format!("{text}, more");
        assert_eq!(memory.matching_prefix("r", &rest), None);
        let hash = memory.insert("r", &text);
        assert_eq!(memory.matching_prefix("r", &rest), Some((text.len(), hash)));
        assert_eq!(memory.matching_prefix("other", &rest), None);
        assert_eq!(memory.matching_prefix("r", &rest.replace('x', "y")), None);
        for unsuitable in [&"1".repeat(100), "{}", &text.replace('x', &"x".repeat(100))] {
            memory.insert("s", unsuitable);
            assert_eq!(memory.matching_prefix("s", unsuitable), None, "{unsuitable}");
        }
    }
}
