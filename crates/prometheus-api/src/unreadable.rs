//! Limits on messages, and the errors of invalid ones.

use gnudi_app::ApiError;
use gnudi_prometheus::remote_write::{InflateError, Limits, ReadError};

/// The parser's limits.
pub fn limits(limits: &gnudi_app::Limits) -> Limits {
    Limits { samples_max: limits.measures_max, labels_bytes_max: limits.inflated_bytes_max }
}

/// The error for a body that cannot be decompressed.
#[expect(clippy::needless_pass_by_value, reason = "what map_err passes")]
pub fn body(error: InflateError) -> ApiError {
    match error {
        InflateError::TooLarge(_) => ApiError::too_large(error.to_string()),
        InflateError::Malformed(_) => ApiError::bad_request(error.to_string()),
    }
}

/// The error for an invalid or too large message.
pub fn message(error: ReadError) -> ApiError {
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
