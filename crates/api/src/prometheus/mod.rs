//! Prometheus' API: the way in, which is remote write and OpenTelemetry's metrics, and the way out.
//!
//! `arguments` reads parameters, `catalogue` knows the series, `selected` reads their samples, `evaluation` answers queries, `failure` says
//! why there is no answer.
//!
//! `gnudi_prometheus` reads the messages, `gathering` finds the metrics of their series and hands their samples on, `metadata_store` keeps what
//! is said of them, `exemplar_store` their exemplars. Whom the metrics belong to, `routes::prometheus` decides.

pub(crate) mod arguments;
pub mod catalogue;
pub(crate) mod evaluation;
mod exemplar_store;
mod failure;
mod gathering;
mod known_series;
mod metadata_store;
pub(crate) mod place;
pub(crate) mod selected;

pub(crate) use exemplar_store::{ExemplarStore, StoredExemplar};
pub(crate) use failure::Failure;
pub(crate) use gathering::{Gathering, Stored};
pub use gnudi_prometheus::remote_write::names::Labels;
pub(crate) use known_series::KnownSeries;
pub(crate) use metadata_store::MetadataStore;

use gnudi_prometheus::remote_write::{InflateError, Limits, ReadError};

use crate::error::ApiError;

/// What of a request is read.
pub(crate) fn limits(limits: &crate::Limits) -> Limits {
    Limits { samples_max: limits.measures_max, labels_bytes_max: limits.inflated_bytes_max }
}

impl From<InflateError> for ApiError {
    fn from(error: InflateError) -> Self {
        match error {
            InflateError::TooLarge(_) => ApiError::too_large(error.to_string()),
            InflateError::Malformed(_) => ApiError::bad_request(error.to_string()),
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        let text = format!("Unable to read the body: {error}");
        match error {
            ReadError::Malformed(_) => ApiError::bad_request(text),
            ReadError::TooManySamples(_)
            | ReadError::TooManySeries(_)
            | ReadError::TooManyLabels(_)
            | ReadError::TooManySymbols(_)
            | ReadError::LabelsTooLarge(_) => ApiError::too_large(text),
        }
    }
}
