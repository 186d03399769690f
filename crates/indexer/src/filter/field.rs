//! Fields of filters and orders: the columns of all resources, and the attributes of a type.

use gnudi_model::{AttributeKind, AttributeValue, Resource, ResourceType, Text, Timestamp};

use super::Scalar;

/// A field of a resource, possibly null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    Id,
    Type,
    Creator,
    UserId,
    ProjectId,
    OriginalResourceId,
    StartedAt,
    EndedAt,
    RevisionStart,
    /// Only in listings of the history.
    RevisionEnd,
    /// Only in listings of the history.
    Revision,
    Attribute {
        name: Text,
        kind: AttributeKind,
    },
    /// The time from start to end; not sortable.
    Lifespan,
}

/// How values of a field compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Text,
    Uuid,
    Number,
    Integer,
    Bool,
    Time,
    Span,
}

impl Field {
    /// The field with this name.
    pub(crate) fn find(name: &str, resource_type: &ResourceType, history: bool) -> Option<Self> {
        Some(match name {
            "id" => Field::Id,
            "type" => Field::Type,
            "creator" => Field::Creator,
            "user_id" => Field::UserId,
            "project_id" => Field::ProjectId,
            "original_resource_id" => Field::OriginalResourceId,
            "started_at" => Field::StartedAt,
            "ended_at" => Field::EndedAt,
            "revision_start" => Field::RevisionStart,
            "revision_end" if history => Field::RevisionEnd,
            "revision" if history => Field::Revision,
            _ => {
                let (name, attribute) = resource_type.attributes.get_key_value(name)?;
                Field::Attribute { name: name.clone(), kind: attribute.kind }
            }
        })
    }

    pub(crate) fn kind(&self) -> FieldKind {
        match self {
            Field::Id | Field::Attribute { kind: AttributeKind::Uuid, .. } => FieldKind::Uuid,
            Field::Type
            | Field::Creator
            | Field::UserId
            | Field::ProjectId
            | Field::OriginalResourceId
            | Field::Attribute { kind: AttributeKind::String { .. }, .. } => FieldKind::Text,
            Field::StartedAt
            | Field::EndedAt
            | Field::RevisionStart
            | Field::RevisionEnd
            | Field::Attribute { kind: AttributeKind::Datetime, .. } => FieldKind::Time,
            Field::Revision => FieldKind::Integer,
            Field::Attribute { kind: AttributeKind::Number { .. }, .. } => FieldKind::Number,
            Field::Attribute { kind: AttributeKind::Bool, .. } => FieldKind::Bool,
            Field::Lifespan => FieldKind::Span,
        }
    }

    pub(crate) fn is_nullable(&self) -> bool {
        match self {
            Field::UserId
            | Field::ProjectId
            | Field::EndedAt
            | Field::RevisionEnd
            | Field::Lifespan
            | Field::Attribute { .. } => true,
            Field::Id
            | Field::Type
            | Field::Creator
            | Field::OriginalResourceId
            | Field::StartedAt
            | Field::RevisionStart
            | Field::Revision => false,
        }
    }

    /// The resource's value; `None` for null.
    pub(crate) fn value(&self, resource: &Resource) -> Option<Scalar> {
        let text = |text: &Text| Scalar::Text(text.to_string());
        let time = |time: Timestamp| Scalar::Time(time.0);
        match self {
            Field::Id => Some(Scalar::Uuid(resource.id)),
            Field::Type => Some(text(&resource.resource_type)),
            Field::Creator => Some(text(&resource.creator)),
            Field::UserId => resource.user_id.as_ref().map(text),
            Field::ProjectId => resource.project_id.as_ref().map(text),
            Field::OriginalResourceId => Some(text(&resource.original_resource_id)),
            Field::StartedAt => Some(time(resource.started_at)),
            Field::EndedAt => resource.ended_at.map(time),
            Field::RevisionStart => Some(time(resource.revision_start)),
            Field::RevisionEnd => resource.revision_end.map(time),
            Field::Revision => Some(Scalar::Integer(resource.revision)),
            Field::Attribute { name, .. } => resource.attributes.get(name).and_then(Scalar::of),
            Field::Lifespan => {
                let ended_at = resource.ended_at?;
                Some(Scalar::Span(ended_at.0 - resource.started_at.0))
            }
        }
    }
}

impl Scalar {
    /// `None` for null.
    pub(crate) fn of(value: &AttributeValue) -> Option<Self> {
        Some(match value {
            AttributeValue::Null => return None,
            AttributeValue::String(text) => Scalar::Text(text.to_string()),
            AttributeValue::Uuid(id) => Scalar::Uuid(*id),
            AttributeValue::Number(number) => Scalar::Number(*number),
            AttributeValue::Bool(flag) => Scalar::Bool(*flag),
            AttributeValue::Datetime(time) => Scalar::Time(time.0),
        })
    }

    /// Converts it to an attribute value.
    pub(crate) fn to_attribute_value(&self) -> AttributeValue {
        match self {
            Scalar::Text(text) => AttributeValue::String(text.as_str().into()),
            Scalar::Uuid(id) => AttributeValue::Uuid(*id),
            Scalar::Number(number) => AttributeValue::Number(*number),
            Scalar::Bool(flag) => AttributeValue::Bool(*flag),
            Scalar::Time(time) => AttributeValue::Datetime(Timestamp(*time)),
            Scalar::Integer(_) | Scalar::Span(_) => unreachable!("no attribute has such values"),
        }
    }
}
