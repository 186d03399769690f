//! Arithmetic that definitions lack: division, remainder, power and rounding, as in Python.

use serde_json::Value;

use super::{Result, error, tree::Operator};
use crate::definitions::{
    path::Arithmetic,
    python::{self, NoResult, Numeric},
};

pub fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    let simple = match operator {
        Operator::Add => Arithmetic::Add,
        Operator::Subtract => Arithmetic::Subtract,
        Operator::Multiply => Arithmetic::Multiply,
        _ => return divided(operator, left, right),
    };
    python::arithmetic(left, simple, right).map_err(|why| {
        error(match why {
            NoResult::Types => "values of these types have no sum, difference or product",
            NoResult::Infinite => "a result that is no finite number",
            NoResult::TooLong => "a result that is too long",
        })
    })
}

fn divided(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    let (Some(left), Some(right)) = (Numeric::of(left), Numeric::of(right)) else {
        return Err(error("numbers are divided and raised, and nothing else"));
    };
    if operator != Operator::Power && right.float() == 0.0 {
        return Err(error("division by zero"));
    }
    let result = match (operator, left, right) {
        (Operator::Power, Numeric::Int(base), Numeric::Int(exponent)) if exponent >= 0 => {
            let power = u32::try_from(exponent).ok().and_then(|exponent| base.checked_pow(exponent));
            power.map_or_else(|| Numeric::Float((base as f64).powf(exponent as f64)), Numeric::Int)
        }
        (Operator::Power, ..) => {
            let (base, exponent) = (left.float(), right.float());
            if base == 0.0 && exponent < 0.0 {
                return Err(error("zero to a negative power"));
            }
            Numeric::Float(base.powf(exponent))
        }
        (Operator::FloorDivide, Numeric::Int(left), Numeric::Int(right)) => Numeric::Int(floor(left, right)),
        (Operator::Modulo, Numeric::Int(left), Numeric::Int(right)) => {
            Numeric::Int(left - floor(left, right) * right)
        }
        (Operator::FloorDivide, ..) => Numeric::Float(floor_and_rest(left.float(), right.float()).0),
        (Operator::Modulo, ..) => Numeric::Float(floor_and_rest(left.float(), right.float()).1),
        _ => Numeric::Float(left.float() / right.float()),
    };
    result.value().ok_or_else(|| error("a result that is no finite number"))
}

/// Rounds towards minus infinity.
fn floor(left: i128, right: i128) -> i128 {
    let quotient = left / right;
    if left % right != 0 && (left < 0) != (right < 0) { quotient - 1 } else { quotient }
}

/// Python's `divmod` of floats: the remainder has the divisor's sign.
fn floor_and_rest(left: f64, right: f64) -> (f64, f64) {
    let mut rest = left % right;
    let mut quotient = (left - rest) / right;
    if rest == 0.0 {
        rest = 0.0_f64.copysign(right);
    } else if (right < 0.0) != (rest < 0.0) {
        rest += right;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(left / right), rest);
    }
    let whole = quotient.floor();
    (if quotient - whole > 0.5 { whole + 1.0 } else { whole }, rest)
}

/// `round(value)` and `round(value, digits)`: half to even.
pub fn round(value: &Value, digits: Option<&Value>) -> Result<Value> {
    let number = Numeric::of(value).ok_or_else(|| error("round: what is no number"))?;
    let digits = match digits {
        None | Some(Value::Null) => None,
        Some(digits) => Some(
            digits
                .as_u64()
                .and_then(|digits| usize::try_from(digits.min(100)).ok())
                .ok_or_else(|| error("round: a number of digits from 0 on is supported"))?,
        ),
    };
    let rounded = match (number, digits) {
        (Numeric::Int(number), _) => Numeric::Int(number),
        (Numeric::Float(number), None) => Numeric::Int(number.round_ties_even() as i128),
        (Numeric::Float(number), Some(digits)) => {
            Numeric::Float(format!("{number:.digits$}").parse().unwrap_or(number))
        }
    };
    rounded.value().ok_or_else(|| error("round: no finite number"))
}
