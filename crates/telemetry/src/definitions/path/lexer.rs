//! Splits a path into tokens.

use crate::definitions::DefinitionError;

/// A longer path is rejected.
const PATH_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq)]
pub enum PathToken {
    /// A name, bare or quoted.
    Name(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    /// The text between backquotes.
    Operator(String),
    /// `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `~`
    Comparison(&'static str),
    /// `/` (ascending) or `\` (descending), optionally after a comma.
    Sort {
        descending: bool,
    },
    DoubleDot,
    Where,
    Sign(char),
}

/// Longer ones before their prefixes.
const COMPARISONS: [&str; 8] = ["==", "<=", ">=", "!=", "=", "<", ">", "~"];

const SIGNS: &str = "*.[]()$,:|&?@+-";

/// The tokens of a text.
pub fn read(text: &str) -> Result<Vec<PathToken>, DefinitionError> {
    if text.len() > PATH_BYTES_MAX {
        return Err(DefinitionError(format!("a path of more than {PATH_BYTES_MAX} bytes")));
    }
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn error(&self, what: &str) -> DefinitionError {
        DefinitionError(format!("column {}: {what}", self.text[..self.at].chars().count() + 1))
    }

    /// The order of the cases is that of jsonpath-rw-ext: a text that begins with `true` is not a name, and `/` always
    /// sorts.
    fn next(&mut self) -> Result<Option<PathToken>, DefinitionError> {
        loop {
            self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
            for (word, value) in [("true", true), ("false", false)] {
                if self.rest().starts_with(word) {
                    self.at += word.len();
                    return Ok(Some(PathToken::Bool(value)));
                }
            }
            if let Some(token) = self.sort().or_else(|| self.name()) {
                return Ok(Some(token));
            }
            if let Some(token) = self.number()? {
                return Ok(Some(token));
            }
            let Some(first) = self.rest().chars().next() else { return Ok(None) };
            match first {
                '\'' | '"' => return self.quoted(first).map(|text| Some(PathToken::Name(text))),
                '`' => return self.quoted(first).map(|text| Some(PathToken::Operator(text))),
                '\n' => self.at += 1,
                _ => return self.sign(first).map(Some),
            }
        }
    }

    fn sort(&mut self) -> Option<PathToken> {
        let rest = self.rest();
        let rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        let descending = match rest.as_bytes().first()? {
            b'/' => false,
            b'\\' => true,
            _ => return None,
        };
        self.at = self.text.len() - rest.len() + 1;
        Some(PathToken::Sort { descending })
    }

    fn name(&mut self) -> Option<PathToken> {
        let rest = self.rest();
        let head = usize::from(rest.starts_with('@'));
        let is_head = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
        rest.as_bytes().get(head).filter(|byte| is_head(byte))?;
        let is_tail = |byte: &u8| byte.is_ascii_alphanumeric() || b"_@-".contains(byte);
        let length = head + rest.as_bytes()[head..].iter().take_while(|byte| is_tail(byte)).count();
        let name = rest[..length].to_owned();
        self.at += length;
        Some(if name == "where" { PathToken::Where } else { PathToken::Name(name) })
    }

    fn number(&mut self) -> Result<Option<PathToken>, DefinitionError> {
        let rest = self.rest();
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let sign = usize::from(rest.starts_with('-'));
        let whole = digits(&rest[sign..]);
        if whole == 0 {
            return Ok(None);
        }
        let mut length = sign + whole;
        let fraction = rest[length..].strip_prefix('.').map_or(0, digits);
        if fraction > 0 {
            length += 1 + fraction;
        }
        let number = &rest[..length];
        let token = if fraction > 0 {
            number.parse().ok().filter(|number: &f64| number.is_finite()).map(PathToken::Float)
        } else {
            number.parse().ok().map(PathToken::Integer)
        };
        let token = token.ok_or_else(|| self.error("a number that is too large"))?;
        self.at += length;
        Ok(Some(token))
    }

    fn quoted(&mut self, quote: char) -> Result<String, DefinitionError> {
        let mut text = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => match characters.next() {
                    Some((_, escaped)) if escaped != '\n' => text.push(escaped),
                    _ => return Err(self.error("a backslash before nothing")),
                },
                _ if character == quote => {
                    self.at += at + 1;
                    return Ok(text);
                }
                _ => text.push(character),
            }
        }
        Err(self.error("a quote that nothing closes"))
    }

    fn sign(&mut self, first: char) -> Result<PathToken, DefinitionError> {
        if let Some(comparison) = COMPARISONS.into_iter().find(|sign| self.rest().starts_with(sign)) {
            self.at += comparison.len();
            return Ok(PathToken::Comparison(comparison));
        }
        if self.rest().starts_with("..") {
            self.at += 2;
            return Ok(PathToken::DoubleDot);
        }
        if !SIGNS.contains(first) {
            return Err(self.error(&format!("an unexpected {first:?}")));
        }
        self.at += 1;
        Ok(PathToken::Sign(first))
    }
}
