//! How listings are cut into pages.
//!
//! A page begins behind its marker. What lies behind it, in the order (k1, k2, ..., id), is cut into pieces that follow
//! each other: first what equals the marker in all keys but the last, then what equals it in all but the last two, and so
//! on. In each piece the leading keys are fixed and the next one has a bound, so an index serves it without sorting or
//! skipping; the pieces are read one after the other until the page is full. NULLs get pieces of their own, since no
//! comparison finds them.

use super::Statement;
use crate::SortDirection;

/// A part of an order whose leading keys have the marker's values; `None` is NULL.
#[derive(Debug)]
pub(super) struct Piece<V> {
    equal: Vec<Option<V>>,
    /// Where the key after those begins.
    bound: Option<Bound<V>>,
}

#[derive(Debug)]
enum Bound<V> {
    Above(V),
    Below(V),
    IsNull,
    IsNotNull,
}

/// A key of an order: the marker's value, the direction, and whether it may be NULL.
pub(super) type Key<V> = (Option<V>, SortDirection, bool);

/// All of a listing.
impl<V> Default for Piece<V> {
    fn default() -> Self {
        Piece { equal: Vec::new(), bound: None }
    }
}

impl<V: Clone> Piece<V> {
    /// What lies behind the marker.
    pub(super) fn behind(keys: &[Key<V>]) -> Vec<Self> {
        let mut pieces = Vec::new();
        for (from, (value, direction, is_nullable)) in keys.iter().enumerate().rev() {
            let bounds = match (value.clone(), direction.nulls_first()) {
                (None, true) => vec![Bound::IsNotNull],
                (None, false) => vec![],
                (Some(value), nulls_first) => {
                    let behind =
                        if direction.is_ascending() { Bound::Above(value) } else { Bound::Below(value) };
                    if nulls_first || !is_nullable { vec![behind] } else { vec![behind, Bound::IsNull] }
                }
            };
            let equal: Vec<_> = keys[..from].iter().map(|(value, ..)| value.clone()).collect();
            pieces.extend(bounds.into_iter().map(|bound| Piece { equal: equal.clone(), bound: Some(bound) }));
        }
        pieces
    }

    /// The first key that still orders the piece.
    pub(super) fn from(&self) -> usize {
        self.equal.len()
    }

    /// Appends what is true in the piece, after other conditions. Keys are appended by their place in the order.
    pub(super) fn push(
        &self,
        query: &mut Statement,
        push_key: impl Fn(&mut Statement, usize),
        bind: impl Fn(&mut Statement, usize, &V),
    ) {
        let compare = |query: &mut Statement, at: usize, operator: &str, value: Option<&V>| {
            query.push(" AND ");
            push_key(query, at);
            query.push(operator);
            if let Some(value) = value {
                bind(query, at, value);
            }
        };
        for (at, value) in self.equal.iter().enumerate() {
            compare(query, at, if value.is_some() { " = " } else { " IS NULL" }, value.as_ref());
        }
        match &self.bound {
            None => {}
            Some(Bound::IsNull) => compare(query, self.from(), " IS NULL", None),
            Some(Bound::IsNotNull) => compare(query, self.from(), " IS NOT NULL", None),
            Some(Bound::Above(value)) => compare(query, self.from(), " > ", Some(value)),
            Some(Bound::Below(value)) => compare(query, self.from(), " < ", Some(value)),
        }
    }
}
