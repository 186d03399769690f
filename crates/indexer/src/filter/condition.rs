//! A filter resolved against a type, with fields and converted values; and a simple evaluation for the index in memory.
//!
//! The logic is SQL's: a comparison with null is unknown, and so may be conditions that contain it.

use gnudi_model::{Resource, ResourceType, Timestamp};

use super::{Comparison, Field, FieldKind, Filter, FilterValue, Scalar, like::Pattern, operand::list_text};
use crate::{IndexerError, Result, resource_type::no_such_attribute};

/// Maximum nesting of conditions.
pub const FILTER_DEPTH_MAX: usize = 100;
/// Maximum number of conditions of a filter, including and/or/not.
pub const FILTER_CONDITIONS_MAX: usize = 2000;
/// Maximum number of values in all lists of a filter.
pub const FILTER_VALUES_MAX: usize = 10_000;
/// Maximum length of a pattern of `like`.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// A filter resolved for the resources of a type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    Test(Field, Test),
    Not(Box<Condition>),
    /// True where empty.
    All(Vec<Condition>),
    /// False where empty.
    Any(Vec<Condition>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    IsNull,
    IsNotNull,
    /// Is null, or another value.
    Differs(Scalar),
    Compare(Comparison, Scalar),
    /// At least one value, or null among them.
    In {
        values: Vec<Scalar>,
        null: bool,
    },
    Like(Pattern),
}

/// The context that a filter is resolved in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) resource_type: &'a ResourceType,
    /// Whether fields of revisions can be used.
    pub(crate) history: bool,
    /// The base of relative times.
    pub(crate) now: Timestamp,
}

impl Condition {
    /// # Errors
    /// If the filter refers to an unknown field, compares it with an invalid value, is empty, or exceeds a limit.
    pub(crate) fn read(filter: &Filter, scope: Scope<'_>) -> Result<Self> {
        Reader { scope, conditions: 0, values: 0 }.read(filter, 0)
    }

    /// `None` for unknown.
    pub(crate) fn evaluate(&self, resource: &Resource) -> Option<bool> {
        match self {
            Condition::Test(field, test) => test.evaluate(field.value(resource).as_ref()),
            Condition::Not(condition) => condition.evaluate(resource).map(|truth| !truth),
            Condition::All(conditions) => combined(conditions, resource, false),
            Condition::Any(conditions) => combined(conditions, resource, true),
        }
    }
}

/// `deciding` if one of the conditions has that truth, else unknown if one is unknown, else the opposite.
fn combined(conditions: &[Condition], resource: &Resource, deciding: bool) -> Option<bool> {
    let mut is_unknown = false;
    for condition in conditions {
        match condition.evaluate(resource) {
            Some(truth) if truth == deciding => return Some(deciding),
            Some(_) => {}
            None => is_unknown = true,
        }
    }
    (!is_unknown).then_some(!deciding)
}

impl Test {
    /// The result for a value or null; `None` for unknown.
    pub(crate) fn evaluate(&self, value: Option<&Scalar>) -> Option<bool> {
        match self {
            Test::IsNull => Some(value.is_none()),
            Test::IsNotNull => Some(value.is_some()),
            Test::Differs(operand) => Some(value.is_none_or(|value| value.compare(operand).is_ne())),
            Test::Compare(comparison, operand) => Some(comparison.holds(value?.compare(operand))),
            Test::In { values, null } => {
                let value = value?;
                let found = values.iter().any(|operand| operand.compare(value).is_eq());
                if found { Some(true) } else { (!null).then_some(false) }
            }
            Test::Like(pattern) => match value? {
                Scalar::Text(text) => Some(pattern.matches(text)),
                _ => unreachable!("only texts are compared with patterns"),
            },
        }
    }
}

struct Reader<'a> {
    scope: Scope<'a>,
    conditions: usize,
    values: usize,
}

impl Reader<'_> {
    fn read(&mut self, filter: &Filter, depth: usize) -> Result<Condition> {
        if depth >= FILTER_DEPTH_MAX {
            return Err(IndexerError::FilterTooLarge { max: FILTER_DEPTH_MAX, of: "levels" });
        }
        self.conditions += 1;
        if self.conditions > FILTER_CONDITIONS_MAX {
            return Err(IndexerError::FilterTooLarge { max: FILTER_CONDITIONS_MAX, of: "conditions" });
        }
        match filter {
            Filter::Compare { comparison, field, value } => self.compare(*comparison, field, value),
            Filter::In { field, values } => {
                self.values += values.len();
                if self.values > FILTER_VALUES_MAX {
                    return Err(IndexerError::FilterTooLarge { max: FILTER_VALUES_MAX, of: "values" });
                }
                self.one_of(field, values)
            }
            Filter::Like { field, pattern } => self.like(field, pattern),
            Filter::And(filters) => Ok(Condition::All(self.read_all(filters, depth)?)),
            Filter::Or(filters) if filters.is_empty() => Ok(Condition::All(Vec::new())),
            Filter::Or(filters) => Ok(Condition::Any(self.read_all(filters, depth)?)),
            Filter::Not(filter) => Ok(Condition::Not(Box::new(self.read(filter, depth + 1)?))),
            Filter::Empty => Err(IndexerError::InvalidFilter),
        }
    }

    fn read_all(&mut self, filters: &[Filter], depth: usize) -> Result<Vec<Condition>> {
        filters.iter().map(|filter| self.read(filter, depth + 1)).collect()
    }

    fn find(&self, field: &str) -> Result<Field> {
        let Scope { resource_type, history, .. } = self.scope;
        Field::find(field, resource_type, history).ok_or_else(|| no_such_attribute(resource_type, field))
    }

    fn compare(&self, comparison: Comparison, name: &str, value: &FilterValue) -> Result<Condition> {
        if let Some(pattern) = creator_pattern(name, value) {
            let like = creator_like(&pattern, name, value)?;
            return match comparison {
                Comparison::Equal => Ok(like),
                Comparison::NotEqual => Ok(Condition::Not(Box::new(like))),
                _ => Err(invalid(value.to_python_text(), name)),
            };
        }
        let field = if name == "lifespan" { Field::Lifespan } else { self.find(name)? };
        let refuse = || invalid(value.to_python_text(), name);
        if *value == FilterValue::Null {
            return match comparison {
                _ if field == Field::Lifespan => Err(refuse()),
                Comparison::Equal => Ok(Condition::Test(field, Test::IsNull)),
                Comparison::NotEqual => Ok(Condition::Test(field, Test::IsNotNull)),
                _ => Err(refuse()),
            };
        }
        let operand = value.read(field.kind(), self.scope.now).ok_or_else(refuse)?;
        Ok(Condition::Test(
            field,
            match comparison {
                Comparison::NotEqual => Test::Differs(operand),
                comparison => Test::Compare(comparison, operand),
            },
        ))
    }

    fn one_of(&self, name: &str, values: &[FilterValue]) -> Result<Condition> {
        let refuse = || invalid(list_text(values), name);
        if creator_pattern(name, &FilterValue::Null).is_some() || name == "lifespan" {
            return Err(refuse());
        }
        let field = self.find(name)?;
        // Gnocchi's converters reject or convert null; other fields accept null.
        let keeps_null = matches!(field.kind(), FieldKind::Uuid | FieldKind::Bool | FieldKind::Number);
        let is_null = |value: &&FilterValue| keeps_null && **value == FilterValue::Null;
        let null = values.iter().any(|value| is_null(&value));
        let read = |value: &FilterValue| value.read(field.kind(), self.scope.now).ok_or_else(refuse);
        let values: Vec<_> =
            values.iter().filter(|value| !is_null(value)).map(read).collect::<Result<_, _>>()?;
        if values.is_empty() && !null {
            return Ok(Condition::Any(Vec::new()));
        }
        Ok(Condition::Test(field, Test::In { values, null }))
    }

    fn like(&self, name: &str, value: &FilterValue) -> Result<Condition> {
        if let Some(pattern) = creator_pattern(name, value) {
            return creator_like(&pattern, name, value);
        }
        let refuse = || invalid(value.to_python_text(), name);
        if name == "lifespan" {
            return Err(refuse());
        }
        let field = self.find(name)?;
        if *value == FilterValue::Null || field.kind() != FieldKind::Text {
            return Err(refuse());
        }
        Ok(Condition::Test(field, Test::Like(Pattern::read(&value.to_python_text()).ok_or_else(refuse)?)))
    }
}

/// The virtual fields are patterns over the creator; wildcards in their values are effective.
fn creator_pattern(name: &str, value: &FilterValue) -> Option<String> {
    match name {
        "created_by_user_id" => Some(format!("{}:%", value.to_python_text())),
        "created_by_project_id" => Some(format!("%:{}", value.to_python_text())),
        _ => None,
    }
}

fn creator_like(pattern: &str, name: &str, value: &FilterValue) -> Result<Condition> {
    let pattern = Pattern::read(pattern).ok_or_else(|| invalid(value.to_python_text(), name))?;
    Ok(Condition::Test(Field::Creator, Test::Like(pattern)))
}

fn invalid(value: String, field: &str) -> IndexerError {
    IndexerError::InvalidFilterValue { value, field: field.to_owned() }
}
