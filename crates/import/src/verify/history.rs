//! Compares the revisions of a resource.

use std::collections::HashSet;

use serde_json::Value;

use super::json::{self, FieldDifference};
use crate::merge;

/// All fields in which the histories of a resource differ. A path begins with the start time of the revision; a
/// revision that exists only on one side is reported as a whole.
pub fn compare(gnocchi: &[Value], gnudi: &[Value]) -> Vec<FieldDifference> {
    let (mut theirs, mut ours) = json::only_in_one(gnocchi, gnudi);
    theirs.sort_by(|one, other| start(one).cmp(start(other)));
    ours.sort_by(|one, other| start(one).cmp(start(other)));
    let (mut theirs, mut ours) = (theirs.into_iter().peekable(), ours.into_iter().peekable());
    let mut found = Vec::new();
    while let Some((is_theirs, is_ours)) =
        merge::turn(theirs.peek().copied().map(start), ours.peek().copied().map(start))
    {
        let their = if is_theirs { theirs.next() } else { None };
        let our = if is_ours { ours.next() } else { None };
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
    found
}

/// Whether gnudi has a revision that begins when none of Gnocchi's does.
pub fn has_more(gnocchi: &[Value], gnudi: &[Value]) -> bool {
    let theirs = starts(gnocchi);
    gnudi.iter().any(|revision| !theirs.contains(start(revision)))
}

/// Removes from gnudi's history the revisions that Gnocchi shows only in `generic`, the history of the same resource as a
/// generic one: a change through `/v1/resource/generic` ended them (docs/compatibility.md).
pub fn without_generic_changes(gnocchi: &[Value], generic: &[Value], gnudi: &mut Vec<Value>) {
    let (theirs, generic) = (starts(gnocchi), starts(generic));
    gnudi.retain(|revision| {
        let start = start(revision);
        theirs.contains(start) || !generic.contains(start)
    });
}

fn starts(revisions: &[Value]) -> HashSet<&str> {
    revisions.iter().map(start).collect()
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

    #[test]
    fn revisions_of_the_generic_history_alone_are_no_difference() {
        let theirs = [revision(1, 1), revision(3, 3)];
        let generic = [revision(1, 0), revision(2, 0), revision(3, 0)];
        let mut ours = vec![revision(1, 1), revision(2, 3), revision(3, 3)];
        assert!(has_more(&theirs, &ours));
        without_generic_changes(&theirs, &generic, &mut ours);
        assert!(compare(&theirs, &ours).is_empty());
        assert!(!has_more(&theirs, &ours));
        // What neither history of Gnocchi has stays a difference.
        ours.push(revision(4, 4));
        without_generic_changes(&theirs, &generic, &mut ours);
        assert_eq!(compare(&theirs, &ours).len(), 1);
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
