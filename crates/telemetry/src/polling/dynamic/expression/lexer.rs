//! Splits an expression into tokens.

use serde_json::{Number, Value};

use super::{Result, error};

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Constant(Value),
    /// The text between the quotes of `f"..."`, escapes resolved.
    Formatted(String),
    /// A name or a keyword.
    Word(String),
    Symbol(&'static str),
}

/// Longest first.
const SYMBOLS: [&str; 23] = [
    "**", "//", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", "{", "}", ",",
    ":", ".", "=",
];

pub fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut lexer = Lexer { rest: text };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.token()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    fn token(&mut self) -> Result<Option<Token>> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        if first == '\'' || first == '"' {
            return self.text(false).map(|text| Some(Token::Constant(text.into())));
        }
        if let Some(is_raw) = prefix(self.rest) {
            let kind = first.to_ascii_lowercase();
            self.rest = &self.rest[1..];
            let text = self.text(is_raw)?;
            return Ok(Some(if kind == 'f' { Token::Formatted(text) } else { Token::Constant(text.into()) }));
        }
        let is_point = first == '.' && self.rest[1..].starts_with(|next: char| next.is_ascii_digit());
        if first.is_ascii_digit() || is_point {
            return self.number().map(|number| Some(Token::Constant(number)));
        }
        if first.is_alphabetic() || first == '_' {
            return Ok(Some(Token::Word(
                self.take(|letter| letter.is_alphanumeric() || letter == '_').to_owned(),
            )));
        }
        let symbol = SYMBOLS.into_iter().find(|symbol| self.rest.starts_with(symbol));
        let symbol = symbol.ok_or_else(|| error(format!("{first:?} means nothing here")))?;
        self.rest = &self.rest[symbol.len()..];
        Ok(Some(Token::Symbol(symbol)))
    }

    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|letter| !fits(letter)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn number(&mut self) -> Result<Value> {
        let digit = |letter: char| letter.is_ascii_digit() || letter == '_';
        let mut text = self.take(digit).to_owned();
        let mut is_float = false;
        if let Some(rest) = self.rest.strip_prefix('.') {
            self.rest = rest;
            is_float = true;
            text.push('.');
            text.push_str(self.take(digit));
        }
        let exponent =
            self.rest.strip_prefix(['e', 'E']).map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
        if exponent.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())) {
            is_float = true;
            let signed = self.rest.len() - exponent.map_or(0, str::len);
            text.push_str(&self.rest[..signed]);
            self.rest = &self.rest[signed..];
            text.push_str(self.take(digit));
        }
        let wrong = || error(format!("{text} is no number that is known here"));
        if self.rest.starts_with(|next: char| next.is_alphanumeric()) {
            return Err(wrong());
        }
        let digits = text.replace('_', "");
        let has_leading_zero =
            digits.len() > 1 && digits.starts_with('0') && digits.bytes().any(|digit| digit != b'0');
        if is_float {
            let number = digits.parse::<f64>().ok().and_then(Number::from_f64);
            return number.map(Value::Number).ok_or_else(wrong);
        }
        if has_leading_zero {
            return Err(wrong());
        }
        digits.parse::<i64>().map(Value::from).map_err(|_| wrong())
    }

    /// A text literal, from its opening quote.
    fn text(&mut self, is_raw: bool) -> Result<String> {
        let quote = self.rest.chars().next().unwrap_or_default();
        if self.rest.starts_with(&quote.to_string().repeat(3)) {
            return Err(error("texts in three quotes are not supported"));
        }
        let mut letters = self.rest[1..].char_indices();
        let mut text = String::new();
        while let Some((at, letter)) = letters.next() {
            if letter == quote {
                self.rest = &self.rest[1 + at + 1..];
                return Ok(text);
            }
            if letter != '\\' {
                text.push(letter);
                continue;
            }
            let (_, escaped) = letters.next().ok_or_else(|| error("a text without an end"))?;
            if is_raw {
                text.extend([letter, escaped]);
                continue;
            }
            let mut code = |digits: usize| {
                let hex: String = letters.by_ref().take(digits).map(|(_, digit)| digit).collect();
                let number = u32::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == digits);
                number
                    .and_then(char::from_u32)
                    .ok_or_else(|| error(format!("\\{escaped}{hex} is no character")))
            };
            match escaped {
                '\\' | '\'' | '"' => text.push(escaped),
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'x' => text.push(code(2)?),
                'u' => text.push(code(4)?),
                'U' => text.push(code(8)?),
                '0'..='7' | 'a' | 'b' | 'f' | 'v' | 'N' | '\n' => {
                    return Err(error(format!("the escape \\{escaped} is not supported")));
                }
                other => text.extend(['\\', other]),
            }
        }
        Err(error("a text without an end"))
    }
}

/// Whether these letters before a quote are a prefix of a text, and whether it is raw.
fn prefix(text: &str) -> Option<bool> {
    let mut letters = text.chars();
    let (first, second) = (letters.next()?.to_ascii_lowercase(), letters.next()?);
    let begins = matches!(second, '\'' | '"') && matches!(first, 'r' | 'f' | 'u');
    begins.then_some(first == 'r')
}
