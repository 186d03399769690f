//! Patterns in SQL: matched by character and case-sensitive.

use super::{
    Dialect,
    filter::{Query, VALUE},
};
use crate::filter::Pattern;

/// No stored text has more characters: the longest attributes, those of type `prometheus`, have as many.
const TEXT_CHARACTERS_MAX: usize = 512;

/// Appends a match of a text, which servers and the index of values store as bytes.
pub(super) fn push_matches(query: &mut Query, expression: &str, is_so: bool, pattern: &Pattern) {
    let not = if is_so { "" } else { "NOT " };
    match query.dialect {
        // SQLite's LIKE ignores case.
        Dialect::Sqlite => {
            let text = if expression == VALUE { "CAST(value AS TEXT)" } else { expression };
            query.push(format_args!("{text} {not}GLOB ")).push_bind(pattern.glob());
        }
        // Bytes are equivalent to characters, unless the pattern has a single-character wildcard.
        Dialect::Postgres if !pattern.has_any_character() => {
            query.push(format_args!("{expression} {not}LIKE ")).push_bind(pattern.like('\\'));
        }
        // As a regular expression it might be too complex. The answer for null is null, too.
        Dialect::Postgres if pattern.characters_min() > TEXT_CHARACTERS_MAX => {
            let sign = if is_so { "<>" } else { "=" };
            query.push(format_args!("{expression} {sign} {expression}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_longer_than_all_texts_is_no_regular_expression() {
        let sql = |characters, is_so| {
            let mut query = Query::new(Dialect::Postgres, "");
            push_matches(&mut query, "name", is_so, &Pattern::parse(&"_".repeat(characters)).unwrap());
            query.sql().to_owned()
        };
        assert_eq!(sql(TEXT_CHARACTERS_MAX + 1, true), "name <> name");
        assert_eq!(sql(TEXT_CHARACTERS_MAX + 1, false), "name = name");
        assert!(sql(TEXT_CHARACTERS_MAX, true).contains("convert_from"));
    }
}
