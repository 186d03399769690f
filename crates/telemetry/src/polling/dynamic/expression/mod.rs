//! Python's expressions, as far as dynamic pollsters need them: what stands behind `|`, and in paths and commands.
//!
//! An expression is read once and evaluated on values out of JSON. It knows literals, operators, subscripts, a list of functions
//! and of methods ([`functions`], [`methods`]), and comprehensions; what else Python has is refused when it is read. It has no
//! effects: it reaches no file, no module, no attribute. The work of one evaluation is bounded.

mod evaluate;
mod format;
mod functions;
mod lexer;
mod methods;
mod numbers;
mod parser;
mod tree;

use serde_json::Value;

use self::{evaluate::Scope, tree::Tree};

/// A longer expression is refused.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// Why an expression is not understood, or has no value: what Python would say of it, in short.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExpressionError(pub String);

fn error(problem: impl Into<String>) -> ExpressionError {
    ExpressionError(problem.into())
}

#[derive(Clone, Debug, PartialEq)]
pub struct Expression(Tree);

impl Expression {
    /// Reads an expression that may refer to these names.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self, ExpressionError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(error(format!("an expression of more than {TEXT_BYTES_MAX} bytes")));
        }
        parser::parse(text, names).map(Expression)
    }

    /// Its value, with a value for each of the names.
    pub fn evaluate(&self, names: &[(&str, &Value)]) -> Result<Value, ExpressionError> {
        Scope::new(names).evaluate(&self.0)
    }
}

#[cfg(test)]
mod tests;
