//! The `definition` of a policy in a request.

use gnudi_model::{ArchivePolicyItem, Timespan, archive_policy::InvalidPolicy};

use crate::{
    error::ApiError,
    json::Value,
    schema::{Checked, Invalid, entries, integer_from, list, timespan},
};

/// Granularities of a policy: each costs every metric its own aggregates.
const ITEMS_MAX: usize = 100;

/// What Gnocchi's database holds, and far more than there can be.
const BACK_WINDOW_MAX: u64 = i32::MAX as u64;

/// The parts of an item that a request gives, before they are completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyItemFields {
    granularity: Option<Timespan>,
    points: Option<u64>,
    timespan: Option<Timespan>,
}

/// A list of at least one item.
pub fn check(value: &Value) -> Checked<Vec<PolicyItemFields>> {
    let items = list(value, item)?;
    if items.is_empty() {
        return Err(Invalid::new("length of value must be at least 1"));
    }
    if items.len() > ITEMS_MAX {
        return Err(Invalid::new(format!("length of value must be at most {ITEMS_MAX}")));
    }
    Ok(items)
}

/// How many of the coarsest buckets stay open.
pub fn back_window(value: &Value) -> Checked<u64> {
    let blocks = integer_from(0)(value)?;
    if blocks > BACK_WINDOW_MAX {
        return Err(Invalid::new(format!("value must be at most {BACK_WINDOW_MAX}")));
    }
    Ok(blocks)
}

fn item(value: &Value) -> Checked<PolicyItemFields> {
    let mut given = PolicyItemFields::default();
    for (key, value) in entries(value)? {
        let in_key = |invalid: Invalid| invalid.in_key(key);
        match key.as_str() {
            "granularity" => given.granularity = Some(timespan(value).map_err(in_key)?),
            "points" => given.points = Some(integer_from(1)(value).map_err(in_key)?),
            "timespan" => given.timespan = Some(timespan(value).map_err(in_key)?),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    Ok(given)
}

/// Whole items of the given parts.
pub fn complete(items: &[PolicyItemFields]) -> Result<Vec<ArchivePolicyItem>, InvalidPolicy> {
    items.iter().map(|item| ArchivePolicyItem::new(item.granularity, item.points, item.timespan)).collect()
}

impl From<InvalidPolicy> for ApiError {
    fn from(error: InvalidPolicy) -> Self {
        ApiError::bad_request(error.to_string())
    }
}
