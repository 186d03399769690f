//! A cursor over JSON escaped inside a JSON text, as oslo.messaging's envelope holds messages. Nothing is unescaped as
//! a whole.
//!
//! Quotes are `\"` there and backslashes `\\`; other escapes of the outer text are rare and left to the slow path. The
//! cursor validates the JSON that it passes over; otherwise it returns `None`.

use std::borrow::Cow;

use crate::messaging::unescape::next_special;

/// Deeper values are left to the slow path.
const DEPTH_MAX: u32 = 64;

/// Integers of so many digits are floats, too.
const PLAIN_BYTES: std::ops::RangeInclusive<usize> = 1..=300;

pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts after the quote that opens the inner text.
    pub fn new(text: &'a str, at: usize) -> Self {
        Cursor { text, at }
    }

    /// The remaining text.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Consumes these bytes if they come next. They must end where a token does.
    #[inline]
    pub fn skip_same(&mut self, same: &str) -> bool {
        let is_same = self.rest().starts_with(same);
        if is_same {
            self.at += same.len();
        }
        is_same
    }

    /// Skips the bytes of a known value.
    pub fn advance(&mut self, length: usize) {
        self.at += length;
    }

    /// The next byte that is not a space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while *bytes.get(self.at)? == b' ' {
            self.at += 1;
        }
        Some(bytes[self.at])
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn literal(&mut self, literal: &str) -> Option<()> {
        self.rest().starts_with(literal).then(|| self.at += literal.len())
    }

    /// Consumes a `null`; returns whether there was one.
    pub fn is_null(&mut self) -> Option<bool> {
        if self.peek()? != b'n' {
            return Some(false);
        }
        self.literal("null")?;
        Some(true)
    }

    /// Calls `member` with each key of an object; it must consume the value.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, &str) -> Option<()>) -> Option<()> {
        self.list(b'{', b'}', |cursor| {
            let key = cursor.key()?;
            member(cursor, &key)
        })
    }

    /// Calls `element` at each element of an array; it must consume it.
    pub fn array(&mut self, element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.list(b'[', b']', element)
    }

    /// Consumes a member's key, up to the value.
    pub fn key(&mut self) -> Option<Cow<'a, str>> {
        let key = self.text()?;
        self.expect(b':')?;
        self.peek()?;
        Some(key)
    }

    /// Calls `part` at each element or member; it must consume it.
    #[inline]
    pub fn list(&mut self, begin: u8, end: u8, mut part: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(begin)?;
        if self.peek()? == end {
            self.at += 1;
            return Some(());
        }
        loop {
            part(self)?;
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b',' => {}
                byte if byte == end => return Some(()),
                _ => return None,
            }
        }
    }

    /// Consumes a text; borrowed if it has no escapes.
    pub fn text(&mut self) -> Option<Cow<'a, str>> {
        let (text, has_escapes) = self.raw_text()?;
        if has_escapes { decoded(text).map(Cow::Owned) } else { Some(Cow::Borrowed(text)) }
    }

    /// Consumes a text; returns what is between the quotes, and whether it has escapes, not yet validated.
    #[inline]
    fn raw_text(&mut self) -> Option<(&'a str, bool)> {
        self.expect(b'\\')?;
        self.expect_here(b'"')?;
        let (start, bytes) = (self.at, self.text.as_bytes());
        let mut has_escapes = false;
        loop {
            self.at = next_special(bytes, self.at)?;
            // A bare quote would end the outer text, and control characters are invalid.
            self.expect_here(b'\\')?;
            match *bytes.get(self.at)? {
                b'"' => break,
                b'\\' => {}
                _ => return None,
            }
            has_escapes = true;
            self.at += 1;
            // The character after the inner backslash may be escaped itself.
            match *bytes.get(self.at)? {
                b'\\' if matches!(bytes.get(self.at + 1)?, b'"' | b'\\') => self.at += 2,
                b'\\' => return None,
                _ => {}
            }
        }
        let text = &self.text[start..self.at - 1];
        self.at += 1;
        Some((text, has_escapes))
    }

    fn skip_text(&mut self) -> Option<()> {
        let (text, has_escapes) = self.raw_text()?;
        (!has_escapes || decoded(text).is_some()).then_some(())
    }

    #[inline]
    fn expect_here(&mut self, byte: u8) -> Option<()> {
        (*self.text.as_bytes().get(self.at)? == byte).then(|| self.at += 1)
    }

    /// Consumes a token that looks like a number; not validated.
    pub fn raw_number(&mut self) -> Option<&'a str> {
        self.peek()?;
        let rest = self.rest();
        let is_of_number = |byte: u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.bytes().position(|byte| !is_of_number(byte))?;
        self.at += length;
        Some(&rest[..length])
    }

    fn skip_number(&mut self) -> Option<()> {
        let number = self.raw_number()?;
        let is_plain = number.len() == 1 || !number.starts_with('0');
        let is_plain = is_plain && PLAIN_BYTES.contains(&number.len());
        let is_plain = is_plain && number.bytes().all(|byte| byte.is_ascii_digit());
        // Numbers beyond floats are left to the slow path.
        (is_plain || serde_json::from_str::<f64>(number).is_ok()).then_some(())
    }

    /// Consumes any value and returns its raw text.
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
            b'\\' => self.skip_text(),
            b'{' => self.list(b'{', b'}', |cursor| {
                cursor.skip_text()?;
                cursor.expect(b':')?;
                cursor.skip(depth + 1)
            }),
            b'[' => self.list(b'[', b']', |cursor| cursor.skip(depth + 1)),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => self.skip_number(),
        }
    }
}

/// Unescapes a text.
fn decoded(text: &str) -> Option<String> {
    let mut inner = String::with_capacity(text.len() + 2);
    inner.push('"');
    let mut rest = text;
    // The outer text escapes only quotes and backslashes here.
    while let Some(place) = rest.find('\\') {
        inner.push_str(&rest[..place]);
        inner.push_str(rest.get(place + 1..place + 2)?);
        rest = &rest[place + 2..];
    }
    inner.push_str(rest);
    inner.push('"');
    serde_json::from_str(&inner).ok()
}
