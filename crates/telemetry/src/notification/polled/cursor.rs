//! A walk through a JSON text that stands within a JSON text, as oslo.messaging's envelope holds messages: without taking it out.
//!
//! Quotes are `\"` there and backslashes `\\`; other escapes of the outer text, which nobody needs, are left to the slow way.
//! What is walked over is valid JSON, or the walk ends with `None`.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::messaging::unescape::next_special;

/// Deeper values are left to the slow way.
const DEPTH_MAX: u32 = 64;

pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Begins behind the quote that opens the inner text.
    pub fn new(text: &'a str, at: usize) -> Self {
        Cursor { text, at }
    }

    /// What has not been walked over.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next byte that is not a space.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while *bytes.get(self.at)? == b' ' {
            self.at += 1;
        }
        Some(bytes[self.at])
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn literal(&mut self, literal: &str) -> Option<()> {
        self.rest().starts_with(literal).then(|| self.at += literal.len())
    }

    /// Whether there is a `null`, which is walked over then.
    pub fn is_null(&mut self) -> Option<bool> {
        if self.peek()? != b'n' {
            return Some(false);
        }
        self.literal("null")?;
        Some(true)
    }

    /// Calls `member` with each key of an object; it walks over the value.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, &str) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let key = self.text()?;
            self.expect(b':')?;
            member(self, &key)?;
            if self.is_end(b'}')? {
                return Some(());
            }
        }
    }

    /// Calls `element` at each element of an array; it walks over it.
    pub fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            element(self)?;
            if self.is_end(b']')? {
                return Some(());
            }
        }
    }

    /// Whether a list ends here, rather than go on behind a comma.
    fn is_end(&mut self, end: u8) -> Option<bool> {
        let byte = self.peek()?;
        self.at += 1;
        (byte == end || byte == b',').then_some(byte == end)
    }

    /// A text; borrowed where it has no escapes.
    pub fn text(&mut self) -> Option<Cow<'a, str>> {
        self.expect(b'\\')?;
        self.expect_here(b'"')?;
        let (start, bytes) = (self.at, self.text.as_bytes());
        let mut has_escapes = false;
        loop {
            self.at = next_special(bytes, self.at)?;
            // A bare quote would end the outer text, and a control character has no place in it.
            self.expect_here(b'\\')?;
            match *bytes.get(self.at)? {
                b'"' => break,
                b'\\' => {}
                _ => return None,
            }
            has_escapes = true;
            self.at += 1;
            // What the inner backslash escapes may be escaped itself.
            match *bytes.get(self.at)? {
                b'\\' if matches!(bytes.get(self.at + 1)?, b'"' | b'\\') => self.at += 2,
                b'\\' => return None,
                _ => {}
            }
        }
        let text = &self.text[start..self.at - 1];
        self.at += 1;
        if has_escapes { decoded(text).map(Cow::Owned) } else { Some(Cow::Borrowed(text)) }
    }

    fn expect_here(&mut self, byte: u8) -> Option<()> {
        (*self.text.as_bytes().get(self.at)? == byte).then(|| self.at += 1)
    }

    /// A number as it is written.
    pub fn number(&mut self) -> Option<&'a str> {
        self.peek()?;
        let rest = self.rest();
        let is_of_number = |byte: u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.bytes().position(|byte| !is_of_number(byte))?;
        let number = &rest[..length];
        let is_plain =
            length > 0 && number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
        if !is_plain {
            serde_json::from_str::<IgnoredAny>(number).ok()?;
        }
        self.at += length;
        Some(number)
    }

    /// Walks over any value, and answers it as it stands.
    pub fn value(&mut self) -> Option<&'a str> {
        self.peek()?;
        let start = self.at;
        self.skip(0)?;
        Some(&self.text[start..self.at])
    }

    fn skip(&mut self, depth: u32) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.peek()? {
            b'\\' => self.text().map(drop),
            b'{' => self.object(|cursor, _| cursor.skip(depth + 1)),
            b'[' => self.array(|cursor| cursor.skip(depth + 1)),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => self.number().map(drop),
        }
    }
}

/// What stands between the quotes of a text with escapes.
fn decoded(text: &str) -> Option<String> {
    let mut inner = String::with_capacity(text.len() + 2);
    inner.push('"');
    let mut rest = text;
    // Only quotes and backslashes are escaped by the outer text here.
    while let Some(place) = rest.find('\\') {
        inner.push_str(&rest[..place]);
        inner.push_str(rest.get(place + 1..place + 2)?);
        rest = &rest[place + 2..];
    }
    inner.push_str(rest);
    inner.push('"');
    serde_json::from_str(&inner).ok()
}
