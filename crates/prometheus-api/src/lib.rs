//! Prometheus' and OpenTelemetry's HTTP API: remote write and OTLP metrics, queries and remote read.
//!
//! `router` lists all routes, `routes` has the handlers. `arguments` parses parameters, `catalogue` finds
//! series, `selected` reads their samples, `evaluation` runs queries, `long_work` leaves the request threads,
//! `failure` is the error type.
//!
//! `gnudi_prometheus` parses messages; `gathering` collects their samples by metric and stores them;
//! `metadata_store` and `exemplar_store` keep metadata and exemplars. `routes` checks access.

mod api;
mod arguments;
pub mod catalogue;
mod evaluation;
mod exemplar_store;
mod failure;
mod gathering;
mod known_series;
mod long_work;
mod metadata_store;
mod multipart;
mod place;
mod router;
mod routes;
mod selected;
mod unreadable;

pub use api::{PrometheusApi, PrometheusOptions};
pub use gnudi_prometheus::remote_write::names::Labels as PrometheusLabels;
pub use router::routes;
