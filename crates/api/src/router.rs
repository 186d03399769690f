//! Every route, with its methods and who may use them, in one table.
//!
//! `find` looks a path up in it, `dispatch` finds what the path names, asks the guard and calls the handler.

mod dispatch;
mod find;

use std::pin::Pin;

use gnudi_access::Rule;
use gnudi_server::{RequestBody, Response};
use hyper::Method;

pub use dispatch::dispatch;
pub use find::{RouteMatch, Router, is_version_1};

use crate::{arrow, call::Call, error::ApiError, routes};

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
    /// Any caller; the handler asks one of the rules for each item, or the answer shows only what its caller may see. Debug builds
    /// assert that an answer comes of a handler that has asked.
    Items(&'static [Rule]),
    /// Anybody, until there is something to do: then the handler finds out who calls, and asks the rule.
    Deferred(Rule),
    /// A caller who passes the rule for the metric that was looked up.
    Metric(Rule),
}

type Handled<'a> = Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send + 'a>>;
type Handler = for<'a, 'b> fn(&'a Call<'a>, &'a mut RequestBody<'b>) -> Handled<'a>;

/// One method of a route.
struct Endpoint {
    method: Method,
    guard: Guard,
    /// What it may answer, the usual first; a client that takes none of it is refused (406). Empty: that is not looked at.
    offers: &'static [&'static str],
    handler: Handler,
}

macro_rules! handler {
    ($handler:path) => {
        |call, body| Box::pin($handler(call, body))
    };
}

/// Answers whatever the method is, as pecan's index pages do.
const ANY_METHOD: &str = "*";

const JSON: [&str; 1] = ["application/json"];

macro_rules! endpoint {
    (ANY $guard:expr, $handler:path) => {
        Endpoint {
            method: Method::from_bytes(ANY_METHOD.as_bytes()).expect("a token"),
            guard: $guard,
            offers: &[],
            handler: handler!($handler),
        }
    };
    // Skips content negotiation: these clients send wrong Accept headers.
    (BARE $method:ident $guard:expr, $handler:path) => {
        Endpoint { method: Method::$method, guard: $guard, offers: &[], handler: handler!($handler) }
    };
    // Also answers, or takes, Arrow IPC streams.
    (ARROW $method:ident $guard:expr, $handler:path) => {
        Endpoint {
            method: Method::$method,
            guard: $guard,
            offers: &arrow::OFFERS,
            handler: handler!($handler),
        }
    };
    ($method:ident $guard:expr, $handler:path) => {
        Endpoint { method: Method::$method, guard: $guard, offers: &JSON, handler: handler!($handler) }
    };
}

/// A table of [`Route`]s: a path, what it names, and its endpoints.
macro_rules! routes {
    ($($path:literal $lookup:ident $([$($endpoint:tt)*])*;)*) => {
        vec![$(Route { path: $path, lookup: Lookup::$lookup, endpoints: vec![$(endpoint!($($endpoint)*)),*] }),*]
    };
}

/// A path, what it names, and its methods. A route's name in `/metrics` is its path.
struct Route {
    path: &'static str,
    lookup: Lookup,
    endpoints: Vec<Endpoint>,
}

/// Of measures for resources and metrics that may have to be made.
const WRITE: &[Rule] = &[Rule::PostMeasures, Rule::CreateResource];

/// The whole API.
fn routes() -> Vec<Route> {
    let mut routes = gnocchi_routes();
    routes.extend(prometheus_routes());
    routes
}

/// Gnocchi's API with its extensions, and the page.
fn gnocchi_routes() -> Vec<Route> {
    use Guard::{Caller, Deferred, Items, Metric, Open};
    use routes::{
        aggregates, aggregation, archive_policy, archive_policy_rule, batch, capabilities, debug, influxdb,
        metric, page, prometheus, resource, resource_type, root, search, status,
    };
    routes! {
        "/" Nothing [ANY Open, root::versions];
        "/page/:file" Nothing [BARE GET Open, page::file];
        "/v1" Nothing [ANY Open, root::index];
        "/v1/openapi.json" Nothing [GET Open, root::openapi_document];
        "/healthcheck" Nothing [ANY Open, root::healthcheck];
        "/metrics" Nothing [ANY Open, root::figures];
        "/debug/cluster" Nothing [GET Caller(Rule::GetStatus), debug::cluster];
        "/debug/flamegraph" Nothing [BARE GET Caller(Rule::GetProfile), debug::flamegraph];
        "/v1/archive_policy" Nothing
            [GET Caller(Rule::ListArchivePolicy), archive_policy::list]
            [POST Caller(Rule::CreateArchivePolicy), archive_policy::create];
        "/v1/archive_policy/:name" Nothing
            [DELETE Caller(Rule::DeleteArchivePolicy), archive_policy::delete]
            [GET Items(&[Rule::GetArchivePolicy]), archive_policy::show]
            [PATCH Items(&[Rule::UpdateArchivePolicy]), archive_policy::update];
        "/v1/archive_policy_rule" Nothing
            [GET Caller(Rule::ListArchivePolicyRule), archive_policy_rule::list]
            [POST Caller(Rule::CreateArchivePolicyRule), archive_policy_rule::create];
        "/v1/archive_policy_rule/:name" ArchivePolicyRule
            [DELETE Caller(Rule::DeleteArchivePolicyRule), archive_policy_rule::delete]
            [GET Items(&[Rule::GetArchivePolicyRule]), archive_policy_rule::show]
            [PATCH Caller(Rule::UpdateArchivePolicyRule), archive_policy_rule::update];
        "/v1/metric" Nothing
            [ARROW GET Items(&[Rule::ListMetric]), metric::list]
            [POST Items(&[Rule::CreateMetric]), metric::create];
        "/v1/metric/:id" Metric
            [DELETE Metric(Rule::DeleteMetric), metric::delete]
            [GET Metric(Rule::GetMetric), metric::show]
            [PATCH Metric(Rule::UpdateMetric), metric::update];
        "/v1/metric/:id/measures" Metric
            [DELETE Metric(Rule::DeleteMetric), metric::delete_measures]
            [ARROW GET Metric(Rule::GetMeasures), metric::get_measures]
            [POST Metric(Rule::PostMeasures), metric::post_measures];
        "/v1/resource" Nothing [GET Open, resource::types];
        "/v1/resource/:type" ResourceType
            [DELETE Items(&[Rule::DeleteResources]), resource::delete_matching]
            [ARROW GET Items(&[Rule::ListResource]), resource::list]
            [POST Items(&[Rule::CreateResource]), resource::create];
        "/v1/resource/:type/:id" ResourceId
            [DELETE Items(&[Rule::DeleteResource]), resource::delete]
            [GET Items(&[Rule::GetResource]), resource::show]
            [PATCH Items(&[Rule::UpdateResource]), resource::update];
        "/v1/resource/:type/:id/annotation" ResourceId
            [GET Items(&[Rule::GetAnnotation]), resource::list_annotations]
            [POST Items(&[Rule::CreateAnnotation]), resource::annotate];
        "/v1/resource/:type/:id/annotation/:annotation" ResourceId
            [DELETE Items(&[Rule::DeleteAnnotation]), resource::delete_annotation]
            [GET Items(&[Rule::GetAnnotation]), resource::show_annotation];
        "/v1/resource/:type/:id/history" ResourceId [ARROW GET Items(&[Rule::GetResource]), resource::history];
        "/v1/resource/:type/:id/metric" ResourceId
            [ARROW GET Items(&[Rule::GetResource]), resource::list_metrics]
            [POST Items(&[Rule::UpdateResource]), resource::create_metrics];
        "/v1/resource/:type/:id/metric/:name" NamedMetric
            [DELETE Metric(Rule::DeleteMetric), metric::delete]
            [GET Metric(Rule::GetMetric), metric::show]
            [PATCH Metric(Rule::UpdateMetric), metric::update];
        "/v1/resource/:type/:id/metric/:name/measures" NamedMetric
            [DELETE Metric(Rule::DeleteMetric), metric::delete_measures]
            [ARROW GET Metric(Rule::GetMeasures), metric::get_measures]
            [POST Metric(Rule::PostMeasures), metric::post_measures];
        "/v1/resource_type" Nothing
            [GET Caller(Rule::ListResourceType), resource_type::list]
            [POST Items(&[Rule::CreateResourceType]), resource_type::create];
        "/v1/resource_type/:name" Nothing
            [DELETE Items(&[Rule::DeleteResourceType]), resource_type::delete]
            [GET Items(&[Rule::GetResourceType]), resource_type::show]
            [PATCH Items(&[Rule::UpdateResourceType]), resource_type::update];
        "/v1/aggregates" Nothing [ARROW POST Items(&[Rule::SearchResource, Rule::GetMetric]), aggregates::fetch];
        "/v1/aggregation" Nothing;
        "/v1/aggregation/metric" Nothing
            [GET Items(&[Rule::GetMetric]), aggregation::metric]
            [POST Items(&[Rule::GetMetric]), aggregation::posted_metric];
        "/v1/aggregation/resource/:type/metric/:name" ResourceType
            [POST Items(&[Rule::SearchResource]), aggregation::resource];
        // Where so many segments lead nowhere, and not to a method that is missing.
        "/v1/aggregation/:object/:type/:key/:name" Nothing;
        "/v1/batch/metrics/measures" Nothing
            [ARROW POST Items(&[Rule::PostMeasures]), batch::post_metrics_measures];
        "/v1/batch/resources/metrics/measures" Nothing
            [ARROW POST Items(WRITE), batch::post_resources_metrics_measures];
        "/v1/search/metric" Nothing [POST Items(&[Rule::SearchMetric]), search::metric];
        "/v1/search/resource" Nothing;
        "/v1/search/resource/:type" ResourceType [ARROW POST Items(&[Rule::SearchResource]), search::resource];
        "/v1/influxdb/ping" Nothing
            [BARE GET Open, influxdb::ping]
            [BARE HEAD Open, influxdb::ping];
        "/v1/influxdb/query" Nothing [BARE POST Deferred(Rule::CreateResourceType), influxdb::query];
        "/v1/influxdb/write" Nothing [BARE POST Items(WRITE), influxdb::write];
        "/v1/prometheus/write" Nothing [BARE POST Items(WRITE), prometheus::write];
        "/v1/capabilities" Nothing [GET Open, capabilities::show];
        "/v1/status" Nothing [GET Caller(Rule::GetStatus), status::show];
        "/v1/status/:details" Nothing [GET Caller(Rule::GetStatus), status::show];
    }
}

/// Prometheus' API.
fn prometheus_routes() -> Vec<Route> {
    use Guard::Items;
    use routes::prometheus;
    routes! {
        "/api/v1/write" Nothing [BARE POST Items(WRITE), prometheus::remote_write];
        "/api/v1/otlp/v1/metrics" Nothing [BARE POST Items(WRITE), prometheus::otlp_metrics];
        "/api/v1/read" Nothing [BARE POST Items(&[Rule::GetMeasures]), prometheus::remote_read];
        "/federate" Nothing [BARE GET Items(&[Rule::GetMeasures]), prometheus::federate];
        "/api/v1/query" Nothing
            [BARE GET Items(&[Rule::GetMeasures]), prometheus::query]
            [BARE POST Items(&[Rule::GetMeasures]), prometheus::query];
        "/api/v1/query_range" Nothing
            [BARE GET Items(&[Rule::GetMeasures]), prometheus::query_range]
            [BARE POST Items(&[Rule::GetMeasures]), prometheus::query_range];
        "/api/v1/query_exemplars" Nothing
            [BARE GET Items(&[Rule::GetMeasures]), prometheus::query_exemplars]
            [BARE POST Items(&[Rule::GetMeasures]), prometheus::query_exemplars];
        "/api/v1/format_query" Nothing
            [BARE GET Items(&[Rule::ListMetric]), prometheus::format_query]
            [BARE POST Items(&[Rule::ListMetric]), prometheus::format_query];
        "/api/v1/parse_query" Nothing
            [BARE GET Items(&[Rule::ListMetric]), prometheus::parse_query]
            [BARE POST Items(&[Rule::ListMetric]), prometheus::parse_query];
        "/api/v1/series" Nothing
            [BARE GET Items(&[Rule::ListMetric]), prometheus::series]
            [BARE POST Items(&[Rule::ListMetric]), prometheus::series];
        "/api/v1/labels" Nothing
            [BARE GET Items(&[Rule::ListMetric]), prometheus::labels]
            [BARE POST Items(&[Rule::ListMetric]), prometheus::labels];
        "/api/v1/label/:name/values" Nothing [BARE GET Items(&[Rule::ListMetric]), prometheus::label_values];
        "/api/v1/metadata" Nothing [BARE GET Items(&[Rule::ListMetric]), prometheus::metadata];
        "/api/v1/targets" Nothing [BARE GET Items(&[Rule::GetMeasures]), prometheus::targets];
        "/api/v1/rules" Nothing [BARE GET Items(&[Rule::ListMetric]), prometheus::rules];
        "/api/v1/alerts" Nothing [BARE GET Items(&[Rule::ListMetric]), prometheus::alerts];
        "/api/v1/status/buildinfo" Nothing [BARE GET Items(&[Rule::ListMetric]), prometheus::build_info];
        "/api/v1/status/runtimeinfo" Nothing [BARE GET Items(&[Rule::ListMetric]), prometheus::runtime_info];
        "/api/v1/status/flags" Nothing [BARE GET Items(&[Rule::ListMetric]), prometheus::flags];
        "/api/v1/status/config" Nothing [BARE GET Items(&[Rule::ListMetric]), prometheus::config];
        "/api/v1/status/tsdb" Nothing [BARE GET Items(&[Rule::ListMetric]), prometheus::tsdb];
        "/api/v1/admin/tsdb/delete_series" Nothing
            [BARE POST Items(&[Rule::DeleteMetric]), prometheus::delete_series]
            [BARE PUT Items(&[Rule::DeleteMetric]), prometheus::delete_series];
        "/api/v1/admin/tsdb/clean_tombstones" Nothing
            [BARE POST Items(&[Rule::DeleteMetric]), prometheus::clean_tombstones]
            [BARE PUT Items(&[Rule::DeleteMetric]), prometheus::clean_tombstones];
    }
}
