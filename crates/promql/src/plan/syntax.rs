//! The text of a query: what is refused before the parser sees it, and the call of the parser.
//! The parser's work grows with the square of a tree's depth, so the depth that a text can lead to is bounded first.

use promql_parser::parser::Expr;

use crate::error::Error;
use crate::limits::Limits;

/// Brackets open at a time.
const NESTING_MAX: usize = 128;
/// Operators in a query; a chain of them makes a tree as deep as it is long.
const OPERATORS_MAX: usize = 1000;
/// The parser panics on longer durations that are written as numbers (seconds).
const SECONDS_MAX: f64 = 9_223_372_036.0;

fn parse_error(text: impl AsRef<str>) -> Error {
    Error::bad_data(format!("parse error: {}", text.as_ref()))
}

pub(super) fn check(query: &str, limits: &Limits) -> Result<(), Error> {
    if query.len() > limits.query_bytes_max {
        let bytes_max = limits.query_bytes_max;
        return Err(parse_error(format!("the query is longer than {bytes_max} bytes")));
    }
    let mut nesting = 0_usize;
    let mut operators = 0_usize;
    let mut word = String::new();
    let mut previous = String::new();
    let mut chars = query.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() || matches!(c, '_' | '.' | ':') {
            word.push(c);
            continue;
        }
        operators += end_word(&mut word, &mut previous)?;
        match c {
            '"' | '\'' | '`' => {
                while let Some(inner) = chars.next() {
                    if inner == '\\' && c != '`' {
                        chars.next();
                    } else if inner == c {
                        break;
                    }
                }
                previous.clear();
            }
            '#' => while chars.next_if(|inner| *inner != '\n').is_some() {},
            '(' | '[' | '{' => {
                nesting += 1;
                previous = c.to_string();
            }
            ')' | ']' | '}' => nesting = nesting.saturating_sub(1),
            '+' | '-' | '*' | '/' | '%' | '^' | '<' | '>' | '=' | '!' => operators += 1,
            _ => {}
        }
        if nesting > NESTING_MAX {
            return Err(parse_error(format!("more than {NESTING_MAX} brackets are open at a time")));
        }
        if operators > OPERATORS_MAX {
            return Err(parse_error(format!("more than {OPERATORS_MAX} operators")));
        }
    }
    end_word(&mut word, &mut previous)?;
    Ok(())
}

/// Whether a word is an operator. Numbers that stand where a duration is expected must be possible ones.
fn end_word(word: &mut String, previous: &mut String) -> Result<usize, Error> {
    if word.is_empty() {
        return Ok(0);
    }
    let lower = std::mem::take(word).to_lowercase();
    let expects_duration = previous == "[" || previous == "offset";
    if expects_duration {
        let digits = lower.trim_start_matches(':');
        let out_of_range = match digits.parse::<f64>() {
            Ok(seconds) => !(0.0..SECONDS_MAX).contains(&seconds),
            Err(_) => false,
        };
        if out_of_range || lower.len() > 40 {
            return Err(parse_error("duration out of range"));
        }
    }
    let is_operator = matches!(lower.as_str(), "and" | "or" | "unless" | "atan2");
    *previous = lower;
    Ok(usize::from(is_operator))
}

pub(super) fn parse(query: &str) -> Result<Expr, Error> {
    // The parser is not free of panics. A query must not bring down its thread.
    match std::panic::catch_unwind(|| promql_parser::parser::parse(query)) {
        Ok(Ok(expr)) => Ok(expr),
        Ok(Err(text)) => Err(parse_error(text)),
        Err(_) => Err(parse_error("invalid promql query")),
    }
}
