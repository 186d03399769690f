//! Finds a request's endpoint.
//!
//! As in pecan, empty segments of a path are ignored, so a trailing slash makes no difference.

use std::borrow::Cow;

use gnudi_model::python::unquote;
use hyper::{Method, http::request::Parts};

use super::{ANY_METHOD, Endpoint, Lookup, Route};
use crate::error::{ApiError, Result};

/// All routes, as a search tree.
pub struct Router {
    paths: matchit::Router<usize>,
    routes: Vec<Route>,
}

/// A request's endpoint.
pub struct RouteMatch<'r> {
    /// An error if no endpoint matches; it is returned after the path's object has been found.
    pub endpoint: Result<&'r Endpoint>,
    pub(super) lookup: Lookup,
    /// The route's path, with parameter names.
    pub route: &'static str,
    /// The decoded values of the path's parameters, in order.
    pub parameters: Vec<String>,
}

impl RouteMatch<'_> {
    /// Whether the route belongs to version 1 of the API.
    pub fn is_version_1(&self) -> bool {
        is_below_version_1(self.route)
    }
}

/// An unknown segment directly below these is a path without a route, not a segment too many.
const ROOTS: [&str; 2] = ["/", "/v1"];

/// Gnocchi reads a segment too many here as the argument `start`. Here `start` is a query argument only.
const AGGREGATES: &str = "/v1/aggregates";

/// The suffix of the paths of a metric's measures.
const MEASURES: &str = "/measures";

impl Router {
    /// # Panics
    /// If two routes match the same path.
    pub fn new(routes: Vec<Route>) -> Self {
        let mut paths = matchit::Router::new();
        for (index, route) in routes.iter().enumerate() {
            let pattern = pattern(route.path);
            let below = route.also_below.map(|prefix| format!("{prefix}{pattern}"));
            for pattern in [pattern].into_iter().chain(below) {
                paths.insert(pattern, index).expect("no two routes match the same path");
            }
        }
        Router { paths, routes }
    }

    /// The method (`*` for any) and path, with `{name}` for a parameter, of every endpoint.
    pub fn endpoints(&self) -> impl Iterator<Item = (&str, String)> {
        self.routes.iter().flat_map(|route| {
            route.endpoints.iter().map(|endpoint| (endpoint.method.as_str(), pattern(route.path)))
        })
    }

    /// Finds the endpoint of a request.
    ///
    /// # Errors
    /// 404 if neither the path nor a prefix of it matches a route; 405 for `CONNECT`: this is no proxy.
    pub fn find(&self, parts: &Parts, prefix: &str) -> Result<RouteMatch<'_>> {
        if parts.method == Method::CONNECT {
            return Err(ApiError::method_not_allowed(Vec::new()));
        }
        let path = parts.uri.path();
        let path = match path.strip_prefix(prefix) {
            Some(path) if path.is_empty() || path.starts_with('/') => path,
            // Probes and scrapers of the server itself need not know the prefix.
            _ if matches!(path, "/healthcheck" | "/metrics") => path,
            _ => return Err(ApiError::no_such_path()),
        };
        let path = normal(path).ok_or_else(|| ApiError::bad_request("The path is not UTF-8"))?;
        let (index, parameters, exact) = self.nearest(&path)?;
        let route = &self.routes[index];
        let endpoint = match route.endpoints.iter().find(|endpoint| serves(endpoint, &parts.method)) {
            Some(endpoint) if exact => Ok(endpoint),
            _ => Err(self.refusal(route, &parts.method, exact)),
        };
        Ok(RouteMatch { endpoint, lookup: route.lookup, route: route.path, parameters })
    }

    /// The route, parameters and whether the match is exact; without an exact match the longest matching
    /// prefix.
    fn nearest(&self, path: &str) -> Result<(usize, Vec<String>, bool)> {
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

    /// Pecan's error for a method that the route lacks, or for a segment too many below it. Pecan passes such
    /// a segment to the method, if there is one, as an argument.
    fn refusal(&self, route: &Route, method: &Method, exact: bool) -> ApiError {
        if route.endpoints.is_empty() && route.path.contains(':') {
            return ApiError::not_found("");
        }
        // In Gnocchi `measures` is an action of the metric's controller, and otherwise a segment too many.
        let metric = route
            .path
            .strip_suffix(MEASURES)
            .and_then(|path| self.routes.iter().find(|route| route.path == path));
        let (controller, exact) = metric.map_or((route, exact), |metric| (metric, false));
        let is_metric = matches!(controller.lookup, Lookup::Metric | Lookup::NamedMetric);
        // Gnocchi's metrics have no PATCH, so `Allow` omits it.
        let is_gnocchis = |endpoint: &&Endpoint| !is_metric || endpoint.method != Method::PATCH;
        let endpoints = || controller.endpoints.iter().filter(is_gnocchis);
        let has_method = endpoints().any(|endpoint| serves(endpoint, method));
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

/// A route's path in matchit's syntax: `{id}` for `:id`.
fn pattern(path: &str) -> String {
    let segments = path.split('/').map(|segment| match segment.strip_prefix(':') {
        Some(parameter) => format!("{{{parameter}}}"),
        None => segment.to_owned(),
    });
    segments.collect::<Vec<_>>().join("/")
}

fn serves(endpoint: &Endpoint, method: &Method) -> bool {
    endpoint.method == *method || endpoint.method.as_str() == ANY_METHOD
}

fn method_text(method: &Method) -> &'static str {
    ["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"]
        .into_iter()
        .find(|known| method.as_str() == *known)
        .unwrap_or("")
}

/// Whether a path, normalized, belongs to version 1 of the API; also if it cannot be normalized.
pub(crate) fn is_version_1(path: &str, prefix: &str) -> bool {
    let path = path.strip_prefix(prefix).unwrap_or(path);
    normal(path).is_none_or(|path| is_below_version_1(&path))
}

/// Takes a normalized path.
fn is_below_version_1(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The decoded path without empty segments; `None` if it is not UTF-8.
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
    use super::*;

    #[test]
    fn a_path_of_version_1_leads_there_whatever_its_form() {
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
    }
}
