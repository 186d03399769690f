//! Resources: what metrics belong to, and what a user searches by.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use uuid::Uuid;

use crate::{Metric, Text, Timestamp};

/// The value of an attribute of a resource's type.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    Null,
    String(Text),
    Uuid(Uuid),
    Number(f64),
    Bool(bool),
    Datetime(Timestamp),
}

/// A resource as it is now, or as it was in an earlier revision. Times are whole microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub id: Uuid,
    /// The name of its [`crate::ResourceType`].
    pub resource_type: Text,
    /// The id as its creator wrote it.
    pub original_resource_id: Text,
    /// As a metric's.
    pub creator: Text,
    pub user_id: Option<Text>,
    pub project_id: Option<Text>,
    pub started_at: Timestamp,
    /// Not before `started_at`.
    pub ended_at: Option<Timestamp>,
    /// Since when the resource has been as it is shown here.
    pub revision_start: Timestamp,
    /// Until when it was so; `None` for the resource as it is now.
    pub revision_end: Option<Timestamp>,
    /// The number of an earlier revision, unique in the index; [`Resource::CURRENT`] for the resource as it is now.
    pub revision: i64,
    /// All attributes of its type, also those that are null; empty where the resource was asked for as a generic one.
    pub attributes: BTreeMap<Text, AttributeValue>,
    /// The active metrics that it has today (also in an earlier revision), by name.
    pub metrics: Vec<Arc<Metric>>,
}

impl Resource {
    /// The revision of a resource as it is now.
    pub const CURRENT: i64 = -1;

    /// Its active metric of this name.
    pub fn metric(&self, name: &str) -> Option<&Arc<Metric>> {
        self.metrics.iter().find(|metric| metric.name.as_deref() == Some(name))
    }

    /// Its active metrics of these names, in their order.
    pub fn metrics_named<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<Option<Arc<Metric>>> {
        let named = self.metrics.iter().filter_map(|metric| Some((metric.name.as_deref()?, metric)));
        let by_name: HashMap<&str, &Arc<Metric>> = named.collect();
        names.map(|name| by_name.get(name).copied().cloned()).collect()
    }
}
