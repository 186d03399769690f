//! Translates OpenTelemetry's metrics (OTLP) into Prometheus' series.
//!
//! `protobuf` and `json` decode a request into the same `model`. `names` and `translate` turn it into series as
//! Prometheus 3 does by default (invalid characters become underscores, names get suffixes for unit and type).
//! `response` encodes the response. Exemplars and scopes are ignored.

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

/// Why a request is rejected as a whole.
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
    /// Whether the request may be valid but exceeds a limit on its size.
    pub fn is_too_large(&self) -> bool {
        !matches!(self, OtlpError::Malformed(_) | OtlpError::Json(_) | OtlpError::TooDeep(_))
    }
}

/// The maximum number of attributes of a request, including the elements of their values, per sample of `samples_max`.
const ATTRIBUTES_PER_SAMPLE_MAX: usize = 8;

/// Decodes a body. In protobuf, `samples_max` of `limits` is the maximum number of resources, scopes, metrics, data
/// points and quantiles together; in JSON, the number of objects and lists is limited in proportion to it.
///
/// # Errors
/// The body is malformed, or exceeds the limits.
pub fn read(body: &[u8], encoding: Encoding, limits: Limits) -> Result<Request<'_>, OtlpError> {
    match encoding {
        Encoding::Protobuf => protobuf::read(body, limits),
        Encoding::Json => json::read(body, limits),
    }
}
