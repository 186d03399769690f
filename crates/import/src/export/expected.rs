//! Gnocchi's policies, rules and resource types as they are once the whole file of the earlier runs is posted.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use gnudi_client::uri;
use gnudi_model::{ArchivePolicy, ArchivePolicyRule, Attribute, ResourceType, Text};
use serde::Deserialize;
use serde_json::Value;

use super::{
    ExportError,
    earlier::{DefinitionChange, Earlier},
};
use crate::index::{
    Index, SourceType,
    documents::{AttributeDocument, archive_policy},
};

/// The collections of definitions.
const POLICY: &str = "/v1/archive_policy";
const RULE: &str = "/v1/archive_policy_rule";
const TYPE: &str = "/v1/resource_type";

/// Whether a path is that of a collection of definitions, or in it.
pub(super) fn is_definition(path: &str) -> bool {
    [POLICY, RULE, TYPE].iter().any(|collection| {
        path.strip_prefix(collection).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// The path of a policy.
pub(super) fn of_policy(name: &str) -> String {
    uri::path(&format!("{POLICY}/"), name)
}

/// The path of a rule.
pub(super) fn of_rule(name: &str) -> String {
    uri::path(&format!("{RULE}/"), name)
}

/// The path of a type.
pub(super) fn of_type(name: &str) -> String {
    uri::path(&format!("{TYPE}/"), name)
}

/// See the module. By their paths.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub policies: BTreeMap<String, ArchivePolicy>,
    pub rules: BTreeMap<String, ArchivePolicyRule>,
    pub types: BTreeMap<String, ExpectedType>,
}

#[derive(Clone, Debug)]
pub(super) struct ExpectedType {
    /// The type in Gnocchi's index; `None` if the file creates it.
    pub stored: Option<SourceType>,
    pub attributes: BTreeMap<Text, Attribute>,
    /// Attributes that the file removes or creates: what the index has of their values is lost.
    pub replaced: BTreeSet<Text>,
}

impl Expected {
    /// `lines_posted`: the lines of the file of which Gnocchi's index has the effect.
    pub async fn read(
        gnocchi: &mut Index,
        earlier: &Earlier,
        lines_posted: u64,
        file: &Path,
    ) -> Result<Self, ExportError> {
        let policies = gnocchi.archive_policies().await?.into_iter();
        let rules = gnocchi.archive_policy_rules().await?.into_iter();
        let types = gnocchi.resource_types().await?.into_iter().chain([Index::generic()]);
        let mut expected = Expected {
            policies: policies.map(|policy| (of_policy(&policy.name), policy)).collect(),
            rules: rules.map(|rule| (of_rule(&rule.name), rule)).collect(),
            types: types.map(ExpectedType::of_source).collect(),
        };
        for change in earlier.definitions.iter().filter(|change| change.line > lines_posted) {
            expected.apply(change).map_err(|reason| {
                ExportError::invalid(file, format!("line {} cannot be understood: {reason}", change.line))
            })?;
        }
        Ok(expected)
    }

    fn apply(&mut self, change: &DefinitionChange) -> Result<(), String> {
        let path = change.path.as_str();
        let body = change.body.as_ref().map(|body| serde_json::from_str(body.get())).transpose();
        let body: Value = body.map_err(|error| error.to_string())?.unwrap_or_default();
        match change.method.as_str() {
            "POST" => self.create(path, &body),
            "PATCH" => self.change(path, &body),
            "DELETE" => {
                self.policies.remove(path);
                self.rules.remove(path);
                self.types.remove(path);
                Ok(())
            }
            other => Err(format!("the method {other}")),
        }
    }

    /// What exists stays as it is: Gnocchi refuses to create it.
    fn create(&mut self, path: &str, body: &Value) -> Result<(), String> {
        let name = body["name"].as_str().ok_or("a definition without a name")?;
        match path {
            POLICY => {
                let policy = policy(name, body)?;
                self.policies.entry(of_policy(name)).or_insert(policy);
            }
            RULE => {
                let rule = ArchivePolicyRule::deserialize(body).map_err(|error| error.to_string())?;
                self.rules.entry(of_rule(name)).or_insert(rule);
            }
            _ => {
                let documents = BTreeMap::<String, AttributeDocument>::deserialize(&body["attributes"])
                    .map_err(|error| error.to_string())?;
                let attribute =
                    |(name, document): (String, AttributeDocument)| Ok((name.into(), document.attribute()?));
                let attributes = documents.into_iter().map(attribute).collect::<Result<_, String>>()?;
                let made = ExpectedType { stored: None, attributes, replaced: BTreeSet::new() };
                self.types.entry(of_type(name)).or_insert(made);
            }
        }
        Ok(())
    }

    fn change(&mut self, path: &str, body: &Value) -> Result<(), String> {
        if let Some(before) = self.policies.get_mut(path) {
            let aggregation_methods = std::mem::take(&mut before.aggregation_methods);
            *before = ArchivePolicy { aggregation_methods, ..policy(&before.name, body)? };
        } else if let Some(of) = self.types.get_mut(path) {
            for operation in body.as_array().ok_or("a change of a type that is no list")? {
                of.apply(operation)?;
            }
        }
        Ok(())
    }
}

impl ExpectedType {
    /// With its path.
    fn of_source(source: SourceType) -> (String, Self) {
        let ResourceType { name, attributes } = source.resource_type.clone();
        let path = of_type(&name);
        (path, ExpectedType { stored: Some(source), attributes, replaced: BTreeSet::new() })
    }

    /// Applies an operation of a JSON patch.
    fn apply(&mut self, operation: &Value) -> Result<(), String> {
        let name = operation["path"].as_str().and_then(|path| path.strip_prefix("/attributes/"));
        let name = name.ok_or("a change of something else than attributes")?;
        let name = Text::from(name.replace("~1", "/").replace("~0", "~"));
        match operation["op"].as_str() {
            Some("remove") => {
                self.attributes.remove(&name);
                self.replaced.insert(name);
            }
            Some("add") => {
                let document = AttributeDocument::deserialize(&operation["value"]);
                let attribute = document.map_err(|error| error.to_string())?.attribute()?;
                // Adding one that exists changes its bounds.
                if self.attributes.insert(name.clone(), attribute).is_none() {
                    self.replaced.insert(name);
                }
            }
            other => return Err(format!("the operation {other:?}")),
        }
        Ok(())
    }
}

/// The policy in the body of a request; without methods if it has none.
fn policy(name: &str, body: &Value) -> Result<ArchivePolicy, String> {
    let back_window = body["back_window"].as_i64().ok_or("a policy without a back window")?;
    let methods = body.get("aggregation_methods").map_or_else(|| "[]".to_owned(), Value::to_string);
    archive_policy(name, back_window, &body["definition"].to_string(), &methods)
}

#[cfg(test)]
mod tests {
    use gnudi_model::AttributeKind;
    use serde_json::json;

    use super::*;
    use crate::export::line::raw;

    fn apply(expected: &mut Expected, method: &str, path: &str, body: Option<Value>) {
        let body = body.map(|body| raw(body.to_string()));
        let change = DefinitionChange { line: 1, method: method.to_owned(), path: path.to_owned(), body };
        expected.apply(&change).unwrap();
    }

    fn policy_body(points: u64) -> Value {
        json!({
            "name": "a/b",
            "back_window": 2,
            "definition": [{"granularity": 60.0, "points": points}],
            "aggregation_methods": ["mean", "count"],
        })
    }

    #[test]
    fn policies_and_rules_are_what_the_lines_make_of_them() {
        let mut expected = Expected::default();
        apply(&mut expected, "POST", POLICY, Some(policy_body(5)));
        // Gnocchi refuses what exists.
        apply(&mut expected, "POST", POLICY, Some(policy_body(6)));
        let points = |expected: &Expected| {
            let policy = &expected.policies["/v1/archive_policy/a%2Fb"];
            (policy.definition[0].points, policy.back_window, policy.aggregation_methods.len())
        };
        assert_eq!(points(&expected), (Some(5), 2, 2));
        let change = json!({"definition": [{"granularity": 60.0, "points": 7}], "back_window": 3});
        apply(&mut expected, "PATCH", "/v1/archive_policy/a%2Fb", Some(change));
        assert_eq!(points(&expected), (Some(7), 3, 2));
        let rule = json!({"name": "r", "metric_pattern": "x*", "archive_policy_name": "a/b"});
        apply(&mut expected, "POST", RULE, Some(rule));
        assert_eq!(expected.rules["/v1/archive_policy_rule/r"].metric_pattern, "x*");
        apply(&mut expected, "DELETE", "/v1/archive_policy_rule/r", None);
        apply(&mut expected, "DELETE", "/v1/archive_policy/a%2Fb", None);
        assert!(expected.rules.is_empty() && expected.policies.is_empty());
    }

    #[test]
    fn attributes_that_are_removed_or_created_are_replaced() {
        let attribute = |length: u32| {
            let kind = AttributeKind::String { min_length: 0, max_length: length };
            Attribute { kind, required: false, fill: None }
        };
        let attributes = ["kept", "gone", "turned"].map(|name| (Text::from(name), attribute(255))).into();
        let known = ExpectedType { stored: None, attributes, replaced: BTreeSet::new() };
        let mut expected = Expected::default();
        expected.types.insert(of_type("machine"), known);
        let text = json!({"type": "string", "required": false, "min_length": 0, "max_length": 9});
        let number = json!({"type": "number", "required": true, "options": {"fill": 7}});
        let patch = json!([
            {"op": "remove", "path": "/attributes/gone"},
            {"op": "remove", "path": "/attributes/turned"},
            {"op": "add", "path": "/attributes/turned", "value": number},
            {"op": "add", "path": "/attributes/kept", "value": text},
            {"op": "add", "path": "/attributes/n~1ew", "value": text},
        ]);
        apply(&mut expected, "PATCH", "/v1/resource_type/machine", Some(patch));
        let machine = &expected.types["/v1/resource_type/machine"];
        let attributes = machine.attributes.iter();
        let kinds: Vec<(&str, &str)> =
            attributes.map(|(name, attribute)| (name.as_str(), attribute.kind.name())).collect();
        assert_eq!(kinds, [("kept", "string"), ("n/ew", "string"), ("turned", "number")]);
        assert_eq!(machine.attributes["kept"], attribute(9));
        assert_eq!(machine.replaced.iter().map(Text::as_str).collect::<Vec<_>>(), ["gone", "n/ew", "turned"]);
        apply(&mut expected, "DELETE", "/v1/resource_type/machine", None);
        assert!(expected.types.is_empty());
        let made = json!({"name": "machine", "attributes": {"a": text}});
        apply(&mut expected, "POST", TYPE, Some(made));
        assert_eq!(expected.types["/v1/resource_type/machine"].attributes["a"], attribute(9));
    }
}
