//! One meter definition: the event types that it applies to, and the paths of a sample's fields.

use std::{borrow::Cow, io};

use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::metadata::SampleOptions;
use crate::{
    definitions::{DefinitionError, Field, LookupError, isotime::IsoTime, pattern::Pattern, python, texts},
    notification::Notification,
    sample::{Metadata, Sample, SampleKind},
};

/// Maximum number of samples that one definition makes of one notification.
const SAMPLES_MAX: usize = 100_000;

/// Maximum bytes, as JSON, of all copies of a value that the samples of one definition and notification share.
const COPIES_BYTES_MAX: usize = 32 << 20;

/// The sample fields that a definition may look up, in order of evaluation.
const PARTS: [&str; 8] =
    ["name", "type", "volume", "unit", "timestamp", "user_id", "project_id", "resource_id"];
const NAME: usize = 0;
const KIND: usize = 1;
const VOLUME: usize = 2;
const UNIT: usize = 3;
const TIMESTAMP: usize = 4;
const USER: usize = 5;
const PROJECT: usize = 6;
const RESOURCE: usize = 7;

/// The fields of one sample, in the order of [`PARTS`].
pub(super) type Row = [Value; PARTS.len()];

/// Required fields.
const REQUIRED: [&str; 6] = ["name", "type", "event_type", "unit", "volume", "resource_id"];

/// UUID namespace: sample ids derive from the message id, so that a redelivered message makes the same samples.
const ID_SPACE: Uuid = Uuid::from_u128(0x8a5d_6f0e_3c1b_4c55_9d0a_51f1_6a3e_b7c4);

#[derive(Debug)]
pub struct MeterDefinition {
    pub event_types: Vec<Pattern>,
    /// The value of a field whose path finds nothing: `name`, `type` and `unit` default to their own text.
    defaults: [Value; PARTS.len()],
    fields: [Option<Field>; PARTS.len()],
    metadata: Vec<(String, Field)>,
    user_metadata: Option<Field>,
    /// The fields with one value per sample; `None`: the notification makes one sample.
    pub lookup: Option<Vec<String>>,
}

/// The sender of a notification, from its context.
#[derive(Clone, Debug, Default)]
pub struct NotificationSender {
    pub user_id: Value,
    pub project_id: Value,
}

impl MeterDefinition {
    pub fn parse(definition: &Value) -> Result<Self, DefinitionError> {
        let given = |key: &str| definition.get(key).filter(|value| python::is_true(value));
        let missing: Vec<&str> = REQUIRED.into_iter().filter(|key| given(key).is_none()).collect();
        if !missing.is_empty() {
            return Err(DefinitionError(format!("{} missing", missing.join(", "))));
        }
        let lookup = match given("lookup") {
            None => None,
            lookup => Some(texts("lookup", lookup)?),
        };
        let is_known = definition["type"].as_str().and_then(SampleKind::named).is_some();
        if !is_known && !lookup.iter().flatten().any(|part| part == "type") {
            return Err(DefinitionError(format!("the type {} is not known", definition["type"])));
        }
        let event_types = texts("event_type", definition.get("event_type"))?;
        let field = |key: &str| given(key).map(|value| Field::parse(key, value)).transpose();
        let mut fields = [const { None }; PARTS.len()];
        let mut defaults = [const { Value::Null }; PARTS.len()];
        for (at, part) in PARTS.into_iter().enumerate() {
            fields[at] = field(part)?;
            if [NAME, KIND, UNIT].contains(&at) {
                defaults[at] = definition[part].clone();
            }
        }
        let metadata = match definition.get("metadata") {
            None => Vec::new(),
            Some(Value::Object(metadata)) => metadata
                .iter()
                .map(|(key, value)| Ok((key.clone(), Field::parse(key, value)?)))
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(DefinitionError("`metadata` is no object".to_owned())),
        };
        Ok(MeterDefinition {
            event_types: event_types.iter().map(|text| Pattern::parse(text)).collect::<Result<_, _>>()?,
            defaults,
            fields,
            metadata,
            user_metadata: field("user_metadata")?,
            lookup,
        })
    }

    /// Appends the samples of a notification.
    pub fn samples(
        &self,
        notification: &Notification<'_>,
        document: &Value,
        sender: &NotificationSender,
        options: &SampleOptions,
        samples: &mut Vec<Sample<'static>>,
    ) -> Result<(), LookupError> {
        let rows = match &self.lookup {
            None => vec![self.row(document, sender)?],
            Some(lookup) => self.rows(lookup, document, sender)?,
        };
        if rows.is_empty() {
            return Ok(());
        }
        let metadata = self.metadata(document, options)?;
        check_copies(&metadata, rows.len())?;
        for row in rows {
            let at = samples.len();
            samples.push(sample(row, notification, document, metadata.clone(), options, at)?);
        }
        Ok(())
    }

    fn default(&self, part: usize, sender: &NotificationSender) -> Value {
        match part {
            USER => sender.user_id.clone(),
            PROJECT => sender.project_id.clone(),
            part => self.defaults[part].clone(),
        }
    }

    /// The fields of a single sample.
    fn row(&self, document: &Value, sender: &NotificationSender) -> Result<Row, LookupError> {
        let mut row = [const { Value::Null }; PARTS.len()];
        for (at, part) in row.iter_mut().enumerate() {
            let found = match &self.fields[at] {
                Some(field) => field.first(document)?.map(Cow::into_owned),
                None => None,
            };
            *part = found.unwrap_or_else(|| self.default(at, sender));
        }
        Ok(row)
    }

    /// The fields of each sample. A field with a single value has it in all samples, unless it is in `lookup`. If the
    /// numbers of values differ, there are no samples.
    fn rows(
        &self,
        lookup: &[String],
        document: &Value,
        sender: &NotificationSender,
    ) -> Result<Vec<Row>, LookupError> {
        let is_looked_up = |part: &str| lookup.iter().any(|name| name == part);
        let mut columns = Vec::with_capacity(PARTS.len());
        for (at, part) in PARTS.into_iter().enumerate() {
            let found = match &self.fields[at] {
                Some(field) => {
                    let found: Vec<Value> = field.all(document)?.into_iter().map(Cow::into_owned).collect();
                    (at == NAME || is_looked_up(part) || !found.is_empty()).then_some(found)
                }
                None => None,
            };
            columns.push(found.unwrap_or_else(|| vec![self.default(at, sender)]));
        }
        let count = columns[NAME].len();
        if count > SAMPLES_MAX {
            return Err(LookupError(format!("one notification has more than {SAMPLES_MAX} samples")));
        }
        // Fields outside `lookup` have one value for all.
        if count != 1 && ["message", "metadata"].into_iter().any(is_looked_up) {
            return Ok(Vec::new());
        }
        for (part, column) in PARTS.into_iter().zip(&columns) {
            if column.len() != count && (column.len() != 1 || is_looked_up(part)) {
                let found = if column.len() == 1 && column[0].is_null() { 0 } else { column.len() };
                if count > 0 {
                    tracing::warn!(part, found, expected = count, "a field has too few values: no samples");
                }
                return Ok(Vec::new());
            }
        }
        let common: Vec<&Value> = columns.iter().filter(|column| column.len() != count).flatten().collect();
        check_copies(&common, count)?;
        let value = |column: &mut Vec<Value>, at: usize| {
            if column.len() == count { std::mem::take(&mut column[at]) } else { column[0].clone() }
        };
        let row = |at: usize| std::array::from_fn(|part| value(&mut columns[part], at));
        Ok((0..count).map(row).collect())
    }

    /// The fields named by the definition that are true, and the reserved user metadata.
    fn metadata(&self, document: &Value, options: &SampleOptions) -> Result<Map<String, Value>, LookupError> {
        let mut metadata = Map::new();
        for (key, field) in &self.metadata {
            if let Some(value) = field.first(document)?.filter(|value| python::is_true(value)) {
                metadata.insert(key.clone(), value.into_owned());
            }
        }
        if let Some(field) = &self.user_metadata
            && let Some(source) = field.first(document)?
        {
            options.reserved.add_found(&source, &mut metadata)?;
        }
        Ok(if metadata.is_empty() { whole_payload(document) } else { metadata })
    }
}

/// Fails if so many copies of a value are too large together: memory would grow with the square of a message's size.
pub(super) fn check_copies(value: &impl Serialize, copies: usize) -> Result<(), LookupError> {
    if copies > 1 && serde_json::to_writer(Room(COPIES_BYTES_MAX / copies), value).is_err() {
        return Err(LookupError(format!(
            "{copies} samples of one notification have more than {COPIES_BYTES_MAX} bytes in common"
        )));
    }
    Ok(())
}

/// Discards this many bytes, then fails.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Without `metadata` in the definition, samples keep the whole payload.
pub(super) fn whole_payload(document: &Value) -> Map<String, Value> {
    let mut metadata = document["payload"].as_object().cloned().unwrap_or_default();
    metadata.insert("event_type".to_owned(), document["event_type"].clone());
    metadata.insert("host".to_owned(), document["publisher_id"].clone());
    metadata
}

/// Makes a sample of its fields. `at`: its number among those of the notification.
pub(super) fn sample(
    row: Row,
    notification: &Notification<'_>,
    document: &Value,
    metadata: Map<String, Value>,
    options: &SampleOptions,
    at: usize,
) -> Result<Sample<'static>, LookupError> {
    let timestamp = match &row[TIMESTAMP] {
        value if python::is_true(value) => value,
        _ => &document["metadata"]["timestamp"],
    };
    let time = timestamp.as_str().and_then(IsoTime::parse);
    let time = time.ok_or_else(|| LookupError(format!("the timestamp {timestamp} is no time")))?;
    let [name, kind, volume, unit, _, user_id, project_id, resource_id] = row;
    debug_assert_eq!((PARTS[VOLUME], PARTS[RESOURCE]), ("volume", "resource_id"));
    let kind = kind
        .as_str()
        .and_then(SampleKind::named)
        .ok_or_else(|| LookupError(format!("the type {kind} is not known")))?;
    let name = text(name).ok_or_else(|| LookupError("a sample has no name".to_owned()))?;
    let id = format!("{}:{at}:{name}", notification.message_id);
    Ok(Sample {
        id: Uuid::new_v5(&ID_SPACE, id.as_bytes()).to_string().into(),
        name,
        kind,
        unit: text(unit).unwrap_or_default(),
        volume,
        user_id: text(user_id),
        project_id: text(project_id),
        resource_id: text(resource_id).unwrap_or_default(),
        timestamp: Some(time.to_string().into()),
        resource_metadata: Metadata::Parsed(metadata),
        source: options.sample_source.clone().into(),
        ..Sample::default()
    })
}

/// `None` for `null`.
fn text(value: Value) -> Option<Cow<'static, str>> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.into()),
        value => Some(python::text(&value).into_owned().into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn copies_are_limited_together() {
        // With its quotes as JSON.
        let text = |bytes: usize| json!("x".repeat(bytes - 2));
        let most = COPIES_BYTES_MAX / 4;
        assert!(check_copies(&text(most), 4).is_ok());
        assert!(check_copies(&text(most + 1), 4).is_err());
        assert!(check_copies(&text(COPIES_BYTES_MAX + 1), 1).is_ok(), "no copy");
    }
}
