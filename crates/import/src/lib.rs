//! Takes over what a Gnocchi holds: archive policies, rules, resource types, resources with their revisions, metrics with their ids, the
//! aggregates, the points of the back window, and the measures that wait.
//!
//! `index` reads Gnocchi's database, `files` its driver `file`, `carbonara` the bytes of its series; `gnudi_series` makes heads of them.
//! Nothing is changed there. What was imported already is left as it is, so that an import that was cut short is run again.

pub mod carbonara;
pub mod files;
pub mod index;
mod resources;
mod series;

use std::collections::HashMap;

use gnudi_drivers::{
    aggregates::{AggregateStore, StoreError},
    incoming::{Append, IncomingError},
};
use gnudi_indexer::{Indexer, IndexerError, NewMetric};
use gnudi_model::{ArchivePolicy, MetricId, Timestamp};
use gnudi_series::head::Layout;

use files::{FileIncoming, FileStorage};
use index::{Index, IndexError, SourceMetric};

/// Where the import reads.
#[derive(Debug)]
pub struct Source {
    pub index: Index,
    pub storage: FileStorage,
    pub incoming: FileIncoming,
}

/// Where the import writes: a store that no other process has open.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub indexer: &'a dyn Indexer,
    pub incoming: &'a dyn Append,
    pub aggregates: &'a dyn AggregateStore,
    /// The time of the import.
    pub now: Timestamp,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub resources: u64,
    pub metrics: u64,
    /// Of all metrics that are to be imported.
    pub metrics_total: u64,
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub archive_policies: u64,
    pub archive_policy_rules: u64,
    pub resource_types: u64,
    pub resources: u64,
    pub revisions: u64,
    pub metrics: u64,
    /// Those whose series were there already, from an import that was cut short.
    pub metrics_there: u64,
    pub buckets: u64,
    /// Measures that waited.
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
    Storage(#[from] std::io::Error),
    #[error("the archive policy {0} is there already, and is another one: import into an empty store")]
    OtherArchivePolicy(String),
    #[error("the resource type {0} is there already, and is another one: import into an empty store")]
    OtherResourceType(String),
    #[error("the resource {0} is there already, with metrics: import into an empty store")]
    OtherResource(uuid::Uuid),
    #[error("writing the index: {0}")]
    Indexer(#[from] IndexerError),
    #[error("writing the aggregates: {0}")]
    Aggregates(#[from] StoreError),
    #[error("writing measures that wait: {0}")]
    Incoming(#[from] IncomingError),
}

/// Imports everything. `tell` is called now and then.
pub async fn import(
    source: &mut Source,
    target: Target<'_>,
    tell: &mut (dyn FnMut(Progress) + Send),
) -> Result<Report, ImportError> {
    let mut report = Report::default();
    let mut progress = Progress { metrics_total: source.index.count_metrics().await?, ..Progress::default() };
    let policies = archive_policies(source, target, &mut report).await?;
    resource_types_and_resources(source, target, &mut report, &mut progress, tell).await?;
    metrics(source, target, &policies, &mut report, &mut progress, tell).await?;
    target.aggregates.sync().await?;
    Ok(report)
}

async fn archive_policies(
    source: &mut Source,
    target: Target<'_>,
    report: &mut Report,
) -> Result<HashMap<String, ArchivePolicy>, ImportError> {
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
    Ok(policies.into_iter().map(|policy| (policy.name.clone(), policy)).collect())
}

async fn resource_types_and_resources(
    source: &mut Source,
    target: Target<'_>,
    report: &mut Report,
    progress: &mut Progress,
    tell: &mut (dyn FnMut(Progress) + Send),
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
                progress.resources += 1;
                tell(*progress);
            }
        }
    }
    Ok(())
}

async fn metrics(
    source: &mut Source,
    target: Target<'_>,
    policies: &HashMap<String, ArchivePolicy>,
    report: &mut Report,
    progress: &mut Progress,
    tell: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), ImportError> {
    let layouts: HashMap<&str, Layout> =
        policies.iter().map(|(name, policy)| (name.as_str(), Layout::of(policy))).collect();
    let mut behind = None;
    loop {
        let some = source.index.metrics(behind).await?;
        let Some(last) = some.last() else { return Ok(()) };
        behind = Some(last.id);
        for some in some.chunks(series::METRICS_AT_ONCE) {
            create(target, some, report).await?;
            series::import((&source.storage, &source.incoming), target, &layouts, some, report).await?;
            progress.metrics += some.len() as u64;
            tell(*progress);
        }
    }
}

/// Creates those that are not there.
async fn create(
    target: Target<'_>,
    metrics: &[SourceMetric],
    report: &mut Report,
) -> Result<(), ImportError> {
    let new = |metric: &SourceMetric| NewMetric {
        id: metric.id,
        creator: metric.creator.clone(),
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        archive_policy_name: metric.archive_policy_name.clone(),
        resource_id: metric.resource_id,
        created_at: target.now,
    };
    let ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
    let there = target.indexer.metrics(&ids).await?;
    let missing: Vec<&SourceMetric> =
        metrics.iter().zip(&there).filter(|(_, there)| there.is_none()).map(|(metric, _)| metric).collect();
    let created = target.indexer.create_metrics(missing.iter().map(|metric| new(metric)).collect()).await;
    for (metric, created) in missing.iter().zip(created) {
        match created {
            Ok(_) => {}
            Err(error @ (IndexerError::NamedMetricAlreadyExists(_) | IndexerError::NoSuchResource(_))) => {
                report.skipped.push(format!("metric {}: {error}", metric.id.0));
            }
            Err(error) => return Err(error.into()),
        }
    }
    report.metrics += metrics.len() as u64;
    Ok(())
}
