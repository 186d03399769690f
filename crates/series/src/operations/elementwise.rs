//! Elementwise operators: arithmetic, comparisons, clipping.
//!
//! Operands of one row or one column are broadcast, as in numpy. Where numpy's result depends on the
//! processor, this uses the C library's: the last digit of `tan` and of powers.

use std::borrow::Cow;

use super::{
    BinaryFunction, OperationError, Result, UnaryFunction,
    value::{Columns, Value},
};

/// Applies `function` to two operands.
pub(super) fn binary<'g>(function: BinaryFunction, left: Value<'g>, right: Value<'g>) -> Result<Value<'g>> {
    let shape = Shape::of(&[&left, &right])?;
    let columns = if function != BinaryFunction::Divide && left.is_bool() && right.is_bool() {
        truths(function, shape, &left.into_ints(), &right.into_ints())?
    } else if function == BinaryFunction::Divide || left.is_float() || right.is_float() {
        floats(function, shape, &left.into_floats(), &right.into_floats())
    } else {
        ints(function, shape, &left.into_ints(), &right.into_ints())?
    };
    Ok(shape.value(columns))
}

/// Applies `clip` to three operands.
pub(super) fn clip<'g>(value: Value<'g>, min: Value<'g>, max: Value<'g>) -> Result<Value<'g>> {
    let shape = Shape::of(&[&value, &min, &max])?;
    let all_bool = value.is_bool() && min.is_bool() && max.is_bool();
    if value.is_float() || min.is_float() || max.is_float() {
        let bounds_are_scalars = min.is_scalar && max.is_scalar;
        let (value, min, max) = (value.into_floats(), min.into_floats(), max.into_floats());
        let columns = if bounds_are_scalars {
            // A value equal to a bound is unchanged, including the sign of zero.
            let (min, max) = (min[0][0], max[0][0]);
            let clipped = |value: f64, _| clip_between(value, min, max);
            zip(shape, &value, &value, clipped)
        } else {
            zip(shape, &zip(shape, &value, &min, maximum), &max, minimum)
        };
        return Ok(shape.value(Columns::floats(columns)));
    }
    let clipped = zip(shape, &value.into_ints(), &min.into_ints(), i64::max);
    let clipped = zip(shape, &clipped, &max.into_ints(), i64::min);
    let columns =
        if all_bool { Columns::Bool(map(&clipped, |number| number != 0)) } else { Columns::Int(clipped) };
    Ok(shape.value(columns))
}

fn clip_between(value: f64, min: f64, max: f64) -> f64 {
    if min.is_nan() || max.is_nan() {
        return f64::NAN;
    }
    let value = if value < min { min } else { value };
    if value > max { max } else { value }
}

/// Applies `function` to each value; not for functions that need times.
pub(super) fn unary(function: UnaryFunction, operand: Value<'_>) -> Result<Value<'_>> {
    let Value { is_scalar, rows, .. } = operand;
    let floats =
        |of: fn(f64) -> f64| move |operand: Value<'_>| Columns::floats(map(&operand.into_floats(), of));
    let columns = match (function, operand) {
        (UnaryFunction::Negative, operand) if operand.is_bool() => {
            return Err(OperationError::TruthArithmetic);
        }
        (UnaryFunction::Absolute | UnaryFunction::Floor | UnaryFunction::Ceil, operand)
            if operand.is_bool() =>
        {
            return Ok(operand);
        }
        (UnaryFunction::Floor | UnaryFunction::Ceil, operand) if !operand.is_float() => return Ok(operand),
        (UnaryFunction::Absolute, operand) if !operand.is_float() => {
            Columns::Int(map(&operand.into_ints(), i64::wrapping_abs))
        }
        (UnaryFunction::Negative, operand) if !operand.is_float() => {
            Columns::Int(map(&operand.into_ints(), i64::wrapping_neg))
        }
        (UnaryFunction::Absolute, operand) => floats(f64::abs)(operand),
        (UnaryFunction::Negative, operand) => floats(|value| -value)(operand),
        (UnaryFunction::Cosine, operand) => floats(f64::cos)(operand),
        (UnaryFunction::Sine, operand) => floats(f64::sin)(operand),
        (UnaryFunction::Tangent, operand) => floats(f64::tan)(operand),
        (UnaryFunction::Floor, operand) => floats(f64::floor)(operand),
        (UnaryFunction::Ceil, operand) => floats(f64::ceil)(operand),
        (
            UnaryFunction::RateOfChange
            | UnaryFunction::RateOfChangePerSecond
            | UnaryFunction::Increase
            | UnaryFunction::IncreasePerSecond,
            _,
        ) => {
            unreachable!("rates need times")
        }
    };
    Ok(Value { is_scalar, rows, columns })
}

/// The shape that operands are broadcast to.
#[derive(Clone, Copy, Debug)]
struct Shape {
    is_scalar: bool,
    rows: usize,
    width: usize,
}

impl Shape {
    fn of(operands: &[&Value<'_>]) -> Result<Self> {
        let mut shape = Shape { is_scalar: true, rows: 1, width: 1 };
        let joined = |a: usize, b: usize| match (a, b) {
            (1, other) | (other, 1) => Ok(other),
            (a, b) if a == b => Ok(a),
            _ => Err(OperationError::Shapes),
        };
        for operand in operands {
            shape.is_scalar &= operand.is_scalar;
            shape.rows = joined(shape.rows, operand.rows)?;
            shape.width = joined(shape.width, operand.width())?;
        }
        Ok(shape)
    }

    fn value(self, columns: Columns<'_>) -> Value<'_> {
        Value { is_scalar: self.is_scalar, rows: self.rows, columns }
    }
}

fn floats<'g>(
    function: BinaryFunction,
    shape: Shape,
    left: &[Cow<'g, [f64]>],
    right: &[Cow<'g, [f64]>],
) -> Columns<'g> {
    let arithmetic = match function {
        BinaryFunction::Equal => return compared(shape, left, right, |a, b| a == b),
        BinaryFunction::NotEqual => return compared(shape, left, right, |a, b| a != b),
        BinaryFunction::Less => return compared(shape, left, right, |a, b| a < b),
        BinaryFunction::LessEqual => return compared(shape, left, right, |a, b| a <= b),
        BinaryFunction::Greater => return compared(shape, left, right, |a, b| a > b),
        BinaryFunction::GreaterEqual => return compared(shape, left, right, |a, b| a >= b),
        BinaryFunction::Add => zip(shape, left, right, |a, b| a + b),
        BinaryFunction::Subtract => zip(shape, left, right, |a, b| a - b),
        BinaryFunction::Multiply => zip(shape, left, right, |a, b| a * b),
        BinaryFunction::Divide => zip(shape, left, right, |a, b| a / b),
        BinaryFunction::Modulo => zip(shape, left, right, modulo),
        BinaryFunction::Power => zip(shape, left, right, f64::powf),
        BinaryFunction::ClipMin => zip(shape, left, right, maximum),
        BinaryFunction::ClipMax => zip(shape, left, right, minimum),
        BinaryFunction::Max => zip(shape, left, right, fmax),
    };
    Columns::floats(arithmetic)
}

fn ints<'g>(
    function: BinaryFunction,
    shape: Shape,
    left: &[Vec<i64>],
    right: &[Vec<i64>],
) -> Result<Columns<'g>> {
    Ok(Columns::Int(match function {
        BinaryFunction::Equal => return Ok(compared(shape, left, right, |a, b| a == b)),
        BinaryFunction::NotEqual => return Ok(compared(shape, left, right, |a, b| a != b)),
        BinaryFunction::Less => return Ok(compared(shape, left, right, |a, b| a < b)),
        BinaryFunction::LessEqual => return Ok(compared(shape, left, right, |a, b| a <= b)),
        BinaryFunction::Greater => return Ok(compared(shape, left, right, |a, b| a > b)),
        BinaryFunction::GreaterEqual => return Ok(compared(shape, left, right, |a, b| a >= b)),
        BinaryFunction::Add => zip(shape, left, right, i64::wrapping_add),
        BinaryFunction::Subtract => zip(shape, left, right, i64::wrapping_sub),
        BinaryFunction::Multiply => zip(shape, left, right, i64::wrapping_mul),
        BinaryFunction::Modulo => zip(shape, left, right, int_modulo),
        BinaryFunction::ClipMin | BinaryFunction::Max => zip(shape, left, right, i64::max),
        BinaryFunction::ClipMax => zip(shape, left, right, i64::min),
        BinaryFunction::Power => {
            let has_values = shape.rows > 0 && shape.width > 0;
            if has_values && right.iter().flatten().any(|&exponent| exponent < 0) {
                return Err(OperationError::NegativePower);
            }
            zip(shape, left, right, int_power)
        }
        BinaryFunction::Divide => unreachable!("division gives floats"),
    }))
}

/// For booleans, given as 0 and 1: or, and, comparisons; others give integers.
fn truths<'g>(
    function: BinaryFunction,
    shape: Shape,
    left: &[Vec<i64>],
    right: &[Vec<i64>],
) -> Result<Columns<'g>> {
    Ok(match function {
        BinaryFunction::Add | BinaryFunction::ClipMin | BinaryFunction::Max => {
            Columns::Bool(zip(shape, left, right, |a, b| a | b != 0))
        }
        BinaryFunction::Multiply | BinaryFunction::ClipMax => {
            Columns::Bool(zip(shape, left, right, |a, b| a & b != 0))
        }
        BinaryFunction::Subtract => return Err(OperationError::TruthArithmetic),
        other => ints(other, shape, left, right)?,
    })
}

fn compared<'g, T: Copy, C: AsRef<[T]>>(
    shape: Shape,
    left: &[C],
    right: &[C],
    of: impl Fn(T, T) -> bool,
) -> Columns<'g> {
    Columns::Bool(zip(shape, left, right, of))
}

fn zip<T: Copy, R: Copy, A: AsRef<[T]>, B: AsRef<[T]>>(
    shape: Shape,
    left: &[A],
    right: &[B],
    of: impl Fn(T, T) -> R,
) -> Vec<Vec<R>> {
    fn column<T, C: AsRef<[T]>>(columns: &[C], index: usize) -> &[T] {
        columns[if columns.len() == 1 { 0 } else { index }].as_ref()
    }
    let one = |index: usize| -> Vec<R> {
        match (column(left, index), column(right, index)) {
            (&[a], right) => right.iter().map(|&b| of(a, b)).collect(),
            (left, &[b]) => left.iter().map(|&a| of(a, b)).collect(),
            (left, right) => left.iter().zip(right).map(|(&a, &b)| of(a, b)).collect(),
        }
    };
    (0..shape.width).map(one).collect()
}

fn map<T: Copy, R, C: AsRef<[T]>>(columns: &[C], of: impl Fn(T) -> R) -> Vec<Vec<R>> {
    columns.iter().map(|column| column.as_ref().iter().map(|&item| of(item)).collect()).collect()
}

/// The result has the sign of the divisor; NaN for a divisor of 0.
fn modulo(dividend: f64, divisor: f64) -> f64 {
    let rest = dividend % divisor;
    if rest.is_nan() || divisor == 0.0 {
        return f64::NAN;
    }
    match rest == 0.0 {
        true => 0.0_f64.copysign(divisor),
        false if (rest < 0.0) != (divisor < 0.0) => rest + divisor,
        false => rest,
    }
}

/// 0 for a divisor of 0, as in numpy.
fn int_modulo(dividend: i64, divisor: i64) -> i64 {
    if divisor == 0 {
        return 0;
    }
    let rest = dividend.wrapping_rem(divisor);
    if rest != 0 && (rest < 0) != (divisor < 0) { rest + divisor } else { rest }
}

/// Wraps around on overflow, as numpy's multiplication does.
fn int_power(base: i64, exponent: i64) -> i64 {
    let (mut result, mut square, mut exponent) = (1_i64, base, exponent);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        exponent >>= 1;
    }
    result
}

/// NaN if one is; of equal values (zeros) the second.
fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

/// NaN only if both are.
pub(super) fn fmax(a: f64, b: f64) -> f64 {
    if b.is_nan() || a > b { a } else { b }
}

/// NaN only if both are.
pub(super) fn fmin(a: f64, b: f64) -> f64 {
    if b.is_nan() || a < b { a } else { b }
}
