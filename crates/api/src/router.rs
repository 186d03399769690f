//! Every route, with its methods and who may use them, in one table.
//!
//! `find` looks a path up in it, `dispatch` finds what the path names, asks the guard and calls the handler.

mod dispatch;
mod find;

use std::pin::Pin;

use hyper::Method;

pub use dispatch::dispatch;
pub use find::{RouteMatch, Router, is_version_1};

use crate::{body::RequestBody, call::Call, error::ApiError, policy::Rule, reply::Response, routes};

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
    // Skips content negotiation: these clients send wrong Accept headers.
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

/// Of measures for resources and metrics that may have to be made.
const WRITE: &[Rule] = &[Rule::PostMeasures, Rule::CreateResource];

/// The whole API.
#[expect(clippy::too_many_lines, reason = "it is one table")]
fn routes() -> Vec<Route> {
    use Guard::{Caller, Deferred, Items, Metric, Open};
    use Lookup::Nothing;
    use routes::{
        aggregates, aggregation, archive_policy, archive_policy_rule, batch, capabilities, debug, influxdb,
        metric, prometheus, resource, resource_type, root, search, status,
    };
    vec![
        route("/", Nothing, vec![endpoint!(ANY Open, root::versions)]),
        route("/v1", Nothing, vec![endpoint!(ANY Open, root::index)]),
        route("/v1/openapi.json", Nothing, vec![endpoint!(GET Open, root::openapi_document)]),
        route("/healthcheck", Nothing, vec![endpoint!(ANY Open, root::healthcheck)]),
        route("/metrics", Nothing, vec![endpoint!(ANY Open, root::figures)]),
        route("/debug/cluster", Nothing, vec![endpoint!(GET Caller(Rule::GetStatus), debug::cluster)]),
        route(
            "/debug/flamegraph",
            Nothing,
            vec![endpoint!(BARE GET Caller(Rule::GetProfile), debug::flamegraph)],
        ),
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
                endpoint!(GET Items(&[Rule::GetArchivePolicy]), archive_policy::show),
                endpoint!(PATCH Items(&[Rule::UpdateArchivePolicy]), archive_policy::update),
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
                endpoint!(GET Items(&[Rule::GetArchivePolicyRule]), archive_policy_rule::show),
                endpoint!(PATCH Caller(Rule::UpdateArchivePolicyRule), archive_policy_rule::update),
            ],
        ),
        route(
            "/v1/metric",
            Nothing,
            vec![
                endpoint!(GET Items(&[Rule::ListMetric]), metric::list),
                endpoint!(POST Items(&[Rule::CreateMetric]), metric::create),
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
                endpoint!(DELETE Items(&[Rule::DeleteResources]), resource::delete_matching),
                endpoint!(GET Items(&[Rule::ListResource]), resource::list),
                endpoint!(POST Items(&[Rule::CreateResource]), resource::create),
            ],
        ),
        route(
            "/v1/resource/:type/:id",
            Lookup::ResourceId,
            vec![
                endpoint!(DELETE Items(&[Rule::DeleteResource]), resource::delete),
                endpoint!(GET Items(&[Rule::GetResource]), resource::show),
                endpoint!(PATCH Items(&[Rule::UpdateResource]), resource::update),
            ],
        ),
        route(
            "/v1/resource/:type/:id/history",
            Lookup::ResourceId,
            vec![endpoint!(GET Items(&[Rule::GetResource]), resource::history)],
        ),
        route(
            "/v1/resource/:type/:id/metric",
            Lookup::ResourceId,
            vec![
                endpoint!(GET Items(&[Rule::GetResource]), resource::list_metrics),
                endpoint!(POST Items(&[Rule::UpdateResource]), resource::create_metrics),
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
                endpoint!(POST Items(&[Rule::CreateResourceType]), resource_type::create),
            ],
        ),
        route(
            "/v1/resource_type/:name",
            Nothing,
            vec![
                endpoint!(DELETE Items(&[Rule::DeleteResourceType]), resource_type::delete),
                endpoint!(GET Items(&[Rule::GetResourceType]), resource_type::show),
                endpoint!(PATCH Items(&[Rule::UpdateResourceType]), resource_type::update),
            ],
        ),
        route(
            "/v1/aggregates",
            Nothing,
            vec![endpoint!(POST Items(&[Rule::SearchResource, Rule::GetMetric]), aggregates::fetch)],
        ),
        route("/v1/aggregation", Nothing, Vec::new()),
        route(
            "/v1/aggregation/metric",
            Nothing,
            vec![
                endpoint!(GET Items(&[Rule::GetMetric]), aggregation::metric),
                endpoint!(POST Items(&[Rule::GetMetric]), aggregation::posted_metric),
            ],
        ),
        route(
            "/v1/aggregation/resource/:type/metric/:name",
            Lookup::ResourceType,
            vec![endpoint!(POST Items(&[Rule::SearchResource]), aggregation::resource)],
        ),
        // Where so many segments lead nowhere, and not to a method that is missing.
        route("/v1/aggregation/:object/:type/:key/:name", Nothing, Vec::new()),
        route(
            "/v1/batch/metrics/measures",
            Nothing,
            vec![endpoint!(POST Items(&[Rule::PostMeasures]), batch::post_metrics_measures)],
        ),
        route(
            "/v1/batch/resources/metrics/measures",
            Nothing,
            vec![endpoint!(POST Items(WRITE), batch::post_resources_metrics_measures)],
        ),
        route(
            "/v1/search/metric",
            Nothing,
            vec![endpoint!(POST Items(&[Rule::SearchMetric]), search::metric)],
        ),
        route("/v1/search/resource", Nothing, Vec::new()),
        route(
            "/v1/search/resource/:type",
            Lookup::ResourceType,
            vec![endpoint!(POST Items(&[Rule::SearchResource]), search::resource)],
        ),
        route(
            "/v1/influxdb/ping",
            Nothing,
            vec![endpoint!(BARE GET Open, influxdb::ping), endpoint!(BARE HEAD Open, influxdb::ping)],
        ),
        route(
            "/v1/influxdb/query",
            Nothing,
            vec![endpoint!(BARE POST Deferred(Rule::CreateResourceType), influxdb::query)],
        ),
        route("/v1/influxdb/write", Nothing, vec![endpoint!(BARE POST Items(WRITE), influxdb::write)]),
        route("/v1/prometheus/write", Nothing, vec![endpoint!(BARE POST Items(WRITE), prometheus::write)]),
        route("/v1/capabilities", Nothing, vec![endpoint!(GET Open, capabilities::show)]),
        route("/v1/status", Nothing, vec![endpoint!(GET Caller(Rule::GetStatus), status::show)]),
        route("/v1/status/:details", Nothing, vec![endpoint!(GET Caller(Rule::GetStatus), status::show)]),
    ]
}

fn route(path: &'static str, lookup: Lookup, endpoints: Vec<Endpoint>) -> Route {
    Route { path, lookup, endpoints }
}
