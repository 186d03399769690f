//! The metadata that resources came with last, as it stood in the message.
//!
//! An agent sends the same metadata with each meter of a resource, and round after round. Comparing it with what is known takes a fraction of
//! the time of walking over it; and since it is a whole object, a message that goes on with the same bytes goes on with the same object.

use parking_lot::Mutex;

use crate::hash::quick_hash;

/// Resources, about; a power of two. One takes the place of another that falls into the same slot.
const SLOTS: usize = 1 << 14;

/// Metadata of fewer bytes is walked over as quickly, and of more would take too much memory.
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
    /// How long the metadata at the beginning of `rest` is, if it is what is known of the resource, and its hash.
    pub fn recall(&self, resource: &str, rest: &str) -> Option<(usize, u64)> {
        let slot = self.slot(resource).lock();
        let entry = slot.as_ref().filter(|entry| rest.starts_with(&*entry.text))?;
        Some((entry.text.len(), entry.hash))
    }

    /// Remembers metadata that has been walked over. Answers its hash.
    pub fn keep(&self, resource: &str, text: &str) -> u64 {
        let hash = quick_hash(text.as_bytes(), 0);
        // What is no object need not end where it did.
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
        assert_eq!(memory.recall("r", &rest), None);
        let hash = memory.keep("r", &text);
        assert_eq!(memory.recall("r", &rest), Some((text.len(), hash)));
        assert_eq!(memory.recall("other", &rest), None);
        assert_eq!(memory.recall("r", &rest.replace('x', "y")), None);
        for unsuitable in [&"1".repeat(100), "{}", &text.replace('x', &"x".repeat(100))] {
            memory.keep("s", unsuitable);
            assert_eq!(memory.recall("s", unsuitable), None, "{unsuitable}");
        }
    }
}
