//! Compiles `gnocchi_resources.yaml`: the metric of each meter, the resource attributes in samples, and the events that
//! create, update and delete resources.
//!
//! Invalid definitions are skipped with a warning.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use gnudi_model::python::fnmatch::Pattern;
use serde_json::{Map, Value};

use super::{GnocchiError, Result};
use crate::{definitions::Field, event::Event, located::Located, wire::trait_value, yaml};

/// Ceilometer's own file, the default.
const SHIPPED: &str = include_str!("../../../data/gnocchi_resources.yaml");
const SHIPPED_PATH: &str = "gnocchi_resources.yaml (built in)";

/// The archive policy of metrics if the file has no `archive_policy_default`.
const ARCHIVE_POLICY_DEFAULT: &str = "ceilometer-low";

/// What an event does to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOperation {
    Create,
    Update,
    Delete,
}

/// The metric that a meter's samples go to.
#[derive(Debug)]
pub struct Metric {
    /// Index in [`Definitions::metrics`], under which the meter is cached elsewhere.
    pub number: u16,
    /// The resource definition that it belongs to.
    pub definition: u16,
    /// `"NAME":{"measures":[`, a ready part of a request.
    pub opening: Box<[u8]>,
    /// `],"archive_policy_name":"NAME","unit":`, likewise.
    pub closing: Box<[u8]>,
}

/// A resource type, and how samples and events describe its resources.
#[derive(Debug)]
pub struct Definition {
    pub resource_type: String,
    /// The first definition with the same type; mostly itself.
    pub kind: u16,
    attributes: Vec<(String, Field)>,
    /// Whether all attributes come from a sample's metadata, so that equal metadata give equal attributes.
    pub is_of_metadata: bool,
    events: Vec<(Pattern, EventOperation)>,
    event_attributes: Vec<(String, String)>,
    /// Types whose resources end with this one, and the search that finds them, with `%s` for the id.
    pub associated: Vec<(String, String)>,
}

#[derive(Debug, Default)]
pub struct Definitions {
    /// To create first: bodies of `POST /v1/archive_policy`.
    pub archive_policies: Vec<Value>,
    pub definitions: Vec<Definition>,
    /// By number.
    pub metrics: Vec<Metric>,
    numbers: HashMap<Box<str>, u16>,
}

impl Definitions {
    /// Loads a file: by its path, or from the first folder that has it. `None`, or a missing file, gives the built-in
    /// definitions. `archive_policy` overrides the file's for all metrics.
    pub fn load(name: Option<&str>, folders: &[PathBuf], archive_policy: Option<&str>) -> Result<Self> {
        let name = name.unwrap_or("gnocchi_resources.yaml");
        let places =
            std::iter::once(PathBuf::from(name)).chain(folders.iter().map(|folder| folder.join(name)));
        let Some(path) = places.into_iter().find(|path| path.is_file()) else {
            return Ok(Definitions::shipped(archive_policy));
        };
        let file: Located =
            yaml::load(&path).map_err(|error| GnocchiError::Definitions(error.to_string()))?;
        Definitions::of_file(&path, &file, archive_policy)
    }

    /// The built-in definitions.
    pub fn shipped(archive_policy: Option<&str>) -> Self {
        Definitions::of_file(Path::new(SHIPPED_PATH), &shipped(), archive_policy)
            .expect("a test compiles them")
    }

    fn of_file(path: &Path, file: &Located, archive_policy: Option<&str>) -> Result<Self> {
        let resources = file.get("resources").and_then(Located::list).unwrap_or_default();
        let lines: Vec<u64> = resources.iter().map(|resource| resource.line).collect();
        Definitions::compile(path, &file.json(), &lines, archive_policy)
    }

    /// Compiles a file; `lines` are the lines of its resources, for warnings. Only a file that is not a mapping of
    /// lists is an error.
    pub fn compile(path: &Path, file: &Value, lines: &[u64], archive_policy: Option<&str>) -> Result<Self> {
        let shown = path.display();
        let malformed = |what: &str| GnocchiError::Definitions(format!("{shown}: {what}"));
        let file = file.as_object().ok_or_else(|| malformed("not a mapping"))?;
        let default = match file.get("archive_policy_default") {
            None => ARCHIVE_POLICY_DEFAULT,
            Some(name) => name.as_str().ok_or_else(|| malformed("archive_policy_default is not a text"))?,
        };
        let list = |key: &str| match file.get(key) {
            None | Some(Value::Null) => Ok(&[][..]),
            Some(value) => {
                value.as_array().map(Vec::as_slice).ok_or_else(|| malformed(&format!("{key} is not a list")))
            }
        };
        let mut all =
            Definitions { archive_policies: list("archive_policies")?.to_vec(), ..Definitions::default() };
        for (index, resource) in list("resources")?.iter().enumerate() {
            if let Err(problem) = all.add(resource, default, archive_policy) {
                let line = lines.get(index).map_or(String::new(), |line| format!(" line {line}:"));
                tracing::warn!("{shown}:{line} resources[{index}]: {problem}; it is left out");
            }
        }
        Ok(all)
    }

    /// The metric of a meter; `None` if there is none.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.numbers.get(name).map(|number| &self.metrics[usize::from(*number)])
    }

    pub fn definition(&self, number: u16) -> &Definition {
        &self.definitions[usize::from(number)]
    }

    /// The first definition that matches an event, and the operation.
    pub fn event(&self, event_type: &str) -> Option<(u16, EventOperation)> {
        let operation = |definition: &Definition| {
            definition
                .events
                .iter()
                .find(|(pattern, _)| pattern.matches(event_type))
                .map(|(_, operation)| *operation)
        };
        (0..).zip(&self.definitions).find_map(|(number, definition)| Some((number, operation(definition)?)))
    }

    /// Adds a resource definition with its metrics. If several define a meter, the last one wins.
    fn add(&mut self, resource: &Value, default: &str, archive_policy: Option<&str>) -> Result<(), String> {
        let resource = resource.as_object().ok_or("not a mapping")?;
        let resource_type =
            resource.get("resource_type").ok_or("Required field resource_type not specified")?;
        let resource_type = resource_type.as_str().ok_or("resource_type is not a text")?.to_owned();
        let number = u16::try_from(self.definitions.len()).map_err(|_| "too many definitions")?;
        let same = self.definitions.iter().position(|other| other.resource_type == resource_type);
        let attributes = pairs(resource, "attributes")?;
        let is_of_metadata = attributes.iter().all(|(_, path)| is_of_metadata(path));
        let attributes = attributes.into_iter().map(|(name, path)| {
            let field = Field::parse(&name, path).map_err(|error| format!("attributes: {error}"))?;
            Ok((name, field))
        });
        let definition = Definition {
            kind: same.map_or(number, |same| same as u16),
            attributes: attributes.collect::<Result<_, String>>()?,
            is_of_metadata,
            events: events(resource)?,
            event_attributes: texts(resource, "event_attributes")?,
            associated: texts(resource, "event_associated_resources")?,
            resource_type,
        };
        if !definition.events.is_empty() && !definition.event_attributes.iter().any(|(name, _)| name == "id")
        {
            return Err("event_attributes: Required field id not specified".to_owned());
        }
        let metrics = metrics(resource, default, archive_policy)?;
        for (name, policy) in metrics {
            let next = u16::try_from(self.metrics.len()).map_err(|_| "too many metrics")?;
            let place = *self.numbers.entry(name.as_str().into()).or_insert(next);
            let metric = Metric {
                number: place,
                definition: number,
                opening: format!("{}:{{\"measures\":[", quoted(&name)).into_bytes().into(),
                closing: format!("],\"archive_policy_name\":{},\"unit\":", quoted(&policy))
                    .into_bytes()
                    .into(),
            };
            match self.metrics.get_mut(usize::from(place)) {
                Some(known) => *known = metric,
                None => self.metrics.push(metric),
            }
        }
        self.definitions.push(definition);
        Ok(())
    }
}

impl Definition {
    /// The resource attributes in a sample; missing and `null` ones are absent.
    pub fn attributes(&self, sample: &Value) -> Map<String, Value> {
        let mut found = Map::new();
        for (name, field) in &self.attributes {
            match field.first(sample) {
                Ok(Some(value)) => drop(found.insert(name.clone(), value.into_owned())),
                Ok(None) => {}
                // The measure is stored all the same.
                Err(error) => tracing::debug!("attribute {name} of {}: {error}", self.resource_type),
            }
        }
        found
    }

    /// The resource attributes in an event, `id` included. Of traits with one name the last one counts.
    pub fn event_attributes(&self, event: &Event) -> Map<String, Value> {
        let value = |name: &str| event.traits.iter().rev().find(|item| item.name == name);
        let found = self.event_attributes.iter();
        found.filter_map(|(name, field)| Some((name.clone(), trait_value(&value(field)?.value)))).collect()
    }
}

/// The built-in file.
fn shipped() -> Located {
    Located::parse(Path::new(SHIPPED_PATH), SHIPPED).expect("a test reads it")
}

/// The built-in file as JSON.
pub fn shipped_definitions() -> Value {
    shipped().json()
}

/// A text as JSON.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text is JSON")
}

fn is_of_metadata(path: &Value) -> bool {
    let is_one = |path: &Value| {
        let Some(text) = path.as_str() else { return path.is_number() };
        let text = text.trim_start_matches("$.");
        // Paths that may reach outside the metadata are evaluated for each sample.
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-()|".contains(&byte));
        is_plain && text.starts_with("resource_metadata.")
    };
    match path {
        Value::Array(paths) => paths.iter().all(is_one),
        Value::Object(field) => field.get("fields").is_some_and(is_of_metadata),
        one => is_one(one),
    }
}

fn pairs<'a>(resource: &'a Map<String, Value>, key: &str) -> Result<Vec<(String, &'a Value)>, String> {
    match resource.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Object(pairs)) => Ok(pairs.iter().map(|(name, value)| (name.clone(), value)).collect()),
        Some(_) => Err(format!("{key} is not a mapping")),
    }
}

fn texts(resource: &Map<String, Value>, key: &str) -> Result<Vec<(String, String)>, String> {
    let text = |(name, value): (String, &Value)| {
        let value = value.as_str().ok_or_else(|| format!("{key}: {name} is not a text"))?.to_owned();
        Ok((name, value))
    };
    pairs(resource, key)?.into_iter().map(text).collect()
}

fn events(resource: &Map<String, Value>) -> Result<Vec<(Pattern, EventOperation)>, String> {
    let mut events = Vec::new();
    for (key, operation) in [
        ("event_create", EventOperation::Create),
        ("event_delete", EventOperation::Delete),
        ("event_update", EventOperation::Update),
    ] {
        let patterns = match resource.get(key) {
            None => &[][..],
            Some(Value::Array(patterns)) => patterns,
            Some(one) => std::slice::from_ref(one),
        };
        for pattern in patterns {
            let pattern = pattern.as_str().ok_or_else(|| format!("{key}: not a text"))?;
            events.push((Pattern::new(pattern), operation));
        }
    }
    Ok(events)
}

/// The names of metrics with their policies, in order of precedence: the URL's, the (deprecated) resource's, the
/// metric's, the default. That order is Ceilometer's.
fn metrics(
    resource: &Map<String, Value>,
    default: &str,
    archive_policy: Option<&str>,
) -> Result<Vec<(String, String)>, String> {
    let of_all = match resource.get("archive_policy") {
        None => archive_policy,
        Some(policy) => Some(policy.as_str().ok_or("archive_policy is not a text")?),
    };
    let policy = |name: &str, extra: &Value| match (of_all, extra.get("archive_policy_name")) {
        (Some(policy), _) => Ok(policy.to_owned()),
        (None, Some(Value::String(policy))) if !policy.is_empty() => Ok(policy.clone()),
        (None, None | Some(Value::Null | Value::String(_))) => Ok(default.to_owned()),
        _ => Err(format!("metrics: {name}: archive_policy_name is not a text")),
    };
    match resource.get("metrics") {
        None => Err("Required field metrics not specified".to_owned()),
        Some(Value::Array(names)) => {
            let name = |name: &Value| {
                let name = name.as_str().ok_or("metrics: not a text")?;
                Ok((name.to_owned(), policy(name, &Value::Null)?))
            };
            names.iter().map(name).collect()
        }
        Some(Value::Object(metrics)) => {
            metrics.iter().map(|(name, extra)| Ok((name.clone(), policy(name, extra)?))).collect()
        }
        Some(_) => Err("metrics is neither a list nor a mapping".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::TraitValue;

    fn compile(file: &Value) -> Definitions {
        Definitions::compile(Path::new("x.yaml"), file, &[], None).unwrap()
    }

    #[test]
    fn the_shipped_ones_compile() {
        let all = Definitions::shipped(None);
        assert_eq!((all.definitions.len(), all.metrics.len(), all.archive_policies.len()), (19, 136, 4));
        let cpu = all.metric("cpu").unwrap();
        assert_eq!(&*cpu.opening, br#""cpu":{"measures":["#);
        assert_eq!(&*cpu.closing, br#"],"archive_policy_name":"ceilometer-low-rate","unit":"#);
        assert_eq!(all.definition(cpu.definition).resource_type, "instance");
        assert!(all.definitions.iter().all(|definition| definition.is_of_metadata));
        assert_eq!(all.event("image.delete").unwrap().1, EventOperation::Delete);
        assert!(all.event("image.deleted").is_none());
        let instance = &shipped_definitions()["resources"][2];
        assert_eq!(instance["attributes"]["host"], "resource_metadata.(instance_host|host)");
        assert_eq!(instance["metrics"]["memory"], Value::Null);
    }

    #[test]
    fn bad_definitions_are_left_out() {
        let all = compile(&json!({"archive_policy_default": "d", "resources": [
            {"metrics": ["a"]},
            {"resource_type": "t"},
            {"resource_type": "t", "metrics": "a"},
            {"resource_type": 7, "metrics": []},
            {"resource_type": "t", "metrics": ["a"], "event_delete": "x", "event_attributes": {}},
            {"resource_type": "t", "metrics": ["a"], "attributes": ["x"]},
            {"resource_type": "t", "metrics": {"good": null, "own": {"archive_policy_name": "p"}}},
            {"resource_type": "t", "metrics": ["list"], "archive_policy": "q"},
        ]}));
        assert_eq!((all.definitions.len(), all.metrics.len()), (2, 3));
        assert_eq!(all.definitions[1].kind, 0);
        let policy = |name: &str| String::from_utf8(all.metric(name).unwrap().closing.to_vec()).unwrap();
        assert!(policy("good").contains(r#""d""#), "{}", policy("good"));
        assert!(policy("own").contains(r#""p""#));
        assert!(policy("list").contains(r#""q""#));
        assert!(Definitions::compile(Path::new("x.yaml"), &json!([]), &[], None).is_err());
        assert!(Definitions::compile(Path::new("x.yaml"), &json!({"resources": 1}), &[], None).is_err());
    }

    #[test]
    fn what_an_event_tells() {
        let all = Definitions::shipped(None);
        let (number, operation) = all.event("volume.transfer.accept.end").unwrap();
        assert_eq!(operation, EventOperation::Update);
        let item = |name: &str, value| crate::event::Trait { name: name.to_owned(), value };
        let event = Event {
            message_id: String::new(),
            event_type: String::new(),
            generated: 0,
            traits: vec![
                item("project_id", TraitValue::Text("old".to_owned())),
                item("project_id", TraitValue::Text("new".to_owned())),
                item("resource_id", TraitValue::Datetime(1_500_000_000)),
            ],
            raw: Value::Null,
        };
        let expected = json!({"id": "1970-01-01T00:00:01.500000", "project_id": "new"});
        assert_eq!(Value::Object(all.definition(number).event_attributes(&event)), expected);
    }
}
