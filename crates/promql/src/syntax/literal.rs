//! Values of literals: numbers, durations, texts in quotes. The lexer has checked their form.

use crate::quoted::quoted;

/// A number as Go reads it: decimal, hexadecimal (`0x1f`), octal (`017`), with underscores between digits.
pub(super) fn number(text: &str) -> Result<f64, String> {
    let invalid = |reason| format!("error parsing number: strconv.ParseFloat: parsing {text:?}: {reason}");
    let bytes = text.as_bytes();
    let is_hexadecimal = text.len() > 2 && text[..2].eq_ignore_ascii_case("0x");
    // Behind the prefix, each underscore stands between digits.
    let separates = |at: usize| {
        let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
        (is_digit(bytes.get(at - 1)) || is_hexadecimal && at == 2) && is_digit(bytes.get(at + 1))
    };
    if !text.match_indices('_').all(|(at, _)| at > 0 && separates(at)) {
        return Err(invalid("invalid syntax"));
    }
    let digits = text.replace('_', "");
    let integer = if is_hexadecimal {
        i64::from_str_radix(&digits[2..], 16).ok()
    } else if digits.len() > 1 && digits.starts_with('0') {
        i64::from_str_radix(&digits, 8).ok()
    } else {
        digits.parse().ok()
    };
    if let Some(integer) = integer {
        return Ok(integer as f64);
    }
    let value: f64 = digits.parse().map_err(|_| invalid("invalid syntax"))?;
    if value.is_infinite() && digits.contains(|c: char| c.is_ascii_digit()) {
        return Err(invalid("value out of range"));
    }
    Ok(value)
}

/// Units of durations in milliseconds, the longest first.
const UNITS: [(&str, i64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
/// Durations are 64 bits of nanoseconds.
const DURATION_MAX_MS: i64 = i64::MAX / 1_000_000;

/// Milliseconds of a duration like `1h30m`: each unit once, the longer ones first; 0 of an empty text. At most 64 bits of nanoseconds.
///
/// # Errors
/// Prometheus' error text, if it is not a valid duration or too long.
pub fn duration_ms(text: &str) -> Result<i64, String> {
    let invalid = || format!("not a valid duration string: {}", quoted(text));
    let mut rest = text;
    // The first unit that may come next.
    let mut next = 0;
    let mut total = 0_i64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(invalid)?;
        let (count, behind) = rest.split_at(digits);
        let count: u64 = count.parse().map_err(|_| invalid())?;
        let letters = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let unknown = || format!("unknown unit {} in duration {}", quoted(unit), quoted(text));
        let place = UNITS.iter().position(|known| known.0 == unit).ok_or_else(unknown)?;
        if place < next {
            return Err(invalid());
        }
        next = place + 1;
        let sum = i64::try_from(count).ok();
        let sum = sum.and_then(|count| count.checked_mul(UNITS[place].1)?.checked_add(total));
        total = sum.filter(|sum| *sum <= DURATION_MAX_MS).ok_or("duration out of range")?;
        rest = behind;
    }
    Ok(total)
}

/// A duration as Prometheus prints it: years and weeks only where nothing is left.
pub(super) fn duration_text(milliseconds: i64) -> String {
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    let mut rest = milliseconds.unsigned_abs();
    let mut text = vec![if milliseconds < 0 { "-".to_owned() } else { String::new() }];
    for (unit, length) in UNITS {
        let length = length.unsigned_abs();
        let exactly = unit == "y" || unit == "w";
        if rest >= length && (!exactly || rest.is_multiple_of(length)) {
            text.push(format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    text.concat()
}

/// What a text in quotes stands for.
pub(super) fn unquoted(text: &str) -> Result<String, String> {
    let inner = &text[1..text.len() - 1];
    if text.starts_with('`') || !inner.contains('\\') {
        return Ok(inner.to_owned());
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let Some(kind) = chars.next() else { break };
        let mut digits = |count: usize, base: u32, first: u32| {
            let digits = chars.by_ref().take(count).filter_map(|digit| digit.to_digit(base));
            digits.fold(first, |value, digit| value * base + digit)
        };
        match kind {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            '0'..='7' => bytes.push(digits(2, 8, kind.to_digit(8).unwrap_or(0)) as u8),
            'x' => bytes.push(digits(2, 16, 0) as u8),
            'u' | 'U' => {
                let code = digits(if kind == 'u' { 4 } else { 8 }, 16, 0);
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    String::from_utf8(bytes).map_err(|_| format!("error unquoting string {text}: it is no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_go() {
        for (text, expected) in [
            ("1", 1.0),
            ("0x1F", 31.0),
            ("0x_1f", 31.0),
            ("017", 15.0),
            ("09", 9.0),
            ("1_000", 1000.0),
            ("1e3", 1000.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("Inf", f64::INFINITY),
        ] {
            assert_eq!(number(text), Ok(expected), "{text}");
        }
        assert!(number("NaN").unwrap().is_nan());
        assert!(number("1e999").unwrap_err().contains("out of range"));
        assert!(number("1__0").is_err());
    }

    #[test]
    fn durations_are_read_and_printed() {
        for (text, milliseconds, printed) in [
            ("90s", 90_000, "1m30s"),
            ("1d1ms", 86_400_001, "1d1ms"),
            ("2w", 14 * 86_400_000, "2w"),
            ("8d", 8 * 86_400_000, "8d"),
            ("1y", 365 * 86_400_000, "1y"),
            ("0s", 0, "0s"),
        ] {
            assert_eq!(duration_ms(text), Ok(milliseconds), "{text}");
            assert_eq!(duration_text(milliseconds), printed);
        }
        assert_eq!(duration_text(-5000), "-5s");
        for text in ["1m1h", "1s1s", "99999999999999999999s", "1m99999999999999999999hs"] {
            assert_eq!(duration_ms(text), Err(format!("not a valid duration string: {text:?}")));
        }
        assert_eq!(duration_ms("300y"), Err("duration out of range".to_owned()));
        assert_eq!(duration_ms("1hs"), Err(r#"unknown unit "hs" in duration "1hs""#.to_owned()));
    }

    #[test]
    fn texts_are_those_of_go() {
        assert_eq!(unquoted(r#""a\n\x41\u00e9\101\"""#).as_deref(), Ok("a\nAéA\""));
        assert_eq!(unquoted(r"`a\n`").as_deref(), Ok(r"a\n"));
        assert!(unquoted(r#""\xff""#).is_err());
    }
}
