//! Creates missing metrics of resources when measures arrive for them.

use std::{collections::HashSet, sync::Arc};

use gnudi_app::may_be_made;
use gnudi_indexer::{IndexerError, NewMetric};
use gnudi_model::Metric;
use uuid::Uuid;

use crate::{
    measures::named::{Named, NamedMetric, NamedResource},
    routes::{metric::definition, prelude::*, resource},
};

/// The error for unknown metrics.
pub fn unknown(named: &Named<'_>, found: &[Option<Arc<Metric>>]) -> ApiError {
    let missing = (0..found.len()).filter(|index| found[*index].is_none()).map(|index| named.key(index));
    let mut names: Vec<String> = missing.map(|(resource, name)| format!("{resource}/{name}")).collect();
    names.sort_unstable();
    ApiError::bad_request(format!("Unknown metrics: {}", names.join(", ")))
}

/// Creates the missing metrics; returns all metrics, one per name. Changes nothing before all checks have
/// passed.
///
/// # Errors
/// 400 for an invalid name, a metric without an archive policy, or an unknown resource; 403 if the caller may
/// not post to one of the existing metrics.
pub async fn create(
    call: &Call<'_>,
    named: &Named<'_>,
    mut found: Vec<Option<Arc<Metric>>>,
) -> Result<Vec<Arc<Metric>>> {
    let missing: Vec<usize> = (0..found.len()).filter(|index| found[*index].is_none()).collect();
    let new = definitions(call, named, &missing).await?;
    call.enforce_all(Rule::PostMeasures, found.iter().flatten()).await?;
    call.admit_metrics(new.len()).await?;
    let (mut again, mut gone) = (Vec::new(), HashSet::new());
    let (mut lost, mut refusal): (usize, Option<ApiError>) = (0, None);
    for (index, made) in missing.into_iter().zip(call.create_metrics(new).await) {
        lost += usize::from(!may_be_made(&made));
        match made {
            Ok(metric) => found[index] = Some(metric),
            Err(IndexerError::NamedMetricAlreadyExists(_)) => again.push(index),
            Err(IndexerError::NoSuchResource(id)) => {
                gone.insert(id);
            }
            Err(IndexerError::NoSuchArchivePolicy(name)) => {
                refusal.get_or_insert_with(|| unknown_policy(&name, &named.metrics[index]));
            }
            Err(error) => {
                refusal.get_or_insert_with(|| error.into());
            }
        }
    }
    call.metrics_are_created(lost);
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    if !gone.is_empty() {
        return Err(unknown_resources(named.resources.iter().filter(|resource| gone.contains(&resource.id))));
    }
    // A concurrent request has created these.
    let keys: Vec<(Uuid, &str)> = again.iter().map(|index| named.key(*index)).collect();
    for (index, metric) in again.into_iter().zip(call.indexer().named_metrics(&keys).await?) {
        found[index] = metric;
    }
    let all = found.into_iter().collect::<Option<Vec<_>>>();
    let all = all.ok_or_else(|| ApiError::unavailable("Other requests change the same metrics"))?;
    call.enforce_all(Rule::PostMeasures, &all).await?;
    Ok(all)
}

/// The definitions of the missing metrics. As in Gnocchi, checks in body order, and of an unknown resource
/// only the first metric.
async fn definitions(call: &Call<'_>, named: &Named<'_>, missing: &[usize]) -> Result<Vec<NewMetric>> {
    let resources = missing.iter().map(|index| named.key(*index).0).collect();
    let known = resource::by_ids(call, resources).await?;
    let mut policies = HashSet::new();
    let mut unknown: Vec<usize> = Vec::new();
    let mut new = Vec::with_capacity(missing.len());
    for &index in missing {
        let given = &named.metrics[index];
        if unknown.last() == Some(&given.resource) {
            continue;
        }
        let metric = new_metric(call, given).await?;
        let resource = named.resources[given.resource].id;
        if !known.contains_key(&resource) {
            unknown.push(given.resource);
            continue;
        }
        check_policy(call, &metric.archive_policy_name, given, &mut policies).await?;
        new.push(NewMetric { resource_id: Some(resource), ..metric });
    }
    if unknown.is_empty() {
        // Stricter than Gnocchi, where anybody may add metrics to any resource here, and only here.
        known
            .values()
            .try_for_each(|resource| call.enforce(Rule::UpdateResource, Target::Resource(resource)))?;
        return Ok(new);
    }
    Err(unknown_resources(unknown.into_iter().map(|resource| &named.resources[resource])))
}

async fn new_metric(call: &Call<'_>, metric: &NamedMetric<'_>) -> Result<NewMetric> {
    let entries = [("archive_policy_name", &metric.archive_policy_name), ("unit", &metric.unit)];
    let given = entries
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), Value::from(&**value.as_ref()?))));
    let document = Value::Object(given.collect());
    let given = definition::check(&document, &call.caller.user, Some(&metric.name))?;
    definition::complete(call, given, &mut HashSet::new()).await
}

/// Refuses an unknown archive policy of a metric; `known` caches existing ones.
async fn check_policy(
    call: &Call<'_>,
    name: &str,
    metric: &NamedMetric<'_>,
    known: &mut HashSet<String>,
) -> Result<()> {
    let indexer = call.indexer();
    if known.contains(name) || indexer.cached_policy(name).is_some() {
        return Ok(());
    }
    match indexer.archive_policy(name).await {
        // The measures of a damaged policy's metrics wait until it is repaired.
        Ok(Some(_)) | Err(IndexerError::DamagedItem { .. }) => {}
        Ok(None) => return Err(unknown_policy(name, metric)),
        Err(error) => return Err(error.into()),
    }
    known.insert(name.to_owned());
    Ok(())
}

/// The error for an archive policy of a metric that does not exist. If a rule has chosen it, another process has deleted
/// the rule, too, which stays in the cache for a moment.
fn unknown_policy(name: &str, metric: &NamedMetric<'_>) -> ApiError {
    if metric.archive_policy_name.is_none() {
        return ApiError::unavailable("The archive policy rules are being changed");
    }
    ApiError::bad_request(IndexerError::NoSuchArchivePolicy(name.to_owned()).to_string())
}

/// The error for unknown resources; Ceilometer creates them and retries.
fn unknown_resources<'n>(resources: impl Iterator<Item = &'n NamedResource<'n>>) -> ApiError {
    let resource = |resource: &NamedResource<'_>| {
        Value::object([
            ("resource_id", resource.id.to_string().into()),
            ("original_resource_id", (*resource.original_id).into()),
        ])
    };
    ApiError::bad_request(Value::cause("Unknown resources", Value::Array(resources.map(resource).collect())))
}
