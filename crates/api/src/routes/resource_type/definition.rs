//! Resource types in requests.

use gnudi_app::{
    ApiError, Result,
    json::Value,
    schema::{Checked, Invalid, each_entry, entries, required, string},
};
use gnudi_model::{Attribute, AttributeKind, Timestamp};

use crate::routes::resource::{check_attribute, real};

/// The maximum number of attributes: each resource has them all.
const ATTRIBUTES_MAX: usize = 1_000;

const NAME_CHARACTERS_MAX: usize = 63;

const STRING_CHARACTERS_MAX: i64 = 256;

/// The fields that every resource has.
const RESERVED_NAMES: [&str; 15] = [
    "id",
    "type",
    "metrics",
    "revision",
    "revision_start",
    "revision_end",
    "started_at",
    "ended_at",
    "user_id",
    "project_id",
    "created_by_user_id",
    "created_by_project_id",
    "get_metric",
    "creator",
    "original_resource_id",
];

/// The purpose of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Create,
    /// Attributes may have a value to fill in for existing resources.
    Update,
}

/// The kinds of attributes, in the order in which Gnocchi tries them, with their default bounds.
const KINDS: [AttributeKind; 5] = [
    AttributeKind::Bool,
    AttributeKind::Datetime,
    AttributeKind::Number { min: None, max: None },
    AttributeKind::String { min_length: 0, max_length: STRING_CHARACTERS_MAX as u32 },
    AttributeKind::Uuid,
];

/// An attribute in a request; its options have valid types.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenAttribute {
    kind: AttributeKind,
    required: bool,
    /// The bounds as given; null if absent.
    min: Value,
    max: Value,
    /// In an update: the value for existing resources; null if absent.
    fill: Option<Value>,
}

/// Parses a type's name and attributes.
pub fn check(body: &Value, purpose: Purpose) -> Checked<(String, Vec<(String, GivenAttribute)>)> {
    let (mut name, mut attributes) = (None, Vec::new());
    each_entry(body, |key, value| match key {
        "name" => string(value).map(|given| name = Some(given)),
        "attributes" => check_attributes(value, purpose).map(|given| attributes = given),
        _ => Err(Invalid::unknown_key()),
    })?;
    Ok((required(name, "name")?, attributes))
}

fn check_attributes(value: &Value, purpose: Purpose) -> Checked<Vec<(String, GivenAttribute)>> {
    let entries = entries(value)?;
    if entries.len() > ATTRIBUTES_MAX {
        return Err(Invalid::new(format!("length of value must be at most {ATTRIBUTES_MAX}")));
    }
    let attribute = |(name, value): &(String, Value)| {
        let given = check_attribute_of_any_kind(value, purpose).map_err(|invalid| invalid.in_key(name))?;
        Ok((name.clone(), given))
    };
    entries.iter().map(attribute).collect()
}

/// Parses an attribute as the first kind that fits; if none does, reports the deepest error.
fn check_attribute_of_any_kind(value: &Value, purpose: Purpose) -> Checked<GivenAttribute> {
    let mut deepest: Option<Invalid> = None;
    for kind in KINDS {
        match check_attribute_of(kind, value, purpose) {
            Ok(given) => return Ok(given),
            Err(invalid) if deepest.as_ref().is_none_or(|fault| invalid.depth() > fault.depth()) => {
                deepest = Some(invalid);
            }
            Err(_) => {}
        }
    }
    Err(deepest.expect("there are kinds"))
}

fn check_attribute_of(kind: AttributeKind, value: &Value, purpose: Purpose) -> Checked<GivenAttribute> {
    let (min, max) = match kind {
        AttributeKind::String { .. } => (Value::Int(0), Value::Int(STRING_CHARACTERS_MAX)),
        _ => (Value::Null, Value::Null),
    };
    let no_fill = (purpose == Purpose::Update).then_some(Value::Null);
    let mut given = GivenAttribute { kind, required: true, min, max, fill: no_fill };
    let mut has_type = false;
    each_entry(value, |key, value| {
        match (key, kind) {
            ("type", _) if *value == Value::from(kind.name()) => has_type = true,
            ("type", _) => return Err(Invalid::new("not a valid value")),
            ("required", _) => match value {
                Value::Bool(required) => given.required = *required,
                _ => return Err(Invalid::new("expected bool")),
            },
            ("options", _) if purpose == Purpose::Update => given.fill = Some(fill(value)?),
            ("min", AttributeKind::Number { .. }) => given.min = number_bound(value)?,
            ("max", AttributeKind::Number { .. }) => given.max = number_bound(value)?,
            ("min_length", AttributeKind::String { .. }) => given.min = length(value, 0)?,
            ("max_length", AttributeKind::String { .. }) => given.max = length(value, 1)?,
            _ => return Err(Invalid::unknown_key()),
        }
        Ok(())
    })?;
    required(has_type.then_some(()), "type")?;
    Ok(given)
}

fn fill(options: &Value) -> Checked<Value> {
    let mut fill = Value::Null;
    for (key, value) in entries(options)? {
        match key.as_str() {
            "fill" => fill = value.clone(),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    Ok(fill)
}

fn number_bound(value: &Value) -> Checked<Value> {
    match (value, real(value)) {
        (Value::Null, _) => Ok(Value::Null),
        (Value::Bool(_), _) => Err(Invalid::new("not a valid value")),
        (_, Some(number)) if number.is_finite() => Ok(value.clone()),
        _ => Err(Invalid::new("not a valid value")),
    }
}

fn length(value: &Value, min: i64) -> Checked<Value> {
    let length = match value {
        Value::Int(length) => *length,
        Value::BigInt(digits) if digits.starts_with('-') => i64::MIN,
        Value::BigInt(_) => i64::MAX,
        _ => return Err(Invalid::new("expected int")),
    };
    if length < min {
        return Err(Invalid::new(format!("value must be at least {min}")));
    }
    if length > STRING_CHARACTERS_MAX {
        return Err(Invalid::new(format!("value must be at most {STRING_CHARACTERS_MAX}")));
    }
    Ok(Value::Int(length))
}

impl GivenAttribute {
    /// Completes the attribute. A time to fill in may be relative to `now`.
    ///
    /// # Errors
    /// 400, with Gnocchi's error texts, if the bounds exclude all values, the name is invalid, or the value
    /// to fill in is invalid, or missing although existing resources need one.
    pub fn complete(&self, name: &str, now: Timestamp) -> Result<Attribute> {
        let refusal = |text: String| ApiError::bad_request(format!("Invalid input: {text}"));
        if let (Some(min), Some(max)) = (real(&self.min), real(&self.max))
            && min > max
        {
            // Two spaces, as in Gnocchi.
            return Err(refusal(format!(
                "Resource attribute value min (or min_length) {} must be less  than or equal to max (or max_length) {}!",
                self.min.repr(),
                self.max.repr()
            )));
        }
        let starts_well = name.starts_with(|character: char| character.is_ascii_alphanumeric());
        let is_known = RESERVED_NAMES.contains(&name);
        if name.chars().count() > NAME_CHARACTERS_MAX || is_known || !starts_well || name.contains('\0') {
            return Err(refusal(format!("Resource attribute name {name} is invalid")));
        }
        let kind = self.attribute_kind();
        let wrong_fill = |reason: &str| {
            refusal(format!("Option 'fill' of resource attribute {name} is invalid: {reason}"))
        };
        let fill = match &self.fill {
            Some(Value::Null) if self.required => {
                return Err(wrong_fill("must not be empty if required=True"));
            }
            None | Some(Value::Null) => None,
            Some(value) => {
                let checked = check_attribute(kind, value, now);
                Some(checked.map_err(|invalid| wrong_fill(&invalid.reason()))?)
            }
        };
        Ok(Attribute { kind, required: self.required, fill })
    }

    pub fn attribute_kind(&self) -> AttributeKind {
        let length = |bound: &Value| real(bound).map_or(0, |length| length as u32);
        match self.kind {
            AttributeKind::Number { .. } => {
                AttributeKind::Number { min: real(&self.min), max: real(&self.max) }
            }
            AttributeKind::String { .. } => {
                AttributeKind::String { min_length: length(&self.min), max_length: length(&self.max) }
            }
            kind => kind,
        }
    }

    pub fn required(&self) -> bool {
        self.required
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::AttributeValue;

    use super::*;
    use gnudi_app::json;

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);

    /// The only attribute of a type.
    fn attribute(text: &str, purpose: Purpose) -> Result<Attribute, String> {
        let body = format!(r#"{{"name": "x", "attributes": {{"a": {text}}}}}"#);
        let checked = check(&json::parse(body.as_bytes()).unwrap(), purpose);
        let (_, attributes) = checked.map_err(|invalid| invalid.reason())?;
        attributes[0].1.complete("a", NOW).map_err(|error| match error.detail {
            Value::Str(text) => text,
            detail => detail.repr(),
        })
    }

    #[test]
    fn attributes_have_a_type_and_bounds() {
        let plain = |kind| Attribute { kind, required: true, fill: None };
        let optional = |kind| Attribute { required: false, ..plain(kind) };
        let string = |min_length, max_length| AttributeKind::String { min_length, max_length };
        let number = |min, max| AttributeKind::Number { min, max };
        for (text, expected) in [
            (r#"{"type": "bool"}"#, plain(AttributeKind::Bool)),
            (r#"{"required": false, "type": "uuid"}"#, optional(AttributeKind::Uuid)),
            (r#"{"type": "datetime", "required": true}"#, plain(AttributeKind::Datetime)),
            (r#"{"type": "string"}"#, plain(string(0, 256))),
            (r#"{"min_length": 2, "type": "string", "max_length": 2}"#, plain(string(2, 2))),
            (r#"{"type": "number"}"#, plain(number(None, None))),
            (r#"{"type": "number", "min": -1.5, "max": null}"#, plain(number(Some(-1.5), None))),
            (r#"{"type": "number", "min": 1, "max": 1}"#, plain(number(Some(1.0), Some(1.0)))),
        ] {
            assert_eq!(attribute(text, Purpose::Create), Ok(expected), "{text}");
        }
    }

    /// Responses of a real Gnocchi, except for infinite numbers.
    #[test]
    fn other_attributes_are_refused() {
        let at = |message: &str, key: &str| {
            let of = if message.starts_with("extra") || message.starts_with("required") {
                ""
            } else {
                " for dictionary value"
            };
            format!("{message}{of} @ data['attributes']['a']{key}")
        };
        let wrong_type = || at("not a valid value", "['type']");
        let bounds = |min: &str, max: &str| {
            format!(
                "Invalid input: Resource attribute value min (or min_length) {min} must be less  than or equal to max (or \
                 max_length) {max}!"
            )
        };
        for (text, expected) in [
            (r#"{"type": "string", "min_length": -1}"#, wrong_type()),
            (r#"{"min_length": -1, "type": "string"}"#, at("extra keys not allowed", "['min_length']")),
            (r#"{"type": "foo"}"#, wrong_type()),
            (r"{}", at("required key not provided", "['type']")),
            (r"[]", at("expected a dictionary", "")),
            (r#"{"type": "number", "min": "x"}"#, wrong_type()),
            (r#"{"type": "number", "min": Infinity}"#, wrong_type()),
            (r#"{"type": "string", "min_length": "x"}"#, wrong_type()),
            (r#"{"type": "string", "max_length": 257}"#, wrong_type()),
            (r#"{"type": "string", "max_length": 0}"#, wrong_type()),
            (r#"{"type": "bool", "required": 1}"#, at("expected bool", "['required']")),
            (r#"{"required": true}"#, at("required key not provided", "['type']")),
            (r#"{"type": "string", "options": {"fill": "x"}}"#, wrong_type()),
            (r#"{"type": "bool", "options": {"fill": true}}"#, at("extra keys not allowed", "['options']")),
            (r#"{"type": "string", "min_length": 5, "max_length": 3}"#, bounds("5", "3")),
            (r#"{"type": "number", "min": 5.5, "max": 3}"#, bounds("5.5", "3")),
        ] {
            assert_eq!(attribute(text, Purpose::Create), Err(expected), "{text}");
        }
    }

    #[test]
    fn an_update_says_what_is_filled_in() {
        let fill = |text: &str| attribute(text, Purpose::Update).map(|attribute| attribute.fill);
        let text = |text: &str| Some(AttributeValue::String(text.into()));
        assert_eq!(fill(r#"{"type": "string", "options": {"fill": "x"}}"#), Ok(text("x")));
        assert_eq!(fill(r#"{"type": "string", "required": false}"#), Ok(None));
        assert_eq!(fill(r#"{"type": "string", "required": false, "options": {"fill": "x"}}"#), Ok(text("x")));
        assert_eq!(
            fill(r#"{"type": "bool", "options": {"fill": false}}"#),
            Ok(Some(AttributeValue::Bool(false)))
        );
        let refused = |reason: &str| {
            Err(format!("Invalid input: Option 'fill' of resource attribute a is invalid: {reason}"))
        };
        for (given, reason) in [
            (r#"{"type": "string"}"#, "must not be empty if required=True"),
            (r#"{"type": "string", "options": {}}"#, "must not be empty if required=True"),
            (r#"{"type": "string", "options": {"fill": null}}"#, "must not be empty if required=True"),
            (r#"{"type": "string", "options": {"fill": 5}}"#, "expected str"),
            (
                r#"{"type": "string", "max_length": 1, "options": {"fill": "ab"}}"#,
                "length of value must be at most 1",
            ),
        ] {
            assert_eq!(fill(given), refused(reason), "{given}");
        }
        assert_eq!(
            fill(r#"{"type": "bool", "options": {"foo": 1}}"#),
            Err("extra keys not allowed @ data['attributes']['a']['options']['foo']".to_owned())
        );
    }

    #[test]
    fn names_are_taken_as_gnocchi_takes_them() {
        let given = GivenAttribute {
            kind: AttributeKind::Bool,
            required: false,
            min: Value::Null,
            max: Value::Null,
            fill: None,
        };
        for name in ["a", "0", "a-b c", &"x".repeat(63)] {
            assert!(given.complete(name, NOW).is_ok(), "{name}");
        }
        for name in ["", "_a", "é", "id", "get_metric", "original_resource_id", "a\0", &"x".repeat(64)] {
            let refusal =
                ApiError::bad_request(format!("Invalid input: Resource attribute name {name} is invalid"));
            assert_eq!(given.complete(name, NOW), Err(refusal));
        }
    }

    #[test]
    fn a_type_has_a_name_and_so_many_attributes() {
        let reason =
            |text: &str| check(&json::parse(text.as_bytes()).unwrap(), Purpose::Create).unwrap_err().reason();
        assert_eq!(reason(r#"{"name": 5}"#), "expected str for dictionary value @ data['name']");
        assert_eq!(reason(r#"{"attributes": {}}"#), "required key not provided @ data['name']");
        assert_eq!(reason(r#"{"name": "x", "foo": 1}"#), "extra keys not allowed @ data['foo']");
        assert_eq!(reason("[]"), "expected a dictionary");
        let many = (0..=ATTRIBUTES_MAX).map(|index| format!(r#""a{index}": {{"type": "bool"}}"#));
        let many = format!(r#"{{"name": "x", "attributes": {{{}}}}}"#, many.collect::<Vec<_>>().join(","));
        assert!(reason(&many).starts_with("length of value must be at most"));
    }
}
