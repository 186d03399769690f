//! Patterns as SQL: texts are matched character by character, with case.

use super::{
    Dialect,
    filter::{Query, VALUE},
};
use crate::filter::Pattern;

/// Appends whether a text, which servers and the values' index have as bytes, matches.
pub(super) fn push_matches(query: &mut Query, expression: &str, is_so: bool, pattern: &Pattern) {
    let not = if is_so { "" } else { "NOT " };
    match query.dialect {
        // Its LIKE ignores case.
        Dialect::Sqlite => {
            let text = if expression == VALUE { "CAST(value AS TEXT)" } else { expression };
            query.push(format_args!("{text} {not}GLOB ")).push_bind(pattern.glob());
        }
        // Bytes are as good as characters, unless the pattern has one that may be any.
        Dialect::Postgres if !pattern.has_any_character() => {
            query.push(format_args!("{expression} {not}LIKE ")).push_bind(pattern.like('\\'));
        }
        Dialect::Postgres => {
            let not = if is_so { "" } else { "!" };
            query.push(format_args!("encode({expression}, 'escape') {not}~ convert_from("));
            query.push_bind(pattern.escaped_regex()).push(", 'UTF8')");
        }
        Dialect::Mysql => {
            query.push(format_args!(
                "CONVERT({expression} USING utf8mb4) COLLATE utf8mb4_bin {not}LIKE CONVERT("
            ));
            query.push_bind(pattern.like('|')).push(" USING utf8mb4) ESCAPE '|'");
        }
    }
}
