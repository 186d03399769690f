//! Metrics: what measures are sent to.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Text, Timestamp};

/// A metric's UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MetricId(pub Uuid);

impl fmt::Display for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a metric lives, or waits for the janitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricStatus {
    Active,
    Delete,
}

/// A metric's metadata. Its texts are shared where many metrics have the same: a million of them stay in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    pub id: MetricId,
    /// `user_id:project_id`; with basic authentication the user's name alone.
    pub creator: Text,
    /// Without a slash; a resource's metric always has one.
    pub name: Option<Text>,
    /// At most 31 characters.
    pub unit: Option<Text>,
    pub archive_policy_name: Text,
    pub resource_id: Option<Uuid>,
    pub status: MetricStatus,
    pub created_at: Timestamp,
}
