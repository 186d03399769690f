//! Reads measures from Arrow IPC streams, for the batch routes.

use std::{borrow::Cow, panic::AssertUnwindSafe};

use gnudi_app::{ApiError, Limits, Result, json::Value, resource_id};
pub use gnudi_arrow::read::work_bytes;
use gnudi_arrow::read::{self, NamedParts, ReadLimits};
use gnudi_model::Measure;

use super::unreadable;
use crate::measures::{
    named::{Named, NamedMetric, NamedResource},
    scan::MetricMeasures,
};

fn limits_of(limits: &Limits) -> ReadLimits {
    ReadLimits {
        measures_max: limits.measures_max,
        metrics_max: limits.batch_metrics_max,
        inflated_bytes_max: limits.inflated_bytes_max,
    }
}

/// Reads a batch of measures by metric id. Clears both vectors first; each metric occurs once.
///
/// # Errors
/// 400 if the body is invalid, 413 if it exceeds the limits.
pub fn batch(
    input: &[u8],
    limits: &Limits,
    metrics: &mut Vec<MetricMeasures>,
    out: &mut Vec<Measure>,
) -> Result<()> {
    metrics.clear();
    let parts = guarded(|| read::metric_measures(input, &limits_of(limits), out).map_err(unreadable))?;
    metrics.extend(parts.into_iter().map(|part| MetricMeasures { metric: part.metric, range: part.range }));
    Ok(())
}

/// Reads a batch of measures by resource and name. Clears `out` first. Ids that are no UUIDs are hashed with
/// `creator`.
///
/// # Errors
/// As [`batch`].
pub fn named(input: &[u8], creator: &str, limits: &Limits, out: &mut Vec<Measure>) -> Result<NamedParts> {
    let id_of = |text: &str| resource_id::of_text(text, creator).map_err(|invalid| invalid.reason());
    guarded(|| read::named_measures(input, &limits_of(limits), id_of, out).map_err(unreadable))
}

impl<'p> From<&'p NamedParts> for Named<'p> {
    fn from(parts: &'p NamedParts) -> Self {
        let resource = |resource: &'p read::NamedResource| NamedResource {
            id: resource.id,
            original_id: Cow::Borrowed(resource.original_id.as_str()),
        };
        let metric = |part: &'p read::NamedPart| NamedMetric {
            resource: part.resource,
            name: Cow::from(&*part.name),
            archive_policy_name: part.archive_policy_name.as_deref().map(Cow::Borrowed),
            unit: part.unit.as_deref().map(Cow::Borrowed),
            range: part.range.clone(),
        };
        Named {
            resources: parts.resources.iter().map(resource).collect(),
            metrics: parts.metrics.iter().map(metric).collect(),
        }
    }
}

/// Turns a panic on untrusted input into 400, and logs it as a bug.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        tracing::error!("reading an Arrow stream panicked");
        Err(ApiError::bad_request(Value::cause("Unable to decode body", Value::Array(Vec::new()))))
    })
}
