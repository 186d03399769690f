//! Compares the revisions of a resource.

use std::cmp::Ordering;

use serde_json::Value;

use super::json::{self, FieldDifference};

/// All fields in which the histories of a resource differ. A path begins with the start time of the revision; a
/// revision that exists only on one side is reported as a whole.
pub fn compare(gnocchi: &[Value], gnudi: &[Value]) -> Vec<FieldDifference> {
    let (mut theirs, mut ours) = json::only_in_one(gnocchi, gnudi);
    theirs.sort_by(|one, other| start(one).cmp(start(other)));
    ours.sort_by(|one, other| start(one).cmp(start(other)));
    let (mut theirs, mut ours) = (theirs.into_iter().peekable(), ours.into_iter().peekable());
    let mut found = Vec::new();
    loop {
        let order = match (theirs.peek(), ours.peek()) {
            (None, None) => return found,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(their), Some(our)) => start(their).cmp(start(our)),
        };
        let their = if order == Ordering::Greater { None } else { theirs.next() };
        let our = if order == Ordering::Less { None } else { ours.next() };
        let begin = their.or(our).map(start).unwrap_or_default();
        let path = format!("revision of {begin}");
        if let (Some(their), Some(our)) = (their, our) {
            let fields = json::differences(their, our).into_iter();
            found.extend(
                fields.map(|field| FieldDifference { path: format!("{path}: {}", field.path), ..field }),
            );
        } else {
            found.push(FieldDifference { path, gnocchi: their.cloned(), gnudi: our.cloned() });
        }
    }
}

/// The start of a revision as returned by the servers: texts that sort like times.
fn start(revision: &Value) -> &str {
    revision.get("revision_start").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn revision(start: u8, host: u8) -> Value {
        json!({"revision_start": format!("{start:03}"), "host": host})
    }

    fn found(gnocchi: &[Value], gnudi: &[Value]) -> Vec<(String, Option<Value>, Option<Value>)> {
        let found = compare(gnocchi, gnudi).into_iter();
        found.map(|field| (field.path, field.gnocchi, field.gnudi)).collect()
    }

    #[test]
    fn revisions_are_compared_by_their_start() {
        let (one, other) = ([revision(1, 1), revision(2, 2)], [revision(1, 1), revision(2, 3)]);
        assert_eq!(
            found(&one, &other),
            [("revision of 002: host".to_owned(), Some(json!(2)), Some(json!(3)))]
        );
        assert_eq!(found(&one, &one[..1]), [("revision of 002".to_owned(), Some(revision(2, 2)), None)]);
        assert_eq!(found(&one[1..], &one), [("revision of 001".to_owned(), None, Some(revision(1, 1)))]);
        assert_eq!(
            found(&[json!(1)], &[json!("x")]),
            [("revision of : ".to_owned(), Some(json!(1)), Some(json!("x")))]
        );
    }

    proptest! {
        #[test]
        fn histories_are_equal_to_themselves(rows in prop::collection::vec((0_u8..4, 0_u8..4), 0..8)) {
            let history: Vec<Value> = rows.iter().map(|(start, host)| revision(*start, *host)).collect();
            prop_assert!(compare(&history, &history).is_empty());
            let turned: Vec<Value> = history.iter().rev().cloned().collect();
            prop_assert!(compare(&history, &turned).is_empty());
            if let Some((_, less)) = history.split_first() {
                prop_assert!(!compare(&history, less).is_empty());
                prop_assert!(!compare(less, &history).is_empty());
            }
        }
    }
}
