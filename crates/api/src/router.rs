//! Every route, with its methods and who may use them, in one table.
//!
//! A path is found as pecan finds it: empty segments do not count, so that a trailing slash makes no difference.

use std::{borrow::Cow, pin::Pin, sync::Arc};

use gnudi_indexer::IndexerError;
pub use gnudi_model::python::parse_uuid;
use gnudi_model::{ArchivePolicy, Metric, MetricId, ResourceType};
use hyper::{Method, StatusCode, header::ACCEPT, http::request::Parts};
use uuid::Uuid;

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
    resource_id, routes,
};

/// What a path names, which is looked up before anything else is looked at, the method included, as Gnocchi does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    Nothing,
    /// By `:name`.
    ArchivePolicyRule,
    /// By `:id`.
    Metric,
    /// By `:type`.
    ResourceType,
    /// A resource type by `:type`, and what id `:id` means for the caller; the resource itself is the handler's to find.
    ResourceId,
    /// As [`Lookup::ResourceId`], and the resource's metric by `:name`.
    NamedMetric,
}

/// What stands before a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// Nothing: anybody may ask.
    Open,
    /// A caller who passes the rule.
    Caller(Rule),
    /// Any caller; the handler asks the rule of each item, or the answer shows only what its caller may see.
    Items(Rule),
    /// A caller who passes the rule for the metric that was looked up.
    Metric(Rule),
}

type Handled<'a> = Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send + 'a>>;
type Handler = for<'a, 'b> fn(&'a Call<'a>, &'a mut RequestBody<'b>) -> Handled<'a>;

/// One method of a route.
struct Endpoint {
    method: Method,
    guard: Guard,
    /// Whether it answers JSON, and refuses (406) a client that does not take it.
    negotiates: bool,
    handler: Handler,
}

macro_rules! handler {
    ($handler:path) => {
        |call, body| Box::pin($handler(call, body))
    };
}

/// Answers whatever the method is, as pecan's index pages do.
const ANY_METHOD: &str = "*";

macro_rules! endpoint {
    (ANY $guard:expr, $handler:path) => {
        Endpoint {
            method: Method::from_bytes(ANY_METHOD.as_bytes()).expect("a token"),
            guard: $guard,
            negotiates: false,
            handler: handler!($handler),
        }
    };
    // For clients that name types which they take nothing of.
    (BARE $method:ident $guard:expr, $handler:path) => {
        Endpoint { method: Method::$method, guard: $guard, negotiates: false, handler: handler!($handler) }
    };
    ($method:ident $guard:expr, $handler:path) => {
        Endpoint { method: Method::$method, guard: $guard, negotiates: true, handler: handler!($handler) }
    };
}

/// A path, what it names, and its methods. A route's name in `/metrics` is its path.
struct Route {
    path: &'static str,
    lookup: Lookup,
    endpoints: Vec<Endpoint>,
}

/// The whole API.
fn routes() -> Vec<Route> {
    use Guard::{Caller, Items, Metric, Open};
    use Lookup::Nothing;
    use routes::{
        aggregates, aggregation, archive_policy, archive_policy_rule, batch, capabilities, influxdb, metric,
        prometheus, resource, resource_type, root, search, status,
    };
    vec![
        route("/", Nothing, vec![endpoint!(ANY Open, root::versions)]),
        route("/v1", Nothing, vec![endpoint!(ANY Open, root::index)]),
        route("/v1/openapi.json", Nothing, vec![endpoint!(GET Open, root::openapi_document)]),
        route("/healthcheck", Nothing, vec![endpoint!(ANY Open, root::healthcheck)]),
        route("/metrics", Nothing, vec![endpoint!(ANY Open, root::figures)]),
        route(
            "/v1/archive_policy",
            Nothing,
            vec![
                endpoint!(GET Caller(Rule::ListArchivePolicy), archive_policy::list),
                endpoint!(POST Caller(Rule::CreateArchivePolicy), archive_policy::create),
            ],
        ),
        route(
            "/v1/archive_policy/:name",
            Nothing,
            vec![
                endpoint!(DELETE Caller(Rule::DeleteArchivePolicy), archive_policy::delete),
                endpoint!(GET Caller(Rule::GetArchivePolicy), archive_policy::show),
                endpoint!(PATCH Caller(Rule::UpdateArchivePolicy), archive_policy::update),
            ],
        ),
        route(
            "/v1/archive_policy_rule",
            Nothing,
            vec![
                endpoint!(GET Caller(Rule::ListArchivePolicyRule), archive_policy_rule::list),
                endpoint!(POST Caller(Rule::CreateArchivePolicyRule), archive_policy_rule::create),
            ],
        ),
        route(
            "/v1/archive_policy_rule/:name",
            Lookup::ArchivePolicyRule,
            vec![
                endpoint!(DELETE Caller(Rule::DeleteArchivePolicyRule), archive_policy_rule::delete),
                endpoint!(GET Caller(Rule::GetArchivePolicyRule), archive_policy_rule::show),
                endpoint!(PATCH Caller(Rule::UpdateArchivePolicyRule), archive_policy_rule::update),
            ],
        ),
        route(
            "/v1/metric",
            Nothing,
            vec![
                endpoint!(GET Items(Rule::ListMetric), metric::list),
                endpoint!(POST Caller(Rule::CreateMetric), metric::create),
            ],
        ),
        route(
            "/v1/metric/:id",
            Lookup::Metric,
            vec![
                endpoint!(DELETE Metric(Rule::DeleteMetric), metric::delete),
                endpoint!(GET Metric(Rule::GetMetric), metric::show),
            ],
        ),
        route(
            "/v1/metric/:id/measures",
            Lookup::Metric,
            vec![
                endpoint!(GET Metric(Rule::GetMeasures), metric::get_measures),
                endpoint!(POST Metric(Rule::PostMeasures), metric::post_measures),
            ],
        ),
        route("/v1/resource", Nothing, vec![endpoint!(GET Open, resource::types)]),
        route(
            "/v1/resource/:type",
            Lookup::ResourceType,
            vec![
                endpoint!(DELETE Items(Rule::DeleteResources), resource::delete_matching),
                endpoint!(GET Items(Rule::ListResource), resource::list),
                endpoint!(POST Caller(Rule::CreateResource), resource::create),
            ],
        ),
        route(
            "/v1/resource/:type/:id",
            Lookup::ResourceId,
            vec![
                endpoint!(DELETE Items(Rule::DeleteResource), resource::delete),
                endpoint!(GET Items(Rule::GetResource), resource::show),
                endpoint!(PATCH Items(Rule::UpdateResource), resource::update),
            ],
        ),
        route(
            "/v1/resource/:type/:id/history",
            Lookup::ResourceId,
            vec![endpoint!(GET Items(Rule::GetResource), resource::history)],
        ),
        route(
            "/v1/resource/:type/:id/metric",
            Lookup::ResourceId,
            vec![
                endpoint!(GET Items(Rule::GetResource), resource::list_metrics),
                endpoint!(POST Items(Rule::UpdateResource), resource::create_metrics),
            ],
        ),
        route(
            "/v1/resource/:type/:id/metric/:name",
            Lookup::NamedMetric,
            vec![
                endpoint!(DELETE Metric(Rule::DeleteMetric), metric::delete),
                endpoint!(GET Metric(Rule::GetMetric), metric::show),
            ],
        ),
        route(
            "/v1/resource/:type/:id/metric/:name/measures",
            Lookup::NamedMetric,
            vec![
                endpoint!(GET Metric(Rule::GetMeasures), metric::get_measures),
                endpoint!(POST Metric(Rule::PostMeasures), metric::post_measures),
            ],
        ),
        route(
            "/v1/resource_type",
            Nothing,
            vec![
                endpoint!(GET Caller(Rule::ListResourceType), resource_type::list),
                endpoint!(POST Caller(Rule::CreateResourceType), resource_type::create),
            ],
        ),
        route(
            "/v1/resource_type/:name",
            Nothing,
            vec![
                endpoint!(DELETE Caller(Rule::DeleteResourceType), resource_type::delete),
                endpoint!(GET Caller(Rule::GetResourceType), resource_type::show),
                endpoint!(PATCH Caller(Rule::UpdateResourceType), resource_type::update),
            ],
        ),
        route(
            "/v1/aggregates",
            Nothing,
            vec![endpoint!(POST Items(Rule::SearchResource), aggregates::fetch)],
        ),
        route("/v1/aggregation", Nothing, Vec::new()),
        route(
            "/v1/aggregation/metric",
            Nothing,
            vec![
                endpoint!(GET Items(Rule::GetMetric), aggregation::metric),
                endpoint!(POST Items(Rule::GetMetric), aggregation::posted_metric),
            ],
        ),
        route(
            "/v1/aggregation/resource/:type/metric/:name",
            Lookup::ResourceType,
            vec![endpoint!(POST Items(Rule::SearchResource), aggregation::resource)],
        ),
        route(
            "/v1/aggregation/:object/:type/:key/:name",
            Nothing,
            vec![endpoint!(ANY Open, aggregation::nothing)],
        ),
        route(
            "/v1/batch/metrics/measures",
            Nothing,
            vec![endpoint!(POST Items(Rule::PostMeasures), batch::post_metrics_measures)],
        ),
        route(
            "/v1/batch/resources/metrics/measures",
            Nothing,
            vec![endpoint!(POST Items(Rule::PostMeasures), batch::post_resources_metrics_measures)],
        ),
        route("/v1/search/metric", Nothing, vec![endpoint!(POST Items(Rule::SearchMetric), search::metric)]),
        route(
            "/v1/search/resource/:type",
            Lookup::ResourceType,
            vec![endpoint!(POST Items(Rule::SearchResource), search::resource)],
        ),
        route(
            "/v1/influxdb/ping",
            Nothing,
            vec![endpoint!(BARE GET Open, influxdb::ping), endpoint!(BARE HEAD Open, influxdb::ping)],
        ),
        route("/v1/influxdb/query", Nothing, vec![endpoint!(BARE POST Open, influxdb::query)]),
        route(
            "/v1/influxdb/write",
            Nothing,
            vec![endpoint!(BARE POST Items(Rule::PostMeasures), influxdb::write)],
        ),
        route(
            "/v1/prometheus/write",
            Nothing,
            vec![endpoint!(BARE POST Items(Rule::PostMeasures), prometheus::write)],
        ),
        route("/v1/capabilities", Nothing, vec![endpoint!(GET Open, capabilities::show)]),
        route("/v1/status", Nothing, vec![endpoint!(GET Caller(Rule::GetStatus), status::show)]),
        route("/v1/status/:details", Nothing, vec![endpoint!(GET Caller(Rule::GetStatus), status::show)]),
    ]
}

fn route(path: &'static str, lookup: Lookup, endpoints: Vec<Endpoint>) -> Route {
    Route { path, lookup, endpoints }
}

/// The routes, ready to be searched.
pub struct Router {
    paths: matchit::Router<usize>,
    routes: Vec<Route>,
}

/// The endpoint that serves a request.
pub struct Found<'r> {
    /// Where none does, what the client hears, once the thing that the path names is there.
    endpoint: Result<&'r Endpoint, ApiError>,
    lookup: Lookup,
    /// The path of the route, with its parameters' names in place of their values.
    pub route: &'static str,
    /// The values of the path's parameters, decoded, in its order.
    parameters: Vec<String>,
}

/// Segments below these are looked for in vain among the routes themselves, not below one.
const ROOTS: [&str; 2] = ["/", "/v1"];

/// The end of the paths of a metric's measures.
const MEASURES: &str = "/measures";

impl Router {
    pub fn new() -> Self {
        let routes = routes();
        let mut paths = matchit::Router::new();
        for (index, route) in routes.iter().enumerate() {
            paths.insert(pattern(route.path), index).expect("no two routes match the same path");
        }
        Router { paths, routes }
    }

    /// The method (`*` for any) and path, with `{name}` for a parameter, of every endpoint.
    #[cfg(test)]
    pub fn endpoints(&self) -> impl Iterator<Item = (&str, String)> {
        self.routes.iter().flat_map(|route| {
            route.endpoints.iter().map(|endpoint| (endpoint.method.as_str(), pattern(route.path)))
        })
    }

    /// The endpoint of a request.
    ///
    /// # Errors
    /// 404 where the path leads nowhere near a route; 405 for `CONNECT`, as this is no proxy.
    pub fn find(&self, parts: &Parts, prefix: &str) -> Result<Found<'_>, ApiError> {
        if parts.method == Method::CONNECT {
            return Err(ApiError::method_not_allowed(Vec::new()));
        }
        let path = parts.uri.path();
        let path = match path.strip_prefix(prefix) {
            Some(path) if path.is_empty() || path.starts_with('/') => path,
            // What watches the server itself need not know the prefix.
            _ if matches!(path, "/healthcheck" | "/metrics") => path,
            _ => return Err(ApiError::no_such_path()),
        };
        let path = normal(path).ok_or_else(ApiError::no_such_path)?;
        let (index, parameters, exact) = self.nearest(&path)?;
        let route = &self.routes[index];
        let serves =
            |endpoint: &&Endpoint| endpoint.method == parts.method || endpoint.method.as_str() == ANY_METHOD;
        let endpoint = match route.endpoints.iter().find(serves) {
            Some(endpoint) if exact => Ok(endpoint),
            _ => Err(self.refusal(route, &parts.method, exact)),
        };
        Ok(Found { endpoint, lookup: route.lookup, route: route.path, parameters })
    }

    /// The route of the path, or the one that it would be below of; with its parameters.
    fn nearest(&self, path: &str) -> Result<(usize, Vec<String>, bool), ApiError> {
        let mut part = path;
        loop {
            if let Ok(matched) = self.paths.at(part) {
                let exact = part.len() == path.len();
                if !exact && ROOTS.contains(&self.routes[*matched.value].path) {
                    break;
                }
                let parameters = matched.params.iter().map(|(_, value)| value.to_owned()).collect();
                return Ok((*matched.value, parameters, exact));
            }
            match part.rfind('/') {
                Some(slash @ 1..) => part = &part[..slash],
                _ => break,
            }
        }
        Err(ApiError::no_such_path())
    }

    /// What pecan says where a route has not this method, or not this segment below it: a segment too many is an argument too
    /// many of the method, if there is one.
    fn refusal(&self, route: &Route, method: &Method, exact: bool) -> ApiError {
        // Measures are an action of the metric there, and otherwise a segment too many.
        let metric = route
            .path
            .strip_suffix(MEASURES)
            .and_then(|path| self.routes.iter().find(|route| route.path == path));
        let (controller, exact) = metric.map_or((route, exact), |metric| (metric, false));
        let has_method = controller.endpoints.iter().any(|endpoint| endpoint.method == *method);
        let is_metric = matches!(controller.lookup, Lookup::Metric | Lookup::NamedMetric);
        let takes_arguments = !is_metric || *method != Method::GET;
        if has_method && takes_arguments && !exact {
            return ApiError::not_found("");
        }
        let methods = controller.endpoints.iter().map(|endpoint| method_text(&endpoint.method));
        ApiError::method_not_allowed(methods.collect())
    }
}

impl Default for Router {
    fn default() -> Self {
        Router::new()
    }
}

/// A route in the form of the matching library, which writes `{id}` for `:id`.
fn pattern(path: &str) -> String {
    let segments = path.split('/').map(|segment| match segment.strip_prefix(':') {
        Some(parameter) => format!("{{{parameter}}}"),
        None => segment.to_owned(),
    });
    segments.collect::<Vec<_>>().join("/")
}

fn method_text(method: &Method) -> &'static str {
    ["DELETE", "GET", "HEAD", "PATCH", "POST"]
        .into_iter()
        .find(|known| method.as_str() == *known)
        .unwrap_or("")
}

/// The path, decoded, without empty segments; `None` where it is not UTF-8.
fn normal(path: &str) -> Option<Cow<'_, str>> {
    let decoded = if path.contains('%') {
        Cow::Owned(String::from_utf8(decode(path, false)).ok()?)
    } else {
        Cow::Borrowed(path)
    };
    if decoded == "/" || !(decoded.ends_with('/') || decoded.contains("//") || decoded.is_empty()) {
        return Some(decoded);
    }
    let segments: Vec<&str> = decoded.split('/').filter(|segment| !segment.is_empty()).collect();
    Some(Cow::Owned(format!("/{}", segments.join("/"))))
}

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
        app.options().auth_mode.caller(&parts.headers).await?
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

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn find(method: &str, path: &str, prefix: &str) -> Result<(&'static str, String), ApiError> {
        let (parts, ()) = Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
        let router = Router::new();
        let found = router.find(&parts, prefix)?;
        found.endpoint.map(|_| (found.route, found.parameters.concat()))
    }

    fn status(method: &str, path: &str, prefix: &str) -> (u16, Vec<&'static str>) {
        let error = find(method, path, prefix).unwrap_err();
        (error.status.as_u16(), error.allow)
    }

    #[test]
    fn paths_are_found_whatever_their_slashes() {
        for (path, route, parameter) in [
            ("/", "/", ""),
            ("/v1", "/v1", ""),
            ("/v1/", "/v1", ""),
            ("/v1/metric/", "/v1/metric", ""),
            ("/v1/metric/a%20b", "/v1/metric/:id", "a b"),
            ("/v1/metric//abc/measures/", "/v1/metric/:id/measures", "abc"),
        ] {
            assert_eq!(find("GET", path, ""), Ok((route, parameter.to_owned())), "{path}");
        }
        for path in ["/v2", "/v1/foo", "/v1/foo/bar", "/v1/metric/%ff", "/v1/batch", "/v1/batch/metrics"] {
            assert_eq!(find("GET", path, ""), Err(ApiError::no_such_path()), "{path}");
        }
        assert_eq!(find("BREW", "/v1/", ""), Ok(("/v1", String::new())));
    }

    #[test]
    fn a_prefix_is_needed_where_there_is_one() {
        assert_eq!(find("GET", "/gnocchi", "/gnocchi"), Ok(("/", String::new())));
        assert_eq!(find("GET", "/gnocchi/v1/metric", "/gnocchi"), Ok(("/v1/metric", String::new())));
        assert_eq!(find("GET", "/v1/metric", "/gnocchi"), Err(ApiError::no_such_path()));
        assert_eq!(find("GET", "/gnocchiv1/metric", "/gnocchi"), Err(ApiError::no_such_path()));
        assert_eq!(find("GET", "/healthcheck", "/gnocchi"), Ok(("/healthcheck", String::new())));
        assert_eq!(find("GET", "/gnocchi/healthcheck", "/gnocchi"), Ok(("/healthcheck", String::new())));
    }

    #[test]
    fn what_a_route_has_not_is_refused_as_pecan_refuses_it() {
        let (one, policy) = (vec!["DELETE", "GET"], vec!["DELETE", "GET", "PATCH"]);
        for (method, path, expected) in [
            ("PUT", "/v1/metric", (405, vec!["GET", "POST"])),
            ("HEAD", "/v1/metric", (405, vec!["GET", "POST"])),
            ("PUT", "/v1/archive_policy/x", (405, policy.clone())),
            ("GET", "/v1/archive_policy/x/y", (404, vec![])),
            ("POST", "/v1/archive_policy/x/y", (405, policy)),
            ("POST", "/v1/metric/x", (405, one.clone())),
            ("PUT", "/v1/metric/x/measures", (405, one.clone())),
            ("DELETE", "/v1/metric/x/measures", (404, vec![])),
            ("GET", "/v1/metric/x/y", (405, one.clone())),
            ("DELETE", "/v1/metric/x/y", (404, vec![])),
            ("POST", "/v1/metric/x/measures/y", (405, one)),
            ("GET", "/v1/batch/metrics/measures", (405, vec!["POST"])),
            ("POST", "/v1/batch/metrics/measures/x", (404, vec![])),
            ("GET", "/v1/status/x/y", (404, vec![])),
        ] {
            assert_eq!(status(method, path, ""), expected, "{method} {path}");
        }
    }

    #[test]
    fn ids_are_taken_in_pythons_forms() {
        let id = "5dfe182a-51d2-4122-b90b-df0f215b736e";
        let expected = Some(Uuid::try_parse(id).unwrap());
        for text in [
            id.to_owned(),
            id.to_uppercase(),
            id.replace('-', ""),
            format!("{{{id}}}"),
            format!("urn:uuid:{id}"),
            format!("uuid:{id}"),
            "5d-fe182a51d24122b90bdf0f215b736e-".to_owned(),
        ] {
            assert_eq!(parse_uuid(&text), expected, "{text}");
        }
        for text in ["", "foo", &id[1..], "g".repeat(32).as_str(), "+5dfe182a51d24122b90bdf0f215b736"] {
            assert_eq!(parse_uuid(text), None, "{text}");
        }
    }
}
