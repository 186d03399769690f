//! Parses metric names that were written from a series' labels: `http_requests_total{code="200",handler="\x2f"}`.
//!
//! Accepts only what the writer, `remote_write::names::notation`, produces: labels sorted by name, each once, none
//! empty, and no unnecessary escapes. So two names never parse to the same labels.

use std::borrow::Cow;

use gnudi_promql::METRIC_NAME;

/// The parsed name of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenName<'a> {
    pub name: Cow<'a, str>,
    /// Name and value, sorted by name, without the metric name.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// Characters that must be escaped in each part of a name, besides control characters and backslashes.
const ESCAPED_IN_NAMES: &str = "/{";
const ESCAPED_IN_LABELS: &str = "/=";
const ESCAPED_IN_VALUES: &str = "/\"";

/// Parses a name; `None` if the writer does not produce it.
pub fn read(text: &str) -> Option<WrittenName<'_>> {
    let (name, labels) = match text.split_once('{') {
        None => (text, None),
        Some((name, labels)) => (name, Some(labels.strip_suffix('}')?)),
    };
    let name = unescaped(name, ESCAPED_IN_NAMES)?;
    if name.is_empty() {
        return None;
    }
    let labels = match labels {
        None => Vec::new(),
        Some(labels) => pairs(labels)?,
    };
    Some(WrittenName { name, labels })
}

fn pairs(mut text: &str) -> Option<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
    let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    loop {
        let (label, rest) = text.split_once("=\"")?;
        let end = end_of_value(rest)?;
        let label = unescaped(label, ESCAPED_IN_LABELS)?;
        let value = unescaped(&rest[..end], ESCAPED_IN_VALUES)?;
        let is_sorted = pairs.last().is_none_or(|(before, _)| *before < label);
        if !is_sorted || label.is_empty() || label == METRIC_NAME || value.is_empty() {
            return None;
        }
        pairs.push((label, value));
        match &rest[end + 1..] {
            "" => return Some(pairs),
            more => text = more.strip_prefix(',')?,
        }
    }
}

/// The offset of the quote that ends a value.
fn end_of_value(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at),
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    None
}

/// A text without its escapes; `None` if a necessary one is missing, or one is unnecessary.
fn unescaped<'a>(text: &'a str, special: &str) -> Option<Cow<'a, str>> {
    let needs_escape = |character: char| character.is_ascii_control() || special.contains(character);
    if !text.contains('\\') {
        return (!text.contains(needs_escape)).then_some(text.into());
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next()? {
                '\\' => '\\',
                'n' => '\n',
                '"' if special.contains('"') => '"',
                'x' => {
                    let (high, low) = (digit(characters.next()?)?, digit(characters.next()?)?);
                    let code = char::from_u32(high << 4 | low)?;
                    let has_own_escape = matches!(code, '\n' | '"');
                    Some(code).filter(|code| needs_escape(*code) && !has_own_escape)?
                }
                _ => return None,
            },
            _ if needs_escape(character) => return None,
            _ => character,
        });
    }
    Some(out.into())
}

/// The value of a hexadecimal digit in lower case.
fn digit(character: char) -> Option<u32> {
    character.to_digit(16).filter(|_| !character.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::remote_write::names::notation;

    fn shown(text: &str) -> Option<String> {
        read(text).map(|name| format!("{}{:?}", name.name, name.labels))
    }

    #[test]
    fn names_are_parsed() {
        for (text, expected) in [
            ("up", r"up[]"),
            (r#"x{a="1"}"#, r#"x[("a", "1")]"#),
            (r#"x{a="1",b="2"}"#, r#"x[("a", "1"), ("b", "2")]"#),
            (r#"x{a="1\",b=\"2"}"#, r#"x[("a", "1\",b=\"2")]"#),
            (r#"x{a="\\"}"#, r#"x[("a", "\\")]"#),
            (r#"x{a="\x2f\n\x00"}"#, r#"x[("a", "/\n\0")]"#),
            (r#"x{a\x3d"1",b="2"}"#, r#"x[("a=\"1\",b", "2")]"#),
            (r#"x\x7ba="1"}"#, r#"x{a="1"}[]"#),
            (r#"é.x{ß="}{,="}"#, r#"é.x[("ß", "}{,=")]"#),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_names_are_parsed(
            labels in prop::collection::btree_map("[a=\"{},/\\\\é\n\0]{1,3}", "[a\"{},/\\\\é\n\0x2f]{1,4}", 0..4),
            name in "[a{}/\"\\\\é\n\0=,]{1,4}",
        ) {
            let pairs: Vec<(&str, &str)> = labels.iter().map(|(label, value)| (&**label, &**value)).collect();
            let written = notation(&[&[(METRIC_NAME, &*name)], &pairs[..]].concat(), |_, _| true).unwrap();
            let read = read(&written).unwrap();
            prop_assert_eq!(&*read.name, &*name);
            let found: Vec<(&str, &str)> = read.labels.iter().map(|(label, value)| (&**label, &**value)).collect();
            prop_assert_eq!(found, pairs);
        }

        /// A name that parses is the one that the writer produces for these labels.
        #[test]
        fn what_is_parsed_is_what_the_writer_writes(text in "(a|x[{])[a-b\"=,}\\\\x27n/]{0,9}\"?[}]?") {
            if let Some(WrittenName { name, labels }) = read(&text) {
                let mut pairs = vec![(METRIC_NAME, &*name)];
                pairs.extend(labels.iter().map(|(label, value)| (&**label, &**value)));
                prop_assert_eq!(notation(&pairs, |_, _| true), Some(text));
            }
        }
    }

    #[test]
    fn other_names_are_not_parsed() {
        for text in [
            "",
            "{}",
            "x{}",
            "x{",
            "x}{",
            r#"{a="1"}"#,
            r#"x{a="1"} "#,
            r#"x{a="1",}"#,
            r#"x{a="1" ,b="2"}"#,
            r#"x{b="1",a="2"}"#,
            r#"x{a="1",a="2"}"#,
            r#"x{a=""}"#,
            r#"x{="1"}"#,
            r#"x{__name__="1"}"#,
            r#"x{a="1}"#,
            r#"x{a="\"}"#,
            r#"x{a="\q"}"#,
            r#"x{a="\x41"}"#,
            r#"x{a="\x2F"}"#,
            r#"x{a="\x0a"}"#,
            r#"x{a="\x22"}"#,
            r#"x{a="/"}"#,
            "x/y",
            "x\ny",
            r"x\x2",
            r"x\",
            r#"x\""#,
            r#"x{a=b="1"}"#,
            r#"x{a="1"b="2"}"#,
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
