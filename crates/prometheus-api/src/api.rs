//! The state of Prometheus' API between requests, its configuration, and a request as its handlers get it.

use std::{ops::Deref, sync::Arc};

use gnudi_engine::{Engine, Turns};

use crate::{
    PrometheusLabels, catalogue::Catalogue, exemplar_store::ExemplarStore, known_series::KnownSeries,
    metadata_store::MetadataStore,
};

/// The options of Prometheus' API.
#[derive(Clone, Debug)]
pub struct PrometheusOptions {
    /// `[api] prometheus_labels`: which labels are part of metrics' names.
    pub labels: PrometheusLabels,
    /// `[api] prometheus_archive_policy`: for metrics created by `/api/v1/write` and OTLP; with `None` the
    /// archive policy rules choose.
    pub archive_policy: Option<String>,
    /// `[api] prometheus_ceilometer_names`: whether Ceilometer's series are also found by the names that its
    /// Prometheus exporters give them.
    pub ceilometer_names: bool,
    /// `[api] prometheus_delayed_name_removal`: whether metric names are dropped only at the end of an
    /// evaluation.
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
    /// Finds series by labels.
    pub(crate) catalogue: Catalogue,
    pub(crate) known_series: KnownSeries,
    /// Metadata sent by writers.
    pub(crate) metadata: MetadataStore,
    pub(crate) exemplars: ExemplarStore,
    /// Turns of queries with subqueries. These may make any number of steps without any data, and take all of their
    /// timeout: those of one project leave a processor to others.
    pub(crate) subqueries: Turns,
}

impl PrometheusApi {
    pub fn new(engine: Arc<Engine>, options: PrometheusOptions) -> Self {
        PrometheusApi {
            subqueries: Turns::new(engine.processor_count().saturating_sub(1).max(1)),
            catalogue: Catalogue::new(engine, options.ceilometer_names),
            options,
            known_series: KnownSeries::default(),
            metadata: MetadataStore::default(),
            exemplars: ExemplarStore::default(),
        }
    }
}

/// The request, and the API's state.
pub struct Call<'a> {
    pub call: &'a gnudi_app::Call<'a>,
    pub api: &'a PrometheusApi,
}

impl<'a> Deref for Call<'a> {
    type Target = gnudi_app::Call<'a>;

    fn deref(&self) -> &Self::Target {
        self.call
    }
}
