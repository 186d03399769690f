//! Operations on metrics by name, over all resources that a search finds, or over groups of them.

use std::{collections::HashSet, sync::Arc};

use gnudi_engine::{CrossMeasuresQuery, Engine};
use gnudi_indexer::{Filter, IndexerError, ResourceListing, ResourcePage, SortDirection};
use gnudi_model::Resource;
use gnudi_series::{cross::CrossMeasures, operations::Operation};
use gnudi_server::ReplyBody;

use super::{
    Arguments, answer,
    body::Search,
    by_time::ByTime,
    groups::{Fields, Group},
    references::{self, Names, Policies, Reference, check_count, check_groups},
    table::{Keys, TableAnswer},
};
use crate::{
    measures::{
        document::Document,
        groups::{GroupPart, Groups},
    },
    pagination::{RESOURCE_SORTS, resource_sort},
    routes::{prelude::*, resource::write},
};

/// A query over the metrics of resources.
pub(super) struct ResourcesQuery<'a> {
    pub operations: &'a Arc<Operation>,
    pub search: &'a Search,
    pub arguments: Arguments,
    /// Sorted.
    pub groupby: &'a [String],
    /// Whether resources of all types may be grouped by any type's attributes.
    pub across_types: bool,
    /// Subdivides the groups by time.
    pub by_time: Option<ByTime>,
    /// Whether the response includes the resources.
    pub details: bool,
}

impl ResourcesQuery<'_> {
    /// The error of a search without metrics: lists all names, sorted.
    pub fn no_metrics(&self) -> ApiError {
        let mut names: Vec<&str> =
            self.operations.metric_names().iter().map(|name| name.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        ApiError::not_found(format!("Metric {} does not exist", Value::from(names).repr()))
    }

    /// The current resources that the search finds, with the metrics that the response needs.
    pub fn wanted(&self, names: &Names<'_>) -> Wanted<'_> {
        let metric_names = if self.details { None } else { names.to_look_for() };
        let Search { resource_type, filter } = self.search;
        let omits_attributes = !self.details;
        Wanted { resource_type, filter: filter.clone(), history: false, metric_names, omits_attributes }
    }

    /// The fields that resources are grouped by.
    pub async fn fields(&self, call: &Call<'_>) -> Result<Fields<'_>> {
        if self.across_types {
            return Fields::across_types(call, &self.search.resource_type, self.groupby).await;
        }
        Ok(Fields::of_type(self.groupby))
    }

    /// The result if the search finds no metric.
    fn without_metrics(&self) -> Result<Vec<CrossMeasures>> {
        if self.arguments.may_be_empty {
            Ok(vec![CrossMeasures::without_series(self.operations)])
        } else {
            Err(self.no_metrics())
        }
    }
}

/// Runs the query over all resources at once.
pub(super) async fn all(call: &Call<'_>, asked: &ResourcesQuery<'_>) -> Result<Document> {
    let (references, measures) = compute_all(call, asked).await?;
    let mut document = Document::new(&call.answers());
    write_measures(&mut document, asked.details, &references, measures)?;
    Ok(document)
}

/// [`all`] as a table.
pub(super) async fn table_of_all(call: &Call<'_>, asked: &ResourcesQuery<'_>) -> Result<TableAnswer> {
    let (references, measures) = compute_all(call, asked).await?;
    let mut table = TableAnswer::new(call, &[], Keys::of(&references, &measures));
    table.push(&Value::Null, &references, measures)?;
    Ok(table)
}

async fn compute_all(
    call: &Call<'_>,
    asked: &ResourcesQuery<'_>,
) -> Result<(Vec<Reference>, Vec<CrossMeasures>)> {
    let names = Names::of(asked.operations)?;
    let resources = list(call, asked.wanted(&names), false, RESOURCE_SORTS).await?;
    check_count(call, resources.len())?;
    let references = references::of_resources(call, &resources, &names)?;
    let measures = if references.is_empty() {
        asked.without_metrics()?
    } else {
        let mut policies = Policies::default();
        references::measures(call, &mut policies, &references, asked.operations, &asked.arguments).await?
    };
    Ok((references, measures))
}

/// Runs the query over each group of resources with equal values in the `groupby` fields.
pub(super) async fn grouped(call: &Call<'_>, asked: &ResourcesQuery<'_>) -> Result<ReplyBody> {
    let (fields, resources) = ResourceGroups::resources(call, asked).await?;
    let mut found = ResourceGroups::of(call, asked, &fields, &resources)?;
    let mut groups = Groups::new(call);
    while let Some(group) = found.next().await? {
        groups.add(group).await?;
    }
    if groups.is_empty() && !asked.arguments.may_be_empty {
        return Err(asked.no_metrics());
    }
    Ok(groups.into_body())
}

/// [`grouped`] as a table. Its dictionary of groups comes first, so all points are held until they are read.
pub(super) async fn table_of_groups(call: &Call<'_>, asked: &ResourcesQuery<'_>) -> Result<TableAnswer> {
    let (fields, resources) = ResourceGroups::resources(call, asked).await?;
    let mut found = ResourceGroups::of(call, asked, &fields, &resources)?;
    let mut table = None;
    while let Some(ResourceGroup { key, references, query, .. }) = found.next().await? {
        let measures = call.app.engine().cross_measures(query).await?;
        let keys = Keys::of(&references, &measures);
        table.get_or_insert_with(|| TableAnswer::new(call, asked.groupby, keys)).push(
            &key,
            &references,
            measures,
        )?;
    }
    table.ok_or_else(|| asked.no_metrics())
}

/// An iterator over the groups that have metrics.
struct ResourceGroups<'a> {
    call: &'a Call<'a>,
    asked: &'a ResourcesQuery<'a>,
    names: Names<'a>,
    policies: Policies,
    keyed: std::vec::IntoIter<Group<'a>>,
}

impl<'a> ResourceGroups<'a> {
    async fn resources(
        call: &Call<'_>,
        asked: &'a ResourcesQuery<'a>,
    ) -> Result<(Fields<'a>, Vec<Arc<Resource>>)> {
        let fields = asked.fields(call).await?;
        let resources = fields.list(call, asked.wanted(&Names::of(asked.operations)?)).await?;
        check_count(call, resources.len())?;
        Ok((fields, resources))
    }

    fn of(
        call: &'a Call<'a>,
        asked: &'a ResourcesQuery<'a>,
        fields: &Fields<'_>,
        resources: &'a [Arc<Resource>],
    ) -> Result<Self> {
        let names = Names::of(asked.operations)?;
        let keyed = fields.group_by(resources)?;
        check_groups(asked.operations, keyed.len())?;
        Ok(ResourceGroups { call, asked, names, policies: Policies::default(), keyed: keyed.into_iter() })
    }

    async fn next(&mut self) -> Result<Option<ResourceGroup>> {
        let (call, asked) = (self.call, self.asked);
        for (key, resources) in self.keyed.by_ref() {
            let references = references::of_resources(call, resources, &self.names)?;
            if references.is_empty() {
                continue;
            }
            let operations = asked.operations;
            let query =
                references::query(call, &mut self.policies, &references, operations, &asked.arguments)
                    .await?;
            if let Some(by_time) = asked.by_time {
                by_time.check(if operations.is_aggregated() { 1 } else { references.len() })?;
                if asked.details {
                    by_time.check_details(call, references.len())?;
                }
            }
            let (by_time, details) = (asked.by_time, asked.details);
            return Ok(Some(ResourceGroup { key, by_time, references, query, details }));
        }
        Ok(None)
    }
}

/// The resources with equal values in the `groupby` fields.
struct ResourceGroup {
    key: Value,
    by_time: Option<ByTime>,
    references: Vec<Reference>,
    query: CrossMeasuresQuery,
    details: bool,
}

impl GroupPart for ResourceGroup {
    async fn write(&self, engine: &Engine, document: &mut Document) -> Result<()> {
        let measures = engine.cross_measures(self.query.clone()).await?;
        if let Some(by_time) = self.by_time {
            let groups = by_time.split(engine, measures).await;
            return by_time.write(document, &self.key, groups, |document, measures| {
                write_measures(document, self.details, &self.references, measures)
            });
        }
        document
            .group(&self.key, |document| write_measures(document, self.details, &self.references, measures))
    }

    fn series(&self) -> usize {
        self.references.len()
    }
}

fn write_measures(
    document: &mut Document,
    details: bool,
    references: &[Reference],
    measures: Vec<CrossMeasures>,
) -> Result<()> {
    answer::write(document, references, measures, |document| {
        if !details {
            return Ok(());
        }
        let resources = references.iter().filter_map(|reference| reference.resource.as_ref());
        write_resources(document, resources)
    })
}

/// Appends the distinct resources of the series.
fn write_resources<'r>(
    document: &mut Document,
    resources: impl Iterator<Item = &'r Arc<Resource>>,
) -> Result<()> {
    let mut seen = HashSet::new();
    document.text(", \"references\": [");
    for resource in resources {
        if !seen.insert(Arc::as_ptr(resource)) {
            continue;
        }
        document.text(if seen.len() > 1 { ", " } else { "" });
        document.write(|out| write(resource, &[], out))?;
    }
    document.text("]");
    Ok(())
}

/// Which resources to list for an aggregation.
pub(crate) struct Wanted<'a> {
    pub resource_type: &'a str,
    pub filter: Option<Filter>,
    /// Whether to include former revisions.
    pub history: bool,
    /// The metrics to load with them; `None` for all.
    pub metric_names: Option<Vec<String>>,
    /// Whether to omit attributes; those in `sorts` are still compared.
    pub omits_attributes: bool,
}

/// Lists the resources in the order of `sorts`; with `details`, with the attributes of their own types. Lists
/// one more than [`check_count`] allows.
pub(super) async fn list(
    call: &Call<'_>,
    wanted: Wanted<'_>,
    details: bool,
    sorts: &[impl AsRef<str>],
) -> Result<Vec<Arc<Resource>>, IndexerError> {
    // Nulls come last, as in PostgreSQL.
    let sort = |text: &str| resource_sort(text, SortDirection::AscendingNullsLast);
    let sorts = sorts.iter().map(|text| sort(text.as_ref())).collect::<Result<_, _>>()?;
    let limit = call.app.options().limits.aggregate_references_max + 1;
    let Wanted { resource_type, filter, history, metric_names, omits_attributes } = wanted;
    let listing = ResourceListing {
        resource_type: resource_type.to_owned(),
        filter,
        history,
        details,
        omits_attributes,
        metric_names,
        page: ResourcePage { limit: Some(limit), marker: None, sorts },
        now: call.resource_now(),
    };
    call.indexer().list_resources(&listing).await
}
