//! Parses JSON as ujson 6 does, with its extensions (`1.`, `01`, `NaN`, `Infinity`, control characters in
//! strings) and its error texts. Stricter only on ujson's bugs: a bare `-` is not zero, and a lone surrogate
//! is an error.

use super::Value;
use crate::by_key::ByKey;

/// The maximum nesting depth of arrays and objects.
pub const DEPTH_MAX: usize = 64;

/// The maximum number of values in a document: a small value takes 32 bytes of memory for two bytes of text.
pub const VALUES_MAX: usize = 2_000_000;

/// A syntax error, in ujson's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

type Result<T> = std::result::Result<T, ParseError>;

fn error<T>(text: impl Into<String>) -> Result<T> {
    Err(ParseError(text.into()))
}

/// Parses the whole input as one document.
pub fn parse(input: &[u8]) -> Result<Value> {
    let mut parser = Parser { input, at: 0, depth: 0, values: 0 };
    let value = parser.value()?;
    parser.skip_space();
    if parser.at < input.len() {
        return error("Trailing data");
    }
    Ok(value)
}

struct Parser<'a> {
    input: &'a [u8],
    at: usize,
    depth: usize,
    values: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Value> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return error(format!("More than {VALUES_MAX} values"));
        }
        self.skip_space();
        match self.peek() {
            Some(b'"') => Ok(Value::Str(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'[') => self.nested(Self::array),
            Some(b'{') => self.nested(Self::object),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'N') => self.word("NaN", Value::Float(f64::NAN)),
            Some(b'I') => self.word("Infinity", Value::Float(f64::INFINITY)),
            _ => error("Expected object or value"),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value> {
        if !self.input[self.at..].starts_with(word.as_bytes()) {
            return error(format!("Unexpected character found when decoding '{word}'"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Value>) -> Result<Value> {
        if self.depth == DEPTH_MAX {
            return error("Reached object decoding depth limit");
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Value> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.skip_space();
            if self.peek() == Some(b']') {
                return error("Unexpected character found when decoding array value (1)");
            }
            items.push(self.value()?);
            self.skip_space();
            match self.next() {
                Some(b',') => {}
                Some(b']') => return Ok(Value::Array(items)),
                _ => return error("Unexpected character found when decoding array value (2)"),
            }
        }
    }

    fn object(&mut self) -> Result<Value> {
        let mut entries = ByKey::default();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(Vec::new()));
        }
        loop {
            self.skip_space();
            let key = self.key()?;
            self.skip_space();
            if self.next() != Some(b':') {
                return error("No ':' found when decoding object value");
            }
            // The last value of a duplicate key wins, in the place of the first.
            entries.put(key, self.value()?);
            self.skip_space();
            match self.next() {
                Some(b',') => {}
                Some(b'}') => return Ok(Value::Object(entries.into_entries())),
                _ => return error("Unexpected character in found when decoding object value"),
            }
        }
    }

    fn key(&mut self) -> Result<String> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'}') => error("Unexpected character in found when decoding object value"),
            _ => match self.value()? {
                Value::Str(key) => Ok(key),
                _ => error("Key name of object must be 'string' when decoding 'object'"),
            },
        }
    }

    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let start = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0)) {
                self.at += 1;
            }
            text.extend_from_slice(&self.input[start..self.at]);
            match self.next() {
                Some(b'"') => break,
                Some(b'\\') => {
                    let character = self.escape()?;
                    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => return error("Unmatched '\"' when decoding 'string'"),
            }
        }
        String::from_utf8(text).or_else(|_| error("Invalid UTF-8 sequence length when decoding 'string'"))
    }

    fn escape(&mut self) -> Result<char> {
        Ok(match self.next() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            None => return error("Unterminated escape sequence when decoding 'string'"),
            _ => return error("Unrecognized escape sequence when decoding 'string'"),
        })
    }

    fn unicode_escape(&mut self) -> Result<char> {
        let high = self.four_hex_digits()?;
        let code = match high {
            0xd800..=0xdbff if self.input[self.at..].starts_with(b"\\u") => {
                self.at += 2;
                let low = self.four_hex_digits()?;
                if (0xdc00..=0xdfff).contains(&low) {
                    0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)
                } else {
                    high
                }
            }
            code => code,
        };
        char::from_u32(code).map_or_else(|| error("Unpaired high surrogate when decoding 'string'"), Ok)
    }

    fn four_hex_digits(&mut self) -> Result<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.next().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return error("Unexpected character in unicode escape sequence when decoding 'string'");
            };
            code = code * 16 + digit;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Value> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        if negative && self.peek() == Some(b'I') {
            self.at = start;
            return self.word("-Infinity", Value::Float(f64::NEG_INFINITY));
        }
        let digits = |parser: &mut Self| {
            let from = parser.at;
            while matches!(parser.peek(), Some(b'0'..=b'9')) {
                parser.at += 1;
            }
            parser.at - from
        };
        let whole = self.at;
        if digits(self) == 0 {
            return error("Expected object or value");
        }
        let mut end = self.at;
        let mut is_float = false;
        if self.peek() == Some(b'.') {
            self.at += 1;
            digits(self);
            (end, is_float) = (self.at, true);
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            if digits(self) > 0 {
                (end, is_float) = (self.at, true);
            }
        }
        self.at = end;
        let text = std::str::from_utf8(&self.input[start..end]).expect("digits are ASCII");
        if is_float {
            let number = text.parse().expect("Rust takes every number of this grammar");
            return Ok(Value::Float(number));
        }
        if let Ok(number) = text.parse() {
            return Ok(Value::Int(number));
        }
        let digits = text[whole - start..].trim_start_matches('0');
        Ok(Value::BigInt(format!("{}{digits}", if negative { "-" } else { "" })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_text(input: &[u8]) -> String {
        match parse(input) {
            Ok(value) => format!("{value:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn takes_what_ujson_takes() {
        for (text, expected) in [
            ("1", "Int(1)"),
            ("01", "Int(1)"),
            ("-01", "Int(-1)"),
            ("-0", "Int(0)"),
            ("-0.0", "Float(-0.0)"),
            ("1.", "Float(1.0)"),
            ("1.e5", "Float(100000.0)"),
            ("1E+5", "Float(100000.0)"),
            ("1e400", "Float(inf)"),
            ("NaN", "Float(NaN)"),
            ("Infinity", "Float(inf)"),
            ("-Infinity", "Float(-inf)"),
            ("18446744073709551616", "BigInt(\"18446744073709551616\")"),
            ("-009223372036854775809", "BigInt(\"-9223372036854775809\")"),
            ("\"\\ud83d\\ude00\\/\\b\"", "Str(\"😀/\\u{8}\")"),
            ("\"a\nb\"", "Str(\"a\\nb\")"),
            (
                " {\"a\":1 ,\"a\": 2,\"b\":[true, false ,null]} ",
                "Object([(\"a\", Int(2)), (\"b\", Array([Bool(true), Bool(false), Null]))])",
            ),
        ] {
            assert_eq!(error_text(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn errors_have_ujsons_texts() {
        for (text, expected) in [
            ("", "Expected object or value"),
            ("  ", "Expected object or value"),
            (".5", "Expected object or value"),
            ("+1", "Expected object or value"),
            ("'a'", "Expected object or value"),
            ("\u{feff}[1]", "Expected object or value"),
            ("[", "Expected object or value"),
            ("[,1]", "Expected object or value"),
            ("{\"a\":", "Expected object or value"),
            ("{", "Expected object or value"),
            ("{a:1}", "Expected object or value"),
            ("1e", "Trailing data"),
            ("1e+", "Trailing data"),
            ("[1]]", "Trailing data"),
            ("-NaN", "Expected object or value"),
            ("1.5.5", "Trailing data"),
            ("nan", "Unexpected character found when decoding 'null'"),
            ("tru", "Unexpected character found when decoding 'true'"),
            ("\"a", "Unmatched '\"' when decoding 'string'"),
            ("\"\u{0}\"", "Unmatched '\"' when decoding 'string'"),
            ("\"\\", "Unterminated escape sequence when decoding 'string'"),
            ("-Inf", "Unexpected character found when decoding '-Infinity'"),
            ("\"\\x\"", "Unrecognized escape sequence when decoding 'string'"),
            ("\"\\u12\"", "Unexpected character in unicode escape sequence when decoding 'string'"),
            ("[1,]", "Unexpected character found when decoding array value (1)"),
            ("[1 2]", "Unexpected character found when decoding array value (2)"),
            ("[1", "Unexpected character found when decoding array value (2)"),
            ("{\"a\":1,}", "Unexpected character in found when decoding object value"),
            ("{\"a\":1 \"b\":2}", "Unexpected character in found when decoding object value"),
            ("{\"a\" 1}", "No ':' found when decoding object value"),
            ("{1:2}", "Key name of object must be 'string' when decoding 'object'"),
        ] {
            assert_eq!(error_text(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(error_text(b"\"\xff\""), "Invalid UTF-8 sequence length when decoding 'string'");
    }

    #[test]
    fn nests_only_so_deep() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(error_text(nested(DEPTH_MAX + 1).as_bytes()), "Reached object decoding depth limit");
        let wide = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert!(parse(wide(VALUES_MAX).as_bytes()).is_ok());
        assert_eq!(error_text(wide(VALUES_MAX + 1).as_bytes()), "More than 2000000 values");
        assert_eq!(error_text("[".repeat(1_000_000).as_bytes()), "Reached object decoding depth limit");
    }

    #[test]
    fn the_last_of_many_duplicates_counts() {
        let body: Vec<String> = (0..100).map(|key| format!("\"{}\": {key}", key % 40)).collect();
        let value = parse(format!("{{{}}}", body.join(",")).as_bytes()).unwrap();
        let Value::Object(entries) = &value else { panic!("{value:?}") };
        assert_eq!(entries.len(), 40);
        assert_eq!(entries[3], ("3".to_owned(), Value::Int(83)));
        assert_eq!(value.get("39"), Some(&Value::Int(79)));
    }
}
