//! Compares JSON responses of two servers. The order of fields and of lists is ignored, and numbers are compared by
//! value (`2` and `2.0`). Revision numbers are specific to each server and ignored.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Number, Value};

/// The field with the number of a revision.
const REVISION: &str = "revision";

/// Above it a float may not fit an integer.
const WHOLE_MAX: f64 = 1e19;

/// A field whose values differ.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldDifference {
    /// The names of the fields leading to it, joined by dots; empty if the values themselves differ.
    pub path: String,
    /// Gnocchi's value, for a list only the items missing in gnudi; `None` if the field is missing.
    pub gnocchi: Option<Value>,
    /// The same for gnudi.
    pub gnudi: Option<Value>,
}

/// All fields whose values differ, by name.
pub fn differences(gnocchi: &Value, gnudi: &Value) -> Vec<FieldDifference> {
    let mut found = Vec::new();
    compare(gnocchi, gnudi, "", &mut found);
    found
}

/// Whether two values are equal.
pub fn is_same(one: &Value, other: &Value) -> bool {
    canonical(one) == canonical(other)
}

/// The items that only one of two lists has, each in its order. Repeated items are counted.
pub fn only_in_one<'a>(gnocchi: &'a [Value], gnudi: &'a [Value]) -> (Vec<&'a Value>, Vec<&'a Value>) {
    let mut left: HashMap<String, usize> = HashMap::new();
    for value in gnudi {
        *left.entry(canonical(value)).or_default() += 1;
    }
    let mut take = |value: &Value| match left.get_mut(&canonical(value)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    };
    let only_gnocchi = gnocchi.iter().filter(|value| !take(value)).collect();
    let only_gnudi = gnudi.iter().filter(|value| take(value)).collect();
    (only_gnocchi, only_gnudi)
}

fn compare(gnocchi: &Value, gnudi: &Value, path: &str, found: &mut Vec<FieldDifference>) {
    match (gnocchi, gnudi) {
        (Value::Object(theirs), Value::Object(ours)) => {
            let names: BTreeSet<&str> = theirs.keys().chain(ours.keys()).map(String::as_str).collect();
            for name in names.into_iter().filter(|name| *name != REVISION) {
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                match (theirs.get(name), ours.get(name)) {
                    (Some(theirs), Some(ours)) => compare(theirs, ours, &path, found),
                    (theirs, ours) => {
                        let (gnocchi, gnudi) = (theirs.cloned(), ours.cloned());
                        found.push(FieldDifference { path, gnocchi, gnudi });
                    }
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            let (theirs, ours) = only_in_one(theirs, ours);
            if !theirs.is_empty() || !ours.is_empty() {
                let list = |values: Vec<&Value>| Some(Value::Array(values.into_iter().cloned().collect()));
                found.push(FieldDifference {
                    path: path.to_owned(),
                    gnocchi: list(theirs),
                    gnudi: list(ours),
                });
            }
        }
        _ if is_same(gnocchi, gnudi) => {}
        _ => found.push(FieldDifference {
            path: path.to_owned(),
            gnocchi: Some(gnocchi.clone()),
            gnudi: Some(gnudi.clone()),
        }),
    }
}

/// A text that equal values have in common.
fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::Array(items) => {
            let mut texts: Vec<String> = items.iter().map(canonical).collect();
            texts.sort_unstable();
            out.push('[');
            out.push_str(&texts.join(","));
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(name, _)| *name != REVISION).collect();
            fields.sort_unstable_by(|one, other| one.0.cmp(other.0));
            out.push('{');
            for (name, value) in fields {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            if float.fract() == 0.0 && float.abs() < WHOLE_MAX {
                // Adding 0.0 removes a negative zero.
                format!("{:.0}", float + 0.0)
            } else {
                format!("{float:?}")
            }
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let names = || prop::sample::select(vec!["a", "b", "c", REVISION]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (-3_i32..3).prop_map(|whole| Value::from(f64::from(whole))),
            names().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, move |inner| {
            let object = |fields: Vec<(&'static str, Value)>| {
                let fields: Map<String, Value> =
                    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                Value::Object(fields)
            };
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec((names(), inner), 0..4).prop_map(object),
            ]
        })
    }

    /// The same with all lists and objects reversed, and other revision numbers.
    fn turned(value: &Value) -> Value {
        match value {
            Value::Array(items) => Value::Array(items.iter().rev().map(turned).collect()),
            Value::Object(fields) => {
                let mut turned_fields: Map<String, Value> =
                    fields.iter().rev().map(|(name, value)| (name.clone(), turned(value))).collect();
                turned_fields.insert(REVISION.to_owned(), json!("another"));
                Value::Object(turned_fields)
            }
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn what_is_equal_has_no_differences(value in values()) {
            prop_assert!(differences(&value, &value).is_empty());
            prop_assert!(differences(&value, &turned(&value)).is_empty());
        }

        #[test]
        fn differences_are_none_exactly_where_values_are_the_same(one in values(), other in values()) {
            prop_assert_eq!(differences(&one, &other).is_empty(), is_same(&one, &other));
            prop_assert_eq!(differences(&one, &other).len(), differences(&other, &one).len());
        }
    }

    fn one(gnocchi: &Value, gnudi: &Value) -> (String, Option<Value>, Option<Value>) {
        let mut found = differences(gnocchi, gnudi);
        assert_eq!(found.len(), 1, "{found:?}");
        let FieldDifference { path, gnocchi, gnudi } = found.remove(0);
        (path, gnocchi, gnudi)
    }

    #[test]
    fn a_difference_has_its_path() {
        assert_eq!(one(&json!(1), &json!("1")), (String::new(), Some(json!(1)), Some(json!("1"))));
        assert_eq!(
            one(&json!({"a": {"b": 1.5, "c": 2}}), &json!({"a": {"c": 2.0, "b": null}})),
            ("a.b".to_owned(), Some(json!(1.5)), Some(json!(null)))
        );
        assert_eq!(
            one(&json!({"a": 1}), &json!({"a": 1, "b": null})),
            ("b".to_owned(), None, Some(json!(null)))
        );
        assert_eq!(
            one(&json!({"a": ["x", "y", "y"]}), &json!({"a": ["y", "z", "x"]})),
            ("a".to_owned(), Some(json!(["y"])), Some(json!(["z"])))
        );
    }

    #[test]
    fn numbers_are_what_they_mean() {
        for (one, other) in [
            (json!(-5), json!(-5.0)),
            (json!(0), json!(-0.0)),
            (json!(1_000_000_000_000_000_000_u64), json!(1e18)),
        ] {
            assert!(is_same(&one, &other), "{one} {other}");
        }
        for (one, other) in [
            (json!(0.1), json!(0.100_000_000_000_000_02)),
            (json!(1), json!(true)),
            (json!([1, 1]), json!([1])),
            (json!(null), json!({})),
        ] {
            assert!(!is_same(&one, &other), "{one} {other}");
        }
    }
}
