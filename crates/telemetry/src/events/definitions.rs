//! All event definitions, loaded from a file, and the lookup by event type.

use std::{convert::Infallible, path::Path};

use serde_json::Value;

use super::definition::EventDefinition;
use crate::{
    definitions::{ByEventType, DefinitionError, LookupError, isotime::IsoTime},
    event::Event,
    located::{Located, YamlNode},
    notification::Notification,
    yaml::{self, YamlError},
};

/// Ceilometer's own file, the default.
const SHIPPED: &str = include_str!("../../data/event_definitions.yaml");
const SHIPPED_PATH: &str = "event_definitions.yaml (built in)";

/// Options of events, with the names of ceilometer.conf's section `event`.
#[derive(Clone, Debug, Default)]
pub struct EventOptions {
    /// No event for a notification without a matching definition; otherwise it gets the default traits.
    pub drop_unmatched_notifications: bool,
    /// Priorities whose events always keep the notification.
    pub store_raw: Vec<String>,
}

/// Compiled event definitions.
#[derive(Debug)]
pub struct EventDefinitions {
    /// In reverse file order: the last definition that matches wins.
    definitions: Vec<EventDefinition>,
    by_event_type: ByEventType<Option<usize>>,
    raw_priorities: Vec<String>,
}

impl EventDefinitions {
    /// Loads a file; `None` loads Ceilometer's own. An invalid definition is skipped with a warning; a file that is not
    /// a YAML list is an error.
    pub fn load(file: Option<&Path>, options: &EventOptions) -> Result<Self, YamlError> {
        match file {
            None => EventDefinitions::read(Path::new(SHIPPED_PATH), SHIPPED, options),
            Some(path) => EventDefinitions::read(path, &yaml::text(path)?, options),
        }
    }

    fn read(path: &Path, text: &str, options: &EventOptions) -> Result<Self, YamlError> {
        let malformed = |problem: String| YamlError::Malformed { path: path.to_owned(), problem };
        let file = Located::parse(path, text)?;
        let YamlNode::List(list) = &file.node else {
            return Err(malformed(format!("a list of definitions is expected, not {}", file.kind())));
        };
        let mut definitions = Vec::with_capacity(list.len() + 1);
        for located in list.iter().rev() {
            let definition = located.json();
            match EventDefinition::parse(&definition) {
                Ok(definition) => definitions.push(definition),
                Err(DefinitionError(error)) => {
                    let (file, line) = (path.display(), located.line);
                    let event_type = &definition["event_type"];
                    tracing::warn!(%file, line, %event_type, error, "an event definition that cannot be used is left out");
                }
            }
        }
        let is_complete = definitions.iter().any(EventDefinition::is_catch_all);
        if !options.drop_unmatched_notifications && !is_complete {
            let catch_all = EventDefinition::catch_all();
            definitions.push(catch_all.map_err(|DefinitionError(error)| malformed(error))?);
        }
        Ok(EventDefinitions {
            definitions,
            by_event_type: ByEventType::default(),
            raw_priorities: options.store_raw.iter().map(|priority| priority.to_lowercase()).collect(),
        })
    }

    /// Whether notifications of this type make events; for others no document needs to be built.
    pub fn matches(&self, event_type: &str) -> bool {
        self.definition_of(event_type).is_some()
    }

    /// The event of a notification; `document` is its `document()`. `None` if no definition matches. Errors are
    /// permanent.
    pub fn event(
        &self,
        notification: &Notification<'_>,
        document: &Value,
    ) -> Result<Option<Event>, LookupError> {
        let Some(definition) = self.definition_of(&notification.event_type) else { return Ok(None) };
        let timestamp = notification.timestamp.as_ref();
        let generated = IsoTime::parse(timestamp).and_then(IsoTime::nanoseconds);
        let generated =
            generated.ok_or_else(|| LookupError(format!("the timestamp {timestamp:?} is no time")))?;
        let is_raw = self.raw_priorities.iter().any(|priority| *priority == notification.priority);
        Ok(Some(Event {
            message_id: notification.message_id.clone().into_owned(),
            event_type: notification.event_type.clone().into_owned(),
            generated,
            traits: definition.traits(document)?,
            raw: if is_raw { document.clone() } else { Value::Null },
        }))
    }

    fn definition_of(&self, event_type: &str) -> Option<&EventDefinition> {
        let find = || {
            let at = self.definitions.iter().position(|definition| definition.matches(event_type));
            Ok::<_, Infallible>(at)
        };
        let Ok(at) = self.by_event_type.get_or(event_type, find);
        at.map(|at| &self.definitions[at])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        event::{Trait, TraitValue},
        notification::read,
    };

    fn event(events: &EventDefinitions, event_type: &str, payload: &Value) -> Option<Event> {
        let message = json!({"publisher_id": "s.h", "event_type": event_type, "priority": "info",
            "message_id": "m", "timestamp": "1970-01-01 00:00:01", "payload": payload});
        let message = message.to_string();
        let notification = read(&message).unwrap();
        events.event(&notification, &notification.document().unwrap()).unwrap()
    }

    #[test]
    fn the_last_definition_that_fits_counts() {
        let text = "- {event_type: 'a.*', traits: {x: {fields: payload.x, type: int}}}\n\
                    - {event_type: ['*', '!a.c', '!b'], traits: {y: payload.x}}\n\
                    - {event_type: b, traits: {z: {fields: payload.x, type: nope}}}\n";
        let options = EventOptions { drop_unmatched_notifications: true, store_raw: vec!["INFO".to_owned()] };
        let events = EventDefinitions::read(Path::new("e.yaml"), text, &options).unwrap();
        let traits = |event_type| event(&events, event_type, &json!({"x": "7"})).map(|event| event.traits);
        let service = Trait { name: "service".to_owned(), value: TraitValue::Text("s.h".to_owned()) };
        let own = |name: &str, value| Some(vec![service.clone(), Trait { name: name.to_owned(), value }]);
        assert_eq!(traits("a.b"), own("y", TraitValue::Text("7".to_owned())));
        assert_eq!(traits("a.c"), own("x", TraitValue::Integer(7)));
        // Its own definition is invalid.
        assert_eq!(traits("b"), None);
        assert!(!events.matches("b"));
        let made = event(&events, "a.c", &json!({"x": 1})).unwrap();
        assert_eq!((made.generated, &made.raw["payload"]), (1_000_000_000, &json!({"x": 1})));
        let error = EventDefinitions::read(Path::new("e.yaml"), "a: 1", &options).unwrap_err();
        assert_eq!(error.to_string(), "e.yaml: a list of definitions is expected, not a map");
    }

    #[test]
    fn what_is_shipped_is_there() {
        let events = EventDefinitions::load(None, &EventOptions::default()).unwrap();
        // The last one is the catch-all.
        assert_eq!(events.definitions.len(), 47 + 1);
        assert!(event(&events, "anything", &json!(null)).is_some());
    }
}
