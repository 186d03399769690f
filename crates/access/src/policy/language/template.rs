//! The right side of a check: a text in which `%(name)s` is replaced by the target's attribute.

use super::Facts;

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// The target's attribute of this name.
    Attribute(String),
}

impl Template {
    /// Parses a format string of Python's `%` operator; only `%(name)s` and `%%`.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            plain.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix('%') {
                plain.push('%');
                rest = behind;
                continue;
            }
            let (name, behind) = name_in(rest).ok_or_else(|| {
                format!("`{text}`: a `%` stands before `(name)s`, or is written twice to mean itself")
            })?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Attribute(name.to_owned()));
            rest = behind;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template(pieces))
    }

    /// The names of the placeholders.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Attribute(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Calls `test` with the formatted text; `false` if the target lacks an attribute. A single text or name
    /// needs no allocation.
    pub fn with(&self, facts: &impl Facts, test: impl FnOnce(&str) -> bool) -> bool {
        match &self.0[..] {
            [] => test(""),
            [Piece::Text(text)] => test(text),
            [Piece::Attribute(name)] => facts.target(name).is_some_and(|value| test(&value)),
            pieces => {
                let mut filled = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => filled.push_str(text),
                        Piece::Attribute(name) => match facts.target(name) {
                            Some(value) => filled.push_str(&value),
                            None => return false,
                        },
                    }
                }
                test(&filled)
            }
        }
    }
}

/// Parses `(name)s`, with nested parentheses, to the name and the rest.
fn name_in(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('(')?;
    let mut open = 1;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'(' => open += 1,
            b')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return inner[at + 1..].strip_prefix('s').map(|behind| (&inner[..at], behind));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_doubled_signs_are_filled_in() {
        let pieces = |text| Template::read(text).map(|template| template.0).map_err(drop);
        let name = |name: &str| Piece::Attribute(name.to_owned());
        let plain = |text: &str| Piece::Text(text.to_owned());
        assert_eq!(pieces(""), Ok(vec![]));
        assert_eq!(pieces("admin"), Ok(vec![plain("admin")]));
        assert_eq!(pieces("100%%"), Ok(vec![plain("100%")]));
        assert_eq!(pieces("%(a.b)s"), Ok(vec![name("a.b")]));
        assert_eq!(pieces("x%(a(b))s-%()s"), Ok(vec![plain("x"), name("a(b)"), plain("-"), name("")]));
        for text in ["%", "%s", "%(a)", "%(a)d", "%(as", "50% of it"] {
            assert_eq!(pieces(text), Err(()), "{text}");
        }
    }
}
