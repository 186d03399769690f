//! Regular expressions with Python's semantics: anchored matching and substitution.

use std::sync::Arc;

use fancy_regex::{Captures, Regex, RegexBuilder};

use super::{DefinitionError, LookupError};

/// Maximum backtracking steps of one match; beyond them the match fails with an error.
const BACKTRACKS_MAX: usize = 100_000;

/// A longer expression is rejected.
const PATTERN_BYTES_MAX: usize = 4096;

/// Maximum bytes of a substitution's result.
const SUBSTITUTED_BYTES_MAX: usize = 1 << 20;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    /// Anchored at the beginning.
    prefix: Arc<Regex>,
    anywhere: Arc<Regex>,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(DefinitionError(format!(
                "a regular expression of more than {PATTERN_BYTES_MAX} bytes"
            )));
        }
        let compile = |text: &str| {
            let compiled = RegexBuilder::new(text).backtrack_limit(BACKTRACKS_MAX).build();
            compiled.map(Arc::new).map_err(|error| DefinitionError(format!("{text:?}: {error}")))
        };
        let anywhere = compile(text)?;
        let prefix = compile(&format!("\\A(?:{text})"))?;
        Ok(Pattern { text: text.to_owned(), prefix, anywhere })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// `re.match`: whether it matches at the beginning of a text.
    pub fn matches(&self, text: &str) -> Result<bool, LookupError> {
        self.prefix.is_match(text).map_err(|error| self.failed(&error))
    }

    /// `re.sub`: replaces all matches.
    pub fn substitute(&self, replacement: &Replacement, text: &str) -> Result<String, LookupError> {
        let mut out = String::new();
        let (mut copied, mut from) = (0, 0);
        while from <= text.len() {
            let found = self.anywhere.captures_from_pos(text, from).map_err(|error| self.failed(&error))?;
            let Some(captures) = found else { break };
            let Some(whole) = captures.get(0) else { break };
            out.push_str(&text[copied..whole.start()]);
            replacement.write(&captures, &mut out);
            if out.len() > SUBSTITUTED_BYTES_MAX {
                return Err(LookupError(format!("a text of more than {SUBSTITUTED_BYTES_MAX} bytes")));
            }
            copied = whole.end();
            // After an empty match the search goes on at the next character.
            let is_empty = whole.start() == whole.end();
            let next = text[whole.end()..].chars().next();
            from = whole.end() + if is_empty { next.map_or(1, char::len_utf8) } else { 0 };
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Ok(out)
    }

    fn failed(&self, error: &fancy_regex::Error) -> LookupError {
        LookupError(format!("the regular expression {:?}: {error}", self.text))
    }

    fn groups(&self) -> Vec<Option<String>> {
        self.anywhere.capture_names().map(|name| name.map(str::to_owned)).collect()
    }
}

/// A replacement template: texts and groups.
#[derive(Clone, Debug)]
pub struct Replacement(Vec<TemplatePart>);

#[derive(Clone, Debug)]
enum TemplatePart {
    Text(String),
    Group(usize),
}

impl Replacement {
    /// Parses a template: `\1`, `\g<1>`, `\g<name>` and escapes.
    pub fn parse(text: &str, pattern: &Pattern) -> Result<Self, DefinitionError> {
        let groups = pattern.groups();
        let bad = |what: &str| DefinitionError(format!("the replacement {text:?}: {what}"));
        let group = |number: usize| {
            (number < groups.len())
                .then_some(TemplatePart::Group(number))
                .ok_or_else(|| bad("there is no such group"))
        };
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            parts.push(TemplatePart::Text(rest[..at].to_owned()));
            rest = &rest[at + 1..];
            let escape = rest.chars().next().ok_or_else(|| bad("a backslash before nothing"))?;
            rest = &rest[escape.len_utf8()..];
            parts.push(match escape {
                'g' => {
                    let (name, behind) = rest
                        .strip_prefix('<')
                        .and_then(|rest| rest.split_once('>'))
                        .ok_or_else(|| bad("a group has the form \\g<name>"))?;
                    rest = behind;
                    let named = || groups.iter().position(|group| group.as_deref() == Some(name));
                    let number =
                        name.parse().ok().or_else(named).ok_or_else(|| bad("there is no such group"))?;
                    group(number)?
                }
                '1'..='9' => {
                    let second = rest.bytes().next().filter(u8::is_ascii_digit);
                    let digits = usize::from(second.is_some());
                    let number = format!("{escape}{}", &rest[..digits]);
                    rest = &rest[digits..];
                    group(number.parse().map_err(|_| bad("a group without sense"))?)?
                }
                'n' => TemplatePart::Text("\n".to_owned()),
                'r' => TemplatePart::Text("\r".to_owned()),
                't' => TemplatePart::Text("\t".to_owned()),
                '\\' => TemplatePart::Text("\\".to_owned()),
                _ if escape.is_ascii_alphanumeric() => return Err(bad("an unknown escape")),
                _ => TemplatePart::Text(format!("\\{escape}")),
            });
        }
        parts.push(TemplatePart::Text(rest.to_owned()));
        Ok(Replacement(parts))
    }

    fn write(&self, captures: &Captures<'_, str>, out: &mut String) {
        for part in &self.0 {
            match part {
                TemplatePart::Text(text) => out.push_str(text),
                TemplatePart::Group(number) => {
                    out.push_str(captures.get(*number).map_or("", |group| group.as_str()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_is_from_the_beginning() {
        let matches = |pattern: &str, text: &str| Pattern::parse(pattern).unwrap().matches(text).unwrap();
        let instances = "compute.instance.(?!create.start|update).*";
        for (event_type, expected) in [
            ("compute.instance.create.end", true),
            ("compute.instance.exists", true),
            ("compute.instance.update", false),
            ("compute.instance.create.start", false),
            ("x.compute.instance.exists", false),
        ] {
            assert_eq!(matches(instances, event_type), expected, "{event_type}");
        }
        assert!(matches("a|b", "bc") && !matches("a|b", "cb"));
    }

    #[test]
    fn substitutions_are_those_of_python() {
        for (pattern, replacement, text, expected) in [
            (".*", "", "success", ""),
            ("b*", "-", "abc", "-a--c-"),
            ("(a)(?P<x>b)", r"\2\g<x>\1\n", "abab", "bba\nbba\n"),
            ("x", "-", "äxö", "ä-ö"),
            ("", "-", "äö", "-ä-ö-"),
        ] {
            let pattern = Pattern::parse(pattern).unwrap();
            let replacement = Replacement::parse(replacement, &pattern).unwrap();
            assert_eq!(pattern.substitute(&replacement, text).unwrap(), expected, "{pattern:?}");
        }
        assert!(Replacement::parse(r"\1", &Pattern::parse("a").unwrap()).is_err());
    }

    #[test]
    fn an_expression_that_runs_away_is_stopped() {
        let pattern = Pattern::parse(r"(?=(a+)+$)(a|aa)+\1b").unwrap();
        assert!(pattern.matches(&"a".repeat(60)).is_err());
    }
}
