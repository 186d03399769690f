//! Python's semantics for JSON values: truth, text form, equality, order, arithmetic.

use std::{borrow::Cow, cmp::Ordering};

use gnudi_model::{
    Comparison,
    python::{float_of_text, int_of_float, int_of_text},
};
use serde_json::{Number, Value};

use super::path::Arithmetic;
use crate::wire::python::repr;

/// Maximum length of texts and lists that arithmetic creates.
const PRODUCT_LENGTH_MAX: usize = 1 << 20;

/// A number or a boolean, which Python counts as one.
#[derive(Clone, Copy, Debug)]
pub enum Numeric {
    Int(i128),
    Float(f64),
}

impl Numeric {
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Numeric::Int(i128::from(*value))),
            Value::Number(number) => Some(match number.as_i128() {
                Some(number) => Numeric::Int(number),
                None => Numeric::Float(number.as_f64()?),
            }),
            _ => None,
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Numeric::Int(number) => number as f64,
            Numeric::Float(number) => number,
        }
    }

    /// An integer beyond 64 bits becomes a float; `None` if not finite.
    pub fn value(self) -> Option<Value> {
        let number = match self {
            Numeric::Int(number) => Number::from_i128(number).or_else(|| Number::from_f64(number as f64)),
            Numeric::Float(number) => Number::from_f64(number),
        };
        number.map(Value::Number)
    }

    fn compare(self, other: Numeric) -> Option<Ordering> {
        match (self, other) {
            (Numeric::Int(left), Numeric::Int(right)) => Some(left.cmp(&right)),
            (Numeric::Float(left), Numeric::Float(right)) => left.partial_cmp(&right),
            (Numeric::Int(left), Numeric::Float(right)) => compare_mixed(left, right),
            (Numeric::Float(left), Numeric::Int(right)) => compare_mixed(right, left).map(Ordering::reverse),
        }
    }
}

/// Exact comparison, though floats have fewer digits.
fn compare_mixed(int: i128, float: f64) -> Option<Ordering> {
    match int_of_float(float) {
        Some(whole) => Some(int.cmp(&whole).then(0.0.partial_cmp(&float.fract())?)),
        None => 0.0.partial_cmp(&float),
    }
}

/// `bool(value)`
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
    }
}

/// `str(value)`
pub fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(repr(value)),
    }
}

/// The place that an index means in a sequence of this length, maybe beyond its end; `None` before its beginning.
pub fn place(index: i64, length: usize) -> Option<usize> {
    usize::try_from(if index < 0 { index + length as i64 } else { index }).ok()
}

/// `text[:count]`
pub fn first_characters(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

/// Whether `str.isspace` holds: Python counts four more control characters as whitespace.
pub fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

/// `text.split(separator, splits_max)`, or `rsplit`; without a separator at whitespace.
pub fn split<'a>(
    text: &'a str,
    separator: Option<&str>,
    splits_max: Option<usize>,
    is_reversed: bool,
) -> Vec<&'a str> {
    let parts_max = splits_max.map_or(usize::MAX, |splits| splits.saturating_add(1));
    match separator {
        None => words(text, parts_max, is_reversed),
        Some(separator) if is_reversed => {
            let mut parts: Vec<&str> = text.rsplitn(parts_max, separator).collect();
            parts.reverse();
            parts
        }
        Some(separator) => text.splitn(parts_max, separator).collect(),
    }
}

/// Splits at whitespace; if the parts are limited, the last (or first) keeps its whitespace.
fn words(text: &str, parts_max: usize, is_reversed: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        rest = if is_reversed { rest.trim_end_matches(is_space) } else { rest.trim_start_matches(is_space) };
        if rest.is_empty() {
            break;
        }
        let split = if parts.len() + 1 >= parts_max {
            None
        } else if is_reversed {
            rest.rsplit_once(is_space).map(|(before, word)| (word, before))
        } else {
            rest.split_once(is_space)
        };
        let (word, others) = split.unwrap_or((rest, ""));
        parts.push(word);
        rest = others;
    }
    if is_reversed {
        parts.reverse();
    }
    parts
}

/// `left == right`
pub fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| is_equal(value, other)))
        }
        (Value::String(left), Value::String(right)) => left == right,
        (Value::Null, Value::Null) => true,
        _ => match (Numeric::of(left), Numeric::of(right)) {
            (Some(left), Some(right)) => left.compare(right) == Some(Ordering::Equal),
            _ => false,
        },
    }
}

/// Whether the comparison is true; `None` where Python raises.
pub fn holds(left: &Value, comparison: Comparison, right: &Value) -> Option<bool> {
    match comparison {
        Comparison::Equal => Some(is_equal(left, right)),
        Comparison::NotEqual => Some(!is_equal(left, right)),
        _ => compare(left, right).map(|ordering| comparison.holds(ordering)),
    }
}

/// Order by `<`; `None` where Python raises.
pub fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Array(left), Value::Array(right)) => {
            match left.iter().zip(right).find(|(left, right)| !is_equal(left, right)) {
                Some((left, right)) => compare(left, right),
                None => Some(left.len().cmp(&right.len())),
            }
        }
        _ => Numeric::of(left)?.compare(Numeric::of(right)?),
    }
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoResult {
    /// `TypeError`
    Types,
    /// Not a finite number.
    Infinite,
    /// A text or a list of more than `PRODUCT_LENGTH_MAX`.
    TooLong,
}

/// `left + right`, `left - right` or `left * right`
pub fn arithmetic(left: &Value, operator: Arithmetic, right: &Value) -> Result<Value, NoResult> {
    if let (Some(left), Some(right)) = (Numeric::of(left), Numeric::of(right)) {
        return numbers(left, operator, right).value().ok_or(NoResult::Infinite);
    }
    match (left, operator, right) {
        (Value::String(left), Arithmetic::Add, Value::String(right)) => {
            within(left.len() + right.len())?;
            Ok(Value::String(format!("{left}{right}")))
        }
        (Value::Array(left), Arithmetic::Add, Value::Array(right)) => {
            within(left.len() + right.len())?;
            Ok(Value::Array(left.iter().chain(right).cloned().collect()))
        }
        (Value::String(text), Arithmetic::Multiply, number)
        | (number, Arithmetic::Multiply, Value::String(text)) => {
            Ok(Value::String(text.repeat(times(number, text.len())?)))
        }
        (Value::Array(items), Arithmetic::Multiply, number)
        | (number, Arithmetic::Multiply, Value::Array(items)) => {
            let times = times(number, items.len())?;
            Ok(Value::Array(std::iter::repeat_n(items, times).flatten().cloned().collect()))
        }
        _ => Err(NoResult::Types),
    }
}

fn numbers(left: Numeric, operator: Arithmetic, right: Numeric) -> Numeric {
    if let (Numeric::Int(left), Numeric::Int(right)) = (left, right) {
        // Neither has more than 64 bits, so i128 does not overflow.
        return Numeric::Int(match operator {
            Arithmetic::Add => left + right,
            Arithmetic::Subtract => left - right,
            Arithmetic::Multiply => left.saturating_mul(right),
        });
    }
    let (left, right) = (left.float(), right.float());
    Numeric::Float(match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
    })
}

fn within(length: usize) -> Result<(), NoResult> {
    if length > PRODUCT_LENGTH_MAX { Err(NoResult::TooLong) } else { Ok(()) }
}

fn times(number: &Value, length: usize) -> Result<usize, NoResult> {
    let Some(Numeric::Int(times)) = Numeric::of(number) else { return Err(NoResult::Types) };
    if length == 0 {
        return Ok(0);
    }
    let times = usize::try_from(times.max(0)).map_err(|_| NoResult::TooLong)?;
    within(length.saturating_mul(times))?;
    Ok(times)
}

/// Why `int(value)` or `float(value)` fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotNumber {
    /// `ValueError`: a text that is not a number.
    Text,
    /// `TypeError`: an object, a list or null.
    Type,
}

/// `int(value)`
pub fn int(value: &Value) -> Result<i128, NotNumber> {
    match (value, Numeric::of(value)) {
        (_, Some(Numeric::Int(number))) => Ok(number),
        (_, Some(Numeric::Float(number))) => int_of_float(number).ok_or(NotNumber::Text),
        (Value::String(text), None) => int_of_text(text).ok_or(NotNumber::Text),
        _ => Err(NotNumber::Type),
    }
}

/// `float(value)`
pub fn float(value: &Value) -> Result<f64, NotNumber> {
    match (value, Numeric::of(value)) {
        (_, Some(number)) => Ok(number.float()),
        (Value::String(text), None) => float_of_text(text).ok_or(NotNumber::Text),
        _ => Err(NotNumber::Type),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_those_of_python() {
        let value = json!({"b": [1, null, "x'y"], "a": {}});
        assert_eq!(text(&value), r#"{'b': [1, None, "x'y"], 'a': {}}"#);
        assert_eq!(text(&json!("x")), "x");
        assert_eq!(text(&json!(1e22)), "1e+22");
    }

    #[test]
    fn numbers_compare_exactly() {
        let order = |left: Value, right: Value| compare(&left, &right);
        assert_eq!(order(json!(u64::MAX), json!(1.844_674_407_370_955_2e19)), Some(Ordering::Less));
        assert_eq!(order(json!(2), json!(2.5)), Some(Ordering::Less));
        assert_eq!(order(json!(-2), json!(-2.5)), Some(Ordering::Greater));
        assert_eq!(order(json!(0), json!(-0.0)), Some(Ordering::Equal));
        assert_eq!(order(json!(true), json!(1.0)), Some(Ordering::Equal));
        assert_eq!(order(json!(1), json!("1")), None);
        assert!(is_equal(&json!([1, {"a": 2}]), &json!([1.0, {"a": 2}])));
        assert!(!is_equal(&json!(null), &json!(0)));
    }

    #[test]
    fn arithmetic_is_bounded() {
        let multiply = |left: Value, right: Value| arithmetic(&left, Arithmetic::Multiply, &right);
        assert_eq!(multiply(json!("ab"), json!(2)), Ok(json!("abab")));
        assert_eq!(multiply(json!(-1), json!([1])), Ok(json!([])));
        assert_eq!(multiply(json!("x"), json!(i64::MAX)), Err(NoResult::TooLong));
        assert_eq!(multiply(json!(1e308), json!(10)), Err(NoResult::Infinite));
        assert_eq!(multiply(json!("x"), json!(1.5)), Err(NoResult::Types));
        assert_eq!(arithmetic(&json!(1), Arithmetic::Add, &json!(0.5)), Ok(json!(1.5)));
        assert_eq!(arithmetic(&json!({}), Arithmetic::Subtract, &json!(1)), Err(NoResult::Types));
    }
}
