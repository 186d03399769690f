//! Splits a query into tokens. The meaning of a character depends on the context: within braces, within brackets, or
//! outside.

use super::token::{Kind, Token, word};
use crate::letters::is_letter;
use crate::quoted::{code_point, quoted_char};

/// The context of the next token.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Usual,
    Braces,
    /// Within brackets, where a duration is expected.
    Length,
}

#[derive(Default)]
struct Lexer<'t> {
    text: &'t str,
    /// The next byte, and the first one of the token.
    at: usize,
    start: usize,
    place: Place,
    parens: usize,
    in_brackets: bool,
    had_colon: bool,
    had_duration: bool,
    tokens: Vec<Token<'t>>,
}

/// Operators that are no words, longer ones first.
const SIGNS: [&str; 15] = ["==", "!=", "<=", "</", ">=", ">/", "<", ">", "*", "/", "%", "+", "-", "^", "@"];

/// The next token, or why there is none.
type Lexed = Result<Kind, String>;

/// All tokens; the last one is the end or an error.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { text, ..Lexer::default() };
    loop {
        lexer.skip_blanks();
        let lexed = match lexer.place {
            Place::Usual => lexer.usual(),
            Place::Braces => lexer.in_braces(),
            Place::Length => lexer.length(),
        };
        let kind = lexed.unwrap_or_else(Kind::Fault);
        let is_last = matches!(kind, Kind::End | Kind::Fault(_));
        lexer.emit(kind);
        if is_last {
            return lexer.tokens;
        }
    }
}

fn is_name_start(c: char) -> bool {
    c == '_' || is_letter(c)
}

fn is_name_part(c: char) -> bool {
    is_name_start(c) || c.is_ascii_digit() || c == '.'
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn accept(&mut self, allowed: &str) -> bool {
        let accepted = self.peek().is_some_and(|c| allowed.contains(c));
        if accepted {
            self.next();
        }
        accepted
    }

    fn skip_while(&mut self, skipped: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&skipped) {
            self.next();
        }
    }

    /// Spaces, and comments where they may stand.
    fn skip_blanks(&mut self) {
        loop {
            self.skip_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
            if self.place == Place::Length || self.peek() != Some('#') {
                break;
            }
            self.skip_while(|c| !matches!(c, '\n' | '\r'));
        }
        self.start = self.at;
    }

    fn emit(&mut self, kind: Kind) {
        self.tokens.push(Token { kind, text: &self.text[self.start..self.at], start: self.start });
        self.start = self.at;
    }

    fn usual(&mut self) -> Lexed {
        let Some(first) = self.next() else {
            if self.parens > 0 {
                return Err("unclosed left parenthesis".to_owned());
            }
            if self.in_brackets {
                return Err("unclosed left bracket".to_owned());
            }
            return Ok(Kind::End);
        };
        match first {
            '"' | '\'' | '`' => self.quoted(first),
            '0'..='9' => self.number(),
            '.' if self.peek().is_some_and(|c| c.is_ascii_digit()) => self.number(),
            ':' if self.in_brackets => self.colon(),
            _ if self.in_brackets && is_name_start(first) => {
                let unexpected = || format!("unexpected character: {}, expected ':'", quoted_char(first));
                self.time_word().ok_or_else(unexpected)
            }
            _ if is_name_start(first) || first == ':' => Ok(self.word()),
            '{' => {
                self.place = Place::Braces;
                Ok(Kind::LeftBrace)
            }
            '[' if self.in_brackets => Err(format!("unexpected left bracket {first:?}")),
            '[' => {
                (self.in_brackets, self.had_colon, self.had_duration) = (true, false, false);
                self.place = Place::Length;
                Ok(Kind::LeftBracket)
            }
            ']' if !self.in_brackets => Err(format!("unexpected right bracket {first:?}")),
            ']' => {
                self.in_brackets = false;
                Ok(Kind::RightBracket)
            }
            ',' => Ok(Kind::Comma),
            '(' | ')' => self.paren(first),
            _ => self.sign(first),
        }
    }

    fn paren(&mut self, paren: char) -> Lexed {
        if paren == '(' {
            self.parens += 1;
            return Ok(Kind::LeftParen);
        }
        let Some(left) = self.parens.checked_sub(1) else {
            self.start = self.at;
            return Err(format!("unexpected right parenthesis {paren:?}"));
        };
        self.parens = left;
        Ok(Kind::RightParen)
    }

    fn sign(&mut self, first: char) -> Lexed {
        if let Some(sign) = SIGNS.into_iter().find(|sign| self.text[self.start..].starts_with(sign)) {
            self.at = self.start + sign.len();
            return Ok(Kind::Operator(sign));
        }
        match (first, self.peek()) {
            ('=', Some('~')) => Err("unexpected character after '=': '~'".to_owned()),
            ('=', _) => Ok(Kind::Assign),
            ('!', other) => {
                let other = other.unwrap_or(char::REPLACEMENT_CHARACTER);
                Err(format!("unexpected character after '!': {}", quoted_char(other)))
            }
            _ => Err(format!("unexpected character: {}", quoted_char(first))),
        }
    }

    fn in_braces(&mut self) -> Lexed {
        let Some(first) = self.next() else { return Err("unexpected end of input inside braces".to_owned()) };
        match first {
            _ if is_name_start(first) => {
                self.skip_while(is_name_part);
                Ok(Kind::Identifier)
            }
            ',' => Ok(Kind::Comma),
            '"' | '\'' | '`' => self.quoted(first),
            '=' if self.accept("~") => Ok(Kind::Operator("=~")),
            '=' => Ok(Kind::Assign),
            '!' if self.accept("~") => Ok(Kind::Operator("!~")),
            '!' if self.accept("=") => Ok(Kind::Operator("!=")),
            '!' => {
                let after = self.next().unwrap_or(char::REPLACEMENT_CHARACTER);
                Err(format!("unexpected character after '!' inside braces: {}", quoted_char(after)))
            }
            '{' => Err(format!("unexpected left brace {first:?}")),
            '}' => {
                self.place = Place::Usual;
                Ok(Kind::RightBrace)
            }
            _ => Err(format!("unexpected character inside braces: {}", quoted_char(first))),
        }
    }

    /// After `[`, up to a number.
    fn length(&mut self) -> Lexed {
        let Some(first) = self.next() else {
            return Err("unexpected end of input in duration expression".to_owned());
        };
        let unexpected = Err(format!("unexpected character in duration expression: {}", quoted_char(first)));
        match first {
            ']' => {
                self.in_brackets = false;
                self.place = Place::Usual;
                Ok(Kind::RightBracket)
            }
            ':' if !self.had_duration || self.had_colon => {
                // The position of this error is behind the colon.
                self.start = self.at;
                let what = if self.had_duration { "repeated colon" } else { "colon before duration" };
                Err(format!("unexpected {what} in duration expression"))
            }
            ':' => self.colon(),
            '(' | ')' => self.paren(first),
            ',' => Ok(Kind::Comma),
            '+' | '-' | '*' | '/' | '%' | '^' => self.sign(first),
            _ if is_name_start(first) => {
                self.had_duration = true;
                self.time_word().map_or(unexpected, Ok)
            }
            '.' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => unexpected,
            '0'..='9' | '.' => {
                self.had_duration = true;
                self.place = Place::Usual;
                self.number()
            }
            _ => unexpected,
        }
    }

    fn colon(&mut self) -> Lexed {
        if self.had_colon {
            return Err("unexpected colon ':'".to_owned());
        }
        self.had_colon = true;
        Ok(Kind::Colon)
    }

    /// A word of arithmetic in durations, whose first letter has been read.
    fn time_word(&mut self) -> Option<Kind> {
        self.skip_while(|c| c == '_' || c.is_ascii_alphabetic());
        let found = word(&self.text[self.start..self.at]);
        found.filter(|found| matches!(found, Kind::Time("step" | "range" | "max_of" | "min_of")))
    }

    /// A name or a word of the language, whose first letter has been read.
    fn word(&mut self) -> Kind {
        self.skip_while(|c| is_name_part(c) || c == ':');
        let text = &self.text[self.start..self.at];
        match word(text) {
            // They may be names, too.
            Some(Kind::Keyword("fill" | "fill_left" | "fill_right"))
                if !self.rest().trim_start_matches([' ', '\t', '\n', '\r']).starts_with('(') =>
            {
                Kind::Identifier
            }
            Some(kind) => kind,
            None if text.contains(':') => Kind::MetricIdentifier,
            None => Kind::Identifier,
        }
    }

    /// A number or a duration, whose first character has been read.
    fn number(&mut self) -> Lexed {
        self.at = self.start;
        if self.scan_number() {
            return Ok(Kind::Number);
        }
        if self.scan_units() {
            return Ok(Kind::Duration);
        }
        Err(format!("bad number or duration syntax: {:?}", &self.text[self.start..self.at]))
    }

    /// Whether it is a number's form; if not, what was read may be the beginning of a duration.
    fn scan_number(&mut self) -> bool {
        let mut digits = "0123456789";
        if self.accept("0") && self.accept("xX") {
            self.accept("_");
            digits = "0123456789abcdefABCDEF";
        }
        let is_hexadecimal = digits.len() > 10;
        self.accept(".");
        self.accept(digits);
        // As in Prometheus, a point before the first digit does not count yet, and an e behind the first digit begins an exponent
        // even in hexadecimal numbers: `.5.5` and `0x1e+5` are refused as one number.
        let (mut had_dot, mut had_exponent) = (false, false);
        loop {
            if self.accept(".") {
                if had_dot || self.accept("_.") || is_hexadecimal {
                    return false;
                }
                had_dot = true;
            } else if self.accept("eE") {
                if had_exponent {
                    return false;
                }
                had_exponent = true;
                self.accept("+-");
                if self.accept("._eE") || self.peek().is_none() {
                    return false;
                }
            } else if self.accept("_") {
                if self.accept("._eE") || self.peek().is_none() {
                    return false;
                }
            } else if self.accept(digits) {
                self.skip_while(|c| digits.contains(c));
            } else {
                break;
            }
        }
        !self.peek().is_some_and(|c| c == '_' || c.is_ascii_alphanumeric())
    }

    /// The units of a duration, and the numbers between them.
    fn scan_units(&mut self) -> bool {
        if !self.accept("smhdwy") {
            return false;
        }
        self.accept("s");
        while self.accept("0123456789") {
            self.skip_while(|c| c.is_ascii_digit());
            if !self.accept("smhdw") {
                return false;
            }
            self.accept("s");
        }
        let goes_on = self.peek().is_some_and(|c| c == '_' || c.is_ascii_alphanumeric());
        if goes_on {
            self.next();
        }
        !goes_on
    }

    /// A text in quotes, of which the first has been read.
    fn quoted(&mut self, quote: char) -> Lexed {
        loop {
            match self.next() {
                None if quote == '`' => return Err("unterminated raw string".to_owned()),
                None => return Err("unterminated quoted string".to_owned()),
                Some('\n') if quote != '`' => return Err("unterminated quoted string".to_owned()),
                // What stands for invalid bytes; escaped, it is valid.
                Some(char::REPLACEMENT_CHARACTER) => return Err("invalid UTF-8 rune".to_owned()),
                Some('\\') if quote != '`' => self.escape(quote)?,
                Some(c) if c == quote => return Ok(Kind::Text),
                Some(_) => {}
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, quote: char) -> Result<(), String> {
        let unterminated = || "escape sequence not terminated".to_owned();
        let (count, base, most) = match self.next().ok_or_else(unterminated)? {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' => return Ok(()),
            c if c == quote => return Ok(()),
            '0'..='7' => {
                self.at -= 1;
                (3, 8, 255)
            }
            'x' => (2, 16, 255),
            'u' => (4, 16, u32::from(char::MAX)),
            'U' => (8, 16, u32::from(char::MAX)),
            c => return Err(format!("unknown escape sequence {}", code_point(c))),
        };
        let mut value = 0_u32;
        for _ in 0..count {
            let c = self.next().ok_or_else(unterminated)?;
            let digit = c.to_digit(base);
            let digit =
                digit.ok_or_else(|| format!("illegal character {} in escape sequence", code_point(c)))?;
            value = value.wrapping_mul(base).wrapping_add(digit);
        }
        if value > most || (0xD800..0xE000).contains(&value) {
            return Err("escape sequence is an invalid Unicode code point".to_owned());
        }
        Ok(())
    }
}
