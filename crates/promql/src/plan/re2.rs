//! Translates regular expressions from Go's syntax, which is that of RE2, to the syntax of the crate `regex`. In `regex`, `{id}` is an
//! error, `\d` matches the digits of all scripts, and `[` and `&&` within brackets have a meaning: they nest and intersect classes.

use std::fmt::Write;

use regex_syntax::is_meta_character;

/// Where an escape stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Class,
    /// After the hyphen of a range, where only a character is valid.
    RangeEnd,
}

/// The expression in the syntax of `regex`. What Go refuses is passed on unchanged: `regex` refuses most of it, too.
pub(super) fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => escape(after, Place::Outside, &mut out),
            '[' => class(after, &mut out),
            '{' if !is_repetition(after) => {
                out.push_str(r"\{");
                after
            }
            _ => {
                out.push(c);
                after
            }
        };
    }
    out
}

/// Whether a left brace begins a number of repetitions; `text` is what follows the brace. Otherwise the brace is a character.
fn is_repetition(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(text.len());
    let (counts, after) = text.split_at(end);
    if !after.starts_with('}') {
        return false;
    }
    let is_count = |count: &str| {
        !count.is_empty()
            && count.bytes().all(|byte| byte.is_ascii_digit())
            && (count.len() == 1 || !count.starts_with('0'))
    };
    match counts.split_once(',') {
        None => is_count(counts),
        Some((least, most)) => is_count(least) && (most.is_empty() || is_count(most)),
    }
}

fn literal(c: char, out: &mut String) {
    if is_meta_character(c) {
        out.push('\\');
    }
    out.push(c);
}

/// The class of ASCII characters that an escape stands for.
fn class_of_escape(c: char) -> Option<&'static str> {
    Some(match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

/// Translates an escape; `text` is what follows its backslash. Returns what follows the escape.
fn escape<'t>(text: &'t str, place: Place, out: &mut String) -> &'t str {
    let Some(c) = text.chars().next() else {
        out.push('\\');
        return text;
    };
    let after = &text[c.len_utf8()..];
    if let Some(class) = class_of_escape(c).filter(|_| place != Place::RangeEnd) {
        out.push_str(class);
        return after;
    }
    match c {
        // In Go, words consist of ASCII characters.
        'b' | 'B' if place == Place::Outside => {
            out.push_str(if c == 'b' { r"(?-u:\b)" } else { r"(?-u:\B)" });
            after
        }
        'Q' if place == Place::Outside => {
            let (quoted, after) = after.split_once(r"\E").unwrap_or((after, ""));
            for c in quoted.chars() {
                literal(c, out);
            }
            after
        }
        '0'..='7' => octal(text, out),
        'p' | 'P' => of_unicode(c, after, out),
        'x' => {
            let length = match after.strip_prefix('{') {
                Some(digits) => digits.find('}').map_or(after.len(), |end| end + 2),
                None => after.bytes().take(2).take_while(u8::is_ascii_hexdigit).count(),
            };
            out.push_str(r"\x");
            out.push_str(&after[..length]);
            &after[length..]
        }
        _ if c.is_ascii() && !c.is_ascii_alphanumeric() => {
            literal(c, out);
            after
        }
        _ => {
            out.push('\\');
            out.push(c);
            after
        }
    }
}

/// Translates up to three octal digits to a character. A single digit other than 0 would refer to a group, which neither Go nor `regex`
/// supports: it is passed on, and refused.
fn octal<'t>(text: &'t str, out: &mut String) -> &'t str {
    let length = text.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
    let (digits, after) = text.split_at(length);
    match u32::from_str_radix(digits, 8) {
        Ok(code) if length > 1 || code == 0 => {
            // Writing to a String cannot fail.
            let _ = write!(out, r"\x{{{code:x}}}");
        }
        _ => {
            out.push('\\');
            out.push_str(digits);
        }
    }
    after
}

/// Translates a Unicode class: a letter, or a name in braces. A circumflex before the name negates the class.
fn of_unicode<'t>(letter: char, after: &'t str, out: &mut String) -> &'t str {
    let length = if after.starts_with('{') {
        after.find('}').map_or(after.len(), |end| end + 1)
    } else {
        after.chars().next().map_or(0, char::len_utf8)
    };
    let (name, after) = after.split_at(length);
    out.push('\\');
    if let Some(negated) = name.strip_prefix("{^") {
        out.push(if letter == 'p' { 'P' } else { 'p' });
        out.push('{');
        out.push_str(negated);
    } else {
        out.push(letter);
        out.push_str(name);
    }
    after
}

/// Translates a class in brackets; `text` is what follows the left bracket. Returns what follows the class.
fn class<'t>(text: &'t str, out: &mut String) -> &'t str {
    out.push('[');
    let mut rest = text;
    if let Some(negated) = rest.strip_prefix('^') {
        out.push('^');
        rest = negated;
    }
    let mut is_first = true;
    loop {
        if let Some(after) = rest.strip_prefix(']').filter(|_| !is_first) {
            out.push(']');
            return after;
        }
        is_first = false;
        if rest.is_empty() {
            // The right bracket is missing: `regex` refuses this.
            return rest;
        }
        if let Some((named, after)) = named_class(rest) {
            out.push_str(named);
            rest = after;
            continue;
        }
        let escaped = rest.strip_prefix('\\');
        if let Some(escaped) =
            escaped.filter(|escaped| escaped.starts_with(['d', 'D', 's', 'S', 'w', 'W', 'p', 'P']))
        {
            rest = escape(escaped, Place::Class, out);
            continue;
        }
        rest = character(rest, Place::Class, out);
        // A hyphen is a character where it is the last one.
        if let Some(end) = rest.strip_prefix('-').filter(|end| !end.is_empty() && !end.starts_with(']')) {
            out.push('-');
            rest = character(end, Place::RangeEnd, out);
        }
    }
}

/// A class like `[:alpha:]` or `[:^alpha:]` at the beginning of a text, and what follows it.
fn named_class(text: &str) -> Option<(&str, &str)> {
    let name = text.strip_prefix("[:")?;
    let end = name.find(|c: char| !c.is_ascii_alphabetic() && c != '^')?;
    let after = name[end..].strip_prefix(":]")?;
    Some((&text[..text.len() - after.len()], after))
}

/// Translates a character of a class, possibly escaped.
fn character<'t>(text: &'t str, place: Place, out: &mut String) -> &'t str {
    let Some(c) = text.chars().next() else { return text };
    let after = &text[c.len_utf8()..];
    if c == '\\' {
        return escape(after, place, out);
    }
    literal(c, out);
    after
}

#[cfg(test)]
mod tests {
    use crate::{MatchKind, Matcher};

    fn matches(pattern: &str, text: &str) -> bool {
        Matcher::new(MatchKind::Matches, "x", pattern).unwrap().matches(text)
    }

    #[test]
    fn expressions_match_as_in_go() {
        for (pattern, same, other) in [
            // Braces without numbers.
            ("/users/{id}", "/users/{id}", "/users/id"),
            ("{.*}", "{}", "x"),
            ("a{,2}", "a{,2}", "aa"),
            ("a{02}", "a{02}", "aa"),
            ("a{", "a{", "a"),
            ("a{2", "a{2", "aa"),
            ("a{,}", "a{,}", "a"),
            ("a{1,2,3}", "a{1,2,3}", "aa"),
            ("a{2}", "aa", "a{2}"),
            ("a{2,}b{1,2}?", "aaabb", "ab"),
            ("a{ 2 }", "a{ 2 }", "aa"),
            // Classes of ASCII.
            (r"\d+", "12", "٣"),
            (r"\D", "٣", "3"),
            (r"\w+", "a_1", "é"),
            (r"\W", "é", "_"),
            (r"\s", "\t", "\u{b}"),
            (r"\S", "\u{a0}", " "),
            (r"[\d.]+", "1.2", "٣"),
            (r"[^\W\d]+", "a_", "1"),
            (r"é\b.*", "éa", "é"),
            (r"(?i)\w", "\u{17f}", "é"),
            // Brackets.
            ("[[]a[]]", "[a]", "a"),
            ("[]a]+", "]a", "["),
            ("[^]a]", "b", "]"),
            ("[a-c&&b]+", "a&b", "d"),
            ("[+--]", ",", "a"),
            ("[a~~b]+", "~a", "c"),
            ("[a-]+", "-a", "b"),
            ("[a-c-e]+", "b-e", "d"),
            (r"[\d-z]+", "1-z", "y"),
            (r"[\pN-z]+", "1-z", "y"),
            (r"[\x41-\x{43}]", "B", "D"),
            (r"[\]\\^-]+", r"]\^-", "a"),
            ("[[:digit:][]+", "1[", ":"),
            ("[[:^digit:]]", "a", "1"),
            ("[:a]+", ":a", "b"),
            ("[[:a]+", "[:a", "b"),
            // What precedes or follows is any text, unless flags say otherwise.
            (".*b(c).*", "a\nbc\n", "ac"),
            ("b.*", "b\n", "ab"),
            (".*b", "\nab", "ba"),
            (".*a|b.*", "bc", "cb"),
            (".*(?-s)a.*", "\nab", "ab\n"),
            ("(?:(?-s)a.*)", "ab", "a\n"),
            (".*^a.*", "ab", "ba"),
            // Escapes.
            (r"\<a\>", "<a>", "a"),
            (r"\_\-\ \/\@\#", "_- /@#", "_"),
            (r"\Qa.b{\E+", "a.b{{", "a.b"),
            (r"\Q[", "[", "x"),
            (r"\101\0", "A\0", "1"),
            (r"\x{e9}\xe9", "éé", "x"),
            (r"\p{^Greek}", "a", "α"),
            (r"\P{^Greek}\pL", "αb", "ab"),
            (r"(?P<a>x)(?<b>y)(?:z)(?i:w)", "xyzW", "xyz"),
        ] {
            assert!(matches(pattern, same), "{pattern} and {same:?}");
            assert!(!matches(pattern, other), "{pattern} and {other:?}");
        }
    }

    #[test]
    fn what_is_invalid_stays_invalid() {
        let patterns = r"( ) [ [a [] [^] * {2} a{2,1} [b-a] [a--] [a-\d] [+-\d] \1 \8 \q \E \ [\b] \x{110000} \xg \p{Nothing} \p \C \Z";
        for pattern in patterns.split(' ').chain(["a)|(?:b", "(?P<a", r"[\Q]\E]"]) {
            assert!(Matcher::new(MatchKind::Matches, "x", pattern).is_err(), "{pattern}");
        }
    }
}
