//! The table of all routes of Gnocchi's API, with methods and guards.

use gnudi_access::Rule;
use gnudi_app::{Guard, Route, handler};

use crate::arrow;

/// The rules for measures whose resources and metrics may have to be created.
const WRITE: &[Rule] = &[Rule::PostMeasures, Rule::CreateResource];

/// The routes of Gnocchi's API with its extensions, and of the web page, for [`gnudi_app::App`].
pub fn routes() -> Vec<Route> {
    use crate::routes::{
        aggregates, aggregation, archive_policy, archive_policy_rule, batch, capabilities, debug, influxdb,
        metric, page, resource, resource_type, root, search, status,
    };
    use Guard::{Caller, Deferred, Items, Metric, Open};
    gnudi_app::routes! {
        by handler;
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
            [PATCH Items(&[Rule::UpdateArchivePolicyRule]), archive_policy_rule::update];
        "/v1/metric" Nothing
            [OFFERS(arrow::OFFERS) GET Items(&[Rule::ListMetric]), metric::list]
            [POST Items(&[Rule::CreateMetric]), metric::create];
        "/v1/metric/:id" Metric
            [DELETE Metric(Rule::DeleteMetric), metric::delete]
            [GET Metric(Rule::GetMetric), metric::show]
            [PATCH Metric(Rule::UpdateMetric), metric::update];
        "/v1/metric/:id/measures" Metric
            [DELETE Metric(Rule::DeleteMetric), metric::delete_measures]
            [OFFERS(arrow::OFFERS) GET Metric(Rule::GetMeasures), metric::get_measures]
            [POST Metric(Rule::PostMeasures), metric::post_measures];
        "/v1/resource" Nothing [GET Open, resource::types];
        "/v1/resource/:type" ResourceType
            [DELETE Items(&[Rule::DeleteResources]), resource::delete_matching]
            [OFFERS(arrow::OFFERS) GET Items(&[Rule::ListResource]), resource::list]
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
        "/v1/resource/:type/:id/history" ResourceId [OFFERS(arrow::OFFERS) GET Items(&[Rule::GetResource]), resource::history];
        "/v1/resource/:type/:id/metric" ResourceId
            [OFFERS(arrow::OFFERS) GET Items(&[Rule::GetResource]), resource::list_metrics]
            [POST Items(&[Rule::UpdateResource]), resource::create_metrics];
        "/v1/resource/:type/:id/metric/:name" NamedMetric
            [DELETE Metric(Rule::DeleteMetric), metric::delete]
            [GET Metric(Rule::GetMetric), metric::show]
            [PATCH Metric(Rule::UpdateMetric), metric::update];
        "/v1/resource/:type/:id/metric/:name/measures" NamedMetric
            [DELETE Metric(Rule::DeleteMetric), metric::delete_measures]
            [OFFERS(arrow::OFFERS) GET Metric(Rule::GetMeasures), metric::get_measures]
            [POST Metric(Rule::PostMeasures), metric::post_measures];
        "/v1/resource_type" Nothing
            [GET Caller(Rule::ListResourceType), resource_type::list]
            [POST Items(&[Rule::CreateResourceType]), resource_type::create];
        "/v1/resource_type/:name" Nothing
            [DELETE Items(&[Rule::DeleteResourceType]), resource_type::delete]
            [GET Items(&[Rule::GetResourceType]), resource_type::show]
            [PATCH Items(&[Rule::UpdateResourceType]), resource_type::update];
        "/v1/aggregates" Nothing [OFFERS(arrow::OFFERS) POST Items(&[Rule::SearchResource, Rule::GetMetric]), aggregates::fetch];
        "/v1/aggregation" Nothing;
        "/v1/aggregation/metric" Nothing
            [GET Items(&[Rule::GetMetric]), aggregation::metric]
            [POST Items(&[Rule::GetMetric]), aggregation::posted_metric];
        "/v1/aggregation/resource/:type/metric/:name" ResourceType
            [POST Items(&[Rule::SearchResource]), aggregation::resource];
        // Without this route, so many segments would give 405 instead of 404.
        "/v1/aggregation/:object/:type/:key/:name" Nothing;
        "/v1/batch/metrics/measures" Nothing
            [OFFERS(arrow::OFFERS) POST Items(&[Rule::PostMeasures]), batch::post_metrics_measures];
        "/v1/batch/resources/metrics/measures" Nothing
            [OFFERS(arrow::OFFERS) POST Items(WRITE), batch::post_resources_metrics_measures];
        "/v1/search/metric" Nothing [POST Items(&[Rule::SearchMetric]), search::metric];
        "/v1/search/resource" Nothing;
        "/v1/search/resource/:type" ResourceType [OFFERS(arrow::OFFERS) POST Items(&[Rule::SearchResource]), search::resource];
        "/v1/influxdb/ping" Nothing
            [BARE GET Open, influxdb::ping]
            [BARE HEAD Open, influxdb::ping];
        "/v1/influxdb/query" Nothing [BARE POST Deferred(Rule::CreateResourceType), influxdb::query];
        "/v1/influxdb/write" Nothing [BARE POST Items(WRITE), influxdb::write];
        "/v1/capabilities" Nothing [GET Open, capabilities::show];
        "/v1/status" Nothing [GET Caller(Rule::GetStatus), status::show];
        "/v1/status/:details" Nothing [GET Caller(Rule::GetStatus), status::show];
    }
}
