//! What a transaction changed, for the caches of other processes.
//!
//! Creations invalidate nothing, unless an existing item shows the new one: misses are not cached. They are recorded
//! for those who hold a complete copy of the index ([`crate::change_log`]).

use gnudi_model::MetricId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Maximum ids listed; beyond it all are meant.
const IDS_NAMED_MAX: usize = 500;
/// Maximum ids of new metrics, which take less room.
const CREATED_NAMED_MAX: usize = 5_000;

/// Some ids, or all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    These(Vec<Uuid>),
    All,
}

impl Default for Which {
    fn default() -> Self {
        Which::These(Vec::new())
    }
}

impl Which {
    fn add(&mut self, more: impl IntoIterator<Item = Uuid>, named_max: usize) {
        if let Which::These(ids) = self {
            ids.extend(more);
            if ids.len() > named_max {
                ids.sort_unstable();
                ids.dedup();
            }
            if ids.len() > named_max {
                *self = Which::All;
            }
        }
    }

    pub(crate) fn merge(&mut self, others: Which, named_max: usize) {
        match others {
            Which::These(ids) => self.add(ids, named_max),
            Which::All => *self = Which::All,
        }
    }

    fn all() -> Self {
        Which::All
    }

    fn is_none(&self) -> bool {
        matches!(self, Which::These(ids) if ids.is_empty())
    }
}

/// What caches must invalidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    #[serde(default, skip_serializing_if = "Which::is_none")]
    pub metrics: Which,
    #[serde(default, skip_serializing_if = "Which::is_none")]
    pub resources: Which,
    /// Of these resources, those whose own fields or attributes may have changed, not only their metrics. Not recorded
    /// before schema version 10.
    #[serde(default = "Which::all")]
    pub attributes: Which,
    /// New metrics.
    #[serde(default, skip_serializing_if = "Which::is_none", with = "compact")]
    pub created: Which,
    /// Archive policies or their rules.
    #[serde(default, skip_serializing_if = "is_false")]
    pub policies: bool,
    /// Resource types.
    #[serde(default, skip_serializing_if = "is_false")]
    pub types: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Touched {
    /// Anything may have changed.
    pub fn everything() -> Self {
        let all = || Which::All;
        let (metrics, resources, attributes, created) = (all(), all(), all(), all());
        Touched { metrics, resources, attributes, created, policies: true, types: true }
    }

    pub fn policies() -> Self {
        Touched { policies: true, ..Touched::default() }
    }

    /// A type, and how its resources look.
    pub fn types() -> Self {
        let (resources, attributes) = (Which::All, Which::All);
        Touched { types: true, resources, attributes, ..Touched::default() }
    }

    /// Resources with other metrics, or another end.
    #[must_use]
    pub fn with_resources(mut self, ids: impl IntoIterator<Item = Uuid>) -> Self {
        self.resources.add(ids, IDS_NAMED_MAX);
        self
    }

    /// Resources in which anything may have changed.
    #[must_use]
    pub fn with_attributes(mut self, ids: &[Uuid]) -> Self {
        self.attributes.add(ids.iter().copied(), IDS_NAMED_MAX);
        self.with_resources(ids.iter().copied())
    }

    #[must_use]
    pub fn with_created(mut self, ids: impl IntoIterator<Item = MetricId>) -> Self {
        self.created.add(ids.into_iter().map(|id| id.0), CREATED_NAMED_MAX);
        self
    }

    #[must_use]
    pub fn with_metrics(mut self, ids: impl IntoIterator<Item = MetricId>) -> Self {
        self.metrics.add(ids.into_iter().map(|id| id.0), IDS_NAMED_MAX);
        self
    }

    /// As [`Touched::with_metrics`], if the resources of the metrics are unknown.
    #[must_use]
    pub fn with_metrics_of_any_resource(self, ids: impl IntoIterator<Item = MetricId>) -> Self {
        let mut touched = self.with_metrics(ids);
        if !touched.metrics.is_none() {
            touched.resources = Which::All;
        }
        touched
    }

    pub fn merge(&mut self, other: Touched) {
        self.metrics.merge(other.metrics, IDS_NAMED_MAX);
        self.resources.merge(other.resources, IDS_NAMED_MAX);
        self.attributes.merge(other.attributes, IDS_NAMED_MAX);
        self.created.merge(other.created, CREATED_NAMED_MAX);
        self.policies |= other.policies;
        self.types |= other.types;
    }

    pub fn is_nothing(&self) -> bool {
        *self == Touched::default()
    }

    /// A JSON object.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("ids and flags are JSON")
    }

    /// Entries of a newer program that this one does not understand mean everything.
    pub(crate) fn from_text(text: &[u8]) -> Self {
        serde_json::from_slice(text).unwrap_or_else(|_| Touched::everything())
    }
}

/// Ids as 22 characters each, their bytes in base64, without separators. "all" cannot be such a text.
mod compact {
    use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    use super::{Uuid, Which};

    const ALL: &str = "all";

    pub(super) fn serialize<S: Serializer>(which: &Which, serializer: S) -> Result<S::Ok, S::Error> {
        match which {
            Which::All => ALL.serialize(serializer),
            Which::These(ids) => {
                let bytes: Vec<u8> = ids.iter().flat_map(|id| *id.as_bytes()).collect();
                BASE64_STANDARD_NO_PAD.encode(bytes).serialize(serializer)
            }
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Which, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == ALL {
            return Ok(Which::All);
        }
        let bytes = BASE64_STANDARD_NO_PAD.decode(text).map_err(D::Error::custom)?;
        let ids = bytes.chunks(16).map(Uuid::from_slice).collect::<Result<_, _>>();
        ids.map(Which::These).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<u128>) -> impl Iterator<Item = Uuid> {
        range.map(Uuid::from_u128)
    }

    #[test]
    fn what_is_written_is_read() {
        let some = Touched::policies().with_metrics(ids(0..3).map(MetricId)).with_resources(ids(7..9));
        let some = some.with_attributes(&[Uuid::from_u128(8)]).with_created(ids(10..13).map(MetricId));
        for touched in [Touched::default(), Touched::everything(), Touched::types(), some] {
            assert_eq!(Touched::from_text(touched.to_text().as_bytes()), touched);
        }
        let untold = Touched { attributes: Which::All, ..Touched::default() };
        assert_eq!(Touched::from_text(b"{}"), untold);
        let many = Touched::default().with_created(ids(0..5_000).map(MetricId));
        assert!(many.to_text().len() < 110_000);
        assert_eq!(Touched::from_text(many.to_text().as_bytes()), many);
        assert_eq!(many.with_created(ids(5_000..5_001).map(MetricId)).created, Which::All);
        assert_eq!(Touched::from_text(b"\x01"), Touched::everything());
    }

    #[test]
    fn many_are_all() {
        let mut touched = Touched::default().with_resources(ids(0..500));
        assert!(matches!(&touched.resources, Which::These(ids) if ids.len() == 500));
        touched.merge(Touched::default().with_resources(ids(100..500)));
        assert!(matches!(&touched.resources, Which::These(ids) if ids.len() == 500));
        touched.merge(Touched::default().with_resources(ids(500..501)));
        assert_eq!(touched.resources, Which::All);
        touched.merge(Touched::default().with_resources(ids(0..1)));
        assert_eq!(touched.resources, Which::All);
        assert!(Touched::default().with_metrics_of_any_resource([]).is_nothing());
    }
}
