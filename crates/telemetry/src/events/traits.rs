//! A trait: the path of its value, and its type.

use serde_json::Value;

use crate::{
    definitions::{DefinitionError, Field, LookupError, isotime::IsoTime, python},
    event::{Trait, TraitValue},
};

/// Maximum characters of a text; the rest is cut off.
const TEXT_CHARACTERS_MAX: usize = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TraitType {
    Text,
    /// `none`: a text, but empty ones are left out, and messages have another code for its type.
    Untyped,
    Integer,
    Float,
    Datetime,
}

#[derive(Debug)]
pub struct TraitDefinition {
    name: String,
    kind: TraitType,
    field: Field,
}

impl TraitDefinition {
    /// In files: any form of a field, or an object with `fields` and optionally `type` and `plugin`.
    pub fn parse(name: &str, definition: &Value) -> Result<Self, DefinitionError> {
        let kind = match definition.get("type") {
            None => TraitType::Text,
            Some(kind) => kind_named(kind).ok_or_else(|| {
                DefinitionError(format!("the type {kind} of the trait {name} is not known"))
            })?,
        };
        Ok(TraitDefinition { name: name.to_owned(), kind, field: Field::parse(name, definition)? })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The trait, if the notification has a value for it. An error if the value cannot be converted to the trait's
    /// type.
    pub fn of(&self, document: &Value) -> Result<Option<Trait>, LookupError> {
        let Some(value) = self.field.first(document)? else { return Ok(None) };
        // Some services send an empty text for a missing time.
        if self.kind != TraitType::Text && value.as_str() == Some("") {
            return Ok(None);
        }
        let wrong = || LookupError(format!("the trait {} cannot be of its type: {value}", self.name));
        let text = || python::first_characters(&python::text(&value), TEXT_CHARACTERS_MAX).to_owned();
        let value = match self.kind {
            TraitType::Text => TraitValue::Text(text()),
            TraitType::Untyped => TraitValue::Untyped(text()),
            TraitType::Integer => {
                let number = python::int(&value).ok().and_then(|number| i64::try_from(number).ok());
                TraitValue::Integer(number.ok_or_else(wrong)?)
            }
            TraitType::Float => TraitValue::Float(python::float(&value).map_err(|_| wrong())?),
            TraitType::Datetime => {
                let time = value.as_str().and_then(IsoTime::parse).ok_or_else(wrong)?;
                let Some(nanoseconds) = time.nanoseconds() else {
                    tracing::warn!(name = self.name, %time, "a trait is left out: its time is too far away");
                    return Ok(None);
                };
                TraitValue::Datetime(nanoseconds)
            }
        };
        Ok(Some(Trait { name: self.name.clone(), value }))
    }
}

fn kind_named(kind: &Value) -> Option<TraitType> {
    match kind.as_str()?.to_lowercase().as_str() {
        "text" => Some(TraitType::Text),
        "none" => Some(TraitType::Untyped),
        "int" => Some(TraitType::Integer),
        "float" => Some(TraitType::Float),
        "datetime" => Some(TraitType::Datetime),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trait_without_a_type_is_a_text_that_is_not_empty() {
        let of = |kind: &str, value: Value| {
            let definition = TraitDefinition::parse("x", &json!({"fields": "x", "type": kind})).unwrap();
            definition.of(&json!({"x": value})).unwrap().map(|found| found.value)
        };
        for kind in ["none", "NONE"] {
            assert_eq!(of(kind, json!("a")), Some(TraitValue::Untyped("a".to_owned())));
            assert_eq!(of(kind, json!(5)), Some(TraitValue::Untyped("5".to_owned())));
            assert_eq!(of(kind, json!("")), None);
        }
        assert_eq!(of("text", json!("")), Some(TraitValue::Text(String::new())));
        assert_eq!(of("none", json!("é".repeat(300))), Some(TraitValue::Untyped("é".repeat(255))));
    }
}
