//! The filter language of searches, in both its forms: a JSON document, and a text for the query string.
//!
//! A text becomes the document that it stands for, and the document is checked and becomes the [`Filter`] that the index
//! understands. Which fields there are, and how a value is read for one, the index decides.

mod json;
mod text;

use gnudi_indexer::Filter;

use crate::{error::ApiError, json::Value};

/// How deep connectives may be nested.
pub const DEPTH_MAX: usize = 64;

/// Comparisons and connectives of a filter.
pub const NODES_MAX: usize = 1_000;

/// Values of all lists of a filter.
pub const VALUES_MAX: usize = 10_000;

/// Bytes of a filter's text.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// The filter that a document means; `{}` is [`Filter::Empty`]. Ids that are no UUIDs are `creator`'s.
///
/// # Errors
/// 400 where it is no filter, or larger than the limits.
pub fn from_json(document: &Value, creator: &str) -> Result<Filter, ApiError> {
    let mut size = Size { nodes: 0, values: 0 };
    size.measure(document, 0)?;
    Ok(json::filter(document, creator)?)
}

/// The filter that a text means, such as `display_name like "web%" and not ended_at = null`.
///
/// # Errors
/// As [`from_json`].
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

/// How large a filter is.
struct Size {
    nodes: usize,
    values: usize,
}

impl Size {
    /// Counts the connectives and comparisons of a document, whatever else it may be, within the limits.
    fn measure(&mut self, document: &Value, depth: usize) -> Result<(), ApiError> {
        self.nodes += 1;
        if depth > DEPTH_MAX {
            return Err(refuse(&format!("it is nested more than {DEPTH_MAX} levels deep")));
        }
        if self.nodes > NODES_MAX {
            return Err(refuse(&format!("it has more than {NODES_MAX} conditions")));
        }
        let Value::Object(entries) = document else { return Ok(()) };
        for (operator, operand) in entries {
            match operand {
                Value::Array(items) => {
                    for item in items {
                        self.measure(item, depth + 1)?;
                    }
                }
                _ if operator == json::NOT => self.measure(operand, depth + 1)?,
                Value::Object(fields) => {
                    for (_, value) in fields {
                        self.values += if let Value::Array(values) = value { values.len() } else { 0 };
                    }
                }
                _ => {}
            }
        }
        if self.values > VALUES_MAX {
            return Err(refuse(&format!("its lists have more than {VALUES_MAX} values")));
        }
        Ok(())
    }
}
