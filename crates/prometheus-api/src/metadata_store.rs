//! Metadata of metrics as sent by writers: type, help and unit, in memory.
//!
//! Stored per creator: creators do not see the metadata of others. Writers resend metadata periodically, so it is
//! complete again soon after a restart. An entry that would exceed a limit is not stored.

use std::collections::{BTreeMap, HashMap};

use gnudi_prometheus::metadata::Metadata;
use parking_lot::RwLock;

/// The maximum size of all entries.
const BYTES_MAX: usize = 16 << 20;
/// The maximum size of a creator's entries.
const CREATOR_BYTES_MAX: usize = 4 << 20;
/// The maximum size of an entry: each series of a request may repeat its texts, which are compared.
const ENTRY_BYTES_MAX: usize = 128 << 10;
/// The approximate size of an entry without its texts.
const ENTRY_BYTES: usize = 128;

/// What a creator sent about a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub creator: String,
    pub name: String,
    pub metadata: Metadata<'static>,
}

#[derive(Debug, Default)]
pub struct MetadataStore(RwLock<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_creator: HashMap<String, Metrics>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Metrics {
    by_name: BTreeMap<String, Metadata<'static>>,
    bytes: usize,
}

impl MetadataStore {
    /// Stores a creator's metadata of a metric, replacing the former, if there is room.
    pub fn put(&self, creator: &str, name: &str, metadata: Metadata<'_>) {
        if !is_storable(name, &metadata) || self.has(creator, name, &metadata) {
            return;
        }
        let mut entries = self.0.write();
        let entries = &mut *entries;
        if !entries.by_creator.contains_key(creator) {
            let grown = entries.bytes + ENTRY_BYTES + creator.len();
            if grown > BYTES_MAX {
                return;
            }
            entries.bytes = grown;
            entries.by_creator.insert(creator.to_owned(), Metrics::default());
        }
        let metrics = entries.by_creator.get_mut(creator).expect("it is there now");
        let before = metrics.by_name.get(name).map_or(0, |known| bytes(name, known));
        let grown = |all: usize| all + bytes(name, &metadata) - before;
        if grown(entries.bytes) > BYTES_MAX || grown(metrics.bytes) > CREATOR_BYTES_MAX {
            return;
        }
        (entries.bytes, metrics.bytes) = (grown(entries.bytes), grown(metrics.bytes));
        metrics.by_name.insert(name.to_owned(), metadata.into_owned());
    }

    /// Whether this is a creator's metadata of a metric already.
    pub fn has(&self, creator: &str, name: &str, metadata: &Metadata<'_>) -> bool {
        let entries = self.0.read();
        entries.by_creator.get(creator).and_then(|metrics| metrics.by_name.get(name)) == Some(metadata)
    }

    /// The metadata of the creators for which `is_seen` is true, of the metric with this name or of all,
    /// sorted by name; a name may occur several times.
    pub fn seen(&self, name: Option<&str>, is_seen: impl Fn(&str) -> bool) -> Vec<Sent> {
        let entries = self.0.read();
        let mut all: Vec<Sent> = Vec::new();
        for (creator, metrics) in entries.by_creator.iter().filter(|(creator, _)| is_seen(creator)) {
            let sent = |(name, metadata): (&String, &Metadata<'static>)| Sent {
                creator: creator.clone(),
                name: name.clone(),
                metadata: metadata.clone(),
            };
            match name {
                Some(name) => all.extend(metrics.by_name.get_key_value(name).map(sent)),
                None => all.extend(metrics.by_name.iter().map(sent)),
            }
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }
}

/// Whether there is anything to store, and it is not too long.
pub fn is_storable(name: &str, metadata: &Metadata<'_>) -> bool {
    !name.is_empty() && !metadata.is_empty() && bytes(name, metadata) <= ENTRY_BYTES_MAX
}

fn bytes(name: &str, metadata: &Metadata<'_>) -> usize {
    ENTRY_BYTES + name.len() + metadata.help.len() + metadata.unit.len()
}

#[cfg(test)]
mod tests {
    use gnudi_prometheus::metadata::MetricKind;

    use super::*;

    fn gauge(help: &str) -> Metadata<'_> {
        Metadata { kind: MetricKind::Gauge, help: help.into(), unit: "".into() }
    }

    #[test]
    fn each_creator_has_its_own() {
        let store = MetadataStore::default();
        store.put("a", "up", gauge("of a"));
        store.put("b", "up", gauge("of b"));
        store.put("a", "up", gauge("later"));
        store.put("a", "", gauge("none"));
        store.put("a", "nothing", Metadata::default());
        let of_a = Sent { creator: "a".to_owned(), name: "up".to_owned(), metadata: gauge("later") };
        for name in [None, Some("up")] {
            assert_eq!(store.seen(name, |creator| creator == "a"), std::slice::from_ref(&of_a));
            assert_eq!(store.seen(name, |_| true).len(), 2);
            assert_eq!(store.seen(name, |_| false), []);
        }
        assert_eq!(store.seen(Some("down"), |_| true), []);
    }

    #[test]
    fn one_creator_leaves_room_for_others_and_all_have_a_bound() {
        let store = MetadataStore::default();
        let help = "x".repeat(100_000);
        for number in 0..1000 {
            store.put("greedy", &number.to_string(), gauge(&help));
        }
        let kept = |creator: &'static str| store.seen(None, move |own| own == creator).len();
        assert_eq!(kept("greedy"), CREATOR_BYTES_MAX / (100_000 + ENTRY_BYTES));
        store.put("other", "up", gauge(""));
        store.put("other", "long", gauge(&"x".repeat(ENTRY_BYTES_MAX)));
        assert_eq!(kept("other"), 1);
        // Replacing an entry releases its bytes.
        for _ in 0..1000 {
            store.put("other", "up", gauge(&help));
            store.put("other", "up", gauge(""));
        }
        for number in 0..1000 {
            store.put(&number.to_string(), "m", gauge(&help));
        }
        assert!(store.0.read().bytes <= BYTES_MAX);
        assert!(store.seen(None, |_| true).len() < 170);
    }
}
