//! Resources in the index, and their history.
//!
//! Times are arguments, in whole microseconds. Attribute values must have been validated against the type.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use gnudi_model::{AttributeValue, MetricId, Resource, ResourceType, Text, Timestamp};
use uuid::Uuid;

use crate::{
    Filter, IndexerError, MICROSECOND, Result, SortDirection,
    filter::{Condition, FieldSort, Scope, order_of},
    resource_type::no_such_attribute,
};

/// A resource to create.
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
    /// Missing ones are null.
    pub attributes: BTreeMap<Text, AttributeValue>,
    pub metrics: Vec<(String, MetricsChange)>,
    /// The time of creation: start of the first revision.
    pub now: Timestamp,
}

impl NewResource {
    /// A resource without a user, a project, an end, attributes and metrics.
    pub fn new(id: Uuid, resource_type: &str, creator: &str, now: Timestamp) -> Self {
        NewResource {
            id,
            resource_type: resource_type.to_owned(),
            original_resource_id: id.to_string(),
            creator: creator.to_owned(),
            user_id: None,
            project_id: None,
            started_at: now,
            ended_at: None,
            attributes: BTreeMap::new(),
            metrics: Vec::new(),
            now,
        }
    }

    /// The resource in its first revision, without metrics. `label` interns texts that resources share: creators,
    /// users, projects.
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
        check_attributes(resource_type, attributes)?;
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
            metrics: Arc::default(),
        })
    }
}

/// The metrics to attach.
pub(crate) fn attached<'a>(
    metrics: impl Iterator<Item = &'a (String, MetricsChange)>,
) -> impl Iterator<Item = MetricId> {
    metrics.filter_map(|(_, change)| match change {
        MetricsChange::Attach(id) => Some(*id),
        MetricsChange::Create(_) => None,
    })
}

/// The metrics to create.
pub(crate) fn created<'a>(
    metrics: impl Iterator<Item = &'a (String, MetricsChange)>,
) -> impl Iterator<Item = &'a NewNamedMetric> {
    metrics.filter_map(|(_, change)| match change {
        MetricsChange::Create(metric) => Some(metric),
        MetricsChange::Attach(_) => None,
    })
}

/// A change of a resource's metric.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricsChange {
    /// Attaches and renames an active metric with the resource's creator; others are rejected
    /// ([`IndexerError::NoSuchMetric`]).
    Attach(MetricId),
    Create(NewNamedMetric),
}

/// A metric to create together with its resource, with the same creator.
#[derive(Clone, Debug, PartialEq)]
pub struct NewNamedMetric {
    pub id: MetricId,
    pub unit: Option<String>,
    pub archive_policy_name: String,
    /// See [`crate::Metrics::whole_names`].
    pub whole_name: Option<String>,
}

impl NewNamedMetric {
    /// A metric without a unit.
    pub fn new(id: MetricId, archive_policy_name: &str) -> Self {
        let archive_policy_name = archive_policy_name.to_owned();
        NewNamedMetric { id, unit: None, archive_policy_name, whole_name: None }
    }
}

/// When a change keeps the previous state in the history, ending now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewRevision {
    #[default]
    Never,
    /// If a value changes. If only metrics change, there is no new revision.
    IfChanged,
    /// Always: Gnocchi has revisions that are equal but for their times.
    Always,
}

impl NewRevision {
    pub(crate) fn is_created(self, has_changed: bool) -> bool {
        match self {
            NewRevision::Never => false,
            NewRevision::IfChanged => has_changed,
            NewRevision::Always => true,
        }
    }
}

/// A change of a resource; `None` means unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceChange {
    pub user_id: Option<Option<String>>,
    pub project_id: Option<Option<String>>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Option<Timestamp>>,
    pub attributes: BTreeMap<Text, AttributeValue>,
    /// Metrics to attach or to create.
    pub metrics: Option<Vec<(String, MetricsChange)>>,
    /// Whether to keep the resource's other metrics; otherwise they are detached and stay active.
    pub append_metrics: bool,
    pub revision: NewRevision,
    /// The start of the only revision that may be changed; of another, the change is refused.
    pub of_revision: Option<Timestamp>,
    pub now: Timestamp,
}

impl ResourceChange {
    /// Sets or removes the end, with a new revision.
    pub(crate) fn of_end(ended_at: Option<Timestamp>, now: Timestamp) -> Self {
        ResourceChange {
            ended_at: Some(ended_at),
            revision: NewRevision::IfChanged,
            now,
            ..ResourceChange::default()
        }
    }
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatedResource {
    pub resource: Arc<Resource>,
    /// Metrics that were detached.
    pub detached: Vec<MetricId>,
}

/// Deleted resources, and their metrics, now marked as deleted.
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

/// The last item of the previous page.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceMarker {
    /// One that exists; `revision` is used only in listings of the history.
    Revision { id: Uuid, revision: i64 },
    /// As it was listed, with the attributes that the order needs: it may have been changed or deleted meanwhile.
    Listed(Arc<Resource>),
}

/// A page of a listing: at most `limit` (`None`: all), after the marker, ordered by `sorts`, then by id and revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourcePage {
    pub limit: Option<usize>,
    pub marker: Option<ResourceMarker>,
    pub sorts: Vec<ResourceSort>,
}

/// A filter and a page.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceListing {
    /// `generic` lists resources of all types; filters and sorts then have no attributes.
    pub resource_type: String,
    pub filter: Option<Filter>,
    /// Whether to list earlier revisions, too.
    pub history: bool,
    /// Whether each resource has the attributes of its own type, whatever the listing's type.
    pub details: bool,
    /// Whether no resource shows any attributes, whatever `details` says: most of what reading one costs.
    pub omits_attributes: bool,
    /// Names of the metrics to include; `None`: all.
    pub metric_names: Option<Vec<String>>,
    pub page: ResourcePage,
    /// The base of relative times in the filter.
    pub now: Timestamp,
}

impl ResourceListing {
    /// The condition and the order, for resources of the type.
    pub(crate) fn search(&self, resource_type: &ResourceType) -> Result<(Option<Condition>, Vec<FieldSort>)> {
        let scope = Scope { resource_type, history: self.history, now: self.now };
        let condition = self.filter.as_ref().map(|filter| Condition::read(filter, scope)).transpose()?;
        Ok((condition, order_of(&self.page.sorts, scope)?))
    }

    /// All current resources of a type.
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
    /// Creates resources, each atomically with its metrics, one result each, in order. Concurrent calls share
    /// transactions.
    async fn create_resources(&self, resources: Vec<NewResource>) -> Vec<Result<Arc<Resource>>>;

    /// The current revision of the resource, if it has this type (every resource is `generic`, which has no
    /// attributes).
    ///
    /// # Errors
    /// [`IndexerError::NoSuchResourceType`].
    async fn resource(&self, resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>>;

    /// Like [`Resources::resource`], past any cache.
    async fn current_resource(&self, resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>> {
        self.resource(resource_type, id).await
    }

    async fn update_resource(
        &self,
        resource_type: &str,
        id: Uuid,
        change: ResourceChange,
    ) -> Result<UpdatedResource>;

    /// Ends resources that have not ended, each with a new revision; returns their number. Skips resources that do not
    /// exist, have ended, or start later.
    async fn end_resources(&self, ids: &[Uuid], now: Timestamp) -> Result<u64>;

    /// The ends of resources, one result each, in order: `None` if missing, `Some(None)` if not ended.
    async fn ends(&self, ids: &[Uuid]) -> Result<Vec<Option<Option<Timestamp>>>>;

    /// Removes the end of resources that ended at or before the given times, with a new revision; returns their number.
    /// Skips others.
    async fn revive_resources(&self, seen: &[(Uuid, Timestamp)], now: Timestamp) -> Result<u64>;

    /// Deletes resources with their history, one result each, in order: the ids of their metrics, now marked as
    /// deleted.
    async fn delete_resources(&self, ids: &[Uuid]) -> Vec<Result<Vec<MetricId>>>;

    /// Deletes a resource, like [`Resources::delete_resources`], if its current revision is the one that started then.
    ///
    /// # Errors
    /// [`IndexerError::ResourceChanged`] if it is another.
    async fn delete_resource_of_revision(&self, id: Uuid, start: Timestamp) -> Result<Vec<MetricId>>;

    /// Deletes resources of the type that match the filter, like [`Resources::delete_resources`], in small
    /// transactions, so that other writes are not delayed. Times in the filter may be relative to `now`.
    async fn delete_matching_resources(
        &self,
        resource_type: &str,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<DeletedResources>;

    /// Removes up to `limit` invisible values of deleted attributes and types; returns the number found. Fewer than
    /// `limit` means that none are left.
    async fn sweep_values(&self, limit: usize) -> Result<usize>;

    /// Removes up to `limit` former revisions that ended before a time, earliest first; returns their number. Fewer
    /// than `limit` means that none are left. Current revisions stay.
    async fn remove_revisions(&self, before: Timestamp, limit: usize) -> Result<usize>;

    /// Rejects unknown ids of markers, and unknown fields.
    async fn list_resources(&self, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>>;
}

/// Rejects attributes that the type does not have, and values that are not of their attribute's kind: the type may have
/// changed since the caller validated them.
pub(crate) fn check_attributes(
    resource_type: &ResourceType,
    attributes: &BTreeMap<Text, AttributeValue>,
) -> Result<()> {
    for (name, value) in attributes {
        let Some(attribute) = resource_type.attributes.get(name) else {
            return Err(no_such_attribute(resource_type, name));
        };
        if !attribute.kind.has(value) {
            return Err(IndexerError::InvalidAttributeValue {
                resource_type: resource_type.name.to_string(),
                attribute: name.to_string(),
                value: value.text().unwrap_or_default().into_owned(),
            });
        }
    }
    Ok(())
}

/// Rejects an end before the start, with Gnocchi's error text for changes.
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

/// Whether a resource has started by this time, and no end.
pub(crate) fn goes_on(resource: &Resource, at: Timestamp) -> bool {
    resource.ended_at.is_none() && resource.started_at <= at
}

/// Whether a resource has ended by this time.
pub(crate) fn is_over(resource: &Resource, at: Timestamp) -> bool {
    resource.ended_at.is_some_and(|ended_at| ended_at <= at)
}

/// Rejects a change or deletion of a revision (by its start) other than the current one.
pub(crate) fn check_revision(id: Uuid, current: Timestamp, wanted: Option<Timestamp>) -> Result<()> {
    match wanted {
        Some(wanted) if wanted != current => Err(IndexerError::ResourceChanged(id)),
        _ => Ok(()),
    }
}

/// The start of a new revision: after that of the former one, even if the clock was set back, or is that of another process.
/// Conditional requests tell revisions apart by their starts. An import repeats those that Gnocchi has.
pub(crate) fn next_start(former: Timestamp, change: &ResourceChange) -> Timestamp {
    let earliest = match change.revision {
        NewRevision::Always => former,
        NewRevision::Never | NewRevision::IfChanged => Timestamp(former.0.saturating_add(MICROSECOND.0)),
    };
    change.now.max(earliest)
}

/// The changed resource, without metrics and revision.
pub(crate) fn changed(resource: &Resource, change: &ResourceChange) -> Resource {
    let ResourceChange {
        user_id,
        project_id,
        started_at,
        ended_at,
        attributes,
        metrics: _,
        append_metrics: _,
        revision: _,
        of_revision: _,
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
