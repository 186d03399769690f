//! Groups resources by fields of their type, or (`across_types`, an extension), for resources of all types,
//! by any type's attributes. A resource whose type lacks an attribute has null there.

use std::{cmp::Ordering, collections::BTreeSet, sync::Arc};

use gnudi_indexer::IndexerError;
use gnudi_model::{Resource, Text, resource_type::GENERIC};

use super::by_resource::{Wanted, list};
use crate::{
    pagination::RESOURCE_SORTS,
    routes::{prelude::*, resource::field},
};

/// The fields that resources of all types have; others are attributes.
const OF_ALL_TYPES: [&str; 5] = ["id", "creator", "user_id", "project_id", "type"];

/// The fields to group by.
pub(crate) struct Fields<'f> {
    names: &'f [String],
    /// Those that not all listed resources have.
    of_some_types: BTreeSet<String>,
}

/// The values of a group's fields, and its resources.
pub(super) type Group<'r> = (Value, &'r [Arc<Resource>]);

impl<'f> Fields<'f> {
    /// Fields of the resource type.
    pub fn of_type(names: &'f [String]) -> Self {
        Fields { names, of_some_types: BTreeSet::new() }
    }

    /// Fields of the resource type; for the generic type also attributes of any other type.
    pub async fn across_types(call: &Call<'_>, resource_type: &str, names: &'f [String]) -> Result<Self> {
        let mut fields = Fields::of_type(names);
        if resource_type == GENERIC {
            let types = call.indexer().resource_types().await?;
            let attributes = types.iter().flat_map(|of| of.attributes.keys());
            let attributes: BTreeSet<&str> = attributes.map(Text::as_str).collect();
            fields.of_some_types =
                names.iter().filter(|name| attributes.contains(name.as_str())).cloned().collect();
        }
        Ok(fields)
    }

    /// Lists the resources like [`list`], those of a group in a row.
    pub async fn list(
        &self,
        call: &Call<'_>,
        mut wanted: Wanted<'_>,
    ) -> Result<Vec<Arc<Resource>>, IndexerError> {
        wanted.omits_attributes &= self.names.iter().all(|name| OF_ALL_TYPES.contains(&name.as_str()));
        if self.of_some_types.is_empty() {
            return list(call, wanted, false, self.names).await;
        }
        let resources = list(call, wanted, true, RESOURCE_SORTS).await?;
        let keyed = resources.into_iter().map(|resource| Ok((self.group_of(&resource)?, resource)));
        let mut keyed = keyed.collect::<Result<Vec<_>, IndexerError>>()?;
        keyed.sort_by(|(a, _), (b, _)| order(a, b));
        Ok(keyed.into_iter().map(|(_, resource)| resource).collect())
    }

    /// Groups consecutive resources with equal values in all fields.
    ///
    /// # Errors
    /// 400 if they lack a field.
    pub fn group_by<'r>(&self, resources: &'r [Arc<Resource>]) -> Result<Vec<Group<'r>>> {
        let mut groups = Vec::new();
        let mut from = 0;
        let mut current: Option<Value> = None;
        for (index, resource) in resources.iter().enumerate() {
            let group = self.group_of(resource)?;
            if current.as_ref() == Some(&group) {
                continue;
            }
            if let Some(before) = current.replace(group) {
                groups.push((before, &resources[from..index]));
                from = index;
            }
        }
        groups.extend(current.map(|group| (group, &resources[from..])));
        Ok(groups)
    }

    /// The values of a resource's fields, as an object.
    ///
    /// # Errors
    /// 400 if it lacks a field.
    pub fn group_of(&self, resource: &Resource) -> Result<Value, IndexerError> {
        let entry = |name: &String| {
            let absent = || self.of_some_types.contains(name).then_some(Value::Null);
            let unknown = || IndexerError::InvalidPagination(format!("Sort key supplied is invalid: {name}"));
            Ok((name.clone(), field(resource, name).or_else(absent).ok_or_else(unknown)?))
        };
        self.names.iter().map(entry).collect::<Result<_, _>>().map(Value::Object)
    }
}

/// The order of groups, field by field. An attribute may be a number in one type and a text in another:
/// numbers come first, null last, as in listings.
fn order(a: &Value, b: &Value) -> Ordering {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { unreachable!("a group is an object") };
    let fields = a.iter().zip(b).map(|((_, a), (_, b))| order_of_values(a, b));
    fields.fold(Ordering::Equal, Ordering::then)
}

fn order_of_values(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Bool(_) => 0,
        Value::Float(_) => 1,
        Value::Str(_) => 2,
        _ => 3,
    };
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_before_texts_and_nulls_last() {
        let group = |value: Value| Value::Object(vec![("a".to_owned(), value), ("b".to_owned(), "x".into())]);
        let sorted = [
            Value::Bool(false),
            Value::Bool(true),
            Value::Float(-1.0),
            Value::Float(20.0),
            "".into(),
            "3".into(),
            "a".into(),
            Value::Null,
        ];
        let mut groups: Vec<Value> = sorted.iter().rev().cloned().map(group).collect();
        groups.sort_by(order);
        assert_eq!(groups, sorted.map(group));
    }
}
