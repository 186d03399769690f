//! Resources in requests, to create or change them.

use std::collections::BTreeMap;

use gnudi_app::{
    json::Value,
    python, resource_id,
    schema::{Checked, Invalid, each_entry, entries, required, string_up_to},
};
use gnudi_model::{AttributeValue, ResourceType, STORED_CHARACTERS_MAX, Text, Timestamp, python::datetime};
use uuid::Uuid;

use super::attribute;
use crate::routes::metric::definition::{GivenNamed, check_named};

/// The fields of a request; `None` if absent.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::option_option, reason = "absent, null and a text are three things")]
pub struct ResourceFields {
    /// The id as written, and the resulting UUID.
    pub id: Option<(String, Uuid)>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub user_id: Option<Option<String>>,
    pub project_id: Option<Option<String>>,
    pub attributes: BTreeMap<Text, AttributeValue>,
    pub metrics: Option<Vec<(String, GivenNamed)>>,
}

/// The caller and the time.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub creator: &'a str,
    pub now: Timestamp,
}

/// Parses a new resource, with an id and all attributes that its type requires.
pub fn check_new(
    body: &Value,
    of: &ResourceType,
    writer: Writer<'_>,
) -> Checked<(String, Uuid, ResourceFields)> {
    let mut given = ResourceFields::default();
    each_entry(body, |key, value| match key {
        "id" => id(value, writer.creator).map(|id| given.id = Some(id)),
        _ => given.take(key, value, of, writer),
    })?;
    let (text, id) = required(given.id.take(), "id")?;
    for (name, attribute) in &of.attributes {
        if attribute.required && !given.attributes.contains_key(name) {
            required(None::<()>, name)?;
        }
    }
    Ok((text, id, given))
}

/// Parses changes of a resource; `None` if the body is empty.
pub fn check_change(body: &Value, of: &ResourceType, writer: Writer<'_>) -> Checked<Option<ResourceFields>> {
    let mut given = ResourceFields::default();
    each_entry(body, |key, value| given.take(key, value, of, writer))?;
    Ok((!entries(body)?.is_empty()).then_some(given))
}

impl ResourceFields {
    fn take(&mut self, key: &str, value: &Value, of: &ResourceType, writer: Writer<'_>) -> Checked<()> {
        match key {
            "started_at" => self.started_at = Some(time(value, writer.now)?),
            "ended_at" => self.ended_at = Some(time(value, writer.now)?),
            "user_id" => self.user_id = Some(owner(value)?),
            "project_id" => self.project_id = Some(owner(value)?),
            "metrics" => self.metrics = Some(check_named(value, writer.creator)?),
            _ => {
                let Some((name, attribute)) = of.attributes.get_key_value(key) else {
                    return Err(Invalid::unknown_key());
                };
                let value = attribute::check(attribute.kind, value, writer.now)?;
                self.attributes.insert(name.clone(), value);
            }
        }
        Ok(())
    }
}

fn id(value: &Value, creator: &str) -> Checked<(String, Uuid)> {
    let id = resource_id::check(value, creator)?;
    let text = string_up_to(resource_id::CHARACTERS_MAX)(value)?;
    if text.contains('\0') {
        return Err(Invalid::new("not a valid value"));
    }
    Ok((text, id))
}

/// Parses a time of a resource.
pub(super) fn time(value: &Value, now: Timestamp) -> Checked<Timestamp> {
    match python::timestamps([value].into_iter(), now) {
        Ok(times) => Ok(datetime(times[0])),
        Err(_) => Err(Invalid::new("not a valid value")),
    }
}

/// Parses a user or project.
fn owner(value: &Value) -> Checked<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::Str(text) if text.contains('\0') => Err(Invalid::new("not a valid value")),
        Value::Str(_) => string_up_to(STORED_CHARACTERS_MAX)(value).map(Some),
        _ => Err(Invalid::new("not a valid value")),
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::{Attribute, AttributeKind};

    use super::*;
    use gnudi_app::json;

    fn instance() -> ResourceType {
        let attribute = |kind, required| Attribute { kind, required, fill: None };
        let string = AttributeKind::String { min_length: 0, max_length: 3 };
        ResourceType {
            name: "instance".into(),
            attributes: BTreeMap::from([
                ("name".into(), attribute(string, true)),
                ("size".into(), attribute(AttributeKind::Number { min: None, max: None }, false)),
            ]),
        }
    }

    const WRITER: Writer<'static> = Writer { creator: "foobar", now: Timestamp::from_secs(1_000_000) };

    fn new(text: &str) -> Result<(String, Uuid, ResourceFields), String> {
        let body = json::parse(text.as_bytes()).unwrap();
        check_new(&body, &instance(), WRITER).map_err(|invalid| invalid.reason())
    }

    fn change(text: &str) -> Result<Option<ResourceFields>, String> {
        let body = json::parse(text.as_bytes()).unwrap();
        check_change(&body, &instance(), WRITER).map_err(|invalid| invalid.reason())
    }

    #[test]
    fn a_new_resource_has_an_id_and_what_its_type_requires() {
        let (text, id, given) =
            new(r#"{"name": "x", "id": "1.2.3.4", "started_at": "2014-01-01", "user_id": null,
            "project_id": "p", "ended_at": "1 day", "metrics": {}, "size": 5}"#)
            .unwrap();
        assert_eq!(
            (text.as_str(), id.to_string().as_str()),
            ("1.2.3.4", "a9c729cc-d1b0-5e6b-b5ba-8b5a7f45f1fc")
        );
        let attributes = [
            ("name".into(), AttributeValue::String("x".into())),
            ("size".into(), AttributeValue::Number(5.0)),
        ];
        let expected = ResourceFields {
            id: None,
            started_at: Some(Timestamp::from_secs(1_388_534_400)),
            ended_at: Some(Timestamp::from_secs(1_086_400)),
            user_id: Some(None),
            project_id: Some(Some("p".to_owned())),
            attributes: attributes.into(),
            metrics: Some(Vec::new()),
        };
        assert_eq!(given, expected);
    }

    #[test]
    fn other_resources_are_refused_in_voluptuous_words() {
        let long = |length: usize| format!(r#"{{"id": "{}"}}"#, "x".repeat(length));
        let dashes = format!(r#"{{"id": "{}5dfe182a51d24122b90bdf0f215b736e"}}"#, "-".repeat(300));
        for (text, reason) in [
            (r#"{"name": "x"}"#, "required key not provided @ data['id']"),
            (r#"{"id": "x"}"#, "required key not provided @ data['name']"),
            (r#"{"id": "x", "name": "y", "foo": 1, "bar": 2}"#, "extra keys not allowed @ data['foo']"),
            (r#"{"id": "a/b"}"#, "'/' is not supported in resource id for dictionary value @ data['id']"),
            (r#"{"id": 5}"#, "expected str for dictionary value @ data['id']"),
            (r#"{"id": "\u0000"}"#, "not a valid value for dictionary value @ data['id']"),
            (
                &long(290),
                "transformable resource id >289 max allowed characters for dictionary value @ data['id']",
            ),
            (&dashes, "length of value must be at most 289 for dictionary value @ data['id']"),
            (r#"{"user_id": 5}"#, "not a valid value for dictionary value @ data['user_id']"),
            (r#"{"started_at": "foo"}"#, "not a valid value for dictionary value @ data['started_at']"),
            (r#"{"ended_at": null}"#, "not a valid value for dictionary value @ data['ended_at']"),
            (r#"{"name": "long"}"#, "length of value must be at most 3 for dictionary value @ data['name']"),
            (r#"{"metrics": {"a": 5}}"#, "not a valid value for dictionary value @ data['metrics']['a']"),
            (r#"{"metrics": []}"#, "expected a dictionary for dictionary value @ data['metrics']"),
            ("5", "expected a dictionary"),
        ] {
            assert_eq!(new(text), Err(reason.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_change_needs_nothing_and_keeps_the_id() {
        assert_eq!(change("{}"), Ok(None));
        let given = change(r#"{"size": 1}"#).unwrap().unwrap();
        assert_eq!(given.attributes, [("size".into(), AttributeValue::Number(1.0))].into());
        assert_eq!(change(r#"{"id": "x"}"#), Err("extra keys not allowed @ data['id']".to_owned()));
    }
}
