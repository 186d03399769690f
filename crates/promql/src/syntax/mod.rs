//! The language: from text to syntax tree (`lexer`, `parser`), types (`check`), and back to text and JSON (`print`,
//! `document`). The meaning of the tree is left to `plan`.

mod check;
mod document;
mod length;
mod lexer;
mod literal;
mod modifier;
mod parser;
mod print;
mod token;
mod tree;

pub use literal::duration_ms;
pub(crate) use tree::{
    Aggregate, Binary, Expr, ExprKind, Length, LengthKind, Matching, Selector, Shift, Span, Subquery,
};

use crate::error::{Error, Result};
use crate::limits::Limits;

/// A parse error: the byte of the query at which it arose, and its text.
#[derive(Debug)]
struct Fault {
    at: usize,
    text: String,
}

type Parsed<T> = Result<T, Fault>;

fn fault<T>(at: usize, text: impl Into<String>) -> Parsed<T> {
    Err(Fault { at, text: text.into() })
}

/// Position of a byte in a query: line and column from 1, the column in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    line: usize,
    column: usize,
}

impl Position {
    pub(crate) fn of(query: &str, at: usize) -> Position {
        let before = &query.as_bytes()[..at.min(query.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = before.split(|byte| *byte == b'\n').count();
        Position { line, column: before.len() - line_start + 1 }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}", self.line, self.column)
    }
}

/// Parses a query and checks its types.
pub(crate) fn parse(query: &str, limits: &Limits) -> Result<Expr> {
    placed(query, limits, || {
        let expr = parser::parse(query, limits.depth_max)?;
        check::check(&expr)?;
        Ok(expr)
    })
}

/// Parses a selector without modifiers.
pub(crate) fn parse_selector(text: &str, limits: &Limits) -> Result<Selector> {
    placed(text, limits, || parser::parse_selector(text))
}

/// Parses a text within the limit of its length; adds the position to an error.
fn placed<T>(query: &str, limits: &Limits, parse: impl FnOnce() -> Parsed<T>) -> Result<T> {
    if query.len() > limits.query_bytes_max {
        let bytes_max = limits.query_bytes_max;
        return Err(Error::bad_data(format!("parse error: the query is longer than {bytes_max} bytes")));
    }
    parse().map_err(|fault| {
        let position = if query.is_empty() {
            "unknown position".to_owned()
        } else {
            Position::of(query, fault.at).to_string()
        };
        Error::bad_data(format!("{position}: parse error: {}", fault.text))
    })
}

/// The query in the layout of Prometheus' formatter (`/api/v1/format_query`).
pub fn format(query: &str, limits: &Limits) -> Result<String> {
    with_stack(|| Ok(print::pretty(&parse(query, limits)?, 0)))
}

/// The query's syntax tree as JSON, as Prometheus returns it (`/api/v1/parse_query`).
pub fn syntax_tree(query: &str, limits: &Limits) -> Result<String> {
    with_stack(|| Ok(document::document(&parse(query, limits)?).to_string()))
}

/// Stack for recursion over a tree; a chain of operators is as deep as it is long.
const STACK_BYTES: usize = 64 << 20;

fn with_stack(work: impl FnOnce() -> Result<String> + Send) -> Result<String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| Error::execution(error.to_string()))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests;
