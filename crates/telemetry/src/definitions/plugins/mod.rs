//! Plug-ins, one per file: functions applied to the values that paths find.

mod bitfield;
mod map;
mod split;
mod timedelta;

use std::borrow::Cow;

use bitfield::Bitfield;
use map::Mapping;
use serde_json::{Map, Value};
use split::Splitter;

use super::{DefinitionError, JsonPath, LookupError};

/// A plug-in with its parameters.
#[derive(Clone, Debug)]
pub enum Plugin {
    Split(Splitter),
    Bitfield(Bitfield),
    Timedelta,
    Map(Mapping),
}

/// A value and its path, which is empty unless the plug-in uses paths.
pub type Match<'a> = (String, Cow<'a, Value>);

impl Plugin {
    /// In files: a name, or an object with `name` and optionally `parameters`.
    pub fn parse(definition: &Value) -> Result<Self, DefinitionError> {
        let (name, parameters) = match definition {
            Value::String(name) => (name.as_str(), None),
            Value::Object(entries) => {
                let name = entries.get("name").and_then(Value::as_str);
                let name = name.ok_or_else(|| DefinitionError("the plug-in has no `name`".to_owned()))?;
                (name, entries.get("parameters"))
            }
            _ => return Err(DefinitionError("a plug-in is a name or an object".to_owned())),
        };
        let none = Map::new();
        let parameters = match parameters {
            None | Some(Value::Null) => &none,
            Some(Value::Object(parameters)) => parameters,
            Some(_) => return Err(DefinitionError(format!("the parameters of {name} are no object"))),
        };
        let plugin = match name {
            "split" => Splitter::parse(parameters).map(Plugin::Split),
            "bitfield" => Bitfield::parse(parameters).map(Plugin::Bitfield),
            "timedelta" => Ok(Plugin::Timedelta),
            "map" => Mapping::parse(parameters).map(Plugin::Map),
            _ => return Err(DefinitionError(format!("there is no plug-in {name}"))),
        };
        plugin.map_err(|DefinitionError(error)| DefinitionError(format!("the plug-in {name}: {error}")))
    }

    pub fn name(&self) -> &'static str {
        match self {
            Plugin::Split(_) => "split",
            Plugin::Bitfield(_) => "bitfield",
            Plugin::Timedelta => "timedelta",
            Plugin::Map(_) => "map",
        }
    }

    /// Whether it maps each value to one value, so that all values can be requested.
    pub fn makes_one_of_each(&self) -> bool {
        matches!(self, Plugin::Split(_))
    }

    pub fn find<'a>(&self, path: &JsonPath, document: &'a Value) -> Result<Vec<Match<'a>>, LookupError> {
        match self {
            Plugin::Bitfield(_) => path.find_with_paths(document),
            _ => Ok(path.find(document)?.into_iter().map(|value| (String::new(), value)).collect()),
        }
    }

    /// The plug-in's results for the values found; `None` for a value without a result.
    pub fn values(&self, found: &[Match<'_>]) -> Result<Vec<Option<Value>>, LookupError> {
        match self {
            Plugin::Split(splitter) => Ok(found.iter().map(|(_, value)| splitter.of(value)).collect()),
            Plugin::Bitfield(bitfield) => Ok(vec![Some(bitfield.of(found))]),
            Plugin::Timedelta => Ok(vec![timedelta::of(found)]),
            Plugin::Map(mapping) => found.iter().map(|(_, value)| mapping.of(value).map(Some)).collect(),
        }
    }
}

/// An integer parameter.
fn integer(parameters: &Map<String, Value>, name: &str) -> Result<Option<i64>, DefinitionError> {
    match parameters.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_i64()
            .map(Some)
            .ok_or_else(|| DefinitionError(format!("{name} is {value}, which is no integer"))),
    }
}
