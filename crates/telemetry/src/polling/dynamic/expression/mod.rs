//! The subset of Python expressions that dynamic pollsters need: after `|`, and in paths and commands.
//!
//! An expression is compiled once and evaluated on JSON values. It supports literals, operators, subscripts, some
//! functions and methods ([`functions`], [`methods`]), and comprehensions; everything else is rejected at compilation.
//! It has no side effects and no access to files, modules or attributes. The work of an evaluation is bounded.

/// Defines what expressions can call: an enum, with each one's name in Python, and its minimum and maximum
/// number of arguments.
macro_rules! callables {
    ($callable:ident: $($variant:ident($name:literal, $min:expr, $max:expr),)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $callable {
            $($variant,)*
        }

        impl $callable {
            const ALL: &'static [(&'static str, Self, (usize, usize))] =
                &[$(($name, Self::$variant, ($min, $max)),)*];

            /// With its minimum and maximum number of arguments.
            pub fn named(name: &str) -> Option<(Self, (usize, usize))> {
                let found = Self::ALL.iter().find(|(known, ..)| *known == name);
                found.map(|&(_, callable, arguments)| (callable, arguments))
            }
        }
    };
}

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

/// A longer expression is rejected.
const TEXT_BYTES_MAX: usize = 8 << 10;

pub type Result<T, E = ExpressionError> = std::result::Result<T, E>;

/// Why an expression is rejected or fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExpressionError(pub String);

fn error(problem: impl Into<String>) -> ExpressionError {
    ExpressionError(problem.into())
}

#[derive(Clone, Debug, PartialEq)]
pub struct Expression(Tree);

impl Expression {
    /// Compiles an expression that may refer to these names.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(error(format!("an expression of more than {TEXT_BYTES_MAX} bytes")));
        }
        parser::parse(text, names).map(Expression)
    }

    /// Evaluates it with a value for each of the names.
    pub fn evaluate(&self, names: &[(&str, &Value)]) -> Result<Value> {
        Scope::new(names).evaluate(&self.0)
    }
}

#[cfg(test)]
mod tests;
