//! Targets of rules, and the attributes that rules can refer to.

use std::{borrow::Cow, collections::BTreeMap};

use gnudi_model::{
    ArchivePolicy, ArchivePolicyRule, AttributeValue, Metric, Resource, Text, python::text_of_float,
};

use super::{Caller, language::Facts};

/// The target of a rule. Its attributes are read only if a rule refers to them.
#[derive(Clone, Copy, Debug, Default)]
pub enum Target<'a> {
    #[default]
    Nothing,
    /// The metric's resource is given if it was looked up.
    Metric(&'a Metric, Option<&'a Resource>),
    Resource(&'a Resource),
    ArchivePolicy(&'a ArchivePolicy),
    ArchivePolicyRule(&'a ArchivePolicyRule),
    /// Attributes of an object that does not exist yet, from the request; `None` is Python's `None`.
    Given(&'a [(&'a str, Option<&'a str>)]),
    /// The same for a resource, with the attributes of its type.
    NewResource(&'a [(&'a str, Option<&'a str>)], &'a BTreeMap<Text, AttributeValue>),
}

/// A caller and a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub caller: &'a Caller,
    pub target: Target<'a>,
}

impl Facts for Question<'_> {
    fn has_role(&self, role: &str) -> bool {
        self.caller.has_role(role)
    }

    fn caller_has(&self, field: &[String], text: &str) -> bool {
        self.caller.has(field, text)
    }

    fn target(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.target {
            Target::Nothing => None,
            Target::Metric(metric, resource) => match name.strip_prefix("resource.") {
                Some(name) => of_resource(resource?, name),
                None => of_metric(metric, name),
            },
            Target::Resource(resource) => of_resource(resource, name),
            Target::ArchivePolicy(policy) => match name {
                "name" => Some(policy.name.as_str().into()),
                "back_window" => Some(policy.back_window.to_string().into()),
                _ => None,
            },
            Target::ArchivePolicyRule(rule) => match name {
                "name" => Some(rule.name.as_str().into()),
                "metric_pattern" => Some(rule.metric_pattern.as_str().into()),
                "archive_policy_name" => Some(rule.archive_policy_name.as_str().into()),
                _ => None,
            },
            Target::Given(values) => of_request(values, name),
            Target::NewResource(values, attributes) => {
                of_request(values, name).or_else(|| of_attribute(attributes.get(name)?))
            }
        }
    }
}

/// As Python prints it.
const NONE: &str = "None";

fn of_metric<'a>(metric: &'a Metric, name: &str) -> Option<Cow<'a, str>> {
    Some(match name {
        "creator" => metric.creator.as_str().into(),
        "created_by_user_id" => created_by(&metric.creator).0.into(),
        "created_by_project_id" => created_by(&metric.creator).1.into(),
        "id" => metric.id.to_string().into(),
        "name" => metric.name.as_deref().unwrap_or(NONE).into(),
        "unit" => metric.unit.as_deref().unwrap_or(NONE).into(),
        "archive_policy_name" | "archive_policy.name" => metric.archive_policy_name.as_str().into(),
        "resource_id" => metric.resource_id.map_or(NONE.into(), |id| id.to_string().into()),
        _ => return None,
    })
}

fn of_resource<'a>(resource: &'a Resource, name: &str) -> Option<Cow<'a, str>> {
    Some(match name {
        "project_id" => resource.project_id.as_deref().unwrap_or(NONE).into(),
        "creator" => resource.creator.as_str().into(),
        "created_by_user_id" => created_by(&resource.creator).0.into(),
        "created_by_project_id" => created_by(&resource.creator).1.into(),
        "user_id" => resource.user_id.as_deref().unwrap_or(NONE).into(),
        "id" => resource.id.to_string().into(),
        "original_resource_id" => resource.original_resource_id.as_str().into(),
        "type" => resource.resource_type.as_str().into(),
        name => return of_attribute(resource.attributes.get(name)?),
    })
}

fn of_attribute(value: &AttributeValue) -> Option<Cow<'_, str>> {
    Some(match value {
        AttributeValue::Null => NONE.into(),
        AttributeValue::String(text) => text.as_str().into(),
        AttributeValue::Uuid(id) => id.to_string().into(),
        AttributeValue::Number(number) => text_of_float(*number).into(),
        AttributeValue::Bool(true) => "True".into(),
        AttributeValue::Bool(false) => "False".into(),
        AttributeValue::Datetime(_) => return None,
    })
}

fn of_request<'a>(values: &[(&'a str, Option<&'a str>)], name: &str) -> Option<Cow<'a, str>> {
    let given = values.iter().find(|(given, _)| *given == name);
    given.map(|(_, value)| Cow::Borrowed(value.unwrap_or(NONE)))
}

/// The user and the project of a creator. A name has no project, which is the empty text.
pub fn created_by(creator: &str) -> (&str, &str) {
    creator.split_once(':').unwrap_or((creator, ""))
}
