//! Formats values: `%s`, `{}`, and decimal places.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Result, error, methods::check_length};
use crate::definitions::python::{self, Numeric};

/// `text % values`: `%s`, `%d`, `%f` with decimal places, and `%%`. `is_alone`: the value is not in a tuple.
pub fn percent(text: &str, values: &[Value], is_alone: bool) -> Result<String> {
    let mut values = values.iter();
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        let end = behind.find(|letter: char| letter.is_ascii_alphabetic() || letter == '%');
        let (spec, mark) = end.map(|end| (&behind[..end], &behind[end..=end])).unwrap_or_default();
        rest = &behind[(spec.len() + mark.len()).min(behind.len())..];
        if mark == "%" {
            out.push('%');
            continue;
        }
        let value = values.next().ok_or_else(|| error("not enough values for a text with %"))?;
        match (mark, spec, Numeric::of(value)) {
            ("s", "", _) => out.push_str(&python::text(value)),
            ("d" | "i", "", Some(_)) => {
                let whole = python::int(value).map_err(|_| error("%d of what is no number"))?;
                let _ = write!(out, "{whole}");
            }
            ("f", "", Some(_)) => out.push_str(&fixed(value, 6)?),
            ("f", spec, Some(_)) => out.push_str(&fixed(value, digits(spec)?)?),
            _ => return Err(error(format!("%{spec}{mark} of {value} is not supported"))),
        }
    }
    out.push_str(rest);
    match values.next() {
        // Python accepts a left-over list or map, since marks may name its items.
        None => Ok(out),
        Some(Value::Array(_) | Value::Object(_)) if is_alone => Ok(out),
        Some(_) => Err(error("not all values have a mark in a text with %")),
    }
}

/// `text.format(...)`: braces that are empty or hold an index.
pub fn braces(text: &str, values: &[Value]) -> Result<String> {
    let mut out = String::new();
    let mut next = 0;
    for (plain, inner) in split_at_braces(text)? {
        out.push_str(&plain);
        let Some(inner) = inner else { break };
        let (number, digits) = digits_of(inner)?;
        let index = match number {
            "" => {
                next += 1;
                next - 1
            }
            number => number.parse().map_err(|_| error(format!("{{{number}}} is not supported")))?,
        };
        let value = values.get(index).ok_or_else(|| error("not enough values for a text with braces"))?;
        out.push_str(&shown(value, digits)?);
        // The text may name a value many times.
        check_length("format", out.len())?;
    }
    Ok(out)
}

/// Splits a text into plain texts, each with the contents of the braces that follow it; none follow the last one. A double
/// brace stands for a single one in a plain text.
pub fn split_at_braces(text: &str) -> Result<Vec<(String, Option<&str>)>> {
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(brace) {
            plain.push_str(brace);
            rest = behind;
            continue;
        }
        let end =
            rest.find('}').filter(|_| brace == "{").ok_or_else(|| error("a brace without its other"))?;
        parts.push((std::mem::take(&mut plain), Some(&rest[..end])));
        rest = &rest[end + 1..];
    }
    plain.push_str(rest);
    parts.push((plain, None));
    Ok(parts)
}

/// The part between braces, and its decimal places: `value:.2f`.
pub fn digits_of(inner: &str) -> Result<(&str, Option<usize>)> {
    let Some((value, spec)) = inner.rsplit_once(':').filter(|(value, _)| is_closed(value)) else {
        return Ok((inner, None));
    };
    let spec = spec.strip_suffix('f').ok_or_else(|| error(format!("the format {spec} is not supported")))?;
    Ok((value, Some(digits(spec)?)))
}

/// Whether a colon here is outside any subscript.
fn is_closed(text: &str) -> bool {
    text.matches(['[', '{', '(']).count() == text.matches([']', '}', ')']).count()
}

/// `.2`
fn digits(spec: &str) -> Result<usize> {
    let digits =
        spec.strip_prefix('.').and_then(|digits| digits.parse().ok()).filter(|digits| *digits <= 100);
    digits.ok_or_else(|| error(format!("the format {spec}f is not supported")))
}

/// The text of a value.
pub fn shown(value: &Value, digits: Option<usize>) -> Result<String> {
    match digits {
        Some(digits) => fixed(value, digits),
        None => Ok(python::text(value).into_owned()),
    }
}

fn fixed(value: &Value, digits: usize) -> Result<String> {
    let number = Numeric::of(value).ok_or_else(|| error("digits of what is no number"))?;
    Ok(format!("{:.digits$}", number.float()))
}
