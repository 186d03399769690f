//! `timedelta`: the absolute difference of two times in seconds.

use serde_json::Value;

use super::Match;
use crate::definitions::isotime::IsoTime;

/// `None` unless there are exactly two values and both are times.
pub fn of(found: &[Match<'_>]) -> Option<Value> {
    let [(_, start), (_, end)] = found else {
        tracing::debug!(found = found.len(), "timedelta needs two times");
        return None;
    };
    let time = |value: &Value| value.as_str().and_then(IsoTime::parse).map(IsoTime::microseconds);
    let (Some(start), Some(end)) = (time(start), time(end)) else {
        tracing::debug!("timedelta needs two times, and not both values are");
        return None;
    };
    Some(Value::from((end - start).unsigned_abs() as f64 / 1e6))
}
