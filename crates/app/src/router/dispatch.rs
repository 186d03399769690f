//! Runs a request: looks up what its path refers to, checks the guard, calls the handler.

use std::sync::Arc;

use bytes::Bytes;
use gnudi_access::{Caller, Rule, Target};
use gnudi_engine::Project;
use gnudi_indexer::IndexerError;
use gnudi_model::{Metric, MetricId, ResourceType, python::parse_uuid};
use gnudi_server::{RequestBody, Response, acceptable};
use hyper::{StatusCode, body::Body as _, header::ACCEPT, http::request::Parts};
use uuid::Uuid;

use super::{Endpoint, Guard, Lookup, RouteMatch};
use crate::{
    app::App,
    call::{Call, Named},
    error::{ApiError, Result},
    json::Value,
    resource_id,
};

/// Checks quotas and the guard, then calls the handler. `caller` is set if already authenticated.
pub async fn dispatch(
    app: &App,
    found: &RouteMatch<'_>,
    parts: &Parts,
    body: &mut RequestBody<'_>,
    caller: Option<Caller>,
) -> Result<Response> {
    let is_separator = |byte: &u8| matches!(*byte, b'&' | b';');
    let arguments = parts.uri.query().map_or(0, |query| query.bytes().filter(is_separator).count() + 1);
    let arguments_max = app.options().limits.query_arguments_max;
    if arguments > arguments_max {
        return Err(ApiError::bad_request(format!("There are more than {arguments_max} arguments")));
    }
    let guard = found.endpoint.as_ref().map_or(Guard::Open, |endpoint| endpoint.guard);
    let is_open = matches!(guard, Guard::Open | Guard::Deferred(_)) && found.lookup == Lookup::Nothing;
    let caller = match caller {
        Some(caller) => caller,
        None if is_open => Caller::default(),
        None => app.options().auth_mode.caller(parts, app.now()).await?,
    };
    let call = Call::new(app, parts, caller, found.route, &found.parameters);
    let quotas = &app.options().quotas;
    if !is_open {
        let admitted = app.quotas.admit_request(quotas, &call.caller, app.now());
        admitted.map_err(|error| ApiError::from(error).to(&call.caller))?;
    }
    let mut charged = Charged { call, is_free: is_open, bytes: 0 };
    let project = Project::named(charged.call.caller.project());
    let answered = project.run(answer(&mut charged.call, found, body)).await;
    charged.bytes = answered.as_ref().map_or(0, |answer| answer.body().size_hint().lower());
    match answered {
        Ok(response) => Ok(charged.with_pieces(response)),
        Err(error) => Err(error.to(&charged.call.caller)),
    }
}

/// A request that is charged to its caller when it ends, also if the client disconnects before it is answered.
struct Charged<'a> {
    call: Call<'a>,
    is_free: bool,
    /// The size of the response, if it is known.
    bytes: u64,
}

impl Charged<'_> {
    /// Charges each piece of the response when the client reads it.
    fn with_pieces(&self, response: Response) -> Response {
        let app = self.call.app;
        if self.is_free || !app.options().quotas.counts() {
            return response;
        }
        let (quotas, clock) = (app.quotas.clone(), app.clock);
        let project = self.call.caller.project().to_owned();
        let charge = move |piece: &Bytes| quotas.charge_piece(&project, clock(), piece.len() as u64);
        response.map(|body| body.inspect_pieces(charge))
    }
}

impl Drop for Charged<'_> {
    fn drop(&mut self) {
        if !self.is_free {
            let Call { app, caller, .. } = &self.call;
            let (quotas, metrics) = (&app.options().quotas, self.call.metrics_read());
            app.quotas.charge_request(quotas, caller, app.now(), metrics, self.bytes);
        }
    }
}

/// Looks up the path, checks the guard and calls the handler.
async fn answer(call: &mut Call<'_>, found: &RouteMatch<'_>, body: &mut RequestBody<'_>) -> Result<Response> {
    call.named = find_named(call, found).await?;
    let endpoint = found.endpoint.as_ref().map_err(Clone::clone)?;
    if !endpoint.offers.is_empty() {
        negotiate(call.parts, endpoint.offers)?;
    }
    match endpoint.guard {
        Guard::Caller(rule) => call.enforce(rule, Target::Nothing)?,
        Guard::Metric(rule) => call.enforce_with_resource(rule, call.metric()).await?,
        Guard::Items(_) | Guard::Deferred(_) | Guard::Open => {}
    }
    let answer = endpoint.handler.handle(call, body).await?;
    if let Guard::Items(rules) = endpoint.guard {
        debug_assert!(call.has_checked(rules), "{}: the handler checked none of {rules:?}", found.route);
    }
    Ok(answer)
}

async fn find_named(call: &Call<'_>, found: &RouteMatch<'_>) -> Result<Named> {
    let mut named = Named::default();
    match found.lookup {
        Lookup::Nothing => {}
        Lookup::ArchivePolicyRule => {
            let name = call.parameter("name");
            match call.indexer().archive_policy_rule(name).await {
                // A damaged one can be deleted; handlers that need it fail.
                Ok(Some(_)) | Err(IndexerError::DamagedItem { .. }) => {}
                Ok(None) => return Err(IndexerError::NoSuchArchivePolicyRule(name.to_owned()).into()),
                Err(error) => return Err(error.into()),
            }
        }
        Lookup::Metric => named.metric = Some(find_metric(call, found).await?),
        Lookup::ResourceType => named.resource_type = Some(find_resource_type(call).await?),
        Lookup::ResourceId => {
            named.resource_type = Some(find_resource_type(call).await?);
            named.resource_id = Some(find_resource_id(call)?);
        }
        Lookup::NamedMetric => {
            let resource_type = find_resource_type(call).await?;
            let resource = find_resource_id(call)?;
            named.metric = Some(find_named_metric(call, &resource_type.name, resource).await?);
            named.resource_type = Some(resource_type);
            named.resource_id = Some(resource);
        }
    }
    Ok(named)
}

async fn find_resource_type(call: &Call<'_>) -> Result<Arc<ResourceType>> {
    let name = call.parameter("type");
    let found = call.indexer().resource_type(name).await?;
    found.ok_or_else(|| ApiError::not_found(IndexerError::NoSuchResourceType(name.to_owned()).to_string()))
}

fn find_resource_id(call: &Call<'_>) -> Result<Uuid> {
    let text = call.parameter("id");
    let unknown = |_| ApiError::not_found(format!("Resource {text} does not exist"));
    resource_id::check(&text.into(), &call.caller.user).map_err(unknown)
}

async fn find_named_metric(call: &Call<'_>, resource_type: &str, resource: Uuid) -> Result<Arc<Metric>> {
    let (indexer, name) = (call.indexer(), call.parameter("name"));
    if let Some(metric) = indexer.cached_named_metric(resource, name) {
        return Ok(metric);
    }
    if let Some(metric) = indexer.named_metrics(&[(resource, name)]).await?.pop().flatten() {
        return Ok(metric);
    }
    Err(match indexer.resource(resource_type, resource).await? {
        Some(_) => ApiError::not_found(format!("Metric {name} does not exist")),
        None => ApiError::not_found(IndexerError::NoSuchResource(resource).to_string()),
    })
}

/// Refuses (406) a client whose `Accept` header matches no offered media type; JSON is always offered.
fn negotiate(parts: &Parts, offers: &[&str]) -> Result<()> {
    let accept = parts.headers.get(ACCEPT).map_or("", |accept| accept.to_str().unwrap_or("*/*"));
    // JSON with parameters matches no offer, but pecan accepts it in first place.
    let with_parameters = |rest: &str| !rest.trim_start().starts_with(['q', 'Q']);
    if matches!(accept, "" | "*/*" | "application/json")
        || !acceptable(accept, offers).is_empty()
        || accept.strip_prefix("application/json;").is_some_and(with_parameters)
    {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, Value::Null))
}

/// The route on which a damaged metric is found, to be deleted.
const METRIC: &str = "/v1/metric/:id";

/// Looks up a metric; the id may have any form that Python's `uuid.UUID` accepts. Of a damaged one only the id is known:
/// a caller who may delete all metrics may delete it, too.
async fn find_metric(call: &Call<'_>, found: &RouteMatch<'_>) -> Result<Arc<Metric>> {
    let text = call.parameter("id");
    let unknown = || ApiError::not_found(format!("Metric {text} does not exist"));
    let id = MetricId(parse_uuid(text).ok_or_else(unknown)?);
    let is_deletion = || {
        found.route == METRIC
            && matches!(found.endpoint, Ok(Endpoint { guard: Guard::Metric(Rule::DeleteMetric), .. }))
    };
    match call.indexer().metrics(&[id]).await {
        Ok(mut metrics) => metrics.pop().flatten().ok_or_else(unknown),
        Err(IndexerError::DamagedMetric { .. })
            if is_deletion() && matches!(call.metrics_allowed(Rule::DeleteMetric), Ok(None)) =>
        {
            Ok(Arc::new(Metric::new(id)))
        }
        Err(error) => Err(error.into()),
    }
}
