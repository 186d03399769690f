//! The OpenAPI 3.1 document of the API, which `/v1/openapi.json` serves.
//!
//! Written by hand: `base.json` has the common parts, `paths/` one file per section of the router; a test
//! compares their routes and methods. The document is not used for validation: handlers have their own
//! checks, with Gnocchi's error texts.

use std::sync::LazyLock;

use bytes::Bytes;
use gnudi_app::json::{self, Value};

const BASE: &str = include_str!("base.json");

const PATHS: [&str; 13] = [
    include_str!("paths/root.json"),
    include_str!("paths/archive_policy.json"),
    include_str!("paths/archive_policy_rule.json"),
    include_str!("paths/metric.json"),
    include_str!("paths/batch.json"),
    include_str!("paths/resource_type.json"),
    include_str!("paths/resource.json"),
    include_str!("paths/search.json"),
    include_str!("paths/aggregates.json"),
    include_str!("paths/aggregation.json"),
    include_str!("paths/influxdb.json"),
    include_str!("paths/prometheus.json"),
    include_str!("paths/prometheus_api.json"),
];

/// The placeholder of the program's version in `base.json`.
const VERSION: &str = "@VERSION@";

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let mut text = Vec::new();
    document().write_json(&mut text);
    text.into()
});

/// The document as JSON text.
pub fn text() -> Bytes {
    DOCUMENT.clone()
}

fn document() -> Value {
    let mut paths = Vec::new();
    for file in PATHS {
        paths.extend(entries(file));
    }
    let mut document = entries(&BASE.replace(VERSION, env!("CARGO_PKG_VERSION")));
    document.push(("paths".to_owned(), Value::Object(paths)));
    Value::Object(document)
}

fn entries(text: &str) -> Vec<(String, Value)> {
    match json::parse(text.as_bytes()) {
        Ok(Value::Object(entries)) => entries,
        other => unreachable!("a file of this crate is no JSON object: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use gnudi_app::{Route, Router};
    use gnudi_drivers::{aggregates::memory::MemoryAggregates, incoming::memory::MemoryIncoming};
    use gnudi_engine::Engine;
    use gnudi_indexer::MemoryIndexer;
    use gnudi_model::{SackCount, Timestamp};
    use gnudi_prometheus_api::{PrometheusApi, PrometheusOptions};

    use super::*;

    /// The routes of both APIs: the document describes both.
    fn all_routes() -> Vec<Route> {
        let engine = Engine::new(
            Arc::new(MemoryIndexer::default()),
            Arc::new(MemoryIncoming::new(SackCount::DEFAULT, u64::MAX)),
            Arc::new(MemoryAggregates::default()),
            || Timestamp::EPOCH,
        );
        let prometheus = PrometheusApi::new(Arc::new(engine), PrometheusOptions::default());
        let mut routes = crate::routes();
        routes.extend(gnudi_prometheus_api::routes(prometheus));
        routes
    }

    /// The keys of a path that are not methods.
    const NO_METHODS: [&str; 1] = ["parameters"];

    fn keys(value: &Value) -> Vec<&str> {
        let Value::Object(entries) = value else { panic!("{value:?} is no object") };
        entries.iter().map(|(key, _)| key.as_str()).collect()
    }

    #[test]
    fn it_has_the_routes_of_the_router_and_no_others() {
        let document = document();
        let paths = document.get("paths").unwrap();
        let mut described = BTreeSet::new();
        for path in keys(paths) {
            for method in keys(paths.get(path).unwrap()) {
                if !NO_METHODS.contains(&method) {
                    let path = if path == "/" { path } else { path.trim_end_matches('/') };
                    assert!(
                        described.insert(format!("{} {path}", method.to_uppercase())),
                        "{method} {path} twice"
                    );
                }
            }
        }
        // Routes for any method are described as GET.
        let served: BTreeSet<String> = Router::new(all_routes())
            .endpoints()
            .map(|(method, path)| format!("{} {path}", if method == "*" { "GET" } else { method }))
            .collect();
        assert_eq!(described, served);
    }

    #[test]
    fn what_it_refers_to_is_there() {
        let document = document();
        let text = String::from_utf8(text().to_vec()).unwrap();
        let mut count = 0;
        for reference in text.split("\"$ref\": \"#/").skip(1) {
            let path = reference.split('"').next().unwrap();
            let found = path.split('/').try_fold(&document, |value, key| value.get(key));
            assert!(found.is_some(), "{path}");
            count += 1;
        }
        assert!(count > 100, "{count}");
    }

    #[test]
    fn every_parameter_of_a_path_is_described() {
        let document = document();
        let paths = document.get("paths").unwrap();
        for path in keys(paths) {
            let wanted = path.split('/').filter(|segment| segment.starts_with('{')).count();
            for method in keys(paths.get(path).unwrap()) {
                let parameters = paths.get(path).unwrap().get(method).unwrap().get("parameters");
                let Some(Value::Array(parameters)) = parameters else {
                    assert_eq!(wanted, 0, "{method} {path}");
                    continue;
                };
                let in_path = parameters.iter().filter(|parameter| {
                    let name = match parameter.get("$ref") {
                        Some(Value::Str(reference)) => reference.rsplit('/').next().unwrap(),
                        _ => return parameter.get("in") == Some(&"path".into()),
                    };
                    let parameter = document.get("components").unwrap().get("parameters").unwrap().get(name);
                    parameter.unwrap().get("in") == Some(&"path".into())
                });
                assert_eq!(in_path.count(), wanted, "{method} {path}");
            }
        }
    }
}
