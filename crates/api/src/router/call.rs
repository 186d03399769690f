//! A request on its way to its handler: what its path names is looked up, then the guard is asked.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use gnudi_drivers::incoming::Batch;
use gnudi_indexer::{Filter, IndexerError, MetricScope};
use gnudi_model::{ArchivePolicy, Metric, MetricId, ResourceType, resource_type::GENERIC};
use hyper::{StatusCode, body::Body as _, header::ACCEPT, http::request::Parts};
use uuid::Uuid;

use super::{Guard, Lookup, RouteMatch, parse_uuid};
use crate::{
    accept::acceptable,
    app::App,
    body::RequestBody,
    error::ApiError,
    json::Value,
    links::Links,
    policy::{Caller, Rule, Target},
    query::{Query, decode},
    reply::Response,
    resource_id,
};

/// A request that has passed its guard.
pub struct Call<'a> {
    pub app: &'a App,
    pub parts: &'a Parts,
    /// Who calls; nobody on an open route.
    pub caller: Caller,
    route: &'static str,
    parameters: &'a [String],
    named: Named,
    /// How many metrics' series the request reads together.
    metrics_read: AtomicU64,
}

/// What a request's path names.
#[derive(Default)]
struct Named {
    metric: Option<Arc<Metric>>,
    resource_type: Option<Arc<ResourceType>>,
    resource_id: Option<Uuid>,
}

impl Call<'_> {
    /// The value of a parameter of the path, decoded.
    pub fn parameter(&self, name: &str) -> &str {
        self.optional_parameter(name).expect("the route has this parameter")
    }

    /// The value of a parameter that not all routes of the handler have.
    pub fn optional_parameter(&self, name: &str) -> Option<&str> {
        let mut names = self.route.split('/').filter_map(|segment| segment.strip_prefix(':'));
        names.position(|parameter| parameter == name).map(|position| self.parameters[position].as_str())
    }

    /// The metric that the path names.
    pub fn metric(&self) -> &Arc<Metric> {
        self.named.metric.as_ref().expect("the route looks a metric up")
    }

    /// The resource type that the path names.
    pub fn resource_type(&self) -> &Arc<ResourceType> {
        self.named.resource_type.as_ref().expect("the route looks a resource type up")
    }

    /// The id of the resource that the path names, whether or not there is one.
    pub fn resource_id(&self) -> Uuid {
        self.named.resource_id.expect("the route reads a resource's id")
    }

    /// The policy of the metric that the path names.
    pub async fn policy(&self) -> Result<Arc<ArchivePolicy>, ApiError> {
        let name = &self.metric().archive_policy_name;
        let policy = self.app.engine().indexer().archive_policy(name).await?;
        policy.ok_or_else(|| IndexerError::NoSuchArchivePolicy(name.to_string()).into())
    }

    /// The address that was asked, without the arguments.
    pub fn url(&self) -> String {
        let path = self.parts.uri.path();
        let path = path.strip_prefix(&self.app.options().path_prefix).unwrap_or(path);
        self.links().to(&String::from_utf8_lossy(&decode(path, false)))
    }

    pub fn query(&self) -> Query {
        Query::parse(self.parts.uri.query())
    }

    pub fn links(&self) -> Links {
        let options = self.app.options();
        Links::of(self.parts, &options.path_prefix, options.enable_proxy_headers_parsing)
    }

    /// Appends the caller's measures to the log of measures. They are durable once this returns.
    pub async fn append(&self, batch: Batch) -> Result<(), ApiError> {
        self.app.append(&self.caller, batch).await
    }

    /// Refuses (429) so many new metrics where the caller's project would have too many.
    pub async fn admit_metrics(&self, new: usize) -> Result<(), ApiError> {
        let (app, quotas) = (self.app, &self.app.options().quotas);
        app.quotas.admit_metrics(quotas, &self.caller, app.now(), new as u64, app.engine().indexer()).await
    }

    /// Notes that the request reads so many metrics' series, which is a part of its cost.
    pub fn reads_metrics(&self, count: usize) {
        self.metrics_read.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Whether the caller may do what the rule names. The one function that decides it.
    pub fn allows(&self, rule: Rule, target: Target<'_>) -> bool {
        self.app.options().policy.allows(rule, &self.caller, target)
    }

    /// Refuses (403) a caller who may not do what the rule names.
    pub fn enforce(&self, rule: Rule, target: Target<'_>) -> Result<(), ApiError> {
        if self.allows(rule, target) { Ok(()) } else { Err(ApiError::forbidden_by(rule)) }
    }

    /// [`Call::enforce`] for each of some metrics. What their resources are opens nothing, as in Gnocchi; where an operator's
    /// rule may refuse one for it, it is looked up.
    pub async fn enforce_all<'m>(
        &self,
        rule: Rule,
        metrics: impl IntoIterator<Item = &'m Arc<Metric>>,
    ) -> Result<(), ApiError> {
        for metric in metrics {
            self.enforce(rule, Target::Metric(metric, None))?;
            if self.may_be_refused_for_resource(rule) {
                self.enforce_with_resource(rule, metric).await?;
            }
        }
        Ok(())
    }

    /// Whether what a metric's resource is may turn a yes into a no: never with Gnocchi's rules.
    pub fn may_be_refused_for_resource(&self, rule: Rule) -> bool {
        self.app.options().policy.depends_on_resource(rule, true)
    }

    /// [`Call::enforce`] for a metric, whose resource is looked up where it may matter.
    pub async fn enforce_with_resource(&self, rule: Rule, metric: &Metric) -> Result<(), ApiError> {
        let allowed = self.allows(rule, Target::Metric(metric, None));
        if !self.app.options().policy.depends_on_resource(rule, allowed) {
            return if allowed { Ok(()) } else { Err(ApiError::forbidden_by(rule)) };
        }
        let resource = match metric.resource_id {
            Some(id) => self.app.engine().indexer().resource(GENERIC, id).await?,
            None => None,
        };
        self.enforce(rule, Target::Metric(metric, resource.as_deref()))
    }

    /// The filter that takes what of the resources of a type the caller sees, and of those what another one takes.
    ///
    /// # Errors
    /// 403 where the caller sees none.
    pub fn seen(
        &self,
        rule: Rule,
        resource_type: &str,
        filter: Option<Filter>,
    ) -> Result<Option<Filter>, ApiError> {
        let seen = self.app.options().policy.resources_seen(rule, &self.caller, resource_type);
        match seen.map_err(|_| ApiError::insufficient_privileges(rule))? {
            Some(scope) => Ok(Some(scope.narrow(filter))),
            None => Ok(filter),
        }
    }

    /// What of the metrics the caller sees; `None` for all.
    ///
    /// # Errors
    /// 403 where it is nothing.
    pub fn metrics_seen(&self, rule: Rule) -> Result<Option<MetricScope>, ApiError> {
        let seen = self.app.options().policy.metrics_seen(rule, &self.caller);
        seen.map_err(|_| ApiError::insufficient_privileges(rule))
    }
}

/// Asks the guard, then the handler. `caller` is who calls, where that is known already.
pub async fn call(
    app: &App,
    found: &RouteMatch<'_>,
    parts: &Parts,
    body: &mut RequestBody<'_>,
    caller: Option<Caller>,
) -> Result<Response, ApiError> {
    let arguments =
        parts.uri.query().map_or(0, |query| query.bytes().filter(|byte| *byte == b'&').count() + 1);
    let arguments_max = app.options().limits.query_arguments_max;
    if arguments > arguments_max {
        return Err(ApiError::bad_request(format!("There are more than {arguments_max} arguments")));
    }
    let guard = found.endpoint.as_ref().map_or(Guard::Open, |endpoint| endpoint.guard);
    let is_open = guard == Guard::Open && found.lookup == Lookup::Nothing;
    let caller = match caller {
        Some(caller) => caller,
        None if is_open => Caller::default(),
        None => app.options().auth_mode.caller(parts, app.now()).await?,
    };
    let mut call = Call {
        app,
        parts,
        caller,
        route: found.route,
        parameters: &found.parameters,
        named: Named::default(),
        metrics_read: AtomicU64::new(0),
    };
    let quotas = &app.options().quotas;
    if !is_open {
        app.quotas.admit_request(quotas, &call.caller, app.now()).map_err(|error| error.to(&call.caller))?;
    }
    let answered = answer(&mut call, found, body).await;
    if !is_open {
        let bytes = answered.as_ref().map_or(0, |answer| answer.body().size_hint().lower());
        let metrics = call.metrics_read.load(Ordering::Relaxed);
        app.quotas.charge_request(quotas, &call.caller, app.now(), metrics, bytes);
    }
    answered.map_err(|error| error.to(&call.caller))
}

/// The handler's answer, once the path has been looked up and the guard has been asked.
async fn answer(
    call: &mut Call<'_>,
    found: &RouteMatch<'_>,
    body: &mut RequestBody<'_>,
) -> Result<Response, ApiError> {
    call.named = find_named(call, found.lookup).await?;
    let endpoint = found.endpoint.as_ref().map_err(Clone::clone)?;
    if endpoint.negotiates {
        negotiate(call.parts)?;
    }
    match endpoint.guard {
        Guard::Caller(rule) => call.enforce(rule, Target::Nothing)?,
        Guard::Metric(rule) => call.enforce_with_resource(rule, call.metric()).await?,
        Guard::Items(_) | Guard::Open => {}
    }
    (endpoint.handler)(call, body).await
}

async fn find_named(call: &Call<'_>, lookup: Lookup) -> Result<Named, ApiError> {
    let mut named = Named::default();
    match lookup {
        Lookup::Nothing => {}
        Lookup::ArchivePolicyRule => {
            let name = call.parameter("name");
            let rule = call.app.engine().indexer().archive_policy_rule(name).await?;
            rule.ok_or_else(|| IndexerError::NoSuchArchivePolicyRule(name.to_owned()))?;
        }
        Lookup::Metric => named.metric = Some(find_metric(call.app, call.parameter("id")).await?),
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

async fn find_resource_type(call: &Call<'_>) -> Result<Arc<ResourceType>, ApiError> {
    let name = call.parameter("type");
    let found = call.app.engine().indexer().resource_type(name).await?;
    found.ok_or_else(|| ApiError::not_found(IndexerError::NoSuchResourceType(name.to_owned()).to_string()))
}

fn find_resource_id(call: &Call<'_>) -> Result<Uuid, ApiError> {
    let text = call.parameter("id");
    let unknown = |_| ApiError::not_found(format!("Resource {text} does not exist"));
    resource_id::check(&text.into(), &call.caller.user).map_err(unknown)
}

async fn find_named_metric(
    call: &Call<'_>,
    resource_type: &str,
    resource: Uuid,
) -> Result<Arc<Metric>, ApiError> {
    let (indexer, name) = (call.app.engine().indexer(), call.parameter("name"));
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

/// Refuses a client that takes no JSON.
fn negotiate(parts: &Parts) -> Result<(), ApiError> {
    let accept = parts.headers.get(ACCEPT).map_or("", |accept| accept.to_str().unwrap_or("*/*"));
    // JSON with parameters is no offer, but pecan lets it pass where it stands first.
    let with_parameters = |rest: &str| !rest.trim_start().starts_with(['q', 'Q']);
    if matches!(accept, "" | "*/*" | "application/json")
        || !acceptable(accept, &["application/json"]).is_empty()
        || accept.strip_prefix("application/json;").is_some_and(with_parameters)
    {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, Value::Null))
}

/// The metric of an id in any form that Python's `uuid.UUID` takes.
async fn find_metric(app: &App, text: &str) -> Result<Arc<Metric>, ApiError> {
    let unknown = || ApiError::not_found(format!("Metric {text} does not exist"));
    let id = parse_uuid(text).ok_or_else(unknown)?;
    let found = app.engine().indexer().metrics(&[MetricId(id)]).await?.pop().flatten();
    found.ok_or_else(unknown)
}
