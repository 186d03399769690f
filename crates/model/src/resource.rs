//! Resources: what metrics belong to, and what users search.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use uuid::Uuid;

use crate::{Metric, Text, Timestamp};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    Null,
    String(Text),
    Uuid(Uuid),
    Number(f64),
    Bool(bool),
    Datetime(Timestamp),
}

impl AttributeValue {
    /// As a text, for formats that have no other values; `None` if it is null.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            AttributeValue::Null => return None,
            AttributeValue::String(text) => text.as_str().into(),
            AttributeValue::Uuid(id) => id.to_string().into(),
            AttributeValue::Number(number) => number.to_string().into(),
            AttributeValue::Bool(flag) => flag.to_string().into(),
            AttributeValue::Datetime(time) => time.to_iso_micros().into(),
        })
    }
}

/// A resource in its current or an earlier revision. Times are whole microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub id: Uuid,
    /// The name of its [`crate::ResourceType`].
    pub resource_type: Text,
    /// The id as the creator wrote it.
    pub original_resource_id: Text,
    /// As in a metric.
    pub creator: Text,
    pub user_id: Option<Text>,
    pub project_id: Option<Text>,
    pub started_at: Timestamp,
    /// Not before `started_at`.
    pub ended_at: Option<Timestamp>,
    /// Start of this revision.
    pub revision_start: Timestamp,
    /// End of this revision; `None` for the current one.
    pub revision_end: Option<Timestamp>,
    /// The number of an earlier revision, unique in the index; [`Resource::CURRENT`] for the current one.
    pub revision: i64,
    /// All attributes of its type, including null ones; empty if the resource was requested as a generic one.
    pub attributes: BTreeMap<Text, AttributeValue>,
    /// Its active metrics today (also in an earlier revision), by name. The revisions of a page share them.
    pub metrics: Arc<[Arc<Metric>]>,
}

impl Resource {
    /// The revision number of the current revision.
    pub const CURRENT: i64 = -1;

    /// The current revision of a resource without a creator, attributes and metrics.
    pub fn new(id: Uuid, resource_type: &str) -> Self {
        Resource {
            id,
            resource_type: resource_type.into(),
            original_resource_id: id.to_string().into(),
            creator: Text::new(),
            user_id: None,
            project_id: None,
            started_at: Timestamp::EPOCH,
            ended_at: None,
            revision_start: Timestamp::EPOCH,
            revision_end: None,
            revision: Resource::CURRENT,
            attributes: BTreeMap::new(),
            metrics: Arc::default(),
        }
    }

    /// Its active metric with this name.
    pub fn metric(&self, name: &str) -> Option<&Arc<Metric>> {
        self.metrics.iter().find(|metric| metric.name.as_deref() == Some(name))
    }

    /// Its active metrics with these names, in the order of the names.
    pub fn metrics_named<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<Option<Arc<Metric>>> {
        let named = self.metrics.iter().filter_map(|metric| Some((metric.name.as_deref()?, metric)));
        let by_name: HashMap<&str, &Arc<Metric>> = named.collect();
        names.map(|name| by_name.get(name).copied().cloned()).collect()
    }
}
