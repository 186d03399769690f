//! What Prometheus' API keeps between requests, and what of the configuration concerns it.

use std::sync::Arc;

use gnudi_engine::Engine;

use crate::{
    PrometheusLabels, catalogue::Catalogue, exemplar_store::ExemplarStore, known_series::KnownSeries,
    metadata_store::MetadataStore,
};

/// The options of Prometheus' API.
#[derive(Clone, Debug)]
pub struct PrometheusOptions {
    /// `[api] prometheus_labels`: which labels of Prometheus' series are part of the names of metrics.
    pub labels: PrometheusLabels,
    /// `[api] prometheus_archive_policy`: of metrics that `/api/v1/write` and OTLP make; `None` has the rules say.
    pub archive_policy: Option<String>,
    /// `[api] prometheus_ceilometer_names`: whether series of Ceilometer are also found by the names that its exporters for Prometheus
    /// give them.
    pub ceilometer_names: bool,
    /// `[api] prometheus_delayed_name_removal`: whether names are dropped at the end of an evaluation only.
    pub delayed_name_removal: bool,
}

impl Default for PrometheusOptions {
    fn default() -> Self {
        PrometheusOptions {
            labels: PrometheusLabels::default(),
            archive_policy: Some("raw".to_owned()),
            ceilometer_names: true,
            delayed_name_removal: false,
        }
    }
}

/// Prometheus' API over an engine.
#[derive(Debug)]
pub struct PrometheusApi {
    pub(crate) options: PrometheusOptions,
    /// The series by their labels.
    pub(crate) catalogue: Catalogue,
    pub(crate) known_series: KnownSeries,
    /// What writers said of their metrics.
    pub(crate) metadata: MetadataStore,
    pub(crate) exemplars: ExemplarStore,
}

impl PrometheusApi {
    pub fn new(engine: Arc<Engine>, options: PrometheusOptions) -> Self {
        PrometheusApi {
            catalogue: Catalogue::new(engine, options.ceilometer_names),
            options,
            known_series: KnownSeries::default(),
            metadata: MetadataStore::default(),
            exemplars: ExemplarStore::default(),
        }
    }
}
