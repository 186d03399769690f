//! Every route, with its methods and who may use them, in one table.
//!
//! A path is found as pecan finds it: empty segments do not count, so that a trailing slash makes no difference.

use std::{borrow::Cow, pin::Pin, sync::Arc};

use gnudi_indexer::IndexerError;
use gnudi_model::{ArchivePolicy, Metric, MetricId};
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
    routes,
};

/// What stands before a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// Nothing: anybody may ask.
    Open,
    /// A caller who passes the rule.
    Caller(Rule),
    /// Any caller; the handler asks the rule of each item, or the answer shows only what its caller may see.
    Items(Rule),
    /// A caller who passes the rule for the metric that the path names.
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
    ($method:ident $guard:expr, $handler:path) => {
        Endpoint { method: Method::$method, guard: $guard, negotiates: true, handler: handler!($handler) }
    };
}

/// The whole API. A route's name in `/metrics` is its path.
fn routes() -> Vec<(&'static str, Vec<Endpoint>)> {
    use Guard::{Caller, Items, Metric, Open};
    use routes::{archive_policy, archive_policy_rule, batch, capabilities, metric, root, status};
    vec![
        ("/", vec![endpoint!(ANY Open, root::versions)]),
        ("/v1", vec![endpoint!(ANY Open, root::index)]),
        ("/healthcheck", vec![endpoint!(ANY Open, root::healthcheck)]),
        ("/metrics", vec![endpoint!(ANY Open, root::figures)]),
        (
            "/v1/archive_policy",
            vec![
                endpoint!(GET Caller(Rule::ListArchivePolicy), archive_policy::list),
                endpoint!(POST Caller(Rule::CreateArchivePolicy), archive_policy::create),
            ],
        ),
        (
            "/v1/archive_policy/{name}",
            vec![
                endpoint!(DELETE Caller(Rule::DeleteArchivePolicy), archive_policy::delete),
                endpoint!(GET Caller(Rule::GetArchivePolicy), archive_policy::show),
                endpoint!(PATCH Caller(Rule::UpdateArchivePolicy), archive_policy::update),
            ],
        ),
        (
            "/v1/archive_policy_rule",
            vec![
                endpoint!(GET Caller(Rule::ListArchivePolicyRule), archive_policy_rule::list),
                endpoint!(POST Caller(Rule::CreateArchivePolicyRule), archive_policy_rule::create),
            ],
        ),
        (
            "/v1/archive_policy_rule/{name}",
            vec![
                endpoint!(DELETE Caller(Rule::DeleteArchivePolicyRule), archive_policy_rule::delete),
                endpoint!(GET Caller(Rule::GetArchivePolicyRule), archive_policy_rule::show),
                endpoint!(PATCH Caller(Rule::UpdateArchivePolicyRule), archive_policy_rule::update),
            ],
        ),
        (
            "/v1/metric",
            vec![
                endpoint!(GET Items(Rule::ListMetric), metric::list),
                endpoint!(POST Caller(Rule::CreateMetric), metric::create),
            ],
        ),
        (
            "/v1/metric/{id}",
            vec![
                endpoint!(DELETE Metric(Rule::DeleteMetric), metric::delete),
                endpoint!(GET Metric(Rule::GetMetric), metric::show),
            ],
        ),
        (
            "/v1/metric/{id}/measures",
            vec![
                endpoint!(GET Metric(Rule::GetMeasures), metric::get_measures),
                endpoint!(POST Metric(Rule::PostMeasures), metric::post_measures),
            ],
        ),
        (
            "/v1/batch/metrics/measures",
            vec![endpoint!(POST Items(Rule::PostMeasures), batch::post_metrics_measures)],
        ),
        ("/v1/capabilities", vec![endpoint!(GET Open, capabilities::show)]),
        ("/v1/status", vec![endpoint!(GET Caller(Rule::GetStatus), status::show)]),
    ]
}

/// The routes, ready to be searched.
pub struct Router {
    paths: matchit::Router<usize>,
    routes: Vec<(&'static str, Vec<Endpoint>)>,
}

/// The endpoint that serves a request.
pub struct Found<'r> {
    endpoint: &'r Endpoint,
    /// The path of the route, with its parameter's name in place of its value.
    pub route: &'static str,
    /// The value of the path's parameter, decoded.
    parameter: String,
}

impl Router {
    pub fn new() -> Self {
        let routes = routes();
        let mut paths = matchit::Router::new();
        for (index, (path, _)) in routes.iter().enumerate() {
            paths.insert(*path, index).expect("no two routes match the same path");
        }
        Router { paths, routes }
    }

    /// The endpoint of a request.
    ///
    /// # Errors
    /// 404 and 405.
    pub fn find(&self, parts: &Parts, prefix: &str) -> Result<Found<'_>, ApiError> {
        let path = parts.uri.path();
        let path = match path.strip_prefix(prefix) {
            Some(path) if path.is_empty() || path.starts_with('/') => path,
            // What watches the server itself need not know the prefix.
            _ if matches!(path, "/healthcheck" | "/metrics") => path,
            _ => return Err(ApiError::no_such_path()),
        };
        let path = normal(path).ok_or_else(ApiError::no_such_path)?;
        let matched = self.paths.at(&path).map_err(|_| ApiError::no_such_path())?;
        let parameter = matched.params.iter().next().map_or("", |(_, value)| value).to_owned();
        let (route, endpoints) = &self.routes[*matched.value];
        let endpoint = endpoints
            .iter()
            .find(|endpoint| endpoint.method == parts.method || endpoint.method.as_str() == ANY_METHOD);
        match endpoint {
            Some(endpoint) => Ok(Found { endpoint, route, parameter }),
            None => Err(ApiError::method_not_allowed(
                endpoints.iter().map(|endpoint| method_text(&endpoint.method)).collect(),
            )),
        }
    }
}

impl Default for Router {
    fn default() -> Self {
        Router::new()
    }
}

fn method_text(method: &Method) -> &'static str {
    ["DELETE", "GET", "PATCH", "POST"].into_iter().find(|known| method.as_str() == *known).unwrap_or("")
}

/// The path, decoded, without empty segments; `None` where it is not UTF-8.
fn normal(path: &str) -> Option<Cow<'_, str>> {
    let decoded = if path.contains('%') { Cow::Owned(decode(path, false)?) } else { Cow::Borrowed(path) };
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
    /// The value of the path's parameter.
    pub parameter: &'a str,
    metric: Option<Arc<Metric>>,
}

impl Call<'_> {
    /// The metric that the path names.
    pub fn metric(&self) -> &Arc<Metric> {
        self.metric.as_ref().expect("the route's guard has found the metric")
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
        self.links().to(&decode(path, false).unwrap_or_default())
    }

    pub fn query(&self) -> Result<Query, ApiError> {
        Query::parse(self.parts.uri.query())
    }

    pub fn links(&self) -> Links {
        let options = self.app.options();
        Links::of(self.parts, &options.path_prefix, options.enable_proxy_headers_parsing)
    }

    /// Whether the caller may do to a metric what the rule names.
    pub fn may(&self, rule: Rule, metric: &Metric) -> bool {
        policy::allows(
            rule,
            &self.caller,
            Target { creator: Some(&metric.creator), resource_project_id: None },
        )
    }
}

/// Asks the guard, then the handler.
pub async fn call(
    app: &App,
    found: &Found<'_>,
    parts: &Parts,
    body: &mut RequestBody<'_>,
) -> Result<Response, ApiError> {
    if found.endpoint.negotiates {
        negotiate(parts)?;
    }
    let mut call = Call { app, parts, caller: Caller::default(), parameter: &found.parameter, metric: None };
    if found.endpoint.guard != Guard::Open {
        call.caller = app.options().auth_mode.caller(&parts.headers)?;
    }
    match found.endpoint.guard {
        Guard::Open | Guard::Items(_) => {}
        Guard::Caller(rule) => {
            if !policy::allows(rule, &call.caller, Target::default()) {
                return Err(ApiError::forbidden());
            }
        }
        Guard::Metric(rule) => {
            let metric = find_metric(app, call.parameter).await?;
            if !call.may(rule, &metric) {
                return Err(ApiError::forbidden());
            }
            call.metric = Some(metric);
        }
    }
    (found.endpoint.handler)(&call, body).await
}

/// Refuses a client that takes no JSON.
fn negotiate(parts: &Parts) -> Result<(), ApiError> {
    let accept = parts.headers.get(ACCEPT).map_or("", |accept| accept.to_str().unwrap_or("*/*"));
    if matches!(accept, "" | "*/*" | "application/json")
        || accept.starts_with("application/json")
        || !acceptable(accept, &["application/json"]).is_empty()
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

/// A UUID with or without hyphens, braces and `urn:uuid:`.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    if let Ok(id) = Uuid::try_parse(text) {
        return Some(id);
    }
    let hex = text.replace("urn:", "").replace("uuid:", "");
    let hex = hex.trim_matches(['{', '}']).replace('-', "");
    (hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| Uuid::try_parse(&hex).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn find(method: &str, path: &str, prefix: &str) -> Result<(&'static str, String), u16> {
        let (parts, ()) = Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
        let router = Router::new();
        let found = router.find(&parts, prefix);
        found.map(|found| (found.route, found.parameter)).map_err(|error| error.status.as_u16())
    }

    #[test]
    fn paths_are_found_whatever_their_slashes() {
        for (path, route, parameter) in [
            ("/", "/", ""),
            ("/v1", "/v1", ""),
            ("/v1/", "/v1", ""),
            ("/v1/metric/", "/v1/metric", ""),
            ("/v1/metric/a%20b", "/v1/metric/{id}", "a b"),
            ("/v1/metric//abc/measures/", "/v1/metric/{id}/measures", "abc"),
        ] {
            assert_eq!(find("GET", path, ""), Ok((route, parameter.to_owned())), "{path}");
        }
        for path in
            ["/v2", "/v1/foo", "/v1/metric/a%2Fb", "/v1/metric/%ff", "/v1/archive_policy/a/b", "/v1/batch"]
        {
            assert_eq!(find("GET", path, ""), Err(404), "{path}");
        }
        assert_eq!(find("PUT", "/v1/metric", ""), Err(405));
        assert_eq!(find("HEAD", "/v1/metric", ""), Err(405));
        assert_eq!(find("BREW", "/v1/", ""), Ok(("/v1", String::new())));
    }

    #[test]
    fn a_prefix_is_needed_where_there_is_one() {
        assert_eq!(find("GET", "/gnocchi", "/gnocchi"), Ok(("/", String::new())));
        assert_eq!(find("GET", "/gnocchi/v1/metric", "/gnocchi"), Ok(("/v1/metric", String::new())));
        assert_eq!(find("GET", "/v1/metric", "/gnocchi"), Err(404));
        assert_eq!(find("GET", "/gnocchiv1/metric", "/gnocchi"), Err(404));
        assert_eq!(find("GET", "/healthcheck", "/gnocchi"), Ok(("/healthcheck", String::new())));
        assert_eq!(find("GET", "/gnocchi/healthcheck", "/gnocchi"), Ok(("/healthcheck", String::new())));
    }

    #[test]
    fn a_405_names_the_methods_there_are() {
        let (parts, ()) =
            Request::builder().method("PUT").uri("/v1/archive_policy/x").body(()).unwrap().into_parts();
        let error = Router::new().find(&parts, "").err().unwrap();
        assert_eq!(error.allow, ["DELETE", "GET", "PATCH"]);
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
