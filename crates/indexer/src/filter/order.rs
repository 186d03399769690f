//! The sort order of a listing of resources.

use std::cmp::Ordering;

use gnudi_model::Resource;
use uuid::Uuid;

use super::{Field, Scalar, Scope};
use crate::{IndexerError, ResourceSort, Result, SortDirection};

/// Maximum number of sort fields, besides those that make the order total.
pub const SORTS_MAX: usize = 32;

/// A sort field, with its direction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldSort {
    pub(crate) field: Field,
    pub(crate) direction: SortDirection,
}

impl FieldSort {
    fn compare(&self, a: &Resource, b: &Resource) -> Ordering {
        self.direction.compare(self.field.value(a), self.field.value(b), Scalar::compare)
    }
}

/// Compares two resources of a listing.
pub(crate) fn compare(a: &Resource, b: &Resource, order: &[FieldSort]) -> Ordering {
    let orderings = order.iter().map(|sort| sort.compare(a, b));
    orderings.fold(Ordering::Equal, Ordering::then)
}

/// The total order of a listing: the requested fields, followed by identifying ones, without repetitions and without
/// fields after a unique one.
///
/// # Errors
/// If it refers to an unknown field.
pub(crate) fn order_of(sorts: &[ResourceSort], scope: Scope<'_>) -> Result<Vec<FieldSort>> {
    if sorts.len() > SORTS_MAX {
        return Err(IndexerError::InvalidPagination(format!("More than {SORTS_MAX} sort keys")));
    }
    let mut order: Vec<FieldSort> = Vec::new();
    let ascending = |field| FieldSort { field, direction: SortDirection::Ascending };
    let asked = sorts.iter().map(|sort| {
        let field = Field::find(&sort.field, scope.resource_type, scope.history).ok_or_else(|| {
            IndexerError::InvalidPagination(format!("Sort key supplied is invalid: {}", sort.field))
        })?;
        Ok(FieldSort { field, direction: sort.direction })
    });
    let asked: Vec<_> = asked.collect::<Result<_>>()?;
    let unique = [ascending(Field::Id), ascending(Field::Revision)];
    let unique = if scope.history { &unique[..] } else { &unique[..1] };
    for sort in asked.iter().chain(unique) {
        let is_total = unique.iter().all(|unique| order.iter().any(|sort| sort.field == unique.field));
        if !is_total && order.iter().all(|earlier| earlier.field != sort.field) {
            order.push(sort.clone());
        }
    }
    Ok(order)
}

/// The error for an invalid marker.
pub(crate) fn invalid_marker(id: Uuid, revision: i64, history: bool) -> IndexerError {
    let text = if history { format!("{id}@{revision}") } else { id.to_string() };
    IndexerError::InvalidPagination(format!("Invalid marker: `{text}'"))
}

impl Scalar {
    /// Texts by their bytes; NaNs are equal and sort above all numbers.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Scalar::Text(a), Scalar::Text(b)) => a.cmp(b),
            (Scalar::Uuid(a), Scalar::Uuid(b)) => a.cmp(b),
            (Scalar::Number(a), Scalar::Number(b)) => {
                a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            (Scalar::Integer(a), Scalar::Integer(b))
            | (Scalar::Time(a), Scalar::Time(b))
            | (Scalar::Span(a), Scalar::Span(b)) => a.cmp(b),
            (Scalar::Bool(a), Scalar::Bool(b)) => a.cmp(b),
            _ => unreachable!("values of one field have one kind"),
        }
    }
}
