//! One check, `kind:match`: compares an attribute of the caller with a text or an attribute of the target.

use gnudi_model::python::{int_of_text, text_of_float};

use super::{Facts, template::Template};

/// A check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// `role:`: the caller has the role; ignores case.
    Role(Template),
    /// `rule:`: another rule allows it.
    Rule(String),
    /// An attribute of the caller equals the text.
    Caller { field: CallerField, text: Template },
    /// A literal in the rule equals the text.
    Literal { value: Literal, text: Template },
}

/// The path of a caller's attribute, outermost name first: `a.b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerField(pub Vec<String>);

/// A Python literal, formatted as Python prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal(pub String);

impl Check {
    /// Parses a check other than `@` and `!`.
    pub fn read(text: &str) -> Result<Self, String> {
        let Some((kind, right)) = text.split_once(':') else {
            return Err(format!("`{text}` is no check: it has no colon"));
        };
        if matches!(kind, "http" | "https") {
            return Err(format!(
                "`{kind}:` calls an external server for each request, which gnudi does not support: write an equivalent rule"
            ));
        }
        if kind == "rule" {
            return Ok(Check::Rule(right.to_owned()));
        }
        let text = Template::read(right)?;
        if kind == "role" {
            return Ok(Check::Role(text));
        }
        Ok(match Literal::read(kind)? {
            Some(value) => Check::Literal { value, text },
            None => Check::Caller { field: CallerField(kind.split('.').map(str::to_owned).collect()), text },
        })
    }

    /// Evaluates the check; `None` for `rule:`, which the program evaluates.
    pub fn holds(&self, facts: &impl Facts) -> Option<bool> {
        Some(match self {
            Check::Rule(_) => return None,
            Check::Role(role) => role.with(facts, |role| facts.has_role(role)),
            Check::Literal { value, text } => text.with(facts, |text| value.0 == text),
            Check::Caller { field, text } => text.with(facts, |text| facts.caller_has(&field.0, text)),
        })
    }

    /// The target's attributes that the check uses.
    pub fn attributes(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Check::Rule(_) => Box::new(std::iter::empty()),
            Check::Role(text) | Check::Literal { text, .. } | Check::Caller { text, .. } => {
                Box::new(text.attributes())
            }
        }
    }
}

impl Literal {
    /// Parses a literal; `None` if it is an attribute's name. Literals that no attribute can equal are
    /// errors: lists, bytes, escapes.
    fn read(kind: &str) -> Result<Option<Self>, String> {
        let refuse = || {
            Err(format!(
                "`{kind}` is no literal: there are texts in quotes, whole numbers, numbers, True, False and None"
            ))
        };
        if matches!(kind, "True" | "False" | "None") {
            return Ok(Some(Literal(kind.to_owned())));
        }
        if let Some(quote) = kind.chars().next().filter(|first| matches!(first, '\'' | '"')) {
            let inner =
                kind[1..].strip_suffix(quote).filter(|inner| !inner.contains([quote, '\\', '\n', '\r']));
            return inner.map_or_else(refuse, |inner| Ok(Some(Literal(inner.to_owned()))));
        }
        if kind.contains(['\'', '"', '[', ']', '{', '}', '(', ')']) {
            return refuse();
        }
        if !kind.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
            return Ok(None);
        }
        Self::number(kind).map_or_else(refuse, |number| Ok(Some(number)))
    }

    fn number(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if plain(unsigned) {
            let has_leading_zero =
                unsigned.len() > 1 && unsigned.starts_with('0') && unsigned.bytes().any(|b| b != b'0');
            let number = int_of_text(text).filter(|_| !has_leading_zero)?;
            return Some(Literal(number.to_string()));
        }
        let is_float = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
            && unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
        let number: f64 = text.parse().ok().filter(|_| is_float)?;
        Some(Literal(text_of_float(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_left_side_is_a_literal_or_a_name() {
        let literal =
            |kind| Literal::read(kind).map(|literal| literal.map(|Literal(text)| text)).map_err(drop);
        for (kind, text) in [
            ("'Member'", "Member"),
            ("\"it's\"", "it's"),
            ("True", "True"),
            ("-12", "-12"),
            ("+7", "7"),
            ("1e3", "1000.0"),
            (".5", "0.5"),
            ("000", "0"),
            ("''", ""),
        ] {
            assert_eq!(literal(kind), Ok(Some(text.to_owned())), "{kind}");
        }
        for kind in ["user_id", "a.b", "true", "e5", "user-id", "", "project"] {
            assert_eq!(literal(kind), Ok(None), "{kind}");
        }
        for kind in ["'a", "b'a'", "[1]", "007", "1x", "'a''b'", r"'\n'", "...", "1j", "-", "inf()"] {
            assert_eq!(literal(kind), Err(()), "{kind}");
        }
    }
}
