//! Takes over what a Gnocchi holds: archive policies, rules, resource types, resources with their revisions, metrics with their ids, the
//! aggregates, the points of the back window, and the measures that wait.
//!
//! `index` reads Gnocchi's database, `source` its storage and its incoming, `carbonara` the bytes of its series; `gnudi_series` makes heads
//! of them. Nothing is changed there. A further import brings an earlier one up to date: of each metric what Gnocchi has got since is
//! added, and what has not changed is left as it is. So an import that was cut short is run again.

pub mod carbonara;
pub mod export;
pub mod index;
mod resources;
mod series;
pub mod source;
pub mod verify;

use std::{collections::HashMap, sync::Arc};

use gnudi_drivers::aggregates::{AggregateStore, StoreError};
use gnudi_indexer::{Indexer, IndexerError, NewMetric};
use gnudi_model::{MetricId, Timestamp};
use gnudi_series::head::Layout;

use index::{Index, IndexError};
use series::SeriesSource;
use source::{Incoming, SourceError, Storage};

/// Where the import reads.
pub struct Source {
    pub index: Index,
    pub storage: Arc<dyn Storage>,
    pub incoming: Arc<dyn Incoming>,
}

/// Where the import writes: a store in which no process folds measures.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub indexer: &'a dyn Indexer,
    pub aggregates: &'a dyn AggregateStore,
    /// The time of the import.
    pub now: Timestamp,
}

/// What an import has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub archive_policies: u64,
    pub archive_policy_rules: u64,
    pub resource_types: u64,
    pub resources: u64,
    pub revisions: u64,
    /// Of those that Gnocchi has.
    pub metrics: u64,
    /// How many metrics Gnocchi has.
    pub metrics_total: u64,
    /// Imported before, and the same since.
    pub metrics_unchanged: u64,
    /// Imported before, and brought up to date.
    pub metrics_continued: u64,
    pub buckets: u64,
    /// That waited, or that have come since an earlier import.
    pub measures: u64,
    /// Buckets inside the back window that later points do not change any more ([`gnudi_series::head::ImportOutcome`]).
    pub buckets_finalised: u64,
    /// What was left out, and why.
    pub skipped: Vec<String>,
}

/// Why an import stopped. What was imported before stays, and the same import goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("reading Gnocchi's storage: {0}")]
    Storage(#[from] SourceError),
    #[error("reading Gnocchi's incoming measures: {0}")]
    Incoming(SourceError),
    #[error("the archive policy {0} is there already, and is another one: import into an empty store")]
    OtherArchivePolicy(String),
    #[error("the resource type {0} is there already, and is another one: import into an empty store")]
    OtherResourceType(String),
    #[error("the resource {0} is there already, with metrics: import into an empty store")]
    OtherResource(uuid::Uuid),
    #[error("the stored state of metric {metric} is damaged: {reason}")]
    Head { metric: uuid::Uuid, reason: String },
    #[error(
        "workers of gnudi have folded measures in this store already ({0}): import into one that nobody has used"
    )]
    TargetInUse(StoreError),
    #[error("writing the index: {0}")]
    Indexer(#[from] IndexerError),
    #[error("writing the aggregates: {0}")]
    Aggregates(StoreError),
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced { .. } => ImportError::TargetInUse(error),
            error => ImportError::Aggregates(error),
        }
    }
}

/// Told what was done so far, now and then.
pub type Tell<'a> = &'a mut (dyn FnMut(&Report) + Send);

/// Imports everything.
pub async fn import(source: &mut Source, target: Target<'_>, tell: Tell<'_>) -> Result<Report, ImportError> {
    let mut report = Report { metrics_total: source.index.count_metrics().await?, ..Report::default() };
    source.incoming.refresh().await.map_err(ImportError::Incoming)?;
    let layouts = Arc::new(archive_policies(source, target, &mut report).await?);
    resource_types_and_resources(source, target, &mut report, tell).await?;
    let (storage, incoming) = (source.storage.clone(), source.incoming.clone());
    let series = SeriesSource { storage, incoming, layouts };
    metrics(source, &series, target, &mut report, tell).await?;
    target.aggregates.sync().await?;
    Ok(report)
}

async fn archive_policies(
    source: &mut Source,
    target: Target<'_>,
    report: &mut Report,
) -> Result<HashMap<String, Layout>, ImportError> {
    let policies = source.index.archive_policies().await?;
    for policy in &policies {
        match target.indexer.archive_policy(&policy.name).await? {
            Some(there) if *there == *policy => {}
            Some(_) => return Err(ImportError::OtherArchivePolicy(policy.name.clone())),
            None => target.indexer.create_archive_policy(policy.clone()).await?,
        }
        report.archive_policies += 1;
    }
    for rule in source.index.archive_policy_rules().await? {
        match target.indexer.create_archive_policy_rule(rule).await {
            Ok(()) | Err(IndexerError::ArchivePolicyRuleAlreadyExists(_)) => report.archive_policy_rules += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(policies.iter().map(|policy| (policy.name.clone(), Layout::of(policy))).collect())
}

async fn resource_types_and_resources(
    source: &mut Source,
    target: Target<'_>,
    report: &mut Report,
    tell: Tell<'_>,
) -> Result<(), ImportError> {
    let mut types = source.index.resource_types().await?;
    for source in &types {
        let resource_type = &source.resource_type;
        match target.indexer.resource_type(&resource_type.name).await? {
            Some(there) if there.attributes == resource_type.attributes => {}
            Some(_) => return Err(ImportError::OtherResourceType(resource_type.name.to_string())),
            None => target.indexer.create_resource_type(resource_type.clone()).await?,
        }
        report.resource_types += 1;
    }
    types.push(Index::generic());
    for resource_type in &types {
        let mut behind = None;
        loop {
            let some = source.index.resources(resource_type, behind).await?;
            let Some(last) = some.last() else { break };
            behind = Some(last.id);
            for resource in some {
                report.revisions += resource.revisions.len() as u64;
                let name = &resource_type.resource_type.name;
                resources::import(target, name, resource, &mut report.skipped).await?;
                report.resources += 1;
                tell(report);
            }
        }
    }
    Ok(())
}

async fn metrics(
    source: &mut Source,
    series: &SeriesSource,
    target: Target<'_>,
    report: &mut Report,
    tell: Tell<'_>,
) -> Result<(), ImportError> {
    let mut behind = None;
    loop {
        let some = source.index.metrics(behind, target.now).await?;
        let Some(last) = some.last() else { return Ok(()) };
        behind = Some(last.id);
        for some in some.chunks(series::METRICS_AT_ONCE) {
            let there = create(target, some, report).await?;
            series::import(series, target, &there, report).await?;
            report.metrics += some.len() as u64;
            tell(report);
        }
    }
}

/// Creates those that are not there; answers those that are there then.
async fn create(
    target: Target<'_>,
    metrics: &[NewMetric],
    report: &mut Report,
) -> Result<Vec<NewMetric>, ImportError> {
    let ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
    let known = target.indexer.metrics(&ids).await?;
    let (mut there, mut missing) = (Vec::with_capacity(metrics.len()), Vec::new());
    for (metric, known) in metrics.iter().zip(known) {
        if known.is_some() { there.push(metric.clone()) } else { missing.push(metric.clone()) }
    }
    let created = target.indexer.create_metrics(missing.clone()).await;
    for (metric, created) in missing.into_iter().zip(created) {
        match created {
            Ok(_) => there.push(metric),
            Err(error @ (IndexerError::NamedMetricAlreadyExists(_) | IndexerError::NoSuchResource(_))) => {
                report.skipped.push(format!("metric {}: {error}", metric.id.0));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(there)
}
