//! Parses any body of measures, by the rules of Gnocchi's `MeasuresListSchema`.

use gnudi_app::{
    Result,
    json::{self, Value},
    python::{self, NotTimestamps},
    schema::{Checked, Invalid, entries},
};
use gnudi_model::{Measure, MetricId, Timestamp, python::parse_uuid};

use super::scan::MetricMeasures;

/// Parses a list of measures; appends to `out`.
///
/// # Errors
/// 400 for invalid JSON or measures, 413 beyond `measures_max`.
pub fn list(input: &[u8], now: Timestamp, measures_max: usize, out: &mut Vec<Measure>) -> Result<()> {
    let document = json::parse(input)?;
    if count(&document) > measures_max {
        return Err(super::too_many(measures_max));
    }
    Ok(measures(&document, now, out)?)
}

/// Parses an object of lists by metric id; appends to both vectors.
///
/// # Errors
/// As [`list`].
pub fn batch(
    input: &[u8],
    now: Timestamp,
    measures_max: usize,
    metrics: &mut Vec<MetricMeasures>,
    out: &mut Vec<Measure>,
) -> Result<()> {
    let document = json::parse(input)?;
    if let Value::Object(lists) = &document
        && lists.iter().map(|(_, list)| count(list)).sum::<usize>() > measures_max
    {
        return Err(super::too_many(measures_max));
    }
    let mut parts: Vec<MetricMeasures> = Vec::new();
    for (key, list) in entries(&document)? {
        let id = parse_uuid(key).ok_or_else(|| Invalid::bad_key(key))?;
        let start = out.len();
        measures(list, now, out).map_err(|invalid| invalid.in_key(key))?;
        parts.push(MetricMeasures { metric: MetricId(id), range: start..out.len() });
    }
    super::keep_last_of_duplicates(&mut parts);
    metrics.append(&mut parts);
    Ok(())
}

/// The number of items in a list, valid or not.
pub(super) fn count(list: &Value) -> usize {
    match list {
        Value::Array(items) => items.len(),
        _ => 0,
    }
}

/// Converts a list of measures; appends to `out` only if all are valid.
pub(super) fn measures(list: &Value, now: Timestamp, out: &mut Vec<Measure>) -> Checked<()> {
    let malformed = || Invalid::new("unexpected measures format");
    let items: &[Value] = match list {
        Value::Array(items) => items,
        // Python iterates over these without an error if they are empty.
        Value::Object(entries) if entries.is_empty() => &[],
        Value::Str(text) if text.is_empty() => &[],
        _ => return Err(malformed()),
    };
    let times: Vec<&Value> =
        items.iter().map(|item| item.get("timestamp").ok_or_else(malformed)).collect::<Checked<_>>()?;
    let unexpected = |error: NotTimestamps| Invalid::new(format!("unexpected timestamp '{}'", error.text()));
    let times = match python::timestamps(times.into_iter(), now) {
        Ok(times) => times,
        Err(NotTimestamps::Type) => return Err(malformed()),
        // Gnocchi accepts these as times, so an error in a value comes first.
        Err(NotTimestamps::NoTime) => {
            values(items)?;
            return Err(unexpected(NotTimestamps::NoTime));
        }
        Err(error) => return Err(unexpected(error)),
    };
    let measures = times.into_iter().zip(values(items)?);
    out.extend(measures.map(|(timestamp, value)| Measure { timestamp, value }));
    Ok(())
}

fn values(items: &[Value]) -> Checked<Vec<f64>> {
    let value = |item: &Value| item.get("value").and_then(python::float);
    items.iter().map(|item| value(item).ok_or_else(|| Invalid::new("unexpected measures value"))).collect()
}
