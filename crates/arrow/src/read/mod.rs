//! Measures of many metrics, read from an Arrow IPC stream: each row names a metric, a time and a value.
//!
//! The bytes are a stranger's. Message headers are verified as flatbuffers within limits of their own size, every buffer's
//! place and length is checked against the message's body before it is looked at, and nothing is allocated on the word of a
//! length. (arrow-ipc's own reader slices buffers by the offsets that the stream gives, and panics where they lie.) Only
//! flat columns are taken; all others are refused by name.

mod buffers;
mod columns;
mod distinct;
mod message;
mod rows;
mod schema;

use std::ops::Range;

use gnudi_model::{Measure, MetricId, python::parse_uuid};
use uuid::Uuid;

use columns::Columns;
use distinct::{Ids, Names};
use rows::Rows;
use schema::{ARCHIVE_POLICY_NAME, Column, METRIC, METRIC_ID, RESOURCE_ID, Role, UNIT};

/// Why a stream was not read; nothing was taken from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is not what it must be; says what and where.
    #[error("{0}")]
    Malformed(String),
    /// It has more than a limit allows; says which.
    #[error("{0}")]
    TooLarge(String),
}

impl ReadError {
    fn malformed(text: impl Into<String>) -> Self {
        ReadError::Malformed(text.into())
    }
}

type Result<T> = std::result::Result<T, ReadError>;

/// What a stream may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Rows, each of which is a measure.
    pub measures_max: usize,
    /// Different metrics, resources or names.
    pub metrics_max: usize,
    /// Bytes of compressed buffers once they are inflated, all together.
    pub inflated_bytes_max: usize,
}

/// A metric's measures: `range` of the measures read, in the order of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricPart {
    pub metric: MetricId,
    pub range: Range<usize>,
}

/// Reads measures by the ids of their metrics: `metric_id`, `timestamp` and `value`. `out` is filled anew; the parts are in
/// the order of the first row of each metric.
///
/// # Errors
/// Where the stream is not what it must be, or has more than the limits allow.
pub fn metric_measures(
    stream: &[u8],
    limits: &ReadLimits,
    out: &mut Vec<Measure>,
) -> Result<Vec<MetricPart>> {
    let parse = |text: &str| parse_uuid(text).ok_or_else(|| "it is no UUID".to_owned());
    let mut metrics = Ids::new(METRIC_ID, limits.metrics_max, parse);
    let mut rows = Rows::new(limits, out);
    each_batch(stream, limits, &[Role::MetricId], |columns| {
        let codes = columns.codes(Role::MetricId, &mut metrics)?;
        rows.append(columns, |row| codes.at(row).map(|code| (code, 0)))
    })?;
    let parts = rows.finish();
    Ok(parts.map(|((code, _), range)| MetricPart { metric: MetricId(metrics.id(code)), range }).collect())
}

/// How many bytes reading a stream goes over: its own, and those that its compressed buffers say that they inflate to. What is wrong
/// with it is [`metric_measures`]' to say.
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

/// A resource whose metrics a stream names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedResource {
    pub id: Uuid,
    /// The id as the first row has it.
    pub original_id: String,
}

/// A metric of a resource, and its measures: `range` of the measures read, in the order of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPart {
    /// The place of its resource among [`NamedParts::resources`].
    pub resource: usize,
    pub name: String,
    /// How a metric that is missing is to be made: what the first of its rows says that says anything.
    pub archive_policy_name: Option<String>,
    pub unit: Option<String>,
    pub range: Range<usize>,
}

/// What a stream has, without its measures; each resource and name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedParts {
    /// In the order of the rows.
    pub resources: Vec<NamedResource>,
    /// Those of the first resource first.
    pub metrics: Vec<NamedPart>,
}

/// Reads measures by resource and by the metric's name: `resource_id`, `metric`, `timestamp` and `value`; also
/// `archive_policy_name` and `unit`, both optional. `id_of` says what id a text means. `out` is filled anew.
///
/// # Errors
/// As [`metric_measures`], and where `id_of` refuses a text, with its reason.
pub fn named_measures(
    stream: &[u8],
    limits: &ReadLimits,
    id_of: impl FnMut(&str) -> std::result::Result<Uuid, String>,
    out: &mut Vec<Measure>,
) -> Result<NamedParts> {
    let mut resources = Ids::new(RESOURCE_ID, limits.metrics_max, id_of);
    let mut names = Names::new(METRIC, limits.metrics_max);
    let mut policies = Names::new(ARCHIVE_POLICY_NAME, limits.metrics_max);
    let mut units = Names::new(UNIT, limits.metrics_max);
    let mut rows = Rows::new(limits, out);
    let roles = [Role::ResourceId, Role::Metric, Role::ArchivePolicyName, Role::Unit];
    each_batch(stream, limits, &roles, |columns| {
        let resource = columns.codes(Role::ResourceId, &mut resources)?;
        let name = columns.codes(Role::Metric, &mut names)?;
        let from = rows.count();
        rows.append(columns, |row| Ok((resource.at(row)?, name.at(row)?)))?;
        if columns.has(Role::ArchivePolicyName) {
            let codes = columns.codes(Role::ArchivePolicyName, &mut policies)?;
            rows.note_first(from, 0, |row| codes.at_or_null(row));
        }
        if columns.has(Role::Unit) {
            let codes = columns.codes(Role::Unit, &mut units)?;
            rows.note_first(from, 1, |row| codes.at_or_null(row));
        }
        Ok(())
    })?;
    let notes = rows.take_notes();
    let mut metrics: Vec<NamedPart> = rows
        .finish()
        .zip(notes)
        .map(|(((resource, name), range), [policy, unit])| NamedPart {
            resource: resource as usize,
            name: names.text(name).to_owned(),
            archive_policy_name: policy.map(|code| policies.text(code).to_owned()),
            unit: unit.map(|code| units.text(code).to_owned()),
            range,
        })
        .collect();
    metrics.sort_by_key(|metric| metric.resource);
    Ok(NamedParts { resources: resources.into_named(), metrics })
}

/// Calls `each` with the columns of every record batch. `keys` are the roles of columns that the stream has besides times and
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
