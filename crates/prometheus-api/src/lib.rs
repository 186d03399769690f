//! Prometheus' and OpenTelemetry's HTTP API: the way in, which is remote write and OpenTelemetry's metrics, and the way out.
//!
//! `router` lists every route, `routes` has the handlers. `arguments` reads parameters, `catalogue` knows the series, `selected` reads their
//! samples, `evaluation` answers queries, `failure` says why there is no answer.
//!
//! `gnudi_prometheus` reads the messages, `gathering` finds the metrics of their series and hands their samples on, `metadata_store` keeps what
//! is said of them, `exemplar_store` their exemplars. Whom the metrics belong to, `routes` decides.

mod api;
mod arguments;
mod call;
pub mod catalogue;
mod evaluation;
mod exemplar_store;
mod failure;
mod gathering;
mod known_series;
mod metadata_store;
mod place;
mod router;
mod routes;
mod selected;
mod unreadable;

pub use api::{PrometheusApi, PrometheusOptions};
pub use gnudi_prometheus::remote_write::names::Labels as PrometheusLabels;
pub use router::routes;
