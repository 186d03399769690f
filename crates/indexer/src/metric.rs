//! Metrics in the index.

use std::{cmp::Ordering, str::FromStr, sync::Arc};

use async_trait::async_trait;
use gnudi_model::{ArchivePolicy, Metric, MetricId, MetricStatus, Text, Timestamp};
use uuid::Uuid;

use crate::{Indexer, IndexerError, Result, filter::Pattern};

/// A metric to create; the caller chooses its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMetric {
    pub id: MetricId,
    pub creator: String,
    pub name: Option<String>,
    pub unit: Option<String>,
    pub archive_policy_name: String,
    /// An existing resource, otherwise the metric is rejected. `name` is required then, and must be unique in the
    /// resource.
    pub resource_id: Option<Uuid>,
    pub created_at: Timestamp,
    /// See [`Metrics::whole_names`].
    pub whole_name: Option<String>,
}

impl NewMetric {
    /// A metric without a name, a unit and a resource.
    pub fn new(id: MetricId, creator: &str, archive_policy_name: &str, created_at: Timestamp) -> Self {
        NewMetric {
            id,
            creator: creator.to_owned(),
            name: None,
            unit: None,
            archive_policy_name: archive_policy_name.to_owned(),
            resource_id: None,
            created_at,
            whole_name: None,
        }
    }

    /// The active metric. `label` interns texts that metrics share, `name` their names.
    pub(crate) fn metric(&self, label: impl Fn(&str) -> Text, name: impl Fn(&str) -> Text) -> Metric {
        Metric {
            id: self.id,
            creator: label(&self.creator),
            name: self.name.as_deref().map(name),
            unit: self.unit.as_deref().map(&label),
            archive_policy_name: label(&self.archive_policy_name),
            resource_id: self.resource_id,
            status: MetricStatus::Active,
            created_at: self.created_at,
        }
    }
}

/// Equality filters, a pattern and a scope, combined with AND.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricFilter {
    pub id: Option<MetricId>,
    pub creator: Option<String>,
    pub name: Option<String>,
    /// Of the name; metrics without one match none.
    pub name_like: Option<Pattern>,
    pub unit: Option<String>,
    pub archive_policy_name: Option<String>,
    pub resource_id: Option<Uuid>,
    /// Default: active metrics.
    pub status: Option<MetricStatus>,
    /// Restricts owners; `None`: no restriction.
    pub scope: Option<MetricScope>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKey {
    Id,
    Creator,
    Name,
    Unit,
    ArchivePolicyName,
    ResourceId,
    Status,
}

impl SortKey {
    pub const ALL: [Self; 7] = [
        Self::Id,
        Self::Creator,
        Self::Name,
        Self::Unit,
        Self::ArchivePolicyName,
        Self::ResourceId,
        Self::Status,
    ];

    /// Its name in the API, and its column.
    pub const fn name(self) -> &'static str {
        match self {
            SortKey::Id => "id",
            SortKey::Creator => "creator",
            SortKey::Name => "name",
            SortKey::Unit => "unit",
            SortKey::ArchivePolicyName => "archive_policy_name",
            SortKey::ResourceId => "resource_id",
            SortKey::Status => "status",
        }
    }
}

/// The plain directions sort null as the least value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortDirection {
    Ascending,
    Descending,
    AscendingNullsFirst,
    AscendingNullsLast,
    DescendingNullsFirst,
    DescendingNullsLast,
}

impl SortDirection {
    pub const ALL: [Self; 6] = [
        Self::Ascending,
        Self::Descending,
        Self::AscendingNullsFirst,
        Self::AscendingNullsLast,
        Self::DescendingNullsFirst,
        Self::DescendingNullsLast,
    ];

    pub const fn is_ascending(self) -> bool {
        matches!(self, Self::Ascending | Self::AscendingNullsFirst | Self::AscendingNullsLast)
    }

    pub const fn nulls_first(self) -> bool {
        matches!(self, Self::Ascending | Self::AscendingNullsFirst | Self::DescendingNullsFirst)
    }

    /// Compares two values of a key. `None` is null, which is placed independently of the direction.
    pub fn compare<T>(self, a: Option<T>, b: Option<T>, compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) if self.is_ascending() => compare(&a, &b),
            (Some(a), Some(b)) => compare(&b, &a),
            (a, b) if self.nulls_first() => a.is_some().cmp(&b.is_some()),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

impl FromStr for SortDirection {
    type Err = IndexerError;

    /// Parses the direction in a `sort` argument; empty means ascending. As in Gnocchi, a hyphen may end it.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "" | "asc" | "asc-" => SortDirection::Ascending,
            "desc" | "desc-" => SortDirection::Descending,
            "asc-nullsfirst" => SortDirection::AscendingNullsFirst,
            "asc-nullslast" => SortDirection::AscendingNullsLast,
            "desc-nullsfirst" => SortDirection::DescendingNullsFirst,
            "desc-nullslast" => SortDirection::DescendingNullsLast,
            _ => {
                return Err(IndexerError::InvalidPagination(
                    "Unknown sort direction, must be one of: asc-nullsfirst, asc-nullslast, desc-nullsfirst, \
                     desc-nullslast"
                        .to_owned(),
                ));
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricSort {
    pub key: SortKey,
    pub direction: SortDirection,
}

impl FromStr for MetricSort {
    type Err = IndexerError;

    /// Parses `key` or `key:direction` of a `sort` argument; errors are Gnocchi's.
    fn from_str(text: &str) -> Result<Self> {
        let (key, direction) = text.split_once(':').unwrap_or((text, ""));
        let name = key.trim();
        let key = SortKey::ALL.into_iter().find(|key| key.name() == name).ok_or_else(|| {
            IndexerError::InvalidPagination(format!("Sort key supplied is invalid: {name}"))
        })?;
        Ok(MetricSort { key, direction: direction.parse()? })
    }
}

/// The metric before a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricMarker {
    /// One that exists, in the scope of the filter: another one would reveal its place in the order.
    Id(MetricId),
    /// As it was listed: it may have been changed or deleted meanwhile.
    Listed(Arc<Metric>),
}

impl MetricMarker {
    pub fn id(&self) -> MetricId {
        match self {
            MetricMarker::Id(id) => *id,
            MetricMarker::Listed(metric) => metric.id,
        }
    }
}

/// A page of a listing: at most `limit`, after the metric `marker`, ordered by `sorts`, then by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub limit: usize,
    pub marker: Option<MetricMarker>,
    pub sorts: Vec<MetricSort>,
}

impl Page {
    /// The first page, ordered by id.
    pub fn first(limit: usize) -> Self {
        Page { limit, marker: None, sorts: Vec::new() }
    }
}

/// A set of creators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creators {
    /// This creator.
    Is(String),
    /// All users of this project: creators that end with a colon and its id.
    Of(String),
}

impl Creators {
    /// The `like` pattern that matches the creators of a project, with its id escaped.
    pub fn pattern(project: &str) -> String {
        let mut pattern = "%:".to_owned();
        for character in project.chars() {
            if matches!(character, '%' | '_' | '\\') {
                pattern.push('\\');
            }
            pattern.push(character);
        }
        pattern
    }

    pub fn include(&self, creator: &str) -> bool {
        match self {
            Creators::Is(one) => one == creator,
            Creators::Of(project) => {
                creator.strip_suffix(project.as_str()).is_some_and(|user| user.ends_with(':'))
            }
        }
    }
}

/// Metrics that satisfy at least one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricScope {
    pub creators: Option<Creators>,
    /// The project of the metric's resource.
    pub resource_project_id: Option<String>,
    /// The creators of the metric's resource.
    pub resource_creators: Option<Creators>,
}

impl MetricScope {
    /// Whether it includes a metric with this creator and, if it has a resource, with that resource's project and
    /// creator.
    pub fn includes(&self, creator: &str, project: Option<&str>, resource_creator: Option<&str>) -> bool {
        let MetricScope { creators, resource_project_id, resource_creators } = self;
        creators.as_ref().is_some_and(|creators| creators.include(creator))
            || resource_project_id.as_deref().is_some_and(|wanted| project == Some(wanted))
            || resource_creators
                .as_ref()
                .zip(resource_creator)
                .is_some_and(|(creators, creator)| creators.include(creator))
    }
}

/// A filter and a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricListing {
    pub filter: MetricFilter,
    pub page: Page,
}

/// All active metrics by id, page by page. Those created or deleted meanwhile may be listed or not.
#[derive(Debug)]
pub struct MetricPages {
    listing: MetricListing,
    is_over: bool,
}

impl MetricPages {
    /// Pages of `limit` metrics.
    pub fn new(limit: usize) -> Self {
        let listing = MetricListing { filter: MetricFilter::default(), page: Page::first(limit) };
        MetricPages { listing, is_over: false }
    }

    /// The next page; `None` after the last one.
    pub async fn next(&mut self, index: &dyn Indexer) -> Result<Option<Vec<Arc<Metric>>>> {
        if self.is_over {
            return Ok(None);
        }
        let page = index.list_metrics(&self.listing).await?;
        self.is_over = page.len() < self.listing.page.limit;
        self.listing.page.marker = page.last().cloned().map(MetricMarker::Listed);
        Ok(Some(page))
    }
}

/// A metric's move to another policy since which its conversion may not have been requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricMove {
    /// A new id for each move.
    pub id: Uuid,
    pub metric: MetricId,
}

#[async_trait]
pub trait Metrics {
    /// Creates metrics, one result each, in order. Concurrent calls share transactions.
    async fn create_metrics(&self, metrics: Vec<NewMetric>) -> Vec<Result<Arc<Metric>>>;

    /// Active metrics by id, one result each, in order; `None` if missing.
    async fn metrics(&self, ids: &[MetricId]) -> Result<Vec<Option<Arc<Metric>>>>;

    /// Active metrics of resources by name, one result each, in order; `None` if missing.
    async fn named_metrics(&self, names: &[(Uuid, &str)]) -> Result<Vec<Option<Arc<Metric>>>>;

    /// The full names of metrics whose names had to be truncated, one result each, in order; `None` for others. Set
    /// when a metric is created, lost when it is renamed, and removed with it.
    async fn whole_names(&self, ids: &[MetricId]) -> Result<Vec<Option<String>>>;

    /// Rejects the id of a marker that is neither an active metric nor one with the listed status.
    async fn list_metrics(&self, listing: &MetricListing) -> Result<Vec<Arc<Metric>>>;

    /// Number of active metrics of these creators; `None`: of all.
    async fn count_metrics(&self, creators: Option<&Creators>) -> Result<u64>;

    /// An active metric and its policy read from the database, never from a cache that may be stale.
    async fn current_metric(&self, id: MetricId) -> Result<Option<(Arc<Metric>, Arc<ArchivePolicy>)>>;

    /// Changes the policy of an active metric, and records the move; returns the changed metric.
    async fn move_metric(&self, id: MetricId, archive_policy_name: &str) -> Result<Arc<Metric>>;

    /// Up to `limit` recorded moves, also of metrics that are deleted since; never from a cache.
    async fn metric_moves(&self, limit: usize) -> Result<Vec<MetricMove>>;

    /// Removes recorded moves, after a conversion of their metrics was requested.
    async fn forget_moves(&self, moves: &[MetricMove]) -> Result<()>;

    /// Marks metrics as deleted, one result each, in order; they are invisible to readers from now on.
    async fn delete_metrics(&self, ids: &[MetricId]) -> Vec<Result<()>>;

    /// Up to `limit` deleted metrics, by id, after `after`.
    async fn deleted_metrics(&self, after: Option<MetricId>, limit: usize) -> Result<Vec<MetricId>>;

    /// Removes deleted metrics whose data the janitor has removed.
    async fn expunge_metrics(&self, ids: &[MetricId]) -> Result<()>;
}

/// The order of a resource's metrics.
pub(crate) fn sort_by_name(metrics: &mut [Arc<Metric>]) {
    metrics.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
}

/// The error for a name that its resource already has, or an id that exists.
pub(crate) fn named_metric_already_exists(name: Option<&str>) -> IndexerError {
    IndexerError::NamedMetricAlreadyExists(name.unwrap_or("None").to_owned())
}

/// The error for a marker that is not a metric.
pub(crate) fn invalid_marker(marker: MetricId) -> IndexerError {
    IndexerError::InvalidPagination(format!("Invalid marker: `{marker}'"))
}

/// The total order of a listing: the requested fields up to the id, which ends it, without repetitions.
pub(crate) fn order_of(sorts: &[MetricSort]) -> Vec<MetricSort> {
    let mut order: Vec<MetricSort> = Vec::new();
    for sort in sorts {
        if order.iter().all(|earlier| earlier.key != sort.key) {
            order.push(*sort);
        }
        if sort.key == SortKey::Id {
            return order;
        }
    }
    order.push(MetricSort { key: SortKey::Id, direction: SortDirection::Ascending });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(sorts: &[&str]) -> Vec<MetricSort> {
        order_of(&sorts.iter().map(|sort| sort.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn sorts_are_read_as_gnocchi_reads_them() {
        let sort = |key, direction| Ok(MetricSort { key, direction });
        assert_eq!("name".parse(), sort(SortKey::Name, SortDirection::Ascending));
        assert_eq!("name:".parse(), sort(SortKey::Name, SortDirection::Ascending));
        assert_eq!("name:asc-".parse(), sort(SortKey::Name, SortDirection::Ascending));
        assert_eq!("name:desc-".parse(), sort(SortKey::Name, SortDirection::Descending));
        assert_eq!(" name :desc".parse(), sort(SortKey::Name, SortDirection::Descending));
        assert_eq!("unit:asc-nullslast".parse(), sort(SortKey::Unit, SortDirection::AscendingNullsLast));
        for (text, refusal) in [
            ("nonexistent_key:asc", "Invalid pagination: `Sort key supplied is invalid: nonexistent_key'"),
            ("", "Invalid pagination: `Sort key supplied is invalid: '"),
            (
                "name:ASC",
                "Invalid pagination: `Unknown sort direction, must be one of: asc-nullsfirst, asc-nullslast, \
                 desc-nullsfirst, desc-nullslast'",
            ),
        ] {
            assert_eq!(text.parse::<MetricSort>().unwrap_err().to_string(), refusal);
        }
    }

    #[test]
    fn an_order_ends_with_the_id_and_repeats_nothing() {
        assert_eq!(order(&[]), order(&["id:asc"]));
        assert_eq!(order(&["id:desc", "name"]), order(&["id:desc"]));
        assert_eq!(order(&["name", "unit", "name:desc", "id", "unit"]), order(&["name", "unit"]));
        assert_eq!(order(&["name"]).len(), 2);
    }
}
