//! Resources in the index, and their history.
//!
//! Times are arguments, whole microseconds. Whoever changes attributes has checked their values against the type.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use gnudi_model::{AttributeValue, MetricId, Resource, ResourceType, Text, Timestamp};
use uuid::Uuid;

use crate::{Filter, IndexerError, Result, SortDirection};

/// What a new resource is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct NewResource {
    pub id: Uuid,
    pub resource_type: String,
    pub original_resource_id: String,
    pub creator: String,
    pub user_id: Option<String>,
    pub project_id: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Those that are missing are null.
    pub attributes: BTreeMap<Text, AttributeValue>,
    pub metrics: Vec<(String, MetricsChange)>,
    /// The time of creation: the start of the first revision.
    pub now: Timestamp,
}

impl NewResource {
    /// The resource as it is at first, without metrics. `label` makes texts of those that resources share: creators, users,
    /// projects.
    pub(crate) fn resource(
        &self,
        resource_type: &ResourceType,
        label: impl Fn(&str) -> Text,
    ) -> Result<Resource> {
        let NewResource {
            id,
            resource_type: _,
            original_resource_id,
            creator,
            user_id,
            project_id,
            started_at,
            ended_at,
            attributes,
            metrics: _,
            now,
        } = self;
        check_attributes(resource_type, attributes.keys())?;
        if ended_at.is_some_and(|ended_at| ended_at < *started_at) {
            return Err(IndexerError::StartAfterEnd);
        }
        let value = |name: &Text| attributes.get(name).cloned().unwrap_or(AttributeValue::Null);
        Ok(Resource {
            id: *id,
            resource_type: resource_type.name.clone(),
            original_resource_id: original_resource_id.as_str().into(),
            creator: label(creator),
            user_id: user_id.as_deref().map(&label),
            project_id: project_id.as_deref().map(&label),
            started_at: *started_at,
            ended_at: *ended_at,
            revision_start: *now,
            revision_end: None,
            revision: Resource::CURRENT,
            attributes: resource_type.attributes.keys().map(|name| (name.clone(), value(name))).collect(),
            metrics: Vec::new(),
        })
    }
}

/// The metrics that go over to a resource.
pub(crate) fn attached<'a>(
    metrics: impl Iterator<Item = &'a (String, MetricsChange)>,
) -> impl Iterator<Item = MetricId> {
    metrics.filter_map(|(_, change)| match change {
        MetricsChange::Attach(id) => Some(*id),
        MetricsChange::Create(_) => None,
    })
}

/// The metrics that are made for a resource.
pub(crate) fn created<'a>(
    metrics: impl Iterator<Item = &'a (String, MetricsChange)>,
) -> impl Iterator<Item = &'a NewNamedMetric> {
    metrics.filter_map(|(_, change)| match change {
        MetricsChange::Create(metric) => Some(metric),
        MetricsChange::Attach(_) => None,
    })
}

/// What a resource's metric of some name is to be.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricsChange {
    /// An active metric of the resource's creator, which gets the name: refused ([`IndexerError::NoSuchMetric`]) for others.
    Attach(MetricId),
    Create(NewNamedMetric),
}

/// A metric that is made together with its resource, and has its creator.
#[derive(Clone, Debug, PartialEq)]
pub struct NewNamedMetric {
    pub id: MetricId,
    pub unit: Option<String>,
    pub archive_policy_name: String,
    /// See [`crate::Metrics::whole_names`].
    pub whole_name: Option<String>,
}

/// How a resource is to be changed; `None` leaves as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceChange {
    pub user_id: Option<Option<String>>,
    pub project_id: Option<Option<String>>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Option<Timestamp>>,
    pub attributes: BTreeMap<Text, AttributeValue>,
    /// Metrics to attach or to create.
    pub metrics: Option<Vec<(String, MetricsChange)>>,
    /// Whether the resource keeps the metrics that it has; else they are detached, and stay on their own.
    pub append_metrics: bool,
    /// Whether the resource as it was becomes part of the history, ending now. Where that is asked for and nothing but
    /// metrics would change, there is no new revision.
    pub create_revision: bool,
    pub now: Timestamp,
}

/// What became of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatedResource {
    pub resource: Arc<Resource>,
    /// Metrics that it had and has no more.
    pub detached: Vec<MetricId>,
}

/// Resources that are gone, and their metrics, which wait for the janitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletedResources {
    pub ids: Vec<Uuid>,
    pub metrics: Vec<MetricId>,
}

/// A field of a resource, or an attribute of its type, and a direction.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSort {
    pub field: String,
    pub direction: SortDirection,
}

/// The last item of the page before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceMarker {
    pub id: Uuid,
    /// Told apart only where the history is listed.
    pub revision: i64,
}

/// Which part of a listing: at most `limit` (`None`: all), behind the marker, in the order of `sorts`, then by id and revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourcePage {
    pub limit: Option<usize>,
    pub marker: Option<ResourceMarker>,
    pub sorts: Vec<ResourceSort>,
}

/// A filter and a page.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceListing {
    /// `generic` means resources of all types; filters and sorts then know no attributes.
    pub resource_type: String,
    pub filter: Option<Filter>,
    /// Whether earlier revisions are listed beside the resources as they are.
    pub history: bool,
    /// Whether each resource shows the attributes of its own type, whatever the listing's is.
    pub details: bool,
    /// Whether no resource shows any attributes, whatever `details` says: most of what reading one costs.
    pub omits_attributes: bool,
    /// The names of the metrics that the resources come with; `None` for all of their metrics.
    pub metric_names: Option<Vec<String>>,
    pub page: ResourcePage,
    /// What times in the filter may be relative to.
    pub now: Timestamp,
}

impl ResourceListing {
    /// All resources of a type as they are, with what this type shows.
    pub fn of(resource_type: &str, now: Timestamp) -> Self {
        ResourceListing {
            resource_type: resource_type.to_owned(),
            filter: None,
            history: false,
            details: false,
            omits_attributes: false,
            metric_names: None,
            page: ResourcePage::default(),
            now,
        }
    }
}

#[async_trait]
pub trait Resources {
    /// Creates resources, each whole (with its metrics) or not at all, one answer each, in order. Concurrent calls share
    /// transactions.
    async fn create_resources(&self, resources: Vec<NewResource>) -> Vec<Result<Arc<Resource>>>;

    /// The resource as it is, if it is of the type (any is `generic`, which shows no attributes).
    ///
    /// # Errors
    /// [`IndexerError::NoSuchResourceType`].
    async fn resource(&self, resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>>;

    async fn update_resource(
        &self,
        resource_type: &str,
        id: Uuid,
        change: ResourceChange,
    ) -> Result<UpdatedResource>;

    /// Ends resources that have not ended, each with a new revision; returns how many. Those that are not there, that have
    /// ended, or that start only later, are left alone.
    async fn end_resources(&self, ids: &[Uuid], now: Timestamp) -> Result<u64>;

    /// When the resources ended, one answer each, in order: `None` for one that is not there, `Some(None)` for one that goes on.
    async fn ends(&self, ids: &[Uuid]) -> Result<Vec<Option<Option<Timestamp>>>>;

    /// Takes back the end of those that ended at or before the time given with each, with a new revision; returns how many.
    /// Others, and those that are not there, are left alone.
    async fn revive_resources(&self, seen: &[(Uuid, Timestamp)], now: Timestamp) -> Result<u64>;

    /// Deletes resources with their history, one answer each, in order: the metrics that they had, by id, which wait for the
    /// janitor now.
    async fn delete_resources(&self, ids: &[Uuid]) -> Vec<Result<Vec<MetricId>>>;

    /// Deletes those of the type that the filter takes, as [`Resources::delete_resources`] does, some at a time, so that
    /// other writes are not held up. Times in the filter may be relative to `now`.
    async fn delete_matching_resources(
        &self,
        resource_type: &str,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<DeletedResources>;

    /// Removes up to `limit` values that deleted attributes and types have left behind, which nobody sees; returns how many
    /// it found. There are no more where that is less than `limit`.
    async fn sweep_values(&self, limit: usize) -> Result<usize>;

    /// Removes up to `limit` former revisions that ended before a time, the earliest first; returns how many. There are no more
    /// where that is less than `limit`. Resources as they are stay.
    async fn remove_revisions(&self, before: Timestamp, limit: usize) -> Result<usize>;

    /// Refuses a marker that names nothing, and fields that the type has not.
    async fn list_resources(&self, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>>;
}

/// Refuses attributes that the type has not.
pub(crate) fn check_attributes<'a>(
    resource_type: &ResourceType,
    mut attributes: impl Iterator<Item = &'a Text>,
) -> Result<()> {
    match attributes.find(|name| !resource_type.attributes.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(IndexerError::NoSuchAttribute {
            resource_type: resource_type.name.to_string(),
            attribute: name.to_string(),
        }),
    }
}

/// Refuses an end before the start, as Gnocchi words it for changes.
pub(crate) fn check_times(resource_type: &str, resource: &Resource) -> Result<()> {
    match resource.ended_at {
        Some(ended_at) if ended_at < resource.started_at => Err(IndexerError::InvalidAttributeValue {
            resource_type: resource_type.to_owned(),
            attribute: "ended_at".to_owned(),
            value: ended_at.to_iso_micros().replace('T', " "),
        }),
        _ => Ok(()),
    }
}

/// The resource with the change, but for its metrics and its revision.
pub(crate) fn changed(resource: &Resource, change: &ResourceChange) -> Resource {
    let ResourceChange {
        user_id,
        project_id,
        started_at,
        ended_at,
        attributes,
        metrics: _,
        append_metrics: _,
        create_revision: _,
        now: _,
    } = change;
    let mut changed = resource.clone();
    let text = |text: &Option<String>| text.as_deref().map(Text::from);
    if let Some(user_id) = user_id {
        changed.user_id = text(user_id);
    }
    if let Some(project_id) = project_id {
        changed.project_id = text(project_id);
    }
    changed.started_at = started_at.unwrap_or(changed.started_at);
    changed.ended_at = ended_at.unwrap_or(changed.ended_at);
    for (name, value) in attributes {
        changed.attributes.insert(name.clone(), value.clone());
    }
    changed
}
