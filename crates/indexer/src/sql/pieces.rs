//! Keyset pagination of listings.
//!
//! A page begins after its marker. The rest of the listing, in the order (k1, k2, ..., id), is split into consecutive
//! pieces: first the items that equal the marker in all keys but the last, then those that equal it in all but the last
//! two, and so on. In each piece the leading keys are fixed and the next one has a bound, so an index serves it without
//! sorting or skipping. Pieces are read until the page is full. NULLs get their own pieces, since comparisons do not
//! find them.

use super::Statement;
use crate::SortDirection;

/// A part of an order whose leading keys equal the marker's; `None` is NULL.
#[derive(Debug)]
pub(super) struct Piece<V> {
    equal: Vec<Option<V>>,
    /// The operator for the next key, and its operand if it has one.
    bound: Option<(&'static str, Option<V>)>,
}

/// A key of an order: the marker's value, the direction, and whether it is nullable.
pub(super) type Key<V> = (Option<V>, SortDirection, bool);

/// The whole listing.
impl<V> Default for Piece<V> {
    fn default() -> Self {
        Piece { equal: Vec::new(), bound: None }
    }
}

impl<V: Clone> Piece<V> {
    /// The pieces after the marker.
    pub(super) fn behind(keys: &[Key<V>]) -> Vec<Self> {
        let mut pieces = Vec::new();
        for (from, (value, direction, is_nullable)) in keys.iter().enumerate().rev() {
            let bounds = match (value.clone(), direction.nulls_first()) {
                (None, true) => vec![(" IS NOT NULL", None)],
                (None, false) => vec![],
                (value, nulls_first) => {
                    let behind = (if direction.is_ascending() { " > " } else { " < " }, value);
                    if nulls_first || !is_nullable { vec![behind] } else { vec![behind, (" IS NULL", None)] }
                }
            };
            let equal: Vec<_> = keys[..from].iter().map(|(value, ..)| value.clone()).collect();
            pieces.extend(bounds.into_iter().map(|bound| Piece { equal: equal.clone(), bound: Some(bound) }));
        }
        pieces
    }

    /// The first key that is not fixed.
    pub(super) fn from(&self) -> usize {
        self.equal.len()
    }

    /// Appends the condition of the piece. Keys are written by their index in the order.
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
        if let Some((operator, value)) = &self.bound {
            compare(query, self.from(), operator, value.as_ref());
        }
    }
}
