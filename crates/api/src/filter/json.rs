//! The JSON form of the filter language:
//! `{"and": [{"=": {"user_id": "x"}}, {"not": {"in": {"id": ["a", "b"]}}}]}`.
//!
//! Validates as Gnocchi's schema does, with its error texts; also refuses ids that are no texts, on which
//! Gnocchi fails. Recursive: the JSON parser limits the depth.

use gnudi_app::{
    json::Value,
    resource_id,
    schema::{Checked, Invalid, list, one_entry},
};
use gnudi_indexer::{Comparison, Filter, FilterValue};

/// The negation operator.
pub const NOT: &str = "not";

/// The field that holds resource ids.
const ID: &str = "id";

/// The operators, by their keys.
enum Operator {
    Compare(Comparison),
    Like,
    In,
    And,
    Or,
    Not,
}

impl Operator {
    fn of(key: &str) -> Option<Operator> {
        Some(match key {
            "like" => Operator::Like,
            "in" => Operator::In,
            "and" | "∧" => Operator::And,
            "or" | "∨" => Operator::Or,
            NOT => Operator::Not,
            _ => return Comparison::named(key).map(Operator::Compare),
        })
    }
}

/// Converts a document to a filter.
pub fn filter(document: &Value, creator: &str) -> Checked<Filter> {
    let Some((key, operand)) = one_entry(document, 0)? else { return Ok(Filter::Empty) };
    let operator = Operator::of(key).ok_or_else(|| Invalid::bad_key(key))?;
    let filter = match operator {
        Operator::Compare(comparison) => compare(comparison, operand, creator),
        Operator::Like => like(operand),
        Operator::In => is_in(operand, creator),
        Operator::And => filters(operand, creator).map(Filter::And),
        Operator::Or => filters(operand, creator).map(Filter::Or),
        Operator::Not => filter(operand, creator).map(|filter| Filter::Not(Box::new(filter))),
    };
    filter.map_err(|invalid| invalid.in_key(key))
}

fn filters(operand: &Value, creator: &str) -> Checked<Vec<Filter>> {
    let filters = list(operand, |document| filter(document, creator))?;
    if filters.is_empty() {
        return Err(Invalid::new("length of value must be at least 1"));
    }
    Ok(filters)
}

fn compare(comparison: Comparison, operand: &Value, creator: &str) -> Checked<Filter> {
    let (field, value) = field_of(operand)?;
    let value = if field == ID { id(value, creator) } else { scalar(value) };
    let value = value.map_err(|invalid| invalid.in_key(field))?;
    Ok(Filter::Compare { comparison, field: field.clone(), value })
}

fn like(operand: &Value) -> Checked<Filter> {
    let (field, pattern) = field_of(operand)?;
    if field == ID {
        return Err(Invalid::at_key("value must not be one of ['id']", field));
    }
    let pattern = scalar(pattern).map_err(|invalid| invalid.in_key(field))?;
    Ok(Filter::Like { field: field.clone(), pattern })
}

fn is_in(operand: &Value, creator: &str) -> Checked<Filter> {
    let (field, values) = field_of(operand)?;
    let value = |value: &Value| if field == ID { id(value, creator) } else { scalar(value) };
    let values = list(values, value).and_then(|values| {
        if values.is_empty() { Err(Invalid::new("length of value must be at least 1")) } else { Ok(values) }
    });
    let values = values.map_err(|invalid| invalid.in_key(field))?;
    Ok(Filter::In { field: field.clone(), values })
}

/// A field and the value to compare it with.
fn field_of(operand: &Value) -> Checked<(&String, &Value)> {
    let (field, value) = one_entry(operand, 1)?.expect("there is at least one entry");
    Ok((field, value))
}

fn id(value: &Value, creator: &str) -> Checked<FilterValue> {
    resource_id::check(value, creator).map(FilterValue::Uuid)
}

fn scalar(value: &Value) -> Checked<FilterValue> {
    Ok(match value {
        Value::Null => FilterValue::Null,
        Value::Bool(flag) => FilterValue::Bool(*flag),
        Value::Int(number) => FilterValue::Int(*number),
        // Every field converts the digits of such an integer like the integer itself.
        Value::BigInt(digits) => FilterValue::Text(digits.clone()),
        Value::Float(number) => FilterValue::Float(*number),
        Value::Str(text) => FilterValue::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => return Err(Invalid::new("expected str")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnudi_app::json::parse;

    fn reason(text: &str) -> String {
        filter(&parse(text.as_bytes()).unwrap(), "foobar").unwrap_err().reason()
    }

    #[test]
    fn documents_become_filters() {
        let of = |text: &str| filter(&parse(text.as_bytes()).unwrap(), "foobar").unwrap();
        assert_eq!(of("{}"), Filter::Empty);
        assert_eq!(of(r#"{"not": {}}"#), Filter::Not(Box::new(Filter::Empty)));
        let id = uuid::Uuid::from_u128(0x1513_f2be_cb82_593c_96bf_c62d_1e20_5742);
        assert_eq!(
            of(r#"{"and": [{"=": {"id": "foo"}}, {"∨": [{"eq": {"a": null}}, {"==": {"a": 1}}]}]}"#),
            Filter::And(vec![
                Filter::equal("id", FilterValue::Uuid(id)),
                Filter::Or(vec![
                    Filter::equal("a", FilterValue::Null),
                    Filter::equal("a", FilterValue::Int(1))
                ]),
            ])
        );
        assert_eq!(
            of(r#"{"not": {"in": {"a": ["x", 1.5, true, 18446744073709551616]}}}"#),
            Filter::Not(Box::new(Filter::In {
                field: "a".to_owned(),
                values: vec![
                    FilterValue::Text("x".to_owned()),
                    FilterValue::Float(1.5),
                    FilterValue::Bool(true),
                    FilterValue::Text("18446744073709551616".to_owned()),
                ],
            }))
        );
        for (keys, comparison) in [
            (&["=", "==", "eq"][..], Comparison::Equal),
            (&["!=", "≠", "ne"], Comparison::NotEqual),
            (&["<", "lt"], Comparison::Less),
            (&["<=", "≤", "le"], Comparison::LessOrEqual),
            (&[">", "gt"], Comparison::Greater),
            (&[">=", "≥", "ge"], Comparison::GreaterOrEqual),
        ] {
            for key in keys {
                let Filter::Compare { comparison: read, .. } = of(&format!(r#"{{"{key}": {{"a": 1}}}}"#))
                else {
                    panic!("{key}")
                };
                assert_eq!(read, comparison, "{key}");
            }
        }
    }

    #[test]
    fn errors_have_gnocchis_texts() {
        for (text, expected) in [
            ("[]", "expected a dictionary"),
            (r#""a""#, "expected a dictionary"),
            (r#""ab""#, "length of value must be at most 1"),
            ("5", "invalid value or type"),
            ("[1, 2]", "length of value must be at most 1"),
            (r#"{"a": 1, "b": 2}"#, "length of value must be at most 1"),
            (r#"{"foo": 1}"#, "not a valid value @ data['foo']"),
            (r#"{"=": 5}"#, "invalid value or type for dictionary value @ data['=']"),
            (r#"{"=": {}}"#, "length of value must be at least 1 for dictionary value @ data['=']"),
            (r#"{"=": [1]}"#, "expected a dictionary for dictionary value @ data['=']"),
            (r#"{"=": {"a": []}}"#, "expected str for dictionary value @ data['=']['a']"),
            (
                r#"{"=": {"id": "a/b"}}"#,
                "'/' is not supported in resource id for dictionary value @ data['=']['id']",
            ),
            (r#"{"=": {"id": 5}}"#, "expected str for dictionary value @ data['=']['id']"),
            (r#"{"like": {"id": 1}}"#, "value must not be one of ['id'] @ data['like']['id']"),
            (r#"{"in": {"a": 5}}"#, "expected a list for dictionary value @ data['in']['a']"),
            (
                r#"{"in": {"a": []}}"#,
                "length of value must be at least 1 for dictionary value @ data['in']['a']",
            ),
            (r#"{"in": {"a": [1, {}]}}"#, "expected str @ data['in']['a'][1]"),
            (r#"{"in": {"id": ["a/b"]}}"#, "'/' is not supported in resource id @ data['in']['id'][0]"),
            (r#"{"and": []}"#, "length of value must be at least 1 for dictionary value @ data['and']"),
            (r#"{"and": {"a": 1}}"#, "expected a list for dictionary value @ data['and']"),
            (r#"{"and": [5]}"#, "invalid value or type @ data['and'][0]"),
            (
                r#"{"and": [5, {"=": {"id": "a/b"}}]}"#,
                "'/' is not supported in resource id for dictionary value @ data['and'][1]['=']['id']",
            ),
            (r#"{"not": [1]}"#, "expected a dictionary for dictionary value @ data['not']"),
            (r#"{"not": {"not": 5}}"#, "invalid value or type for dictionary value @ data['not']['not']"),
        ] {
            assert_eq!(reason(text), expected, "{text}");
        }
    }
}
