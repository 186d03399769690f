//! A request on its way to its handler: what its path names is looked up, then the guard is asked.

use std::sync::Arc;

use gnudi_indexer::IndexerError;
use gnudi_model::{ArchivePolicy, Metric, MetricId, ResourceType};
use hyper::{StatusCode, header::ACCEPT, http::request::Parts};
use uuid::Uuid;

use super::{Found, Guard, Lookup, parse_uuid};
use crate::{
    accept::acceptable,
    app::App,
    body::RequestBody,
    error::ApiError,
    json::Value,
    links::Links,
    policy::{self, Caller, Rule, Target},
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

    /// Whether the caller may do to a metric what the rule names.
    pub fn may(&self, rule: Rule, metric: &Metric) -> bool {
        policy::allows(rule, &self.caller, Target { creator: Some(&metric.creator), ..Target::default() })
    }
}

/// Asks the guard, then the handler.
pub async fn call(
    app: &App,
    found: &Found<'_>,
    parts: &Parts,
    body: &mut RequestBody<'_>,
) -> Result<Response, ApiError> {
    let arguments =
        parts.uri.query().map_or(0, |query| query.bytes().filter(|byte| *byte == b'&').count() + 1);
    let arguments_max = app.options().limits.query_arguments_max;
    if arguments > arguments_max {
        return Err(ApiError::bad_request(format!("There are more than {arguments_max} arguments")));
    }
    let guard = found.endpoint.as_ref().map_or(Guard::Open, |endpoint| endpoint.guard);
    let caller = if guard != Guard::Open || found.lookup != Lookup::Nothing {
        app.options().auth_mode.caller(parts, app.now()).await?
    } else {
        Caller::default()
    };
    let mut call = Call {
        app,
        parts,
        caller,
        route: found.route,
        parameters: &found.parameters,
        named: Named::default(),
    };
    call.named = find_named(&call, found.lookup).await?;
    let endpoint = found.endpoint.as_ref().map_err(Clone::clone)?;
    if endpoint.negotiates {
        negotiate(parts)?;
    }
    let allowed = match guard {
        Guard::Caller(rule) => policy::allows(rule, &call.caller, Target::default()),
        Guard::Metric(rule) => call.may(rule, call.metric()),
        Guard::Items(_) | Guard::Open => true,
    };
    if !allowed {
        return Err(ApiError::forbidden());
    }
    (endpoint.handler)(&call, body).await
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
