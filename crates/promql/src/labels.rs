//! Label sets: sorted by name, shared strings, hashed once. The hash is Prometheus' (XXH64 with seed 0), so that `limit_ratio`
//! picks the same series.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use twox_hash::XxHash64;

use crate::quoted::quoted;

pub const METRIC_NAME: &str = "__name__";

/// Labels that describe the metric itself. Operations that drop the name drop all of them.
pub(crate) const METADATA: [&str; 3] = [METRIC_NAME, "__type__", "__unit__"];

/// Labels of a series. An empty value means that the label is absent.
#[derive(Clone)]
pub struct Labels {
    pairs: Arc<[(Arc<str>, Arc<str>)]>,
    hash: u64,
}

impl Labels {
    /// From pairs in any order. The last of equal names counts.
    pub fn new<N: Into<Arc<str>>, V: Into<Arc<str>>>(pairs: impl IntoIterator<Item = (N, V)>) -> Labels {
        let mut sorted: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (name, value) in pairs {
            set(&mut sorted, name.into(), value.into());
        }
        Labels::from_sorted(sorted)
    }

    pub fn empty() -> Labels {
        Labels::from_sorted(Vec::new())
    }

    /// From pairs sorted by name, each name once, no value empty.
    pub fn from_sorted(pairs: Vec<(Arc<str>, Arc<str>)>) -> Labels {
        debug_assert!(pairs.is_sorted_by(|a, b| a.0 < b.0) && pairs.iter().all(|pair| !pair.1.is_empty()));
        let mut bytes = Vec::with_capacity(pairs.iter().map(|pair| pair.0.len() + pair.1.len() + 8).sum());
        for (name, value) in &pairs {
            write_sized(&mut bytes, name);
            write_sized(&mut bytes, value);
        }
        Labels { hash: XxHash64::oneshot(0, &bytes), pairs: pairs.into() }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The value of a label, "" if it is absent.
    pub fn get(&self, name: &str) -> &str {
        match self.pairs.binary_search_by(|pair| pair.0.as_ref().cmp(name)) {
            Ok(at) => &self.pairs[at].1,
            Err(_) => "",
        }
    }

    /// The value of a label as a shared string.
    pub(crate) fn get_shared(&self, name: &str) -> Option<Arc<str>> {
        let at = self.pairs.binary_search_by(|pair| pair.0.as_ref().cmp(name)).ok()?;
        Some(self.pairs[at].1.clone())
    }

    pub fn metric_name(&self) -> &str {
        self.get(METRIC_NAME)
    }

    /// Prometheus' hash.
    pub(crate) fn hash64(&self) -> u64 {
        self.hash
    }

    /// Only the labels that `keep` accepts.
    pub(crate) fn filtered(&self, keep: impl Fn(&str) -> bool) -> Labels {
        if self.pairs.iter().all(|pair| keep(&pair.0)) {
            return self.clone();
        }
        Labels::from_sorted(self.pairs.iter().filter(|pair| keep(&pair.0)).cloned().collect())
    }

    pub(crate) fn without_metadata(&self) -> Labels {
        self.filtered(|name| !METADATA.contains(&name))
    }

    /// The same labels with some set; an empty value removes.
    pub(crate) fn with(&self, changes: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) -> Labels {
        let mut pairs = self.pairs.to_vec();
        for (name, value) in changes {
            set(&mut pairs, name, value);
        }
        Labels::from_sorted(pairs)
    }
}

fn set(pairs: &mut Vec<(Arc<str>, Arc<str>)>, name: Arc<str>, value: Arc<str>) {
    match pairs.binary_search_by(|pair| pair.0.cmp(&name)) {
        Ok(at) if value.is_empty() => {
            pairs.remove(at);
        }
        Ok(at) => pairs[at].1 = value,
        Err(_) if value.is_empty() => {}
        Err(at) => pairs.insert(at, (name, value)),
    }
}

/// A text with its length, as Prometheus lays out labels before it hashes them.
fn write_sized(bytes: &mut Vec<u8>, text: &str) {
    let length = text.len();
    if length < 255 {
        bytes.push(length as u8);
    } else {
        bytes.extend([255, length as u8, (length >> 8) as u8, (length >> 16) as u8]);
    }
    bytes.extend(text.as_bytes());
}

impl PartialEq for Labels {
    fn eq(&self, other: &Labels) -> bool {
        self.hash == other.hash && self.pairs == other.pairs
    }
}

impl Eq for Labels {}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Labels) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of Prometheus' results: label by label, name before value.
impl Ord for Labels {
    fn cmp(&self, other: &Labels) -> Ordering {
        // Most texts of series from one index are shared, and need not be read.
        let text = |a: &Arc<str>, b: &Arc<str>| if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) };
        let mut orders = self
            .pairs
            .iter()
            .zip(other.pairs.iter())
            .map(|(a, b)| text(&a.0, &b.0).then_with(|| text(&a.1, &b.1)));
        orders.find(|order| order.is_ne()).unwrap_or_else(|| self.len().cmp(&other.len()))
    }
}

/// As Prometheus prints them: `{__name__="up", job="node"}`.
impl fmt::Display for Labels {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("{")?;
        for (at, (name, value)) in self.iter().enumerate() {
            if at > 0 {
                out.write_str(", ")?;
            }
            if is_plain_name(name) {
                write!(out, "{name}={}", quoted(value))?;
            } else {
                write!(out, "{}={}", quoted(name), quoted(value))?;
            }
        }
        out.write_str("}")
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Whether a label's name needs no quotes.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
