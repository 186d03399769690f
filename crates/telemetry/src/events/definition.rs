//! One event definition: the event types that it applies to, and their traits.

use serde_json::{Value, json};

use super::traits::TraitDefinition;
use crate::{
    definitions::{DefinitionError, LookupError, texts},
    event::Trait,
    pipeline::Selection,
};

#[derive(Debug)]
pub struct EventDefinition {
    event_types: Selection,
    traits: Vec<TraitDefinition>,
}

impl EventDefinition {
    pub fn parse(definition: &Value) -> Result<Self, DefinitionError> {
        let missing = |key: &str| DefinitionError(format!("`{key}` is missing"));
        let event_types = definition.get("event_type").ok_or_else(|| missing("event_type"))?;
        let traits = definition.get("traits").ok_or_else(|| missing("traits"))?;
        let event_types = Selection::of(&texts("event_type", Some(event_types))?);
        let traits = traits.as_object().ok_or_else(|| DefinitionError("`traits` is no object".to_owned()))?;
        let mut all = default_traits()?;
        for (name, definition) in traits {
            let parsed = TraitDefinition::parse(name, definition)?;
            match all.iter_mut().find(|known| known.name() == name) {
                Some(known) => *known = parsed,
                None => all.push(parsed),
            }
        }
        Ok(EventDefinition { event_types, traits: all })
    }

    /// Matches all event types, with the default traits.
    pub fn catch_all() -> Result<Self, DefinitionError> {
        EventDefinition::parse(&json!({"event_type": "*", "traits": {}}))
    }

    pub fn is_catch_all(&self) -> bool {
        self.event_types.is_everything()
    }

    pub fn matches(&self, event_type: &str) -> bool {
        self.event_types.matches(event_type)
    }

    pub fn traits(&self, document: &Value) -> Result<Vec<Trait>, LookupError> {
        let mut traits = Vec::with_capacity(self.traits.len());
        for definition in &self.traits {
            traits.extend(definition.of(document)?);
        }
        Ok(traits)
    }
}

/// The traits of every event, unless its definition redefines them.
fn default_traits() -> Result<Vec<TraitDefinition>, DefinitionError> {
    let project = json!(["payload.tenant_id", "ctxt.project_id"]);
    let traits = [
        ("service", json!("publisher_id")),
        ("request_id", json!("ctxt.request_id")),
        ("project_id", project.clone()),
        ("user_id", json!(["payload.user_id", "ctxt.user_id"])),
        ("tenant_id", project),
    ];
    traits.iter().map(|(name, definition)| TraitDefinition::parse(name, definition)).collect()
}
