//! Measures whose resources and metrics are created with their first measure: the write APIs of `InfluxDB`
//! and Prometheus.
//!
//! [`deliver`] finds the metrics, in memory if all are cached; creates missing ones, with the destination's
//! archive policy or that of the archive policy rules; and passes the measures to the engine. All checks come
//! before the first change. Concurrent requests that create the same things all succeed. What is damaged in the index is
//! left out, and reported.

mod known;
mod left_out;
mod parcel;

use std::{
    collections::{HashMap, HashSet},
    iter,
    sync::Arc,
};

use futures_util::future;
use gnudi_access::{Rule, Target};
use gnudi_drivers::incoming::Batch;
use gnudi_indexer::{IndexerError, MetricsChange, NewNamedMetric, NewResource, ResourceChange};
use gnudi_model::{Metric, Resource, ResourceType, Timestamp, resource_type::GENERIC};
use gnudi_series::points;
use hyper::StatusCode;
use uuid::Uuid;

pub use known::KnownResources;
pub use left_out::{LeftOut, LookedUp, named_metrics};
pub use parcel::{Parcel, Parcels};

use crate::{
    call::{Call, may_be_made, no_policy},
    error::{ApiError, Result},
    json::Value,
};

/// How many resources are looked up at the same time: one by one, each costs a change of threads.
const LOOK_UPS_AT_ONCE: usize = 64;

/// How many resources get metrics at the same time: their changes share transactions.
const CHANGES_AT_ONCE: usize = 64;

/// How many times creation is retried after losing a race with another request.
const ATTEMPTS_MAX: usize = 16;

/// Where measures go.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The type of the resources.
    pub resource_type: &'a str,
    /// The type to create if it is missing; with `None` the request is refused (404).
    pub type_to_create: Option<&'a ResourceType>,
    /// The archive policy of new metrics; without it, or if it does not exist, the archive policy rules
    /// choose.
    pub archive_policy: Option<&'a str>,
}

/// The metrics of a request.
#[derive(Debug)]
pub struct Found {
    /// Of each parcel, in its order.
    pub metrics: Vec<Vec<Arc<Metric>>>,
    /// No longer in the parcels.
    pub left_out: LeftOut,
}

/// Stores the measures of a request: all or none, except for what is damaged.
///
/// # Errors
/// Those of [`find_or_make`].
pub async fn deliver(call: &Call<'_>, to: Destination<'_>, mut parcels: Parcels) -> Result<LeftOut> {
    if parcels.iter().next().is_none() {
        call.has_no_items(Rule::PostMeasures);
        return Ok(LeftOut::default());
    }
    let mut batch = Batch::default();
    let found = find_or_make(call, to, &mut parcels).await?;
    if parcels.metrics() == 0 {
        call.has_no_items(Rule::PostMeasures);
    }
    for (parcel, metrics) in parcels.iter().zip(&found.metrics) {
        for (measures, metric) in parcel.measures().zip(metrics) {
            batch.push(metric.id, measures.len() as u32, |out| points::encode(measures, out));
        }
    }
    call.append(batch).await?;
    Ok(found.left_out)
}

/// The metrics of each parcel, in its order; the caller may post to all of them. Damaged ones are left out of the parcels.
///
/// # Errors
/// 400 if no rule matches a metric, 403 if the policy denies a resource or metric, 404 if the type is
/// missing, 409 if a resource has another type, 413 if there are too many metrics.
pub async fn find_or_make(call: &Call<'_>, to: Destination<'_>, parcels: &mut Parcels) -> Result<Found> {
    call.app.options().limits.check_metrics(parcels.metrics())?;
    let found: Vec<Option<Vec<Arc<Metric>>>> =
        parcels.iter().map(|parcel| known_metrics(call, to.resource_type, parcel)).collect();
    match found.iter().cloned().collect::<Option<Vec<_>>>() {
        Some(metrics) => Ok(Found { metrics, left_out: LeftOut::default() }),
        None => make(call, to, parcels, found).await,
    }
}

/// The metrics of a parcel, in its order, if all are cached and the caller may post to them.
fn known_metrics(call: &Call<'_>, resource_type: &str, parcel: &Parcel) -> Option<Vec<Arc<Metric>>> {
    let indexer = call.indexer();
    let known = indexer.cached_metric(call.app.known_resources.metric_of(parcel.id, resource_type)?)?;
    if known.resource_id != Some(parcel.id) || call.may_be_refused_for_resource(Rule::PostMeasures) {
        return None;
    }
    let metric = |name| {
        indexer
            .cached_named_metric(parcel.id, name)
            .filter(|metric| call.allows(Rule::PostMeasures, Target::Metric(metric, None)))
    };
    parcel.names().map(metric).collect()
}

/// What a parcel needs, after all checks have passed.
enum Step {
    Nothing(Vec<Arc<Metric>>),
    Create(Vec<(String, MetricsChange)>),
    AddMetrics(Vec<(String, MetricsChange)>),
}

/// The names of new metrics without a policy, and why: a damaged archive policy rule may match them.
type WithoutPolicy = (HashSet<String>, IndexerError);

async fn make(
    call: &Call<'_>,
    to: Destination<'_>,
    parcels: &mut Parcels,
    mut found: Vec<Option<Vec<Arc<Metric>>>>,
) -> Result<Found> {
    let indexer = call.indexer();
    let exists = indexer.resource_type(to.resource_type).await?.is_some();
    let type_to_create = to.type_to_create.filter(|_| !exists);
    if !exists && type_to_create.is_none() {
        let error = IndexerError::NoSuchResourceType(to.resource_type.to_owned());
        return Err(ApiError::not_found(error.to_string()));
    }
    if let Some(resource_type) = type_to_create {
        call.enforce(Rule::CreateResourceType, Target::Given(&[("name", Some(&resource_type.name))]))?;
    }
    let mut left_out = LeftOut::default();
    for attempt in 0..ATTEMPTS_MAX {
        let now = call.resource_now();
        let steps = steps(call, to, parcels, &mut found, &mut left_out).await;
        let steps = steps.inspect_err(|_| call.metrics_are_created(usize::MAX))?;
        if let Some(resource_type) = type_to_create {
            match indexer.create_resource_type(resource_type.clone()).await {
                Ok(()) | Err(IndexerError::ResourceTypeAlreadyExists(_)) => {}
                Err(error) => {
                    call.metrics_are_created(usize::MAX);
                    return Err(error.into());
                }
            }
        }
        let mut lost = 0;
        let refused = carry_out(call, to.resource_type, parcels, steps, now, &mut found, &mut lost).await;
        call.metrics_are_created(lost);
        let refused = refused?;
        if found.iter().all(Option::is_some) {
            let metrics: Vec<Vec<_>> = found.into_iter().flatten().collect();
            for (parcel, metrics) in parcels.iter().zip(&metrics) {
                if let Some(metric) = metrics.first() {
                    call.app.known_resources.insert(parcel.id, to.resource_type, metric.id);
                }
            }
            left_out.log(call);
            return Ok(Found { metrics, left_out });
        }
        // Once: it costs queries for each metric, and most who come here have lost a race.
        let past_cache = attempt == 1;
        leave_out_damaged(call, parcels, &mut found, refused, past_cache, &mut left_out).await?;
    }
    Err(ApiError::unavailable("Other requests keep changing the same resources"))
}

/// What each parcel without metrics needs. Those of damaged resources are left out, and new metrics that get no policy since a
/// rule is damaged.
async fn steps(
    call: &Call<'_>,
    to: Destination<'_>,
    parcels: &mut Parcels,
    found: &mut [Option<Vec<Arc<Metric>>>],
    left_out: &mut LeftOut,
) -> Result<Vec<(usize, Step)>> {
    let missing: Vec<usize> = (0..found.len()).filter(|index| found[*index].is_none()).collect();
    let mut steps = Vec::with_capacity(missing.len());
    for part in missing.chunks(LOOK_UPS_AT_ONCE) {
        // With any type; a resource's own type may not exist yet.
        let look_ups = part.iter().map(|index| call.indexer().resource(GENERIC, parcels.get(*index).id));
        let resources = future::join_all(look_ups).await;
        // In order: the ids of new metrics have that of the request's series.
        for (&index, resource) in part.iter().zip(resources) {
            match resource {
                Err(error @ IndexerError::DamagedResource { .. }) => {
                    left_out.add(parcels.leave_out(index, iter::repeat(true)), [error]);
                    found[index] = Some(Vec::new());
                }
                resource => {
                    let resource = resource?;
                    let next = loop {
                        match step(call, to, parcels.get(index), resource.clone()).await? {
                            Ok(next) => break next,
                            Err((names, reason)) => {
                                let marks: Vec<bool> =
                                    parcels.get(index).names().map(|name| names.contains(name)).collect();
                                left_out.add(parcels.leave_out(index, marks), [reason]);
                            }
                        }
                    };
                    if parcels.get(index).names().next().is_none() {
                        found[index] = Some(Vec::new());
                    } else {
                        steps.push((index, next));
                    }
                }
            }
        }
    }
    Ok(steps)
}

/// Leaves out what was neither found nor made: metrics with a damaged row, which keep their names while their resources are
/// read without them; and new metrics of resources that cannot be changed (`refused`, with the reason). `past_cache`: also
/// those whose row was damaged after they were cached.
async fn leave_out_damaged(
    call: &Call<'_>,
    parcels: &mut Parcels,
    found: &mut [Option<Vec<Arc<Metric>>>],
    mut refused: HashMap<usize, IndexerError>,
    past_cache: bool,
    left_out: &mut LeftOut,
) -> Result<()> {
    let missing: Vec<usize> = (0..found.len()).filter(|index| found[*index].is_none()).collect();
    let tried = missing.iter().map(|index| parcels.get(*index));
    let names: Vec<(Uuid, &str)> =
        tried.flat_map(|parcel| parcel.names().map(move |name| (parcel.id, name))).collect();
    let mut looked_up = named_metrics(call, &names).await?;
    if past_cache {
        look_past_cache(call, &mut looked_up).await;
    }
    let mut looked_up = looked_up.into_iter();
    for index in missing {
        let refusal = refused.remove(&index);
        let of_parcel: Vec<LookedUp> = looked_up.by_ref().take(parcels.get(index).names().count()).collect();
        let is_left_out = |metric: &LookedUp| match metric {
            Ok(None) => refusal.is_some(),
            metric => metric.is_err(),
        };
        let measures = parcels.leave_out(index, of_parcel.iter().map(is_left_out));
        if parcels.get(index).names().next().is_none() {
            found[index] = Some(Vec::new());
        }
        left_out.add(measures, of_parcel.into_iter().filter_map(LookedUp::err).chain(refusal));
    }
    Ok(())
}

/// Looks metrics up in the index itself, and replaces those that are damaged there.
async fn look_past_cache(call: &Call<'_>, looked_up: &mut [LookedUp]) {
    for part in looked_up.chunks_mut(LOOK_UPS_AT_ONCE) {
        let look_ups = part.iter_mut().map(|found| async move {
            let Ok(Some(metric)) = found else { return };
            let current = call.indexer().current_metric(metric.id).await;
            if let Err(error @ IndexerError::DamagedMetric { .. }) = current {
                *found = Err(error);
            }
        });
        future::join_all(look_ups).await;
    }
}

/// Decides what a parcel needs, given its resource if that exists, without changing anything.
async fn step(
    call: &Call<'_>,
    to: Destination<'_>,
    parcel: &Parcel,
    resource: Option<Arc<Resource>>,
) -> Result<Result<Step, WithoutPolicy>> {
    let resource_type = to.resource_type;
    let Some(resource) = resource else {
        let id = parcel.id.to_string();
        let given = [
            ("resource_type", Some(resource_type)),
            ("id", Some(id.as_str())),
            ("creator", Some(call.caller.user.as_str())),
            ("original_resource_id", Some(parcel.original_resource_id.as_str())),
        ];
        call.enforce(Rule::CreateResource, Target::NewResource(&given, &parcel.attributes))?;
        let new = Resource {
            creator: call.caller.user.as_str().into(),
            original_resource_id: parcel.original_resource_id.as_str().into(),
            ..Resource::new(parcel.id, resource_type)
        };
        let names = parcel.names().zip(parcel.whole_names());
        return Ok(new_metrics(call, to, &new, names).await?.map(Step::Create));
    };
    if resource.resource_type.as_str() != resource_type {
        return Err(conflict(parcel.id));
    }
    let metrics = resource.metrics_named(parcel.names());
    call.enforce(Rule::UpdateResource, Target::Resource(&resource))?;
    call.enforce_all(Rule::PostMeasures, metrics.iter().flatten()).await?;
    let named = parcel.names().zip(parcel.whole_names()).zip(&metrics);
    let missing = named.filter(|(_, metric)| metric.is_none()).map(|(names, _)| names);
    let new = new_metrics(call, to, &resource, missing).await?;
    Ok(new.map(|new| match metrics.into_iter().collect() {
        Some(all) => Step::Nothing(all),
        None => Step::AddMetrics(new),
    }))
}

/// The metrics to create of a resource, with their archive policies; the caller may create them, and post to them.
async fn new_metrics(
    call: &Call<'_>,
    to: Destination<'_>,
    resource: &Resource,
    names: impl Iterator<Item = (&str, Option<&str>)>,
) -> Result<Result<Vec<(String, MetricsChange)>, WithoutPolicy>> {
    let (mut metrics, mut without_policy) = (Vec::new(), None::<WithoutPolicy>);
    let indexer = call.indexer();
    let own_policy = match to.archive_policy {
        Some(name) => match indexer.archive_policy(name).await {
            // The measures of its metrics wait until it is repaired.
            Err(IndexerError::DamagedItem { .. }) => Some(name.to_owned()),
            found => found?.map(|policy| policy.name.clone()),
        },
        None => None,
    };
    for (name, whole_name) in names {
        let archive_policy_name = match &own_policy {
            Some(policy) => policy.clone(),
            None => match indexer.archive_policy_name_for_metric(name).await {
                Err(error @ IndexerError::DamagedItem { .. }) => {
                    without_policy.get_or_insert((HashSet::new(), error)).0.insert(name.to_owned());
                    continue;
                }
                found => found.map_err(|error| no_policy(error, Some(name)))?,
            },
        };
        let given = [
            ("creator", Some(call.caller.user.as_str())),
            // Not the one that a rule has chosen.
            ("archive_policy_name", own_policy.as_deref()),
            ("resource_id", None),
            ("original_resource_id", None),
            ("name", Some(name)),
            ("unit", None),
        ];
        call.enforce(Rule::CreateMetric, Target::Given(&given))?;
        let id = call.new_metric_id();
        let metric = Metric {
            creator: resource.creator.clone(),
            name: Some(name.into()),
            archive_policy_name: archive_policy_name.as_str().into(),
            resource_id: Some(resource.id),
            ..Metric::new(id)
        };
        call.enforce(Rule::PostMeasures, Target::Metric(&metric, Some(resource)))?;
        let whole_name = whole_name.map(str::to_owned);
        let metric = NewNamedMetric { id, unit: None, archive_policy_name, whole_name };
        metrics.push((name.to_owned(), MetricsChange::Create(metric)));
    }
    if let Some(without_policy) = without_policy {
        return Ok(Err(without_policy));
    }
    call.admit_metrics(metrics.len()).await?;
    Ok(Ok(metrics))
}

/// Creates what is missing. A parcel that lost a race with another request gets no metrics and is tried
/// again. Returns the parcels whose damaged resources get no more. `lost`: how many metrics were not created, also of a
/// request that fails.
async fn carry_out(
    call: &Call<'_>,
    resource_type: &str,
    parcels: &Parcels,
    steps: Vec<(usize, Step)>,
    now: Timestamp,
    found: &mut [Option<Vec<Arc<Metric>>>],
    lost: &mut usize,
) -> Result<HashMap<usize, IndexerError>> {
    let (mut new, mut new_of, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let mut refused = HashMap::new();
    for (index, step) in steps {
        let parcel = parcels.get(index);
        match step {
            Step::Nothing(metrics) => found[index] = Some(metrics),
            Step::Create(metrics) => {
                *lost += metrics.len();
                new_of.push((index, metrics.len()));
                new.push(new_resource(call, resource_type, parcel, metrics, now));
            }
            Step::AddMetrics(metrics) => {
                *lost += metrics.len();
                added.push((index, metrics));
            }
        }
    }
    while !added.is_empty() {
        let part = added.drain(..added.len().min(CHANGES_AT_ONCE));
        let changes = part.map(|(index, metrics)| async move {
            let count = metrics.len();
            let change = ResourceChange {
                metrics: Some(metrics),
                append_metrics: true,
                now,
                ..ResourceChange::default()
            };
            let updated = call.update_resource(resource_type, parcels.get(index).id, change).await;
            (index, count, updated.map(|updated| updated.resource))
        });
        let changed = future::join_all(changes).await;
        let counted = changed.iter().filter(|(.., made)| may_be_made(made));
        *lost -= counted.map(|(_, count, _)| count).sum::<usize>();
        for (index, _, made) in changed {
            if let Err(error @ IndexerError::DamagedResource { .. }) = &made {
                refused.insert(index, error.clone());
            } else {
                found[index] = metrics_of(parcels.get(index), made)?;
            }
        }
    }
    let created = call.create_resources(new).await;
    let counted = new_of.iter().zip(&created).filter(|(_, made)| may_be_made(made));
    *lost -= counted.map(|((_, count), _)| count).sum::<usize>();
    for ((index, _), made) in new_of.into_iter().zip(created) {
        found[index] = metrics_of(parcels.get(index), made)?;
    }
    Ok(refused)
}

fn new_resource(
    call: &Call<'_>,
    resource_type: &str,
    parcel: &Parcel,
    metrics: Vec<(String, MetricsChange)>,
    now: Timestamp,
) -> NewResource {
    NewResource {
        original_resource_id: parcel.original_resource_id.clone(),
        attributes: parcel.attributes.clone(),
        metrics,
        ..NewResource::new(parcel.id, resource_type, &call.caller.user, now)
    }
}

/// The metrics of a parcel from its resource; `None` if the parcel must be tried again.
fn metrics_of(
    parcel: &Parcel,
    made: Result<Arc<Resource>, IndexerError>,
) -> Result<Option<Vec<Arc<Metric>>>> {
    match made {
        Ok(resource) => Ok(resource.metrics_named(parcel.names()).into_iter().collect()),
        // A concurrent request has created or deleted the same thing.
        Err(
            IndexerError::ResourceAlreadyExists(_)
            | IndexerError::NamedMetricAlreadyExists(_)
            | IndexerError::NoSuchResource(_),
        ) => Ok(None),
        // They were there before: another process has deleted what stays in the cache for a moment. Clients drop what is
        // refused otherwise.
        Err(IndexerError::NoSuchResourceType(_) | IndexerError::NoSuchArchivePolicy(_)) => {
            Err(ApiError::unavailable("Resource types or archive policies are being changed"))
        }
        Err(error) => Err(error.into()),
    }
}

fn conflict(id: Uuid) -> ApiError {
    let detail = Value::cause("Resource already exists", id.to_string());
    ApiError::new(StatusCode::CONFLICT, detail)
}
