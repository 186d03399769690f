//! The predicate of a search for measures by value: `{"and": [{"≥": 50}, {"<": [{"%": 100}, 10]}]}`.
//!
//! An operator with a number applies to the value and the number; with a list of two, to these: numbers or
//! nested operations. Any result but zero is true. Arithmetic on the value is numpy's on doubles: a division
//! by zero is infinite or NaN. Between constants it is Python's, where it raises: such a query is refused.

use gnudi_app::{
    ApiError, Result,
    json::Value,
    python,
    schema::{Checked, Invalid, list, one_entry},
};
use gnudi_model::Comparison;

/// The maximum number of operators and numbers in a query.
pub const NODES_MAX: usize = 256;

/// A predicate on a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate(Node);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Compare(Comparison),
    Remainder,
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// The measure's value.
    Value,
    Number(f64),
    Operation(Operator, Box<[Node; 2]>),
    All(Vec<Node>),
    Any(Vec<Node>),
    /// `not`, which Gnocchi's schema accepts and its evaluation does not support.
    Not,
}

impl Operator {
    fn of(key: &str) -> Option<Operator> {
        Some(match key {
            "%" | "mod" => Operator::Remainder,
            "+" | "add" => Operator::Add,
            "-" | "sub" => Operator::Subtract,
            "*" | "×" | "mul" => Operator::Multiply,
            "/" | "÷" | "div" => Operator::Divide,
            "**" | "^" | "pow" => Operator::Power,
            _ => return Comparison::named(key).map(Operator::Compare),
        })
    }

    fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            Operator::Compare(comparison) => f64::from(u8::from(comparison.holds_for(a, b))),
            Operator::Remainder => remainder(a, b),
            Operator::Add => a + b,
            Operator::Subtract => a - b,
            Operator::Multiply => a * b,
            Operator::Divide => a / b,
            Operator::Power => a.powf(b),
        }
    }

    /// The exception that Python raises for these constants.
    fn fault(self, a: f64, b: f64) -> Option<&'static str> {
        match self {
            Operator::Divide | Operator::Remainder if b == 0.0 => Some("division by zero"),
            Operator::Power if a == 0.0 && b < 0.0 => Some("0.0 cannot be raised to a negative power"),
            Operator::Power if a.is_finite() && b.is_finite() && !a.powf(b).is_finite() => {
                Some("Numerical result out of range")
            }
            _ => None,
        }
    }
}

/// The remainder, with the divisor's sign.
fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest == 0.0 {
        rest.copysign(b)
    } else if (rest < 0.0) != (b < 0.0) {
        rest + b
    } else {
        rest
    }
}

impl Predicate {
    /// Parses the document of a query.
    pub fn read(document: &Value) -> Checked<Predicate> {
        query(document).map(Predicate)
    }

    /// Refuses queries that cannot be evaluated.
    ///
    /// # Errors
    /// 400 for `not`, for operations between constants that raise in Python, and beyond [`NODES_MAX`].
    pub fn check(&self) -> Result<()> {
        let mut nodes = 0;
        self.0.check(&mut nodes).map(|_| ())
    }

    /// Whether it is true for a value.
    pub fn holds(&self, value: f64) -> bool {
        self.0.is_true(value)
    }
}

impl Node {
    /// The result, if it is constant.
    fn check(&self, nodes: &mut usize) -> Result<Option<f64>> {
        *nodes += 1;
        if *nodes > NODES_MAX {
            let reason = format!("The query has more than {NODES_MAX} operators and numbers");
            return Err(ApiError::bad_request(reason));
        }
        match self {
            Node::Value => Ok(None),
            Node::Number(number) => Ok(Some(*number)),
            Node::Operation(operator, sides) => {
                let (a, b) = (sides[0].check(nodes)?, sides[1].check(nodes)?);
                let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
                if let Some(fault) = operator.fault(a, b) {
                    return Err(ApiError::bad_request(format!("The query cannot be evaluated: {fault}")));
                }
                Ok(Some(operator.apply(a, b)))
            }
            Node::All(items) | Node::Any(items) => {
                for item in items {
                    item.check(nodes)?;
                }
                Ok(None)
            }
            Node::Not => Err(ApiError::bad_request("Unknown operator not")),
        }
    }

    fn is_true(&self, value: f64) -> bool {
        match self {
            Node::All(items) => items.iter().all(|item| item.is_true(value)),
            Node::Any(items) => items.iter().any(|item| item.is_true(value)),
            operation => operation.result(value) != 0.0,
        }
    }

    fn result(&self, value: f64) -> f64 {
        match self {
            Node::Value => value,
            Node::Number(number) => *number,
            Node::Operation(operator, sides) => {
                operator.apply(sides[0].result(value), sides[1].result(value))
            }
            Node::All(_) | Node::Any(_) => f64::from(u8::from(self.is_true(value))),
            Node::Not => unreachable!("a query is checked before it is evaluated"),
        }
    }
}

fn query(document: &Value) -> Checked<Node> {
    let (key, operand) = one_entry(document, 1)?.expect("there is at least one entry");
    let queries = |join: fn(Vec<Node>) -> Node| {
        // Gnocchi first takes the key for an operator, so its error is not that this is no list.
        let Value::Array(_) = operand else { return Err(Invalid::bad_key(key)) };
        list(operand, query).map(join).map_err(|invalid| invalid.in_key(key))
    };
    match key.as_str() {
        "and" | "∧" => queries(Node::All),
        "or" | "∨" => queries(Node::Any),
        "not" => queries(|_| Node::Not),
        _ => operation(document),
    }
}

fn operation(document: &Value) -> Checked<Node> {
    let (key, operand) = one_entry(document, 1)?.expect("there is at least one entry");
    let operator = Operator::of(key).ok_or_else(|| Invalid::bad_key(key))?;
    let sides = match number(operand) {
        Some(number) => number.map(|number| [Node::Value, number]),
        None => both_sides(operand),
    };
    let sides = sides.map_err(|invalid| invalid.in_key(key))?;
    Ok(Node::Operation(operator, Box::new(sides)))
}

fn both_sides(operand: &Value) -> Checked<[Node; 2]> {
    let sides = match list(operand, |item| number(item).unwrap_or_else(|| operation(item))) {
        Ok(sides) => sides,
        Err(invalid) if invalid.depth() > 0 => return Err(invalid),
        Err(_) => Vec::new(),
    };
    <[Node; 2]>::try_from(sides).map_err(|_| Invalid::new("expected float"))
}

/// `None` if the value is not a number.
fn number(value: &Value) -> Option<Checked<Node>> {
    match value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::BigInt(_) => {
            let number = python::float(value).map(Node::Number);
            Some(number.ok_or_else(|| Invalid::new("int too large to convert to float")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnudi_app::json::parse;

    fn read(text: &str) -> Checked<Predicate> {
        Predicate::read(&parse(text.as_bytes()).unwrap())
    }

    fn holds(text: &str) -> [bool; 5] {
        let predicate = read(text).unwrap();
        predicate.check().unwrap();
        [-8.0, 0.0, 1.0, 2.5, f64::NAN].map(|value| predicate.holds(value))
    }

    /// The expected results are Gnocchi's.
    #[test]
    fn queries_hold_as_in_gnocchi() {
        for (text, expected) in [
            (r#"{"=": 1}"#, [false, false, true, false, false]),
            (r#"{"==": true}"#, [false, false, true, false, false]),
            (r#"{"≠": 1}"#, [true, true, false, true, true]),
            (r#"{"≥": 1}"#, [false, false, true, true, false]),
            (r#"{"le": 1}"#, [true, true, true, false, false]),
            (r#"{"=": [1, 2]}"#, [false; 5]),
            (r#"{"=": [{"+": 2}, 3]}"#, [false, false, true, false, false]),
            (r#"{"=": [{"%": 3}, 1]}"#, [true, false, true, false, false]),
            (r#"{"=": [{"mod": -3}, -2]}"#, [true, false, true, false, false]),
            (r#"{"%": 0}"#, [true; 5]),
            (r#"{">": [{"/": 0}, 1]}"#, [false, false, true, true, false]),
            (r#"{"<": [{"**": -1}, 0]}"#, [true, false, false, false, false]),
            (r#"{"=": [{"^": 0.5}, 0]}"#, [false, true, false, false, false]),
            (r#"{"×": 2}"#, [true, false, true, true, true]),
            (r#"{"-": 1}"#, [true, true, false, true, true]),
            (r#"{"and": []}"#, [true; 5]),
            (r#"{"or": []}"#, [false; 5]),
            (r#"{"∧": [{"<": 2}, {">": 0}]}"#, [false, false, true, false, false]),
            (r#"{"∨": [{"lt": 0}, {"gt": 2}]}"#, [true, false, false, true, false]),
            (r#"{"+": [{"=": 1}, {"=": 2.5}]}"#, [false, false, true, true, false]),
        ] {
            assert_eq!(holds(text), expected, "{text}");
        }
        assert_eq!(remainder(-8.0, 3.0), 1.0);
        assert!(remainder(0.0, -3.0).is_sign_negative());
    }

    #[test]
    fn errors_have_gnocchis_texts() {
        for (text, expected) in [
            ("{}", "length of value must be at least 1"),
            (r#""a""#, "expected a dictionary"),
            ("5", "invalid value or type"),
            (r#"{"a": 1, "b": 2}"#, "length of value must be at most 1"),
            (r#"{"foo": 1}"#, "not a valid value @ data['foo']"),
            (r#"{"=": null}"#, "expected float for dictionary value @ data['=']"),
            (r#"{"=": {"+": 1}}"#, "expected float for dictionary value @ data['=']"),
            (r#"{"=": [1]}"#, "expected float for dictionary value @ data['=']"),
            (r#"{"=": [1, 2, 3]}"#, "expected float for dictionary value @ data['=']"),
            (r#"{"=": [1, "x"]}"#, "expected a dictionary @ data['='][1]"),
            (r#"{"=": [1, {}]}"#, "length of value must be at least 1 @ data['='][1]"),
            (r#"{"=": ["x", {"=": "x"}]}"#, "expected float for dictionary value @ data['='][1]['=']"),
            (r#"{"=": [1, {"and": []}]}"#, "not a valid value @ data['='][1]['and']"),
            (r#"{"and": 5}"#, "not a valid value @ data['and']"),
            (r#"{"and": [5]}"#, "invalid value or type @ data['and'][0]"),
            (r#"{"and": [5, {"=": "x"}]}"#, "expected float for dictionary value @ data['and'][1]['=']"),
            (r#"{"or": [{"and": [{"foo": 1}]}]}"#, "not a valid value @ data['or'][0]['and'][0]['foo']"),
        ] {
            assert_eq!(read(text).unwrap_err().reason(), expected, "{text}");
        }
    }

    #[test]
    fn what_has_no_result_is_refused() {
        for text in [
            r#"{"not": []}"#,
            r#"{"and": [{"not": [{"=": 1}]}]}"#,
            r#"{"/": [1, 0]}"#,
            r#"{"%": [1, {"-": [2, 2]}]}"#,
            r#"{"**": [-8, 0.5]}"#,
            r#"{"**": [0, -1]}"#,
            r#"{"=": [{"**": [10, 400]}, 1]}"#,
        ] {
            assert!(read(text).unwrap().check().is_err(), "{text}");
        }
        let wide = |count: usize| format!(r#"{{"and": [{}]}}"#, vec![r#"{"=": 1}"#; count].join(","));
        assert!(read(&wide(80)).unwrap().check().is_ok());
        assert!(read(&wide(90)).unwrap().check().is_err());
        assert!(read(&format!(r#"{{"=": 1{}}}"#, "0".repeat(400))).is_err());
    }
}
