//! Metrics in the index.

use std::{str::FromStr, sync::Arc};

use async_trait::async_trait;
use gnudi_model::{ArchivePolicy, Metric, MetricId, MetricStatus, Timestamp};
use uuid::Uuid;

use crate::{IndexerError, Result, filter::Pattern};

/// What a new metric is made of; its id is chosen by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMetric {
    pub id: MetricId,
    pub creator: String,
    pub name: Option<String>,
    pub unit: Option<String>,
    pub archive_policy_name: String,
    /// A resource that exists, else the metric is refused; then `name` is given, and the resource has no other of that
    /// name.
    pub resource_id: Option<Uuid>,
    pub created_at: Timestamp,
    /// See [`Metrics::whole_names`].
    pub whole_name: Option<String>,
}

/// Equality filters, a pattern and a scope, all of which hold.
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
    /// Active metrics, unless it says otherwise.
    pub status: Option<MetricStatus>,
    /// Whose metrics; `None` for everybody's.
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

/// The plain directions take an absent value for the least of all.
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
}

impl FromStr for SortDirection {
    type Err = IndexerError;

    /// Reads what follows the colon of a listing's `sort` argument; nothing means ascending.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "" | "asc" => SortDirection::Ascending,
            "desc" => SortDirection::Descending,
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

    /// Reads `key` or `key:direction` as a listing's `sort` argument has it; the refusals are Gnocchi's.
    fn from_str(text: &str) -> Result<Self> {
        let (key, direction) = text.split_once(':').unwrap_or((text, ""));
        let key = match key.trim() {
            "id" => SortKey::Id,
            "creator" => SortKey::Creator,
            "name" => SortKey::Name,
            "unit" => SortKey::Unit,
            "archive_policy_name" => SortKey::ArchivePolicyName,
            "resource_id" => SortKey::ResourceId,
            "status" => SortKey::Status,
            unknown => {
                return Err(IndexerError::InvalidPagination(format!(
                    "Sort key supplied is invalid: {unknown}"
                )));
            }
        };
        Ok(MetricSort { key, direction: direction.parse()? })
    }
}

/// Which part of a listing: at most `limit`, behind the metric that `marker` names, in the order of `sorts`, then by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub limit: usize,
    pub marker: Option<MetricId>,
    pub sorts: Vec<MetricSort>,
}

impl Page {
    /// The first so many, by id.
    pub fn first(limit: usize) -> Self {
        Page { limit, marker: None, sorts: Vec::new() }
    }
}

/// Who has created things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creators {
    /// This creator.
    Is(String),
    /// Everybody of this project: whose creators end with a colon and its id.
    Of(String),
}

impl Creators {
    /// The pattern of `like` that the creators of a project match, whatever characters its id has.
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

/// Metrics for which one of these holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricScope {
    pub creators: Option<Creators>,
    /// The project that the metric's resource belongs to.
    pub resource_project_id: Option<String>,
    /// Who has created the metric's resource.
    pub resource_creators: Option<Creators>,
}

impl MetricScope {
    /// Whether a metric is in it that has this creator, and, if it has a resource, the resource's project and creator.
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

#[async_trait]
pub trait Metrics {
    /// Creates metrics, one answer each, in order. Concurrent calls share transactions.
    async fn create_metrics(&self, metrics: Vec<NewMetric>) -> Vec<Result<Arc<Metric>>>;

    /// Active metrics by id, one answer each, in order; `None` where there is none.
    async fn metrics(&self, ids: &[MetricId]) -> Result<Vec<Option<Arc<Metric>>>>;

    /// Active metrics of resources by name, one answer each, in order; `None` where there is none.
    async fn named_metrics(&self, names: &[(Uuid, &str)]) -> Result<Vec<Option<Arc<Metric>>>>;

    /// Of metrics whose name had to be cut what it was made of, one answer each, in order; `None` for all others. It is given with
    /// the metric's creation, lost when the metric gets another name, and removed with it.
    async fn whole_names(&self, ids: &[MetricId]) -> Result<Vec<Option<String>>>;

    /// Refuses a marker that names neither an active metric nor one of the status that is listed.
    async fn list_metrics(&self, listing: &MetricListing) -> Result<Vec<Arc<Metric>>>;

    /// How many active metrics these have created; `None`: all there are.
    async fn count_metrics(&self, creators: Option<&Creators>) -> Result<u64>;

    /// An active metric and its policy as the index has them now: never of a cache that others' changes have not reached.
    async fn current_metric(&self, id: MetricId) -> Result<Option<(Arc<Metric>, Arc<ArchivePolicy>)>>;

    /// Gives an active metric another policy; returns the metric as it is then.
    async fn move_metric(&self, id: MetricId, archive_policy_name: &str) -> Result<Arc<Metric>>;

    /// Marks metrics for the janitor, one answer each, in order; they are gone for every reader from now on.
    async fn delete_metrics(&self, ids: &[MetricId]) -> Vec<Result<()>>;

    /// Up to `limit` metrics that wait for the janitor, by id, behind `after`.
    async fn deleted_metrics(&self, after: Option<MetricId>, limit: usize) -> Result<Vec<MetricId>>;

    /// Removes metrics whose data the janitor has removed.
    async fn expunge_metrics(&self, ids: &[MetricId]) -> Result<()>;
}

/// The order in which a resource shows its metrics.
pub(crate) fn sort_by_name(metrics: &mut [Arc<Metric>]) {
    metrics.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
}

/// The refusal of a name that its resource has already, or of an id that is taken.
pub(crate) fn named_metric_already_exists(name: Option<&str>) -> IndexerError {
    IndexerError::NamedMetricAlreadyExists(name.unwrap_or("None").to_owned())
}

/// The refusal of a marker that names no metric.
pub(crate) fn invalid_marker(marker: MetricId) -> IndexerError {
    IndexerError::InvalidPagination(format!("Invalid marker: `{marker}'"))
}

/// The whole order of a listing: what is asked for up to the id, which ends it, without repetitions.
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
