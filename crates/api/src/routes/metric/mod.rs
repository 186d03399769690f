//! `/v1/metric`

pub(crate) mod definition;
mod get_measures;
mod list;
mod measured;

pub use get_measures::get_measures;
pub use list::list;

pub(crate) use get_measures::resample;
use gnudi_app::json;

use std::{
    collections::{HashMap, HashSet},
    fmt::Display,
    sync::Arc,
};

use gnudi_access::created_by;
use gnudi_drivers::incoming::Batch;
use gnudi_engine::Resample;
use gnudi_indexer::IndexerError;
use gnudi_model::{ArchivePolicy, Metric, Resource, Text, Timespan, Timestamp, resource_type::GENERIC};
use gnudi_series::{points, removal};
use gnudi_server::ReplyBody;

use definition::GivenPolicy;

use super::{archive_policy, prelude::*, resource};
use crate::{
    arrow,
    json_list::json_list,
    last_measure,
    measures::{self, write},
};

/// How a metric's resource is shown: by id, or in full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResourceForm<'a> {
    Id,
    Whole(Option<&'a Resource>),
}

/// A metric in a response; its policy in full if given, otherwise by name.
fn shown(metric: &Metric, policy: Option<&ArchivePolicy>, resource: ResourceForm<'_>) -> Value {
    let before = before_policy(metric, resource).into_iter();
    let entries = before.chain([policy_entry(metric, policy)]).chain(behind_policy(metric));
    Value::Object(entries.map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The fields in front of the policy.
fn before_policy(metric: &Metric, resource: ResourceForm<'_>) -> [(&'static str, Value); 5] {
    let text = |text: &Option<Text>| Value::from(text.as_ref().map(ToString::to_string));
    [
        ("id", metric.id.to_string().into()),
        ("creator", metric.creator.to_string().into()),
        ("name", text(&metric.name)),
        ("unit", text(&metric.unit)),
        match resource {
            ResourceForm::Id => ("resource_id", metric.resource_id.map(|id| id.to_string()).into()),
            ResourceForm::Whole(resource) => ("resource", resource.map(resource::shown_in_metric).into()),
        },
    ]
}

fn policy_entry(metric: &Metric, policy: Option<&ArchivePolicy>) -> (&'static str, Value) {
    match policy {
        Some(policy) => ("archive_policy", super::archive_policy::shown(policy)),
        None => ("archive_policy_name", metric.archive_policy_name.to_string().into()),
    }
}

/// The fields behind the policy.
fn behind_policy(metric: &Metric) -> [(&'static str, Value); 2] {
    let (user, project) = created_by(&metric.creator);
    [("created_by_user_id", user.into()), ("created_by_project_id", project.into())]
}

/// A response with metrics, as JSON or as a table.
pub(crate) async fn list_answer(call: &Call<'_>, metrics: &[Arc<Metric>]) -> Answer {
    if arrow::is_wanted(call.parts) {
        return Ok(arrow::ok(arrow::list::metrics(metrics, arrow::compression(&call.query())?)?));
    }
    Ok(reply::ok(list_body(call, metrics, |_, _| ()).await?))
}

/// A JSON list of metrics, with policies in full and resources by id. `add` may append fields to each: it gets the metric's
/// place and an object.
pub(crate) async fn list_body(
    call: &Call<'_>,
    metrics: &[Arc<Metric>],
    add: impl Fn(usize, &mut Value) + Send + Sync + 'static,
) -> Result<ReplyBody> {
    let borrowed: Vec<&Metric> = metrics.iter().map(|metric| &**metric).collect();
    let writer = MetricWriter::of(call, &borrowed).await?;
    let metrics: Vec<(usize, Arc<Metric>)> = metrics.iter().cloned().enumerate().collect();
    Ok(json_list(metrics, move |(place, metric), out| {
        writer.write(&metric, ResourceForm::Id, |behind| add(place, behind), out);
    }))
}

/// Writes metrics with their policies in full. The JSON of a policy is made once: most metrics share a few.
pub(crate) struct MetricWriter {
    policies: HashMap<Text, String>,
}

impl MetricWriter {
    /// A writer for these metrics.
    pub async fn of(call: &Call<'_>, metrics: &[&Metric]) -> Result<Self> {
        let mut policies: HashMap<Text, String> = HashMap::new();
        for metric in metrics {
            let name = &metric.archive_policy_name;
            if !policies.contains_key(name) {
                let policy = call.indexer().archive_policy(name).await?;
                let policy = Value::object([policy_entry(metric, policy.as_deref())]).to_json();
                policies.insert(name.clone(), policy);
            }
        }
        Ok(MetricWriter { policies })
    }

    /// Appends a metric as [`shown`] has it. `add` may append fields to an object, which end the metric.
    pub fn write(
        &self,
        metric: &Metric,
        resource: ResourceForm<'_>,
        add: impl FnOnce(&mut Value),
        out: &mut Vec<u8>,
    ) {
        let mut behind = Value::object(behind_policy(metric));
        add(&mut behind);
        Value::object(before_policy(metric, resource)).write_json(out);
        join_next(out);
        out.extend_from_slice(&self.policies[&metric.archive_policy_name].as_bytes()[1..]);
        join_next(out);
        out.extend_from_slice(&behind.to_json().as_bytes()[1..]);
    }
}

/// Reopens the object at the end of `out`, to append the fields of another one without its opening brace.
fn join_next(out: &mut Vec<u8>) {
    out.pop();
    out.extend_from_slice(b", ");
}

/// `POST /v1/metric`
pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let creator = &call.caller.user;
    let given = definition::check(&request::json(call.parts, body).await?, creator, None)?;
    let metric = definition::complete(call, given, &mut HashSet::new()).await?;
    call.admit_metrics(1).await?;
    let created = call.create_metrics(vec![metric]).await.pop().expect("one answer per metric");
    call.metrics_are_settled(&created);
    let metric = created.map_err(|error| match error {
        IndexerError::NoSuchArchivePolicy(name) => archive_policy::missing(&name),
        IndexerError::NamedMetricAlreadyExists(name) => {
            ApiError::bad_request(Value::cause("Named metric already exists", name))
        }
        other => other.into(),
    })?;
    let location = call.links().to(&format!("/v1/metric/{}", metric.id));
    Ok(reply::created(&location, &shown(&metric, None, ResourceForm::Id)))
}

/// `GET /v1/metric/{id}`
pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let policy = call.policy_of(&call.metric().archive_policy_name).await?;
    let resource = match call.metric().resource_id {
        Some(id) => call.indexer().resource(GENERIC, id).await?,
        None => None,
    };
    let form = ResourceForm::Whole(resource.as_deref());
    let mut shown = shown(call.metric(), Some(&policy), form);
    let figures = last_measure::Shown::of(&call.query())?;
    if figures.any().is_some() {
        call.enforce_with_resource(Rule::GetMeasures, call.metric()).await?;
        let measured = call.measured(&[call.metric().id]).await?;
        figures.add_to(&mut shown, measured[0]);
    }
    Ok(reply::ok(&shown))
}

/// `PATCH /v1/metric/{id}`: changes the metric's archive policy. Requests a pass that converts the stored
/// aggregates; the response shows the conversion of each aggregation.
pub async fn update(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let text = body.read().await?;
    if text.is_empty() {
        // As in Gnocchi, which has no such route.
        return Err(ApiError::method_not_allowed(vec!["DELETE", "GET"]));
    }
    request::expect_json(call.parts)?;
    let document = body.long_work.run(text.len(), || json::parse(&text)).await?;
    let given = definition::check_change(&document)?;
    let policy = match given {
        GivenPolicy::Name(name) => archive_policy::given(call, &name).await?,
        GivenPolicy::Definition(definition) => {
            archive_policy::of_definition(call, definition, &mut HashSet::new()).await?
        }
    };
    let (engine, id) = (call.app.engine(), call.metric().id);
    let before = match engine.indexer().current_metric(id).await {
        // The metric leaves a damaged policy, for which its measures wait.
        Err(IndexerError::DamagedItem { .. }) => None,
        current => Some(current?.ok_or(IndexerError::NoSuchMetric(id))?.1),
    };
    let synced = engine.sync_metric(id).await;
    if before.is_some() {
        synced?;
    }
    let moved = engine.indexer().move_metric(id, &policy.name).await.map_err(|error| match error {
        IndexerError::NoSuchArchivePolicy(name) => archive_policy::missing(&name),
        other => other.into(),
    })?;
    engine.append_conversions(&[id]).await?;
    let mut shown = shown(&moved, Some(&policy), ResourceForm::Id);
    if let Some(before) = before {
        archive_policy::add_conversion(&mut shown, &before, &policy);
    }
    Ok(reply::ok(&shown))
}

/// `DELETE /v1/metric/{id}`: hides the metric at once; the janitor removes its data later.
pub async fn delete(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let deleted = call.indexer().delete_metrics(&[call.metric().id]).await;
    deleted.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(reply::no_content())
}

/// `POST /v1/metric/{id}/measures`: stores measures; 202 means that they are durable.
pub async fn post_measures(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let input = request::json_bytes(call.parts, body).await?;
    let app = call.app;
    let mut batch = Batch::default();
    let mut read = app.measure_buffers.take();
    let measures_max = app.options().limits.measures_max;
    let scan = || measures::read_list(&input, || app.now(), measures_max, &mut read);
    let by = body.long_work.run(input.len(), scan).await?;
    by.count(&app.figures);
    let count = read.len();
    if count > 0 {
        batch.push(call.metric().id, count as u32, |out| points::encode(&read, out));
    }
    app.measure_buffers.put(read);
    drop(input);
    call.append(batch).await?;
    Ok(reply::accepted())
}

/// `DELETE /v1/metric/{id}/measures?start=&stop=`: deletes the measures and aggregates of a range; 202 means
/// that the request is durable. It is applied in order with posts of measures.
pub async fn delete_measures(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let (query, now) = (call.query(), call.app.now());
    let (start, stop) = (query.time("start", now)?, query.time("stop", now)?);
    if start.is_none() && stop.is_none() {
        // As in Gnocchi, which has no such route; it also prevents deleting everything by accident.
        return Err(ApiError::not_found(""));
    }
    let span = start.unwrap_or(Timestamp::EPOCH)..stop.unwrap_or(Timestamp::MAX);
    if span.is_empty() {
        return Err(ApiError::bad_request("start must be before stop"));
    }
    let mut batch = Batch::default();
    batch.push(call.metric().id, 0, |out| removal::encode(&span, out));
    call.append(batch).await?;
    Ok(reply::accepted())
}

/// The error for an aggregation that the metric's policy lacks.
pub(crate) fn no_aggregation(metric: &Metric, method: impl Display, granularity: Timespan) -> ApiError {
    let granularity = write::granularity(Resample::Span(granularity));
    let id = metric.id;
    ApiError::not_found(format!(
        "Aggregation method '{method}' at granularity '{granularity}' for metric {id} does not exist"
    ))
}

/// The error for a method that the metric's policy lacks.
pub(crate) fn no_such_method(metric: &Metric, name: Value) -> ApiError {
    let detail = [("metric", metric.id.to_string().into()), ("aggregation_method", name)];
    ApiError::not_found(Value::cause(
        "Aggregation method does not exist for this metric",
        Value::object(detail),
    ))
}
