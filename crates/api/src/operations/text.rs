//! Parses the text form of operations, `(+ (metric cpu.util mean) 2)`, to nested lists as in the JSON form.
//!
//! Atoms are texts, even if they look like numbers. A quoted atom keeps its quotes and may contain blanks and
//! parentheses. Text after the first list is ignored, as in Gnocchi, whose grammar is pyparsing's
//! `nestedExpr`.

use gnudi_app::json::{Value, repr_str};
use gnudi_model::python::expand_tabs;

use crate::pyparsing::{place, word};

/// The maximum nesting: that of operations, plus the lists of names in a metric node.
pub const DEPTH_MAX: usize = gnudi_series::operations::DEPTH_MAX + 1;

/// A syntax error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// In pyparsing's words.
    #[error("{0}")]
    Expected(String),
    #[error("operations may be nested {} deep", gnudi_series::operations::DEPTH_MAX)]
    Depth,
}

/// Parses the first list in the text.
///
/// # Errors
/// If the text does not begin with a list, or ends within it, or nests deeper than [`DEPTH_MAX`].
pub fn list(text: &str) -> Result<Value, Fault> {
    let characters: Vec<char> = expand_tabs(text).chars().collect();
    let mut reader = Reader::new(&characters);
    reader.skip_space();
    if reader.next() != Some('(') {
        return Err(reader.expected('('));
    }
    reader.at += 1;
    let mut outer: Vec<Vec<Value>> = Vec::new();
    let mut items = Vec::new();
    loop {
        reader.skip_space();
        match reader.next() {
            None => return Err(reader.expected(')')),
            Some('(') => {
                if outer.len() + 1 == DEPTH_MAX {
                    return Err(Fault::Depth);
                }
                reader.at += 1;
                outer.push(std::mem::take(&mut items));
            }
            Some(')') => {
                reader.at += 1;
                let list = Value::Array(std::mem::take(&mut items));
                let Some(around) = outer.pop() else { return Ok(list) };
                items = around;
                items.push(list);
            }
            Some(_) => items.push(reader.atom()),
        }
    }
}

const fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\n' | '\r' | '\t')
}

struct Reader<'t> {
    characters: &'t [char],
    at: usize,
    /// For each kind of quote and each place: whether a search from there found no closing quote. So each place is searched
    /// once, not for each quote before it, and the time is linear in the text's length.
    unclosed: [Vec<bool>; 2],
}

impl<'t> Reader<'t> {
    fn new(characters: &'t [char]) -> Self {
        Reader { characters, at: 0, unclosed: Default::default() }
    }

    fn next(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.next().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// A quoted text, or characters up to a blank, a parenthesis or a quoted text.
    fn atom(&mut self) -> Value {
        let start = self.at;
        if let Some(length) = self.quoted() {
            self.at += length;
        } else {
            self.at += 1;
            while let Some(character) = self.next() {
                let ends = is_space(character) || matches!(character, '(' | ')') || self.quoted().is_some();
                if ends {
                    break;
                }
                self.at += 1;
            }
        }
        Value::Str(self.characters[start..self.at].iter().collect())
    }

    /// The length of the quoted text that begins here, in characters, with its quotes.
    fn quoted(&mut self) -> Option<usize> {
        let quote = self.next().filter(|first| matches!(first, '"' | '\''))?;
        let unclosed = &mut self.unclosed[usize::from(quote == '"')];
        let mut at = self.at + 1;
        while !unclosed.get(at).is_some_and(|unclosed| *unclosed) {
            match step(self.characters, at, quote) {
                Step::To(next) => at = next,
                Step::Closed => return Some(at + 1 - self.at),
                Step::Unclosed => break,
            }
        }
        unclosed.resize(self.characters.len() + 1, false);
        let mut at = self.at + 1;
        while !std::mem::replace(&mut unclosed[at], true) {
            let Step::To(next) = step(self.characters, at, quote) else { break };
            at = next;
        }
        None
    }

    fn expected(&self, parenthesis: char) -> Fault {
        let (before, rest) = self.characters.split_at(self.at);
        let (before, rest) = (String::from_iter(before), String::from_iter(rest));
        let found = match word(&rest) {
            Some(word) => format!(", found {}", repr_str(&word).replace("\\\\", "\\")),
            None if before.is_empty() => String::new(),
            None => ", found end of text".to_owned(),
        };
        Fault::Expected(format!("Expected '{parenthesis}'{found}  {}", place(&before)))
    }
}

/// The result of a step through a quoted text.
enum Step {
    To(usize),
    Closed,
    Unclosed,
}

/// Steps over one element of a quoted text: a character, or an escape. `at` is behind the opening quote.
///
/// A doubled quote, or a backslash and its next character, do not end the text. A newline before the closing quote
/// is allowed only after a backslash.
fn step(characters: &[char], at: usize, quote: char) -> Step {
    let Some(first) = characters.get(at) else { return Step::Unclosed };
    match (first, characters.get(at + 1)) {
        ('\\', Some('x')) => {
            match characters[at + 2..].iter().take_while(|character| character.is_ascii_hexdigit()).count() {
                0 => Step::Unclosed,
                digits => Step::To(at + 2 + digits),
            }
        }
        ('\\', Some(_)) => Step::To(at + 2),
        ('\\' | '\n' | '\r', _) => Step::Unclosed,
        (first, second) if *first == quote => {
            if second == Some(&quote) {
                Step::To(at + 2)
            } else {
                Step::Closed
            }
        }
        _ => Step::To(at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_text(text: &str) -> String {
        list(text).map_or_else(|fault| fault.to_string(), |value| value.repr())
    }

    /// The errors of pyparsing 3.3.
    #[test]
    fn lists_are_read_as_pyparsing_reads_them() {
        for (text, expected) in [
            ("(metroc foo bar", "Expected ')', found end of text  (at char 15), (line:1, col:16)"),
            ("foo", "Expected '(', found 'foo'  (at char 0), (line:1, col:1)"),
            ("", "Expected '('  (at char 0), (line:1, col:1)"),
            ("   ", "Expected '(', found end of text  (at char 3), (line:1, col:4)"),
            ("(a (b)", "Expected ')', found end of text  (at char 6), (line:1, col:7)"),
            (")", "Expected '(', found ')'  (at char 0), (line:1, col:1)"),
            ("\n\n (a", "Expected ')', found end of text  (at char 5), (line:3, col:4)"),
            ("\u{feff}(a)", "Expected '(', found '\u{feff}'  (at char 0), (line:1, col:1)"),
            ("()", "[]"),
            ("(a))", "['a']"),
            ("(a) (b", "['a']"),
            ("(a 'b c' d)", "['a', \"'b c'\", 'd']"),
            ("(a 'b c d)", "['a', \"'b\", 'c', 'd']"),
            (r#"(a "b\"c" d)"#, r#"['a', '"b\\"c"', 'd']"#),
            ("(a 'b''c' d)", "['a', \"'b''c'\", 'd']"),
            ("(a x'b c'd e)", "['a', 'x', \"'b c'\", 'd', 'e']"),
            ("(a\tb\nc)", "['a', 'b', 'c']"),
            ("(a 'b\tc')", "['a', \"'b   c'\"]"),
            ("((a)(b ()))", "[['a'], ['b', []]]"),
            ("(é ≤ 1)", "['é', '≤', '1']"),
            ("(a\u{b}b)", "['a\\x0bb']"),
            ("(a\u{2003} b)", "['a\u{2003}', 'b']"),
            ("(\"a\nb\")", "['\"a', 'b\"']"),
            ("(a\\)b)", "['a\\\\']"),
            ("(a 'x(y)z' b)", "['a', \"'x(y)z'\", 'b']"),
            ("(a '' b)", "['a', \"''\", 'b']"),
            ("(a '\\x4g h' b)", "['a', \"'\\\\x4g h'\", 'b']"),
            ("(a '\\xg h' b)", "['a', \"'\\\\xg\", \"h'\", 'b']"),
            ("(a '\\\n' b)", "['a', \"'\\\\\\n'\", 'b']"),
            ("(a '\\", "Expected ')', found end of text  (at char 5), (line:1, col:6)"),
        ] {
            assert_eq!(error_text(text), expected, "{text:?}");
        }
    }

    #[test]
    fn quotes_that_are_never_closed_are_searched_once() {
        // Searched anew for each quote, this takes minutes.
        let text = format!("(a {}", r#"\""#.repeat(500_000));
        assert!(error_text(&text).starts_with("Expected ')', found end of text"));
    }

    #[test]
    fn what_is_known_of_other_quotes_changes_nothing() {
        const LETTERS: [char; 7] = ['a', '"', '\'', '\\', 'x', '1', '\n'];
        for number in 0..LETTERS.len().pow(5) {
            let letter = |place| LETTERS[number / LETTERS.len().pow(place) % LETTERS.len()];
            let characters: Vec<char> = (0..5).map(letter).collect();
            let mut reader = Reader::new(&characters);
            for at in 0..characters.len() {
                reader.at = at;
                let mut afresh = Reader { at, ..Reader::new(&characters) };
                assert_eq!(reader.quoted(), afresh.quoted(), "{characters:?} at {at}");
            }
        }
    }

    #[test]
    fn lists_nest_only_so_deep() {
        let nested = |depth| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(list(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(list(&nested(DEPTH_MAX + 1)), Err(Fault::Depth));
        assert_eq!(list(&"(".repeat(1_000_000)), Err(Fault::Depth));
    }
}
