//! Finds the endpoint of a request.
//!
//! A path is found as pecan finds it: empty segments do not count, so that a trailing slash makes no difference.

use std::borrow::Cow;

use gnudi_model::python::unquote;
use hyper::{Method, http::request::Parts};

use super::{ANY_METHOD, Endpoint, Lookup, Route, routes};
use crate::error::ApiError;

/// The routes, ready to be searched.
pub struct Router {
    paths: matchit::Router<usize>,
    routes: Vec<Route>,
}

/// The endpoint that serves a request.
pub struct RouteMatch<'r> {
    /// Where none does, what the client is answered, once the thing that the path names is there.
    pub(super) endpoint: Result<&'r Endpoint, ApiError>,
    pub(super) lookup: Lookup,
    /// The path of the route, with its parameters' names in place of their values.
    pub route: &'static str,
    /// The values of the path's parameters, decoded, in its order.
    pub(super) parameters: Vec<String>,
}

impl RouteMatch<'_> {
    /// Whether the route is one of version 1 of the API.
    pub fn is_version_1(&self) -> bool {
        is_below_version_1(self.route)
    }
}

/// Segments below these are looked for in vain among the routes themselves, not below one.
const ROOTS: [&str; 2] = ["/", "/v1"];

/// Where a segment too many is read as the argument `start`, which here comes in the query only.
const AGGREGATES: &str = "/v1/aggregates";

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
    pub fn find(&self, parts: &Parts, prefix: &str) -> Result<RouteMatch<'_>, ApiError> {
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
        let path = normal(path).ok_or_else(|| ApiError::bad_request("The path is not UTF-8"))?;
        let (index, parameters, exact) = self.nearest(&path)?;
        let route = &self.routes[index];
        let serves =
            |endpoint: &&Endpoint| endpoint.method == parts.method || endpoint.method.as_str() == ANY_METHOD;
        let endpoint = match route.endpoints.iter().find(serves) {
            Some(endpoint) if exact => Ok(endpoint),
            _ => Err(self.refusal(route, &parts.method, exact)),
        };
        Ok(RouteMatch { endpoint, lookup: route.lookup, route: route.path, parameters })
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
        if route.endpoints.is_empty() && route.path.contains(':') {
            return ApiError::not_found("");
        }
        // Measures are an action of the metric there, and otherwise a segment too many.
        let metric = route
            .path
            .strip_suffix(MEASURES)
            .and_then(|path| self.routes.iter().find(|route| route.path == path));
        let (controller, exact) = metric.map_or((route, exact), |metric| (metric, false));
        let is_metric = matches!(controller.lookup, Lookup::Metric | Lookup::NamedMetric);
        // Gnocchi's metrics have no PATCH, and no refusal of theirs names it.
        let is_gnocchis = |endpoint: &&Endpoint| !is_metric || endpoint.method != Method::PATCH;
        let endpoints = || controller.endpoints.iter().filter(is_gnocchis);
        let has_method = endpoints().any(|endpoint| endpoint.method == *method);
        if !exact && route.path == AGGREGATES && *method == Method::POST {
            return ApiError::argument("start", "Must be a datetime or a timestamp");
        }
        let takes_arguments = !is_metric || *method != Method::GET;
        if has_method && takes_arguments && !exact {
            return ApiError::not_found("");
        }
        let methods = endpoints().map(|endpoint| method_text(&endpoint.method));
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

/// Whether a path leads to version 1 of the API, in the form in which routes are looked up; also where it has no such form.
pub fn is_version_1(path: &str, prefix: &str) -> bool {
    let path = path.strip_prefix(prefix).unwrap_or(path);
    normal(path).is_none_or(|path| is_below_version_1(&path))
}

/// Of a path in the form in which routes are looked up.
fn is_below_version_1(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path, decoded, without empty segments; `None` where it is not UTF-8.
fn normal(path: &str) -> Option<Cow<'_, str>> {
    let decoded = if path.contains('%') {
        Cow::Owned(String::from_utf8(unquote(path)).ok()?)
    } else {
        Cow::Borrowed(path)
    };
    if decoded == "/" || !(decoded.ends_with('/') || decoded.contains("//") || decoded.is_empty()) {
        return Some(decoded);
    }
    let segments: Vec<&str> = decoded.split('/').filter(|segment| !segment.is_empty()).collect();
    Some(Cow::Owned(format!("/{}", segments.join("/"))))
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
        for path in ["/v2", "/v1/foo", "/v1/foo/bar", "/v1/batch", "/v1/batch/metrics"] {
            assert_eq!(find("GET", path, ""), Err(ApiError::no_such_path()), "{path}");
        }
        let status = |method, path| find(method, path, "").unwrap_err().status.as_u16();
        assert_eq!(status("GET", "/v1/metric/%ff"), 400);
        assert_eq!(status("POST", "/v1/aggregates/more"), 400);
        assert_eq!(status("POST", "/v1/search/resource"), 405);
        assert_eq!(find("BREW", "/v1/", ""), Ok(("/v1", String::new())));
    }

    #[test]
    fn whatever_finds_a_route_of_version_1_leads_to_version_1() {
        for path in [
            "/v1",
            "/v1/",
            "//v1/resource",
            "/%761/resource",
            "/v1%2Fresource",
            "/%2fv1/resource",
            "//v1//capabilities",
            "/v%31/influxdb/query",
            "/v1/no/such/path",
            "/v1/metric/%ff",
            "/%ff",
        ] {
            assert!(is_version_1(path, ""), "{path}");
            assert!(is_version_1(&format!("/gnocchi{path}"), "/gnocchi"), "{path}");
        }
        for path in ["/", "", "/healthcheck", "/v1x", "/v", "/metrics", "//", "/x/v1"] {
            assert!(!is_version_1(path, ""), "{path}");
        }
        let router = Router::new();
        for (_, pattern) in router.endpoints() {
            for path in
                [pattern.clone(), format!("/{pattern}/"), pattern.replace('v', "%76").replace('1', "%31")]
            {
                assert_eq!(is_version_1(&path, ""), pattern.starts_with("/v1"), "{path}");
            }
        }
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
            ("GET", "/v1/metric/x/y", (405, one.clone())),
            ("DELETE", "/v1/metric/x/y", (404, vec![])),
            ("POST", "/v1/metric/x/measures/y", (405, one)),
            ("GET", "/v1/batch/metrics/measures", (405, vec!["POST"])),
            ("POST", "/v1/batch/metrics/measures/x", (404, vec![])),
            ("GET", "/v1/status/x/y", (404, vec![])),
            ("POST", "/v1/resource", (405, vec!["GET"])),
            ("PUT", "/v1/resource/t", (405, vec!["DELETE", "GET", "POST"])),
            ("PUT", "/v1/resource/t/r", (405, vec!["DELETE", "GET", "PATCH"])),
            ("GET", "/v1/resource/t/r/x", (404, vec![])),
            ("POST", "/v1/resource/t/r/history", (405, vec!["GET"])),
            ("GET", "/v1/resource/t/r/history/x", (404, vec![])),
            ("DELETE", "/v1/resource/t/r/metric", (405, vec!["GET", "POST"])),
            ("GET", "/v1/resource/t/r/metric/m/x", (405, vec!["DELETE", "GET"])),
            ("PUT", "/v1/resource/t/r/metric/m/measures", (405, vec!["DELETE", "GET"])),
            ("GET", "/v1/resource_type/t/x", (404, vec![])),
            ("PUT", "/v1/resource_type/t", (405, vec!["DELETE", "GET", "PATCH"])),
            ("GET", "/v1/aggregation", (405, vec![])),
            ("POST", "/v1/aggregation/resource/x/metric", (405, vec![])),
            ("POST", "/v1/aggregation/foo/x/metric/y", (404, vec![])),
            ("POST", "/v1/aggregation/resource/x/foo/y", (404, vec![])),
            ("GET", "/v1/aggregation/resource/x/metric/y", (405, vec!["POST"])),
        ] {
            assert_eq!(status(method, path, ""), expected, "{method} {path}");
        }
    }
}
