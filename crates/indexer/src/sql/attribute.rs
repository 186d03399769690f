//! JSON encoding of attributes and values: the definitions of a type's attributes, and the values of a resource by
//! attribute number.
//!
//! Each value is encoded by its kind: a text, a UUID's text, a number (`9e999` for infinity), a boolean, or nanoseconds
//! since the epoch. Nulls are left out.

use std::{borrow::Cow, collections::BTreeMap, fmt, fmt::Write};

use gnudi_model::{AttributeKind, AttributeValue, Text, Timestamp};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::types::{Fill, StoredAttribute, StoredType};
use crate::{IndexerError, Result};

/// The stored definition of an attribute.
#[derive(Serialize, Deserialize)]
struct Definition<'a> {
    kind: Cow<'a, str>,
    required: bool,
    /// Bounds of a text's length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lengths: Option<(u32, u32)>,
    /// Bounds of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bounds: Option<[Option<Box<RawValue>>; 2]>,
    /// Fill values, each with the version of its change.
    fills: Vec<(i64, Box<RawValue>)>,
}

pub(super) fn encode(attribute: &StoredAttribute) -> String {
    let raw = |value: &AttributeValue| {
        RawValue::from_string(encode_value(value)).expect("values are written as JSON")
    };
    let number = |number: f64| raw(&AttributeValue::Number(number));
    let fills = attribute.fills.iter().map(|fill| (fill.version, raw(&fill.value))).collect();
    let definition = Definition {
        kind: attribute.kind.name().into(),
        required: attribute.required,
        lengths: match attribute.kind {
            AttributeKind::String { min_length, max_length } => Some((min_length, max_length)),
            _ => None,
        },
        bounds: match attribute.kind {
            AttributeKind::Number { min, max } => Some([min.map(number), max.map(number)]),
            _ => None,
        },
        fills,
    };
    serde_json::to_string(&definition).expect("a definition is JSON")
}

pub(super) fn decode(number: i64, definition: &str) -> Result<StoredAttribute> {
    let damaged = || IndexerError::Database(format!("attribute {number} is damaged"));
    let stored: Definition<'_> = serde_json::from_str(definition).map_err(|_| damaged())?;
    let bound = |raw: Option<Box<RawValue>>| -> Result<Option<f64>> {
        raw.map(|raw| raw.get().parse().map_err(|_| damaged())).transpose()
    };
    let kind = match &*stored.kind {
        "string" => {
            let (min_length, max_length) = stored.lengths.ok_or_else(damaged)?;
            AttributeKind::String { min_length, max_length }
        }
        "uuid" => AttributeKind::Uuid,
        "number" => {
            let [min, max] = stored.bounds.ok_or_else(damaged)?;
            AttributeKind::Number { min: bound(min)?, max: bound(max)? }
        }
        "bool" => AttributeKind::Bool,
        "datetime" => AttributeKind::Datetime,
        _ => return Err(damaged()),
    };
    let fill = |(version, raw): (i64, Box<RawValue>)| {
        let value = read_value(raw.get(), kind).ok_or_else(damaged)?;
        Ok(Fill { version, value })
    };
    let fills = stored.fills.into_iter().map(fill).collect::<Result<_>>()?;
    Ok(StoredAttribute { number, kind, required: stored.required, fills })
}

/// Whether `SQLite` reads a number exactly in JSON. Many of those beyond 1e100 or below 1e-84 it misses by their last bit: what
/// is compared with them has to be read by it, too.
pub(super) fn is_exact_in_json(number: f64) -> bool {
    number == 0.0 || number.is_infinite() || (1e-30..1e30).contains(&number.abs())
}

/// Values by number, without nulls.
pub(super) fn encode_values<'a>(values: impl IntoIterator<Item = (i64, &'a AttributeValue)>) -> String {
    let mut json = String::from("{");
    for (number, value) in values {
        if *value == AttributeValue::Null {
            continue;
        }
        if json.len() > 1 {
            json.push(',');
        }
        write!(json, "\"{number}\":").expect("a string takes all");
        write_value(&mut json, value);
    }
    json.push('}');
    json
}

/// A value as rows have it.
pub(super) fn encode_value(value: &AttributeValue) -> String {
    let mut json = String::new();
    write_value(&mut json, value);
    json
}

fn write_value(json: &mut String, value: &AttributeValue) {
    let written = match value {
        AttributeValue::Null => write!(json, "null"),
        AttributeValue::String(text) => {
            json.push_str(&serde_json::to_string(text.as_str()).expect("a text is JSON"));
            Ok(())
        }
        AttributeValue::Uuid(id) => write!(json, "\"{id}\""),
        AttributeValue::Number(number) if number.is_nan() => write!(json, "\"NaN\""),
        AttributeValue::Number(number) if number.is_infinite() => {
            write!(json, "{}9e999", if *number < 0.0 { "-" } else { "" })
        }
        AttributeValue::Number(number) => write!(json, "{number:?}"),
        AttributeValue::Bool(flag) => write!(json, "{flag}"),
        AttributeValue::Datetime(time) => write!(json, "{}", time.0),
    };
    written.expect("a string takes all");
}

fn read_value(raw: &str, kind: AttributeKind) -> Option<AttributeValue> {
    Some(match kind {
        AttributeKind::String { .. } => {
            AttributeValue::String(Text::from(&*serde_json::from_str::<Cow<'_, str>>(raw).ok()?))
        }
        AttributeKind::Uuid => AttributeValue::Uuid(Uuid::try_parse(raw.trim_matches('"')).ok()?),
        AttributeKind::Number { .. } => AttributeValue::Number(raw.trim_matches('"').parse().ok()?),
        AttributeKind::Bool => AttributeValue::Bool(raw.parse().ok()?),
        AttributeKind::Datetime => AttributeValue::Datetime(Timestamp(raw.parse().ok()?)),
    })
}

impl StoredType {
    /// All attributes of a row with this version.
    pub(super) fn attributes_of(
        &self,
        json: &str,
        row_version: i64,
    ) -> Result<BTreeMap<Text, AttributeValue>, serde_json::Error> {
        let mut values = self.values_in(json)?;
        let mut value = |attribute: &StoredAttribute| {
            values.remove(&attribute.number).unwrap_or_else(|| attribute.fill(row_version).clone())
        };
        Ok(self.attributes.iter().map(|(name, attribute)| (name.clone(), value(attribute))).collect())
    }

    /// The values in a row, by attribute number. Those of deleted attributes are skipped.
    pub(super) fn values_in(&self, json: &str) -> Result<BTreeMap<i64, AttributeValue>, serde_json::Error> {
        if json == "{}" {
            return Ok(BTreeMap::new());
        }
        let mut deserializer = serde_json::Deserializer::from_str(json);
        Values(self).deserialize(&mut deserializer)
    }
}

/// Deserializes the values of a type's attributes.
struct Values<'a>(&'a StoredType);

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = BTreeMap<i64, AttributeValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = BTreeMap<i64, AttributeValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("values by the number of their attribute")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let broken = |what: &str| <A::Error as serde::de::Error>::custom(what);
        let mut values = BTreeMap::new();
        while let Some((number, raw)) = map.next_entry::<&str, &RawValue>()? {
            let number: i64 = number.parse().map_err(|_| broken("a key is no number"))?;
            let Some(kind) = self.0.kinds.get(&number) else { continue };
            let value = read_value(raw.get(), *kind).ok_or_else(|| broken("a value is not of its kind"))?;
            values.insert(number, value);
        }
        Ok(values)
    }
}
