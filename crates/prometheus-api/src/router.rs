//! The table of all routes of Prometheus' API, with methods and guards.

use std::sync::Arc;

use gnudi_access::Rule;
use gnudi_app::{Guard, Handled, Handler, Route};
use gnudi_server::RequestBody;

use crate::api::{Call, PrometheusApi};

/// The rules for samples whose metrics may have to be created.
const WRITE: &[Rule] = &[Rule::PostMeasures, Rule::CreateResource];

/// The API is also served under this prefix, for clients that distinguish services by prefix.
const PREFIX: &str = "/prometheus";

/// A handler with the API's state.
struct ApiHandler {
    api: Arc<PrometheusApi>,
    serve: for<'a, 'b> fn(&'a PrometheusApi, &'a gnudi_app::Call<'a>, &'a mut RequestBody<'b>) -> Handled<'a>,
}

impl Handler for ApiHandler {
    fn handle<'a>(&'a self, call: &'a gnudi_app::Call<'a>, body: &'a mut RequestBody<'_>) -> Handled<'a> {
        (self.serve)(&self.api, call, body)
    }
}

/// The routes of Prometheus' API, for [`gnudi_app::App`].
pub fn routes(api: PrometheusApi) -> Vec<Route> {
    use Guard::Items;

    use crate::routes;

    let api = Arc::new(api);
    macro_rules! handler {
        ($handler:path) => {
            Box::new(ApiHandler {
                api: api.clone(),
                serve: |api, call, body| Box::pin(async move { $handler(&Call { call, api }, body).await }),
            })
        };
    }
    let own = gnudi_app::routes! {
        by handler;
        "/api/v1/write" Nothing [BARE POST Items(WRITE), routes::remote_write];
        "/api/v1/otlp/v1/metrics" Nothing [BARE POST Items(WRITE), routes::otlp_metrics];
        "/api/v1/read" Nothing [BARE POST Items(&[Rule::GetMeasures]), routes::remote_read];
        "/federate" Nothing [BARE GET Items(&[Rule::GetMeasures]), routes::federate];
        "/api/v1/query" Nothing
            [BARE GET Items(&[Rule::GetMeasures]), routes::query]
            [BARE POST Items(&[Rule::GetMeasures]), routes::query];
        "/api/v1/query_range" Nothing
            [BARE GET Items(&[Rule::GetMeasures]), routes::query_range]
            [BARE POST Items(&[Rule::GetMeasures]), routes::query_range];
        "/api/v1/query_exemplars" Nothing
            [BARE GET Items(&[Rule::GetMeasures]), routes::query_exemplars]
            [BARE POST Items(&[Rule::GetMeasures]), routes::query_exemplars];
        "/api/v1/format_query" Nothing
            [BARE GET Items(&[Rule::ListMetric]), routes::format_query]
            [BARE POST Items(&[Rule::ListMetric]), routes::format_query];
        "/api/v1/parse_query" Nothing
            [BARE GET Items(&[Rule::ListMetric]), routes::parse_query]
            [BARE POST Items(&[Rule::ListMetric]), routes::parse_query];
        "/api/v1/series" Nothing
            [BARE GET Items(&[Rule::ListMetric]), routes::series]
            [BARE POST Items(&[Rule::ListMetric]), routes::series];
        "/api/v1/labels" Nothing
            [BARE GET Items(&[Rule::ListMetric]), routes::labels]
            [BARE POST Items(&[Rule::ListMetric]), routes::labels];
        "/api/v1/label/:name/values" Nothing [BARE GET Items(&[Rule::ListMetric]), routes::label_values];
        "/api/v1/metadata" Nothing [BARE GET Items(&[Rule::ListMetric]), routes::metadata];
        "/api/v1/targets" Nothing [BARE GET Items(&[Rule::GetMeasures]), routes::targets];
        "/api/v1/rules" Nothing [BARE GET Items(&[Rule::ListMetric]), routes::rules];
        "/api/v1/alerts" Nothing [BARE GET Items(&[Rule::ListMetric]), routes::alerts];
        "/api/v1/status/buildinfo" Nothing [BARE GET Items(&[Rule::ListMetric]), routes::build_info];
        "/api/v1/status/runtimeinfo" Nothing [BARE GET Items(&[Rule::ListMetric]), routes::runtime_info];
        "/api/v1/status/flags" Nothing [BARE GET Items(&[Rule::ListMetric]), routes::flags];
        "/api/v1/status/config" Nothing [BARE GET Items(&[Rule::ListMetric]), routes::config];
        "/api/v1/status/tsdb" Nothing [BARE GET Items(&[Rule::ListMetric]), routes::tsdb];
        "/api/v1/admin/tsdb/delete_series" Nothing
            [BARE POST Items(&[Rule::DeleteMetric]), routes::delete_series]
            [BARE PUT Items(&[Rule::DeleteMetric]), routes::delete_series];
        "/api/v1/admin/tsdb/clean_tombstones" Nothing
            [BARE POST Items(&[Rule::DeleteMetric]), routes::clean_tombstones]
            [BARE PUT Items(&[Rule::DeleteMetric]), routes::clean_tombstones];
    };
    let own = own.into_iter().map(|route| Route { also_below: Some(PREFIX), ..route });
    // Gnocchi's remote write, at Gnocchi's path.
    let gnocchi = gnudi_app::routes! {
        by handler;
        "/v1/prometheus/write" Nothing [BARE POST Items(WRITE), routes::write];
    };
    own.chain(gnocchi).collect()
}
