//! Chains of binary operators, and their arithmetic on scalars.

use super::{Context, Evaluated};
use crate::error::Result;
use crate::plan::{Binary, BinaryOp, Node};
use crate::series::{Grid, VectorSeries};

/// The result of an operator for two numbers: a value, and whether a comparison holds.
pub(super) fn apply(op: BinaryOp, left: f64, right: f64) -> (f64, bool) {
    match op {
        BinaryOp::Add => (left + right, true),
        BinaryOp::Sub => (left - right, true),
        BinaryOp::Mul => (left * right, true),
        BinaryOp::Div => (left / right, true),
        BinaryOp::Mod => (left % right, true),
        BinaryOp::Pow => (left.powf(right), true),
        BinaryOp::Atan2 => (left.atan2(right), true),
        BinaryOp::Equal => (left, left == right),
        BinaryOp::NotEqual => (left, left != right),
        BinaryOp::Less => (left, left < right),
        BinaryOp::LessEqual => (left, left <= right),
        BinaryOp::Greater => (left, left > right),
        BinaryOp::GreaterEqual => (left, left >= right),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Unless => unreachable!("set operators have no arithmetic"),
    }
}

fn scalar(op: BinaryOp, left: f64, right: f64) -> f64 {
    let (value, holds) = apply(op, left, right);
    if op.is_comparison() { f64::from(u8::from(holds)) } else { value }
}

impl<'a> Context<'a> {
    /// The left operands of a chain are evaluated iteratively: chains may be long.
    pub(super) fn binary_chain(&self, node: &Node, grid: &Grid) -> Result<Evaluated<'a>> {
        let mut chain = Vec::new();
        let mut innermost = node;
        while let Node::Binary(binary) = innermost {
            chain.push(binary.as_ref());
            innermost = &binary.left;
        }
        let mark = self.budget.mark();
        let mut result = self.eval(innermost, grid)?;
        for binary in chain.into_iter().rev() {
            let right = self.eval(&binary.right, grid)?;
            result = self.binary(binary, result, right, grid)?;
            self.budget.keep(mark, result.samples(), result.bytes(grid))?;
        }
        Ok(result)
    }

    fn binary(
        &self,
        binary: &Binary,
        left: Evaluated<'a>,
        right: Evaluated<'a>,
        grid: &Grid,
    ) -> Result<Evaluated<'a>> {
        let vector = match (left, right) {
            (Evaluated::Scalar(left), Evaluated::Scalar(right)) => {
                let values = left.iter().zip(&right).map(|(left, right)| scalar(binary.op, *left, *right));
                return Ok(Evaluated::Scalar(values.collect()));
            }
            (left, Evaluated::Scalar(scalars)) => {
                self.with_scalar(binary, left.into_vector(), &scalars, false)?
            }
            (Evaluated::Scalar(scalars), right) => {
                self.with_scalar(binary, right.into_vector(), &scalars, true)?
            }
            (left, right) if binary.op.is_set() => {
                self.set_operation(binary, left.into_vector(), right.into_vector(), grid)?
            }
            (left, right) => self.match_vectors(binary, left.into_vector(), right.into_vector(), grid)?,
        };
        Ok(Evaluated::Vector(vector))
    }

    /// A vector and a scalar, which is the left operand if `swapped`. A comparison keeps the vector's value.
    fn with_scalar(
        &self,
        binary: &Binary,
        mut vector: Vec<VectorSeries>,
        scalars: &[f64],
        swapped: bool,
    ) -> Result<Vec<VectorSeries>> {
        for series in &mut vector {
            let column = &mut series.column;
            for (step, scalar) in scalars.iter().copied().enumerate() {
                let number = column.values[step];
                let (left, right) = if swapped { (scalar, number) } else { (number, scalar) };
                let (value, holds) = apply(binary.op, left, right);
                if binary.returns_bool {
                    column.values[step] = f64::from(u8::from(holds));
                } else if !binary.op.is_comparison() {
                    column.values[step] = value;
                } else if !holds {
                    column.present.clear(step);
                }
            }
        }
        vector.retain(|series| series.column.present.any());
        if binary.returns_bool || !binary.op.is_comparison() {
            return self.drop_names(vector);
        }
        Ok(vector)
    }
}
