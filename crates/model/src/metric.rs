//! Metrics and their measures.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    hash::{BuildHasherDefault, Hasher},
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Text, Timestamp};

/// A metric's UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MetricId(pub Uuid);

impl MetricId {
    /// A new id: UUID version 7 (RFC 9562, with the fraction of a millisecond in `rand_a`). Ids in order of creation
    /// keep new metrics together in the index, so that it writes few pages for many of them.
    pub fn new(now: Timestamp, random: u128) -> Self {
        let nanoseconds = now.0.max(0) as u128;
        let (milliseconds, rest) = (nanoseconds / 1_000_000, nanoseconds % 1_000_000);
        let fraction = rest * 4096 / 1_000_000;
        let random = random & ((1 << 62) - 1);
        MetricId(Uuid::from_u128(milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | random))
    }

    /// A hash with all its bits well distributed. Not keyed: servers choose ids, so no client can make them collide.
    pub fn hash(self) -> u64 {
        let id = self.0.as_u128();
        let folded = (id >> 64) as u64 ^ id as u64;
        let product = u128::from(folded ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        (product >> 64) as u64 ^ product as u64
    }
}

/// A map by metric, without the cost of a keyed hash.
pub type MetricMap<T> = HashMap<MetricId, T, BuildHasherDefault<MetricHasher>>;

/// A set of metrics.
pub type MetricSet = HashSet<MetricId, BuildHasherDefault<MetricHasher>>;

/// [`MetricId::hash`] for standard collections.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetricHasher(u64);

impl Hasher for MetricHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = MetricId(Uuid::from_slice(bytes).expect("only ids are hashed")).hash();
    }

    /// Ignores the length of an id: it is constant.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

impl fmt::Display for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A value at a time. NaN, infinities and -0.0 are valid values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    pub timestamp: Timestamp,
    pub value: f64,
}

impl Measure {
    /// Prometheus' staleness marker, the end of a series: a NaN with these bits, which no measurement has.
    pub const END_MARKER: u64 = 0x7ff0_0000_0000_0002;

    pub fn is_end_marker(&self) -> bool {
        self.value.to_bits() == Self::END_MARKER
    }
}

/// Whether a metric is active or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricStatus {
    Active,
    Delete,
}

/// A metric's metadata. Texts are shared between metrics: a million metrics are kept in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    pub id: MetricId,
    /// `user_id:project_id`; with basic authentication only the user name.
    pub creator: Text,
    /// Contains no slash; metrics of a resource always have a name.
    pub name: Option<Text>,
    /// At most 31 characters.
    pub unit: Option<Text>,
    pub archive_policy_name: Text,
    pub resource_id: Option<Uuid>,
    pub status: MetricStatus,
    pub created_at: Timestamp,
}

impl Metric {
    /// An active metric without a creator, a name and a resource.
    pub fn new(id: MetricId) -> Self {
        Metric {
            id,
            creator: Text::new(),
            name: None,
            unit: None,
            archive_policy_name: Text::new(),
            resource_id: None,
            status: MetricStatus::Active,
            created_at: Timestamp::EPOCH,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ids_follow_time() {
        let at = |nanoseconds| MetricId::new(Timestamp(nanoseconds), u128::MAX);
        // The example of RFC 9562, appendix A.6, except its random bits.
        let id = at(1_645_557_742_000_000_000).0;
        assert_eq!(id.to_string(), "017f22e2-79b0-7000-bfff-ffffffffffff");
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        let times = [i64::MIN, 1, 1_000, 999_999, 1_000_000, 1_000_000_000_000_000_000, i64::MAX];
        assert!(times.map(at).is_sorted());
        assert_ne!(at(1_000), at(999_999));
        assert_ne!(MetricId::new(Timestamp(0), 1), MetricId::new(Timestamp(0), 2));
        assert_eq!(at(i64::MAX).0.get_version_num(), 7);
    }
}
