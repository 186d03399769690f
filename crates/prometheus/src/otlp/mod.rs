//! OpenTelemetry's metrics (OTLP) as Prometheus' series.
//!
//! `protobuf` and `json` read a request into one `model`, `names` and `translate` make series of it as Prometheus 3 does by default (names
//! escaped with underscores, with suffixes for units and types), `response` writes what is answered. Exemplars and scopes are passed over.

mod any_value;
mod json;
mod model;
mod names;
mod protobuf;
mod response;
mod translate;

pub use model::Request;
pub use response::{Encoding, export_response, status};
pub use translate::{Rejected, Translated, translate};

use crate::{protobuf::Malformed, remote_write::Limits};

/// Why a request is not taken.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("a value is nested more than {0} deep")]
    TooDeep(usize),
    #[error("there are more than {0} data points, metrics, scopes, resources or quantiles")]
    TooManyItems(usize),
    #[error("there are more than {0} attributes")]
    TooManyAttributes(usize),
    #[error("there are more than {0} objects and lists")]
    TooManyObjects(usize),
    #[error("the request makes more than {0} samples")]
    TooManySamples(usize),
    #[error("the labels of all series have more than {0} bytes")]
    LabelsTooLarge(usize),
}

impl OtlpError {
    /// Whether the request asks for more than is taken, though it is sound.
    pub fn is_too_large(&self) -> bool {
        !matches!(self, OtlpError::Malformed(_) | OtlpError::Json(_) | OtlpError::TooDeep(_))
    }
}

/// Attributes of a request and parts of their values, for each sample of `samples_max`.
const ATTRIBUTES_PER_SAMPLE_MAX: usize = 8;

/// The metrics of a body.
pub fn read(body: &[u8], encoding: Encoding, limits: Limits) -> Result<Request<'_>, OtlpError> {
    match encoding {
        Encoding::Protobuf => protobuf::read(body, limits),
        Encoding::Json => json::read(body, limits),
    }
}
