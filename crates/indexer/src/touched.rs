//! What a transaction changed, as far as the caches of other processes must know.
//!
//! What is created is no change, unless something that was there shows it: nobody remembers what was not found.

use gnudi_model::MetricId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// So many are named; where there are more, all are meant.
const IDS_NAMED_MAX: usize = 500;

/// Some, by their ids, or all there are.
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
    fn add(&mut self, more: impl IntoIterator<Item = Uuid>) {
        if let Which::These(ids) = self {
            ids.extend(more);
            if ids.len() > IDS_NAMED_MAX {
                ids.sort_unstable();
                ids.dedup();
            }
            if ids.len() > IDS_NAMED_MAX {
                *self = Which::All;
            }
        }
    }

    fn is_none(&self) -> bool {
        matches!(self, Which::These(ids) if ids.is_empty())
    }
}

/// What is not any more as it may be remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    #[serde(default, skip_serializing_if = "Which::is_none")]
    pub metrics: Which,
    #[serde(default, skip_serializing_if = "Which::is_none")]
    pub resources: Which,
    /// Archive policies or their rules.
    #[serde(default, skip_serializing_if = "is_false")]
    pub policies: bool,
    /// Resource types.
    #[serde(default, skip_serializing_if = "is_false")]
    pub types: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Touched {
    /// Anything may have changed.
    pub fn everything() -> Self {
        Touched { metrics: Which::All, resources: Which::All, policies: true, types: true }
    }

    pub fn policies() -> Self {
        Touched { policies: true, ..Touched::default() }
    }

    /// A type, and how its resources look.
    pub fn types() -> Self {
        Touched { types: true, resources: Which::All, ..Touched::default() }
    }

    #[must_use]
    pub fn with_resources(mut self, ids: impl IntoIterator<Item = Uuid>) -> Self {
        self.resources.add(ids);
        self
    }

    #[must_use]
    pub fn with_metrics(mut self, ids: impl IntoIterator<Item = MetricId>) -> Self {
        self.metrics.add(ids.into_iter().map(|id| id.0));
        self
    }

    /// As [`Touched::with_metrics`], where nobody knows which resources show them.
    #[must_use]
    pub fn with_metrics_of_any_resource(self, ids: impl IntoIterator<Item = MetricId>) -> Self {
        let mut touched = self.with_metrics(ids);
        if !touched.metrics.is_none() {
            touched.resources = Which::All;
        }
        touched
    }

    pub fn merge(&mut self, other: Touched) {
        for (own, others) in [(&mut self.metrics, other.metrics), (&mut self.resources, other.resources)] {
            match others {
                Which::These(ids) => own.add(ids),
                Which::All => *own = Which::All,
            }
        }
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

    /// What a newer program may have written, and this one does not understand, is everything.
    pub(crate) fn from_text(text: &[u8]) -> Self {
        serde_json::from_slice(text).unwrap_or_else(|_| Touched::everything())
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
        for touched in [Touched::default(), Touched::everything(), Touched::types(), some] {
            assert_eq!(Touched::from_text(touched.to_text().as_bytes()), touched);
        }
        assert_eq!(Touched::from_text(b"{}"), Touched::default());
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
