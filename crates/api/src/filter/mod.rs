//! The filter language of searches, in both its forms: a JSON document, and a text for the query string.
//!
//! A text becomes the document that it stands for, and the document is checked and becomes the [`Filter`] that the index
//! understands. Which fields there are, and how a value is read for one, the index decides.

mod json;
mod text;

use gnudi_app::{ApiError, json::Value};
use gnudi_indexer::Filter;

/// Bytes of a filter's text.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// The filter that a document means; `{}` is [`Filter::Empty`]. Ids that are no UUIDs are `creator`'s.
///
/// # Errors
/// 400 where it is no filter. How large one may be, the index says, which refuses larger ones.
pub fn from_json(document: &Value, creator: &str) -> Result<Filter, ApiError> {
    Ok(json::filter(document, creator)?)
}

/// The filter that a text means, such as `display_name like "web%" and not ended_at = null`.
///
/// # Errors
/// 400 where it is no filter, or larger than the limits.
pub fn from_text(text: &str, creator: &str) -> Result<Filter, ApiError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(refuse(&format!("it has more than {TEXT_BYTES_MAX} bytes")));
    }
    let document = text::document(text).map_err(|fault| refuse(&fault.to_string()))?;
    from_json(&document, creator)
}

fn refuse(reason: &str) -> ApiError {
    ApiError::bad_request(format!("Invalid filter: {reason}"))
}
