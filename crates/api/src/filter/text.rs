//! The text form of the filter language:
//! `not (a = 1 or b in ["x", 'y']) and id != 5dfe182a-51d2-4122-b90b-df0f215b736e`.
//!
//! Accepts exactly Gnocchi's grammar. A term is the first kind that matches a prefix, so `nullable` is `null`
//! and an unexpected rest, `notes = 1` is `not es = 1`, and `==` is an error. A chain of one connective is
//! reversed, as in Gnocchi. `json` validates the result. Operator precedence with explicit stacks, no
//! recursion.

use std::fmt::Display;

use gnudi_app::json::Value;
use gnudi_indexer::filter::{FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX};
use gnudi_model::python::expand_tabs;

use super::json::NOT;
use crate::pyparsing::{place, word};

/// A syntax error, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

/// Parses a text to the equivalent document.
pub fn document(text: &str) -> Result<Value, Fault> {
    let text = expand_tabs(text);
    Reader { text: &text, at: 0 }.document()
}

/// In matching order: an operator before its prefixes, except `=`, which hides `==` as in Gnocchi.
const COMPARISONS: [&str; 18] =
    [">=", "<=", "!=", ">", "<", "=", "==", "eq", "ne", "lt", "gt", "ge", "le", "in", "like", "≠", "≥", "≤"];

/// By descending precedence; `not` binds tighter than all.
const CONNECTIVES: [&str; 4] = ["and", "∧", "or", "∨"];

/// Gnocchi's error for a missing closing parenthesis.
const UNBALANCED: &str = "Unbalanced parentheses or expression syntax error";

/// An operator that waits for its right operand.
enum Pending {
    Not,
    /// A chain: the index in [`CONNECTIVES`], and its number of connectives.
    Chain(usize, usize),
    Parenthesis,
}

impl Pending {
    /// Whether it binds tighter than a connective.
    fn binds_more_than(&self, connective: usize) -> bool {
        match self {
            Pending::Not => true,
            Pending::Chain(place, _) => *place < connective,
            Pending::Parenthesis => false,
        }
    }
}

/// A complete part of the filter, and its depth.
struct Operand {
    document: Value,
    depth: usize,
}

/// The parser's stacks.
#[derive(Default)]
struct Stacks {
    operands: Vec<Operand>,
    waiting: Vec<Pending>,
}

impl Stacks {
    fn pop_operand(&mut self) -> Operand {
        self.operands.pop().expect("each connective has operands on its sides")
    }

    /// Applies the pending operators that bind tighter than `connective`; `None` if the result nests too
    /// deep.
    fn reduce(&mut self, connective: usize) -> Option<()> {
        while self.waiting.last().is_some_and(|waiting| waiting.binds_more_than(connective)) {
            let operand = if let Some(Pending::Chain(place, count)) = self.waiting.pop() {
                self.chain(CONNECTIVES[place], count)
            } else {
                let Operand { document, depth } = self.pop_operand();
                Operand { document: Value::object([(NOT, document)]), depth: depth + 1 }
            };
            if operand.depth >= FILTER_DEPTH_MAX {
                return None;
            }
            self.operands.push(operand);
        }
        Some(())
    }

    /// Joins the operands of a chain, the last first. A last operand that is itself a chain of this
    /// connective is merged.
    fn chain(&mut self, connective: &str, count: usize) -> Operand {
        let Operand { document: last, mut depth } = self.pop_operand();
        let mut items = match last {
            Value::Object(mut entries) if entries[0].0 == connective => match entries.pop() {
                Some((_, Value::Array(items))) => {
                    depth -= 1;
                    items
                }
                _ => unreachable!("a connective has a list"),
            },
            document => vec![document],
        };
        for _ in 0..count {
            let operand = self.pop_operand();
            depth = depth.max(operand.depth);
            items.push(operand.document);
        }
        Operand { document: Value::object([(connective, Value::Array(items))]), depth: depth + 1 }
    }
}

struct Reader<'t> {
    text: &'t str,
    /// In bytes.
    at: usize,
}

impl<'t> Reader<'t> {
    fn document(mut self) -> Result<Value, Fault> {
        let mut stacks = Stacks::default();
        let mut open = 0;
        let mut conditions = 0;
        loop {
            self.operand(&mut stacks, &mut open)?;
            conditions += 1;
            if conditions + stacks.waiting.len() > FILTER_CONDITIONS_MAX {
                return Err(self.fault(format!("Expected at most {FILTER_CONDITIONS_MAX} conditions")));
            }
            while open > 0 && self.symbol(")") {
                stacks.reduce(CONNECTIVES.len()).ok_or_else(|| self.too_deep())?;
                stacks.waiting.pop();
                open -= 1;
            }
            let Some(connective) = CONNECTIVES.iter().position(|word| self.symbol(word)) else { break };
            stacks.reduce(connective).ok_or_else(|| self.too_deep())?;
            match stacks.waiting.last_mut() {
                Some(Pending::Chain(place, count)) if *place == connective => *count += 1,
                _ => stacks.waiting.push(Pending::Chain(connective, 1)),
            }
        }
        if open > 0 {
            return Err(self.fault(UNBALANCED));
        }
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.fault("Expected end of text"));
        }
        stacks.reduce(CONNECTIVES.len()).ok_or_else(|| self.too_deep())?;
        Ok(stacks.pop_operand().document)
    }

    /// A condition, after any number of `not` and opening parentheses.
    fn operand(&mut self, stacks: &mut Stacks, open: &mut usize) -> Result<(), Fault> {
        loop {
            if stacks.waiting.len() > FILTER_CONDITIONS_MAX {
                return Err(self.fault(format!("Expected at most {FILTER_CONDITIONS_MAX} connectives")));
            }
            if self.symbol(NOT) {
                stacks.waiting.push(Pending::Not);
                continue;
            }
            let start = self.at;
            if let Some(document) = self.condition() {
                stacks.operands.push(Operand { document, depth: 0 });
                return Ok(());
            }
            self.at = start;
            if !self.symbol("(") {
                self.skip_space();
                return Err(self.fault("Expected a field, an operator and a value"));
            }
            stacks.waiting.push(Pending::Parenthesis);
            *open += 1;
        }
    }

    /// `field operator value`. Gnocchi's grammar allows fields that are no texts, but its schema refuses
    /// them.
    fn condition(&mut self) -> Option<Value> {
        let Value::Str(field) = self.term()? else { return None };
        self.skip_space();
        let comparison = COMPARISONS.into_iter().find(|word| self.symbol(word))?;
        let start = self.at;
        let value = self.term().or_else(|| {
            self.at = start;
            self.list()
        })?;
        Some(Value::object([(comparison, Value::Object(vec![(field, value)]))]))
    }

    /// `[term, ...]`; nested lists are always refused.
    fn list(&mut self) -> Option<Value> {
        let mut items = Vec::new();
        if !self.symbol("[") {
            return None;
        }
        if self.symbol("]") {
            return Some(Value::Array(items));
        }
        loop {
            items.push(self.term()?);
            if self.symbol("]") {
                return Some(Value::Array(items));
            }
            if !self.symbol(",") {
                return None;
            }
        }
    }

    /// Any value except a list.
    fn term(&mut self) -> Option<Value> {
        if ["None", "none", "null"].into_iter().any(|word| self.symbol(word)) {
            return Some(Value::Null);
        }
        if ["False", "false"].into_iter().any(|word| self.symbol(word)) {
            return Some(Value::Bool(false));
        }
        if ["True", "true"].into_iter().any(|word| self.symbol(word)) {
            return Some(Value::Bool(true));
        }
        self.skip_space();
        if let Some(length) = uuid_length(self.rest()) {
            return Some(Value::from(self.take(length)));
        }
        if self.rest().starts_with(|character: char| character.is_ascii_alphabetic()) {
            let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
            let length = self.rest().find(|character| !is_word(character)).unwrap_or(self.rest().len());
            return Some(Value::from(self.take(length)));
        }
        if let Some(length) = number_length(self.rest()) {
            // Gnocchi's grammar allows a colon here by mistake; its conversion then fails.
            return self.take(length).parse().ok().map(Value::Float);
        }
        self.quoted()
    }

    /// A text in single or double quotes, on one line; only the escapes for white space are interpreted.
    fn quoted(&mut self) -> Option<Value> {
        let quote = self.rest().chars().next().filter(|character| matches!(character, '"' | '\''))?;
        let inner = &self.rest()[1..];
        let length = inner.find([quote, '\n', '\r']).filter(|end| inner[*end..].starts_with(quote))?;
        self.at += length + 2;
        let mut text = String::with_capacity(length);
        let mut characters = inner[..length].chars().peekable();
        while let Some(character) = characters.next() {
            let escaped = match characters.peek() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('f') => '\u{c}',
                Some('r') => '\r',
                _ => '\\',
            };
            if character == '\\' && escaped != '\\' {
                characters.next();
                text.push(escaped);
            } else {
                text.push(character);
            }
        }
        Some(Value::Str(text))
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn take(&mut self, length: usize) -> &'t str {
        let taken = &self.rest()[..length];
        self.at += length;
        taken
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches([' ', '\n', '\t', '\r']).len();
    }

    /// Skips white space and consumes the symbol, if it comes next.
    fn symbol(&mut self, symbol: &str) -> bool {
        let start = self.at;
        self.skip_space();
        let found = self.rest().starts_with(symbol);
        self.at = if found { self.at + symbol.len() } else { start };
        found
    }

    fn too_deep(&self) -> Fault {
        self.fault(format!("Expected at most {FILTER_DEPTH_MAX} levels of connectives"))
    }

    fn fault(&self, message: impl Display) -> Fault {
        let (before, rest) = self.text.split_at(self.at);
        let found = word(rest).map_or_else(String::new, |word| format!(", found '{word}'"));
        Fault(format!("{message}{found}  {}", place(before)))
    }
}

/// The length of a UUID at the start of the text. Hyphens are optional; anything may follow.
fn uuid_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for (index, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 && bytes.get(at) == Some(&b'-') {
            at += 1;
        }
        if !bytes.get(at..at + digits)?.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        at += digits;
    }
    Some(at)
}

/// The length of a number at the start of the text: `[+-]?\d+(:?\.\d*)?(:?[eE][+-]?\d+)?`.
fn number_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(at);
    if whole == 0 {
        return None;
    }
    at += whole;
    let colon = usize::from(bytes.get(at) == Some(&b':'));
    if bytes.get(at + colon) == Some(&b'.') {
        at += colon + 1;
        at += digits(at);
    }
    let colon = usize::from(bytes.get(at) == Some(&b':'));
    if matches!(bytes.get(at + colon), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + colon + 1), Some(b'+' | b'-')));
        let start = at + colon + 1 + sign;
        let exponent = bytes.get(start..).map_or(0, |_| digits(start));
        if exponent > 0 {
            at = start + exponent;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        document(text).map_or_else(|fault| fault.to_string(), |document| document.to_json())
    }

    #[test]
    fn connectives_bind_in_their_order() {
        for (text, expected) in [
            ("a=1", r#"{"=": {"a": 1.0}}"#),
            ("a=1 and b=2 and c=3", r#"{"and": [{"=": {"c": 3.0}}, {"=": {"b": 2.0}}, {"=": {"a": 1.0}}]}"#),
            (
                "a=1 or b=2 and c=3",
                r#"{"or": [{"and": [{"=": {"c": 3.0}}, {"=": {"b": 2.0}}]}, {"=": {"a": 1.0}}]}"#,
            ),
            (
                "a=1 and (b=2 and c=3)",
                r#"{"and": [{"=": {"c": 3.0}}, {"=": {"b": 2.0}}, {"=": {"a": 1.0}}]}"#,
            ),
            (
                "(a=1 and b=2) and c=3",
                r#"{"and": [{"=": {"c": 3.0}}, {"and": [{"=": {"b": 2.0}}, {"=": {"a": 1.0}}]}]}"#,
            ),
            ("not not(a=1)", r#"{"not": {"not": {"=": {"a": 1.0}}}}"#),
            ("not a=1 and b=2", r#"{"and": [{"=": {"b": 2.0}}, {"not": {"=": {"a": 1.0}}}]}"#),
            (
                "((a=1))or b in[x,\"y z\", null]",
                r#"{"or": [{"in": {"b": ["x", "y z", null]}}, {"=": {"a": 1.0}}]}"#,
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn terms_are_the_first_kind_that_fits() {
        for (text, expected) in [
            ("eq eq eq", r#"{"eq": {"eq": "eq"}}"#),
            ("notes='x'", r#"{"not": {"=": {"es": "x"}}}"#),
            ("a like 'b\\tc\\\\x'", r#"{"like": {"a": "b\tc\\\\x"}}"#),
            ("a=1order=2", r#"{"or": [{"=": {"der": 2.0}}, {"=": {"a": 1.0}}]}"#),
            ("\"a b\"\t=\t'\t'", r#"{"=": {"a b": "       "}}"#),
            (
                "id=5dfe182a51d2-4122-b90bdf0f215b736e",
                r#"{"=": {"id": "5dfe182a51d2-4122-b90bdf0f215b736e"}}"#,
            ),
            ("a=-1.5e+3", r#"{"=": {"a": -1500.0}}"#),
            ("a=5.", r#"{"=": {"a": 5.0}}"#),
            ("a=True", r#"{"=": {"a": true}}"#),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        let refused = |text: &str| format!("Expected a field, an operator and a value{text}");
        for (text, expected) in [
            ("", refused("  (at char 0), (line:1, col:1)")),
            ("id == foobar", refused(", found 'id'  (at char 0), (line:1, col:1)")),
            ("nullable=1", refused(", found 'nullable'  (at char 0), (line:1, col:1)")),
            ("1=1", refused(", found '1'  (at char 0), (line:1, col:1)")),
            ("a=1 and\n (+", refused(", found '+'  (at char 10), (line:2, col:3)")),
            ("a=\"x", refused(", found 'a'  (at char 0), (line:1, col:1)")),
            ("a=1:.5", refused(", found 'a'  (at char 0), (line:1, col:1)")),
            ("a in [1,]", refused(", found 'a'  (at char 0), (line:1, col:1)")),
            ("a in [[1]]", refused(", found 'a'  (at char 0), (line:1, col:1)")),
            ("a=truex", "Expected end of text, found 'x'  (at char 6), (line:1, col:7)".to_owned()),
            ("a=1)", "Expected end of text, found ')'  (at char 3), (line:1, col:4)".to_owned()),
            ("(a=1", format!("{UNBALANCED}  (at char 4), (line:1, col:5)")),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn size_is_bounded() {
        let nested = |depth: usize| format!("{}a=1", "not ".repeat(depth));
        assert!(document(&nested(FILTER_DEPTH_MAX - 1)).is_ok());
        assert!(document(&nested(FILTER_DEPTH_MAX)).is_err());
        assert!(document(&"(".repeat(60_000)).is_err());
        assert!(document(&"not ".repeat(15_000)).is_err());
        assert!(document(&format!("{}a=1{}", "(".repeat(900), ")".repeat(900))).is_ok());
        let chain = |count: usize| vec!["a=1"; count].join(" or ");
        assert!(document(&chain(FILTER_CONDITIONS_MAX - 1)).is_ok());
        assert!(document(&chain(FILTER_CONDITIONS_MAX + 1)).is_err());
    }
}
