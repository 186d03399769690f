//! A query as a text of several lines, and as a document: what the parser gives, without its meaning.

use promql_parser::parser::Expr;

use super::{lower, syntax};
use crate::error::Error;
use crate::limits::Limits;

/// What walks the parser's tree goes as deep as it is; a chain of operators is as deep as it is long.
const STACK_BYTES: usize = 64 << 20;

/// The query in the layout of Prometheus' formatter.
pub fn format(query: &str, limits: &Limits) -> Result<String, Error> {
    with_tree(query, limits, |tree| Some(tree.prettify()))
}

/// The query's syntax tree as a JSON document.
pub fn syntax_tree(query: &str, limits: &Limits) -> Result<String, Error> {
    with_tree(query, limits, |tree| serde_json::to_string(tree).ok())
}

fn with_tree(
    query: &str,
    limits: &Limits,
    walk: impl Fn(&Expr) -> Option<String> + Sync,
) -> Result<String, Error> {
    syntax::check(query, limits)?;
    let unreadable = || Error::bad_data("parse error: invalid promql query");
    std::thread::scope(|scope| {
        let work = || {
            let tree = syntax::parse(query)?;
            // A query that has no meaning has no form, and what is nested too deeply neither.
            lower::lower(&tree, limits, true)?;
            walk(&tree).ok_or_else(unreadable)
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| Error::execution(error.to_string()))?;
        // The parser is not free of panics.
        thread.join().unwrap_or_else(|_| Err(unreadable()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_formatted() {
        let limits = Limits::default();
        assert_eq!(format("foo/bar", &limits), Ok("foo / bar".to_owned()));
        let chain = vec!["x"; 900].join("+");
        assert!(format(&chain, &limits).is_ok() && syntax_tree(&chain, &limits).is_ok());
        assert!(format("foo(", &limits).is_err());
        assert!(format("sum(1)", &limits).is_err());
    }

    #[test]
    fn queries_are_documents() {
        let tree = syntax_tree("rate(x{a=\"b\"}[5m])", &Limits::default()).unwrap();
        assert!(tree.contains("\"type\":\"call\"") && tree.contains("\"type\":\"matrixSelector\""), "{tree}");
    }
}
