//! Parses the response of GET measures: `[["2015-01-01T00:00:00+00:00", 60.0, 1.5], ...]`.
//!
//! A parser of its own because Gnocchi writes `NaN` and `Infinity`, which are not JSON, and because these responses are
//! long. It does not handle escapes in strings: times have none.

use crate::measures::Point;

/// The points of a response, in order.
pub(crate) fn parse_points(body: &[u8]) -> Result<Vec<Point>, String> {
    let mut cursor = Cursor { text: body, at: 0 };
    let mut points = Vec::new();
    cursor.expect(b'[')?;
    if !cursor.take(b']') {
        loop {
            points.push(cursor.point()?);
            if cursor.take(b']') {
                break;
            }
            cursor.expect(b',')?;
        }
    }
    match cursor.peek() {
        None => Ok(points),
        Some(_) => Err(cursor.error("more behind the list of points")),
    }
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The next byte that is not whitespace.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.take(byte) { Ok(()) } else { Err(self.error(&format!("`{}' expected", char::from(byte)))) }
    }

    fn error(&self, what: &str) -> String {
        format!("{what} at byte {}", self.at)
    }

    fn point(&mut self) -> Result<Point, String> {
        self.expect(b'[')?;
        let timestamp = self.string()?.to_owned();
        self.expect(b',')?;
        let granularity_seconds = self.number()?;
        self.expect(b',')?;
        let value = self.number()?;
        self.expect(b']')?;
        Ok(Point { timestamp, granularity_seconds, value })
    }

    fn string(&mut self) -> Result<&'a str, String> {
        self.expect(b'"')?;
        let text = &self.text[self.at..];
        let end = text
            .iter()
            .position(|&byte| byte == b'"')
            .ok_or_else(|| self.error("a string without an end"))?;
        self.at += end + 1;
        std::str::from_utf8(&text[..end]).map_err(|_| self.error("not UTF-8"))
    }

    /// A number, `NaN`, `Infinity`, or null, which is read as NaN.
    fn number(&mut self) -> Result<f64, String> {
        self.peek();
        let text = &self.text[self.at..];
        let end = text
            .iter()
            .position(|byte| matches!(byte, b',' | b']') || byte.is_ascii_whitespace())
            .unwrap_or(text.len());
        let value = match &text[..end] {
            b"null" | b"NaN" => f64::NAN,
            b"Infinity" => f64::INFINITY,
            b"-Infinity" => f64::NEG_INFINITY,
            digits if digits.last().is_some_and(u8::is_ascii_digit) => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse().ok())
                .ok_or_else(|| self.error("not a number"))?,
            _ => return Err(self.error("not a number")),
        };
        self.at += end;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_points() {
        let body = b"[[\"2015-01-01T00:00:00+00:00\", 60.0, -1.5e-7],\n [\"x\",60,NaN],[\"y\", 0.5, -Infinity], [\"z\",1,null]] ";
        let points = parse_points(body).unwrap();
        assert_eq!(points.len(), 4);
        assert_eq!(
            points[0],
            Point {
                timestamp: "2015-01-01T00:00:00+00:00".to_owned(),
                granularity_seconds: 60.0,
                value: -1.5e-7
            }
        );
        assert!(points[1].value.is_nan());
        assert_eq!((points[2].granularity_seconds, points[2].value), (0.5, f64::NEG_INFINITY));
        assert!(points[3].value.is_nan());
        assert_eq!(parse_points(b"[]").unwrap(), []);
    }

    #[test]
    fn every_cut_of_an_answer_is_an_error() {
        let body = b"[[\"2015\", 60.0, 1.5], [\"2016\", 60.0, 2.5]]";
        for end in 0..body.len() {
            assert!(parse_points(&body[..end]).is_err(), "{end}");
        }
        for body in [
            "{}",
            "[1]",
            "[[1, 2, 3]]",
            "[[\"a\", 1, 2, 3]]",
            "[[\"a\", inf, 2]]",
            "[]]",
            "[[\"a\", 1, \"b\"]]",
        ] {
            assert!(parse_points(body.as_bytes()).is_err(), "{body}");
        }
    }
}
