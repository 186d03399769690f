//! The filter language of searches, in its two forms: a JSON document, and a text for the query string.
//!
//! A text is parsed to the equivalent document; the document is validated and converted to a [`Filter`]. The
//! index checks the fields and converts the values.

mod json;
mod text;

use gnudi_app::{ApiError, Result, json::Value};
use gnudi_indexer::Filter;

/// The maximum length of a filter's text.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// Converts a document to a filter; `{}` is [`Filter::Empty`]. Ids that are no UUIDs are hashed with
/// `creator`.
///
/// # Errors
/// 400 if it is invalid. The index enforces the size limits.
pub fn from_json(document: &Value, creator: &str) -> Result<Filter> {
    Ok(json::filter(document, creator)?)
}

/// Parses a text such as `display_name like "web%" and not ended_at = null`.
///
/// # Errors
/// 400 if it is invalid or exceeds the limits.
pub fn from_text(text: &str, creator: &str) -> Result<Filter> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(refuse(&format!("it has more than {TEXT_BYTES_MAX} bytes")));
    }
    let document = text::document(text).map_err(|fault| refuse(&fault.to_string()))?;
    from_json(&document, creator)
}

fn refuse(reason: &str) -> ApiError {
    ApiError::bad_request(format!("Invalid filter: {reason}"))
}
