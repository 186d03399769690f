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
            "/v1/archive_policy/:name",
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
            ARCHIVE_POLICY_RULE,
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
            METRIC,
            vec![
                endpoint!(DELETE Metric(Rule::DeleteMetric), metric::delete),
                endpoint!(GET Metric(Rule::GetMetric), metric::show),
            ],
        ),
        (
            METRIC_MEASURES,
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
        ("/v1/status/:details", vec![endpoint!(GET Caller(Rule::GetStatus), status::show)]),
    ]
}

/// The routes, ready to be searched.
pub struct Router {
    paths: matchit::Router<usize>,
    routes: Vec<(&'static str, Vec<Endpoint>)>,
}

/// The endpoint that serves a request.
pub struct Found<'r> {
    /// Where none does, what the client hears, once the thing that the path names is there.
    endpoint: Result<&'r Endpoint, ApiError>,
    /// The path of the route, with its parameter's name in place of its value.
    pub route: &'static str,
    /// The value of the path's parameter, decoded.
    parameter: String,
}

/// Segments below these are looked for in vain among the routes themselves, not below one.
const ROOTS: [&str; 2] = ["/", "/v1"];

const METRIC: &str = "/v1/metric/:id";
const METRIC_MEASURES: &str = "/v1/metric/:id/measures";
const ARCHIVE_POLICY_RULE: &str = "/v1/archive_policy_rule/:name";

impl Router {
    pub fn new() -> Self {
        let routes = routes();
        let mut paths = matchit::Router::new();
        for (index, (path, _)) in routes.iter().enumerate() {
            paths.insert(pattern(path), index).expect("no two routes match the same path");
        }
        Router { paths, routes }
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
        let (index, parameter, exact) = self.nearest(&path)?;
        let (route, endpoints) = &self.routes[index];
        let serves =
            |endpoint: &&Endpoint| endpoint.method == parts.method || endpoint.method.as_str() == ANY_METHOD;
        let endpoint = match endpoints.iter().find(serves) {
            Some(endpoint) if exact => Ok(endpoint),
            _ => Err(self.refusal(route, &parts.method, exact)),
        };
        Ok(Found { endpoint, route, parameter })
    }

    /// The route of the path, or the one that it would be below of; with its parameter.
    fn nearest(&self, path: &str) -> Result<(usize, String, bool), ApiError> {
        let mut part = path;
        loop {
            if let Ok(matched) = self.paths.at(part) {
                let exact = part.len() == path.len();
                if !exact && ROOTS.contains(&self.routes[*matched.value].0) {
                    break;
                }
                let parameter = matched.params.iter().next().map_or("", |(_, value)| value);
                return Ok((*matched.value, parameter.to_owned(), exact));
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
    fn refusal(&self, route: &'static str, method: &Method, exact: bool) -> ApiError {
        // Measures are an action of the metric there, and otherwise a segment too many.
        let (controller, exact) = if route == METRIC_MEASURES { (METRIC, false) } else { (route, exact) };
        let (_, endpoints) = self.routes.iter().find(|(path, _)| *path == controller).expect("it is a route");
        let has_method = endpoints.iter().any(|endpoint| endpoint.method == *method);
        let takes_arguments = controller != METRIC || *method != Method::GET;
        if has_method && takes_arguments && !exact {
            return ApiError::not_found("");
        }
        ApiError::method_not_allowed(endpoints.iter().map(|endpoint| method_text(&endpoint.method)).collect())
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
    ["DELETE", "GET", "PATCH", "POST"].into_iter().find(|known| method.as_str() == *known).unwrap_or("")
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
    let arguments =
        parts.uri.query().map_or(0, |query| query.bytes().filter(|byte| *byte == b'&').count() + 1);
    let arguments_max = app.options().limits.query_arguments_max;
    if arguments > arguments_max {
        return Err(ApiError::bad_request(format!("There are more than {arguments_max} arguments")));
    }
    let endpoint = match &found.endpoint {
        Ok(endpoint) => *endpoint,
        Err(refusal) => {
            find_named(app, found, parts).await?;
            return Err(refusal.clone());
        }
    };
    let mut call = Call { app, parts, caller: Caller::default(), parameter: &found.parameter, metric: None };
    if endpoint.guard != Guard::Open {
        call.caller = app.options().auth_mode.caller(&parts.headers)?;
    }
    if let Guard::Metric(_) = endpoint.guard {
        call.metric = Some(find_metric(app, call.parameter).await?);
    }
    if endpoint.negotiates {
        negotiate(parts)?;
    }
    let allowed = match (endpoint.guard, &call.metric) {
        (Guard::Caller(rule), _) => policy::allows(rule, &call.caller, Target::default()),
        (Guard::Metric(rule), Some(metric)) => call.may(rule, metric),
        _ => true,
    };
    if !allowed {
        return Err(ApiError::forbidden());
    }
    (endpoint.handler)(&call, body).await
}

/// Looks up what the path names, which Gnocchi does before it looks at the method.
async fn find_named(app: &App, found: &Found<'_>, parts: &Parts) -> Result<(), ApiError> {
    match found.route {
        METRIC | METRIC_MEASURES => {
            app.options().auth_mode.caller(&parts.headers)?;
            find_metric(app, &found.parameter).await?;
        }
        ARCHIVE_POLICY_RULE => {
            app.options().auth_mode.caller(&parts.headers)?;
            let rule = app.engine().indexer().archive_policy_rule(&found.parameter).await?;
            rule.ok_or_else(|| IndexerError::NoSuchArchivePolicyRule(found.parameter.clone()))?;
        }
        _ => {}
    }
    Ok(())
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

    fn find(method: &str, path: &str, prefix: &str) -> Result<(&'static str, String), ApiError> {
        let (parts, ()) = Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
        let router = Router::new();
        let found = router.find(&parts, prefix)?;
        found.endpoint.map(|_| (found.route, found.parameter))
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
