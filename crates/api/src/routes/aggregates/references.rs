//! What operations refer to: metrics with one of their aggregations, and where in the answer their points stand.

use std::{collections::HashMap, sync::Arc};

use gnudi_engine::{CrossMeasuresQuery, CrossReference};
use gnudi_indexer::{IndexerError, fnmatch::fnmatch};
use gnudi_model::{ArchivePolicy, Metric, Resource, Text};
use gnudi_series::{
    cross::CrossMeasures,
    operations::{MetricName, Operation},
};

use super::Arguments;
use crate::{error::ApiError, router::Call};

/// A metric and one of its aggregations.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub metric: Arc<Metric>,
    /// Whose metric it is, where it was found as a resource's.
    pub resource: Option<Arc<Resource>>,
    /// What the operations call it.
    pub name: MetricName,
}

impl Reference {
    /// The keys in the answer under which its points stand.
    pub fn path(&self) -> Vec<String> {
        let metric = match &self.resource {
            None => return vec![self.metric.id.to_string(), self.name.aggregation.clone()],
            Some(_) => self.metric.name.as_deref().unwrap_or_default().to_owned(),
        };
        let resource = self.resource.iter().map(|resource| resource.id.to_string());
        resource.chain([metric, self.name.aggregation.clone()]).collect()
    }

    /// What error texts call it.
    fn shown_name(&self) -> String {
        match (&self.resource, &self.metric.name) {
            (Some(_), Some(name)) => name.to_string(),
            _ => self.metric.id.to_string(),
        }
    }
}

/// The metrics of resources that the names match, resource by resource; refused where they are too many.
pub(super) fn of_resources(
    call: &Call<'_>,
    resources: &[Arc<Resource>],
    names: &[&MetricName],
) -> Result<Vec<Reference>, ApiError> {
    let mut references = Vec::new();
    for resource in resources {
        for name in names {
            let is_pattern = name.name.contains(['*', '?', '[']);
            let matches = |metric: &&Arc<Metric>| match metric.name.as_deref() {
                Some(known) if is_pattern => fnmatch(known, &name.name),
                known => known == Some(&*name.name),
            };
            references.extend(resource.metrics.iter().filter(matches).map(|metric| Reference {
                metric: metric.clone(),
                resource: Some(resource.clone()),
                name: (*name).clone(),
            }));
        }
        check_count(call, references.len())?;
    }
    Ok(references)
}

/// Refuses (413) more resources or metrics than [`crate::Limits::aggregate_references_max`].
pub(crate) fn check_count(call: &Call<'_>, count: usize) -> Result<(), ApiError> {
    let max = call.app.options().limits.aggregate_references_max;
    if count > max {
        return Err(ApiError::too_large(format!(
            "There are more than {max} resources or metrics to aggregate"
        )));
    }
    Ok(())
}

/// The archive policies of metrics, each looked up once.
#[derive(Default)]
pub(crate) struct Policies(HashMap<Text, Arc<ArchivePolicy>>);

impl Policies {
    pub async fn of(&mut self, call: &Call<'_>, metric: &Metric) -> Result<Arc<ArchivePolicy>, ApiError> {
        let name = &metric.archive_policy_name;
        if let Some(policy) = self.0.get(name) {
            return Ok(policy.clone());
        }
        let found = call.app.engine().indexer().archive_policy(name).await?;
        let policy = found.ok_or_else(|| IndexerError::NoSuchArchivePolicy(name.to_string()))?;
        self.0.insert(name.clone(), policy.clone());
        Ok(policy)
    }
}

/// Computes the operations on the references' series.
pub(super) async fn measures(
    call: &Call<'_>,
    policies: &mut Policies,
    references: &[Reference],
    operations: &Operation,
    arguments: &Arguments,
) -> Result<Vec<CrossMeasures>, ApiError> {
    call.reads_metrics(references.len());
    let mut asked = Vec::with_capacity(references.len());
    for reference in references {
        asked.push(CrossReference {
            metric: reference.metric.id,
            policy: policies.of(call, &reference.metric).await?,
            shown_name: reference.shown_name(),
            name: reference.name.clone(),
        });
    }
    let query = CrossMeasuresQuery {
        references: asked,
        operations: operations.clone(),
        granularities: arguments.granularities(),
        start: arguments.start,
        stop: arguments.stop,
        needed_overlap: arguments.needed_overlap(),
        fill: arguments.fill,
    };
    Ok(call.app.engine().cross_measures(query).await?)
}
