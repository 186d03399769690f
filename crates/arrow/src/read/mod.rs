//! Reads measures of many metrics from an Arrow IPC stream: each row has a metric, a time and a value.
//!
//! The input is untrusted. Message headers are verified as flatbuffers, with limits proportional to their
//! size; each buffer's offset and length is checked against the message's body; no allocation trusts a
//! declared length. (arrow-ipc's own reader slices buffers by the declared offsets, and panics on invalid
//! ones.) Only flat columns are supported; all others are errors.

mod buffers;
mod columns;
mod distinct;
mod message;
mod rows;
mod schema;

use std::{ops::Range, sync::Arc};

use gnudi_model::{Measure, MetricId, python::parse_uuid};
use uuid::Uuid;

use columns::Columns;
use distinct::{Ids, Names};
use rows::Rows;
use schema::{Column, Role};

/// Why a stream is refused, as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is invalid; says what and where.
    #[error("{0}")]
    Malformed(String),
    /// It exceeds a limit; says which.
    #[error("{0}")]
    TooLarge(String),
}

impl ReadError {
    fn malformed(text: impl Into<String>) -> Self {
        ReadError::Malformed(text.into())
    }
}

type Result<T> = std::result::Result<T, ReadError>;

/// Limits on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Rows; each is a measure.
    pub measures_max: usize,
    /// Distinct metrics, resources or names.
    pub metrics_max: usize,
    /// Total bytes of compressed buffers after decompression.
    pub inflated_bytes_max: usize,
}

/// A metric; its measures are `range` of the parsed measures, in row order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricPart {
    pub metric: MetricId,
    pub range: Range<usize>,
}

/// Reads measures by metric id, from the columns `metric_id`, `timestamp` and `value`. Clears `out` first.
/// Metrics are in the order of their first rows.
///
/// # Errors
/// If the stream is invalid, or exceeds the limits.
pub fn metric_measures(
    stream: &[u8],
    limits: &ReadLimits,
    out: &mut Vec<Measure>,
) -> Result<Vec<MetricPart>> {
    let parse = |text: &str| parse_uuid(text).ok_or_else(|| "it is no UUID".to_owned());
    let mut metrics = Ids::new(Role::MetricId, limits.metrics_max, parse);
    let mut rows = Rows::new(limits, out);
    each_batch(stream, limits, &[Role::MetricId], |columns| {
        let codes = columns.codes(&mut metrics)?;
        rows.append(columns, |row| codes.at(row).map(|code| (code, 0)))
    })?;
    let parts = rows.finish();
    Ok(parts.map(|((code, _), _, range)| MetricPart { metric: MetricId(metrics.id(code)), range }).collect())
}

/// The bytes that reading a stream processes: its own, and the declared sizes of its compressed buffers.
/// Ignores errors; [`metric_measures`] reports them.
pub fn work_bytes(stream: &[u8]) -> usize {
    let mut messages = message::Messages::new(stream);
    let mut bytes = stream.len();
    if messages.schema().is_err() {
        return bytes;
    }
    while let Ok(Some(message)) = messages.next() {
        let inflated = match &message.header {
            message::Header::Rows(batch) => buffers::inflated_bytes(batch, message.body),
            message::Header::Dictionary(batch) => {
                batch.data().map_or(0, |data| buffers::inflated_bytes(&data, message.body))
            }
        };
        bytes = bytes.saturating_add(inflated);
    }
    bytes
}

/// A resource in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedResource {
    pub id: Uuid,
    /// The id's spelling in the first row.
    pub original_id: String,
}

/// A metric of a resource; its measures are `range` of the parsed measures, in row order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPart {
    /// The resource's index in [`NamedParts::resources`].
    pub resource: usize,
    /// Metrics with equal texts share them.
    pub name: Arc<str>,
    /// For creating a missing metric: the first non-null value in its rows; `unit` likewise.
    pub archive_policy_name: Option<Arc<str>>,
    pub unit: Option<Arc<str>>,
    pub range: Range<usize>,
}

/// The names in a stream, without the measures; each resource and name occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedParts {
    /// In order of first appearance.
    pub resources: Vec<NamedResource>,
    /// In the order of `resources`.
    pub metrics: Vec<NamedPart>,
}

/// Reads measures by resource and metric name, from the columns `resource_id`, `metric`, `timestamp` and
/// `value`, and the optional `archive_policy_name` and `unit`. `id_of` parses a text id. Clears `out` first.
///
/// # Errors
/// As [`metric_measures`], and the reason if `id_of` refuses a text.
pub fn named_measures(
    stream: &[u8],
    limits: &ReadLimits,
    id_of: impl FnMut(&str) -> std::result::Result<Uuid, String>,
    out: &mut Vec<Measure>,
) -> Result<NamedParts> {
    let mut resources = Ids::new(Role::ResourceId, limits.metrics_max, id_of);
    let mut names = Names::new(Role::Metric, limits.metrics_max);
    let mut policies = Names::new(Role::ArchivePolicyName, limits.metrics_max);
    let mut units = Names::new(Role::Unit, limits.metrics_max);
    let mut rows = Rows::new(limits, out);
    let roles = [Role::ResourceId, Role::Metric, Role::ArchivePolicyName, Role::Unit];
    each_batch(stream, limits, &roles, |columns| {
        let resource = columns.codes(&mut resources)?;
        let name = columns.codes(&mut names)?;
        let from = rows.count();
        rows.append(columns, |row| Ok((resource.at(row)?, name.at(row)?)))?;
        if columns.has(Role::ArchivePolicyName) {
            let codes = columns.codes(&mut policies)?;
            rows.note_first(from, 0, |row| codes.at_or_null(row));
        }
        if columns.has(Role::Unit) {
            let codes = columns.codes(&mut units)?;
            rows.note_first(from, 1, |row| codes.at_or_null(row));
        }
        Ok(())
    })?;
    let mut metrics: Vec<NamedPart> = rows
        .finish()
        .map(|((resource, name), [policy, unit], range)| NamedPart {
            resource: resource as usize,
            name: names.text(name),
            archive_policy_name: policy.map(|code| policies.text(code)),
            unit: unit.map(|code| units.text(code)),
            range,
        })
        .collect();
    metrics.sort_by_key(|metric| metric.resource);
    Ok(NamedParts { resources: resources.into_named(), metrics })
}

/// Calls `each` with the columns of every record batch. `keys` are the stream's columns besides times and
/// values.
fn each_batch<'s>(
    stream: &'s [u8],
    limits: &ReadLimits,
    keys: &[Role],
    mut each: impl FnMut(&mut Columns<'s, '_>) -> Result<()>,
) -> Result<()> {
    let mut messages = message::Messages::new(stream);
    let schema: Vec<Column> = schema::read(&messages.schema()?, keys)?;
    let mut inflate = buffers::Inflate::new(limits.inflated_bytes_max);
    let mut dictionaries = columns::Dictionaries::of(&schema);
    let mut rows_left = limits.measures_max;
    while let Some(message) = messages.next()? {
        match message.header {
            message::Header::Dictionary(batch) => {
                dictionaries.read(&batch, message.body, &mut inflate)?;
            }
            message::Header::Rows(batch) => {
                let rows = buffers::row_count(&batch)?;
                rows_left = rows_left.checked_sub(rows).ok_or_else(|| {
                    ReadError::TooLarge(format!("There are more than {} measures", limits.measures_max))
                })?;
                let mut columns =
                    Columns::read(&schema, &mut dictionaries, &batch, rows, message.body, &mut inflate)?;
                each(&mut columns)?;
            }
        }
    }
    Ok(())
}
