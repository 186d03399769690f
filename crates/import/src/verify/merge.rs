//! Merges two paginated listings sorted by id.

use std::{cmp::Ordering, collections::VecDeque};

use serde_json::Value;

/// A row of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// A UUID's text, which sorts like the UUID.
    pub id: String,
    pub value: Value,
}

/// Rows of a listing that are not merged yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    pub rows: VecDeque<Row>,
    /// Set if there are no further rows.
    pub is_at_end: bool,
}

impl Queue {
    /// Whether merging needs another page of this listing.
    pub fn needs_page(&self) -> bool {
        self.rows.is_empty() && !self.is_at_end
    }
}

/// An id, with the side or sides that have it.
#[derive(Clone, Debug, PartialEq)]
pub enum Pair {
    OnlyGnocchi(Row),
    OnlyGnudi(Row),
    Both(Row, Row),
}

/// Merges until a queue needs another page, or both listings are at their end.
pub fn merge(gnocchi: &mut Queue, gnudi: &mut Queue) -> Vec<Pair> {
    let mut pairs = Vec::new();
    loop {
        let order = match (gnocchi.rows.front(), gnudi.rows.front()) {
            (Some(theirs), Some(ours)) => theirs.id.cmp(&ours.id),
            (Some(_), None) if gnudi.is_at_end => Ordering::Less,
            (None, Some(_)) if gnocchi.is_at_end => Ordering::Greater,
            _ => return pairs,
        };
        let theirs = if order == Ordering::Greater { None } else { gnocchi.rows.pop_front() };
        let ours = if order == Ordering::Less { None } else { gnudi.rows.pop_front() };
        pairs.extend(match (theirs, ours) {
            (Some(theirs), Some(ours)) => Some(Pair::Both(theirs, ours)),
            (Some(theirs), None) => Some(Pair::OnlyGnocchi(theirs)),
            (None, Some(ours)) => Some(Pair::OnlyGnudi(ours)),
            (None, None) => None,
        });
    }
}

/// The rows of a page; `marker` is the last id of the page before it.
///
/// # Errors
/// Why it is not a list of objects with ids, sorted by id, all after `marker`.
pub fn rows(page: Value, marker: Option<&str>) -> Result<VecDeque<Row>, String> {
    let Value::Array(values) = page else { return Err("not a list".to_owned()) };
    let mut rows: VecDeque<Row> = VecDeque::with_capacity(values.len());
    for value in values {
        let Some(id) = value.get("id").and_then(Value::as_str).map(str::to_owned) else {
            return Err("a row without an id".to_owned());
        };
        let before = rows.back().map(|row| row.id.as_str()).or(marker);
        if let Some(before) = before.filter(|before| *before >= id.as_str()) {
            return Err(format!("not in the order of ids: {id} behind {before}"));
        }
        rows.push_back(Row { id, value });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Padded, so that the texts sort like the numbers.
    fn row(id: u8) -> Row {
        Row { id: format!("{id:03}"), value: Value::Null }
    }

    /// Merges as a walk does, with pages of these sizes, repeated.
    fn merged(gnocchi: &BTreeSet<u8>, gnudi: &BTreeSet<u8>, sizes: (usize, usize)) -> Vec<Pair> {
        let mut left: Vec<VecDeque<u8>> =
            [gnocchi, gnudi].into_iter().map(|ids| ids.iter().copied().collect()).collect();
        let (mut theirs, mut ours) = (Queue::default(), Queue::default());
        let mut pairs = Vec::new();
        loop {
            for (index, size, queue) in [(0, sizes.0, &mut theirs), (1, sizes.1, &mut ours)] {
                if queue.needs_page() {
                    let count = size.min(left[index].len());
                    queue.rows = left[index].drain(..count).map(row).collect();
                    queue.is_at_end = queue.rows.is_empty();
                }
            }
            pairs.extend(merge(&mut theirs, &mut ours));
            if theirs.is_at_end && ours.is_at_end && theirs.rows.is_empty() && ours.rows.is_empty() {
                return pairs;
            }
            assert!(theirs.needs_page() || ours.needs_page(), "a merge goes on as far as it can");
        }
    }

    proptest! {
        #[test]
        fn every_id_comes_once_and_in_order(
            gnocchi in prop::collection::btree_set(any::<u8>(), 0..60),
            gnudi in prop::collection::btree_set(any::<u8>(), 0..60),
            sizes in (1_usize..9, 1_usize..9),
        ) {
            let expected: Vec<Pair> = gnocchi
                .union(&gnudi)
                .map(|id| match (gnocchi.contains(id), gnudi.contains(id)) {
                    (true, false) => Pair::OnlyGnocchi(row(*id)),
                    (false, _) => Pair::OnlyGnudi(row(*id)),
                    (true, true) => Pair::Both(row(*id), row(*id)),
                })
                .collect();
            prop_assert_eq!(merged(&gnocchi, &gnudi, sizes), expected);
        }
    }

    #[test]
    fn a_page_that_is_not_there_yet_is_waited_for() {
        let mut theirs = Queue { rows: [row(1), row(3)].into(), is_at_end: false };
        let mut ours = Queue { rows: [row(2)].into(), is_at_end: false };
        assert_eq!(merge(&mut theirs, &mut ours), [Pair::OnlyGnocchi(row(1)), Pair::OnlyGnudi(row(2))]);
        assert!(ours.needs_page() && !theirs.needs_page());
        ours.is_at_end = true;
        assert_eq!(merge(&mut theirs, &mut ours), [Pair::OnlyGnocchi(row(3))]);
        assert!(theirs.needs_page());
    }

    #[test]
    fn pages_have_rows_by_id() {
        assert_eq!(rows(json!([]), Some("b")), Ok(VecDeque::new()));
        let page = rows(json!([{"id": "b", "x": 1}, {"id": "c"}]), Some("a")).unwrap();
        assert_eq!(page[0], Row { id: "b".to_owned(), value: json!({"id": "b", "x": 1}) });
        for (page, marker) in [
            (json!({}), None),
            (json!([1]), None),
            (json!([{"id": 1}]), None),
            (json!([{"id": "b"}, {"id": "a"}]), None),
            (json!([{"id": "b"}, {"id": "b"}]), None),
            (json!([{"id": "b"}]), Some("b")),
        ] {
            assert!(rows(page.clone(), marker).is_err(), "{page}");
        }
    }
}
