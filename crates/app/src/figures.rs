//! The API's own metrics at `/metrics`.

use std::{fmt, sync::Arc};

use gnudi_drivers::incoming::Backlog;
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{counter::Counter, family::Family, gauge::ConstGauge},
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
    pub(crate) backlog: BacklogFigures,
}

/// The backlog as last seen. Without series while it is unknown: an old value would say that nothing has changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct BacklogFigures(Arc<Mutex<Option<Backlog>>>);

impl BacklogFigures {
    /// `None`: it is unknown.
    pub(crate) fn set(&self, backlog: Option<Backlog>) {
        *self.0.lock() = backlog;
    }
}

impl Collector for BacklogFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(Backlog { measures, bytes }) = self.0.lock().clone() else { return Ok(()) };
        for (name, help, value) in [
            ("gnudi_backlog_measures", "Measures that wait to be processed", measures),
            ("gnudi_backlog_bytes", "Bytes of the measures that wait", bytes),
        ] {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
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
        registry.register_collector(Box::new(figures.backlog.clone()));
        figures
    }

    /// Counts a response.
    pub fn answered(&self, method: &'static str, route: &'static str, status: u16) {
        self.requests.get_or_create(&RequestLabels { method, route, status }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_backlog_has_no_old_value() {
        let mut registry = Registry::default();
        let figures = Figures::new(&mut registry);
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        assert!(!shown().contains("gnudi_backlog_"), "{}", shown());
        figures.backlog.set(Some(Backlog { measures: 7, bytes: 99 }));
        assert!(shown().contains("\ngnudi_backlog_measures 7\n"), "{}", shown());
        figures.backlog.set(None);
        assert!(!shown().contains("gnudi_backlog_"), "{}", shown());
    }
}
