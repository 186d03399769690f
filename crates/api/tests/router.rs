//! Routing of paths, and the errors for paths and methods without a route.

mod support;

use std::sync::Arc;

use gnudi_api::routes;
use gnudi_app::{ApiError, Router};
use gnudi_prometheus_api::{PrometheusApi, PrometheusOptions};
use hyper::Request;

fn find(method: &str, path: &str, prefix: &str) -> Result<(&'static str, String), ApiError> {
    let (parts, ()) = Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
    let router = Router::new(routes());
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
    let router = Router::new(routes());
    for (_, pattern) in router.endpoints() {
        for path in [pattern.clone(), format!("/{pattern}/"), pattern.replace('v', "%76").replace('1', "%31")]
        {
            let (parts, ()) = Request::builder().uri(&path).body(()).unwrap().into_parts();
            let found = router.find(&parts, "").unwrap_or_else(|error| panic!("{path}: {error:?}"));
            assert_eq!(found.is_version_1(), pattern.starts_with("/v1"), "{path}");
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
        ("GET", "/metrics/x", (404, vec![])),
        ("PUT", "/healthcheck/x", (404, vec![])),
    ] {
        assert_eq!(status(method, path, ""), expected, "{method} {path}");
    }
}

#[test]
fn prometheus_api_is_also_found_below_its_prefix() {
    let engine = support::engine();
    let prometheus = PrometheusApi::new(Arc::new(engine), PrometheusOptions::default());
    let router = Router::new(gnudi_prometheus_api::routes(prometheus).into_iter().chain(routes()).collect());
    let find = |method: &str, path: &str, prefix| {
        let (parts, ()) = Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
        let found = router.find(&parts, prefix).map_err(|error| error.status.as_u16())?;
        let served = found.endpoint.map_err(|error| error.status.as_u16());
        served.map(|_| (found.route, found.parameters.concat()))
    };
    let found = |route, parameter: &str| Ok((route, parameter.to_owned()));
    for path in ["/api/v1/query", "/prometheus/api/v1/query", "//prometheus//api%2Fv1/query/"] {
        assert_eq!(find("GET", path, ""), found("/api/v1/query", ""), "{path}");
        assert_eq!(find("GET", &format!("/p{path}"), "/p"), found("/api/v1/query", ""), "{path}");
        assert_eq!(find("DELETE", path, ""), Err(405), "{path}");
    }
    assert_eq!(find("GET", "/prometheus/federate", ""), found("/federate", ""));
    let values = "/prometheus/api/v1/label/a%20b/values";
    assert_eq!(find("GET", values, ""), found("/api/v1/label/:name/values", "a b"));
    let deletion = Request::get("/api/v1/admin/tsdb/delete_series").body(()).unwrap().into_parts().0;
    let refused = router.find(&deletion, "").unwrap().endpoint.err().unwrap();
    assert_eq!((refused.status.as_u16(), refused.allow), (405, vec!["POST", "PUT"]));
    for path in
        ["/prometheus", "/prometheus/v1/metric", "/prometheus/metrics", "/prometheus/prometheus/api/v1/query"]
    {
        assert_eq!(find("GET", path, ""), Err(404), "{path}");
    }
    assert_eq!(find("POST", "/prometheus/v1/prometheus/write", ""), Err(404));
}
