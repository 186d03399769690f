//! Reads the names of metrics that were made of series' labels: `http_requests_total{code="200",handler="/"}`.
//!
//! Only what the writer of such names would have written is read: labels by name, each once, none empty, and no other escapes
//! than needed. So two names never mean the same labels.

use std::borrow::Cow;

use gnudi_promql::METRIC_NAME;

/// What a metric's name was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenName<'a> {
    pub name: Cow<'a, str>,
    /// By name.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// Characters that are escaped in each place, besides control characters and backslashes.
const IN_NAMES: &str = "/{";
const IN_LABELS: &str = "/=";
const IN_VALUES: &str = "/\"";

/// Reads a name; `None` if it was not made of labels.
pub fn read(text: &str) -> Option<WrittenName<'_>> {
    let (name, labels) = match text.split_once('{') {
        None => (text, None),
        Some((name, labels)) => (name, Some(labels.strip_suffix('}')?)),
    };
    let name = plain(name, IN_NAMES)?;
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
        let (label, value) = (plain(label, IN_LABELS)?, plain(&rest[..end], IN_VALUES)?);
        let follows = pairs.last().is_none_or(|(before, _)| *before < label);
        if !follows || label.is_empty() || label == METRIC_NAME || value.is_empty() {
            return None;
        }
        pairs.push((label, value));
        match &rest[end + 1..] {
            "" => return Some(pairs),
            more => text = more.strip_prefix(',')?,
        }
    }
}

/// Where the quote is that ends a value.
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

/// A text without its escapes; `None` where one is missing, or needless.
fn plain<'a>(text: &'a str, special: &str) -> Option<Cow<'a, str>> {
    let is_escaped = |character: char| character.is_ascii_control() || special.contains(character);
    if !text.contains('\\') {
        return (!text.contains(is_escaped)).then_some(text.into());
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next()? {
                '\\' => '\\',
                'n' => '\n',
                '"' if special.contains('"') => '"',
                'x' => {
                    let (high, low) = (digit(characters.next()?)?, digit(characters.next()?)?);
                    let code = char::from_u32(high << 4 | low)?;
                    let has_own_escape = matches!(code, '\n' | '"');
                    Some(code).filter(|code| is_escaped(*code) && !has_own_escape)?
                }
                _ => return None,
            },
            _ if is_escaped(character) => return None,
            _ => character,
        });
    }
    Some(plain.into())
}

/// A hexadecimal digit, in lower case.
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
    fn names_are_read() {
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
        fn what_is_written_is_read(
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

        /// Of two names that are read as the same labels at least one was never written.
        #[test]
        fn what_is_read_is_written_so(text in "(a|x[{])[a-b\"=,}\\\\x27n/]{0,9}\"?[}]?") {
            if let Some(WrittenName { name, labels }) = read(&text) {
                let mut pairs = vec![(METRIC_NAME, &*name)];
                pairs.extend(labels.iter().map(|(label, value)| (&**label, &**value)));
                prop_assert_eq!(notation(&pairs, |_, _| true), Some(text));
            }
        }
    }

    #[test]
    fn what_nobody_would_write_is_not_read() {
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
