//! The API's own metrics at `/metrics`.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

/// Counters and gauges.
#[derive(Debug, Default)]
pub struct Figures {
    requests: Family<RequestLabels, Counter>,
    /// Measures acknowledged with 202.
    pub measures: Counter,
    /// Bodies that the fast scanner passed to the slow parser.
    pub irregular_bodies: Counter,
    /// Handlers that panicked.
    pub panics: Counter,
    /// Updated when `/metrics` is requested.
    pub backlog_measures: Gauge,
    pub backlog_bytes: Gauge,
}

impl Figures {
    /// Registers everything under `gnudi_api_` and `gnudi_backlog_`.
    pub fn new(registry: &mut Registry) -> Self {
        let figures = Figures::default();
        let api = registry.sub_registry_with_prefix("gnudi_api");
        api.register("requests", "Requests answered", figures.requests.clone());
        api.register("measures", "Measures accepted", figures.measures.clone());
        api.register(
            "irregular_bodies",
            "Bodies of measures that needed the slow parser",
            figures.irregular_bodies.clone(),
        );
        api.register("panics", "Requests that failed by a fault of the program", figures.panics.clone());
        let backlog = registry.sub_registry_with_prefix("gnudi_backlog");
        backlog.register("measures", "Measures that wait to be processed", figures.backlog_measures.clone());
        backlog.register("bytes", "Bytes of the measures that wait", figures.backlog_bytes.clone());
        figures
    }

    /// Counts a response.
    pub fn answered(&self, method: &'static str, route: &'static str, status: u16) {
        self.requests.get_or_create(&RequestLabels { method, route, status }).inc();
    }
}
